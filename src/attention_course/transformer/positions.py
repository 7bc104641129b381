"""Positional encodings (sinusoidal, learned), token, segment and patch embeddings.

Rotary positions are in `rotary`.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.checks import check_width
from attention_course.fast.dropout import Dropout

# How many tokens came before: one number, or one per row of the batch.
Past = int | Int[Tensor, " B"]


class SinusoidalPositions(nn.Module):
    r"""Sinusoidal positional encoding: sines and cosines of D/2 frequencies.

    Each pair is like the hand of a clock that is slower than the one before, and there
    is no last position:

    .. math:: p_{t,2i} = \sin(t / 10000^{2i/D}), \quad
        p_{t,2i+1} = \cos(t / 10000^{2i/D})

    Vaswani et al. (2017), Section 3.5, where t is pos, D is d_model.

    Args:
        dim: D, width of a position; must be even.

    Raises:
        ValueError: `dim` is odd.
    """

    def __init__(self, dim: int):
        super().__init__()
        if dim % 2:
            raise ValueError(f"sines and cosines come in pairs, got width {dim}")
        self.dim = dim

    def forward(
        self, x: Float[Tensor, "B T D"], past: Past = 0
    ) -> Float[Tensor, "B T D"]:
        """Add to each vector the encoding of its position.

        Args:
            x: embedded tokens.
            past: number of tokens before them; one number, or one per row (B,).

        Returns:
            x_t + p_{past + t}.

        Raises:
            ValueError: the tokens are not of width D.
        """
        check_width(x, self.dim)
        t = _places(x, past).to(torch.float32)  # (T) or (B, T)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[..., None] * torch.exp(i * (-2 * math.log(10000.0) / self.dim))
        positions = torch.stack([angles.sin(), angles.cos()], dim=-1)  # (..., D/2, 2)
        return x + positions.flatten(-2).to(x.dtype)


class LearnedPositions(nn.Module):
    """Learned positional embedding: a vector per position.

    The last row of the table is the last position. Gehring et al. (2017), Section 3.1;
    Vaswani et al. (2017), Section 3.5, found learned positions as good as sines.

    Args:
        max_length: rows of the table, in tokens.
        dim: D, width of a position.

    Raises:
        ValueError: the table has no rows.
    """

    def __init__(self, max_length: int, dim: int):
        super().__init__()
        if max_length < 1:
            raise ValueError(
                f"there is at least 1 position to learn, got max_length {max_length}"
            )
        self.table = nn.Embedding(max_length, dim)
        nn.init.normal_(self.table.weight, std=dim**-0.5)

    def forward(
        self, x: Float[Tensor, "B T D"], past: Past = 0
    ) -> Float[Tensor, "B T D"]:
        """Add to each vector its position. See `SinusoidalPositions.forward`.

        Raises:
            ValueError: there are more tokens than positions, or they are not of width
                D. If each row has a past of its own, a GPU ends the program instead of
                raising an error, because the check would have to wait for it.
        """
        check_width(x, self.table.embedding_dim)
        if isinstance(past, Tensor):
            # Positions before the first token are padding.
            places = _places(x, past).clamp(min=0)
            try:
                return x + self.table(places)
            except IndexError:
                end = int(places.max()) + 1
        else:
            end = past + x.size(1)
            if end <= self.table.num_embeddings:
                return x + self.table.weight[past:end]
        raise ValueError(
            f"{end} tokens, but positions were learned for {self.table.num_embeddings}"
        )


class NoPositions(nn.Module):
    """No positional encoding, for rotary blocks or for models without positions."""

    def forward(
        self, x: Float[Tensor, "B T D"], past: Past = 0
    ) -> Float[Tensor, "B T D"]:
        """Return the vectors unchanged."""
        return x


def _places(x: Tensor, past: Past) -> Tensor:
    """Number the T tokens: (T), or (B, T) if each row has its own past."""
    t = torch.arange(x.size(1), device=x.device)
    return t + (past[:, None] if isinstance(past, Tensor) else past)


class TokenEmbedding(nn.Module):
    r"""Embed tokens and add their positions.

    .. math:: x_t = \sqrt{D}\, E_{w_t} + p_t

    Vaswani et al. (2017), Section 3.4. The table is initialized with variance 1/D, so
    that the input of the first block has variance 1, and so do the logits if the same
    table is used for the output (weight tying). GPT-2 and Llama have 1 instead of the
    root.

    Args:
        vocab_size: V, tokens in the vocabulary.
        dim: D, width of an embedding.
        positions: adds positions of width D.
        dropout: share of the sum that is dropped in training.
        scale: factor that multiplies the embeddings; None: the root of D.

    Raises:
        ValueError: there are no tokens, or the width is below 1.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        positions: nn.Module,
        dropout: float = 0.0,
        scale: float | None = None,
    ):
        super().__init__()
        if min(vocab_size, dim) < 1:
            raise ValueError(
                f"{vocab_size} tokens of width {dim}: both must be at least 1"
            )
        self.table = nn.Embedding(vocab_size, dim)
        nn.init.normal_(self.table.weight, std=dim**-0.5)
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(dim) if scale is None else scale

    @property
    def weight(self) -> Tensor:
        """The table, one row per token."""
        return self.table.weight

    def forward(
        self, token: Int[Tensor, "B T"], past: Past = 0
    ) -> Float[Tensor, "B T D"]:
        """Embed T tokens of each row, which come after `past` others."""
        return self.dropout(self.positions(self.table(token) * self.scale, past))


class SegmentEmbedding(nn.Module):
    r"""Embed the tokens of two texts: token, segment and position, as in BERT.

    .. math:: x_t = \mathrm{LN}(E_{w_t} + S_{k_t} + p_t)

    Devlin et al. (2019), Section 3, Figure 2; the norm is in their code.

    Args:
        vocab_size: V, tokens in the vocabulary.
        num_segments: number of texts that a token may be in, usually 2.
        dim: D, width of an embedding.
        positions: adds positions of width D.
        norm: normalizes the sum.
        dropout: share of the output that is dropped in training.
    """

    def __init__(
        self,
        vocab_size: int,
        num_segments: int,
        dim: int,
        positions: nn.Module,
        norm: nn.Module,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.table = nn.Embedding(vocab_size, dim)
        self.segments = nn.Embedding(num_segments, dim)
        nn.init.normal_(self.table.weight, std=dim**-0.5)
        nn.init.normal_(self.segments.weight, std=dim**-0.5)
        self.positions = positions
        self.norm = norm
        self.dropout = Dropout(dropout)

    @property
    def weight(self) -> Tensor:
        """The table, one row per token."""
        return self.table.weight

    def forward(
        self, token: Int[Tensor, "B T"], segment: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T D"]:
        """Embed T tokens.

        Args:
            token: token ids.
            segment: which text each token is in, counted from 0; None: all are in the
                first.
        """
        if segment is None:
            segment = torch.zeros_like(token)
        embedded = self.table(token) + self.segments(segment)
        return self.dropout(self.norm(self.positions(embedded)))


class PatchEmbedding(nn.Module):
    """Divide an image into square patches, map each to a vector, and add its position.

    Dosovitskiy et al. (2021), Section 3.1, Equation 1, without the class token, a
    learned vector that they put before the patches to represent the whole image. With
    this embedding, a `TransformerEncoder` reads an image as it reads a sentence.

    Args:
        channels: C, numbers per pixel.
        patch_size: side of a patch, in pixels.
        grid_size: patches in the largest image.
        dim: D, width of a patch's vector.

    Raises:
        ValueError: a patch has no pixels.
    """

    def __init__(self, channels: int, patch_size: int, grid_size: int, dim: int):
        super().__init__()
        if patch_size < 1:
            raise ValueError(f"a patch has at least 1 pixel a side, got {patch_size}")
        self.channels, self.patch_size = channels, patch_size
        self.projection = nn.Linear(channels * patch_size**2, dim)
        self.positions = LearnedPositions(grid_size, dim)

    @property
    def weight(self) -> Tensor:
        """The weights that map a patch to its vector: (C patch_size^2, D)."""
        return self.projection.weight.T

    def forward(
        self, source: Float[Tensor, "B C height width"]
    ) -> Float[Tensor, "B S D"]:
        """Embed a batch of images, patch by patch, row by row.

        Args:
            source: images of one size.

        Raises:
            ValueError: the images have another number of channels or more patches than
                the grid, or their sides are not multiples of the patch's.
        """
        size = self.patch_size
        if source.size(1) != self.channels:
            raise ValueError(
                f"expected images of {self.channels} channels, got {source.size(1)}"
            )
        for side, pixels in (("height", source.size(2)), ("width", source.size(3))):
            if pixels < size or pixels % size:
                raise ValueError(
                    f"an image's {side} is a multiple of the patch's {size} pixels, got"
                    f" {pixels}"
                )
        patches = F.unfold(source, size, stride=size).mT  # (B, S, C size^2)
        return self.positions(self.projection(patches))
