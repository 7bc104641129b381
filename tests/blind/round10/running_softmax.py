import itertools
import math
from functools import reduce

import torch
import torch.nn.functional as F

from blind import right, wrong


@right('keeps the log of the sum and the context: the past counts as one more key, whose score is that log')
def running_softmax(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    q = query.to(wide) / math.sqrt(query.size(-1))
    log_sum, context = None, None
    for keys, values in blocks:
        scores = q @ keys.to(wide).transpose(-2, -1)
        if log_sum is None:
            context = scores.softmax(dim=-1) @ values.to(wide)
            log_sum = scores.logsumexp(dim=-1, keepdim=True)
            continue
        weights = torch.cat([log_sum, scores], dim=-1).softmax(dim=-1)
        context = weights[..., :1] * context + weights[..., 1:] @ values.to(wide)
        log_sum = torch.logaddexp(log_sum, scores.logsumexp(dim=-1, keepdim=True))
    return context.to(query.dtype)


@right("mixes the context so far and the block's own context by a sigmoid of the difference of the logs")
def running_softmax(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    first = True
    for key, value in blocks:
        e = torch.einsum("...td,...nd->...tn", query.to(wide), key.to(wide))
        e = e * query.shape[-1] ** -0.5
        total = torch.logsumexp(e, -1, keepdim=True)
        new = torch.exp(e - total) @ value.to(wide)
        if first:
            context, log_l, first = new, total, False
        else:
            context = torch.lerp(context, new, torch.sigmoid(total - log_l))
            log_l = torch.logaddexp(log_l, total)
    return context.type_as(query)


@right('functional: reduce over the blocks with a tuple (m, l, o), a column of ones among the values gives l')
def running_softmax(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    q = query.to(wide)

    def absorb(kept, block):
        top, sums = kept
        keys, values = (x.to(wide) for x in block)
        scores = (q @ keys.mT).div_(math.sqrt(q.size(-1)))
        new_top = torch.maximum(top, scores.max(dim=-1, keepdim=True).values)
        powers = scores.sub_(new_top).exp_()
        added = powers @ F.pad(values, (0, 1), value=1.0)
        return new_top, sums * (top - new_top).exp() + added

    start = q.new_full(q.shape[:-1] + (1,), -math.inf)
    _, sums = reduce(absorb, blocks, (start, torch.zeros_like(start)))
    return (sums[..., :-1] / sums[..., -1:]).to(query.dtype)


@right('keeps an already divided context and the sum; iterates with next() until StopIteration')
def running_softmax(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    q = query.to(wide).mul(query.size(-1) ** -0.5)
    iterator = iter(blocks)
    m = torch.full_like(q[..., :1], float("-inf"))
    l = torch.zeros_like(m)
    c = 0.0
    while True:
        try:
            k, v = next(iterator)
        except StopIteration:
            break
        s = torch.matmul(q, k.to(wide).mT)
        bigger = torch.max(m, s.amax(-1, True))
        old = l * torch.exp(m - bigger)
        p = torch.exp(s - bigger)
        l = old + p.sum(-1, True)
        c = c * (old / l) + torch.matmul(p, v.to(wide)) / l
        m = bigger
    return c.to(query.dtype)


@wrong(
    'averages the contexts of the blocks, each with its own softmax: right for one block, or for equally good equal blocks',
    'It is the context that one softmax over the keys of all blocks would give.',
    'averages separate softmaxes of the blocks',
)
def running_softmax(query, blocks):
    total, count = 0, 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        total = total + scores.softmax(dim=-1) @ value
        count += 1
    return total / count


@wrong(
    'no maximum is subtracted: scores above 88 overflow to inf / inf = NaN',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'subtracts no maximum',
)
def running_softmax(query, blocks):
    l = o = 0
    for key, value in blocks:
        powers = (query @ key.mT / math.sqrt(query.size(-1))).exp()
        l = l + powers.sum(dim=-1, keepdim=True)
        o = o + powers @ value
    return o / l


@wrong(
    'computes the factor after m has been replaced, so it is always 1 and earlier blocks are not rescaled',
    "If a block contains a larger score, $m'$, this score becomes the new $m$, and both earlier sums are multiplied by $e^{m - m'}$:",
    'computes the factor after replacing m',
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor = torch.exp(m - m)
        powers = torch.exp(scores - m)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
    return o / l


@wrong(
    'm starts at 0 instead of minus infinity: if all scores of a query are below about -104, all exponentials are 0 and the context is 0 / 0',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'm starts at zero',
)
def running_softmax(query, blocks):
    m = torch.zeros_like(query[..., :1])
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        larger = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = torch.exp(m - larger), torch.exp(scores - larger)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = larger
    return o / l


@wrong(
    'scales by the width of the values: right only if Dv = D',
    'The scores are $e_{ts} = q_t^\\top k_s / \\sqrt{D}$.',
    'scales by Dv instead of D',
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(value.size(-1))
        larger = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = torch.exp(m - larger), torch.exp(scores - larger)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = larger
    return o / l


@wrong(
    'keeps the context and the log-sum of every block and combines them at the end: the lists grow with the number of blocks',
    'What you keep from one block to the next must not grow with the number of blocks.',
    'keeps a context for every block',
)
def running_softmax(query, blocks):
    contexts, logs = [], []
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        contexts.append(scores.softmax(dim=-1) @ value)
        logs.append(scores.logsumexp(dim=-1, keepdim=True))
    top = reduce(torch.maximum, logs)
    shares = [torch.exp(log - top) for log in logs]
    total = sum(shares)
    return sum(share / total * context for share, context in zip(shares, contexts))


@wrong(
    "scales the query in place: the caller's query is divided by sqrt(D)",
    'Do not change the inputs.',
    'scales the query in place',
)
def running_softmax(query, blocks):
    query /= math.sqrt(query.size(-1))
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT
        larger = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = torch.exp(m - larger), torch.exp(scores - larger)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = larger
    return o / l


@wrong(
    'looks one block ahead with pairwise, so a block is used after the next one has overwritten its numbers; right for blocks with memory of their own',
    'You get each block only once. When you take the next block, its numbers overwrite those of the last block.',
    'uses a block after taking the next',
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), 0
    for (key, value), following in itertools.pairwise(itertools.chain(blocks, [None])):
        scores = query @ key.mT / math.sqrt(query.size(-1))
        larger = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = torch.exp(m - larger), torch.exp(scores - larger)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = larger
        if following is None:
            return o / l


@wrong(
    "one maximum for all queries: a query whose scores are all far below another query's gets 0 / 0",
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'one maximum for all queries together',
)
def running_softmax(query, blocks):
    m = torch.full((), -math.inf, dtype=query.dtype, device=query.device)
    l = o = 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        larger = torch.maximum(m, scores.max())
        factor, powers = torch.exp(m - larger), torch.exp(scores - larger)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = larger
    return o / l


@wrong(
    'm is the largest score of the first block for ever: overflows when a later block has a score larger by 89, underflows to 0 / 0 never, so usual numbers are right',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'never updates m after the first block',
)
def running_softmax(query, blocks):
    m = None
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        if m is None:
            m = scores.amax(dim=-1, keepdim=True)
            l = torch.zeros_like(m)
            o = torch.zeros_like(value[..., :1, :])
        powers = torch.exp(scores - m)
        l = l + powers.sum(dim=-1, keepdim=True)
        o = o + powers @ value
    return o / l
