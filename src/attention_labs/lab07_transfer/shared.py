"""What the questions of this lab share: a body, its sizes, and where to read."""

from torch import nn

B, S, D, V, K = 3, 5, 4, 7, 6  # sentences, positions, width, words, labels
LAYERS = 3
LOADING = "16_transfer.html#transfer-load"


class Body(nn.Module):
    """A stand-in for a pretrained encoder, which reads nothing.

    Its parts are called as those of the library's BERT.
    """

    def __init__(self, layers: int):
        super().__init__()
        self.embeddings = nn.Sequential(nn.Embedding(V, D), nn.Dropout(0.5))
        stack = (nn.Sequential(nn.Linear(D, D), nn.Dropout(0.5)) for _ in range(layers))
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(stack)})
