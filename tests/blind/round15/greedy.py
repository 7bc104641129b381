import torch

from blind import right, wrong

STOP = "Stop when all sentences have ended, or after `max_length` steps."


@right("a full table of EOS, filled column by column")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    B = source.size(0)
    out = torch.full((B, max_length), eos, dtype=torch.long, device=source.device)
    running = torch.ones(B, dtype=torch.bool, device=source.device)
    token = torch.full((B, 1), bos, dtype=torch.long, device=source.device)
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    steps = 0
    while steps < max_length and running.any():
        logits, _, cache = model.step(token, memory, cache)
        token = logits.max(dim=-1).indices
        out[running, steps] = token[running, 0]
        running = running & (token[:, 0] != eos)
        steps += 1
    return out[:, :steps]


@right("plain Python lists, one per sentence")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    written = [[] for _ in range(source.size(0))]
    last = [bos] * len(written)
    for _ in range(max_length):
        token = torch.tensor(last, dtype=torch.long, device=source.device)[:, None]
        logits, _, cache = model.step(token, memory, cache)
        best = logits[:, -1].argmax(-1).tolist()
        last = [
            eos if row and row[-1] == eos else new for row, new in zip(written, best)
        ]
        for row, new in zip(written, last):
            row.append(new)
        if all(new == eos for new in last):
            break
    return torch.tensor(written, dtype=torch.long, device=source.device)


@right("keeps the raw predictions and covers them with EOS at the end")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full(source.shape[:1] + (1,), bos, device=source.device)
    raw = token[:, :0]
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1)
        raw = torch.cat([raw, token], dim=1)
        if (raw == eos).any(dim=1).all():
            break
    earlier = (raw == eos).cumsum(dim=1) - (raw == eos).long()
    return torch.where(earlier > 0, eos, raw)


@right("topk, where, and a count of the sentences that still run")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory, tokens = model.encode(source, lengths), []
    cache = model.start(memory)
    first = torch.tensor([[bos]], dtype=torch.long, device=source.device)
    token = first.repeat(source.size(0), 1)
    ended = torch.zeros_like(token, dtype=torch.bool)
    while len(tokens) < max_length and int(ended.sum()) < ended.numel():
        logits, _, cache = model.step(token, memory, cache)
        _, token = logits[:, 0].topk(1, dim=-1)
        token = torch.where(ended, torch.full_like(token, eos), token)
        ended = ended.logical_or(token.eq(eos))
        tokens.append(token)
    return torch.hstack(tokens)


@wrong(
    "the first input ends the sentences where BOS is EOS",
    breaks="Some models use the same token for BOS and EOS, so the first input must not end a sentence.",
    name="BOS taken for EOS",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    tokens = []
    for _ in range(max_length):
        ended = token == eos
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        if (token == eos).all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "stops as soon as one sentence has ended; right for B = 1",
    breaks=STOP,
    name="any instead of all",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.any():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "stops only where all sentences predict EOS in the same step",
    breaks=STOP,
    name="goes on after all sentences have ended",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1)
        tokens.append(token.masked_fill(ended, eos))
        ended = ended | (token == eos)
        if (token == eos).all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "gives the first cache to every step",
    breaks="It returns logits (B, 1, V), weights, which you do not need, and the cache for the next step.",
    name="cache not passed on",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, _ = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "reads the source again at every step",
    breaks="Call `model.encode(source, lengths)` once: it reads the source and returns a memory.",
    name="source encoded at every step",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    cache = model.start(model.encode(source, lengths))
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        memory = model.encode(source, lengths)
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "counts BOS as a step",
    breaks="max_length: the largest number of steps, at least 1.",
    name="one step too few",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    tokens = [torch.full((source.size(0), 1), bos, device=source.device)]
    ended = torch.zeros_like(tokens[0], dtype=torch.bool)
    while len(tokens) < max_length and not ended.all():
        logits, _, cache = model.step(tokens[-1], memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
    return torch.cat(tokens, dim=1)[:, 1:]


@wrong(
    "fills with 0 after the end",
    breaks="All later tokens of this sentence must be EOS, whatever the model predicts.",
    name="padding after EOS",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, 0)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "stops at three times the length of the longest source",
    breaks=STOP,
    name="a limit of its own",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(min(max_length, 3 * int(lengths.max()))):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "removes all axes of length one, so a batch of one sentence fails",
    breaks="Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    name="squeeze without an axis",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.squeeze().argmax(-1)[:, None].masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "calls eval, which the model need not have",
    breaks="model: has `encode`, `start` and `step`, and need not have anything else.",
    name="expects more of the model",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    model.eval()
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)
