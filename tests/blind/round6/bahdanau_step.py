import torch
from attention_course.attention import attend, masked_softmax
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
    class BahdanauDecoder(Decoder):
        def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
            super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
            self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
            self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

        def step(self, token, memory, cache):
            y = self.embedding(token)[:, 0]
            query = cache[:, None]
            if bug == "the first state asks":
                query = memory.state[:, None]
            scores = self.score(query, memory.key)
            if bug == "keys projected again" and memory.value.shape == memory.key.shape:
                scores = self.score(query, memory.value)
            if bug == "keys projected at each step":
                scores = self.score(query, self.score.project_keys(memory.value))
            mask = None if bug == "mask ignored" else memory.mask
            weights = masked_softmax(scores, mask)
            value = memory.value
            if bug == "looks up keys where it fits" and value.shape == memory.key.shape:
                value = memory.key
            c = (weights @ value)[:, 0]
            given = [c, y] if bug == "context before the token" else [y, c]
            state = self.rnn(torch.cat(given, -1), cache)
            if bug == "updates from the first state":
                state = self.rnn(torch.cat(given, -1), memory.state)
            if bug == "asks again after the update":
                weights = masked_softmax(self.score(state[:, None], memory.key), mask)
                c = (weights @ value)[:, 0]
            if bug == "weights after the update returned":
                weights = masked_softmax(self.score(state[:, None], memory.key), mask)
            said = [state, c, y]
            if bug == "old state in the head":
                said = [cache, c, y]
            if bug == "another order in the head":
                said = [state, y, c]
            if bug == "no token in the head":
                said = [state, c, 0 * y]
            logits = self.head(torch.cat(said, -1))
            if bug == "log-probabilities":
                logits = logits.log_softmax(-1)
            if bug == "tanh in front of the head":
                logits = self.head(torch.cat(said, -1).tanh())
            if bug == "no axis for the step":
                return logits, weights[:, 0], state
            if bug == "scores for weights":
                weights = scores
            if bug == "old state returned":
                state = cache
            if bug == "cache overwritten":
                cache.copy_(state.detach())
            return logits[:, None], weights, state

    return BahdanauDecoder


RULE = "the four lines of the formula"
bugs(
    make,
    {
        name: RULE
        for name in (
            "the first state asks",
            "keys projected again",
            "keys projected at each step",
            "mask ignored",
            "looks up keys where it fits",
            "context before the token",
            "updates from the first state",
            "asks again after the update",
            "weights after the update returned",
            "old state in the head",
            "another order in the head",
            "no token in the head",
            "log-probabilities",
            "tanh in front of the head",
            "no axis for the step",
            "scores for weights",
            "old state returned",
            "cache overwritten",
        )
    },
)
