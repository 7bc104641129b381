import functools
import math

import torch
from torch import nn
from blind import right, wrong


@right('a fold with functools.reduce over a state of three tensors, the first block makes the state')
def running_softmax(query, blocks):
    scaled = query / math.sqrt(query.shape[-1])

    def summary(block):
        key, value = block
        scores = scaled.matmul(key.transpose(-1, -2))
        largest = scores.max(dim=-1, keepdim=True).values
        powers = torch.exp(scores - largest)
        return largest, powers.sum(dim=-1, keepdim=True), powers.matmul(value)

    def join(state, block):
        m, l, o = state
        n, k, p = summary(block)
        top = torch.maximum(m, n)
        a, b = torch.exp(m - top), torch.exp(n - top)
        return top, l * a + k * b, o * a + p * b

    blocks = iter(blocks)
    _, total, weighted = functools.reduce(join, blocks, summary(next(blocks)))
    return weighted / total


@right('keeps the context itself, and moves it towards the context of the new block')
def running_softmax(query, blocks):
    context = mass = largest = None
    for key, value in blocks:
        scores = torch.einsum("...td,...nd->...tn", query, key) * query.size(-1) ** -0.5
        top = scores.amax(dim=-1, keepdim=True)
        weights = scores.softmax(dim=-1)
        here = weights @ value
        size = 1 / weights.amax(dim=-1, keepdim=True)
        if context is None:
            context, mass, largest = here, size, top
            continue
        new = torch.maximum(largest, top)
        old_part = mass * (largest - new).exp()
        new_part = size * (top - new).exp()
        mass = old_part + new_part
        context = context + (here - context) * (new_part / mass)
        largest = new
    return context


class Running:
    def __init__(self, query):
        self.query = query / math.sqrt(query.size(-1))
        self.largest = None

    def add(self, key, value):
        scores = self.query @ key.mT
        top = scores.amax(dim=-1, keepdim=True)
        if self.largest is None:
            self.largest = top
            powers = (scores - top).exp()
            self.total = powers.sum(dim=-1, keepdim=True)
            self.sums = powers @ value
            return self
        new = torch.where(top > self.largest, top, self.largest)
        powers = (scores - new).exp()
        factor = (self.largest - new).exp()
        self.total = powers.sum(dim=-1, keepdim=True) + factor * self.total
        self.sums = powers @ value + factor * self.sums
        self.largest = new
        return self


@right('a class that holds the three things and takes one block after the other')
def running_softmax(query, blocks):
    state = Running(query)
    for key, value in blocks:
        state.add(key, value)
    return state.sums.div(state.total)


@right('while loop with next, queries and keys as columns')
def running_softmax(query, blocks):
    source = iter(blocks)
    columns = query.mT * (1 / math.sqrt(query.size(-1)))
    m = torch.full_like(query[..., 0], float("-inf")).unsqueeze(-2)
    l, o = torch.zeros_like(m), None
    while (pair := next(source, None)) is not None:
        scores = pair[0] @ columns
        higher = torch.cat([m, scores.amax(dim=-2, keepdim=True)], dim=-2).amax(
            dim=-2, keepdim=True
        )
        powers = torch.exp(scores - higher)
        shrink = torch.exp(m - higher)
        l = torch.addcmul(powers.sum(dim=-2, keepdim=True), l, shrink)
        added = pair[1].mT @ powers
        o = added if o is None else torch.addcmul(added, o, shrink)
        m = higher
    return (o / l).mT


@wrong(
    'what was summed before does not shrink when a larger score comes: wrong with more than one block',
    "If a block has a larger score, $m$ becomes $m'$, and what was summed before shrinks:",
    'old sums are not shrunk',
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), float("-inf"))
    total = torch.zeros_like(m)
    out = 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        powers = (scores - new).exp()
        total = total + powers.sum(dim=-1, keepdim=True)
        out = out + powers @ value
        m = new
    return out / total


@wrong(
    'the scores are not divided by the root of D',
    'The scores are $e_{ts} = q_t^\\top k_s / \\sqrt{D}$, and every query may attend to every key.',
    'scale forgotten',
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), float("-inf"))
    total = torch.zeros_like(m)
    out = 0
    for key, value in blocks:
        scores = query @ key.mT
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shrink = (m - new).exp()
        powers = (scores - new).exp()
        total = total * shrink + powers.sum(dim=-1, keepdim=True)
        out = out * shrink + powers @ value
        m = new
    return out / total


@wrong(
    'm is replaced before the factor is computed: the factor is always one',
    "m' = \\max(m, \\max_s e_{ts}), \\qquad l' = l\\, e^{m - m'} + \\sum_s e^{e_{ts} - m'}, \\qquad o' = o\\, e^{m - m'} + \\sum_s e^{e_{ts} - m'} v_s",
    'factor computed after m was replaced',
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), float("-inf"))
    total = torch.zeros_like(m)
    out = 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        m = new
        shrink = (m - new).exp()
        powers = (scores - new).exp()
        total = total * shrink + powers.sum(dim=-1, keepdim=True)
        out = out * shrink + powers @ value
        m = new
    return out / total


@wrong(
    'all blocks are collected and joined: their numbers have been overwritten meanwhile, and the scores are too many',
    'Each block comes once. When you ask for the next one, the numbers of the last one are overwritten.',
    'collects the blocks first',
)
def running_softmax(query, blocks):
    keys, values = zip(*blocks)
    key, value = torch.cat(keys, dim=-2), torch.cat(values, dim=-2)
    return (query @ key.mT / math.sqrt(query.size(-1))).softmax(dim=-1) @ value


@wrong(
    'm begins at 0: with scores below -104 all exponentials are 0, and 0 is divided by 0',
    'Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.',
    'largest score begins at zero',
)
def running_softmax(query, blocks):
    m = query.new_zeros((*query.shape[:-1], 1))
    total = torch.zeros_like(m)
    out = 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shrink = (m - new).exp()
        powers = (scores - new).exp()
        total = total * shrink + powers.sum(dim=-1, keepdim=True)
        out = out * shrink + powers @ value
        m = new
    return out / total


@wrong(
    'the sum of values has the shape of the queries: an error if Dv is not D',
    '`blocks` gives pairs of keys (..., N, D) and values (..., N, Dv).',
    'takes values to be as wide as queries',
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), float("-inf"))
    total = torch.zeros_like(m)
    out = torch.zeros_like(query)
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shrink = (m - new).exp()
        powers = (scores - new).exp()
        total = total * shrink + powers.sum(dim=-1, keepdim=True)
        out = out * shrink + powers @ value
        m = new
    return out / total


@wrong(
    'multiplies weights and values entry by entry: a tensor (..., T, N, Dv), which has far too many numbers',
    'No tensor that you make may have more than twice as many numbers as the largest of these: the queries, the contexts, the keys of a block, its values, and the scores of all queries for one block.',
    'product of weights and values not summed at once',
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), float("-inf"))
    total = torch.zeros_like(m)
    out = 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shrink = (m - new).exp()
        powers = (scores - new).exp()
        total = total * shrink + powers.sum(dim=-1, keepdim=True)
        out = out * shrink + (powers.unsqueeze(-1) * value.unsqueeze(-3)).sum(dim=-2)
        m = new
    return out / total


@wrong(
    'the contexts of the blocks with their m and l are kept in a list and joined at the end: right numbers, but what is held grows with the number of blocks',
    'What you hold from one block to the next does not grow with the number of blocks.',
    'keeps something of each block',
)
def running_softmax(query, blocks):
    kept = []
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        top = scores.amax(dim=-1, keepdim=True)
        powers = (scores - top).exp()
        kept.append((top, powers.sum(dim=-1, keepdim=True), powers @ value))
    largest = kept[0][0]
    for top, _, _ in kept:
        largest = torch.maximum(largest, top)
    out = sum(o * (top - largest).exp() for top, _, o in kept)
    return out / sum(l * (top - largest).exp() for top, l, _ in kept)


@wrong(
    'one largest score for all queries together: the exponentials of a query whose scores are all far below it are 0, and 0 is divided by 0',
    'After the last block the context is o / l. It is what a softmax over the keys of all blocks would give.',
    'largest score shared by all queries',
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), float("-inf"))
    total = torch.zeros_like(m)
    out = 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax())
        shrink = (m - new).exp()
        powers = (scores - new).exp()
        total = total * shrink + powers.sum(dim=-1, keepdim=True)
        out = out * shrink + powers @ value
        m = new
    return out / total


@wrong(
    'looks one block ahead to know whether a block is the last: the block is used after the next one was asked for, when its numbers are overwritten',
    'Each block comes once. When you ask for the next one, the numbers of the last one are overwritten.',
    'asks for the next block too early',
)
def running_softmax(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), float("-inf"))
    total, out = torch.zeros_like(m), 0
    blocks = iter(blocks)
    pair = next(blocks)
    while pair is not None:
        following = next(blocks, None)
        key, value = pair
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        shrink = (m - new).exp()
        powers = (scores - new).exp()
        total = total * shrink + powers.sum(dim=-1, keepdim=True)
        out = out * shrink + powers @ value
        if following is None:
            return out / total
        m, pair = new, following
