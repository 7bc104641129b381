import torch
import torch.nn.functional as F
from attention_course.seq2seq import Memory
from blind import right, wrong
from torch import nn

INPUTS = "Do not change the inputs."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
OVERFLOW = "An exponential, however, may overflow."

SLOT = "In the decoders of this lab, there is only *one* slot, which holds the final state $c$ of the source, so the shape is (B, 1, E)."
KEY = "With one slot there is nothing to choose, so use the same tensor as for `value`."
MASK = "`mask` (B, 1, slots) must be True, because the decoder may look at the slot."
STATE = "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$."


@right('F.linear, and a mask made with new_ones')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final
        slot = c.unsqueeze(1)
        mask = c.new_ones((c.size(0), 1, 1), dtype=torch.bool)
        state = torch.tanh(F.linear(c, self.bridge.weight, self.bridge.bias))
        return Memory(value=slot, key=slot, mask=mask, state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('einsum with W, and the mask from any')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None, :]
        product = torch.einsum("bse,de->bd", slot, self.bridge.weight)
        state = (product + self.bridge.bias).tanh()
        return Memory(state=state, mask=encoded.mask.any(-1, keepdim=True), key=slot, value=slot)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('the bridge reads the slot, with its axis')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = torch.stack([encoded.final], dim=1)
        state = self.bridge(value).tanh_().squeeze(1)
        mask = torch.full(value.shape[:2], True, device=value.device)[:, None]
        return Memory(value=value, key=value, mask=mask, state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('addmm in float64 and back; a helper for the slot')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        def as_slot(x):
            return x.reshape(x.size(0), 1, x.size(1))

        c = encoded.final
        w, b = self.bridge.weight.double(), self.bridge.bias.double()
        state = torch.addmm(b, c.double(), w.T).tanh().to(c.dtype)
        fields = {"value": as_slot(c), "state": state}
        fields["key"] = fields["value"]
        fields["mask"] = as_slot(torch.ones_like(c[:, :1], dtype=torch.bool))
        return Memory(**fields)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('keeps the states of all positions',
       breaks=SLOT,
       name='keeps all states')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=encoded.states, key=encoded.states, mask=encoded.mask, state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('tanh before the bridge instead of after it',
       breaks=STATE,
       name='tanh in the wrong place')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        state = self.bridge(torch.tanh(encoded.final))
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('the mask of the last position, which is False for all sentences with padding',
       breaks=MASK,
       name='mask of the last position')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=value, key=value, mask=encoded.mask[..., -1:], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('first state from the last column of the states, not from the final state',
       breaks=STATE,
       name='first state from the last column')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.states[:, -1]))
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('new axis in front: (1, B, E), all sentences become slots of one',
       breaks=SLOT,
       name='axis in the wrong place')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('the key is the first state, not the value',
       breaks=KEY,
       name='key differs from value')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=value, key=state[:, None], mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong("unsqueeze_ gives the encoder's final state another shape",
       breaks=INPUTS,
       name='final state changed in place')
class OneSlotDecoder(nn.Module):
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


@wrong('tanh from exponentials: NaN for large sums',
       breaks=OVERFLOW,
       name='tanh overflows')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        z = self.bridge(encoded.final)
        state = (z.exp() - (-z).exp()) / (z.exp() + (-z).exp())
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('multiplies by W and forgets b',
       breaks='The linear layer `bridge` holds $W$ and $b$.',
       name='bias forgotten')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(encoded.final @ self.bridge.weight.T)
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong('returns the stored memory if the next source has the same shape',
       breaks=CALLS,
       name='memory of an earlier source')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        memory = getattr(self, "memory", None)
        if memory is None or memory.value[:, 0].shape != encoded.final.shape:
            value = encoded.final[:, None]
            state = torch.tanh(self.bridge(encoded.final))
            memory = Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)
            self.memory = memory
        return memory

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights
