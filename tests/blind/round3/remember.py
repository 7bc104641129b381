import torch
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong


class Given(nn.Module):
    """What the notebook gives."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("fields by name, and a mask of ones of its own")
class RememberNamed(Given):
    def remember(self, encoded):
        slot = encoded.final.unsqueeze(1)
        yes = torch.ones(len(slot), 1, 1, dtype=torch.bool, device=slot.device)
        return Memory(
            state=self.bridge(encoded.final).tanh(), mask=yes, value=slot, key=slot
        )


@right("asks of each source whether it has any token, and bridges the slot itself")
class RememberAny(Given):
    def remember(self, encoded):
        c = torch.stack([encoded.final], dim=1)
        state = torch.tanh(self.bridge(c)).flatten(1)
        return Memory(c, c, encoded.mask.any(dim=2, keepdim=True), state)


@right("W and its bias by einsum, the mask by comparing c's width with nothing")
class RememberEinsum(Given):
    def remember(self, encoded):
        wc = torch.einsum("be,de->bd", encoded.final, self.bridge.weight)
        value = encoded.final.reshape(-1, 1, encoded.final.size(-1))
        mask = torch.ones_like(value[..., :1], dtype=torch.bool)
        return Memory(value, value, mask, (wc + self.bridge.bias).tanh_())


@right("one source after the other, and their memories put together")
class RememberLoop(Given):
    def remember(self, encoded):
        states = [nn.Tanh()(self.bridge(c)) for c in encoded.final]
        state = torch.stack(states)
        value = torch.cat(encoded.final.split(1))[:, None, :]
        mask = encoded.mask.new_full((value.size(0), 1, 1), True)
        return Memory(*[value] * 2, mask, state)


@wrong(
    "the mask of the one slot is made on the CPU",
    breaks="What you return has the dtype of the vectors or parameters that it is made"
    " from, and is on their device.",
    name="mask made on the CPU",
    subtle=True,
)
class RememberCpuMask(Given):
    def remember(self, encoded):
        value = encoded.final[:, None]
        mask = torch.ones(value.size(0), 1, 1, dtype=torch.bool)
        return Memory(value, value, mask, torch.tanh(self.bridge(encoded.final)))


@wrong(
    "takes the mask of the last position, as the final state is the last",
    breaks="`mask` (B, 1, slots): True, as the one slot may be looked at",
    name="the last column of the mask",
    subtle=True,
)
class RememberLastMask(Given):
    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value, value, encoded.mask[..., -1:], state)


@wrong(
    "takes the last column of the states for the final state",
    breaks="keep *one* slot, and in it the final state $c$ of the source: (B, 1, E)",
    name="the last column of the states",
    subtle=True,
)
class RememberLastState(Given):
    def remember(self, encoded):
        value = encoded.states[:, -1:]
        state = torch.tanh(self.bridge(value[:, 0]))
        return Memory(value, value, encoded.mask[..., :1], state)


@wrong(
    "leaves the mask of the whole source on a memory of one slot",
    breaks="`mask` (B, 1, slots): True, as the one slot may be looked at",
    name="mask of the source, not of the slots",
    subtle=True,
)
class RememberWholeMask(Given):
    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value, value, encoded.mask, state)


@wrong(
    "gives the final state its slot axis in place",
    breaks="Leave what you are handed unchanged.",
    name="unsqueeze_ on what came in",
    subtle=True,
)
class RememberUnsqueeze(Given):
    def remember(self, encoded):
        state = torch.tanh(self.bridge(encoded.final))
        value = encoded.final.unsqueeze_(1)
        return Memory(value, value, encoded.mask[..., :1], state)


@wrong(
    "keeps the first memory on self, and hands it out again",
    breaks="`remember` is called once per source and keeps what will be needed.",
    name="remembers the first source for ever",
    subtle=True,
)
class RememberOnce(Given):
    memory = None

    def remember(self, encoded):
        if self.memory is None:
            value = encoded.final[:, None]
            state = torch.tanh(self.bridge(encoded.final))
            self.memory = Memory(value, value, encoded.mask[..., :1], state)
        return self.memory


@wrong(
    "the first state gets an axis for the layer, as nn.GRU wants it",
    breaks="`state` (B, D): the decoder's first state, $h_0 = \\tanh(W c)$.",
    name="state with a layer's axis",
)
class RememberLayerAxis(Given):
    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))[None]
        return Memory(value, value, encoded.mask[..., :1], state)


@wrong(
    "keeps a slot for every token",
    breaks="The decoders of this lab keep *one* slot, and in it the final state $c$ of"
    " the source: (B, 1, E)",
    name="keeps all states",
)
class RememberAll(Given):
    def remember(self, encoded):
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(encoded.states, encoded.states, encoded.mask, state)


@wrong(
    "squashes c before the bridge and not after it",
    breaks="`state` (B, D): the decoder's first state, $h_0 = \\tanh(W c)$.",
    name="tanh on the wrong side of W",
)
class RememberTanhInside(Given):
    def remember(self, encoded):
        value = encoded.final[:, None]
        state = self.bridge(torch.tanh(encoded.final))
        return Memory(value, value, encoded.mask[..., :1], state)


@wrong(
    "the slot may be looked at where the final state is not zero",
    breaks="`mask` (B, 1, slots): True, as the one slot may be looked at",
    name="mask read off the numbers",
    subtle=True,
)
class RememberNonzero(Given):
    def remember(self, encoded):
        value = encoded.final[:, None]
        mask = (value != 0).any(dim=-1, keepdim=True)
        return Memory(value, value, mask, torch.tanh(self.bridge(encoded.final)))
