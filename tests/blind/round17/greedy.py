import torch

from blind import right, wrong

BOS_OUT = "Use BOS as the first input, but leave it out of the output."
EOS_ON = "All later tokens of this sentence must be EOS, whatever the model predicts."
STOP = "Stop when all sentences have ended, or after `max_length` steps."
CACHE = "It returns logits (B, 1, V), weights, which you do not need, and the cache for the next step."
MOST = "Greedy decoding takes the most probable token at every step."
MODEL = "model: has `encode`, `start` and `step`, and need not have anything else."
SOURCE = "source: what `encode` reads; its first axis is B."
NO_EOS = "eos: id of the token that ends a target; it may be an id that no token has."
EXP = "An exponential, however, may overflow."


def first_token(source, bos):
    return torch.full((len(source), 1), bos, dtype=torch.long, device=source.device)


# ---------------------------------------------------------------- right answers


@right("fills a table of EOS column by column, and cuts it at the end")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = first_token(source, bos)
    table = token.new_full((len(source), max_length), eos)
    going = torch.ones_like(token[:, 0], dtype=torch.bool)
    for t in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        best = logits[:, -1].argmax(dim=-1)
        table[going, t] = best[going]
        token = table[:, t : t + 1].clone()
        going &= best != eos
        if not going.any():
            break
    return table[:, : t + 1]


@right("a sentence has ended if its last output is EOS; no flags")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, output = model.start(memory), []
    while len(output) < max_length:
        last = output[-1] if output else first_token(source, bos)
        logits, _, cache = model.step(last, memory, cache)
        best = logits.max(dim=-1).indices
        if output:
            best = torch.where(last == eos, last, best)
        output.append(best)
        if bool((best == eos).all()):
            break
    return torch.cat(output, dim=1)


@right("lists of Python numbers, one for each sentence")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    rows = [[] for _ in range(source.shape[0])]
    token = first_token(source, bos)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        for row, best in zip(rows, logits.flatten(1).argmax(1).tolist()):
            row.append(eos if eos in row else best)
        token = torch.tensor([row[-1:] for row in rows], device=source.device)
        if all(row[-1] == eos for row in rows):
            break
    return torch.tensor(rows, dtype=torch.long, device=source.device)


@right("the number of steps that each sentence has left, with topk")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    state = model.start(memory)
    token = first_token(source, bos)
    left = torch.full_like(token, max_length)
    tokens = []
    while int(left.max()) > 0:
        logits, _, state = model.step(token, memory, state)
        token = logits[:, 0].topk(1, dim=-1).indices
        token = token * (left > 0) + eos * (left == 0)
        left = (left - 1).clamp(min=0) * (token != eos)
        tokens.append(token)
    return torch.hstack(tokens)


# ---------------------------------------------------------------- wrong answers


@wrong("returns BOS as the first token", breaks=BOS_OUT, name="BOS in the output")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    tokens = [first_token(source, bos)]
    ended = torch.zeros_like(tokens[0], dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(tokens[-1], memory, cache)
        tokens.append(logits.argmax(-1).masked_fill(ended, eos))
        ended = ended | (tokens[-1] == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "keeps what the model predicts after EOS",
    breaks=EOS_ON,
    name="an ended sentence goes on",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token, tokens = first_token(source, bos), []
    ended = torch.zeros_like(token, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "always makes max_length steps",
    breaks=STOP,
    name="does not stop when all have ended",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token, tokens = first_token(source, bos), []
    ended = torch.zeros_like(token, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended |= token == eos
    return torch.cat(tokens, dim=1)


@wrong(
    "gives the first cache to every step",
    breaks=CACHE,
    name="the model forgets its own tokens",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token, tokens = first_token(source, bos), []
    ended = torch.zeros_like(token, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, _ = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "ends a sentence if the logit at index eos is the largest one",
    breaks=NO_EOS,
    name="eos = -1 becomes the last token of the vocabulary",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token, tokens = first_token(source, bos), []
    ended = torch.zeros_like(token, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended |= logits[..., eos] == logits.amax(-1)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "puts the model into eval mode first",
    breaks=MODEL,
    name="calls a method that the model need not have",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    model.eval()
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token, tokens = first_token(source, bos), []
    ended = torch.zeros_like(token, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "makes the first token with full_like of the source's first column",
    breaks=SOURCE,
    name="expects a source of token ids (B, S)",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token, tokens = torch.full_like(source[:, :1], bos), []
    ended = torch.zeros_like(token, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "divides exponentials by their sum before argmax",
    breaks=EXP,
    name="large logits become inf / inf",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token, tokens = first_token(source, bos), []
    ended = torch.zeros_like(token, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        e = logits.exp()
        token = (e / e.sum(-1, keepdim=True)).argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "never lets the model predict BOS",
    breaks=MOST,
    name="forbids a token, which may also be EOS",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token, tokens = first_token(source, bos), []
    ended = torch.zeros_like(token, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        logits = logits.index_fill(-1, token.new_tensor([bos]), float("-inf"))
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "stops when the raw predictions of one step are EOS everywhere",
    breaks="Stop when all sentences have ended",
    name="waits for sentences that have ended before",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token, tokens = first_token(source, bos), []
    ended = torch.zeros_like(token, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        best = logits.argmax(-1)
        token = torch.where(ended, eos, best)
        tokens.append(token)
        ended |= best == eos
        if (best == eos).all():
            break
    return torch.cat(tokens, dim=1)
