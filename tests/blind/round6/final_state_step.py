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
    class FinalStateDecoder(OneSlotDecoder):
        def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
            super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
            self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

        def step(self, token, memory, cache):
            x = self.embedding(token)
            first = cache
            if bug == "the memory's state at each step":
                first = memory.state
            if bug == "own state goes on":
                kept = getattr(self, "kept", None)
                if kept is not None and kept.shape == cache.shape:
                    first = kept
            if bug == "both states added":
                first = cache + memory.state
            if bug == "starts from zeros":
                states, last = self.rnn(x)
            else:
                states, last = self.rnn(x, first[None].contiguous())
            self.kept = last[0].detach()
            if bug != "own state goes on":
                del self.kept
            logits = self.head(states)
            if bug == "tanh before the head":
                logits = self.head(states.tanh())
            if bug == "probabilities":
                logits = logits.log_softmax(-1)
            if bug == "only the last token is answered":
                logits = logits[:, -1:]
            weights = states.new_ones(*token.shape, 1)
            if bug == "weights of one step":
                weights = weights[:, :1]
            if bug == "weights always float32":
                weights = torch.ones(*token.shape, 1, device=states.device)
            if bug == "weights of zero":
                weights = 0 * weights
            if bug == "no weights":
                weights = None
            last = last[0]
            if bug == "state with a layer's axis":
                last = last[None]
            if bug == "the first state is returned":
                last = cache
            if bug == "the state after the first token":
                last = states[:, 0]
            if bug == "all states are returned":
                last = states
            if bug == "cache overwritten":
                cache.copy_(last)
            return logits, weights, last

    return FinalStateDecoder


CACHE = "`step` takes the state before the first of its tokens as `cache`"
LAST = "the last thing that it returns is the state after the last of them"
WEIGHT = "Its weight is one, in the dtype and on the device of the states."
bugs(
    make,
    {
        "the memory's state at each step": CACHE,
        "own state goes on": "A step depends only on its arguments",
        "both states added": CACHE,
        "starts from zeros": CACHE,
        "tanh before the head": "logits_t = head(h_t)",
        "probabilities": "logits_t = head(h_t)",
        "only the last token is answered": "It takes T tokens at once",
        "weights of one step": "(B, T, slots)",
        "weights always float32": WEIGHT,
        "weights of zero": WEIGHT,
        "no weights": WEIGHT,
        "state with a layer's axis": "(B, D)",
        "the first state is returned": LAST,
        "the state after the first token": LAST,
        "all states are returned": LAST,
        "cache overwritten": "What comes in stays as it is",
    },
)
