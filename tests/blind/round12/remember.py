import torch
import torch.nn.functional as F
from torch import nn

from attention_course.seq2seq import Memory

from blind import right, wrong


# ---------------------------------------------------------------- wrong answers


@wrong(
    "no tanh",
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    "tanh missing",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        state = self.bridge(encoded.final)
        return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "keeps a slot for every token",
    "In the decoders of this lab, there is only *one* slot, which holds the final state"
    " $c$ of the source, so the shape is (B, 1, E).",
    "all states kept",
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
    "key and value have no axis for the slots",
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

    def remember(self, encoded):
        c = encoded.final
        state = torch.tanh(self.bridge(c))
        return Memory(key=c, value=c, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "the key is the projected state",
    "With one slot there is nothing to choose, so use the same tensor as for `value`.",
    "key projected",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(
            key=self.bridge(encoded.final)[:, None],
            value=encoded.final[:, None],
            mask=encoded.mask[..., :1],
            state=state,
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "takes the last column of the mask, which is False for a padded sentence",
    "`mask` (B, 1, slots) must be True, because the decoder may look at the slot.",
    "last column of the mask",
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
        return Memory(key=slot, value=slot, mask=encoded.mask[..., -1:], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "makes the mask on the CPU",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "mask on the CPU",
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
        return Memory(slot, slot, mask, torch.tanh(self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "remembers the first source for good and returns it again",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "memory of the first call kept",
    subtle=True,
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)
        self.memory = None

    def remember(self, encoded):
        if self.memory is None:
            slot = encoded.final[:, None]
            state = torch.tanh(self.bridge(encoded.final))
            self.memory = Memory(slot, slot, encoded.mask[..., :1], state)
        return self.memory

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "cuts the slot off from the encoder, so only the first state passes a gradient back",
    "Gradients must be right, too.",
    "slot detached",
    subtle=True,
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final.detach()[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "squeeze() without an axis: with one sentence, the state loses the batch's axis too",
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    "squeeze of all axes",
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
        return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "gives the caller's `final` another axis in place",
    "Do not change the inputs.",
    "shape of final changed in place",
    subtle=True,
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        state = torch.tanh(self.bridge(encoded.final))
        slot = encoded.final.unsqueeze_(1)
        return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


# ---------------------------------------------------------------- right answers


@right("the mask is any() of the encoder's, and the state comes from the slot")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final.unsqueeze(1)
        mask = encoded.mask.any(dim=-1, keepdim=True)
        return Memory(value, value, mask, self.bridge(value).tanh().select(1, 0))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("the linear layer in float64, rounded once at the end")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final
        weight, bias = self.bridge.weight.double(), self.bridge.bias.double()
        state = torch.tanh(F.linear(c.double(), weight, bias)).to(c.dtype)
        mask = torch.ones(len(c), 1, 1, dtype=torch.bool, device=c.device)
        slot = c.view(c.size(0), 1, c.size(1))
        return Memory(state=state, mask=mask, value=slot, key=slot)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("einsum for the bridge; the mask is ones > 0, made from the slot")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        _, c, _ = encoded
        h = torch.einsum("be,de->bd", c, self.bridge.weight) + self.bridge.bias
        slot = torch.stack([c], dim=1)
        may_look = torch.ones_like(slot[..., :1]) > 0
        return Memory(slot, slot, may_look, torch.tanh(h))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("a helper method that goes row by row, and a Memory that is filled field by field")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def first_state(self, c):
        rows = [self.bridge.weight @ vector + self.bridge.bias for vector in c]
        return torch.stack(rows).tanh()

    def remember(self, encoded):
        fields = {"state": self.first_state(encoded.final)}
        fields["value"] = encoded.final[:, None, :]
        fields["key"] = fields["value"]
        fields["mask"] = encoded.mask.narrow(2, 0, 1)
        return Memory(**fields)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights
