import torch
import torch.nn.functional as F
from torch import nn
from attention_course.seq2seq import Memory
from blind import right, wrong

INPUTS = "Do not change the inputs."
SIZES = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
GRAD = "Gradients must be right, too."
VALUE = "In the decoders of this lab, there is only *one* slot, which holds the final state $c$ of the source, so the shape is (B, 1, E)."
KEY = "With one slot there is nothing to choose, so use the same tensor as for `value`."
MASK = "`mask` (B, 1, slots) must be True, because the decoder may look at the slot."
STATE = "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$."
BRIDGE = "The linear layer `bridge` holds $W$ and $b$."
NOTHING = "Keep the final state, and nothing else of the source: a `Memory`."


@right('goes through the bridge with the axis of the slot and takes it off afterwards')
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        value = encoded.final.unsqueeze(1)
        return Memory(
            value=value,
            key=value,
            mask=torch.ones_like(value[..., :1], dtype=torch.bool),
            state=self.bridge(value).tanh()[:, 0],
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('the mask says whether a sentence has any token')
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        value = torch.stack([encoded.final], dim=1)
        mask = encoded.mask.any(dim=-1, keepdim=True)
        state = torch.tanh(F.linear(encoded.final, self.bridge.weight, self.bridge.bias))
        return Memory(value=value, key=value, mask=mask, state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('the formula written out with einsum')
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        c = encoded.final
        value = c.reshape(c.size(0), 1, c.size(1))
        h = torch.einsum("de,be->bd", self.bridge.weight, c) + self.bridge.bias
        mask = torch.full((c.size(0), 1, 1), True, device=c.device)
        return Memory(value=value, key=value, mask=mask, state=torch.tanh(h))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('one sentence at a time, and a mask from a comparison that always holds')
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        value = encoded.final[:, None, :]
        state = torch.stack([self.bridge(c).tanh() for c in encoded.final])
        mask = torch.arange(1, device=value.device).expand(len(state), 1, 1) == 0
        return Memory(state=state, mask=mask, key=value, value=value)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'forgets tanh',
    breaks=STATE,
    name='no tanh',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        value = encoded.final[:, None]
        state = self.bridge(encoded.final)
        return Memory(key=value, value=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'keeps all states of the source, with their mask',
    breaks=VALUE,
    name='a slot for every token',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        value = encoded.states
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(key=value, value=value, mask=encoded.mask, state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'keeps the mask of all source positions beside the one slot',
    breaks=MASK,
    name='mask of the whole source',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(key=value, value=value, mask=encoded.mask, state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'takes the state at the last token out of `states`, which is not `final` for an encoder that reads in both directions',
    breaks=VALUE,
    name='state at the last token instead of final',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        last = encoded.mask[:, 0].sum(-1) - 1
        c = encoded.states[torch.arange(len(last), device=last.device), last]
        value = c[:, None]
        state = torch.tanh(self.bridge(c))
        return Memory(key=value, value=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'does not use the bridge if both widths are equal',
    breaks=STATE,
    name='bridge left out for equal widths',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        c = encoded.final
        value = c[:, None]
        same = self.bridge.in_features == self.bridge.out_features
        state = torch.tanh(c if same else self.bridge(c))
        return Memory(key=value, value=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'multiplies by the weight and forgets b',
    breaks=STATE,
    name='bias of the bridge forgotten',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        value = encoded.final[:, None]
        state = torch.tanh(encoded.final @ self.bridge.weight.T)
        return Memory(key=value, value=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'the mask holds ones of a float dtype, not True',
    breaks=MASK,
    name='mask is not boolean',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(key=value, value=value, mask=torch.ones_like(value[..., :1]), state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'detaches what is stored, so the encoder learns only through the first state',
    breaks=GRAD,
    name='no gradient through the slot',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        value = encoded.final.detach()[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(key=value, value=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'squeezes the state, so it has the shape (D,) for one sentence, or (B,) for D = 1',
    breaks=SIZES,
    name='squeeze drops an axis of length one',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(value)).squeeze()
        return Memory(key=value, value=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "unsqueeze_ gives the encoder's own result another axis",
    breaks=INPUTS,
    name='final changed in place',
)
class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        state = torch.tanh(self.bridge(encoded.final))
        value = encoded.final.unsqueeze_(1)
        return Memory(key=value, value=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights
