"""Rotary positions (RoPE) and grouped-query attention, as in Llama and other models.

Positions that are added to embeddings are in `positions`.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_course.attention import KeyValue, attend
from attention_course.checks import check_mask, check_width
from attention_course.scores import ScaledDotScore


class RotaryPositions(nn.Module):
    r"""Rotary positional encoding: rotate queries and keys by their positions.

    Entries i and i + D/2 are a point in a plane. Position t rotates that point by an
    angle proportional to t, and each plane rotates more slowly than the one before:

    .. math::

        \theta_{ti} = t\, b^{-2i/D}, \quad
        \begin{pmatrix} x'_{t,i} \\ x'_{t,i+D/2} \end{pmatrix} =
        \begin{pmatrix} \cos\theta_{ti} & -\sin\theta_{ti} \\
        \sin\theta_{ti} & \cos\theta_{ti} \end{pmatrix}
        \begin{pmatrix} x_{t,i} \\ x_{t,i+D/2} \end{pmatrix}

    The dot product of a rotated query and a rotated key depends on their positions only
    through the distance t - s (Su et al., 2021, Eq. 16). Su et al. (2021), Eq. 15,
    where t is m, D is d and b is 10000, rotate neighboring entries 2i and 2i + 1, as
    Llama's own code does; in the library transformers, Llama's weights are ordered for
    halves.

    Args:
        dim: D, width of the vectors that are rotated, which is that of one head; must
            be even.
        base: b; the larger it is, the more slowly the slow planes rotate.

    Raises:
        ValueError: `dim` is odd or below 2, or `base` is not positive.
    """

    def __init__(self, dim: int, base: float = 10_000.0):
        super().__init__()
        if dim < 2 or dim % 2:
            raise ValueError(f"rotary positions turn pairs of entries, got width {dim}")
        if not base > 0:
            raise ValueError(f"the base of rotary positions is above 0, got {base}")
        self.dim = dim
        self.base = base

    def forward(
        self, x: Float[Tensor, "*B T D"], past: int = 0
    ) -> Float[Tensor, "*B T D"]:
        """Rotate each vector by its position.

        Args:
            x: queries or keys of one head, or of many.
            past: how many positions come before x.

        Returns:
            The rotated vectors; their lengths do not change.

        Raises:
            ValueError: they are not of width D.
        """
        check_width(x, self.dim)
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * (1.0 / self.base ** (2 * i / self.dim))
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)  # (T, D/2)
        one, other = x.chunk(2, dim=-1)
        return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)


class GroupedQueryAttention(nn.Module):
    r"""Grouped-query attention: heads share keys and values, so the cache is small.

    Each group of H/G query heads shares one head of keys and values:

    .. math::

        \mathrm{head}_h = \mathrm{attend}(\mathrm{score}(Q W^Q_h, K W^K_g), V W^V_g),
        \quad g = \lfloor h G / H \rfloor

    Ainslie et al. (2023), Section 2.2. With G = 1, it is multi-query attention
    (Shazeer, 2019, Section 3); with G = H, it is `MultiHeadAttention` without biases,
    which Llama does not have either. The remembered keys and values, and thus the
    cache, take 2 B S G Dh numbers per layer.

    Args:
        dim: D, width of queries, keys, values and contexts.
        num_heads: H, query heads; it must divide D.
        num_key_heads: G, heads of keys and values; it must divide H.
        positions: rotates queries and keys of width Dh, in self-attention. The T
            queries are then the last T of the S positions remembered. Keys are stored
            unrotated and are rotated for each call of `ask`, so that the memory need
            not know where it begins. None: nothing is rotated.
        look_up: computes contexts (B, H, T, Dh) from queries, keys, values and a mask
            or None, when no weights are needed; `blockwise_attend` is one choice. None:
            torch's fused kernel.

    Raises:
        ValueError: `num_heads` does not divide `dim`, `num_key_heads` does not divide
            `num_heads`, or the positions are for vectors of another width than Dh.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        num_key_heads: int,
        positions: RotaryPositions | None = None,
        look_up: Callable[..., Tensor] | None = None,
    ):
        super().__init__()
        head_dim = head_width(dim, num_heads)
        if num_key_heads < 1 or num_heads % num_key_heads:
            raise ValueError(
                f"{num_heads} heads cannot be divided among {num_key_heads} heads of"
                " keys"
            )
        if positions is not None and positions.dim != head_dim:
            raise ValueError(
                f"heads are of width {head_dim}, but the positions turn vectors of"
                f" width {positions.dim}"
            )
        self.num_heads = num_heads
        self.num_key_heads = num_key_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.score = ScaledDotScore()
        self.positions = positions
        self.look_up = F.scaled_dot_product_attention if look_up is None else look_up

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B S D"],
        value: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "..."] | None = None,
        need_weights: bool = True,
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B H T S"] | None]:
        """Call `remember` on the keys and values, then `ask`."""
        return self.ask(query, self.remember(key, value), mask, need_weights)

    def remember(
        self, key: Float[Tensor, "B S D"], value: Float[Tensor, "B S D"]
    ) -> KeyValue:
        """Compute, once per source, what does not depend on the query.

        Args:
            key: one vector per source position.
            value: one vector per source position.

        Returns:
            Projected keys and values (B, G, S, Dh), split into heads.

        Raises:
            ValueError: the numbers of keys and values differ, or their width is not D.
        """
        if key.shape[:2] != value.shape[:2]:
            raise ValueError(
                f"keys of {tuple(key.shape)} and values of {tuple(value.shape)} are not"
                " of one source"
            )
        check_width(key, self.key_proj.in_features)
        check_width(value, self.value_proj.in_features)
        return KeyValue(
            _by_heads(self.key_proj(key), self.num_key_heads).contiguous(),
            _by_heads(self.value_proj(value), self.num_key_heads).contiguous(),
        )

    def ask(
        self,
        query: Float[Tensor, "B T D"],
        memory: KeyValue,
        mask: Bool[Tensor, "..."] | None = None,
        need_weights: bool = True,
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B H T S"] | None]:
        """Compute each query's context from the remembered keys and values.

        See `MultiHeadAttention.ask`.

        Raises:
            ValueError: the queries are not of width D, the memory is of another batch
                or has other heads, the mask is wrong (see `masked_softmax`), or there
                are rotary positions and more queries than keys.
        """
        check_width(query, self.query_proj.in_features)
        q, (k, v) = _by_heads(self.query_proj(query), self.num_heads), memory
        mask = self._check(q, k, mask)
        if self.positions is not None:
            q = self.positions(q, past=k.size(2) - q.size(2))
            k = self.positions(k)
        group_size = self.num_heads // self.num_key_heads
        k = k.repeat_interleave(group_size, dim=1)  # (B, H, S, Dh)
        v = v.repeat_interleave(group_size, dim=1)
        # a single row of weights is small, and faster without the kernel
        if need_weights or q.size(2) == 1:
            context, weights = attend(self.score(q, k), v, mask)
        else:
            context, weights = self.look_up(q, k, v, mask), None
        output = self.output_proj(context.transpose(1, 2).flatten(2))  # (B, T, D)
        return output, weights if need_weights else None

    def _check(
        self, q: Tensor, k: Tensor, mask: Bool[Tensor, "..."] | None
    ) -> Bool[Tensor, "..."] | None:
        """Check the shapes, and give the mask one axis for all heads."""
        if q.size(0) != k.size(0):
            raise ValueError(
                f"there are queries for {q.size(0)} sentences, but a memory of"
                f" {k.size(0)}"
            )
        if (self.num_key_heads, q.size(3)) != (k.size(1), k.size(3)):
            raise ValueError(
                f"keys have {self.num_key_heads} heads of width {q.size(3)}, but the"
                f" memory {k.size(1)} of width {k.size(3)}"
            )
        if self.positions is not None and q.size(2) > k.size(2):
            raise ValueError(
                f"{q.size(2)} queries cannot be the last of {k.size(2)} positions"
            )
        if mask is None:
            return None
        check_mask(mask, (q.size(0), q.size(2), k.size(2)))
        if mask.dim() == 3:
            mask = mask[:, None]  # (B, 1, T, S)
        return torch.atleast_2d(mask)


def head_width(dim: int, num_heads: int) -> int:
    """Return Dh, the width of one of H heads.

    Raises:
        ValueError: `num_heads` does not divide `dim`.
    """
    if num_heads < 1 or dim % num_heads:
        raise ValueError(f"width {dim} cannot be divided among {num_heads} heads")
    return dim // num_heads


def _by_heads(x: Float[Tensor, "B T D"], num_heads: int) -> Float[Tensor, "B H T Dh"]:
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)  # (B, H, T, Dh)
