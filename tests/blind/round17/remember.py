import torch
import torch.nn.functional as F
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong

VALUE = (
    "In the decoders of this lab, there is only *one* slot, which holds the final state"
    " $c$ of the source, so the shape is (B, 1, E)."
)
KEY = (
    "With one slot there is nothing to choose, so use the same tensor as for `value`."
)
MASK = "`mask` (B, 1, slots) must be True, because the decoder may look at the slot."
STATE = "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$."
INPUTS = "Do not change the inputs."
SIZES = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)
OVERFLOW = "An exponential, however, may overflow."
GRADIENTS = "Gradients must be right, too."


class Base(nn.Module):
    """The given part of the class."""

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


@right("asks the mask with any whether there is a token at all")
class OneSlotDecoder(Base):
    def remember(self, encoded):
        slot = encoded.final.unsqueeze(1)
        some = encoded.mask.any(dim=-1, keepdim=True)
        return Memory(
            key=slot, value=slot, mask=some, state=self.bridge(encoded.final).tanh()
        )


@right("applies the bridge to the slot and removes the axis of the slot afterwards")
class OneSlotDecoder(Base):
    def remember(self, encoded):
        value = torch.stack([encoded.final], dim=1)
        state = nn.Tanh()(self.bridge(value)).squeeze(1)
        mask = torch.ones_like(value[..., :1], dtype=torch.bool)
        return Memory(value, value, mask, state)


@right("writes the bridge as an einsum plus the bias, and makes the mask with new_full")
class OneSlotDecoder(Base):
    def remember(self, encoded):
        c = encoded.final
        wc = torch.einsum("de,be->bd", self.bridge.weight, c)
        slot = c.reshape(c.size(0), 1, c.size(1))
        memory = {
            "mask": encoded.mask.new_full((c.size(0), 1, 1), True),
            "state": torch.tanh(wc + self.bridge.bias),
        }
        return Memory(value=slot, key=slot, **memory)


@right("computes one state after the other, and copies the slot")
class OneSlotDecoder(Base):
    def remember(self, encoded):
        states = [
            F.linear(c, self.bridge.weight, self.bridge.bias).tanh()
            for c in encoded.final
        ]
        slot = encoded.final.clone()[:, None, :]
        mask = slot.detach()[..., :1]
        mask = (mask == mask).logical_or(encoded.mask[..., :1])
        return Memory(key=slot, value=slot, mask=mask, state=torch.stack(states))


@wrong(
    "uses the linear layer without tanh",
    breaks=STATE,
    name="tanh is missing",
)
class OneSlotDecoder(Base):
    def remember(self, encoded):
        value = encoded.final[:, None]
        state = self.bridge(encoded.final)
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)


@wrong(
    "keeps the states of all tokens",
    breaks=VALUE,
    name="a slot for every token",
)
class OneSlotDecoder(Base):
    def remember(self, encoded):
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(
            value=encoded.states, key=encoded.states, mask=encoded.mask, state=state
        )


@wrong(
    "takes the mask of the last column, which is False for short sentences",
    breaks=MASK,
    name="the mask of the last column",
)
class OneSlotDecoder(Base):
    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=value, key=value, mask=encoded.mask[..., -1:], state=state)


@wrong(
    "computes the first state from the state in the last column of the batch",
    breaks=STATE,
    name="the last column instead of the final state",
)
class OneSlotDecoder(Base):
    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.states[:, -1]))
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)


@wrong(
    "inserts the axis into the caller's final state with unsqueeze_",
    breaks=INPUTS,
    name="the encoder's result gets another shape",
)
class OneSlotDecoder(Base):
    def remember(self, encoded):
        value = encoded.final.unsqueeze_(1)
        state = torch.tanh(self.bridge(value[:, 0]))
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)


@wrong(
    "writes tanh with exponentials, which gives NaN for large numbers",
    breaks=OVERFLOW,
    name="tanh by a formula that overflows",
)
class OneSlotDecoder(Base):
    def remember(self, encoded):
        value = encoded.final[:, None]
        a = self.bridge(encoded.final)
        state = (a.exp() - (-a).exp()) / (a.exp() + (-a).exp())
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)


@wrong(
    "squeezes the state, so a batch of one sentence loses its axis",
    breaks=SIZES,
    name="all axes of length one are removed",
)
class OneSlotDecoder(Base):
    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(value)).squeeze()
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)


@wrong(
    "hides a slot whose vector is zero",
    breaks=MASK,
    name="a zero vector is taken for padding",
)
class OneSlotDecoder(Base):
    def remember(self, encoded):
        value = encoded.final[:, None]
        mask = (value != 0).any(-1)[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=value, key=value, mask=mask, state=state)


@wrong(
    "detaches the slot; only the first state leads back to the encoder",
    breaks=GRADIENTS,
    name="no gradient through the memory",
)
class OneSlotDecoder(Base):
    def remember(self, encoded):
        value = encoded.final.detach()[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)


@wrong(
    "stores a copy of the value as the key",
    breaks=KEY,
    name="key and value are two tensors",
)
class OneSlotDecoder(Base):
    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(
            value=value, key=value.clone(), mask=encoded.mask[..., :1], state=state
        )
