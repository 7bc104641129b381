import torch
from attention_course.seq2seq import Memory
from blind import bugs
from torch import nn


class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        mask = torch.ones(len(value), 1, 1, dtype=torch.bool, device=value.device)
        fields = {"value": value, "key": value, "mask": mask}
        return Memory(**fields, state=torch.tanh(self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


def make(bug):
    class ContextDecoder(OneSlotDecoder):
        def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
            super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
            self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

        def remember(self, encoded):
            memory = super().remember(encoded)
            self.last_memory = memory
            return memory

        def step(self, token, memory, cache):
            x = self.embedding(token)
            value = memory.value
            if bug == "the memory remembered last":
                kept = getattr(self, "last_memory", memory)
                value = kept.value if kept.value.shape == value.shape else value
            c = value.expand(-1, x.size(1), -1)
            if bug == "context at the first token alone":
                c = torch.cat([c[:, :1], torch.zeros_like(c[:, 1:])], 1)
            if bug == "the context of the first sentence":
                c = value[:1].expand(len(x), x.size(1), -1)
            if bug == "context without a gradient":
                c = c.detach()
            both = [c, x] if bug == "context in front" else [x, c]
            given = torch.cat(both, -1)
            first = memory.state if bug == "the first state at each step" else cache
            if bug == "tokens one by one, each from the cache":
                parts = [self.rnn(p, first[None].contiguous()) for p in given.split(1, 1)]
                states, last = torch.cat([p[0] for p in parts], 1), parts[-1][1]
            else:
                states, last = self.rnn(given, first[None].contiguous())
            logits = self.head(states)
            if bug == "head of state plus context":
                logits = self.head(states + last.mT.mean() * 1e-2)
            weights = states.new_ones(*token.shape, 1)
            if bug == "weights share out the steps":
                weights = weights / token.size(1)
            if bug == "weights (B, 1, T)":
                weights = weights.mT
            return logits, weights, last[0]

    return ContextDecoder


NOW = "Now c is concatenated to every input, after the embedding of the token."
bugs(
    make,
    {
        "the memory remembered last": "It is the content of the memory's one slot",
        "context at the first token alone": "the same for all T tokens",
        "the context of the first sentence": "the content of the memory's one slot",
        "context without a gradient": NOW,
        "context in front": NOW,
        "the first state at each step": "h_t = GRU(..., h_{t-1})",
        "tokens one by one, each from the cache": "h_t = GRU(..., h_{t-1})",
        "head of state plus context": "logits_t = head(h_t)",
        "weights share out the steps": "Here there is one slot and nothing to choose. Its weight is one",
        "weights (B, 1, T)": "(B, T, slots)",
    },
)
