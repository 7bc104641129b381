import torch
import torch.nn.functional as F
from torch import nn
from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong

INPUTS = "Do not change the inputs."
GRAD = "Gradients must be right, too."
OLD = "Its old state decides where to look, and what it finds there becomes part of the update:"
ORDER = "In the equations, `[a; b]` means that a and b are concatenated in this order, and $y_{t-1}$ stands for the embedding of the token."
HEAD = r"\mathrm{logits}_t &= \mathrm{head}([h_t; c_t; y_{t-1}])"
CACHE = "The cache is the state $h_{t-1}$ (B, D)."
NO_SOFTMAX = "Do not apply a softmax to the logits, because the loss does that."
PROJECTED = "Its fields are `key` (B, S, A), already projected by `project_keys`; `value` (B, S, E); `mask` (B, 1, S), where True means that a position is allowed; and `state` (B, D), the first state."
DOC = "Logits (B, 1, V), weights (B, 1, S), and the state after this step (B, D)."


class Decoder(nn.Module):
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
        # the weights cost nothing here, so they are always returned
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


class Given(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)


@right("writes the gates of the GRU out, from the cell's own parameters")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, weights = attend(self.score(cache.unsqueeze(1), memory.key), memory.value, memory.mask)
        x = torch.cat([y, c], dim=-1).squeeze(1)
        new = F.linear(x, self.rnn.weight_ih, self.rnn.bias_ih).chunk(3, dim=-1)
        old = F.linear(cache, self.rnn.weight_hh, self.rnn.bias_hh).chunk(3, dim=-1)
        reset, update = torch.sigmoid(new[0] + old[0]), torch.sigmoid(new[1] + old[1])
        proposal = torch.tanh(new[2] + reset * old[2])
        state = (1 - update) * proposal + update * cache
        return self.head(torch.cat([state.unsqueeze(1), c, y], dim=-1)), weights, state


@right("works without the axis for the target position, with masked_softmax and einsum, and inserts the axis at the end")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token[:, 0])
        scores = self.score(cache.view(len(cache), 1, -1) if cache.is_contiguous() else cache[:, None], memory.key)
        weights = masked_softmax(scores, memory.mask)
        c = torch.einsum("bs,bse->be", weights[:, 0], memory.value)
        state = self.rnn(torch.hstack((y, c)), cache)
        return self.head(torch.hstack((state, c, y))).unsqueeze(1), weights, state


@right("splits the weight of the head into its three parts and adds up three products")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat((y, c), dim=2).flatten(1), cache)
        parts = self.head.weight.split([state.shape[-1], c.shape[-1], y.shape[-1]], dim=1)
        logits = self.head.bias
        for part, x in zip(parts, (state[:, None], c, y)):
            logits = logits + x @ part.T
        return logits, weights, state


@right("takes one sentence after the other and concatenates the results")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        logits, weights, states = [], [], []
        for b in range(token.shape[0]):
            one = slice(b, b + 1)
            y = self.embedding(token[one])
            c, w = attend(self.score(cache[one, None], memory.key[one]), memory.value[one], memory.mask[one])
            state = self.rnn(torch.cat([y[:, 0], c[:, 0]], dim=-1), cache[one])
            logits.append(self.head(torch.cat([state[:, None], c, y], dim=-1)))
            weights.append(w)
            states.append(state)
        return torch.cat(logits), torch.cat(weights), torch.cat(states)


@wrong("concatenates the context before the embedding in the input of the GRU", breaks=ORDER, name="context before embedding")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([c, y], dim=-1)[:, 0], cache)
        return self.head(torch.cat([state[:, None], c, y], dim=-1)), weights, state


@wrong("asks a second time, with the new state, and gives the head this context (Luong's order)", breaks=OLD, name="asks again after the update")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, _ = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        c, weights = attend(self.score(state[:, None], memory.key), memory.value, memory.mask)
        return self.head(torch.cat([state[:, None], c, y], dim=-1)), weights, state


@wrong("gives the head the old state", breaks=HEAD, name="old state in the head")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        return self.head(torch.cat([cache[:, None], c, y], dim=-1)), weights, state


@wrong("asks with the memory's state: right at the first step only", breaks=CACHE, name="always asks with the first state")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, weights = attend(self.score(memory.state[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        return self.head(torch.cat([state[:, None], c, y], dim=-1)), weights, state


@wrong("projects the keys again: unnoticed with scores that do not prepare their keys, an error or wrong scores with the additive and the general score", breaks=PROJECTED, name="keys projected twice")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        key = self.score.project_keys(memory.key)
        c, weights = attend(self.score(cache[:, None], key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        return self.head(torch.cat([state[:, None], c, y], dim=-1)), weights, state


@wrong("returns log-probabilities in eval mode", breaks=NO_SOFTMAX, name="softmax in eval mode")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], c, y], dim=-1))
        return logits if self.training else logits.log_softmax(dim=-1), weights, state


@wrong("removes the axis for the target position with squeeze(): a batch of one sentence loses its first axis, too, and the state is (D,)", breaks=DOC, name="squeeze with a single sentence")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, weights = attend(self.score(cache.reshape(len(token), 1, -1), memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, c], dim=-1).squeeze(), cache.squeeze())
        return self.head(torch.cat([state.reshape(len(token), 1, -1), c, y], dim=-1)), weights, state


@wrong("under no_grad, writes the new state into the memory of the old one: a search cannot go on from the same cache twice", breaks=INPUTS, name="state updated in place")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        if not torch.is_grad_enabled():
            state = cache.copy_(state)
        return self.head(torch.cat([state[:, None], c, y], dim=-1)), weights, state


@wrong("cuts the gradient between steps: earlier steps and the encoder's last state learn nothing from later logits", breaks=GRAD, name="cache detached")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        cache = cache.detach()
        y = self.embedding(token)
        c, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        return self.head(torch.cat([state[:, None], c, y], dim=-1)), weights, state


@wrong("masks only if the first sentence of the batch has padding: forgets the padding of the other sentences", breaks=PROJECTED, name="padding of the first sentence only")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        mask = None if memory.mask[0].all() else memory.mask
        c, weights = attend(self.score(cache[:, None], memory.key), memory.value, mask)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        return self.head(torch.cat([state[:, None], c, y], dim=-1)), weights, state
