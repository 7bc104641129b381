import math
from functools import reduce

import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


@right("values with a column of ones, so that the last column of o is l")
def running_softmax(query, blocks):
    largest = torch.full_like(query[..., :1], float("-inf"))
    sums = 0.0
    for key, value in blocks:
        scores = query @ key.mT / query.shape[-1] ** 0.5
        higher = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
        ones = torch.ones_like(value[..., :1])
        block_sums = (scores - higher).exp() @ torch.cat([value, ones], dim=-1)
        sums = sums * (largest - higher).exp() + block_sums
        largest = higher
    return sums[..., :-1] / sums[..., -1:]


@right(
    "in float64: the context so far is one more value, whose score is the logarithm of"
    " the sum so far"
)
def running_softmax(query, blocks):
    precise = query.double() / math.sqrt(query.shape[-1])
    total = query.new_full((*query.shape[:-1], 1), -math.inf, dtype=torch.float64)
    context = None
    for key, value in blocks:
        scores = torch.cat([total, precise @ key.double().mT], dim=-1)
        weights = scores.softmax(dim=-1)
        fresh = weights[..., 1:] @ value.double()
        context = fresh if context is None else context * weights[..., :1] + fresh
        total = scores.logsumexp(dim=-1, keepdim=True)
    return context.to(query.dtype)


@right("everything turned around: keys by queries, and widths by queries")
def running_softmax(query, blocks):
    columns = query.mT / math.sqrt(query.shape[-1])  # (..., D, T)
    state = None
    for key, value in blocks:
        scores = torch.matmul(key, columns)  # (..., N, T)
        top = scores.max(dim=-2, keepdim=True).values
        if state is not None:
            top = torch.where(top > state[0], top, state[0])
        exponentials = torch.exp(scores - top)
        total = exponentials.sum(dim=-2, keepdim=True)
        mixed = value.mT @ exponentials  # (..., Dv, T)
        if state is not None:
            shrink = torch.exp(state[0] - top)
            total = torch.add(total, shrink * state[1])
            mixed = torch.add(mixed, shrink * state[2])
        state = top, total, mixed
    return (state[2] / state[1]).mT


@right("functools.reduce with a helper, fused multiplications, einsum")
def running_softmax(query, blocks):
    def add(state, block):
        m, l, o = state
        key, value = block
        scores = torch.einsum("...td,...nd->...tn", query, key)
        scores = scores.div(math.sqrt(query.size(-1)))
        new = scores.max(dim=-1).values.maximum(m)
        factor, grown = (m - new).exp(), (scores - new.unsqueeze(-1)).exp()
        o = torch.addcmul(grown.matmul(value), o, factor.unsqueeze(-1))
        return new, torch.addcmul(grown.sum(dim=-1), l, factor), o

    nothing = torch.zeros_like(query[..., 0])
    start = nothing - math.inf, nothing, nothing.unsqueeze(-1)
    _, l, o = reduce(add, blocks, start)
    return o.div(l.unsqueeze(-1))


@wrong(
    "multiplies l by the factor when the largest score changes, but not o",
    "If a block contains a larger score, $m'$, this score becomes the new $m$, and both earlier sums are multiplied by $e^{m - m'}$:",
    "o not multiplied by the factor",
)
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = 0.0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        exps = (scores - new).exp()
        l = l * (m - new).exp() + exps.sum(dim=-1, keepdim=True)
        o = o + exps @ value
        m = new
    return o / l


@wrong(
    "collects all blocks in a list and computes one softmax over all of them",
    "You get each block only once. When you take the next block, its numbers overwrite those of the last block.",
    "all blocks collected first",
)
def running_softmax(query, blocks):
    keys, values = zip(*blocks)
    key, value = torch.cat(keys, dim=-2), torch.cat(values, dim=-2)
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1) @ value


@wrong(
    "a softmax within each block, and then the mean of the blocks' contexts",
    "It is the context that one softmax over the keys of all blocks would give.",
    "mean of the contexts of the blocks",
)
def running_softmax(query, blocks):
    total, number = 0.0, 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        total = total + scores.softmax(dim=-1) @ value
        number += 1
    return total / number


@wrong(
    "starts with m = 0 instead of minus infinity: if all scores of a query are far below 0, all exponentials are 0 and the result is NaN",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "m starts at 0",
)
def running_softmax(query, blocks):
    m = torch.zeros_like(query[..., :1])
    l = o = 0.0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, exps = (m - new).exp(), (scores - new).exp()
        l = l * factor + exps.sum(dim=-1, keepdim=True)
        o = o * factor + exps @ value
        m = new
    return o / l


@wrong(
    "divides the scores by the square root of Dv, the width of the values; the same as D only if the two are equal",
    r"The scores are $e_{ts} = q_t^\top k_s / \sqrt{D}$.",
    "scores divided by the square root of the values' width",
)
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = 0.0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(value.shape[-1])
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, exps = (m - new).exp(), (scores - new).exp()
        l = l * factor + exps.sum(dim=-1, keepdim=True)
        o = o * factor + exps @ value
        m = new
    return o / l


@wrong(
    "keeps m, l and o in float32 and returns a float32 context for bfloat16, float16 and float64 vectors",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "result always in float32",
)
def running_softmax(query, blocks):
    query = query.float()
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = 0.0
    for key, value in blocks:
        scores = query @ key.float().mT / math.sqrt(query.shape[-1])
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, exps = (m - new).exp(), (scores - new).exp()
        l = l * factor + exps.sum(dim=-1, keepdim=True)
        o = o * factor + exps @ value.float()
        m = new
    return o / l


@wrong(
    "divides the keys of each block by the square root of D in place; they may be views of the caller's keys",
    "Do not change the inputs.",
    "keys changed in place",
)
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = 0.0
    for key, value in blocks:
        key /= math.sqrt(query.shape[-1])
        scores = query @ key.mT
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, exps = (m - new).exp(), (scores - new).exp()
        l = l * factor + exps.sum(dim=-1, keepdim=True)
        o = o * factor + exps @ value
        m = new
    return o / l


@wrong(
    "one m for all queries (amax over all scores of the block): a query whose scores are all far below those of another query gets 0 / 0",
    "For each query, it keeps three things: the largest score so far, $m$; the sum of the exponentials so far, $l$; and the sum of the values, each multiplied by its exponential, $o$.",
    "one largest score for all queries",
)
def running_softmax(query, blocks):
    m = query.new_tensor(-math.inf)
    l = o = 0.0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        new = torch.maximum(m, scores.amax())
        factor, exps = (m - new).exp(), (scores - new).exp()
        l = l * factor + exps.sum(dim=-1, keepdim=True)
        o = o * factor + exps @ value
        m = new
    return o / l


@wrong(
    "takes the next block before it computes with the current one, to know which block is the last one",
    "You get each block only once. When you take the next block, its numbers overwrite those of the last block.",
    "next block taken too early",
)
def running_softmax(query, blocks):
    blocks = iter(blocks)
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = 0.0
    block = next(blocks)
    while block is not None:
        (key, value), block = block, next(blocks, None)
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, exps = (m - new).exp(), (scores - new).exp()
        l = l * factor + exps.sum(dim=-1, keepdim=True)
        o = o * factor + exps @ value
        m = new
    return o / l


@wrong(
    "keeps m, l and o of every block in a list and adds them up after the last block",
    "What you keep from one block to the next must not grow with the number of blocks.",
    "a list that grows with each block",
)
def running_softmax(query, blocks):
    parts = []
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        m = scores.amax(dim=-1, keepdim=True)
        exps = (scores - m).exp()
        parts.append((m, exps.sum(dim=-1, keepdim=True), exps @ value))
    largest = parts[0][0]
    for m, _, _ in parts:
        largest = torch.maximum(largest, m)
    l = sum(part * (m - largest).exp() for m, part, _ in parts)
    return sum(part * (m - largest).exp() for m, _, part in parts) / l
