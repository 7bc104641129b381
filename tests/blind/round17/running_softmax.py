import math

import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong

LARGEST = "For each query, it keeps three things: the largest score so far, $m$; the sum of the exponentials so far, $l$; and the sum of the values, each multiplied by its exponential, $o$."
SUBTRACT = "It subtracts $m$ from each score before it takes the exponential."
UPDATE = "If a block contains a larger score, $m'$, this score becomes the new $m$, and both earlier sums are multiplied by $e^{m - m'}$:"
SCORES = r"The scores are $e_{ts} = q_t^\top k_s / \sqrt{D}$."
DIFFER = "N is at least 1 and may differ from block to block."
ONCE = "You get each block only once."
OVERWRITE = "When you take the next block, its numbers overwrite those of the last block."
LARGE = "Do not make a tensor with more than twice as many numbers as the largest of these: the queries, the contexts, the keys of a block, its values, and the scores of all queries for one block."
GROW = "What you keep from one block to the next must not grow with the number of blocks."
NUMBERS = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."


# ---------------------------------------------------------------- right answers


@right("keeps the context of the blocks so far and the logarithm of l, with logaddexp")
def running_softmax(query, blocks):
    context, log_sum = None, None
    for key, value in blocks:
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
        new = scores.logsumexp(dim=-1, keepdim=True)
        own = scores.softmax(dim=-1) @ value
        if context is None:
            context, log_sum = own, new
        else:
            both = torch.logaddexp(log_sum, new)
            context = context * (log_sum - both).exp() + own * (new - both).exp()
            log_sum = both
    return context


@right("appends a column of ones to the values, so that o and l are one matrix")
def running_softmax(query, blocks):
    scaled = query * query.size(-1) ** -0.5
    largest = torch.full_like(query[..., :1], -torch.inf)
    sums = 0
    for key, value in blocks:
        scores = torch.einsum("...td,...nd->...tn", scaled, key)
        new = torch.cat([largest, scores.max(dim=-1, keepdim=True).values], -1).amax(-1, True)
        columns = F.pad(value, (0, 1), value=1.0)
        sums = sums * (largest - new).exp() + (scores - new).exp() @ columns
        largest = new
    return sums[..., :-1] / sums[..., -1:]


@right("the first block by next(), then in-place updates; float32 or wider inside")
@torch.no_grad()
def running_softmax(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    rest = iter(blocks)
    key, value = next(rest)
    scores = (query.to(wide) @ key.to(wide).mT).div_(math.sqrt(key.size(-1)))
    top = scores.amax(dim=-1)
    powers = scores.sub_(top.unsqueeze(-1)).exp_()
    total, sums = powers.sum(dim=-1), powers @ value.to(wide)
    for key, value in rest:
        scores = (query.to(wide) @ key.to(wide).mT).div_(math.sqrt(key.size(-1)))
        new = torch.maximum(top, scores.amax(dim=-1))
        shrink = top.sub_(new).exp_()
        top = new
        powers = scores.sub_(new.unsqueeze(-1)).exp_()
        total.mul_(shrink).add_(powers.sum(dim=-1))
        sums.mul_(shrink.unsqueeze(-1)).add_(powers @ value.to(wide))
    return sums.div_(total.unsqueeze(-1)).to(query.dtype)


@right("moves the running mean towards each block's mean by the block's share, keys scaled")
def running_softmax(query, blocks):
    top = total = context = None
    for key, value in blocks:
        scores = torch.matmul(key / math.sqrt(key.size(-1)), query.mT)  # (..., N, T)
        block_top = scores.amax(dim=-2)
        if top is None:
            top, total = block_top, torch.zeros_like(block_top)
        new = torch.where(block_top > top, block_top, top)
        powers = torch.exp(scores - new.unsqueeze(-2))
        own = powers.sum(dim=-2)
        total = total * torch.exp(top - new) + own
        top = new
        if context is None:
            context = powers.mT @ value / own.unsqueeze(-1)
        else:
            pull = powers.mT @ value - own.unsqueeze(-1) * context
            context = context + pull / total.unsqueeze(-1)
    return context


# ---------------------------------------------------------------- wrong answers


@wrong("computes the factor after m has been replaced, so it is always 1",
       breaks=UPDATE, name="the earlier sums are not rescaled")
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor = torch.exp(m - m)
        powers = torch.exp(scores - m)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
    return o / l


@wrong("adds up the plain exponentials of the scores",
       breaks=SUBTRACT, name="the exponentials of large scores overflow")
def running_softmax(query, blocks):
    l, o = 0, 0
    for key, value in blocks:
        powers = torch.exp(query @ key.mT / math.sqrt(query.size(-1)))
        l = l + powers.sum(dim=-1, keepdim=True)
        o = o + powers @ value
    return o / l


@wrong("multiplies exponentials and values in one tensor (..., T, N, Dv) and sums it",
       breaks=LARGE, name="a tensor with a number for each query, key and entry")
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers, m = torch.exp(m - new), torch.exp(scores - new), new
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + (powers.unsqueeze(-1) * value.unsqueeze(-3)).sum(dim=-2)
    return o / l


@wrong("collects keys and values in lists and computes one softmax at the end",
       breaks=ONCE, name="all blocks at once")
def running_softmax(query, blocks):
    keys, values = [], []
    for key, value in blocks:
        keys.append(key)
        values.append(value)
    keys, values = torch.cat(keys, dim=-2), torch.cat(values, dim=-2)
    scores = query @ keys.mT / math.sqrt(query.size(-1))
    return scores.softmax(dim=-1) @ values


@wrong("takes the next block before it has used the last one, to know which block ends",
       breaks=OVERWRITE, name="reads one block ahead")
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l, o = torch.zeros_like(m), 0
    blocks = iter(blocks)
    block = next(blocks)
    while block is not None:
        following = next(blocks, None)
        key, value = block
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers, m = torch.exp(m - new), torch.exp(scores - new), new
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        block = following
    return o / l


@wrong("divides the scores by the root of the width of the values",
       breaks=SCORES, name="the scale is wrong where Dv is not D")
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(value.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers, m = torch.exp(m - new), torch.exp(scores - new), new
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
    return o / l


@wrong("starts with m = 0 instead of minus infinity",
       breaks=NUMBERS, name="0 / 0 if all scores of a query are far below zero")
def running_softmax(query, blocks):
    m = torch.zeros_like(query[..., :1])
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers, m = torch.exp(m - new), torch.exp(scores - new), new
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
    return o / l


@wrong("keeps a single largest score for all queries together",
       breaks=LARGEST, name="queries with small scores underflow")
def running_softmax(query, blocks):
    m = torch.full((), -math.inf, dtype=query.dtype, device=query.device)
    l, o = torch.zeros_like(query[..., :1]), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.max())
        factor, powers, m = torch.exp(m - new), torch.exp(scores - new), new
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
    return o / l


@wrong("keeps the logarithm of each block's sum in a list and joins the contexts' shares at the end",
       breaks=GROW, name="two numbers per query for every block")
def running_softmax(query, blocks):
    logs, o, m = [], 0, torch.full_like(query[..., :1], -math.inf)
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        o = o * torch.exp(m - new) + torch.exp(scores - new) @ value
        logs.append(scores.logsumexp(dim=-1, keepdim=True))
        m = new
    l = 0
    for log in logs:
        l = l + torch.exp(log - m)
    return o / l


@wrong("pads or cuts every block to the size of the first one",
       breaks=DIFFER, name="a smaller block gets keys of zeros that count in the sum")
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    l, o, size = torch.zeros_like(m), 0, None
    for key, value in blocks:
        size = size or key.size(-2)
        key = F.pad(key, (0, 0, 0, size - key.size(-2)))
        value = F.pad(value, (0, 0, 0, size - value.size(-2)))
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers, m = torch.exp(m - new), torch.exp(scores - new), new
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
    return o / l
