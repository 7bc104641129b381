import torch
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong


class Given(nn.Module):
    """The lines of the lab."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("W and b by hand, the mask as a new tensor")
class OneSlotDecoder(Given):
    def remember(self, encoded):
        c = encoded.final
        slot = c.reshape(c.size(0), 1, c.size(1))
        mask = torch.ones(len(c), 1, 1, dtype=torch.bool, device=c.device)
        state = torch.tanh(c @ self.bridge.weight.mT + self.bridge.bias)
        return Memory(key=slot, value=slot, mask=mask, state=state)


@right("bridge applied to the slot, whose axis is removed afterwards")
class OneSlotDecoder(Given):
    def remember(self, encoded):
        value = torch.stack([encoded.final], dim=1)
        fields = {"key": value.clone(), "value": value}
        fields["mask"] = torch.ones_like(value[..., :1], dtype=torch.bool)
        fields["state"] = self.bridge(value).tanh().squeeze(1)
        return Memory(**fields)


@right("bridge and nn.Tanh in a Sequential, mask by any over the source")
class OneSlotDecoder(Given):
    def remember(self, encoded):
        once = encoded.final.unsqueeze(-2)
        first = nn.Sequential(self.bridge, nn.Tanh())(encoded.final)
        seen = encoded.mask.any(dim=-1, keepdim=True)
        return Memory(value=once, key=once, mask=seen, state=first)


@right("sentence by sentence")
class OneSlotDecoder(Given):
    def remember(self, encoded):
        states = torch.cat([self.bridge(c[None]).tanh() for c in encoded.final])
        value = encoded.final[:, None, :]
        mask = torch.full(
            (value.size(0), 1, 1), True, dtype=torch.bool, device=value.device
        )
        return Memory(key=value, value=value, mask=mask, state=states)


@wrong(
    "no tanh around the bridge",
    r"`state` (B, D): the decoder's first state, $h_0 = \tanh(W c + b)$.",
    "tanh forgotten",
)
class OneSlotDecoder(Given):
    def remember(self, encoded):
        c = encoded.final[:, None]
        state = self.bridge(encoded.final)
        return Memory(key=c, value=c, mask=encoded.mask[..., :1], state=state)


@wrong(
    "keeps all states and the whole mask of the source: S slots",
    "The decoders of this lab keep *one* slot, and in it the final state $c$ of the source: (B, 1, E);",
    "all states kept",
)
class OneSlotDecoder(Given):
    def remember(self, encoded):
        state = self.bridge(encoded.final).tanh()
        states = encoded.states
        return Memory(key=states, value=states, mask=encoded.mask, state=state)


@wrong(
    "the last column of the states is kept, which is padding for short sentences",
    "The decoders of this lab keep *one* slot, and in it the final state $c$ of the source: (B, 1, E);",
    "last column instead of the final state",
)
class OneSlotDecoder(Given):
    def remember(self, encoded):
        c = encoded.states[:, -1:]
        state = self.bridge(c[:, 0]).tanh()
        return Memory(key=c, value=c, mask=encoded.mask[..., :1], state=state)


@wrong(
    "the mask of the last position: False for every sentence with padding",
    "`mask` (B, 1, slots): True, because the one slot may be looked at;",
    "mask of the last column",
)
class OneSlotDecoder(Given):
    def remember(self, encoded):
        c = encoded.final[:, None]
        state = self.bridge(encoded.final).tanh()
        return Memory(key=c, value=c, mask=encoded.mask[..., -1:], state=state)


@wrong(
    "a mask of ones in float, which is no truth value: ~mask and masked_fill raise",
    "`mask` (B, 1, slots): True, because the one slot may be looked at;",
    "mask is not boolean",
)
class OneSlotDecoder(Given):
    def remember(self, encoded):
        c = encoded.final[:, None]
        state = self.bridge(encoded.final).tanh()
        return Memory(key=c, value=c, mask=torch.ones_like(c[..., :1]), state=state)


@wrong(
    "squeezes the first state: for one sentence it has one axis, and so has D = 1",
    r"`state` (B, D): the decoder's first state, $h_0 = \tanh(W c + b)$.",
    "squeeze drops axes of length one",
)
class OneSlotDecoder(Given):
    def remember(self, encoded):
        c = encoded.final[:, None]
        state = self.bridge(c).tanh().squeeze()
        return Memory(key=c, value=c, mask=encoded.mask[..., :1], state=state)


@wrong(
    "inserts the axis of the slots in place: the caller's encoded.final is (B, 1, E) afterwards, and a second call makes it (B, 1, 1, E)",
    "Do not change the inputs that your code is given.",
    "final state changed in place",
)
class OneSlotDecoder(Given):
    def remember(self, encoded):
        state = self.bridge(encoded.final).tanh()
        c = encoded.final.unsqueeze_(1)
        return Memory(key=c, value=c, mask=encoded.mask[..., :1], state=state)


@wrong(
    "leaves out the bridge if encoder and decoder have the same width: right for E != D only",
    "$W$ and $b$ are those of `bridge`, which is needed because encoder and decoder may differ in width.",
    "bridge skipped for equal widths",
)
class OneSlotDecoder(Given):
    def remember(self, encoded):
        c = encoded.final[:, None]
        same = self.bridge.in_features == self.bridge.out_features
        state = encoded.final.tanh() if same else self.bridge(encoded.final).tanh()
        return Memory(key=c, value=c, mask=encoded.mask[..., :1], state=state)


@wrong(
    "writes the state through a product with W only: right as long as the bias is 0",
    r"`state` (B, D): the decoder's first state, $h_0 = \tanh(W c + b)$.",
    "bias of the bridge forgotten",
)
class OneSlotDecoder(Given):
    def remember(self, encoded):
        c = encoded.final[:, None]
        state = torch.tanh(encoded.final @ self.bridge.weight.T)
        return Memory(key=c, value=c, mask=encoded.mask[..., :1], state=state)


@wrong(
    "keeps the memory of the batch that it has seen last, known by the shape: another source of the same shape gets the old memory",
    "`remember` is called once per source and keeps what will be needed.",
    "memory of an earlier source returned",
)
class OneSlotDecoder(Given):
    kept = None

    def remember(self, encoded):
        if self.kept is None or self.kept[0] != encoded.states.shape:
            c = encoded.final[:, None]
            state = self.bridge(encoded.final).tanh()
            new = Memory(key=c, value=c, mask=encoded.mask[..., :1], state=state)
            self.kept = (encoded.states.shape, new)
        return self.kept[1]
