import torch
from torch import nn
from torch.nn import functional as F
from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


class Decoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.score = score

    def remember(self, encoded):
        key = self.score.project_keys(encoded.states)
        return Memory(
            key,
            encoded.states,
            encoded.mask,
            state=torch.tanh(self.bridge(encoded.final)),
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


@right("attends by hand: masked softmax and an einsum over the source")
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        before = self.embedding(token).squeeze(1)
        scores = self.score(cache.unsqueeze(1), memory.key)
        weights = masked_softmax(scores, memory.mask)
        context = torch.einsum("bs,bse->be", weights.squeeze(1), memory.value)
        state = self.rnn(torch.hstack((before, context)), cache)
        logits = self.head(torch.hstack((state, context, before)))
        return logits.unsqueeze(1), weights, state


@right("the gates of the GRU written out")
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def update(self, inputs, state):
        cell = self.rnn
        from_input = F.linear(inputs, cell.weight_ih, cell.bias_ih).chunk(3, dim=-1)
        from_state = F.linear(state, cell.weight_hh, cell.bias_hh).chunk(3, dim=-1)
        reset = torch.sigmoid(from_input[0] + from_state[0])
        keep = torch.sigmoid(from_input[1] + from_state[1])
        new = torch.tanh(from_input[2] + reset * from_state[2])
        return torch.lerp(new, state, keep)

    def step(self, token, memory, cache):
        x = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        state = self.update(torch.cat([x, context], dim=-1).flatten(1), cache)
        return self.head(torch.cat([state[:, None], context, x], -1)), weights, state


@right("the head is cut into three matrices whose products are added")
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache, *, temperature=None):
        x = F.embedding(token[:, 0], self.embedding.weight)
        context, weights = attend(
            self.score(cache.view(cache.size(0), 1, -1), memory.key),
            memory.value,
            mask=memory.mask,
        )
        context = context[:, 0]
        state = self.rnn(torch.cat((x, context), dim=1), cache)
        sizes = [part.size(1) for part in (state, context, x)]
        blocks = self.head.weight.split(sizes, dim=1)
        logits = self.head.bias
        for part, block in zip((state, context, x), blocks):
            logits = logits + part @ block.mT
        return logits[:, None], weights, state


@right("one sentence after the other")
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        results = []
        for i in range(token.size(0)):
            x, state = self.embedding(token[i]), cache[i : i + 1]
            scores = self.score(state.unsqueeze(0), memory.key[i : i + 1])
            context, weights = attend(
                scores, memory.value[i : i + 1], memory.mask[i : i + 1]
            )
            context = context[0]
            new = self.rnn(torch.cat([x, context], dim=-1), state)
            results.append((self.head(torch.cat([new, context, x], -1)), weights, new))
        logits, weights, states = zip(*results)
        return torch.stack(logits), torch.cat(weights), torch.cat(states)


@wrong(
    "the GRU gets [c; y] instead of [y; c]: no shape complains, but all states and logits are wrong",
    "`[a; b]` means that a and b are concatenated, in this order; $y_{t-1}$ stands for the embedding of the token.",
    "context before embedding in the GRU's input",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        x = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([context, x], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, x], dim=-1))
        return logits, weights, state


@wrong(
    "the head reads the state before the update: logits are wrong, weights and state right",
    "\\mathrm{logits}_t &= \\mathrm{head}([h_t; c_t; y_{t-1}])",
    "head reads the old state",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        x = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([x, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([cache[:, None], context, x], dim=-1))
        return logits, weights, state


@wrong(
    "returns logarithms of a softmax: the loss after it is the same, but the logits have other numbers",
    "Logits\nleave the step as they are: the loss takes their softmax.",
    "softmax applied to the logits",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        x = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([x, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, x], dim=-1))
        return logits.log_softmax(dim=-1), weights, state


@wrong(
    "squeeze() removes the batch of one sentence too: with B = 1 the state comes back as (D,) or the step raises",
    "Logits (B, 1, V), weights (B, 1, S), and the state after this step (B, D).",
    "squeeze removes the axis of one sentence",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        x = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        inputs = torch.cat([x, context], dim=-1)
        state = self.rnn(inputs.squeeze(), cache.squeeze())
        logits = self.head(torch.cat([state[:, None], context, x], dim=-1))
        return logits, weights, state


@wrong(
    "softmax by hand without subtracting the maximum: scores above 88 give infinity divided by infinity",
    "Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.",
    "exponentials of large scores overflow",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        x = self.embedding(token)
        powers = self.score(cache[:, None], memory.key).exp() * memory.mask
        weights = powers / powers.sum(dim=-1, keepdim=True)
        context = weights @ memory.value
        state = self.rnn(torch.cat([x, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, x], dim=-1))
        return logits, weights, state


@wrong(
    "copies the new state into the cache it was given: the caller's cache is changed, and two tokens cannot go on from the same one (with gradients it also breaks the backward pass)",
    "What comes in stays as it is, and what goes out has its dtype and its device.",
    "overwrites the cache",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        x = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([x, context], dim=-1)[:, 0], cache.clone())
        logits = self.head(torch.cat([state[:, None], context, x], dim=-1))
        return logits, weights, cache.copy_(state)


@wrong(
    "cuts the source to the longest sentence of the batch before it attends: if every sentence has padding, the weights are narrower than S",
    "Logits (B, 1, V), weights (B, 1, S), and the state after this step (B, D).",
    "cuts off the common padding",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        longest = int(memory.mask.sum(dim=-1).max())
        x = self.embedding(token)
        scores = self.score(cache[:, None], memory.key[:, :longest])
        context, weights = attend(
            scores, memory.value[:, :longest], memory.mask[..., :longest]
        )
        state = self.rnn(torch.cat([x, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, x], dim=-1))
        return logits, weights, state


@wrong(
    "asks with the memory's first state instead of the cache: right in the first step, afterwards every step asks the same question",
    "The cache is the state $h_{t-1}$ (B, D).",
    "always asks with the first state",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        x = self.embedding(token)
        scores = self.score(memory.state[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([x, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, x], dim=-1))
        return logits, weights, state


@wrong(
    "projects the values anew in each step instead of reading the keys: the same as long as the keys come from `remember`, wrong for a memory with keys of its own, and the gradient never reaches memory.key",
    "A memory has the fields `key` (B, S, A), already projected, `value` (B, S, E),",
    "does not use the memory's keys",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        x = self.embedding(token)
        keys = self.score.project_keys(memory.value)
        context, weights = attend(
            self.score(cache[:, None], keys), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([x, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, x], dim=-1))
        return logits, weights, state


@wrong(
    "drops entries of the embedding in train mode, which the equations do not: other numbers at each call in train mode, right in eval mode",
    "Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.",
    "dropout of its own in train mode",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update looks for what the update will
    need."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        x = F.dropout(self.embedding(token), 0.1, self.training)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([x, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, x], dim=-1))
        return logits, weights, state
