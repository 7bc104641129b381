import math

import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


@right("sorts upwards in float64, and removes while the sum is at most 1 - p")
def top_p(logits, p):
    chances, ids = logits.detach().double().softmax(dim=-1).sort(dim=-1)
    gone = chances.cumsum(dim=-1) <= 1 - p
    gone = torch.zeros_like(gone).scatter(-1, ids, gone)
    return torch.where(gone, torch.full_like(logits, -math.inf), logits)


@right("a plain Python loop over rows and tokens")
def top_p(logits, p):
    keep = []
    for row in logits.detach().double().softmax(dim=-1).reshape(-1, logits.size(-1)):
        row = row.tolist()
        kept, total = [False] * len(row), 0.0
        for token in sorted(range(len(row)), key=lambda i: -row[i]):
            kept[token] = True
            total += row[token]
            if total >= p:
                break
        keep.append(kept)
    keep = torch.tensor(keep, device=logits.device).reshape(logits.shape)
    return logits.masked_fill(~keep, -math.inf)


@right("takes the best of the rest until every row has reached p, without sorting")
def top_p(logits, p):
    left = logits.detach().double().softmax(dim=-1)
    total = torch.zeros_like(left[..., :1])
    keep = torch.zeros_like(left, dtype=torch.bool)
    while (total < p).any():
        wanting = total < p
        best = left.argmax(dim=-1, keepdim=True)
        keep = keep.scatter(-1, best, keep.gather(-1, best) | wanting)
        total = torch.where(wanting, total + left.gather(-1, best), total)
        left = left.scatter(-1, best, -1.0)
    return logits.masked_fill(~keep, -math.inf)


@right("finds the size of the nucleus with searchsorted, and compares ranks with it")
def top_p(logits, p):
    order = logits.argsort(dim=-1, descending=True)
    rank = order.argsort(dim=-1)
    sums = logits.detach().double().softmax(dim=-1).gather(-1, order).cumsum(dim=-1)
    last = torch.searchsorted(sums, torch.full_like(sums[..., :1], p))
    return torch.where(rank <= last, logits, torch.full_like(logits, -math.inf))


@wrong(
    "keeps tokens while the sum with them is at most p, so the one that reaches p is"
    " lost, and often all are",
    "Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p.",
    "token that crosses p removed",
)
def top_p(logits, p):
    values, ids = logits.sort(dim=-1, descending=True)
    keep = values.softmax(dim=-1).cumsum(dim=-1) <= p
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "applies the mask of the sorted tokens to the tokens in the order of the vocabulary",
    "Do not change the logits of these tokens.",
    "not moved back to the order of the vocabulary",
)
def top_p(logits, p):
    values, _ = logits.sort(dim=-1, descending=True)
    chances = values.softmax(dim=-1)
    keep = chances.cumsum(dim=-1) - chances < p
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "keeps one token too many if the sum is exactly p: with the logits 0, 0 and p = 0.5,"
    " it keeps both",
    "Top-p sampling (Holtzman et al., 2020) draws only from the *nucleus*: the smallest set of most probable tokens whose probabilities sum to at least p.",
    "at most p instead of below p",
    subtle=True,
)
def top_p(logits, p):
    values, ids = logits.sort(dim=-1, descending=True)
    chances = values.softmax(dim=-1)
    keep = chances.cumsum(dim=-1) - chances <= p
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "keeps all tokens whose logit is at least that of the last token of the nucleus:"
    " with four equal logits and p = 0.3, it keeps four instead of two",
    "If several tokens are equally probable, keep only as many of them as you need to reach p.",
    "threshold keeps all ties",
    subtle=True,
)
def top_p(logits, p):
    values = logits.sort(dim=-1, descending=True).values
    chances = values.softmax(dim=-1)
    size = (chances.cumsum(dim=-1) - chances < p).sum(dim=-1, keepdim=True)
    threshold = values.gather(-1, size - 1)
    return logits.masked_fill(logits < threshold, -math.inf)


@wrong(
    "returns the logarithms of the probabilities instead of the logits; what is drawn is"
    " the same",
    "Do not change the logits of these tokens.",
    "log-probabilities instead of logits",
    subtle=True,
)
def top_p(logits, p):
    logs = logits.log_softmax(dim=-1)
    values, ids = logs.sort(dim=-1, descending=True)
    chances = values.exp()
    keep = chances.cumsum(dim=-1) - chances < p
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logs.masked_fill(~keep, -math.inf)


@wrong(
    "switches gradients off, as one does when a model writes: no gradient reaches the"
    " kept logits",
    "Gradients must be right, too.",
    "no gradient",
    subtle=True,
)
@torch.no_grad()
def top_p(logits, p):
    values, ids = logits.sort(dim=-1, descending=True)
    chances = values.softmax(dim=-1)
    keep = chances.cumsum(dim=-1) - chances < p
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "writes the minus infinities into the logits that it was given",
    "Do not change the inputs.",
    "changes its input",
    subtle=True,
)
def top_p(logits, p):
    values, ids = logits.sort(dim=-1, descending=True)
    chances = values.softmax(dim=-1)
    keep = chances.cumsum(dim=-1) - chances < p
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    logits[~keep] = -math.inf
    return logits


@wrong(
    "looks for the nucleus among the 50 most probable tokens only: with 100 equal logits"
    " and p = 0.9, it keeps 50 instead of 90",
    "Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p.",
    "nucleus limited to 50 tokens",
    subtle=True,
)
def top_p(logits, p):
    chances, ids = logits.softmax(dim=-1).topk(min(50, logits.size(-1)), dim=-1)
    keep = chances.cumsum(dim=-1) - chances < p
    keep = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "subtracts the mean of the logits before the softmax: if a logit is minus infinity,"
    " all probabilities are NaN, and no token is kept",
    r"Some logits of a row, but never all of them, may already be $-\infty$.",
    "mean of a row with minus infinity",
    subtle=True,
)
def top_p(logits, p):
    centred = logits - logits.mean(dim=-1, keepdim=True)  # against large numbers
    chances, ids = centred.softmax(dim=-1).sort(dim=-1, descending=True)
    keep = chances.cumsum(dim=-1) - chances < p
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "counts the tokens of the largest nucleus, and keeps as many in every row",
    "Each row of V logits has its own nucleus.",
    "same size for all rows",
    subtle=True,
)
def top_p(logits, p):
    values, ids = logits.sort(dim=-1, descending=True)
    chances = values.softmax(dim=-1)
    size = int((chances.cumsum(dim=-1) - chances < p).sum(dim=-1).max())
    result = torch.full_like(logits, -math.inf)
    return result.scatter(-1, ids[..., :size], values[..., :size])
