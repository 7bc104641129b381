import functools
import math

import torch
import torch.nn.functional as F

from blind import right, wrong


@right('l is one more column of o: the values get a column of ones')
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    exact = torch.promote_types(query.dtype, torch.float32)
    scaled = query.to(exact) / math.sqrt(query.shape[-1])
    largest = sums = None
    for key, value in blocks:
        scores = scaled @ key.to(exact).mT
        highest = scores.amax(dim=-1, keepdim=True)
        if largest is not None:
            highest = torch.maximum(highest, largest)
        part = (scores - highest).exp() @ F.pad(value.to(exact), (0, 1), value=1.0)
        sums = part if sums is None else part + sums * (largest - highest).exp()
        largest = highest
    return (sums[..., :-1] / sums[..., -1:]).to(query.dtype)


@right('keeps a context that is always normalized, mixed with the softmax of the next block, in float64')
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    m = query.new_full((*query.shape[:-1], 1), -math.inf, dtype=torch.float64)
    l, context = torch.zeros_like(m), torch.zeros_like(m)
    for key, value in blocks:
        scores = torch.matmul(query.double(), key.double().transpose(-2, -1))
        scores *= query.shape[-1] ** -0.5
        m_here = torch.max(scores, dim=-1, keepdim=True).values
        l_here = torch.sum(torch.exp(scores - m_here), dim=-1, keepdim=True)
        here = scores.softmax(dim=-1) @ value.double()
        m_both = torch.maximum(m, m_here)
        old, new = l * torch.exp(m - m_both), l_here * torch.exp(m_here - m_both)
        context = context * (old / (old + new)) + here * (new / (old + new))
        m, l = m_both, old + new
    return context.to(query.dtype)

def merge(left, right_):
    """Join the summaries of two sets of keys."""
    (m1, l1, o1), (m2, l2, o2) = left, right_
    m = torch.maximum(m1, m2)
    f1, f2 = torch.exp(m1 - m), torch.exp(m2 - m)
    return m, l1 * f1 + l2 * f2, o1 * f1.unsqueeze(-1) + o2 * f2.unsqueeze(-1)


@right('summaries of blocks, merged by functools.reduce; scores are keys by queries, einsum')
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    exact = torch.promote_types(query.dtype, torch.float32)

    def summary(block):
        key, value = (part.to(exact) for part in block)
        scores = torch.einsum("...nd,...td->...nt", key, query.to(exact))
        scores = scores / math.sqrt(query.shape[-1])
        m = scores.amax(dim=-2)
        powers = torch.exp(scores - m.unsqueeze(-2))
        return m, powers.sum(dim=-2), torch.einsum("...nt,...nv->...tv", powers, value)

    _, l, o = functools.reduce(merge, map(summary, blocks))
    return o.div(l.unsqueeze(-1)).to(query.dtype)

class Tally:
    """m, l and o of all queries, changed in place; powers of 2 instead of e."""

    def __init__(self, query):
        self.query = query.double() * (math.log2(math.e) / query.shape[-1] ** 0.5)
        self.m = torch.full_like(self.query[..., 0], -math.inf)
        self.l = torch.zeros_like(self.m)
        self.o = None

    def add(self, key, value):
        value = value.double()
        scores = self.query.matmul(key.double().mT)
        highest = self.m.maximum(scores.amax(-1))
        factor = self.m.sub_(highest).exp2_()
        scores.sub_(highest[..., None]).exp2_()
        self.l.mul_(factor).add_(scores.sum(-1))
        if self.o is None:
            self.o = self.query.new_zeros((*self.l.shape, value.shape[-1]))
        self.o.mul_(factor[..., None]).add_(scores.matmul(value))
        self.m = highest


@right('an object with state, updated in place, with powers of 2 in float64')
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    tally = Tally(query)
    for block in blocks:
        tally.add(*block)
    return (tally.o / tally.l[..., None]).to(query.dtype)


@wrong(
    'multiplies only l by the factor, and not o',
    breaks="If a block contains a larger score, $m'$, this score becomes the new $m$, and both earlier sums are multiplied by $e^{m - m'}$:",
    name='o is not rescaled',
)
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    exact = torch.promote_types(query.dtype, torch.float32)
    m = query.new_full((*query.shape[:-1], 1), -math.inf, dtype=exact)
    l, o = torch.zeros_like(m), 0.0
    for key, value in blocks:
        scores = query.to(exact) @ key.to(exact).mT / math.sqrt(query.shape[-1])
        highest = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = (m - highest).exp(), (scores - highest).exp()
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o + powers @ value.to(exact)
        m = highest
    return (o / l).to(query.dtype)


@wrong(
    "one softmax for each block, and the mean of the blocks' contexts",
    breaks='It is the context that one softmax over the keys of all blocks would give.',
    name='mean of the blocks',
)
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    contexts, number = 0.0, 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        contexts, number = contexts + scores.softmax(dim=-1) @ value, number + 1
    return contexts / number


@wrong(
    'puts all blocks in a list and goes through them twice, first for the maximum and then for the sums',
    breaks='When you take the next block, its numbers overwrite those of the last block.',
    name='blocks kept in a list',
)
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    blocks = list(blocks)
    m = None
    for key, _ in blocks:
        highest = (query @ key.mT / math.sqrt(query.shape[-1])).amax(-1, keepdim=True)
        m = highest if m is None else torch.maximum(m, highest)
    l = o = 0.0
    for key, value in blocks:
        powers = (query @ key.mT / math.sqrt(query.shape[-1]) - m).exp()
        l, o = l + powers.sum(dim=-1, keepdim=True), o + powers @ value
    return o / l


@wrong(
    'multiplies each query with each key entry by entry, which makes a tensor (..., T, N, D)',
    breaks='Do not make a tensor with more than twice as many numbers as the largest of these: the queries, the contexts, the keys of a block, its values, and the scores of all queries for one block.',
    name='all products at once',
)
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    exact = torch.promote_types(query.dtype, torch.float32)
    m = query.new_full((*query.shape[:-1], 1), -math.inf, dtype=exact)
    l, o = torch.zeros_like(m), 0.0
    for key, value in blocks:
        products = query.to(exact)[..., :, None, :] * key.to(exact)[..., None, :, :]
        scores = products.sum(dim=-1) / math.sqrt(query.shape[-1])
        highest = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = (m - highest).exp(), (scores - highest).exp()
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value.to(exact)
        m = highest
    return (o / l).to(query.dtype)


@wrong(
    'fills each shorter block up with zeros to the size of the largest block so far, and the zeros get weight',
    breaks='N is at least 1 and may differ from block to block.',
    name='padding gets weight',
)
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    exact = torch.promote_types(query.dtype, torch.float32)
    m = query.new_full((*query.shape[:-1], 1), -math.inf, dtype=exact)
    l, o = torch.zeros_like(m), 0.0
    size = 0
    for key, value in blocks:
        size = max(size, key.shape[-2])
        missing = (0, 0, 0, size - key.shape[-2])
        key, value = F.pad(key, missing), F.pad(value, missing)
        scores = query.to(exact) @ key.to(exact).mT / math.sqrt(query.shape[-1])
        highest = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = (m - highest).exp(), (scores - highest).exp()
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value.to(exact)
        m = highest
    return (o / l).to(query.dtype)


@wrong(
    "keeps one largest score for all queries together; other queries' exponentials may all become 0",
    breaks='For each query, it keeps three things: the largest score so far, $m$; the sum of the exponentials so far, $l$; and the sum of the values, each multiplied by its exponential, $o$.',
    name='one maximum for all queries',
)
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    exact = torch.promote_types(query.dtype, torch.float32)
    m = query.new_full((), -math.inf, dtype=exact)
    l, o = 0.0, 0.0
    for key, value in blocks:
        scores = query.to(exact) @ key.to(exact).mT / math.sqrt(query.shape[-1])
        highest = torch.maximum(m, scores.amax())
        factor, powers = (m - highest).exp(), (scores - highest).exp()
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value.to(exact)
        m = highest
    return (o / l).to(query.dtype)


@wrong(
    'm is the largest score of the newest block only, so the factor overflows if the scores fall',
    breaks="m' = \\max(m, \\max_s e_{ts}), \\qquad l' = l\\, e^{m - m'} + \\sum_s e^{e_{ts} - m'}, \\qquad o' = o\\, e^{m - m'} + \\sum_s e^{e_{ts} - m'} v_s",
    name='the maximum may fall',
)
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    exact = torch.promote_types(query.dtype, torch.float32)
    m = query.new_full((*query.shape[:-1], 1), -math.inf, dtype=exact)
    l, o = torch.zeros_like(m), 0.0
    for key, value in blocks:
        scores = query.to(exact) @ key.to(exact).mT / math.sqrt(query.shape[-1])
        highest = scores.amax(dim=-1, keepdim=True)
        factor, powers = (m - highest).exp(), (scores - highest).exp()
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value.to(exact)
        m = highest
    return (o / l).to(query.dtype)


@wrong(
    'a block of one key is not averaged: its value is kept as a view, which the next block overwrites',
    breaks='When you take the next block, its numbers overwrite those of the last block.',
    name='a view of a block is kept',
)
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    m = l = context = None
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        m_here = scores.amax(dim=-1, keepdim=True)
        l_here = (scores - m_here).exp().sum(dim=-1, keepdim=True)
        if key.shape[-2] == 1:  # one key gets all the weight
            here = value.expand(*query.shape[:-1], value.shape[-1])
        else:
            here = scores.softmax(dim=-1) @ value
        if m is None:
            m, l, context = m_here, l_here, here
            continue
        highest = torch.maximum(m, m_here)
        old, new = l * (m - highest).exp(), l_here * (m_here - highest).exp()
        m, l = highest, old + new
        context = context * (old / l) + here * (new / l)
    return context


@wrong(
    'divides the scores by the square root of Dv, the width of the values',
    breaks='The scores are $e_{ts} = q_t^\\top k_s / \\sqrt{D}$.',
    name='scaled by the wrong width',
)
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    exact = torch.promote_types(query.dtype, torch.float32)
    m = query.new_full((*query.shape[:-1], 1), -math.inf, dtype=exact)
    l, o = torch.zeros_like(m), 0.0
    for key, value in blocks:
        scores = query.to(exact) @ key.to(exact).mT / math.sqrt(value.shape[-1])
        highest = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = (m - highest).exp(), (scores - highest).exp()
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value.to(exact)
        m = highest
    return (o / l).to(query.dtype)


@wrong(
    'scales the keys of each block in place, to save a tensor',
    breaks='Do not change the inputs.',
    name='keys are scaled in place',
)
def running_softmax(query, blocks):
    """Compute scaled dot-product attention, one block of keys at a time."""
    exact = torch.promote_types(query.dtype, torch.float32)
    m = query.new_full((*query.shape[:-1], 1), -math.inf, dtype=exact)
    l, o = torch.zeros_like(m), 0.0
    for key, value in blocks:
        scores = query.to(exact) @ key.div_(math.sqrt(query.shape[-1])).to(exact).mT
        highest = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = (m - highest).exp(), (scores - highest).exp()
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value.to(exact)
        m = highest
    return (o / l).to(query.dtype)
