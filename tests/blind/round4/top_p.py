import math

import torch
from blind import right, wrong


@right("counts how many are needed and compares with the rank of each token")
def r1(logits, p):
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    needed = (ordered.cumsum(dim=-1) < p).sum(dim=-1, keepdim=True) + 1
    ranks = ids.argsort(dim=-1)
    return logits.masked_fill(ranks >= needed, -math.inf)


@right("from the improbable end: throws away as long as the loss is at most 1 - p")
def r2(logits, p):
    probabilities = torch.softmax(logits, dim=-1, dtype=torch.float64)
    ordered, ids = torch.sort(probabilities, dim=-1, stable=True)
    gone = ordered.cumsum(dim=-1) <= 1 - p
    gone[..., -1] = False
    removed = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, ids, gone)
    return torch.where(removed, torch.full_like(logits, -math.inf), logits)


@right("one row after the other, each written into a row of minus infinities")
def r3(logits, p):
    rows = logits.reshape(-1, logits.shape[-1])
    result = torch.full_like(rows, -math.inf)
    for number in range(rows.shape[0]):
        ordered, ids = rows[number].double().softmax(0).sort(descending=True)
        stay = ids[: int((ordered.cumsum(0) < p).sum()) + 1]
        result[number, stay] = rows[number, stay]
    return result.reshape(logits.shape)


@right("exponentials that are not normalised, compared with p times their sum")
def r4(logits, p):
    ordered, ids = logits.topk(logits.shape[-1], dim=-1)
    mass = (ordered.double() - ordered[..., :1].double()).exp()
    up_to = mass.cumsum(dim=-1)
    enough = up_to >= p * up_to[..., -1:]
    keep = torch.ones_like(enough)
    keep[..., 1:] = ~enough[..., :-1]
    new = logits.new_full(logits.shape, -math.inf)
    return new.scatter(-1, ids, ordered.masked_fill(~keep, -math.inf))


@wrong(
    "keeps all tokens that are as probable as the last one needed",
    breaks="Of tokens that are equally probable, no more stay than are needed.",
    name="all of the equally probable stay",
    subtle=True,
)
def w1(logits, p):
    probabilities = logits.double().softmax(dim=-1)
    ordered = probabilities.sort(dim=-1, descending=True).values
    last = (ordered.cumsum(dim=-1) < p).sum(dim=-1, keepdim=True)
    least = ordered.gather(-1, last.clamp(max=logits.shape[-1] - 1))
    return logits.masked_fill(probabilities < least, -math.inf)


@wrong(
    "takes one token more if the sum is exactly p",
    breaks="Take the tokens from the most probable one on, until their probabilities "
    "sum to at least p.",
    name="more than p instead of at least p",
    subtle=True,
)
def w2(logits, p):
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    remove = ordered.cumsum(dim=-1) > p
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    return logits.masked_fill(remove.scatter(-1, ids, remove), -math.inf)


@wrong(
    "returns the logarithms of the probabilities for the tokens that stay",
    breaks="The logits of the tokens that stay do not change.",
    name="log probabilities instead of logits",
    subtle=False,
)
def w4(logits, p):
    log_probabilities = logits.log_softmax(dim=-1)
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    stays = ordered.cumsum(dim=-1) - ordered < p
    stays[..., 0] = True
    keep = torch.zeros_like(stays).scatter(-1, ids, stays)
    return log_probabilities.masked_fill(~keep, -math.inf)


@wrong(
    "fills with the smallest finite number",
    breaks=r"All others become $-\infty$.",
    name="finite instead of minus infinity",
    subtle=False,
)
def w5(logits, p):
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    stays = ordered.cumsum(dim=-1) - ordered < p
    stays[..., 0] = True
    keep = torch.zeros_like(stays).scatter(-1, ids, stays)
    removed = ~keep & ~logits.isneginf()
    return logits.masked_fill(removed, torch.finfo(logits.dtype).min)


@wrong(
    "replaces minus infinity by -10,000 first, which may beat true logits",
    breaks=r"A logit may be $-\infty$ already. Its token does not stay.",
    name="minus infinity is -10,000",
    subtle=True,
)
def w6(logits, p):
    finite = logits.double().clamp(min=-1e4)
    ordered, ids = finite.softmax(dim=-1).sort(dim=-1, descending=True)
    stays = ordered.cumsum(dim=-1) - ordered < p
    stays[..., 0] = True
    keep = torch.zeros_like(stays).scatter(-1, ids, stays)
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "all rows keep as many tokens as the row that needs most",
    breaks="There may be any number of axes before it, also none, and each row of V "
    "logits has a set of its own.",
    name="one size for all rows",
    subtle=True,
)
def w7(logits, p):
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    needed = int((ordered.cumsum(dim=-1) < p).sum(dim=-1).max()) + 1
    stay = ids[..., :needed]
    new = torch.full_like(logits, -math.inf)
    return new.scatter(-1, stay, logits.gather(-1, stay))


@wrong(
    "a softmax without subtracting the maximum, which overflows",
    breaks="Your code works for every length from one on, for large numbers as for "
    "small ones, in train mode and in eval mode.",
    name="exponentials overflow",
    subtle=True,
)
def w8(logits, p):
    raised = logits.double().exp()
    probabilities = raised / raised.sum(dim=-1, keepdim=True)
    ordered, ids = probabilities.sort(dim=-1, descending=True)
    stays = ordered.cumsum(dim=-1) - ordered < p
    stays[..., 0] = True
    keep = torch.zeros_like(stays).scatter(-1, ids, stays)
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "goes through float32 and back, which rounds logits in double precision",
    breaks="The logits of the tokens that stay do not change.",
    name="rounded to float32",
    subtle=True,
)
def w9(logits, p):
    single = logits.float()
    ordered, ids = single.softmax(dim=-1).sort(dim=-1, descending=True)
    stays = ordered.cumsum(dim=-1) - ordered < p
    stays[..., 0] = True
    keep = torch.zeros_like(stays).scatter(-1, ids, stays)
    return single.masked_fill(~keep, -math.inf).to(logits.dtype)
