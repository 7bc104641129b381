import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong
from attention_course.seq2seq import Memory

VALUE = "The decoders of this lab keep *one* slot, and in it the final state $c$ of the source: (B, 1, E);"
KEY = "With one slot there is nothing to choose: the same tensor as `value`;"
MASK = "`mask` (B, 1, slots): True, as the one slot may be looked at;"
STATE = "`state` (B, D): the decoder's first state, $h_0 = \\tanh(W c)$."
ONCE = "`remember` is called once per source and keeps what will be needed."
BRIDGE = "$W$ is `bridge`, as encoder and decoder need not be equally wide."
SAME = "Leave what you are handed unchanged."
DEVICE = "What you return has the dtype of the vectors or parameters that it is made from, and is on their device."


@right("value by unsqueeze, mask from ones")
class OneSlotDecoder(nn.Module):
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

    def remember(self, encoded):
        slot = encoded.final.unsqueeze(1)
        mask = torch.ones(slot.size(0), 1, 1, dtype=torch.bool, device=slot.device)
        return Memory(value=slot, key=slot, mask=mask, state=torch.tanh(self.bridge(encoded.final)))


@right("the bridge crossed with the slot's axis on, mask by any")
class OneSlotDecoder(nn.Module):
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

    def remember(self, encoded):
        c = encoded.final[:, None, :]
        state = self.bridge(c).tanh()[:, 0]
        return Memory(state=state, mask=encoded.mask.any(-1, keepdim=True), key=c, value=c)


@right("the bridge by hand, tanh from the sigmoid's module")
class OneSlotDecoder(nn.Module):
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

    def remember(self, encoded):
        B, E = encoded.final.shape
        value = key = encoded.final.reshape(B, 1, E)
        state = nn.Tanh()(F.linear(encoded.final, self.bridge.weight, self.bridge.bias))
        mask = encoded.final.new_ones((B, 1, 1), dtype=torch.bool)
        return Memory(key=key, value=value, mask=mask, state=state)


@right("einsum for the bridge, mask a copy of the first column")
class OneSlotDecoder(nn.Module):
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

    def remember(self, encoded):
        c = torch.stack([encoded.final], dim=1)
        state = torch.einsum("be,de->bd", encoded.final, self.bridge.weight) + self.bridge.bias
        return Memory(value=c, key=c, mask=encoded.mask[..., :1].clone(), state=state.tanh())


@wrong("all states kept", breaks=VALUE, name="a slot for every token")
class OneSlotDecoder(nn.Module):
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

    def remember(self, encoded):
        return Memory(
            value=encoded.states, key=encoded.states, mask=encoded.mask,
            state=self.bridge(encoded.final).tanh(),
        )


@wrong("no tanh", breaks=STATE, name="tanh forgotten")
class OneSlotDecoder(nn.Module):
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

    def remember(self, encoded):
        c = encoded.final[:, None]
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=self.bridge(encoded.final))


@wrong("last column of the states", breaks=VALUE, name="last column in place of the final state")
class OneSlotDecoder(nn.Module):
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

    def remember(self, encoded):
        c = encoded.states[:, -1:]
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=self.bridge(c[:, 0]).tanh())


@wrong("the mask's last column in place of its first", breaks=MASK, name="False for sentences with padding", subtle=True)
class OneSlotDecoder(nn.Module):
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

    def remember(self, encoded):
        c = encoded.final[:, None]
        return Memory(value=c, key=c, mask=encoded.mask[..., -1:], state=self.bridge(encoded.final).tanh())


@wrong("a mask on the CPU", breaks=DEVICE, name="mask on the wrong device", subtle=True)
class OneSlotDecoder(nn.Module):
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

    def remember(self, encoded):
        c = encoded.final[:, None]
        mask = torch.ones(c.size(0), 1, 1, dtype=torch.bool)
        return Memory(value=c, key=c, mask=mask, state=self.bridge(encoded.final).tanh())


@wrong("forgets the other slots in the encoder's own mask", breaks=SAME, name="input changed", subtle=True)
class OneSlotDecoder(nn.Module):
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

    def remember(self, encoded):
        c = encoded.final[:, None]
        encoded.mask[..., 1:] = False
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=self.bridge(encoded.final).tanh())


@wrong("remembers the first source for ever", breaks=ONCE, name="state kept between calls", subtle=True)
class OneSlotDecoder(nn.Module):
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

    def remember(self, encoded):
        if not hasattr(self, "memory"):
            c = encoded.final[:, None]
            self.memory = Memory(value=c, key=c, mask=encoded.mask[..., :1], state=self.bridge(encoded.final).tanh())
        return self.memory


@wrong("squeeze takes the axis of the batch off", breaks=STATE, name="axes of length one lost", subtle=True)
class OneSlotDecoder(nn.Module):
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

    def remember(self, encoded):
        c = encoded.final[:, None]
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=self.bridge(c).squeeze().tanh())


@wrong("no bridge where the widths are equal", breaks=BRIDGE, name="bridge left out at equal widths", subtle=True)
class OneSlotDecoder(nn.Module):
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

    def remember(self, encoded):
        c = encoded.final[:, None]
        wide = self.bridge.in_features != self.bridge.out_features
        state = self.bridge(encoded.final) if wide else encoded.final
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=state.tanh())
