"""Image encoder: a convolutional network turns an image into a grid of features.

Each cell of the grid is a slot of the memory. The patches of a vision Transformer are
in `transformer.positions`.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.seq2seq import Encoded
from attention_course.transformer import LearnedPositions


class GridEncoder(nn.Module):
    """Encode an image as a grid of features, row by row: a vector per 4 x 4 pixels.

    Xu et al. (2015), Section 3.1.1: features of a lower convolutional layer instead of
    the last one, so that each belongs to a location; the cells are their annotation
    vectors a_i. Unlike theirs, this network is small, is trained along with the
    decoder, and has learned positions that say where each cell is.

    Args:
        channels: C, numbers per pixel.
        hidden_dim: width of the first convolution's features.
        output_dim: E, width of a cell's features.
        grid_size: cells in the largest grid.
    """

    def __init__(self, channels: int, hidden_dim: int, output_dim: int, grid_size: int):
        super().__init__()
        self.channels, self.output_dim = channels, output_dim
        # Two strides of 2; a cell's features depend on the 15 x 15 pixels around it.
        self.features = nn.Sequential(
            nn.Conv2d(channels, hidden_dim, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(hidden_dim, output_dim, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(output_dim, output_dim, 3, padding=1),
        )
        for layer in self.features:
            # He et al. (2015): with torch's default, features shrink with each layer
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        self.norm = nn.LayerNorm(output_dim)
        self.positions = LearnedPositions(grid_size, output_dim)

    def forward(
        self, source: Float[Tensor, "B C height width"], lengths: Int[Tensor, " B"]
    ) -> Encoded:
        """Encode a batch of images.

        Args:
            source: images of one size.
            lengths: not used: every image fills its grid, so there is no padding.

        Returns:
            The cells' features, row by row; their mean; a mask that allows all cells.

        Raises:
            ValueError: the images have another number of channels, or more cells than
                the grid.
        """
        if source.size(1) != self.channels:
            raise ValueError(
                f"expected images of {self.channels} channels, got {source.size(1)}"
            )
        features = self.features(source).flatten(2).mT  # (B, S, E)
        cells = self.positions(self.norm(features))
        return Encoded(
            cells,
            cells.mean(dim=1),
            cells.new_ones(cells.size(0), 1, cells.size(1), dtype=torch.bool),
        )
