import torch
from blind import right, wrong


def looked(tokens, latest=True, strict=True):
    """Indices (B, T) of the earlier occurrence, -1 without one."""
    size = tokens.size(1)
    same = tokens[:, :, None] == tokens[:, None, :]
    same = same.tril(-1 if strict else 0)
    places = torch.arange(size, device=tokens.device).expand_as(same)
    if latest:
        return places.masked_fill(~same, -1).amax(-1)
    first = places.masked_fill(~same, size).amin(-1)
    return first.masked_fill(first == size, -1)


@right("a dictionary of the latest places, row by row")
def r1(tokens, weights):
    total, count = weights.new_zeros(weights.size(1)), 0
    for b, row in enumerate(tokens.tolist()):
        seen = {}
        for t, token in enumerate(row):
            if token in seen:
                total = total + weights[b, :, t, seen[token] + 1]
                count += 1
            seen[token] = t
    return total / max(count, 1)


@right("one-hot of the looked-at key, times the weights")
def r2(tokens, weights):
    s = looked(tokens)
    size = tokens.size(1)
    target = torch.arange(size, device=s.device) == (s + 1)[:, :, None]
    target = target & (s >= 0)[:, :, None]
    total = weights.masked_fill(~target[:, None], 0).sum(dim=(0, 2, 3))
    return total / target.sum().clamp(min=1)


@right("gathers, then picks what counts")
def r3(tokens, weights):
    s = looked(tokens)
    index = (s + 1)[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0].transpose(1, 2)[s >= 0]  # (N, H)
    if not len(picked):
        return weights.new_zeros(weights.size(1))
    return picked.mean(0)


@right("advanced indexing with nonzero")
def r4(tokens, weights):
    s = looked(tokens)
    rows, times = (s >= 0).nonzero(as_tuple=True)
    picked = weights[rows, :, times, s[rows, times] + 1]
    return picked.sum(0) / max(len(rows), 1)


def mean_of(tokens, weights, s, key):
    counts = s >= 0
    index = key.clamp(0, tokens.size(1) - 1)[:, None, :, None]
    picked = weights.gather(-1, index.expand(-1, weights.size(1), -1, 1))[..., 0]
    picked = picked.masked_fill(~counts[:, None], 0)
    return picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)


@wrong(
    "the first occurrence, not the latest",
    "Then s is the latest earlier position with this token.",
    "first occurrence",
)
def w1(tokens, weights):
    s = looked(tokens, latest=False)
    return mean_of(tokens, weights, s, s + 1)


@wrong(
    "looks at the occurrence itself",
    "the weights that the queries t give to the keys s + 1",
    "s instead of s + 1",
)
def w2(tokens, weights):
    s = looked(tokens)
    return mean_of(tokens, weights, s, s)


@wrong(
    "mean of the rows' means",
    "It is taken over the positions that count, of all rows together.",
    "mean of means",
)
def w3(tokens, weights):
    s = looked(tokens)
    each = [
        mean_of(tokens[b : b + 1], weights[b : b + 1], s[b : b + 1], s[b : b + 1] + 1)
        for b in range(len(tokens))
    ]
    return torch.stack(each).mean(0)


@wrong(
    "divides by all positions",
    "It is taken over the positions that count",
    "all positions in the denominator",
)
def w4(tokens, weights):
    s = looked(tokens)
    share = (s >= 0).to(weights.dtype).mean()
    return mean_of(tokens, weights, s, s + 1) * share


@wrong(
    "not a number when no position counts",
    "If no position counts, all scores are 0.",
    "nan without repeats",
)
def w5(tokens, weights):
    s = looked(tokens)
    index = (s + 1)[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    return weights.gather(-1, index)[..., 0].transpose(1, 2)[s >= 0].mean(0)


@wrong(
    "keys and queries exchanged",
    "the weights that the queries t give to the keys s + 1",
    "queries and keys exchanged",
)
def w6(tokens, weights):
    s = looked(tokens)
    return mean_of(tokens, weights.mT, s, s + 1)


@wrong(
    "a position matches itself",
    "if its token has occurred before it in the same row",
    "own position",
)
def w7(tokens, weights):
    s = looked(tokens, strict=False)
    return mean_of(tokens, weights, s, s + 1)


@wrong(
    "sums over all earlier occurrences",
    "Then s is the latest earlier position with this token.",
    "all occurrences",
)
def w8(tokens, weights):
    size = tokens.size(1)
    same = tokens[:, :, None] == tokens[:, None, :]
    same = same.tril(-1)
    after = torch.zeros_like(same)
    after[..., 1:] = same[..., :-1]
    counts = same.any(-1).sum().clamp(min=1)
    return (weights * after[:, None]).sum(dim=(0, 2, 3)) / counts


@wrong(
    "skips position s + 1 = t: a token that stands twice in a row does not count",
    "A position t counts if its token has occurred before it in the same row.",
    "neighbours left out",
)
def w9(tokens, weights):
    s = looked(tokens)
    t = torch.arange(tokens.size(1), device=s.device)
    s = s.masked_fill(s == t - 1, -1)
    return mean_of(tokens, weights, s, s + 1)


@wrong(
    "token 0 is taken for padding",
    "A position t counts if its token has occurred before it in the same row.",
    "id 0 left out",
)
def w10(tokens, weights):
    s = looked(tokens).masked_fill(tokens == 0, -1)
    return mean_of(tokens, weights, s, s + 1)


@wrong(
    "s = 0 is taken for none",
    "A position t counts if its token has occurred before it in the same row.",
    "occurrence at 0 left out",
)
def w11(tokens, weights):
    s = looked(tokens)
    s = s.masked_fill(s == 0, -1)
    return mean_of(tokens, weights, s, s + 1)


@wrong(
    "one number for the layer",
    "The scores (H,)",
    "mean over heads",
)
def w12(tokens, weights):
    s = looked(tokens)
    return mean_of(tokens, weights, s, s + 1).mean()


@wrong(
    "occurrences in other rows count",
    "in the same row",
    "rows mixed",
)
def w13(tokens, weights):
    s = looked(tokens)
    other = looked(tokens.roll(1, 0))
    s = torch.where(s >= 0, s, other)
    return mean_of(tokens, weights, s, s + 1)


@wrong(
    "always float32",
    "of the dtype of the weights",
    "dtype lost",
)
def w14(tokens, weights):
    s = looked(tokens)
    return mean_of(tokens, weights.float(), s, s + 1)


@wrong(
    "the last position never counts, since nothing follows it",
    "A position t counts if its token has occurred before it in the same row.",
    "last position left out",
)
def w15(tokens, weights):
    s = looked(tokens)
    s = torch.cat([s[:, :-1], torch.full_like(s[:, -1:], -1)], 1)
    return mean_of(tokens, weights, s, s + 1)
