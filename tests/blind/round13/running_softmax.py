import math

import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


@right("keeps the finished context so far, and averages it with the next block's")
def running_softmax(query, blocks):
    top = total = mean = None
    for key, value in blocks:
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
        here = scores.max(dim=-1, keepdim=True).values.detach()
        if top is None:
            powers = torch.exp(scores - here)
            top, total = here, powers.sum(dim=-1, keepdim=True)
            mean = powers @ value / total
        else:
            new_top = torch.maximum(top, here)
            powers, old = torch.exp(scores - new_top), total * torch.exp(top - new_top)
            new_total = old + powers.sum(dim=-1, keepdim=True)
            mean = mean * (old / new_total) + powers @ value / new_total
            top, total = new_top, new_total
    return mean


@right("a column of ones at the values, so that o and l are one tensor; float64 inside")
def running_softmax(query, blocks):
    scaled = query.double() * query.shape[-1] ** -0.5
    biggest = scaled.new_full((*query.shape[:-1], 1), -math.inf)
    sums = 0.0
    for key, value in blocks:
        scores = torch.einsum("...td,...sd->...ts", scaled, key.double())
        larger = torch.maximum(biggest, scores.amax(dim=-1, keepdim=True))
        padded = F.pad(value.double(), (0, 1), value=1.0)
        sums = sums * (biggest - larger).exp() + (scores - larger).exp() @ padded
        biggest = larger
    return (sums[..., :-1] / sums[..., -1:]).to(query.dtype)


@right("reduces a lazy map: each block gives (m, l, o), two of which are merged")
def running_softmax(query, blocks):
    from functools import reduce

    def part(block):
        scores = torch.matmul(query, block[0].mT).div(math.sqrt(query.size(-1)))
        m = scores.amax(-1, True)
        powers = torch.exp(scores - m)
        return m, powers.sum(-1, True), torch.matmul(powers, block[1])

    def merge(a, b):
        m = torch.where(a[0] > b[0], a[0], b[0])
        f, g = torch.exp(a[0] - m), torch.exp(b[0] - m)
        return m, a[1] * f + b[1] * g, a[2] * f + b[2] * g

    _, l, o = reduce(merge, map(part, blocks))
    return o / l


@right("everything transposed, (keys, queries), in a small class that holds the state")
def running_softmax(query, blocks):
    class State:
        def __init__(self):
            self.m = query.new_full((*query.shape[:-2], 1, query.size(-2)), -math.inf)
            self.l = torch.zeros_like(self.m)
            self.o = None

        def add(self, key, value):
            scores = key @ query.mT / query.size(-1) ** 0.5  # (..., N, T)
            m = torch.maximum(self.m, scores.amax(dim=-2, keepdim=True)).detach()
            factor, powers = torch.exp(self.m - m), torch.exp(scores - m)
            self.l = self.l * factor + powers.sum(dim=-2, keepdim=True)
            added = value.mT @ powers  # (..., Dv, T)
            self.o = added if self.o is None else self.o * factor + added
            self.m = m

    state, blocks = State(), iter(blocks)
    while (block := next(blocks, None)) is not None:
        state.add(*block)
    return (state.o / state.l).mT.contiguous()


@wrong(
    "takes the softmax within each block, and returns the mean of the contexts",
    "It is the context that one softmax over the keys of all blocks would give.",
    "mean of the blocks",
)
def running_softmax(query, blocks):
    total, number = 0, 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        total = total + scores.softmax(dim=-1) @ value
        number += 1
    return total / number


@wrong(
    "computes the factor after m has been replaced, so that it is always 1",
    "If a block contains a larger score, $m'$, this score becomes the new $m$, and both earlier sums are multiplied by $e^{m - m'}$:",
    "earlier sums never rescaled",
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        m = new
        factor, powers = torch.exp(m - new), torch.exp(scores - new)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
    return o / l


@wrong(
    "starts with m = 0: where all scores of a query are below -200 (in float32), all"
    " exponentials are 0, and the result is 0 / 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "m starts at 0",
    subtle=True,
)
def running_softmax(query, blocks):
    m = query.new_zeros((*query.shape[:-1], 1))
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = torch.exp(m - new), torch.exp(scores - new)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = new
    return o / l


@wrong(
    "keeps one m for all queries: where one query has a score of 1000 and another only"
    " scores near 0, the other's exponentials are all 0, and its context is NaN",
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
        factor, powers = torch.exp(m - new), torch.exp(scores - new)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = new
    return o / l


@wrong(
    "takes the next block before it has used this one, to know whether this is the last;"
    " by then, the numbers of this one are overwritten",
    "When you take the next block, its numbers overwrite those of the last block.",
    "reads one block ahead",
    subtle=True,
)
def running_softmax(query, blocks):
    blocks = iter(blocks)
    block = next(blocks)
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), 0
    while block is not None:
        following = next(blocks, None)
        key, value = block
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = torch.exp(m - new), torch.exp(scores - new)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m, block = new, following
    return o / l


@wrong(
    "starts with an m of the default dtype, so that bfloat16 queries get a float32"
    " result",
    "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device.",
    "dtype of m forgotten",
    subtle=True,
)
def running_softmax(query, blocks):
    m = torch.full((*query.shape[:-1], 1), -math.inf, device=query.device)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = torch.exp(m - new), torch.exp(scores - new)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value.to(powers.dtype)
        m = new
    return o / l


@wrong(
    "keeps m, l and o of every block in a list, and puts them together at the end",
    "What you keep from one block to the next must not grow with the number of blocks.",
    "a list with one entry per block",
    subtle=True,
)
def running_softmax(query, blocks):
    parts = []
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        m = scores.amax(dim=-1, keepdim=True)
        powers = torch.exp(scores - m)
        parts.append((m, powers.sum(dim=-1, keepdim=True), powers @ value))
    top = parts[0][0]
    for m, _, _ in parts:
        top = torch.maximum(top, m)
    l = sum(l * torch.exp(m - top) for m, l, _ in parts)
    return sum(o * torch.exp(m - top) for m, _, o in parts) / l


@wrong(
    "detaches m, l and o after each block so that the graph does not grow: keys and"
    " values of all blocks but the last get no gradient",
    "Gradients must be right, too.",
    "state cut off from the gradients",
    subtle=True,
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), torch.zeros_like(m)
    for key, value in blocks:
        m, l, o = m.detach(), l.detach(), o.detach()
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = torch.exp(m - new), torch.exp(scores - new)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = new
    return o / l


@wrong(
    "keeps m, l and o in one tensor (..., T, Dv + 2): with D = Dv = 1 and blocks of one"
    " key, that is 3 T numbers, where 2 T are allowed",
    "Do not make a tensor with more than twice as many numbers as the largest of these: the queries, the contexts, the keys of a block, its values, and the scores of all queries for one block.",
    "state tensor too large for vectors of width one",
    subtle=True,
)
def running_softmax(query, blocks):
    state = None
    for key, value in blocks:
        if state is None:
            start = query.new_full((*query.shape[:-1], 1), -math.inf)
            state = F.pad(start, (0, 1 + value.size(-1)))
        m, l, o = state.split([1, 1, value.size(-1)], dim=-1)
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = torch.exp(m - new), torch.exp(scores - new)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        state = torch.cat((new, l, o), dim=-1)
    return state[..., 2:] / state[..., 1:2]


@wrong(
    "divides the scores by the root of the width of the values, which is right only"
    " while Dv = D",
    r"The scores are $e_{ts} = q_t^\top k_s / \sqrt{D}$.",
    "scaled by the width of the values",
    subtle=True,
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(value.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, powers = torch.exp(m - new), torch.exp(scores - new)
        l = l * factor + powers.sum(dim=-1, keepdim=True)
        o = o * factor + powers @ value
        m = new
    return o / l
