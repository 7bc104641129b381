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
    class LuongDecoder(Decoder):
        def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
            super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
            self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
            self.attentional_proj = nn.Linear(
                memory_dim + hidden_dim, hidden_dim, bias=False
            )
            self.head = nn.Linear(hidden_dim, vocab_size)

        def decode(self, target, memory, need_weights=False):
            logits, weights, _ = self.step(target, memory, self.start(memory))
            return logits, weights

        def step(self, token, memory, cache):
            y = self.embedding(token)
            first = memory.state if bug == "from the first state" else cache
            h, last = self.rnn(y, first[None].contiguous())
            last = last[0]
            query = h
            if bug == "the old states ask":
                query = torch.cat([cache[:, None], h[:, :-1]], 1)
            if bug == "the last state asks for all":
                query = h[:, -1:].expand_as(h)
            if bug == "mask ignored":
                c, weights = attend(self.score(query, memory.key), memory.value)
            else:
                scores = self.score(query, memory.key)
                if bug == "scores scaled":
                    scores = scores / h.size(-1) ** 0.5
                c, weights = attend(scores, memory.value, memory.mask)
            both = [h, c] if bug == "state before context" else [c, h]
            tilde = torch.tanh(self.attentional_proj(torch.cat(both, -1)))
            if bug == "no tanh":
                tilde = self.attentional_proj(torch.cat(both, -1))
            if bug == "old state beside the context":
                old = torch.cat([cache[:, None], h[:, :-1]], 1)
                tilde = torch.tanh(self.attentional_proj(torch.cat([c, old], -1)))
            if bug == "head of the state":
                logits = self.head(h)
            else:
                logits = self.head(tilde)
            if bug == "state plus attentional vector":
                logits = self.head(tilde + h)
            if bug == "attentional vector as the state":
                last = tilde[:, -1]
            if bug == "state after the first token":
                last = h[:, 0]
            if bug == "state with a layer's axis":
                last = last[None]
            if bug == "weights of the last token":
                weights = weights[:, -1:]
            if bug == "logits of the last token":
                logits = logits[:, -1:]
            return logits, weights, last

    return LuongDecoder


RULE = "the lines of the formula"
bugs(
    make,
    {
        name: RULE
        for name in (
            "from the first state",
            "the old states ask",
            "the last state asks for all",
            "mask ignored",
            "scores scaled",
            "state before context",
            "no tanh",
            "old state beside the context",
            "head of the state",
            "state plus attentional vector",
            "attentional vector as the state",
            "state after the first token",
            "state with a layer's axis",
            "weights of the last token",
            "logits of the last token",
        )
    },
)
