import torch
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong


@right("matrix product by hand, a fresh mask of ones, fields in another order")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        c = encoded.final
        state = torch.addmm(self.bridge.bias, c, self.bridge.weight.t()).tanh()
        slot = c.unsqueeze(1)
        allowed = torch.ones(c.size(0), 1, 1, dtype=torch.bool, device=c.device)
        return Memory(state=state, mask=allowed, key=slot, value=slot)


@right("the bridge reads the slot, the mask asks whether the source has any token")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        slot = torch.stack([encoded.final], dim=1)
        return Memory(
            value=slot,
            key=slot,
            mask=encoded.mask.any(dim=-1, keepdim=True),
            state=torch.tanh(self.bridge(slot)).flatten(1),
        )


@right("one source at a time, put together at the end")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        first = [torch.tanh_(self.bridge(c)) for c in encoded.final]
        slots = torch.cat([c.reshape(1, 1, -1) for c in encoded.final], dim=0)
        return Memory(
            mask=torch.full_like(slots[..., :1], True, dtype=torch.bool),
            value=slots,
            state=torch.stack(first),
            key=slots,
        )


def _affine_tanh(layer, vectors):
    return (vectors[:, None] * layer.weight).sum(dim=-1).add(layer.bias).tanh()


@right("the linear layer as a product and a sum, the slot as a view of the final state")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        batch, width = encoded.final.shape
        fields = {"value": encoded.final.reshape(batch, 1, width)}
        fields["key"] = fields["value"]
        fields["state"] = _affine_tanh(self.bridge, encoded.final)
        fields["mask"] = encoded.mask.narrow(-1, 0, 1)
        return Memory(**fields)


@wrong(
    "no axis for the slots: value and key are (B, E)",
    "In the decoders of this lab, there is only *one* slot, which holds the final state"
    " $c$ of the source, so the shape is (B, 1, E).",
    "axis of the slots missing",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        c = encoded.final
        state = torch.tanh(self.bridge(c))
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=state)


@wrong(
    "the first state is W c + b without tanh",
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    "tanh forgotten",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        slot = encoded.final[:, None]
        return Memory(
            value=slot,
            key=slot,
            mask=encoded.mask[..., :1],
            state=self.bridge(encoded.final),
        )


@wrong(
    "keeps the states of all tokens instead of the final one",
    "In the decoders of this lab, there is only *one* slot, which holds the final state"
    " $c$ of the source, so the shape is (B, 1, E).",
    "a slot for every token",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        return Memory(
            value=encoded.states,
            key=encoded.states,
            mask=encoded.mask,
            state=torch.tanh(self.bridge(encoded.final)),
        )


@wrong(
    "takes the mask of the last column, which is False for every padded source",
    "`mask` (B, 1, slots) must be True, because the decoder may look at the slot.",
    "mask of the last column",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        slot = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=slot, key=slot, mask=encoded.mask[..., -1:], state=state)


@wrong(
    "squeeze without an axis drops B or D from the state if it is one",
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    "squeeze drops too many axes",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        slot = encoded.final[:, None]
        state = torch.tanh(self.bridge(slot)).squeeze()
        return Memory(value=slot, key=slot, mask=encoded.mask[..., :1], state=state)


@wrong(
    "the mask is made on the CPU, wherever the encoder's states are",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "mask on the wrong device",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        slot = encoded.final[:, None]
        mask = torch.ones(slot.size(0), 1, 1, dtype=torch.bool)
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=slot, key=slot, mask=mask, state=state)


@wrong(
    "one mask (1, 1, 1) for the whole batch instead of one for each source",
    "`mask` (B, 1, slots) must be True, because the decoder may look at the slot.",
    "mask without the axis of the batch",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        slot = encoded.final[:, None]
        mask = encoded.mask.new_ones(1, 1, 1)
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=slot, key=slot, mask=mask, state=state)


@wrong(
    "tanh written with exp, which overflows to inf / inf = NaN for large numbers",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "tanh overflows",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        slot = encoded.final[:, None]
        z = self.bridge(encoded.final)
        up, down = z.exp(), (-z).exp()
        return Memory(
            value=slot,
            key=slot,
            mask=encoded.mask[..., :1],
            state=(up - down) / (up + down),
        )


@wrong(
    "unsqueeze_ gives the caller's own encoded.final a new axis",
    "Do not change the inputs.",
    "changes the shape of encoded.final in place",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        state = torch.tanh(self.bridge(encoded.final))
        slot = encoded.final.unsqueeze_(1)
        return Memory(value=slot, key=slot, mask=encoded.mask[..., :1], state=state)


@wrong(
    "returns the old memory for an encoded source with a known id, although the weights"
    " may have changed or another object may have got the id",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "stale memory from an earlier call",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        if getattr(self, "known", None) != id(encoded):
            slot = encoded.final[:, None]
            state = torch.tanh(self.bridge(encoded.final))
            self.memory = Memory(
                value=slot, key=slot, mask=encoded.mask[..., :1], state=state
            )
            self.known = id(encoded)
        return self.memory
