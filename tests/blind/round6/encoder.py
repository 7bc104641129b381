import torch
from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from blind import bugs
from torch import nn


def make(bug):
    class Encoder(nn.Module):
        def __init__(self, vocab_size, embedding_dim, hidden_dim):
            super().__init__()
            self.embedding = nn.Embedding(vocab_size, embedding_dim)
            self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
            self.output_dim = hidden_dim

        def forward(self, source, lengths):
            here = lengths.to(source.device)
            x = self.embedding(source)
            if bug == "state left from the last call":
                first = getattr(self, "left", None)
                if first is not None and first.size(1) != len(x):
                    first = None
                states, left = self.rnn(x, first)
                self.left = left.detach()
            elif bug == "id 0 embedded as nothing":
                states, _ = self.rnn(x * (source != 0)[..., None])
            elif bug == "tokens scaled by the root of the width":
                states, _ = self.rnn(x * x.size(-1) ** 0.5)
            else:
                states, _ = self.rnn(x)
            final = states[torch.arange(len(x), device=source.device), here - 1]
            if bug == "the last column":
                final = states[:, -1]
            if bug == "the layer's final state":
                final = self.rnn(x)[1][0]
            if bug == "the final state has a layer's axis":
                final = final[None]
            if bug == "the embedding, not the state":
                return Encoded(x, final, padding_mask(here, x.size(1)))
            if bug == "the mean of the states":
                token = padding_mask(here, x.size(1)).mT
                final = (states * token).sum(1) / here[:, None]
            if bug == "the largest entries of the states":
                final = states.amax(1)
            mask = padding_mask(here, x.size(1))
            if bug == "mask from the ids":
                mask = (source != 0)[:, None]
            if bug == "mask as wide as the longest":
                mask = mask[..., : int(lengths.max())]
            if bug == "states cut to the longest":
                states = states[:, : int(lengths.max())]
                mask = mask[..., : int(lengths.max())]
            if bug == "mask on the CPU":
                mask = padding_mask(lengths, x.size(1))
            if bug == "mask without an axis for queries":
                mask = mask[:, 0]
            if bug == "everything may be attended to":
                mask = torch.ones_like(mask)
            if bug == "end from the ids":
                last = (source != 0).sum(1).clamp(min=1) - 1
                final = states[torch.arange(len(x), device=source.device), last]
            if bug == "states detached":
                states = states.detach()
            return Encoded(states, final, mask)

    return Encoder


IDS = "The lengths alone say what is a token and what is padding: any id of the vocabulary may stand in either place."
FINAL = "`final` (B, E), the state at each sentence's own end"
MASK = "`mask` (B, 1, S), True on tokens"
STATES = "`states` (B, S, E), the state at every position"
bugs(
    make,
    {
        "state left from the last call": "one recurrent layer reads them from left to right",
        "id 0 embedded as nothing": IDS,
        "tokens scaled by the root of the width": "it embeds the tokens",
        "the last column": FINAL,
        "the layer's final state": FINAL,
        "the final state has a layer's axis": FINAL,
        "the embedding, not the state": STATES,
        "the mean of the states": FINAL,
        "the largest entries of the states": FINAL,
        "mask from the ids": IDS,
        "mask as wide as the longest": MASK,
        "states cut to the longest": STATES,
        "mask on the CPU": "Move the lengths to the device of `source` first",
        "mask without an axis for queries": MASK,
        "everything may be attended to": MASK,
        "end from the ids": IDS,
        "states detached": STATES,
    },
)
