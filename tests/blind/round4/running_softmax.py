import math

import torch
from blind import right, wrong


@right("a column of ones beside the values: o and l are one tensor")
def r1(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    asked = query.to(wide) / math.sqrt(query.shape[-1])
    peak = asked.new_full((*query.shape[:-1], 1), -math.inf)
    total = 0.0
    for key, value in blocks:
        scores = asked @ key.to(wide).mT
        higher = torch.maximum(peak, scores.amax(dim=-1, keepdim=True))
        ones = value.new_ones((*value.shape[:-1], 1))
        with_ones = torch.cat([value, ones], dim=-1).to(wide)
        total = total * (peak - higher).exp() + (scores - higher).exp() @ with_ones
        peak = higher
    return (total[..., :-1] / total[..., -1:]).to(query.dtype)


@right("two small functions, one for a block alone and one that merges two states")
def r2(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    scaled = query.to(wide) * query.shape[-1] ** -0.5

    def alone(block):
        keys, values = (numbers.to(wide) for numbers in block)
        scores = torch.einsum("...td,...sd->...ts", scaled, keys)
        top = scores.max(dim=-1, keepdim=True).values
        weights = torch.exp(scores - top)
        return top, weights.sum(dim=-1, keepdim=True), weights @ values

    def merged(one, two):
        top = torch.maximum(one[0], two[0])
        a, b = torch.exp(one[0] - top), torch.exp(two[0] - top)
        return top, one[1] * a + two[1] * b, one[2] * a + two[2] * b

    state = None
    for part in map(alone, blocks):
        state = part if state is None else merged(state, part)
    return (state[2] / state[1]).to(query.dtype)


@right("keeps the finished context so far and moves it, in float64, with next()")
def r3(query, blocks):
    blocks = iter(blocks)
    asked = query.double() / math.sqrt(query.size(-1))
    peak = mass = context = None
    while True:
        block = next(blocks, None)
        if block is None:
            return context.to(query.dtype)
        scores = asked.matmul(block[0].double().transpose(-2, -1))
        top = scores.amax(dim=-1, keepdim=True)
        here = scores.softmax(dim=-1).matmul(block[1].double())
        number = (scores - top).exp().sum(dim=-1, keepdim=True)
        if context is None:
            peak, mass, context = top, number, here
            continue
        highest = torch.maximum(peak, top)
        old = mass * (peak - highest).exp()
        new = number * (top - highest).exp()
        peak, mass = highest, old + new
        context = context * (old / mass) + here * (new / mass)


@right("everything lies on its side: keys by queries, values by queries")
def r4(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    columns = query.to(wide).mT / query.shape[-1] ** 0.5
    m = columns.new_full((*query.shape[:-2], 1, query.shape[-2]), -math.inf)
    l, o = torch.zeros_like(m), torch.zeros_like(m)
    for key, value in blocks:
        e = key.to(wide) @ columns
        m, before = torch.maximum(m, e.amax(dim=-2, keepdim=True)), m
        e = torch.exp(e - m)
        shrink = torch.exp(before - m)
        l = l * shrink + e.sum(dim=-2, keepdim=True)
        o = o * shrink + value.to(wide).mT @ e
    return (o / l).mT.contiguous().to(query.dtype)


@wrong(
    "the largest score starts at -10,000 instead of minus infinity",
    breaks="Your code works for every length from one on, for large numbers as for "
    "small ones, in train mode and in eval mode.",
    name="m starts at a finite number",
    subtle=True,
)
def w1(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    asked = query.to(wide) / math.sqrt(query.shape[-1])
    m = asked.new_full((*query.shape[:-1], 1), -1e4)
    l, o = torch.zeros_like(m), torch.zeros_like(m)
    for key, value in blocks:
        scores = asked @ key.to(wide).mT
        new_m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shrink, weights = (m - new_m).exp(), (scores - new_m).exp()
        l = l * shrink + weights.sum(dim=-1, keepdim=True)
        o = o * shrink + weights @ value.to(wide)
        m = new_m
    return (o / l).to(query.dtype)


@wrong(
    "goes through a block key by key",
    breaks="Look at all queries and at a whole block at once, without a loop over "
    "single queries or keys.",
    name="a loop over single keys",
    subtle=True,
)
def w2(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    asked = query.to(wide) / math.sqrt(query.shape[-1])
    m = asked.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), torch.zeros_like(m)
    for keys, values in blocks:
        for s in range(keys.shape[-2]):
            key = keys[..., s : s + 1, :].to(wide)
            value = values[..., s : s + 1, :].to(wide)
            score = (asked * key).sum(dim=-1, keepdim=True)
            new_m = torch.maximum(m, score)
            shrink, weight = (m - new_m).exp(), (score - new_m).exp()
            l = l * shrink + weight
            o = o * shrink + weight * value
            m = new_m
    return (o / l).to(query.dtype)


@wrong(
    "measures against the largest score of this block, not of all so far",
    breaks=r"If a block has a larger score, $m$ becomes $m'$, and what was summed "
    "before shrinks:",
    name="m is the maximum of the block alone",
    subtle=True,
)
def w3(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    asked = query.to(wide) / math.sqrt(query.shape[-1])
    m = asked.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), torch.zeros_like(m)
    for key, value in blocks:
        scores = asked @ key.to(wide).mT
        new_m = scores.amax(dim=-1, keepdim=True)
        shrink, weights = (m - new_m).exp(), (scores - new_m).exp()
        l = l * shrink + weights.sum(dim=-1, keepdim=True)
        o = o * shrink + weights @ value.to(wide)
        m = new_m
    return (o / l).to(query.dtype)


@wrong(
    "divides the scores by the root of the width of the values",
    breaks=r"The scores are $e_{ts} = q_t^\top k_s / \sqrt{D}$, and every query may "
    "attend to every key.",
    name="scaled by Dv",
    subtle=True,
)
def w4(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    m = query.new_full((*query.shape[:-1], 1), -math.inf, dtype=wide)
    l, o = torch.zeros_like(m), torch.zeros_like(m)
    for key, value in blocks:
        scores = query.to(wide) @ key.to(wide).mT / math.sqrt(value.shape[-1])
        new_m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shrink, weights = (m - new_m).exp(), (scores - new_m).exp()
        l = l * shrink + weights.sum(dim=-1, keepdim=True)
        o = o * shrink + weights @ value.to(wide)
        m = new_m
    return (o / l).to(query.dtype)


@wrong(
    "collects m, l and o of every block in a list and merges them at the end",
    breaks="What you hold from one block to the next does not grow with the number "
    "of blocks.",
    name="holds a state for every block",
    subtle=True,
)
def w5(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    asked = query.to(wide) / math.sqrt(query.shape[-1])
    maxima, sums, contexts = [], [], []
    for key, value in blocks:
        scores = asked @ key.to(wide).mT
        top = scores.amax(dim=-1, keepdim=True)
        weights = (scores - top).exp()
        maxima.append(top)
        sums.append(weights.sum(dim=-1, keepdim=True))
        contexts.append(weights @ value.to(wide))
    m = maxima[0]
    for top in maxima[1:]:
        m = torch.maximum(m, top)
    l, o = torch.zeros_like(m), torch.zeros_like(m)
    for top, number, context in zip(maxima, sums, contexts):
        factor = (top - m).exp()
        l = l + factor * number
        o = o + factor * context
    return (o / l).to(query.dtype)


@wrong(
    "fetches the next block before it has used this one",
    breaks="When you ask for the next one, the numbers of the last one are "
    "overwritten.",
    name="looks one block ahead",
    subtle=True,
)
def w6(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    asked = query.to(wide) / math.sqrt(query.shape[-1])
    m = asked.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), torch.zeros_like(m)
    blocks = iter(blocks)
    block = next(blocks)
    while block is not None:
        following = next(blocks, None)
        key, value = block
        scores = asked @ key.to(wide).mT
        new_m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shrink, weights = (m - new_m).exp(), (scores - new_m).exp()
        l = l * shrink + weights.sum(dim=-1, keepdim=True)
        o = o * shrink + weights @ value.to(wide)
        m, block = new_m, following
    return (o / l).to(query.dtype)


@wrong(
    "shrinks o by a diagonal matrix of queries by queries",
    breaks="No tensor that you make may have more than twice as many numbers as the "
    "largest of these: the queries, the contexts, the keys of a block, its values, "
    "and the scores of all queries for one block.",
    name="a tensor of T by T",
    subtle=True,
)
def w7(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    asked = query.to(wide) / math.sqrt(query.shape[-1])
    m = None
    for key, value in blocks:
        scores = asked @ key.to(wide).mT
        top = scores.amax(dim=-1, keepdim=True)
        if m is None:
            m, weights = top, (scores - top).exp()
            l, o = weights.sum(dim=-1, keepdim=True), weights @ value.to(wide)
            continue
        new_m = torch.maximum(m, top)
        shrink, weights = (m - new_m).exp(), (scores - new_m).exp()
        diagonal = torch.diag_embed(shrink.squeeze(-1))
        l = diagonal @ l + weights.sum(dim=-1, keepdim=True)
        o = diagonal @ o + weights @ value.to(wide)
        m = new_m
    return (o / l).to(query.dtype)


@wrong(
    "takes half-precision numbers to float32 and does not go back",
    breaks="What comes in stays as it is, and what goes out has its dtype and its "
    "device.",
    name="half precision comes out as float32",
    subtle=True,
)
def w8(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    asked = query.to(wide) / math.sqrt(query.shape[-1])
    m = asked.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), torch.zeros_like(m)
    for key, value in blocks:
        scores = asked @ key.to(wide).mT
        new_m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shrink, weights = (m - new_m).exp(), (scores - new_m).exp()
        l = l * shrink + weights.sum(dim=-1, keepdim=True)
        o = o * shrink + weights @ value.to(wide)
        m = new_m
    return o / l


@wrong(
    "scales the keys of a block in place",
    breaks="What comes in stays as it is, and what goes out has its dtype and its "
    "device.",
    name="changes the keys",
    subtle=True,
)
def w9(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    asked = query.to(wide)
    m = asked.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), torch.zeros_like(m)
    for key, value in blocks:
        key /= math.sqrt(query.shape[-1])
        scores = asked @ key.to(wide).mT
        new_m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shrink, weights = (m - new_m).exp(), (scores - new_m).exp()
        l = l * shrink + weights.sum(dim=-1, keepdim=True)
        o = o * shrink + weights @ value.to(wide)
        m = new_m
    return (o / l).to(query.dtype)
