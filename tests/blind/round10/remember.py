import torch
import torch.nn.functional as F
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong


@right('the linear layer written out with addmm, the mask with any()')
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final.unsqueeze(1)
        state = torch.addmm(self.bridge.bias, encoded.final, self.bridge.weight.T).tanh()
        return Memory(value=slot, key=slot, mask=encoded.mask.any(dim=-1, keepdim=True), state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('bridges the slot (B, 1, E) and drops the axis afterwards; the mask is made by ones_like')
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        B, E = encoded.final.shape
        value = encoded.final.reshape(B, 1, E)
        mask = torch.ones_like(value[..., :1], dtype=torch.bool)
        return Memory(key=value, value=value, state=self.bridge(value).tanh()[:, 0, :], mask=mask)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('stacks the finals of a loop over the sentences, and computes h0 sentence by sentence')
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        rows = list(encoded.final)
        c = torch.stack(rows)[:, None, :]
        h0 = torch.stack([torch.tanh(self.bridge(row)) for row in rows])
        yes = torch.full((len(rows), 1, 1), True, device=c.device)
        return Memory(value=c, key=c, mask=yes, state=h0)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('functional style, fields collected in a dict, einsum for the bridge')
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        fields = dict.fromkeys(("value", "key"), torch.stack((encoded.final,), dim=1))
        fields["mask"] = encoded.mask.narrow(-1, 0, 1)
        projected = torch.einsum("be,de->bd", encoded.final, self.bridge.weight)
        fields["state"] = torch.tanh(projected + self.bridge.bias)
        return Memory(**fields)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'the first state has no tanh',
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    'forgets the tanh',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=self.bridge(encoded.final))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'keeps the states of all positions as slots, with their padding mask',
    'In this lab, there is only *one* slot, and it holds the final state $c$ of the source. So the shape is (B, 1, E).',
    'a slot for every token instead of one',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        return Memory(
            value=encoded.states,
            key=encoded.states,
            mask=encoded.mask,
            state=torch.tanh(self.bridge(encoded.final)),
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'keeps the mask of all source positions (B, 1, S) although there is one slot',
    '`mask` (B, 1, slots) must be True, because the decoder may look at the slot.',
    'mask of the source instead of the slot',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        return Memory(
            value=value, key=value, mask=encoded.mask, state=torch.tanh(self.bridge(encoded.final))
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "the slot's mask is taken from the last column: False for every sentence that is padded there",
    '`mask` (B, 1, slots) must be True, because the decoder may look at the slot.',
    'mask from the last column, False on padding',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        return Memory(
            value=value,
            key=value,
            mask=encoded.mask[..., -1:],
            state=torch.tanh(self.bridge(encoded.final)),
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'squeeze() without an axis: with one sentence (or a state of width one) the state loses an axis',
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    'squeezes away the batch axis of one sentence',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(value)).squeeze()
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "unsqueeze_ in place: the caller's encoded.final becomes (B, 1, E)",
    'Do not change the inputs.',
    "unsqueezes the encoder's result in place",
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
        value = encoded.final.unsqueeze_(1)
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'tanh written with exponentials: inf / inf = NaN as soon as W c + b is large',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'own tanh overflows for large numbers',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        grown = torch.exp(2 * self.bridge(encoded.final))
        state = (grown - 1) / (grown + 1)
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'skips the bridge if encoder and decoder have the same width: wrong exactly for E = D',
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    'no bridge when both widths are equal',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        c = encoded.final
        if self.bridge.in_features != self.bridge.out_features:
            c = self.bridge(c)
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=torch.tanh(c))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'takes c from the last column of the states: equal to final only if no sentence is padded',
    'In this lab, there is only *one* slot, and it holds the final state $c$ of the source. So the shape is (B, 1, E).',
    'takes c from the last column of states',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.states[:, -1:]
        state = torch.tanh(self.bridge(value[:, 0]))
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'keeps the first h0 and returns it again for every later source with as many sentences',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'remembers the state of an earlier source',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        h0 = getattr(self, "h0", None)
        if h0 is None or h0.size(0) != value.size(0):
            self.h0 = h0 = torch.tanh(self.bridge(encoded.final))
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=h0)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights
