"""A stand-in for a pretrained body, and its sizes, for all questions of lab 7."""

from collections import OrderedDict

import torch
from torch import nn

from nbjudge import Axis

LOADING = "16_transfer.html#transfer-load"
SIZES = {
    "L": Axis("layers", most=5, long=12, fixed=True),
    "V": Axis("words", fixed=True),
    "D": Axis("width", fixed=True),
}
NOT_EMPTY = "every body has a layer, and every layer numbers"


class Body(nn.Module):
    """A stand-in for a pretrained encoder, which reads nothing.

    Its parts are called as those of the library's BERT, and what is in a layer as it
    pleases. Like BERT, it has a buffer that is not saved; and it has some that are. Two
    parameters are of no layer: one is the body's own, and one its embeddings'. If it is
    tied, a part of it has two names.
    """

    def __init__(self, layers: int, words: int, width: int, tied: bool = False):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.embeddings = nn.Sequential(
            nn.Embedding(words, width), nn.LayerNorm(width), nn.Dropout(0.5)
        )
        self.embeddings.first = nn.Parameter(torch.ones(width))
        self.embeddings.register_buffer("scale", torch.ones(width))
        places = torch.arange(words)
        self.embeddings.register_buffer("kinds", torch.zeros_like(places))
        self.embeddings.register_buffer("places", places, persistent=False)
        stack = (
            nn.Sequential(
                OrderedDict(
                    heads_embedding=nn.Linear(width, width), dropout=nn.Dropout(0.5)
                )
            )
            for _ in range(layers)
        )
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(stack)})
        if tied:
            self.encoder["norm"] = self.embeddings[1]
