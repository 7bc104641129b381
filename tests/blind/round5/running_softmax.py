import math

import torch
from blind import right, wrong


def fold(query, blocks, merge=None, scale=None):
    scale = query.size(-1) ** -0.5 if scale is None else scale
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), None
    for key, value in blocks:
        scores = query @ key.mT * scale
        new = torch.maximum(m, scores.amax(-1, keepdim=True))
        shares, shrink = (scores - new).exp(), (m - new).exp()
        l = l * shrink + shares.sum(-1, keepdim=True)
        o = shares @ value + (0 if o is None else o * shrink)
        m = new
    return o / l


@right("as the formulas say")
def r1(query, blocks):
    return fold(query, blocks)


@right("keeps the context normalised and the logarithm of the sum")
def r2(query, blocks):
    context = log_sum = None
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        here = scores.logsumexp(-1, keepdim=True)
        part = scores.softmax(-1) @ value
        if context is None:
            context, log_sum = part, here
        else:
            both = torch.logaddexp(log_sum, here)
            context = context * (log_sum - both).exp() + part * (here - both).exp()
            log_sum = both
    return context


@right("the scaled query once, the first block apart")
def r3(query, blocks):
    blocks = iter(blocks)
    q = query / query.shape[-1] ** 0.5
    key, value = next(blocks)
    e = torch.einsum("...td,...sd->...ts", q, key)
    m = e.max(-1, keepdim=True).values
    e = torch.exp(e - m)
    l, o = e.sum(-1, keepdim=True), e @ value
    for key, value in blocks:
        e = torch.einsum("...td,...sd->...ts", q, key)
        new = torch.max(m, e.max(-1, keepdim=True).values)
        old = torch.exp(m - new)
        e = torch.exp(e - new)
        l, o, m = l * old + e.sum(-1, keepdim=True), o * old + e @ value, new
    return o / l


@wrong(
    "no shrinking of the sum",
    "what was summed before shrinks",
    "sum not rescaled",
)
def w1(query, blocks):
    m, l, o = -math.inf, 0, 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = scores.amax(-1, keepdim=True).clamp(min=m)
        shares = (scores - new).exp()
        shrink = (m - new).exp()
        l = l + shares.sum(-1, keepdim=True)
        o = o * shrink + shares @ value
        m = new
    return o / l


@wrong(
    "no scale",
    "The scores are q k / sqrt(D)",
    "scale missing",
)
def w2(query, blocks):
    return fold(query, blocks, scale=1.0)


@wrong(
    "scale of the values' width",
    "The scores are q k / sqrt(D)",
    "wrong width in the scale",
)
def w3(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(value.size(-1))
        new = torch.maximum(m, scores.amax(-1, keepdim=True))
        shares, shrink = (scores - new).exp(), (m - new).exp()
        l, o = l * shrink + shares.sum(-1, keepdim=True), o * shrink + shares @ value
        m = new
    return o / l


@wrong(
    "exponentials without a maximum",
    "All exponentials are measured against m.",
    "no maximum",
)
def w4(query, blocks):
    l = o = 0
    for key, value in blocks:
        e = (query @ key.mT / math.sqrt(query.size(-1))).exp()
        l, o = l + e.sum(-1, keepdim=True), o + e @ value
    return o / l


@wrong(
    "gathers all blocks first",
    "What you hold from one block to the next does not grow with the number of blocks.",
    "all keys at once",
)
def w5(query, blocks):
    keys, values = zip(*[(k.clone(), v.clone()) for k, v in blocks])
    e = query @ torch.cat(keys, -2).mT / math.sqrt(query.size(-1))
    return e.softmax(-1) @ torch.cat(values, -2)


@wrong(
    "the mean of the blocks' contexts",
    "It is what a softmax over the keys of all blocks would give.",
    "mean of blocks",
)
def w6(query, blocks):
    total, number = 0, 0
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        total, number = total + e.softmax(-1) @ value, number + 1
    return total / number


@wrong(
    "the maximum of the first block for ever",
    "If a block has a larger score, m becomes m'",
    "first maximum kept",
)
def w7(query, blocks):
    m = None
    l = o = 0
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        m = e.amax(-1, keepdim=True) if m is None else m
        e = (e - m).exp()
        l, o = l + e.sum(-1, keepdim=True), o + e @ value
    return o / l


@wrong(
    "one maximum for all queries",
    "the largest score so far, for each query",
    "one maximum for all",
)
def w8(query, blocks):
    m, l, o = torch.tensor(-math.inf, dtype=query.dtype), 0, 0
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, e.max())
        e, shrink = (e - new).exp(), (m - new).exp()
        l, o, m = l * shrink + e.sum(-1, keepdim=True), o * shrink + e @ value, new
    return o / l


@wrong(
    "starts with a maximum of zero",
    "Before the first block m is minus infinity",
    "maximum starts at zero",
)
def w9(query, blocks):
    m = query.new_zeros(*query.shape[:-1], 1)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(-1, keepdim=True))
        shares, shrink = (scores - new).exp(), (m - new).exp()
        l, o = l * shrink + shares.sum(-1, keepdim=True), o * shrink + shares @ value
        m = new
    return o / l


@wrong(
    "a loop over the queries",
    "Look at all queries and at a whole block at once, without a loop over single queries or keys.",
    "loop over queries",
)
def w10(query, blocks):
    rows = None
    for key, value in blocks:
        parts = []
        for t in range(query.size(-2)):
            e = query[..., t : t + 1, :] @ key.mT / math.sqrt(query.size(-1))
            parts.append((e.logsumexp(-1, keepdim=True), e.softmax(-1) @ value))
        here = torch.cat([p[0] for p in parts], -2), torch.cat([p[1] for p in parts], -2)
        if rows is None:
            rows = here
        else:
            both = torch.logaddexp(rows[0], here[0])
            rows = both, sum(r[1] * (r[0] - both).exp() for r in (rows, here))
    return rows[1]


@wrong(
    "forgets the last block when there is more than one",
    "over the keys of all blocks",
    "last block lost",
)
def w11(query, blocks):
    blocks = [(k.clone(), v.clone()) for k, v in blocks]
    return fold(query, blocks[:-1] or blocks)


@wrong(
    "adds a small number to the denominator",
    "After the last block the context is o / l.",
    "eps in the denominator",
)
def w12(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(-1, keepdim=True))
        shares, shrink = (scores - new).exp(), (m - new).exp()
        l, o = l * shrink + shares.sum(-1, keepdim=True), o * shrink + shares @ value
        m = new
    return o / (l + 1e-3)


@wrong(
    "always computed and returned in float32",
    "what goes out has its dtype",
    "dtype lost",
)
def w13(query, blocks):
    return fold(query.float(), ((k.float(), v.float()) for k, v in blocks))


@wrong(
    "views of earlier blocks are used after the next was asked for",
    "When you ask for the next one, the numbers of the last one are overwritten.",
    "late use of a block",
)
def w14(query, blocks):
    late, state = None, None
    scale = math.sqrt(query.size(-1))

    def add(state, key, value):
        e = query @ key.mT / scale
        here = e.logsumexp(-1, keepdim=True), e.softmax(-1) @ value
        if state is None:
            return here
        both = torch.logaddexp(state[0], here[0])
        return both, sum(r[1] * (r[0] - both).exp() for r in (state, here))

    for block in blocks:
        if late is not None:
            state = add(state, *late)
        late = block
    return add(state, *late)[1]


@wrong(
    "scores clamped to 80 in place of a maximum",
    "for large numbers as for small ones",
    "clamped",
)
def w15(query, blocks):
    l = o = 0
    for key, value in blocks:
        e = (query @ key.mT / math.sqrt(query.size(-1))).clamp(-80, 80).exp()
        l, o = l + e.sum(-1, keepdim=True), o + e @ value
    return o / l
