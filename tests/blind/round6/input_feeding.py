import torch
from attention_course.attention import attend
from attention_course.seq2seq import Memory
from blind import bugs
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.score = score

    def remember(self, encoded):
        key = self.score.project_keys(encoded.states)
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(key, encoded.states, encoded.mask, state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


def make(bug):
    class InputFeedingDecoder(Decoder):
        def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
            super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
            self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
            self.attentional_proj = nn.Linear(
                memory_dim + hidden_dim, hidden_dim, bias=False
            )
            self.head = nn.Linear(hidden_dim, vocab_size)

        def start(self, memory):
            zeros = torch.zeros_like(memory.state)
            if bug == "starts from the state":
                zeros = memory.state
            if bug == "starts from ones":
                zeros = torch.ones_like(memory.state)
            if bug == "zeros of another dtype":
                zeros = torch.zeros(memory.state.shape, device=memory.state.device)
            if bug == "zeros on the CPU":
                zeros = torch.zeros(memory.state.shape, dtype=memory.state.dtype)
            if bug == "zeros for one sentence":
                zeros = zeros[:1]
            if bug == "a list that is changed":
                return [memory.state, zeros]
            if bug == "kept on self":
                self.fed = zeros
            if bug == "a counter on self":
                self.steps = 0
            return memory.state, zeros

        def step(self, token, memory, cache):
            state, fed = cache
            if bug == "kept on self":
                fed = self.fed
            y = self.embedding(token)
            x = torch.cat([y, fed[:, None].expand(len(y), -1, -1)], -1)
            if bug == "fed before the token":
                x = torch.cat([fed[:, None], y], -1)
            if bug == "the state is fed":
                x = torch.cat([y, state[:, None]], -1)
            if bug == "feeding without a gradient":
                x = torch.cat([y, fed.detach()[:, None]], -1)
            if bug == "nothing fed":
                x = torch.cat([y, 0 * fed[:, None]], -1)
            if bug == "nothing fed at a step counted on self":
                if self.steps == 0:
                    x = torch.cat([y, 0 * fed[:, None]], -1)
            h, last = self.rnn(x, state[None].contiguous())
            query = h
            if bug == "the old state asks":
                query = state[:, None]
            mask = None if bug == "mask ignored" else memory.mask
            c, weights = attend(self.score(query, memory.key), memory.value, mask)
            tilde = torch.tanh(self.attentional_proj(torch.cat([c, h], -1)))
            if bug == "state before context":
                tilde = torch.tanh(self.attentional_proj(torch.cat([h, c], -1)))
            logits = self.head(tilde)
            new = tilde[:, 0]
            if bug == "without tanh into the next input":
                new = self.attentional_proj(torch.cat([c, h], -1))[:, 0]
            if bug == "the old vector goes on":
                new = fed if fed.any() else new
            if bug == "vectors add up":
                new = new + fed
            if bug == "attentional vector is the state":
                return logits, weights, (new, new)
            if bug == "a list that is changed":
                cache[0], cache[1] = last[0], new
                return logits, weights, cache
            if bug == "overwrites the vector":
                fed.copy_(new.detach())
                return logits, weights, (last[0], fed)
            if bug == "kept on self":
                self.fed = new
            return logits, weights, (last[0], new)

    return InputFeedingDecoder


RULE = "h_t = GRU([y; h~_{t-1}], h_{t-1}), h~_0 = 0"
bugs(
    make,
    {
        "starts from the state": RULE,
        "starts from ones": RULE,
        "zeros of another dtype": "It has the same width, dtype and device as the state.",
        "zeros on the CPU": "It has the same width, dtype and device as the state.",
        "a list that is changed": "`step` does not change the cache that it gets",
        "kept on self": "keeps nothing on `self`",
        "fed before the token": RULE,
        "the state is fed": RULE,
        "feeding without a gradient": RULE,
        "nothing fed": RULE,
        "the old state asks": "Luong's order",
        "mask ignored": "softmax over the allowed",
        "state before context": RULE,
        "without tanh into the next input": RULE,
        "the old vector goes on": RULE,
        "vectors add up": RULE,
        "attentional vector is the state": RULE,
        "overwrites the vector": "`step` does not change the cache that it gets",
    },
)
