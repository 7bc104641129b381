import math

import torch
from blind import right, wrong

SCORES = r"The scores are $e_{ts} = q_t^\top k_s / \sqrt{D}$."
SIZES = "N is at least 1 and may differ from block to block."
ONCE = "You get each block only once."
OVERWRITE = "When you take the next block, its numbers overwrite those of the last block."
MEMORY = "Do not make a tensor with more than twice as many numbers as the largest of these: the queries, the contexts, the keys of a block, its values, and the scores of all queries for one block."
KEPT = "What you keep from one block to the next must not grow with the number of blocks."
LOOP = "Compute all queries and a whole block at once."
AXES = "There may be any number of axes before the last two, or none."
META = "For this call, it uses PyTorch's device `meta`, where tensors have shapes but no numbers."
BOTH = "If a block contains a larger score, $m'$, this score becomes the new $m$, and both earlier sums are multiplied by $e^{m - m'}$:"
EACH = "For each query, it keeps three things: the largest score so far, $m$; the sum of the exponentials so far, $l$; and the sum of the values, each multiplied by its exponential, $o$."
ONE = "It is the context that one softmax over the keys of all blocks would give."
OVERFLOW = "An exponential, however, may overflow."
INPUTS = "Do not change the inputs."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."
LARGE = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."


@right("starts with the sums of the first block; float64 throughout")
@torch.no_grad()
def running_softmax(query, blocks):
    blocks, q = iter(blocks), query.double() / math.sqrt(query.size(-1))
    key, value = next(blocks)
    e = q @ key.double().mT
    m = e.amax(-1, keepdim=True)
    e = (e - m).exp()
    l, o = e.sum(-1, keepdim=True), e @ value.double()
    for key, value in blocks:
        e = q @ key.double().mT
        new = torch.maximum(m, e.amax(-1, keepdim=True))
        shrink, e = (m - new).exp(), (e - new).exp()
        l, o, m = l * shrink + e.sum(-1, keepdim=True), o * shrink + e @ value.double(), new
    return (o / l).to(query.dtype)


@right("keeps the context itself and the logarithm of the sum, joined by logaddexp")
def running_softmax(query, blocks):
    scale, lse, context = query.shape[-1] ** -0.5, -torch.inf, 0.0
    lse = query.new_full((*query.shape[:-1], 1), -torch.inf, dtype=torch.float64)
    for key, value in blocks:
        scores = torch.matmul(query.double() * scale, key.double().transpose(-1, -2))
        new = torch.logaddexp(lse, scores.logsumexp(dim=-1, keepdim=True))
        context = context * (lse - new).exp() + (scores - new).exp() @ value.double()
        lse = new
    return context.detach().to(query.dtype)


@right("a column of ones next to the values, so that o and l are one tensor")
@torch.no_grad()
def running_softmax(query, blocks):
    m, sums = None, None
    for key, value in blocks:
        scores = query.double() @ key.double().mT / query.size(-1) ** 0.5
        top = scores.amax(-1, keepdim=True)
        new = top if m is None else top.maximum(m)
        ones = torch.ones_like(value[..., :1], dtype=torch.float64)
        part = (scores - new).exp() @ torch.cat([value.double(), ones], dim=-1)
        sums = part if m is None else sums * (m - new).exp() + part
        m = new
    return (sums[..., :-1] / sums[..., -1:]).to(query.dtype)


@right("keys by queries, powers of two, sums rescaled in place")
@torch.no_grad()
def running_softmax(query, blocks):
    q = (query.double() * (math.log2(math.e) / math.sqrt(query.size(-1)))).transpose(-1, -2)
    m = q.new_full((*q.shape[:-2], 1, q.size(-1)), -math.inf)
    l, o = torch.zeros_like(m), None
    for key, value in blocks:
        powers = key.double() @ q
        new = powers.amax(dim=-2, keepdim=True).maximum(m)
        shrink = torch.exp2(m - new)
        powers.sub_(new).exp2_()
        part = value.double().transpose(-1, -2) @ powers
        l.mul_(shrink).add_(powers.sum(dim=-2, keepdim=True))
        o = part if o is None else o.mul_(shrink).add_(part)
        m = new
    return (o / l).transpose(-1, -2).to(query.dtype)


def begin(query):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    return m, torch.zeros_like(m), 0


@wrong("rescales l but not o when a larger score comes", breaks=BOTH, name="o is not rescaled")
@torch.no_grad()
def running_softmax(query, blocks):
    m, l, o = begin(query)
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, e.amax(-1, keepdim=True))
        w = (e - new).exp()
        l, o, m = l * (m - new).exp() + w.sum(-1, keepdim=True), o + w @ value, new
    return o / l


@wrong("makes a list of the blocks and goes through it twice (first for the largest scores): by then, all are overwritten by the last", breaks=OVERWRITE, name="reads the blocks twice")
@torch.no_grad()
def running_softmax(query, blocks):
    pairs, scale = list(blocks), math.sqrt(query.size(-1))
    m, l, o = begin(query)
    for key, _ in pairs:
        m = torch.maximum(m, (query @ key.mT / scale).amax(-1, keepdim=True))
    for key, value in pairs:
        w = (query @ key.mT / scale - m).exp()
        l, o = l + w.sum(-1, keepdim=True), o + w @ value
    return o / l


@wrong("starts with m = 0: if all scores of a query are far below 0, all exponentials are 0, and 0 / 0 is nan", breaks=LARGE, name="m starts at 0")
@torch.no_grad()
def running_softmax(query, blocks):
    m, l, o = begin(query)
    m = torch.zeros_like(m)
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, e.amax(-1, keepdim=True))
        w, shrink = (e - new).exp(), (m - new).exp()
        l, o, m = l * shrink + w.sum(-1, keepdim=True), o * shrink + w @ value, new
    return o / l


@wrong("one m for all queries: a query whose scores are far smaller than those of another gets 0 / 0", breaks=EACH, name="one maximum for all queries")
@torch.no_grad()
def running_softmax(query, blocks):
    m, l, o = begin(query)
    m = m.amax()
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, e.amax())
        w, shrink = (e - new).exp(), (m - new).exp()
        l, o, m = l * shrink + w.sum(-1, keepdim=True), o * shrink + w @ value, new
    return o / l


@wrong("the new m is the largest score of the block, even if it is smaller than m: the factor overflows when the scores fall by more than 88", breaks=r"m' = \max(m, \max_s e_{ts}), \qquad l' = l\, e^{m - m'} + \sum_s e^{e_{ts} - m'}, \qquad o' = o\, e^{m - m'} + \sum_s e^{e_{ts} - m'} v_s", name="m is the maximum of the last block")
@torch.no_grad()
def running_softmax(query, blocks):
    m, l, o = begin(query)
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = e.amax(-1, keepdim=True)
        w, shrink = (e - new).exp(), (m - new).exp()
        l, o, m = l * shrink + w.sum(-1, keepdim=True), o * shrink + w @ value, new
    return o / l


@wrong("divides by the root of the width of the values, which need not be that of the keys", breaks=SCORES, name="scaled by the width of the values")
@torch.no_grad()
def running_softmax(query, blocks):
    m, l, o = begin(query)
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(value.size(-1))
        new = torch.maximum(m, e.amax(-1, keepdim=True))
        w, shrink = (e - new).exp(), (m - new).exp()
        l, o, m = l * shrink + w.sum(-1, keepdim=True), o * shrink + w @ value, new
    return o / l


@wrong("multiplies all weights and values elementwise before it sums them, in a tensor (..., T, N, Dv)", breaks=MEMORY, name="a tensor of T x N x Dv")
@torch.no_grad()
def running_softmax(query, blocks):
    m, l, o = begin(query)
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, e.amax(-1, keepdim=True))
        w, shrink = (e - new).exp(), (m - new).exp()
        part = (w.unsqueeze(-1) * value.unsqueeze(-3)).sum(dim=-2)
        l, o, m = l * shrink + w.sum(-1, keepdim=True), o * shrink + part, new
    return o / l


@wrong("keeps m, l and o of every block in a list and joins them at the end", breaks=KEPT, name="sums of all blocks in a list")
@torch.no_grad()
def running_softmax(query, blocks):
    kept = []
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        m = e.amax(-1, keepdim=True)
        w = (e - m).exp()
        kept.append((m, w.sum(-1, keepdim=True), w @ value))
    top = kept[0][0]
    for m, _, _ in kept:
        top = torch.maximum(top, m)
    return sum((m - top).exp() * o for m, _, o in kept) / sum((m - top).exp() * l for m, l, _ in kept)


@wrong("scales the queries in place: the caller's queries are changed, and a second call gives something else", breaks=INPUTS, name="scales the queries in place")
@torch.no_grad()
def running_softmax(query, blocks):
    query /= math.sqrt(query.size(-1))
    m, l, o = begin(query)
    for key, value in blocks:
        e = query @ key.mT
        new = torch.maximum(m, e.amax(-1, keepdim=True))
        w, shrink = (e - new).exp(), (m - new).exp()
        l, o, m = l * shrink + w.sum(-1, keepdim=True), o * shrink + w @ value, new
    return o / l


@wrong("loops over the queries, one at a time (each block is read once, all else is right)", breaks=LOOP, name="a loop over single queries")
@torch.no_grad()
def running_softmax(query, blocks):
    length = query.size(-2)
    state = [None] * length
    for key, value in blocks:
        for t in range(length):
            e = query[..., t : t + 1, :] @ key.mT / math.sqrt(query.size(-1))
            top = e.amax(-1, keepdim=True)
            if state[t] is None:
                w = (e - top).exp()
                state[t] = top, w.sum(-1, keepdim=True), w @ value
                continue
            m, l, o = state[t]
            new = torch.maximum(m, top)
            w, shrink = (e - new).exp(), (m - new).exp()
            state[t] = new, l * shrink + w.sum(-1, keepdim=True), o * shrink + w @ value
    return torch.cat([o / l for _, l, o in state], dim=-2)
