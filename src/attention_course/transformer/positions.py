"""Positions and token embeddings: sines, a learned table, and how both are added."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.checks import check_width
from attention_course.fast.dropout import Dropout

# How many tokens came before: one number, or one for each row of the batch.
Past = int | Int[Tensor, " B"]


class SinusoidalPositions(nn.Module):
    r"""Say where a token stands by the hands of D/2 clocks.

    Each is slower than the one before, and there is no last position:

    .. math:: p_{t,2i} = \sin(t / 10000^{2i/D}), \quad
        p_{t,2i+1} = \cos(t / 10000^{2i/D})

    Vaswani et al. (2017), Section 3.5, where t is pos, D is d_model.

    Args:
        dim: D, width of a position; even.

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
        """Add to each vector its position.

        Args:
            x: embedded tokens.
            past: tokens that came before them; one number, or one per row (B,).

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
    """Say where a token stands by a learned vector per position.

    The last row of the table is the last position.
    Gehring et al. (2017), Section 3.1; Vaswani et al. (2017), Section 3.5, found them
    as good as sines.

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
                D.
            IndexError: the same of one row, where each has a past of its own.
        """
        check_width(x, self.table.embedding_dim)
        if isinstance(past, Tensor):
            return x + self.table(_places(x, past))
        end = past + x.size(1)
        if end > self.table.num_embeddings:
            raise ValueError(
                f"{end} tokens, but positions were learned for"
                f" {self.table.num_embeddings}"
            )
        return x + self.table.weight[past:end]


def _places(x: Tensor, past: Past) -> Tensor:
    """Number the T tokens: (T), or (B, T) if each row has a past of its own."""
    t = torch.arange(x.size(1), device=x.device)
    return t + (past[:, None] if isinstance(past, Tensor) else past)


class TokenEmbedding(nn.Module):
    r"""Embed tokens, and say where they stand.

    .. math:: x_t = \sqrt{D}\, E_{w_t} + p_t

    Vaswani et al. (2017), Section 3.4. The table is drawn with variance 1/D, so that
    what enters the first block has variance 1, and so have the logits where the same
    table is used for the output.

    Args:
        vocab_size: V, tokens in the vocabulary.
        dim: D, width of an embedding.
        positions: adds positions of width D.
        dropout: share of the sum that training drops.
    """

    def __init__(
        self, vocab_size: int, dim: int, positions: nn.Module, dropout: float = 0.0
    ):
        super().__init__()
        self.table = nn.Embedding(vocab_size, dim)
        nn.init.normal_(self.table.weight, std=dim**-0.5)
        self.positions = positions
        self.dropout = Dropout(dropout)

    @property
    def weight(self) -> Tensor:
        """The table, one row per token."""
        return self.table.weight

    def forward(
        self, token: Int[Tensor, "B T"], past: Past = 0
    ) -> Float[Tensor, "B T D"]:
        """Embed T tokens that come after `past` others, in each row."""
        embedded = self.table(token) * math.sqrt(self.table.embedding_dim)
        return self.dropout(self.positions(embedded, past))
