"""Answers to `remember`."""
import torch
import torch.nn.functional as F
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong


@right('makes the mask from nothing but the sizes of the final state')
class OneSlotDecoder_right1(nn.Module):
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
        slot = encoded.final.unsqueeze(1)
        mask = torch.ones(slot.size(0), 1, 1, dtype=torch.bool, device=slot.device)
        return Memory(value=slot, key=slot, mask=mask, state=torch.tanh(self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('computes the linear layer in float64 with einsum, and rounds at the end')
class OneSlotDecoder_right2(nn.Module):
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
        c, weight, bias = encoded.final.double(), self.bridge.weight.double(), self.bridge.bias.double()
        state = (torch.einsum("be,de->bd", c, weight) + bias).tanh().to(encoded.final.dtype)
        slot = encoded.final[:, None, :]
        return Memory(key=slot, value=slot, mask=encoded.mask.any(-1, keepdim=True), state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('sends the slot itself through the layer, and removes the axis at the end')
class OneSlotDecoder_right3(nn.Module):
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
        slot = encoded.final.reshape(encoded.final.size(0), 1, -1)
        state = self.bridge(slot).tanh()[:, 0]
        return Memory(slot, slot, encoded.mask[:, :, :1].clone(), state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('addmm and a tanh in place of its result; the mask compares a shape with itself')
class OneSlotDecoder_right4(nn.Module):
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
        state = torch.addmm(self.bridge.bias, encoded.final, self.bridge.weight.t()).tanh_()
        slot = torch.stack([encoded.final], dim=1)
        mask = torch.zeros_like(encoded.mask[..., 0:1], dtype=torch.bool).logical_not()
        return Memory(slot, slot, mask, state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'Forgets the tanh.',
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    'tanh is missing',
)
class OneSlotDecoder_wrong1(nn.Module):
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
        slot = encoded.final[:, None]
        return Memory(slot, slot, encoded.mask[..., :1], self.bridge(encoded.final))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'Keeps the states of all positions.',
    'In the decoders of this lab, there is only *one* slot, which holds the final state $c$ of the source, so the shape is (B, 1, E).',
    'all states are kept',
)
class OneSlotDecoder_wrong2(nn.Module):
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
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(encoded.states, encoded.states, encoded.mask, state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'Takes the last column of the mask, which is False for a padded sentence.',
    '`mask` (B, 1, slots) must be True, because the decoder may look at the slot.',
    'mask of the last column',
)
class OneSlotDecoder_wrong3(nn.Module):
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
        slot = encoded.final[:, None]
        return Memory(slot, slot, encoded.mask[..., -1:], torch.tanh(self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "Puts the decoder's first state into the slot, in place of the encoder's final state.",
    'In the decoders of this lab, there is only *one* slot, which holds the final state $c$ of the source, so the shape is (B, 1, E).',
    'slot holds the first state',
)
class OneSlotDecoder_wrong4(nn.Module):
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
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(state[:, None], state[:, None], encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'Writes tanh with exponentials, which overflow for large numbers and give NaN.',
    'An exponential, however, may overflow.',
    'tanh from overflowing exponentials',
)
class OneSlotDecoder_wrong5(nn.Module):
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
        slot = encoded.final[:, None]
        x = self.bridge(encoded.final)
        state = (x.exp() - (-x).exp()) / (x.exp() + (-x).exp())
        return Memory(slot, slot, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'Picks the state at the last token from the states, which is another vector if the encoder also reads backwards.',
    'In the decoders of this lab, there is only *one* slot, which holds the final state $c$ of the source, so the shape is (B, 1, E).',
    'final state taken from states',
)
class OneSlotDecoder_wrong6(nn.Module):
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
        last = encoded.mask[:, 0].sum(1) - 1
        c = encoded.states[torch.arange(len(last), device=last.device), last]
        return Memory(c[:, None], c[:, None], encoded.mask[..., :1], torch.tanh(self.bridge(c)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'Detaches the slot, so a decoder that reads it sends no gradient to the encoder.',
    'Gradients must be right, too.',
    'slot is detached',
)
class OneSlotDecoder_wrong7(nn.Module):
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
        slot = encoded.final.detach()[:, None]
        return Memory(slot, slot, encoded.mask[..., :1], torch.tanh(self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "Inserts the axis of the slots into the encoder's own result.",
    'Do not change the inputs.',
    'final state reshaped in place',
)
class OneSlotDecoder_wrong8(nn.Module):
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
        slot = encoded.final.unsqueeze_(1)
        return Memory(slot, slot, encoded.mask[..., :1], torch.tanh(self.bridge(slot[:, 0])))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'Switches gradients off in eval mode.',
    'Gradients must be right, too.',
    'no gradients in eval mode',
)
class OneSlotDecoder_wrong9(nn.Module):
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
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            slot = encoded.final[:, None]
            return Memory(slot, slot, encoded.mask[..., :1], torch.tanh(self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'Squeezes all axes of length one, so the state of a single source has no batch axis.',
    "`state` (B, D) is the decoder's first state, $h_0 = \\tanh(W c + b)$.",
    'batch axis squeezed away',
)
class OneSlotDecoder_wrong10(nn.Module):
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
        slot = encoded.final[:, None]
        state = torch.tanh(self.bridge(slot)).squeeze()
        return Memory(slot, slot, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights
