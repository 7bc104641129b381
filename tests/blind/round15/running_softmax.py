import math

import torch
from blind import right, wrong

SAME = "It is the context that one softmax over the keys of all blocks would give."
SUMS = "If a block contains a larger score, $m'$, this score becomes the new $m$, and both earlier sums are multiplied by $e^{m - m'}$:"
LARGEST = "For each query, it keeps three things: the largest score so far, $m$; the sum of the exponentials so far, $l$; and the sum of the values, each multiplied by its exponential, $o$."
SCALE = r"The scores are $e_{ts} = q_t^\top k_s / \sqrt{D}$."
ONCE = "When you take the next block, its numbers overwrite those of the last block."
SIZE = "Do not make a tensor with more than twice as many numbers as the largest of these: the queries, the contexts, the keys of a block, its values, and the scores of all queries for one block."
KEEP = "What you keep from one block to the next must not grow with the number of blocks."
CHANGE = "Do not change the inputs."
NUMBERS = "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode."


@right('sums and values in one product, by a column of ones')
@torch.no_grad()
def running_softmax(query, blocks):
    kind, result = torch.promote_types(query.dtype, torch.float32), query.dtype
    query = query.to(kind) / math.sqrt(query.size(-1))
    largest = sums = None
    for key, value in blocks:
        key, value = key.to(kind), value.to(kind)
        scores = query @ key.mT
        new = scores.amax(dim=-1, keepdim=True)
        if largest is not None:
            new = torch.maximum(largest, new)
        one = torch.ones_like(value[..., :1])
        part = torch.exp(scores - new) @ torch.cat([value, one], dim=-1)
        sums = part if sums is None else sums * torch.exp(largest - new) + part
        largest = new
    return (sums[..., :-1] / sums[..., -1:]).to(result)


@right('minus infinity at the start, float64 inside')
@torch.no_grad()
def running_softmax(query, blocks):
    scaled = query.double() * query.size(-1) ** -0.5
    m = torch.full_like(scaled[..., :1], -torch.inf)
    l = torch.zeros_like(m)
    o = l
    for key, value in blocks:
        e = torch.einsum("...td,...sd->...ts", scaled, key.double())
        bigger = torch.maximum(m, e.max(dim=-1, keepdim=True).values)
        factor, e = (m - bigger).exp(), e.sub_(bigger).exp_()
        l = l * factor + e.sum(dim=-1, keepdim=True)
        o = o * factor + torch.einsum("...ts,...sv->...tv", e, value.double())
        m = bigger
    return (o / l).to(query.dtype)


@right('keeps a normalised context and corrects it by each block')
def running_softmax(query, blocks):
    precise = torch.promote_types(query.dtype, torch.float32)
    root = math.sqrt(query.shape[-1])
    blocks = iter(blocks)

    def read(pair):
        key, value = (part.to(precise) for part in pair)
        scores = torch.matmul(query.to(precise), key.transpose(-1, -2)) / root
        top = scores.amax(-1, keepdim=True)
        powers = torch.exp(scores - top)
        total = powers.sum(-1, keepdim=True)
        return top, total, torch.matmul(powers, value) / total

    with torch.no_grad():
        m, l, context = read(next(blocks))
        for pair in blocks:
            top, total, mean = read(pair)
            new = torch.where(top > m, top, m)
            l, total = l * (m - new).exp(), total * (top - new).exp()
            share = total / (l + total)
            context = context * (1 - share) + mean * share
            m, l = new, l + total
    return context.to(query.dtype)


@right('values before queries: sums over transposed scores, in-place updates of its own tensors')
def running_softmax(query, blocks):
    kind = torch.promote_types(query.dtype, torch.float32)
    turned = query.detach().to(kind).mT / math.sqrt(query.size(-1))  # (..., D, T)
    m = l = o = None
    for key, value in blocks:
        key, value = key.detach().to(kind), value.detach().to(kind)
        scores = key @ turned  # (..., N, T)
        best = scores.amax(dim=-2, keepdim=True)
        if m is None:
            m, l = best, torch.zeros_like(best)
            o = value.new_zeros(*value.shape[:-2], value.size(-1), query.size(-2))
        best = best.clamp(min=m)
        factor = m.sub(best).exp()
        powers = scores.sub(best).exp()
        l.mul_(factor).add_(powers.sum(dim=-2, keepdim=True))
        o.mul_(factor).add_(value.mT @ powers)
        m = best
    return (o / l).mT.to(query.dtype)


@wrong("makes a list of the blocks first, which then all hold the last block's numbers", breaks=ONCE, name='collects the blocks')
def running_softmax(query, blocks):
    blocks = list(blocks)
    root, best = math.sqrt(query.size(-1)), None
    for key, _ in blocks:
        top = (query @ key.mT / root).amax(dim=-1, keepdim=True)
        best = top if best is None else torch.maximum(best, top)
    l = o = 0
    for key, value in blocks:
        powers = torch.exp(query @ key.mT / root - best)
        l = l + powers.sum(dim=-1, keepdim=True)
        o = o + powers @ value
    return o / l


@wrong('subtracts the largest score of the first block for ever, so a later exponential overflows', breaks=SUMS, name='m never updated')
def running_softmax(query, blocks):
    m, l, o = None, 0, 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        if m is None:
            m = scores.amax(dim=-1, keepdim=True)
        powers = torch.exp(scores - m)
        l = l + powers.sum(dim=-1, keepdim=True)
        o = o + powers @ value
    return o / l


@wrong('multiplies o by the factor but forgets l', breaks=SUMS, name='l not rescaled')
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], float("-inf"))
    l = torch.zeros_like(m)
    o = torch.zeros_like(m)
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        powers, factor = torch.exp(scores - new), torch.exp(m - new)
        l = l + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = new
    return o / l


@wrong("divides by the root of the values' width Dv", breaks=SCALE, name='root of Dv instead of D')
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], float("-inf"))
    l = torch.zeros_like(m)
    o = torch.zeros_like(m)
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(value.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        powers, factor = torch.exp(scores - new), torch.exp(m - new)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = new
    return o / l


@wrong('keeps one largest score for all queries: those with much lower scores get 0 / 0', breaks=LARGEST, name='one m for all queries')
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], float("-inf"))
    l = torch.zeros_like(m)
    o = torch.zeros_like(m)
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax())
        powers, factor = torch.exp(scores - new), torch.exp(m - new)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = new
    return o / l


@wrong("the mean of the blocks' contexts, weighted by the numbers of keys", breaks=SAME, name='one softmax per block')
def running_softmax(query, blocks):
    total, keys = 0, 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        total = total + key.size(-2) * (scores.softmax(dim=-1) @ value)
        keys += key.size(-2)
    return total / keys


@wrong('multiplies values and exponentials by broadcasting, (..., T, N, Dv)', breaks=SIZE, name='a product for each query, key and number')
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], float("-inf"))
    l = torch.zeros_like(m)
    o = torch.zeros_like(m)
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        powers, factor = torch.exp(scores - new), torch.exp(m - new)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + (powers.unsqueeze(-1) * value.unsqueeze(-3)).sum(dim=-2)
        m = new
    return o / l


@wrong('keeps m, l and o of every block and joins them at the end', breaks=KEEP, name='a list that grows with the blocks')
def running_softmax(query, blocks):
    tops, sums, contexts = [], [], []
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        tops.append(scores.amax(dim=-1, keepdim=True))
        powers = torch.exp(scores - tops[-1])
        sums.append(powers.sum(dim=-1, keepdim=True))
        contexts.append(powers @ value)
    best = tops[0]
    for top in tops:
        best = torch.maximum(best, top)
    l = sum(s * torch.exp(top - best) for top, s in zip(tops, sums))
    o = sum(c * torch.exp(top - best) for top, c in zip(tops, contexts))
    return o / l


@wrong('starts with m = 0: if all scores are far below 0, all exponentials are 0', breaks=NUMBERS, name='m starts at 0')
def running_softmax(query, blocks):
    m = torch.zeros_like(query[..., :1])
    l = torch.zeros_like(m)
    o = torch.zeros_like(m)
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        powers, factor = torch.exp(scores - new), torch.exp(m - new)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = new
    return o / l


@wrong('scales the query in place', breaks=CHANGE, name='query changed')
def running_softmax(query, blocks):
    query *= query.size(-1) ** -0.5
    m = torch.full_like(query[..., :1], float("-inf"))
    l = torch.zeros_like(m)
    o = torch.zeros_like(m)
    for key, value in blocks:
        scores = query @ key.mT
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        powers, factor = torch.exp(scores - new), torch.exp(m - new)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = new
    return o / l
