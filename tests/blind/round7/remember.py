import torch
from torch import nn

from attention_course.seq2seq import Encoded, EncoderDecoder, Memory
from blind import right, wrong


@right('mask by any over the tokens, fields by name in another order')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final.unsqueeze(dim=1)
        return Memory(
            state=self.bridge(encoded.final).tanh(),
            mask=encoded.mask.any(dim=-1, keepdim=True),
            value=c,
            key=c,
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('the bridge as a matrix product by hand, mask of ones on the device of the final state')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final
        h0 = torch.tanh(torch.einsum("be,de->bd", c, self.bridge.weight) + self.bridge.bias)
        open_slot = torch.ones(c.size(0), 1, 1, dtype=torch.bool, device=c.device)
        return Memory(key=c[:, None, :], value=c[:, None, :], mask=open_slot, state=h0)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('goes through the one slot: the bridge is applied to value and the axis taken off afterwards')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final.view(-1, 1, encoded.final.size(-1))
        state = nn.Sequential(self.bridge, nn.Tanh())(value)
        return Memory(
            value=value, key=value, mask=encoded.mask.narrow(-1, 0, 1), state=state[:, 0]
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('copies of the final state, tanh from two sigmoids, new_ones for the mask')
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        def slot():
            return torch.stack([encoded.final], dim=1)

        wide = nn.functional.linear(encoded.final, self.bridge.weight, self.bridge.bias)
        fields = {
            "value": slot(),
            "key": slot(),
            "mask": encoded.mask.new_ones((len(encoded.final), 1, 1)),
            "state": torch.sigmoid(2 * wide) - torch.sigmoid(-2 * wide),
        }
        return Memory(**fields)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'keeps all states of the encoder as slots: value is (B, S, E) and the mask (B, 1, S)',
    '`value` (B, slots, E): what can be looked up. The decoders of this lab keep *one* slot, and in it the final state $c$ of the source: (B, 1, E);',
    'keeps all states in place of one',
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
            value=encoded.states, key=encoded.states, mask=encoded.mask, state=state
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'forgets tanh: the first state is W c + b',
    "`state` (B, D): the decoder's first state, $h_0 = \\tanh(W c + b)$. $W$ and $b$ are those of `bridge`, as encoder and decoder need not be equally wide.",
    'first state without tanh',
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final[:, None]
        state = self.bridge(encoded.final)
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'keeps the mask of the source, (B, 1, S), though there is one slot',
    '`mask` (B, 1, slots): True, as the one slot may be looked at;',
    'mask of the source, not of the slot',
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=c, key=c, mask=encoded.mask, state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'takes the last column of the mask: False for every sentence shorter than the batch',
    '`mask` (B, 1, slots): True, as the one slot may be looked at;',
    'mask of the last column: False on short sentences',
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=c, key=c, mask=encoded.mask[..., -1:], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'skips the bridge if encoder and decoder are equally wide: then the first state is not tanh(W c + b)',
    "`state` (B, D): the decoder's first state, $h_0 = \\tanh(W c + b)$. $W$ and $b$ are those of `bridge`, as encoder and decoder need not be equally wide.",
    'no bridge if the widths are equal',
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c, state = encoded.final[:, None], encoded.final
        if self.bridge.in_features != self.bridge.out_features:
            state = torch.tanh(self.bridge(state))
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'writes tanh with exponentials: for large numbers it is inf / inf, NaN in place of 1',
    'inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.',
    'tanh by hand overflows for large numbers',
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final[:, None]
        x = self.bridge(encoded.final)
        state = (torch.exp(2 * x) - 1) / (torch.exp(2 * x) + 1)
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    "unsqueeze_ gives the encoder's own final state a new axis: what came in is changed",
    'Leave what you are handed unchanged.',
    "changes the shape of the encoder's final state",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        state = torch.tanh(self.bridge(encoded.final))
        c = encoded.final.unsqueeze_(1)
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'finds the state of the last token in states instead of taking final: not the same for an encoder that reads in both directions',
    '`value` (B, slots, E): what can be looked up. The decoders of this lab keep *one* slot, and in it the final state $c$ of the source: (B, 1, E);',
    'state of the last token in place of final',
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        last = encoded.mask[:, 0].sum(1) - 1
        rows = torch.arange(len(last), device=last.device)
        c = encoded.states[rows, last]
        state = torch.tanh(self.bridge(c))
        return Memory(
            value=c[:, None], key=c[:, None], mask=encoded.mask[..., :1], state=state
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'multiplies with the weight of bridge and forgets its bias: right only as long as the bias is zero',
    "`state` (B, D): the decoder's first state, $h_0 = \\tanh(W c + b)$. $W$ and $b$ are those of `bridge`, as encoder and decoder need not be equally wide.",
    'bias of the bridge is missing',
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final[:, None]
        state = torch.tanh(encoded.final @ self.bridge.weight.T)
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@wrong(
    'keeps the memory of the first source and hands it out again for other sources with equally many sentences',
    '`remember` is called once per source and keeps what will be needed.',
    "a second source gets the first one's memory",
)
class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        kept = getattr(self, "kept", None)
        if kept is None or kept.value.size(0) != encoded.final.size(0):
            c = encoded.final[:, None]
            state = torch.tanh(self.bridge(encoded.final))
            kept = Memory(value=c, key=c, mask=encoded.mask[..., :1], state=state)
            self.kept = kept
        return kept

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

