import math

import torch

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("keeps a normalised context; mixes the old one and a block's sum by shares of l")
def running_softmax(query, blocks):
    wide = torch.promote_types(query.dtype, torch.float32)
    scaled = query.to(wide) / math.sqrt(query.size(-1))
    context = top = total = None
    for key, value in blocks:
        scores = torch.einsum("...td,...nd->...tn", scaled, key.to(wide))
        best = scores.amax(dim=-1, keepdim=True)
        if context is None:
            top, total, context = best, torch.zeros_like(best), 0.0
        new = torch.maximum(top, best)
        power = scores.sub_(new).exp_()
        old = total * torch.exp(top - new)
        total = old + power.sum(dim=-1, keepdim=True)
        context = context * (old / total) + (power / total) @ value.to(wide)
        top = new
    return context.to(query.dtype)


@right("appends a column of ones to the values, so that o and l are one tensor; all in float64")
def running_softmax(query, blocks):  # noqa: F811
    query_dtype, both, top = query.dtype, None, None
    for key, value in blocks:
        ones = torch.ones_like(value[..., :1])
        value = torch.cat([value, ones], dim=-1).double()
        scores = query.double() @ key.double().transpose(-1, -2)
        scores = scores * query.size(-1) ** -0.5
        best = scores.max(dim=-1, keepdim=True).values
        if both is None:
            both, top = (scores - best).exp() @ value, best
            continue
        higher = torch.maximum(top, best)
        both = both * (top - higher).exp() + (scores - higher).exp() @ value
        top = higher
    return (both[..., :-1] / both[..., -1:]).to(query_dtype)


@right("works on tensors with the queries last (keys times queries), with own buffers changed in place")
def running_softmax(query, blocks):  # noqa: F811
    wide = torch.promote_types(query.dtype, torch.float32)
    turned = query.to(wide).mT  # (..., D, T)
    root = float(query.shape[-1]) ** 0.5
    m = torch.full_like(turned[..., :1, :], -torch.inf)  # (..., 1, T)
    l, o = torch.zeros_like(m), None
    for k, v in blocks:
        e = (k.to(wide) @ turned) / root  # (..., N, T)
        if o is None:
            shape = (*v.shape[:-2], v.size(-1), query.size(-2))
            o = torch.zeros(shape, dtype=wide, device=query.device)
        larger = torch.maximum(m, e.amax(dim=-2, keepdim=True))
        factor = torch.exp(m - larger)
        e = torch.exp(e - larger)
        l.mul_(factor).add_(e.sum(dim=-2, keepdim=True))
        o.mul_(factor).add_(v.to(wide).mT @ e)
        m.copy_(larger)
    return (o / l).mT.to(query.dtype).contiguous()


@right("a small class that holds m, l and o; the first block makes them, later ones merge")
def running_softmax(query, blocks):  # noqa: F811
    class State:
        def __init__(self, scores, values):
            self.m = scores.amax(-1, keepdim=True)
            weights = torch.exp(scores - self.m)
            self.l = weights.sum(-1, keepdim=True)
            self.o = torch.matmul(weights, values)

        def merge(self, other):
            m = torch.maximum(self.m, other.m)
            a, b = torch.exp(self.m - m), torch.exp(other.m - m)
            self.l = a * self.l + b * other.l
            self.o = a * self.o + b * other.o
            self.m = m
            return self

    root = math.sqrt(query.size(-1))
    state = None
    for keys, values in blocks:
        fresh = State(query.double() @ keys.double().mT / root, values.double())
        state = fresh if state is None else state.merge(fresh)
    return (state.o / state.l).to(query)


# ---------------------------------------------------------------- wrong


@wrong(
    "does not subtract the maximum, so large scores overflow",
    "It subtracts $m$ from each score before it takes the exponential.",
    "exponentials without the maximum",
)
def running_softmax(query, blocks):  # noqa: F811
    l = o = 0
    for key, value in blocks:
        power = torch.exp(query @ key.mT / math.sqrt(query.size(-1)))
        l = l + power.sum(dim=-1, keepdim=True)
        o = o + power @ value
    return o / l


@wrong(
    "averages the contexts of the blocks, each from its own softmax",
    "It is the context that one softmax over the keys of all blocks would give.",
    "averages separate softmaxes of blocks",
)
def running_softmax(query, blocks):  # noqa: F811
    total, number = 0, 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        total = total + key.size(-2) * (scores.softmax(dim=-1) @ value)
        number += key.size(-2)
    return total / number


@wrong(
    "multiplies only l by the factor, not o",
    "If a block contains a larger score, $m'$, this score becomes the new $m$, and both earlier sums are multiplied by $e^{m - m'}$:",
    "does not rescale o",
)
def running_softmax(query, blocks):  # noqa: F811
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        power = torch.exp(scores - new)
        l = l * torch.exp(m - new) + power.sum(dim=-1, keepdim=True)
        o = o + power @ value
        m = new
    return o / l


@wrong(
    "keeps every block in a list, concatenates at the end and computes one softmax",
    "You get each block only once. When you take the next block, its numbers overwrite those of the last block.",
    "collects all blocks first",
)
def running_softmax(query, blocks):  # noqa: F811
    keys, values = zip(*blocks)
    key, value = torch.cat(keys, dim=-2), torch.cat(values, dim=-2)
    return (query @ key.mT / math.sqrt(query.size(-1))).softmax(dim=-1) @ value


@wrong(
    "starts with m = 0 instead of minus infinity: if all scores of a query are far below 0, all exponentials are 0 and the result is NaN",
    "For each query, it keeps three things: the largest score so far, $m$; the sum of the exponentials so far, $l$; and the sum of the values, each multiplied by its exponential, $o$.",
    "maximum starts at zero",
)
def running_softmax(query, blocks):  # noqa: F811
    m = torch.zeros_like(query[..., :1])
    l = o = 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        power, factor = torch.exp(scores - new), torch.exp(m - new)
        l = l * factor + power.sum(dim=-1, keepdim=True)
        o = o * factor + power @ value
        m = new
    return o / l


@wrong(
    "keeps one maximum for all queries together: a query whose scores are all far below those of another gets 0 / 0",
    "For each query, it keeps three things: the largest score so far, $m$; the sum of the exponentials so far, $l$; and the sum of the values, each multiplied by its exponential, $o$.",
    "one maximum for all queries",
)
def running_softmax(query, blocks):  # noqa: F811
    m = query.new_tensor(-math.inf)
    l = o = 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.max())
        power, factor = torch.exp(scores - new), torch.exp(m - new)
        l = l * factor + power.sum(dim=-1, keepdim=True)
        o = o * factor + power @ value
        m = new
    return o / l


@wrong(
    "takes m from the first block and never changes it: much larger scores in a later block overflow",
    "If a block contains a larger score, $m'$, this score becomes the new $m$, and both earlier sums are multiplied by $e^{m - m'}$:",
    "keeps the maximum of the first block",
)
def running_softmax(query, blocks):  # noqa: F811
    m, l, o = None, 0, 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        if m is None:
            m = scores.amax(dim=-1, keepdim=True)
        power = torch.exp(scores - m)
        l = l + power.sum(dim=-1, keepdim=True)
        o = o + power @ value
    return o / l


@wrong(
    "divides by the root of the width of the values, which differs from D if Dv does",
    "The scores are $e_{ts} = q_t^\\top k_s / \\sqrt{D}$.",
    "scales by the values' width",
)
def running_softmax(query, blocks):  # noqa: F811
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(value.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        power, factor = torch.exp(scores - new), torch.exp(m - new)
        l = l * factor + power.sum(dim=-1, keepdim=True)
        o = o * factor + power @ value
        m = new
    return o / l


@wrong(
    "writes the scores into a buffer as wide as the widest block so far; after a wider block, a narrower one leaves old scores behind in the buffer",
    "N is at least 1 and may differ from block to block.",
    "old scores remain in the buffer",
)
def running_softmax(query, blocks):  # noqa: F811
    m = torch.full_like(query[..., :1], -math.inf)
    l = o = 0
    buffer = query.new_zeros((*query.shape[:-1], 0))
    for key, value in blocks:
        number = key.size(-2)
        if buffer.size(-1) < number:
            buffer = query.new_zeros((*query.shape[:-1], number))
        buffer[..., :number] = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, buffer.amax(dim=-1, keepdim=True))
        power, factor = torch.exp(buffer - new), torch.exp(m - new)
        l = l * factor + power.sum(dim=-1, keepdim=True)
        o = o * factor + power[..., :number] @ value
        m = new
    return o / l


@wrong(
    "keeps m, l and o of every block in lists and combines them at the end",
    "What you keep from one block to the next must not grow with the number of blocks.",
    "keeps the sums of every block",
)
def running_softmax(query, blocks):  # noqa: F811
    ms, ls, os = [], [], []
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        ms.append(scores.amax(dim=-1, keepdim=True))
        power = torch.exp(scores - ms[-1])
        ls.append(power.sum(dim=-1, keepdim=True))
        os.append(power @ value)
    top = ms[0]
    for m in ms:
        top = torch.maximum(top, m)
    factors = [torch.exp(m - top) for m in ms]
    l = sum(f * x for f, x in zip(factors, ls))
    return sum(f * x for f, x in zip(factors, os)) / l
