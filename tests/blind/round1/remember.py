from blind import right, wrong
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded, Memory


@right('fields from a dictionary, ones for the mask')
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final.unsqueeze(1)
        fields = {"state": self.bridge(encoded.final).tanh(), "mask": torch.ones_like(c[..., :1], dtype=torch.bool)}
        fields["key"] = fields["value"] = c
        return Memory(**fields)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('bridge by einsum, slot by reshape')
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        W, b = self.bridge.weight, self.bridge.bias
        h = torch.einsum("de,be->bd", W, encoded.final) + b
        slot = encoded.final.reshape(encoded.final.size(0), 1, -1)
        yes = torch.full((slot.size(0), 1, 1), True, device=slot.device)
        return Memory(mask=yes, state=torch.tanh(h), value=slot, key=slot)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('tanh by the logistic function, the state taken from the slot')
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = torch.stack([encoded.final], dim=1)
        state = 2 * torch.sigmoid(2 * self.bridge(slot)) - 1
        return Memory(state=state[:, 0], key=slot, value=slot, mask=encoded.mask.any(-1, keepdim=True))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('sentence by sentence')
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        state = torch.stack([torch.tanh(self.bridge(c)) for c in encoded.final])
        slot = torch.cat([c[None, None] for c in encoded.final])
        mask = torch.zeros(len(slot), 1, 1, device=slot.device) == 0
        return Memory(key=slot, value=slot, mask=mask, state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('no tanh', breaks="`state` (B, D): the decoder's first state, $h_0 = \\tanh(W c)$.", name='tanh forgotten', subtle=False)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=self.bridge(encoded.final))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('keeps all states of the source', breaks='All else that the encoder has said is forgotten here.', name='all positions kept', subtle=False)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.states
        return Memory(key=slot, value=slot, mask=encoded.mask, state=torch.tanh(self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('the state of the last column in place of final', breaks='The decoders of this lab keep *one* slot, and in it the final state $c$ of the source: (B, 1, E);', name='last column', subtle=False)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.states[:, -1:]
        return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=torch.tanh(self.bridge(encoded.states[:, -1])))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('mask of the last column: False for all but the longest', breaks='`mask` (B, 1, slots): True, as the one slot may be looked at;', name='mask of the last position', subtle=True)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        return Memory(key=slot, value=slot, mask=encoded.mask[..., -1:], state=torch.tanh(self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('no bridge if both are equally wide', breaks='$W$ is `bridge`, as encoder and decoder need not be equally wide.', name='bridge left out at equal width', subtle=True)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=torch.tanh(encoded.final if encoded.final.size(-1) == self.head.in_features else self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('cut off at one in place of tanh', breaks="`state` (B, D): the decoder's first state, $h_0 = \\tanh(W c)$.", name='another function than tanh', subtle=True)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=F.hardtanh(self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('memories are kept per shape', breaks='`remember` is called once per source and keeps what will be needed.', name='state kept between calls', subtle=True)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        kept = self.__dict__.setdefault("kept", {})
        if encoded.states.shape not in kept:
            slot = encoded.final[:, None]
            kept[encoded.states.shape] = Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=torch.tanh(self.bridge(encoded.final)))
        return kept[encoded.states.shape]

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('one mask for all sentences', breaks='`mask` (B, 1, slots): True, as the one slot may be looked at;', name='batch axis of the mask missing', subtle=True)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        return Memory(key=slot, value=slot, mask=encoded.mask[:1, :, :1], state=torch.tanh(self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('the state of one sentence alone loses its axis', breaks="`state` (B, D): the decoder's first state, $h_0 = \\tanh(W c)$.", name='squeezed too much', subtle=True)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=torch.tanh(self.bridge(slot)).squeeze())

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('a final state of zeros counts as not there', breaks='`mask` (B, 1, slots): True, as the one slot may be looked at;', name='mask read off the values', subtle=True)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        return Memory(key=slot, value=slot, mask=slot.any(-1, keepdim=True), state=torch.tanh(self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights
