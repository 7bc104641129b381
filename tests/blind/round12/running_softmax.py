import math

import torch

from blind import right, wrong


@right("keeps the logarithm of the sum and a context that is normalised after each block")
def running_softmax(query, blocks):
    log_sum, context = None, None
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        here = scores.logsumexp(dim=-1, keepdim=True)
        share = (scores - here).exp() @ value
        if log_sum is None:
            log_sum, context = here, share
            continue
        total = torch.logaddexp(log_sum, here)
        context = context * (log_sum - total).exp() + share * (here - total).exp()
        log_sum = total
    return context


@right("float64 inside, and the first block by next() before the loop")
def running_softmax(query, blocks):
    q = query.double() * query.size(-1) ** -0.5

    def read(pair):
        key, value = pair
        scores = torch.einsum("...td,...nd->...tn", q, key.double())
        top = scores.amax(dim=-1, keepdim=True)
        shares = torch.exp(scores - top)
        return top, shares.sum(-1, keepdim=True), shares @ value.double()

    blocks = iter(blocks)
    m, l, o = read(next(blocks))
    while (pair := next(blocks, None)) is not None:
        top, total, part = read(pair)
        new = torch.maximum(m, top)
        l = l * torch.exp(m - new) + total * torch.exp(top - new)
        o = o * torch.exp(m - new) + part * torch.exp(top - new)
        m = new
    return (o / l).to(query.dtype)


@right("a column of ones beside the values, so that o and l are one tensor")
def running_softmax(query, blocks):
    m, both = None, 0
    for key, value in blocks:
        scores = torch.matmul(query, key.transpose(-1, -2)).div(query.size(-1) ** 0.5)
        top = scores.amax(-1, keepdim=True)
        if m is not None:
            top = torch.maximum(top, m)
            both = both * torch.exp(m - top)
        wide = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)
        both = both + torch.exp(scores - top) @ wide
        m = top
    return both[..., :-1] / both[..., -1:]


@right("keys by queries: the scores lie on their side, and no gradient goes through the maximum")
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-2], 1, query.size(-2)), -math.inf)
    l = query.new_zeros(m.shape)
    o = None
    for key, value in blocks:
        scores = (key @ query.mT) / math.sqrt(key.size(-1))  # (..., N, T)
        with torch.no_grad():
            new = torch.maximum(m, scores.amax(dim=-2, keepdim=True))
            shrink = (m - new).exp()
        shares = (scores - new).exp()
        l = torch.addcmul(shares.sum(dim=-2, keepdim=True), l, shrink)
        part = shares.mT @ value
        o = part if o is None else torch.addcmul(part, o, shrink.mT)
        m = new
    return o / l.mT


@wrong(
    "multiplies only l by the factor when a larger score comes, not o",
    r"If a block contains a larger score, $m'$, this score becomes the new $m$, and both earlier sums are multiplied by $e^{m - m'}$:",
    "o is not rescaled",
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shares = (scores - new).exp()
        l = l * (m - new).exp() + shares.sum(dim=-1, keepdim=True)
        o = o + shares @ value
        m = new
    return o / l


@wrong(
    "takes a softmax in each block and the mean of the blocks' contexts",
    "It is the context that one softmax over the keys of all blocks would give.",
    "a mean of the contexts of the blocks",
)
def running_softmax(query, blocks):
    total, number = 0, 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        total = total + scores.softmax(dim=-1) @ value
        number += 1
    return total / number


@wrong(
    "does not divide the scores by the root of D",
    r"The scores are $e_{ts} = q_t^\top k_s / \sqrt{D}$.",
    "the scale is missing",
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shares, shrink = (scores - new).exp(), (m - new).exp()
        l = l * shrink + shares.sum(dim=-1, keepdim=True)
        o = o * shrink + shares @ value
        m = new
    return o / l


@wrong(
    "adds up plain exponentials without a maximum: a score of 100 overflows",
    "It subtracts $m$ from each score before it takes the exponential.",
    "no maximum is subtracted",
)
def running_softmax(query, blocks):
    l = o = 0
    for key, value in blocks:
        shares = (query @ key.mT / math.sqrt(query.size(-1))).exp()
        l = l + shares.sum(dim=-1, keepdim=True)
        o = o + shares @ value
    return o / l


@wrong(
    "m starts at 0: if all scores are below -200, all exponentials are 0 and the context is 0 / 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "m starts at 0 instead of minus infinity",
    subtle=True,
)
def running_softmax(query, blocks):
    m = query.new_zeros((*query.shape[:-1], 1))
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shares, shrink = (scores - new).exp(), (m - new).exp()
        l = l * shrink + shares.sum(dim=-1, keepdim=True)
        o = o * shrink + shares @ value
        m = new
    return o / l


@wrong(
    "keeps one maximum for all queries: a query whose scores all lie 200 below those of another one gets 0 / 0",
    "For each query, it keeps three things: the largest score so far, $m$; the sum of the exponentials so far, $l$; and the sum of the values, each multiplied by its exponential, $o$.",
    "one maximum for all queries",
    subtle=True,
)
def running_softmax(query, blocks):
    m = query.new_full((), -math.inf)
    l = o = 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.max())
        shares, shrink = (scores - new).exp(), (m - new).exp()
        l = l * shrink + shares.sum(dim=-1, keepdim=True)
        o = o * shrink + shares @ value
        m = new
    return o / l


@wrong(
    "makes o as wide as the queries, so values of another width give an error",
    "`blocks` gives pairs of keys (..., N, D) and values (..., N, Dv).",
    "Dv is taken to be D",
    subtle=True,
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), torch.zeros_like(query)
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shares, shrink = (scores - new).exp(), (m - new).exp()
        l = l * shrink + shares.sum(dim=-1, keepdim=True)
        o = o * shrink + shares @ value
        m = new
    return o / l


@wrong(
    "looks one block ahead (to know which one is the last) before it computes with the current one, whose numbers are then overwritten",
    "When you take the next block, its numbers overwrite those of the last block.",
    "takes the next block too early",
    subtle=True,
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), 0
    blocks = iter(blocks)
    current = next(blocks)
    while current is not None:
        upcoming = next(blocks, None)
        key, value = current
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shares, shrink = (scores - new).exp(), (m - new).exp()
        l = l * shrink + shares.sum(dim=-1, keepdim=True)
        o = o * shrink + shares @ value
        m, current = new, upcoming
    return o / l


@wrong(
    "collects m, l and o of each block in a list and puts them together at the end",
    "What you keep from one block to the next must not grow with the number of blocks.",
    "keeps something of every block",
    subtle=True,
)
def running_softmax(query, blocks):
    parts = []
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        top = scores.amax(dim=-1, keepdim=True)
        shares = (scores - top).exp()
        parts.append((top, shares.sum(dim=-1, keepdim=True), shares @ value))
    m = parts[0][0]
    for top, _, _ in parts:
        m = torch.maximum(m, top)
    l = sum(total * (top - m).exp() for top, total, _ in parts)
    o = sum(part * (top - m).exp() for top, _, part in parts)
    return o / l


@wrong(
    "detaches the maximum where it is subtracted from the scores, but not in the factor for l and o: the values are right, and the gradients are wrong as soon as a later block has a larger score",
    "Gradients must be right, too.",
    "the maximum is detached in one of two places",
    subtle=True,
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shares, shrink = (scores - new.detach()).exp(), (m - new).exp()
        l = l * shrink + shares.sum(dim=-1, keepdim=True)
        o = o * shrink + shares @ value
        m = new
    return o / l
