import torch
from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded
from blind import bugs
from torch import nn


def make(bug):
    class StackedEncoder(nn.Module):
        def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
            super().__init__()
            self.embedding = nn.Embedding(vocab_size, embedding_dim)
            self.output_dim = 2 * hidden_dim
            widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
            self.forwards = nn.ModuleList(
                nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
            )
            self.backwards = nn.ModuleList(
                nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
            )

        def forward(self, source, lengths):
            here = lengths.to(source.device)
            x = self.embedding(source)
            rows = torch.arange(len(x), device=x.device)

            def turned(y):
                if bug == "whole batch reversed":
                    return y.flip(1)
                return reverse_padded(y, lengths)

            layers = list(zip(self.forwards, self.backwards))
            if bug == "two layers at most":
                layers = layers[:2]
            if bug == "top layer first":
                layers = layers[:1] + layers[:0:-1]
            below = x
            for number, (forwards, backwards) in enumerate(layers):
                h, (_, cell) = forwards(below)
                g, _ = backwards(turned(below))
                if bug == "not turned back in the lower layers" and (
                    number + 1 < len(layers)
                ):
                    pass
                elif bug != "not turned back":
                    g = turned(g)
                if bug == "backward LSTM reads forwards":
                    g, _ = backwards(below)
                below = torch.cat([g, h] if bug == "backward first" else [h, g], -1)
                if bug == "skip connections from the third layer on" and number >= 2:
                    below = below + before
                if bug == "skip connections" and number:
                    below = below + before
                before = below
                if number == 0:
                    lowest = below
            states = below
            d = states.size(-1) // 2
            forward_end = states[rows, here - 1, :d]
            backward_end = states[:, 0, d:]
            if bug == "both at the last token":
                backward_end = states[rows, here - 1, d:]
            if bug == "both at the first token":
                forward_end = states[:, 0, :d]
            if bug == "the last column":
                forward_end = states[:, -1, :d]
            if bug == "final of the lowest layer":
                forward_end = lowest[rows, here - 1, :d]
                backward_end = lowest[:, 0, d:]
            if bug == "the forward cell":
                forward_end = cell[0]
            final = torch.cat([forward_end, backward_end], -1)
            if bug == "final backward first":
                final = torch.cat([backward_end, forward_end], -1)
            mask = padding_mask(here, source.size(1))
            if bug == "mask from the ids":
                mask = (source != 0)[:, None]
            return Encoded(states, final, mask)

    return StackedEncoder


FINAL = "the forward state at the sentence's last token, and the backward state at the position where the backward LSTM has read the whole sentence"
bugs(
    make,
    {
        "whole batch reversed": "Each sentence has to be reversed *within its own length*",
        "two layers at most": "Each layer reads the states of the layer below it",
        "top layer first": "Each layer reads the states of the layer below it",
        "not turned back in the lower layers": "its states have to be reversed again before they are concatenated",
        "not turned back": "its states have to be reversed again before they are concatenated",
        "backward LSTM reads forwards": "the other reads it backwards",
        "backward first": "the forward state first",
        "skip connections from the third layer on": "Each layer reads the states of the layer below it",
        "skip connections": "Each layer reads the states of the layer below it",
        "both at the last token": FINAL,
        "both at the first token": FINAL,
        "the last column": FINAL,
        "final of the lowest layer": "two states of the top layer",
        "the forward cell": "`states` and `final` get the states only",
        "final backward first": FINAL,
        "mask from the ids": "`states` and `mask` are as before",
    },
)
