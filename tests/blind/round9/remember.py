import torch
from torch import nn
from torch.nn import functional as F

from attention_course.seq2seq import Encoded, Memory
from blind import right, wrong


@right("keyword fields in another order, mask from torch.ones, F.linear")
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final
        slot = c.unsqueeze(1)
        h0 = F.linear(c, self.bridge.weight, self.bridge.bias).tanh()
        allowed = torch.ones(c.shape[0], 1, 1, dtype=torch.bool, device=c.device)
        return Memory(state=h0, mask=allowed, value=slot, key=slot)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("the mask is any() over the tokens, the state is computed from the slot")
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None, :]
        h0 = torch.tanh(self.bridge(slot)).flatten(1)
        return Memory(slot, slot, encoded.mask.any(dim=-1, keepdim=True), h0)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("torch.stack for the slot, full_like for the mask, nn.Sequential")
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded, slots=1):
        slot = torch.stack([encoded.final] * slots, dim=1)
        mask = torch.full_like(encoded.mask[:, :, :slots], True)
        state = nn.Sequential(self.bridge, nn.Tanh())(encoded.final)
        return Memory(slot, slot, mask, state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("a loop over the sentences, with helpers of its own")
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def _first_state(self, c):
        return torch.tanh(self.bridge(c))

    def remember(self, encoded):
        slot = torch.cat([row.reshape(1, 1, -1) for row in encoded.final])
        yes = [[[True]] for _ in range(slot.size(0))]
        mask = torch.tensor(yes, device=slot.device)
        return Memory(slot, slot, mask, self._first_state(encoded.final))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "The mask is the encoder's whole mask (B, 1, S): wrong shape for sources with more than one position, and False on padding.",
    "`mask` (B, 1, slots) must be True, because the decoder may look at the slot.",
    "passes on the source's mask instead of the slot's",
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

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
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "The first state is the bare linear layer; it differs for every nonzero state.",
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    "forgot the tanh",
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

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
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "The slot is the state in the last column, which is padding for every short sentence, and the forward/backward mix in a bidirectional encoder.",
    "In this lab, there is only *one* slot, and it holds the final state $c$ of the source.",
    "takes the last column instead of the final state",
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.states[:, -1:]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(slot, slot, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "squeeze() drops the batch axis too: for a batch of one sentence the state is (D,), for D = 1 it is (B,).",
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    "squeeze without an axis loses axes of length one",
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

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
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "tanh written with exponentials: inf / inf gives NaN when W c + b is above about 89.",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "hand-written tanh overflows for large numbers",
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        z = self.bridge(encoded.final)
        state = (z.exp() - (-z).exp()) / (z.exp() + (-z).exp())
        return Memory(slot, slot, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "unsqueeze_ changes the shape of encoded.final itself from (B, E) to (B, 1, E).",
    "Do not change the inputs.",
    "in-place unsqueeze changes the caller's tensor",
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        state = torch.tanh(self.bridge(encoded.final))
        slot = encoded.final.unsqueeze_(1)
        return Memory(slot, slot, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "The mask is made on the CPU; with an encoder on a GPU it is on another device than the slot.",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "mask is created on the CPU",
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

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
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "If encoder and decoder are equally wide, the bridge is skipped and the state is c itself; right whenever the widths differ.",
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    "skips the bridge when the widths are equal",
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final
        state, slot = c, c[:, None]
        if c.size(-1) != self.bridge.out_features:
            state = torch.tanh(self.bridge(c))
            slot = c[:, None]
        return Memory(slot, slot, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "The mask is True where the slot is not all zeros, so a source whose final state is exactly zero is forbidden.",
    "`mask` (B, 1, slots) must be True, because the decoder may look at the slot.",
    "guesses the mask from the values",
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        mask = slot.ne(0).any(dim=-1)[:, None]
        return Memory(slot, slot, mask, torch.tanh(self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "A memory is kept for every final tensor seen, shared by all decoders: after a change of the weights, or with a second decoder, the old state comes back.",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "caches memories in a class attribute",
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    _seen = {}

    def remember(self, encoded):
        c = encoded.final
        if id(c) not in self._seen:
            state = torch.tanh(self.bridge(c))
            slot = c[:, None]
            memory = Memory(slot, slot, encoded.mask[..., :1], state)
            # keeping c alive keeps its id from being used again
            self._seen[id(c)] = (c, memory)
        return self._seen[id(c)][1]

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights
