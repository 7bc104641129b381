import torch
import torch.nn.functional as F
from torch import nn
from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong

CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
NEW = "In Luong's order, the decoder updates its state first and asks with the new one."
ATTENTIONAL = r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad \mathrm{logits}_t = \mathrm{head}(\tilde{h}_t)"
CACHE = "The cache is again a state (B, D), the one before the first token."
DOC = "Logits (B, T, V), weights (B, T, S), and the state after the last token (B, D)."
ALL = "Write `step` so that it takes T tokens (B, T)."
MASK = "Its fields are `key` (B, S, A), already projected by `project_keys`; `value` (B, S, E); `mask` (B, 1, S), where True means that a position is allowed; and `state` (B, D), the first state."


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
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("runs the GRU one token at a time and asks after each of them")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        logits, weights, layer = [], [], cache.unsqueeze(0)
        for y in self.embedding(token).split(1, dim=1):
            state, layer = self.rnn(y, layer)
            c, w = attend(self.score(state, memory.key), memory.value, memory.mask)
            logits.append(self.head(torch.tanh(self.attentional_proj(torch.cat([c, state], dim=-1)))))
            weights.append(w)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1), layer.squeeze(0)


@right("writes the recurrence out with the GRU's parameters, all input products at once")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        rnn, states, h = self.rnn, [], cache
        inputs = F.linear(self.embedding(token), rnn.weight_ih_l0, rnn.bias_ih_l0)
        for x in inputs.unbind(dim=1):
            xr, xz, xn = x.chunk(3, dim=-1)
            hr, hz, hn = F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0).chunk(3, dim=-1)
            z = torch.sigmoid(xz + hz)
            h = z * h + (1 - z) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
            states.append(h)
        states = torch.stack(states, dim=1)
        c, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        return self.head(self.attentional_proj(torch.cat((c, states), -1)).tanh()), weights, h


@right("splits W_c into a part for the context and a part for the state; the last state is the last of all states")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        states = self.rnn(self.embedding(token), cache[None])[0]
        weights = masked_softmax(self.score(states, memory.key), memory.mask)
        c = torch.bmm(weights, memory.value)
        for_context, for_state = self.attentional_proj.weight.split([c.shape[-1], states.shape[-1]], dim=1)
        attentional = torch.tanh(c @ for_context.T + states @ for_state.T)
        return self.head(attentional), weights, states[:, -1]


@right("runs the GRU on each sentence without a batch axis, and concatenates the sentences")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        parts = []
        for b in range(len(token)):
            states, last = self.rnn(self.embedding(token[b]), cache[b, None])
            scores = self.score(states[None], memory.key[b : b + 1])
            c, w = attend(scores, memory.value[b : b + 1], memory.mask[b : b + 1])
            mixed = self.attentional_proj(torch.cat([c, states[None]], dim=2)).tanh()
            parts.append((self.head(mixed), w, last))
        logits, weights, last = zip(*parts)
        return torch.cat(logits), torch.cat(weights), torch.cat(last)


@wrong("asks with the states before the updates (Bahdanau's order)", breaks=NEW, name="asks with the old states")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        old = torch.cat([cache[:, None], states[:, :-1]], dim=1)
        c, weights = attend(self.score(old, memory.key), memory.value, memory.mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([c, states], dim=-1)))), weights, last[0]


@wrong("concatenates the state before the context", breaks=ATTENTIONAL, name="state before context")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        c, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([states, c], dim=-1)))), weights, last[0]


@wrong("forgets tanh: nearly right while the attentional vectors are small", breaks=ATTENTIONAL, name="no tanh in the attentional vector")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        c, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        return self.head(self.attentional_proj(torch.cat([c, states], dim=-1))), weights, last[0]


@wrong("starts from the memory's state instead of the cache: right for a whole target, wrong for a target that is decoded in two parts", breaks=CACHE, name="cache ignored")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None])
        c, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([c, states], dim=-1)))), weights, last[0]


@wrong("returns the state after the first token: right for T = 1", breaks=DOC, name="state after the first token")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache[None])
        c, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([c, states], dim=-1)))), weights, states[:, 0]


@wrong("asks once, with the state after the last token, and copies the answer to all T positions: right for T = 1", breaks=ALL, name="one query for all tokens")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        c, weights = attend(self.score(last.transpose(0, 1), memory.key), memory.value, memory.mask)
        T = token.shape[1]
        c, weights = c.expand(-1, T, -1), weights.expand(-1, T, -1)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([c, states], dim=-1)))), weights, last[0]


@wrong("takes token 0 for padding and does not update the state on it: tokens after the first 0 of a sentence repeat its state", breaks=ALL, name="token 0 taken for padding")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        states, layer = [], cache[None]
        for t in range(token.shape[1]):
            _, new = self.rnn(self.embedding(token[:, t : t + 1]), layer)
            layer = torch.where((token[:, t] == 0)[None, :, None], layer, new)
            states.append(layer[0])
        states = torch.stack(states, dim=1)
        c, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([c, states], dim=-1)))), weights, layer[0]


@wrong("lets target position t see the source positions up to t only if there are as many tokens as source positions, as in a causal mask", breaks=MASK, name="causal mask on the source")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        mask = memory.mask
        if states.shape[1] == memory.key.shape[1]:
            mask = mask & torch.ones(states.shape[1], states.shape[1], dtype=torch.bool, device=mask.device).tril()
        c, weights = attend(self.score(states, memory.key), memory.value, mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([c, states], dim=-1)))), weights, last[0]


@wrong("goes on from the last state of the call before instead of the cache, if the batch has the same shape", breaks=CALLS, name="state kept between calls")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        kept = getattr(self, "kept", None)
        first = kept if kept is not None and kept.shape == cache.shape and token.shape[1] == 1 else cache
        states, last = self.rnn(self.embedding(token), first[None])
        self.kept = last[0].detach()
        c, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([c, states], dim=-1)))), weights, last[0]


@wrong("tries to save time in eval mode: logits of the last token only, as a search needs them", breaks=DOC, name="only the last logits in eval mode")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        c, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([c, states], dim=-1)))
        if not self.training:
            attentional = attentional[:, -1:]
        return self.head(attentional), weights, last[0]
