import torch
from attention_course.seq2seq import Memory
from blind import bugs
from torch import nn


def make(bug):
    class OneSlotDecoder(nn.Module):
        def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
            super().__init__()
            self.embedding = nn.Embedding(vocab_size, embedding_dim)
            self.bridge = nn.Linear(memory_dim, hidden_dim)
            self.head = nn.Linear(hidden_dim, vocab_size)

        def remember(self, encoded):
            final = encoded.final
            if bug == "the last state of the batch":
                final = encoded.states[:, -1]
            if bug == "final state without a gradient":
                final = final.detach()
            value = final[:, None]
            key = value
            mask = torch.ones(len(final), 1, 1, dtype=torch.bool, device=final.device)
            state = torch.tanh(self.bridge(final))
            if bug == "all states kept":
                value = key = encoded.states
                mask = encoded.mask
            if bug == "no tanh":
                state = self.bridge(final)
            if bug == "sigmoid for tanh":
                state = torch.sigmoid(self.bridge(final))
            if bug == "no shift b":
                state = torch.tanh(final @ self.bridge.weight.T)
            if bug == "an axis in front of the state":
                state = state[None]
            if bug == "nothing may be attended to":
                mask = ~mask
            if bug == "mask of numbers":
                mask = mask.float()
            if bug == "mask for the batch's first sentence alone":
                mask = mask[:1]
            if bug == "value is the decoder's state":
                value = key = state[:, None]
            if bug == "key is projected":
                key = self.bridge(value)
            if bug == "no axis for slots":
                value = key = final
            if bug == "keeps the first source":
                if not hasattr(self, "kept"):
                    self.kept = Memory(value, key, mask, state)
                elif self.kept.value.shape == value.shape:
                    return self.kept
            fields = {"value": value, "key": key, "mask": mask, "state": state}
            return Memory(**fields)

        def start(self, memory):
            return memory.state

        def decode(self, target, memory, need_weights=False):
            logits, weights, _ = self.step(target, memory, self.start(memory))
            return logits, weights

    return OneSlotDecoder


STATE = "`state` (B, D): the decoder's first state, h_0 = tanh(W c + b)"
VALUE = "The decoders of this lab keep *one* slot, and in it the final state c of the source: (B, 1, E)"
MASK = "`mask` (B, 1, slots): True, as the one slot may be looked at"
bugs(
    make,
    {
        "the last state of the batch": VALUE,
        "final state without a gradient": VALUE,
        "all states kept": VALUE,
        "no tanh": STATE,
        "sigmoid for tanh": STATE,
        "no shift b": STATE,
        "an axis in front of the state": STATE,
        "nothing may be attended to": MASK,
        "mask of numbers": MASK,
        "mask for the batch's first sentence alone": MASK,
        "value is the decoder's state": VALUE,
        "key is projected": "it is the same as `value`",
        "no axis for slots": VALUE,
        "keeps the first source": "`remember` is called once per source",
    },
)
