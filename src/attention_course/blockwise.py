"""Blockwise attention: exact, but never with T x S scores in memory (online softmax).

It is for scaled dot products; `attention.attend` takes the scores of any kind.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention_course.checks import check_mask
from attention_course.scores import ScaledDotScore


def blockwise_attend(
    query: Float[Tensor, "*B T D"],
    key: Float[Tensor, "*B S D"],
    value: Float[Tensor, "*B S Dv"],
    mask: Bool[Tensor, "..."] | None = None,
    block_size: int = 128,
) -> Float[Tensor, "*B T Dv"]:
    r"""Compute scaled dot-product attention, one block of the source at a time.

    For each query, three quantities summarize the blocks so far: the largest score m,
    the sum l of all exponentials, and the sum o of the values weighted by them. A block
    with a larger score shrinks the two sums:

    .. math::

        m' = \max(m, \max_s e_{ts}), \quad
        l' = l\, e^{m - m'} + \sum_s e^{e_{ts} - m'}, \quad
        o' = o\, e^{m - m'} + \sum_s e^{e_{ts} - m'} v_s

    After the last block, the context is o / l. The running m and l are from Milakov and
    Gimelshein (2018), Algorithm 3, where m is m_j and l is d_j; the running o is from
    Rabe and Staats (2021), Section 2, where l is s* and o is v*; Dao et al. (2022),
    Algorithm 1, turn this into a kernel. For the backward pass, torch stores what each
    block has computed; only such a kernel recomputes it.

    Args:
        query: one vector per target position.
        key: the vectors that queries are compared with.
        value: the vectors to average.
        mask: True = may attend, broadcastable to (..., T, S); None allows everything.
        block_size: source positions per block.

    Returns:
        The same contexts as `attend(ScaledDotScore()(query, key), value, mask)`.

    Raises:
        ValueError: `block_size` is below 1, keys and values are not of one source, or
            what `ScaledDotScore` and `masked_softmax` raise.
    """
    if block_size < 1:
        raise ValueError(f"a block has at least 1 position, got {block_size}")
    if key.shape[:-1] != value.shape[:-1]:
        raise ValueError(
            f"keys of {tuple(key.shape)} and values of {tuple(value.shape)} are not of"
            " one source"
        )
    if mask is not None:
        shape = (*query.shape[:-1], key.size(-2))
        check_mask(mask, shape)
        mask = mask.expand(shape)
    score = ScaledDotScore()
    # Sums over many blocks need at least single precision.
    wide = torch.promote_types(query.dtype, torch.float32)
    lowest = torch.finfo(wide).min
    largest = query.new_full((*query.shape[:-1], 1), lowest, dtype=wide)
    total = torch.zeros_like(largest)
    context = query.new_zeros((*query.shape[:-1], value.size(-1)), dtype=wide)
    for start in range(0, key.size(-2), block_size):
        block = slice(start, start + block_size)
        scores = score(query, key[..., block, :]).to(wide)  # (..., T, block)
        if mask is not None:
            scores = torch.where(mask[..., block], scores, lowest)
        # No context depends on m, so it needs no gradient.
        top = scores.detach().amax(dim=-1, keepdim=True).maximum(largest)
        shares = (scores - top).exp()
        if mask is not None:
            shares = shares * mask[..., block]
        shrink = (largest - top).exp()
        total = total * shrink + shares.sum(dim=-1, keepdim=True)
        context = context * shrink + shares @ value[..., block, :].to(wide)
        largest = top
    # 0 / 1 for a query that may attend to nothing
    return (context / total.where(total > 0, 1)).to(value.dtype)
