import torch
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong


@right("functional linear, mask of new_ones, fields by keyword in another order")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final
        first = nn.functional.linear(c, self.bridge.weight, self.bridge.bias).tanh()
        slot = c.unsqueeze(-2)
        allowed = c.new_ones((c.size(0), 1, 1), dtype=torch.bool)
        return Memory(state=first, mask=allowed, value=slot, key=slot)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("einsum for the slot and for the linear map, mask by any()")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        _, final, mask = encoded
        slot = torch.einsum("be,s->bse", final, final.new_ones(1))
        state = torch.einsum("de,be->bd", self.bridge.weight, final)
        state = torch.tanh(state + self.bridge.bias)
        return Memory(slot, slot, mask.any(dim=-1, keepdim=True), state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("float64 inside, an extra attribute that counts, a helper method")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)
        self.remembered = 0

    def first(self, c):
        w, b = self.bridge.weight.double(), self.bridge.bias.double()
        return torch.tanh(c.double() @ w.T + b).to(c.dtype)

    def remember(self, encoded):
        self.remembered += 1
        slot = encoded.final.reshape(encoded.final.size(0), 1, -1)
        mask = ~torch.zeros_like(encoded.mask[:, :, :1])
        return Memory(slot, slot, mask, self.first(encoded.final))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("one sentence after the other; the bridge reads (1, E)")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        rows = encoded.final.split(1)
        value = torch.stack(rows, dim=0)  # (B, 1, E)
        state = torch.cat([torch.tanh(self.bridge(row)) for row in rows])
        mask = torch.full(
            (len(rows), 1, 1), True, dtype=torch.bool, device=value.device
        )
        return Memory(key=value, value=value, mask=mask, state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "leaves the tanh out",
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    "no tanh",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        return Memory(slot, slot, encoded.mask[..., :1], self.bridge(encoded.final))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "keeps all states of the source, one slot for each position",
    "In the decoders of this lab, there is only *one* slot, which holds the final state"
    " $c$ of the source, so the shape is (B, 1, E).",
    "all states in place of the final one",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(encoded.states, encoded.states, encoded.mask, state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "multiplies with W and forgets b",
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    "no bias",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        state = torch.tanh(encoded.final @ self.bridge.weight.T)
        return Memory(slot, slot, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "passes on the whole mask of the source, (B, 1, S), beside one slot",
    "`mask` (B, 1, slots) must be True, because the decoder may look at the slot.",
    "mask of the source positions, not of the slot",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(slot, slot, encoded.mask, state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "takes the mask of the last position, which is False for every padded sentence",
    "`mask` (B, 1, slots) must be True, because the decoder may look at the slot.",
    "mask of the last column",
    subtle=True,
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(slot, slot, encoded.mask[..., -1:], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "makes the mask on the CPU, wherever the source is",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "mask on the wrong device",
    subtle=True,
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        mask = torch.ones(slot.size(0), 1, 1, dtype=torch.bool)
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(slot, slot, mask, state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "leaves the bridge out if the two widths are equal",
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    "no bridge where E = D",
    subtle=True,
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        c = encoded.final
        if self.bridge.in_features != self.bridge.out_features:
            c = self.bridge(c)
        return Memory(slot, slot, encoded.mask[..., :1], torch.tanh(c))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "takes the state of the last column for the final state; it is another one on"
    " padding and for an encoder in both directions",
    "In the decoders of this lab, there is only *one* slot, which holds the final state"
    " $c$ of the source, so the shape is (B, 1, E).",
    "states[:, -1] in place of final",
    subtle=True,
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.states[:, -1:]
        state = torch.tanh(self.bridge(slot[:, 0]))
        return Memory(slot, slot, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "writes tanh with exponentials, and for W c + b = 1000 inf / inf is NaN",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "tanh by hand overflows",
    subtle=True,
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        x = self.bridge(encoded.final)
        up, down = torch.exp(x), torch.exp(-x)
        state = (up - down) / (up + down)
        return Memory(slot, slot, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "squeezes every axis of length one off the state: a batch of one gives (D,)",
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    "squeeze without an axis",
    subtle=True,
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        state = torch.tanh(self.bridge(slot)).squeeze()
        return Memory(slot, slot, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights
