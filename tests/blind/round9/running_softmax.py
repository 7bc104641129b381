import functools
import math

import torch
import torch.nn.functional as F

from blind import right, wrong


@right("keeps the context so far and its log-sum-exp, and mixes them with the block's own context by a sigmoid")
def running_softmax(query, blocks):
    scaled = query / math.sqrt(query.size(-1))
    context = log_total = None
    for key, value in blocks:
        scores = scaled @ key.mT
        block_total = scores.logsumexp(dim=-1, keepdim=True)
        block_context = torch.softmax(scores, dim=-1) @ value
        if context is None:
            context, log_total = block_context, block_total
        else:
            share = torch.sigmoid(block_total - log_total)  # of the new block
            context = torch.lerp(context, block_context, share)
            log_total = torch.logaddexp(log_total, block_total)
    return context


@right("a column of ones appended to the values, so that l is the last entry of o")
def running_softmax(query, blocks):
    m = torch.full_like(query[..., :1], -torch.inf)
    both = 0.0
    for key, value in blocks:
        e = torch.matmul(query, key.transpose(-1, -2)) * query.size(-1) ** -0.5
        top = torch.maximum(m, e.amax(-1, keepdim=True))
        ones = value.new_ones(value.shape[:-1] + (1,))
        both = both * (m - top).exp() + (e - top).exp() @ torch.cat([value, ones], -1)
        m = top
    return both[..., :-1] / both[..., -1:]


@right("functools.reduce over the blocks, the sums in at least single precision")
def running_softmax(query, blocks):
    exact = torch.promote_types(query.dtype, torch.float32)
    q = query.to(exact) / math.sqrt(query.shape[-1])

    def read(state, block):
        key, value = (x.to(exact) for x in block)
        e = torch.einsum("...td,...nd->...tn", q, key)
        largest = e.max(dim=-1, keepdim=True).values
        if state is None:
            up = torch.exp(e - largest)
            return largest, up.sum(-1, keepdim=True), up @ value
        m, l, o = state
        new = torch.where(largest > m, largest, m)
        up, down = torch.exp(e - new), torch.exp(m - new)
        return new, l * down + up.sum(-1, keepdim=True), o * down + up @ value

    _, l, o = functools.reduce(read, blocks, None)
    return (o / l).to(query.dtype)


@right("keeps the normalised context: the block's plain softmax, weighted by its share of the whole sum")
def running_softmax(query, blocks, eps=0.0):
    scale = math.sqrt(query.size(-1))
    blocks = iter(blocks)
    key, value = next(blocks)
    scores = query @ key.mT / scale
    m = scores.amax(-1, keepdim=True)
    l = torch.exp(scores - m).sum(-1, keepdim=True)
    context = F.softmax(scores, dim=-1) @ value
    del scores
    for key, value in blocks:
        scores = query @ key.mT / scale
        new_m = torch.maximum(m, scores.amax(-1, keepdim=True))
        old = l * torch.exp(m - new_m)
        added = torch.exp(scores - new_m).sum(-1, keepdim=True)
        l = old + added + eps
        context = context * (old / l) + (F.softmax(scores, dim=-1) @ value) * (added / l)
        m = new_m
        del scores
    return context


@wrong(
    "corrects the sum of the exponentials when the largest score grows, but not the sum of the values",
    "If a block contains a larger score, $m'$, this score becomes the new $m$, and both earlier sums are multiplied by $e^{m - m'}$:",
    "the sum of values is not rescaled",
)
def running_softmax(query, blocks):
    m = query.new_full(query.shape[:-1] + (1,), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new_m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        e = (scores - new_m).exp()
        l = l * (m - new_m).exp() + e.sum(dim=-1, keepdim=True)
        o = o + e @ value
        m = new_m
    return o / l


@wrong(
    "collects all blocks in a list first; each of them has been overwritten by the last one",
    "You get each block only once.",
    "stores the blocks before use",
)
def running_softmax(query, blocks):
    blocks = list(blocks)
    m = query.new_full(query.shape[:-1] + (1,), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new_m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, e = (m - new_m).exp(), (scores - new_m).exp()
        l = l * factor + e.sum(dim=-1, keepdim=True)
        o = o * factor + e @ value
        m = new_m
    return o / l


@wrong(
    "divides the scores by the square root of the values' width Dv, which is right only if Dv = D",
    "The scores are $e_{ts} = q_t^\\top k_s / \\sqrt{D}$.",
    "scales by the width of the values",
)
def running_softmax(query, blocks):
    m = query.new_full(query.shape[:-1] + (1,), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(value.size(-1))
        new_m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, e = (m - new_m).exp(), (scores - new_m).exp()
        l = l * factor + e.sum(dim=-1, keepdim=True)
        o = o * factor + e @ value
        m = new_m
    return o / l


@wrong(
    "starts with m = 0 instead of minus infinity; if all scores of a query are below about -100, all exponentials underflow and the result is 0 / 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "the largest score starts at 0",
)
def running_softmax(query, blocks):
    m = query.new_zeros(query.shape[:-1] + (1,))
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new_m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, e = (m - new_m).exp(), (scores - new_m).exp()
        l = l * factor + e.sum(dim=-1, keepdim=True)
        o = o * factor + e @ value
        m = new_m
    return o / l


@wrong(
    "sums in float32 for accuracy and returns this; bfloat16 inputs give a float32 result",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "the result stays in float32",
)
def running_softmax(query, blocks):
    q = query.float() if query.dtype in (torch.bfloat16, torch.float16) else query
    m = q.new_full(q.shape[:-1] + (1,), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = q @ key.to(q.dtype).mT / math.sqrt(q.size(-1))
        new_m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, e = (m - new_m).exp(), (scores - new_m).exp()
        l = l * factor + e.sum(dim=-1, keepdim=True)
        o = o * factor + e @ value.to(q.dtype)
        m = new_m
    return o / l


@wrong(
    "multiplies weights and values by broadcasting, (..., T, N, Dv), before it sums over N; right numbers, but a tensor Dv times as large as the scores",
    "Do not make a tensor with more than twice as many numbers as the largest of these: the queries, the contexts, the keys of a block, its values, and the scores of all queries for one block.",
    "a tensor of queries by keys by width",
)
def running_softmax(query, blocks):
    m = query.new_full(query.shape[:-1] + (1,), -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new_m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, e = (m - new_m).exp(), (scores - new_m).exp()
        l = l * factor + e.sum(dim=-1, keepdim=True)
        o = o * factor + (e.unsqueeze(-1) * value.unsqueeze(-3)).sum(dim=-2)
        m = new_m
    return o / l


@wrong(
    "scales the query in place with div_, so the caller's queries are smaller after the call",
    "Do not change the inputs.",
    "scales the caller's queries in place",
)
def running_softmax(query, blocks):
    query = query.div_(math.sqrt(query.size(-1)))
    m = torch.full_like(query[..., :1], -math.inf)
    l, o = torch.zeros_like(m), 0
    for key, value in blocks:
        scores = query @ key.mT
        new_m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, e = (m - new_m).exp(), (scores - new_m).exp()
        l = l * factor + e.sum(dim=-1, keepdim=True)
        o = o * factor + e @ value
        m = new_m
    return o / l


@wrong(
    "keeps one largest score for all queries (amax of the whole block) instead of one for each query; a query whose scores lie about 100 below the largest of another query gets 0 / 0",
    "For each query it keeps three things: the largest score so far, $m$;",
    "one maximum for all queries together",
)
def running_softmax(query, blocks):
    m = query.new_full((), -math.inf)
    l, o = query.new_zeros(query.shape[:-1] + (1,)), 0
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        new_m = torch.maximum(m, scores.amax())
        factor, e = (m - new_m).exp(), (scores - new_m).exp()
        l = l * factor + e.sum(dim=-1, keepdim=True)
        o = o * factor + e @ value
        m = new_m
    return o / l


@wrong(
    "a shortcut for a first block with one key: its value is the context, kept as an expanded view of the block, which the next block overwrites before it is used",
    "When you take the next block, its numbers overwrite those of the last block.",
    "keeps a view of the first block",
)
def running_softmax(query, blocks):
    m = l = o = None
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        top = scores.amax(dim=-1, keepdim=True)
        if m is None:
            m, e = top, (scores - top).exp()
            l = e.sum(dim=-1, keepdim=True)
            if key.size(-2) == 1:  # the only weight is 1
                o = value.expand(query.shape[:-1] + value.shape[-1:])
            else:
                o = e @ value
            continue
        new_m = torch.maximum(m, top)
        factor, e = (m - new_m).exp(), (scores - new_m).exp()
        l = l * factor + e.sum(dim=-1, keepdim=True)
        o = o * factor + e @ value
        m = new_m
    return o / l


@wrong(
    "computes (m, l, o) of each block on its own, keeps them all in a list and combines them after the last block; right numbers, but the list grows with the number of blocks",
    "What you keep from one block to the next must not grow with the number of blocks.",
    "keeps partial results of every block",
)
def running_softmax(query, blocks):
    parts = []
    for key, value in blocks:
        scores = query @ key.mT / math.sqrt(query.size(-1))
        m = scores.amax(dim=-1, keepdim=True)
        e = (scores - m).exp()
        parts.append((m, e.sum(dim=-1, keepdim=True), e @ value))
    top = functools.reduce(torch.maximum, [m for m, _, _ in parts])
    o = sum((m - top).exp() * o for m, _, o in parts)
    l = sum((m - top).exp() * l for m, l, _ in parts)
    return o / l
