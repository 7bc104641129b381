import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded, Memory
from blind import right, wrong


@right("bridges the slot, and asks whether the source has any token")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final.unsqueeze(1)
        state = self.bridge(value).tanh().squeeze(1)
        return Memory(value, value, encoded.mask.any(dim=-1, keepdim=True), state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("one source after the other, collected in lists and zipped")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        rows = []
        for c in encoded.final.unbind(0):
            h = torch.tanh(self.bridge.weight.mv(c) + self.bridge.bias)
            rows.append(
                (c[None], c[None], torch.ones_like(c[:1], dtype=torch.bool)[None], h)
            )
        key, value, mask, state = (torch.stack(field) for field in zip(*rows))
        return Memory(key=key, value=value, mask=mask, state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("einsum in float64, the key is a copy of the value, and the mask a new tensor")
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final
        weight, bias = self.bridge.weight.double(), self.bridge.bias.double()
        state = torch.tanh(torch.einsum("de,be->bd", weight, c.double()) + bias)
        value = torch.stack([c], dim=1)
        mask = torch.full((len(c), 1, 1), True, device=c.device)
        return Memory(
            state=state.to(c.dtype), mask=mask, value=value, key=value.clone()
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right(
    "vectors as columns, the bias as one more weight, and tanh from sigmoids in float64"
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final
        one = c.new_ones(c.size(0), 1)
        weight = torch.cat([self.bridge.weight, self.bridge.bias[:, None]], dim=1)
        columns = weight.double() @ torch.cat([c, one], dim=1).double().T
        state = torch.sigmoid(2 * columns) - torch.sigmoid(-2 * columns)
        slot = c[:, None]
        return Memory(slot, slot, encoded.mask[..., :1], state.T.to(c.dtype))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "forgets the tanh",
    breaks="`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    name="no tanh",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        return Memory(value, value, encoded.mask[..., :1], self.bridge(encoded.final))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "keeps a slot for every token",
    breaks="In the decoders of this lab, there is only *one* slot, which holds the final state $c$ of the source, so the shape is (B, 1, E).",
    name="keeps all states",
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
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "takes the last column of the mask, which is False if there is padding",
    breaks="`mask` (B, 1, slots) must be True, because the decoder may look at the slot.",
    name="mask from the last column",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value, value, encoded.mask[..., -1:], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "uses the bridged state as the key",
    breaks="With one slot there is nothing to choose, so use the same vector as for `value`.",
    name="key is the bridged state",
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
            state[:, None], encoded.final[:, None], encoded.mask[..., :1], state
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "takes the last column of the states for the final state",
    breaks="In the decoders of this lab, there is only *one* slot, which holds the final state $c$ of the source, so the shape is (B, 1, E).",
    name="last column instead of the final state",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.states[:, -1:]
        state = torch.tanh(self.bridge(value[:, 0]))
        return Memory(value, value, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "skips the bridge if both widths are equal",
    breaks="`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    name="no bridge for equal widths",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        state = encoded.final
        if self.bridge.in_features != self.bridge.out_features:
            state = torch.tanh(self.bridge(state))
        return Memory(value, value, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "detaches the slot, so the encoder learns only through the first state",
    breaks="Gradients must be right, too.",
    name="no gradient through the slot",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final.detach()[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value, value, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "writes tanh with exponentials, which gives inf / inf for large numbers",
    breaks="An exponential, however, may overflow.",
    name="tanh that overflows",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        up = torch.exp(self.bridge(encoded.final))
        down = torch.exp(-self.bridge(encoded.final))
        return Memory(value, value, encoded.mask[..., :1], (up - down) / (up + down))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "remembers the first source forever, as long as the batch has the same size",
    breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
    name="memory of an earlier source",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    memory = None

    def remember(self, encoded):
        if self.memory is None or len(self.memory.state) != len(encoded.final):
            value = encoded.final[:, None]
            state = torch.tanh(self.bridge(encoded.final))
            self.memory = Memory(value, value, encoded.mask[..., :1], state)
        return self.memory

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "fills the encoder's own mask with True and cuts it",
    breaks="Do not change the inputs.",
    name="changes the encoder's mask",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value, value, encoded.mask.fill_(True)[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights
