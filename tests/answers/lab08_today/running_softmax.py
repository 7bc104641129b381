"""Answers to running_softmax."""

import math

import torch
from answers.core import draw, right, right_edits, wide, wrong, wrong_edits
from answers.signs import DEVICE, DTYPE, IN_PLACE, NAN

from nbjudge import Request, edit


@wide("running_softmax")
def any_blocks(g):
    for shape in ((), (2,), (2, 3)):
        for blocks in ([1], [4], [1, 1, 1], [2, 5, 3], [6, 1, 2, 7]):
            t, dim, width = torch.randint(1, 6, (3,), generator=g).tolist()
            keys = draw(g, *shape, sum(blocks), dim)
            values = draw(g, *shape, sum(blocks), width)
            for size in (1, -30, 500):
                query = size * draw(g, *shape, t, dim).abs()
                yield Request((query, keys, values, blocks, False, False))


@right("running_softmax")
def with_a_first_block(query, blocks):
    m = n = o = None
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        top = e.max(dim=-1, keepdim=True).values
        new = top if m is None else torch.maximum(m, top)
        p = torch.exp(e - new)
        if m is None:
            n, o = p.sum(-1, keepdim=True), p @ value
        else:
            n = n * torch.exp(m - new) + p.sum(-1, keepdim=True)
            o = o * torch.exp(m - new) + p @ value
        m = new
    return o / n


@right("running_softmax")
def a_context_at_any_time(query, blocks):
    """Keep the context itself and the logarithm of the sum."""
    context, before = 0, None
    for key, value in blocks:
        scores = (query / math.sqrt(query.size(-1))) @ key.transpose(-1, -2)
        now = scores.logsumexp(dim=-1, keepdim=True)
        after = now if before is None else torch.logaddexp(before, now)
        if before is not None:
            context = context * (before - after).exp()
        context = context + (scores - after).exp() @ value
        before = after
    return context


@right("running_softmax")
def two_contexts_mixed(query, blocks):
    total, context = None, None
    for key, value in blocks:
        scores = torch.einsum("...td,...sd->...ts", query, key) * query.size(-1) ** -0.5
        mine = scores.softmax(dim=-1) @ value
        size = torch.logsumexp(scores, dim=-1, keepdim=True)
        if total is None:
            total, context = size, mine
            continue
        share = torch.sigmoid(size - total)
        context = context * (1 - share) + mine * share
        total = torch.logaddexp(total, size)
    return context


@right("running_softmax")
def one_more_column(query, blocks):
    """Let the sum be a value that is 1 everywhere."""
    m, both = None, None
    for key, value in blocks:
        scores = query.mul(query.size(-1) ** -0.5).matmul(key.mT)
        if m is None:
            m = torch.full_like(scores[..., :1], torch.finfo(scores.dtype).min)
            both = value.new_zeros(*scores.shape[:-1], value.size(-1) + 1)
        new = torch.maximum(m, scores.amax(-1, keepdim=True))
        padded = torch.nn.functional.pad(value, (0, 1), value=1.0)
        both = both * (m - new).exp() + (scores - new).exp() @ padded
        m = new
    return both[..., :-1] / both[..., -1:]


@right("running_softmax")
def in_place_of_its_own(query, blocks):
    m = query.new_full(query.shape[:-1], -math.inf)
    n = torch.zeros_like(m)
    o = None
    for key, value in blocks:
        scores = query @ key.mT
        scores /= math.sqrt(query.size(-1))
        new = scores.amax(-1).maximum(m)
        scores.sub_(new[..., None]).exp_()
        shrink = m.sub_(new).exp_()
        if o is None:
            o = query.new_zeros(*m.shape, value.size(-1))
        n.mul_(shrink).add_(scores.sum(-1))
        o.mul_(shrink[..., None]).add_(scores @ value)
        m = new
    return o.div_(n[..., None])


@right("running_softmax")
def told_by_a_reduction(query, blocks):
    import functools

    def block(pair):
        key, value = pair
        e = query @ key.mT / query.size(-1) ** 0.5
        m = e.amax(-1, keepdim=True)
        p = (e - m).exp()
        return m, p.sum(-1, keepdim=True), p @ value

    def join(one, other):
        m = one[0].maximum(other[0])
        a, b = (one[0] - m).exp(), (other[0] - m).exp()
        return m, one[1] * a + other[1] * b, one[2] * a + other[2] * b

    _, n, o = functools.reduce(join, map(block, blocks))
    return o / n


@right("running_softmax")
def only_where_it_rises(query, blocks):
    scale = math.sqrt(query.size(-1))
    key, value = next(blocks)
    scores = query @ key.mT / scale
    m = scores.amax(-1, keepdim=True)
    p = (scores - m).exp()
    n, o = p.sum(-1, keepdim=True), p @ value
    for key, value in blocks:
        scores = query @ key.mT / scale
        top = scores.amax(-1, keepdim=True)
        rises = top > m
        shrink = torch.where(rises, (m - top).clamp(max=0).exp(), 1.0).to(m.dtype)
        m = torch.where(rises, top, m)
        p = torch.exp(scores - m)
        n, o = n * shrink + p.sum(-1, keepdim=True), o * shrink + p @ value
    return o / n


@right("running_softmax")
def running(query, blocks):
    scale = query.size(-1) ** -0.5
    m = torch.full_like(query[..., :1], -math.inf)
    n, o = torch.zeros_like(m), torch.zeros_like(m)
    for key, value in blocks:
        e = query @ key.mT * scale
        new = torch.maximum(m, e.amax(-1, keepdim=True))
        p, shrink = (e - new).exp(), (m - new).exp()
        n = n * shrink + p.sum(-1, keepdim=True)
        o = o * shrink + p @ value
        m = new
    return o / n


right_edits(
    "running_softmax",
    running,
    cut_in_halves=edit(
        running,
        "for key, value in blocks:",
        "for key, value in (part for k, v in blocks for part in"
        " zip(k.chunk(2, dim=-2), v.chunk(2, dim=-2))):",
    ),
    key_scaled=edit(running, "query @ key.mT * scale", "query @ (key * scale).mT"),
)

SECOND = "wrong with more than one block"
LOOPED = "too many operator calls for a block"
SHRUNK = "only one of the two sums is rescaled"
GROWS = "a tensor or list that grows with the number of keys"


@wrong("running_softmax", GROWS)
def joined_as_they_come(query, blocks):
    keys, values = next(blocks)
    keys, values = keys.clone(), values.clone()
    for key, value in blocks:
        keys, values = torch.cat([keys, key], -2), torch.cat([values, value], -2)
    scores = query @ keys.mT / math.sqrt(query.size(-1))
    return scores.softmax(-1) @ values


@wrong("running_softmax", GROWS)
def scores_in_a_list(query, blocks):
    scale, scores, values = query.size(-1) ** -0.5, [], []
    for key, value in blocks:
        scores.append(query @ key.mT * scale)
        values.append(value.clone())
    m = scores[0].amax(-1, keepdim=True)
    for e in scores:
        m = torch.maximum(m, e.amax(-1, keepdim=True))
    weights = [(e - m).exp() for e in scores]
    total = sum(w.sum(-1, keepdim=True) for w in weights)
    return sum(w @ v for w, v in zip(weights, values)) / total


@wrong("running_softmax", GROWS)
def all_scores_joined(query, blocks):
    scores, contexts, tops = [], [], []
    for key, value in blocks:
        e = query @ key.mT / math.sqrt(query.size(-1))
        scores.append(e)
        tops.append(e.amax(-1, keepdim=True))
        contexts.append((e - tops[-1]).exp() @ value)
    scores = torch.cat(scores, -1)
    m = scores.amax(-1, keepdim=True)
    total = (scores - m).exp().sum(-1, keepdim=True)
    return sum((top - m).exp() * o for top, o in zip(tops, contexts)) / total


@wrong("running_softmax", GROWS)
def one_row_of_scores_at_a_time(query, blocks):
    kept = [(key.clone(), value.clone()) for key, value in blocks]
    rows = []
    for q in query.unbind(-2):
        scores = torch.cat([(k @ q[..., None])[..., 0] for k, _ in kept], -1)
        weights = (scores / math.sqrt(q.size(-1))).softmax(-1)
        values = torch.cat([v for _, v in kept], -2)
        rows.append((weights[..., None, :] @ values)[..., 0, :])
    return torch.stack(rows, -2)


@wrong("running_softmax", "blocks are kept to the end")
def two_passes(query, blocks):
    blocks = list(blocks)
    scale = math.sqrt(query.size(-1))
    m = torch.stack([(query @ k.mT).amax(-1) for k, _ in blocks]).amax(0)[..., None]
    n = sum(((query @ k.mT - m) / scale).exp().sum(-1, keepdim=True) for k, _ in blocks)
    o = sum(((query @ k.mT - m) / scale).exp() @ v for k, v in blocks)
    return o / n


@wrong("running_softmax", LOOPED)
def key_by_key(query, blocks):
    m = torch.full_like(query[..., :1], -math.inf)
    n, o = torch.zeros_like(m), 0
    for keys, values in blocks:
        for key, value in zip(keys.unbind(-2), values.unbind(-2)):
            e = (query * key[..., None, :]).sum(-1, keepdim=True)
            e = e / query.size(-1) ** 0.5
            new = torch.maximum(m, e)
            n = n * (m - new).exp() + (e - new).exp()
            o = o * (m - new).exp() + (e - new).exp() * value[..., None, :]
            m = new
    return o / n


@wrong("running_softmax", LOOPED)
def key_by_key_if_it_rises(query, blocks):
    m = None
    for keys, values in blocks:
        scores = query @ keys.mT * query.size(-1) ** -0.5
        for e, value in zip(scores.split(1, -1), values.split(1, -2)):
            if m is None:
                m, n, o = e, 0, 0
            if (e > m).any():
                new = e.maximum(m)
                n, o, m = n * (m - new).exp(), o * (m - new).exp(), new
            p = (e - m).exp()
            n, o = n + p, o + p * value
    return o / n


@wrong("running_softmax", GROWS)
def shrunk_by_a_matrix_if_it_rises(query, blocks):
    m = query.new_full((*query.shape[:-1], 1), -math.inf)
    n, o = torch.zeros_like(m), None
    for key, value in blocks:
        e = query @ key.mT * query.size(-1) ** -0.5
        o = m.new_zeros(*m.shape[:-1], value.size(-1)) if o is None else o
        new = m.maximum(e.amax(-1, keepdim=True))
        if (new > m).any():
            shrink = torch.diag_embed((m - new).exp()[..., 0])
            n, o, m = shrink @ n, shrink @ o, new
        p = (e - m).exp()
        n, o = n + p.sum(-1, keepdim=True), o + p @ value
    return o / n


wrong_edits(
    "running_softmax",
    running,
    begins_at_minus_a_billion=(edit(running, "-math.inf", "-1e9"), NAN),
    begins_at_the_least_of_single_precision=(
        edit(running, "-math.inf", "torch.finfo(torch.float32).min"),
        NAN,
    ),
    scores_in_single_precision=(
        edit(
            running,
            "query @ key.mT * scale",
            "(query.float() @ key.float().mT * scale).to(m)",
        ),
    ),
    ones_of_the_first_block=(
        edit(
            running,
            "    e = query",
            "    ones = ones if o.any() else torch.ones_like(key[..., :1])\n        e = query",
        )
        & edit(running, "p.sum(-1, keepdim=True)", "p @ ones"),
        "shapes do not match",
    ),
    only_the_sum_is_shrunk=(edit(running, "o * shrink", "o"), SHRUNK),
    shrunk_by_the_last_step=(
        edit(running, "(m - new).exp()", "(new - m).exp().nan_to_num(posinf=0.0)"),
        SECOND,
    ),
    largest_by_the_first_block=(
        edit(running, "        m = new\n", "")
        & edit(
            running,
            "new = torch.maximum(m, e.amax(-1, keepdim=True))",
            "m = e.amax(-1, keepdim=True) if m.isneginf().all() else m; new = m",
        ),
        NAN,
        "the largest score of only one block",
        "the maximum is not subtracted",
    ),
    mean_by_hand=(
        edit(running, "o * shrink + p @ value", "o * shrink + p @ value / n"),
    ),
    largest_of_all_queries=(
        edit(running, "e.amax(-1, keepdim=True)", "e.amax((-1, -2), keepdim=True)"),
        NAN,
    ),
    begins_at_minus_thousand=(
        edit(running, "-math.inf", "-1e3"),
        NAN,
        "the running maximum starts at 0",
    ),
    blocks_divided_alone=(
        edit(running, "(e - new).exp(), (m", "(e - new).softmax(-1), (m"),
        SECOND,
    ),
    scaled_by_the_width_of_values=(
        edit(running, "key.mT * scale", "key.mT * value.size(-1) ** -0.5"),
        "scaled by a wrong width",
    ),
    scaled_twice=(edit(running, "(e - new).exp()", "((e - new) * scale).exp()"),),
    in_single_precision=(
        edit(running, "o / n", "(o.float() / n.float())"),
        DTYPE,
    ),
    block_changed_in_place=(
        edit(running, "e = query @ key.mT * scale", "e = query @ key.mul_(scale).mT"),
        IN_PLACE,
    ),
    sums_on_the_cpu=(
        edit(
            running,
            "torch.full_like(query[..., :1], -math.inf)",
            "torch.full((*query.shape[:-1], 1), -math.inf, dtype=query.dtype)",
        ),
        DEVICE,
    ),
    mean_of_the_shares=(edit(running, "p.sum(-1", "p.mean(-1"),),
)
