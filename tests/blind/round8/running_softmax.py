import functools
import math

import torch

from blind import right, wrong


@right("keeps the context so far and its log-sum-exp, merges with a sigmoid")
def running_softmax(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    scale, context, total = 1 / math.sqrt(query.size(-1)), 0, -math.inf
    for key, value in blocks:
        scores = (query @ key.mT).to(wide) * scale
        part = scores.logsumexp(dim=-1, keepdim=True)
        own = (scores - part).exp() @ value.to(wide)
        share = torch.sigmoid(part - total)
        context = context + share * (own - context)
        total = part if isinstance(total, float) else torch.logaddexp(total, part)
    return context.to(query.dtype)


@right("begins with the first block, sums of values and exponentials in one tensor")
def running_softmax(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    blocks, root = iter(blocks), query.size(-1) ** 0.5

    def sums(pair, top=None):
        key, value = pair
        e = torch.einsum("...td,...sd->...ts", query, key).to(wide) / root
        best = e.amax(-1, keepdim=True)
        best = best if top is None else torch.maximum(best, top)
        e = torch.exp(e - best)
        return best, torch.cat([e @ value.to(wide), e.sum(-1, keepdim=True)], dim=-1)

    top, both = sums(next(blocks))
    for pair in blocks:
        new_top, new = sums(pair, top)
        both = both * torch.exp(top - new_top) + new
        top = new_top
    return (both[..., :-1] / both[..., -1:]).to(query.dtype)


@right("functools.reduce over the blocks with the three sums as a tuple")
def running_softmax(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    scaled = query.to(wide) / math.sqrt(query.size(-1))

    def add(state, block):
        (m, l, o), (k, v) = state, block
        scores = scaled @ k.to(wide).mT
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        grown, shrink = (scores - new).exp(), (m - new).exp()
        l = l * shrink + grown.sum(dim=-1, keepdim=True)
        return new, l, o * shrink + grown @ v.to(wide)

    zero = torch.zeros_like(scaled[..., :1])
    m, l, o = functools.reduce(add, blocks, (zero - math.inf, zero, zero))
    return (o / l).to(query.dtype)


@right("softmax of each block, weighted by the block's share of the sum")
def running_softmax(query, blocks, *, dtype=None):
    dtype = dtype or torch.promote_types(query.dtype, torch.float32)
    top = mass = context = None
    for key, value in blocks:
        scores = torch.matmul(query, key.transpose(-2, -1)).to(dtype)
        scores = scores / math.sqrt(query.shape[-1])
        high = scores.max(dim=-1, keepdim=True).values
        here = (scores - high).exp().sum(-1, keepdim=True)
        mean = torch.softmax(scores, dim=-1) @ value.to(dtype)
        if top is None:
            top, mass, context = high, here, mean
            continue
        both = torch.maximum(top, high)
        mass, here = mass * (top - both).exp(), here * (high - both).exp()
        context = (mass * context + here * mean) / (mass + here)
        top, mass = both, mass + here
    return context.to(query.dtype)


@wrong(
    "no maximum is subtracted: scores above 88 overflow to infinity, very low ones underflow to 0/0",
    "Before the exponential is taken, $m$ is subtracted from every score.",
    "maximum not subtracted",
)
def running_softmax(query, blocks):
    l = o = 0
    for key, value in blocks:
        e = (query @ key.mT / math.sqrt(query.size(-1))).exp()
        l, o = l + e.sum(-1, keepdim=True), o + e @ value
    return o / l


@wrong(
    "the sum of the values is not shrunk when the maximum grows, only the sum of the exponentials; right if the first block has the largest score",
    "If a block has a larger score, $m'$ replaces $m$, and both earlier sums are multiplied by $e^{m - m'}$:",
    "earlier values not rescaled",
)
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = torch.zeros_like(m)
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, e.amax(-1, keepdim=True))
        p = (e - new).exp()
        l = l * (m - new).exp() + p.sum(-1, keepdim=True)
        o = o + p @ value
        m = new
    return o / l


@wrong(
    "a softmax for each block, and the mean of the contexts: right for a single block",
    "This is the same context that a softmax over the keys of all blocks would give.",
    "mean of the blocks' contexts",
)
def running_softmax(query, blocks):
    total, count = 0, 0
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        total, count = total + e.softmax(dim=-1) @ value, count + 1
    return total / count


@wrong(
    "collects all blocks in a list before it computes: by then their numbers have been overwritten, and the list grows",
    "You get each block once. When you ask for the next block, the numbers of the last one are overwritten.",
    "blocks collected first",
)
def running_softmax(query, blocks):
    blocks = list(blocks)
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = torch.zeros_like(m)
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, e.amax(-1, keepdim=True))
        p, shrink = (e - new).exp(), (m - new).exp()
        l, o, m = l * shrink + p.sum(-1, keepdim=True), o * shrink + p @ value, new
    return o / l


@wrong(
    "m begins at 0 in place of minus infinity: if all scores of a query are far below 0 (-100), every exponential is 0 and the context is NaN",
    "It takes the keys and values block by block, and keeps three things for each query: the largest score so far, $m$, the sum of the exponentials so far, $l$, and the sum of the values, each multiplied by its exponential, $o$.",
    "maximum starts at zero",
)
def running_softmax(query, blocks):
    m = torch.zeros_like(query[..., :1])
    l = o = torch.zeros_like(m)
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, e.amax(-1, keepdim=True))
        p, shrink = (e - new).exp(), (m - new).exp()
        l, o, m = l * shrink + p.sum(-1, keepdim=True), o * shrink + p @ value, new
    return o / l


@wrong(
    "the sum of the values gets the width of the queries: raises for Dv != D",
    "`blocks` gives pairs of keys (..., N, D) and values (..., N, Dv).",
    "values assumed as wide as queries",
)
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l, o = torch.zeros_like(m), torch.zeros_like(query)
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, e.amax(-1, keepdim=True))
        p, shrink = (e - new).exp(), (m - new).exp()
        l, m = l * shrink + p.sum(-1, keepdim=True), new
        o = o * shrink
        o += p @ value
    return o / l


@wrong(
    "multiplies values and exponentials without a matrix product: a tensor (..., T, N, Dv), far more than twice the scores of a block",
    "No tensor that you make may have more than twice as many numbers as the largest of these: the queries, the contexts, the keys of a block, its values, and the scores of all queries for one block.",
    "tensor of queries by keys by width",
)
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = torch.zeros_like(m)
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, e.amax(-1, keepdim=True))
        p, shrink = (e - new).exp(), (m - new).exp()
        weighted = p[..., None] * value[..., None, :, :]
        l, m = l * shrink + p.sum(-1, keepdim=True), new
        o = o * shrink + weighted.sum(dim=-2)
    return o / l


@wrong(
    "m is the maximum of the block and not of all blocks so far: sums are multiplied by more than 1 when a later block has lower scores, and overflow if it is lower by more than 88",
    r"m' = \max(m, \max_s e_{ts}), \qquad l' = l\, e^{m - m'} + \sum_s e^{e_{ts} - m'}, \qquad o' = o\, e^{m - m'} + \sum_s e^{e_{ts} - m'} v_s",
    "maximum of the last block only",
)
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = torch.zeros_like(m)
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = e.amax(-1, keepdim=True)
        p, shrink = (e - new).exp(), (m - new).exp()
        l, o, m = l * shrink + p.sum(-1, keepdim=True), o * shrink + p @ value, new
    return o / l


@wrong(
    "one maximum for all queries: a query whose scores are more than 100 below those of another query gets 0/0",
    "It takes the keys and values block by block, and keeps three things for each query: the largest score so far, $m$, the sum of the exponentials so far, $l$, and the sum of the values, each multiplied by its exponential, $o$.",
    "one maximum for all queries",
)
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = torch.zeros_like(m)
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, e.max())
        p, shrink = (e - new).exp(), (m - new).exp()
        l, o, m = l * shrink + p.sum(-1, keepdim=True), o * shrink + p @ value, new
    return o / l


@wrong(
    "asks for the next block before it computes with the last one, to know whether it is the last: right for lists of tensors, wrong where a buffer is used again",
    "You get each block once. When you ask for the next block, the numbers of the last one are overwritten.",
    "block used after the next was fetched",
)
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = torch.zeros_like(m)
    blocks = iter(blocks)
    block = next(blocks)
    while block is not None:
        following = next(blocks, None)
        key, value = block
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, e.amax(-1, keepdim=True))
        p, shrink = (e - new).exp(), (m - new).exp()
        l, o, m = l * shrink + p.sum(-1, keepdim=True), o * shrink + p @ value, new
        block = following
    return o / l
