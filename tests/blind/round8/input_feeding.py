import torch
from torch import nn

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
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


class Given(Decoder):
    """The lines of InputFeedingDecoder that the lab gives."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(memory_dim + hidden_dim, hidden_dim, bias=False)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def ask(self, h, memory):
        """Attentional vectors and weights of the queries h (B, 1, D)."""
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        return torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1))), weights


@right("the cache is a dictionary, and step builds a new one")
class InputFeedingDecoder(Given):
    def start(self, memory):
        return {"state": memory.state, "fed": memory.state.new_zeros(memory.state.shape)}

    def step(self, token, memory, cache):
        read = torch.cat([self.embedding(token), cache["fed"].unsqueeze(1)], dim=-1)
        h, _ = self.rnn(read, cache["state"][None].contiguous())
        mixed, weights = self.ask(h, memory)
        return self.head(mixed), weights, {"state": h.squeeze(1), "fed": mixed.squeeze(1)}


@right("one tensor (B, 2D) holds state and attentional vector side by side")
class InputFeedingDecoder(Given):
    def start(self, memory):
        return nn.functional.pad(memory.state, (0, memory.state.size(-1)))

    def step(self, token, memory, cache):
        state, fed = cache.chunk(2, dim=-1)
        h, _ = self.rnn(torch.cat([self.embedding(token), fed[:, None]], dim=-1), state[None].contiguous())
        mixed, weights = self.ask(h, memory)
        return self.head(mixed), weights, torch.cat([h, mixed], dim=-1)[:, 0]


@right("a named tuple as cache, gru_cell with the GRU's parameters")
class InputFeedingDecoder(Given):
    def start(self, memory):
        return (torch.zeros_like(memory.state), memory.state)

    def step(self, token, memory, cache):
        fed, state = cache
        rnn = self.rnn
        read = torch.cat([self.embedding(token[:, 0]), fed], dim=-1)
        h = torch.gru_cell(read, state, rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0, rnn.bias_hh_l0)
        weights = masked_softmax(self.score(h[:, None], memory.key), memory.mask)
        context = (weights @ memory.value)[:, 0]
        mixed = self.attentional_proj(torch.cat([context, h], dim=-1)).tanh()
        return self.head(mixed)[:, None], weights, (mixed, h)


@right("keeps state (1, B, D) as the GRU wants it, and None until something has been looked at")
class InputFeedingDecoder(Given):
    def start(self, memory):
        return memory.state[None], None

    def step(self, token, memory, cache):
        state, fed = cache
        if fed is None:
            fed = state.new_zeros(state.size(1), 1, state.size(2))
        h, state = self.rnn(torch.cat([self.embedding(token), fed], dim=-1), state.contiguous())
        mixed, weights = self.ask(h, memory)
        return self.head(mixed), weights, (state, mixed)


@wrong(
    "feeds the state a second time instead of the attentional vector",
    "The remedy is to concatenate the last attentional vector to the next input:",
    "feeds the state, not the attentional vector",
)
class InputFeedingDecoder(Given):
    def step(self, token, memory, cache):
        state, fed = cache
        h, last = self.rnn(torch.cat([self.embedding(token), fed], dim=-1), state[None])
        mixed, weights = self.ask(h, memory)
        return self.head(mixed), weights, (last[0], h)


@wrong(
    "starts with the first state in the place of zeros",
    "Before the first step, the attentional vector consists of zeros.",
    "first attentional vector is not zero",
)
class InputFeedingDecoder(Given):
    def start(self, memory):
        return memory.state, memory.state[:, None]

    def step(self, token, memory, cache):
        h, last = self.rnn(torch.cat([self.embedding(token), cache[1]], dim=-1), cache[0][None])
        mixed, weights = self.ask(h, memory)
        return self.head(mixed), weights, (last[0], mixed)


@wrong(
    "concatenates the attentional vector in front of the embedding; the width fits",
    r"h_t = \mathrm{GRU}([y_{t-1}; \tilde{h}_{t-1}],\, h_{t-1}), \qquad \tilde{h}_0 = 0.",
    "order of concatenation at the input",
)
class InputFeedingDecoder(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(torch.cat([cache[1], self.embedding(token)], dim=-1), cache[0][None])
        mixed, weights = self.ask(h, memory)
        return self.head(mixed), weights, (last[0], mixed)


@wrong(
    "makes the zeros with torch.zeros: always float32 on the CPU, so a model in float64 fails or is computed in mixed dtypes",
    "It has the same width, dtype and device as the state.",
    "zeros without dtype and device",
)
class InputFeedingDecoder(Given):
    def start(self, memory):
        return memory.state, torch.zeros(memory.state.size(0), 1, memory.state.size(1))

    def step(self, token, memory, cache):
        h, last = self.rnn(torch.cat([self.embedding(token), cache[1]], dim=-1), cache[0][None])
        mixed, weights = self.ask(h, memory)
        return self.head(mixed), weights, (last[0], mixed)


@wrong(
    "keeps the attentional vector on self: right while one sequence is decoded from start, wrong when a search goes on from an old cache",
    "A search may continue from the same cache with several different tokens, so `step` does not change the cache that it gets, and keeps nothing on `self`.",
    "attentional vector on self",
)
class InputFeedingDecoder(Given):
    def start(self, memory):
        self.fed = torch.zeros_like(memory.state)[:, None]
        return memory.state

    def step(self, token, memory, cache):
        h, last = self.rnn(torch.cat([self.embedding(token), self.fed], dim=-1), cache[None])
        self.fed, weights = self.ask(h, memory)
        return self.head(self.fed), weights, last[0]


@wrong(
    "the cache is a list whose entries step replaces: the caller's old cache has become the new one",
    "A search may continue from the same cache with several different tokens, so `step` does not change the cache that it gets, and keeps nothing on `self`.",
    "changes the list in the cache",
)
class InputFeedingDecoder(Given):
    def start(self, memory):
        return [memory.state, torch.zeros_like(memory.state)[:, None]]

    def step(self, token, memory, cache):
        h, last = self.rnn(torch.cat([self.embedding(token), cache[1]], dim=-1), cache[0][None])
        cache[1], weights = self.ask(h, memory)
        cache[0] = last[0]
        return self.head(cache[1]), weights, cache


@wrong(
    "detaches the attentional vector that is fed: the numbers are right, but no gradient reaches earlier steps through it, so the formula is not differentiated",
    "The remedy is to concatenate the last attentional vector to the next input:",
    "cuts the gradient at the fed vector",
)
class InputFeedingDecoder(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(torch.cat([self.embedding(token), cache[1]], dim=-1), cache[0][None])
        mixed, weights = self.ask(h, memory)
        return self.head(mixed), weights, (last[0], mixed.detach())


@wrong(
    "feeds the context instead of the attentional vector, cut or filled to the width D: fits for all widths",
    "The remedy is to concatenate the last attentional vector to the next input:",
    "feeds the context",
)
class InputFeedingDecoder(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(torch.cat([self.embedding(token), cache[1]], dim=-1), cache[0][None])
        mixed, weights = self.ask(h, memory)
        context, width = weights @ memory.value, h.size(-1)
        fed = nn.functional.pad(context, (0, max(width - context.size(-1), 0)))[..., :width]
        return self.head(mixed), weights, (last[0], fed)


@wrong(
    "counts on the old tuple never being used again: writes the new vector into the fed tensor in place, so the old cache's vector changes although the tuple is new",
    "A search may continue from the same cache with several different tokens, so `step` does not change the cache that it gets, and keeps nothing on `self`.",
    "writes into a tensor of the old cache",
)
class InputFeedingDecoder(Given):
    def step(self, token, memory, cache):
        state, fed = cache
        h, last = self.rnn(torch.cat([self.embedding(token), fed], dim=-1), state[None])
        mixed, weights = self.ask(h, memory)
        fed.data.copy_(mixed.data)
        return self.head(mixed), weights, (last[0], fed)


@wrong(
    "starts each step's GRU from memory.state instead of the state in the cache: right at the first step only",
    "You decide what the cache is, as long as `step` finds in it the two things that it needs.",
    "state of the step before is lost",
)
class InputFeedingDecoder(Given):
    def step(self, token, memory, cache):
        read = torch.cat([self.embedding(token), cache[1]], dim=-1)
        h, _ = self.rnn(read, memory.state[None])
        mixed, weights = self.ask(h, memory)
        return self.head(mixed), weights, (memory.state, mixed)
