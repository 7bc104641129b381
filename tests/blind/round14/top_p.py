import heapq
import math

import torch

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("counts with searchsorted how many tokens each row needs, compares ranks with this number")
def top_p(logits, p):
    flat = logits.detach().reshape(-1, logits.size(-1)).double()
    chances, ids = flat.softmax(dim=-1).sort(dim=-1, descending=True)
    reached = chances.cumsum(dim=-1)
    goal = torch.full_like(reached[:, :1], p)
    need = torch.searchsorted(reached, goal) + 1  # (rows, 1)
    rank = torch.empty_like(ids).scatter_(
        -1, ids, torch.arange(ids.size(-1), device=ids.device).expand_as(ids)
    )
    keep = (rank < need).view(logits.shape)
    return torch.where(keep, logits, -torch.inf)


@right("Python's heap, row by row: pops tokens until their exact sum reaches p")
def top_p(logits, p):  # noqa: F811
    result = logits.new_full(tuple(logits.shape), -math.inf)
    rows = logits.reshape(-1, logits.size(-1))
    out = result.view(-1, logits.size(-1))
    for r, row in enumerate(rows.double().tolist()):
        top = max(row)
        powers = [math.exp(x - top) for x in row]
        goal = p * math.fsum(powers)
        heap = [(-w, i) for i, w in enumerate(powers) if w > 0]
        heapq.heapify(heap)
        kept, sums = [], []
        while heap and (not kept or math.fsum(sums) < goal):
            weight, i = heapq.heappop(heap)
            kept.append(i)
            sums = [math.fsum(sums) - weight]
        out[r, kept] = rows[r, kept]
    return result


@right("sorts upwards and flips; sums before a token by padding and shifting; writes with put_along")
def top_p(logits, p):  # noqa: F811
    with torch.no_grad():
        rising, ids = torch.sort(logits.double(), dim=-1)
        falling, ids = rising.flip(-1), ids.flip(-1)
        power = torch.exp(falling - falling[..., :1])
        before = torch.nn.functional.pad(power.cumsum(-1), (1, 0))[..., :-1]
        out = before >= p * power.sum(-1, keepdim=True)
        removed = torch.zeros_like(out).scatter(-1, ids, out)
        return logits.masked_fill(removed, float("-inf"))


@right("bisects on the number of tokens to keep; torch.topk order by stable argsort")
def top_p(logits, p):  # noqa: F811
    size = logits.size(-1)
    share = logits.double().log_softmax(dim=-1).exp()
    order = torch.argsort(share, dim=-1, descending=True, stable=True)
    sums = share.gather(-1, order).cumsum(dim=-1)
    low = torch.ones_like(order[..., :1])
    high = torch.full_like(low, size)
    for _ in range(size.bit_length() + 1):
        middle = (low + high) // 2
        enough = sums.gather(-1, middle - 1) >= p
        high = torch.where(enough, middle, high)
        low = torch.where(enough, low, (middle + 1).clamp(max=size))
        low = torch.minimum(low, high)
    place = torch.argsort(order, dim=-1)
    result = logits.clone()
    result[place >= high] = -torch.inf
    return result


# ---------------------------------------------------------------- wrong


@wrong(
    "keeps the tokens whose sum is still at most p, so the token that crosses p is removed",
    "Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p.",
    "removes the token that crosses p",
)
def top_p(logits, p):  # noqa: F811
    chances, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    keep = chances.cumsum(dim=-1) <= p
    keep[..., 0] = True
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "finds the logit of the last token of the nucleus and keeps everything that is at least as large, so all tied tokens",
    "If several tokens are equally probable, keep only as many of them as you need to reach p.",
    "keeps all tied tokens",
)
def top_p(logits, p):  # noqa: F811
    ordered = logits.sort(dim=-1, descending=True).values
    chances = ordered.double().softmax(dim=-1)
    keep = chances.cumsum(dim=-1) - chances < p
    last = keep.sum(dim=-1, keepdim=True) - 1
    return logits.masked_fill(logits < ordered.gather(-1, last), -math.inf)


@wrong(
    "returns the logits in the sorted order",
    "`scatter(-1, ids, ...)` moves a result from the sorted order back to the order of the vocabulary.",
    "result stays in sorted order",
)
def top_p(logits, p):  # noqa: F811
    ordered = logits.sort(dim=-1, descending=True).values
    chances = ordered.double().softmax(dim=-1)
    keep = chances.cumsum(dim=-1) - chances < p
    return ordered.masked_fill(~keep, -math.inf)


@wrong(
    "writes -inf into the logits that it was given",
    "Do not change the inputs.",
    "changes the logits in place",
)
def top_p(logits, p):  # noqa: F811
    chances, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    drop = chances.cumsum(dim=-1) - chances >= p
    drop[..., 0] = False
    return logits.masked_fill_(torch.zeros_like(drop).scatter(-1, ids, drop), -math.inf)


@wrong(
    "scatters the kept logits into zeros and then replaces every 0 by -inf, also a kept logit that is exactly 0",
    "Do not change the logits of these tokens.",
    "removes kept logits of exactly zero",
)
def top_p(logits, p):  # noqa: F811
    ordered, ids = logits.sort(dim=-1, descending=True)
    chances = ordered.double().softmax(dim=-1)
    keep = chances.cumsum(dim=-1) - chances < p
    keep[..., 0] = True
    kept = torch.where(keep, ordered, torch.zeros_like(ordered))
    result = torch.zeros_like(logits).scatter(-1, ids, kept)
    return result.masked_fill(result == 0, -math.inf)


@wrong(
    "protects `the first token` after moving back to the order of the vocabulary: token 0 is always kept",
    "Set all other logits to $-\\infty$.",
    "always keeps token 0",
)
def top_p(logits, p):  # noqa: F811
    chances, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    drop = chances.cumsum(dim=-1) - chances >= p
    drop = torch.zeros_like(drop).scatter(-1, ids, drop)
    drop[..., 0] = False  # at least one token stays
    return logits.masked_fill(drop, -math.inf)


@wrong(
    "always keeps every token whose logit is the largest one, to keep at least one: tied best tokens all stay",
    "If several tokens are equally probable, keep only as many of them as you need to reach p.",
    "keeps all tied best tokens",
)
def top_p(logits, p):  # noqa: F811
    chances, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    keep = chances.cumsum(dim=-1) - chances < p
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    keep = keep | (logits == logits.amax(dim=-1, keepdim=True))
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "sorts only the 100 most probable tokens, to save time: a flat distribution over a large vocabulary has a larger nucleus",
    "Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p.",
    "never keeps more than 100 tokens",
)
def top_p(logits, p):  # noqa: F811
    every = logits.double().softmax(dim=-1)
    chances, ids = every.topk(min(100, logits.size(-1)), dim=-1)
    keep = chances.cumsum(dim=-1) - chances < p
    keep = torch.zeros_like(every, dtype=torch.bool).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "takes the largest number of tokens that any row needs, and keeps this many in every row",
    "Each row of V logits has its own nucleus.",
    "same nucleus size in all rows",
)
def top_p(logits, p):  # noqa: F811
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    number = int((ordered.cumsum(dim=-1) - ordered < p).sum(dim=-1).max())
    result = torch.full_like(logits, -math.inf)
    ids = ids[..., :number]
    return result.scatter(-1, ids, logits.gather(-1, ids))


@wrong(
    "converts float64 logits to float32 and back, which rounds the logits that are kept",
    "Do not change the logits of these tokens.",
    "rounds kept float64 logits",
)
def top_p(logits, p):  # noqa: F811
    ordered, ids = logits.float().sort(dim=-1, descending=True)
    chances = ordered.softmax(dim=-1)
    keep = chances.cumsum(dim=-1) - chances < p
    keep[..., 0] = True
    ordered = ordered.masked_fill(~keep, -math.inf)
    return torch.empty_like(ordered).scatter(-1, ids, ordered).to(logits.dtype)
