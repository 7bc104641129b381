import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


class Decoder(nn.Module):
    """What the decoders of this lab share, as the notebook gives it."""

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
    """The __init__ of the notebook."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)


@right("the cache is one tensor (B, 2D), cut in the middle")
class OneTensor(Given):
    def start(self, memory):
        return F.pad(memory.state, (0, memory.state.size(-1)))

    def step(self, token, memory, cache):
        state, fed = cache.chunk(2, dim=-1)
        x = torch.cat([self.embedding(token), fed.unsqueeze(1)], dim=-1)
        h, last = self.rnn(x, state[None].contiguous())
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, torch.cat([last[0], out[:, 0]], dim=-1)


@right("the cache is a dict that says nothing of the vector before the first step")
class Dictionary(Given):
    def start(self, memory):
        return {"state": memory.state}

    def step(self, token, memory, cache):
        state = cache["state"]
        fed = cache.get("fed", torch.zeros_like(state))
        x = torch.hstack([self.embedding(token)[:, 0], fed])[:, None]
        h = self.rnn(x, state[None])[1].transpose(0, 1)
        weights = masked_softmax(self.score(h, memory.key), memory.mask)
        c = torch.einsum("bts,bse->bte", weights, memory.value)
        fed = self.attentional_proj(torch.cat([c, h], dim=-1)).tanh()
        return self.head(fed), weights, {"state": h[:, 0], "fed": fed[:, 0]}


@right("keeps what has to be fed as a function, and the GRU by hand in two pieces")
class Closure(Given):
    def start(self, memory):
        return memory.state, lambda w: 0.0

    def step(self, token, memory, cache):
        state, feed = cache
        r, width = self.rnn, self.embedding.embedding_dim
        x = F.linear(
            self.embedding(token)[:, 0], r.weight_ih_l0[:, :width], r.bias_ih_l0
        )
        x = (x + feed(r.weight_ih_l0[:, width:])).chunk(3, dim=1)
        g = F.linear(state, r.weight_hh_l0, r.bias_hh_l0).chunk(3, dim=1)
        z = torch.sigmoid(x[1] + g[1])
        h = z * state + (1 - z) * torch.tanh(x[2] + torch.sigmoid(x[0] + g[0]) * g[2])
        c, weights = attend(
            self.score(h[:, None], memory.key), memory.value, memory.mask
        )
        out = torch.tanh(self.attentional_proj(torch.cat([c[:, 0], h], dim=1)))
        return self.head(out)[:, None], weights, (h, lambda w: out @ w.T)


@right("state and attentional vector stacked, already with a layer's axis in front")
class Stacked(Given):
    def start(self, memory):
        return torch.stack([memory.state, memory.state.new_zeros(memory.state.shape)])

    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), cache[1][:, None]], dim=2)
        _, h = self.rnn(x, cache[:1])
        query = h.permute(1, 0, 2)
        e = self.score(query, memory.key).masked_fill(~memory.mask, float("-inf"))
        weights = F.softmax(e, dim=-1)
        c = (weights.mT * memory.value).sum(dim=1, keepdim=True)
        out = torch.tanh(self.attentional_proj(torch.cat([c, query], dim=2)))
        return self.head(out), weights, torch.cat([h, out.transpose(0, 1)])


@wrong(
    "a list for the cache, into which each step writes",
    breaks="`step` leaves the cache that it is handed as it is",
    name="cache written in place",
    subtle=True,
)
class ListCache(Given):
    def start(self, memory):
        return [memory.state, torch.zeros_like(memory.state)[:, None]]

    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), cache[1]], dim=-1)
        h, last = self.rnn(x, cache[0][None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        cache[0], cache[1] = last[0], out
        return self.head(out), weights, cache


@wrong(
    "keeps the attentional vector on self; the cache is the state",
    breaks="and keeps nothing on `self`",
    name="attentional vector on self",
    subtle=True,
)
class OnSelf(Given):
    def start(self, memory):
        self.fed = torch.zeros_like(memory.state)[:, None]
        return memory.state

    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), self.fed], dim=-1)
        h, last = self.rnn(x, cache[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        self.fed = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(self.fed), weights, last[0]


@wrong(
    "start makes zeros in the default dtype, on the CPU",
    breaks="What comes in stays as it is, and what goes out has its dtype and its"
    " device.",
    name="torch.zeros has a dtype and a device of its own",
    subtle=True,
)
class PlainZeros(Given):
    def start(self, memory):
        b, d = memory.state.shape
        return memory.state, torch.zeros(b, 1, d)

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        h, last = self.rnn(x, state[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, (last[0], out)


@wrong(
    "feeds what W_c returns, before the tanh",
    breaks="attach the last attentional vector to the next input",
    name="fed before the tanh",
    subtle=True,
)
class BeforeTanh(Given):
    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        h, last = self.rnn(x, state[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = self.attentional_proj(torch.cat([c, h], dim=-1))
        return self.head(torch.tanh(out)), weights, (last[0], out)


@wrong(
    "starts with the first state in both places",
    breaks="\\tilde{h}_0 = 0",
    name="first attentional vector is not zero",
)
class StateTwice(Given):
    def start(self, memory):
        return memory.state, memory.state[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        h, last = self.rnn(x, state[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, (last[0], out)


@wrong(
    "returns the two things in the other order than start does",
    breaks="You are free in what the cache is, as long as `step` finds in it what it"
    " needs",
    name="cache swapped after the first step",
    subtle=True,
)
class Swapped(Given):
    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed[:, None]], dim=-1)
        h, last = self.rnn(x, state[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, (out[:, 0], last[0])


@wrong(
    "feeds the state after the update instead of the attentional vector",
    breaks="h_t = \\mathrm{GRU}([y_{t-1}; \\tilde{h}_{t-1}],\\, h_{t-1})",
    name="feeds the state",
    subtle=True,
)
class FeedsState(Given):
    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        h, last = self.rnn(x, state[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, (last[0], h)


@wrong(
    "feeds a detached copy: no step learns what it should have handed on",
    breaks="All of them are trained on dates, with your own code inside.",
    name="fed vector detached",
    subtle=True,
)
class Detached(Given):
    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        h, last = self.rnn(x, state[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, (last[0], out.detach())


@wrong(
    "makes the zeros once, for the first batch, and cuts them to later ones",
    breaks="the attentional vector before the first step is zeros, like the state in"
    " width, dtype and device",
    name="zeros kept from the first batch",
    subtle=True,
)
class ZerosOnce(Given):
    zeros = None

    def start(self, memory):
        if self.zeros is None:
            self.zeros = torch.zeros_like(memory.state)[:, None]
        return memory.state, self.zeros[: memory.state.size(0)]

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        h, last = self.rnn(x, state[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, (last[0], out)


@wrong(
    "every step starts from the memory's state: only the attentional vector moves on",
    breaks="h_t = \\mathrm{GRU}([y_{t-1}; \\tilde{h}_{t-1}],\\, h_{t-1})",
    name="the state is not in the cache",
    subtle=True,
)
class StateForgotten(Given):
    def start(self, memory):
        return torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), cache], dim=-1)
        h, _ = self.rnn(x, memory.state[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, out
