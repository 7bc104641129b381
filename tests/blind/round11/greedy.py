import numpy as np
import torch

from blind import right, wrong


@right("plain Python lists and a set of ended sentences")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    last = [bos] * len(source)
    rows = [[] for _ in last]
    ended = set()
    while len(ended) < len(rows) and len(rows[0]) < max_length:
        token = torch.tensor(last, dtype=torch.long, device=source.device)
        logits, _, cache = model.step(token.unsqueeze(1), memory, cache)
        last = logits.argmax(dim=-1).flatten().tolist()
        for number, row in enumerate(rows):
            if number in ended:
                last[number] = eos
            elif last[number] == eos:
                ended.add(number)
            row.append(last[number])
    return torch.tensor(rows, dtype=torch.long, device=source.device)


def _columns(model, source, lengths, bos, eos):
    """Yield one column of tokens after another, until all sentences have ended."""
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, dtype=torch.long, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    while not ended.all():
        logits, _, cache = model.step(token, memory, cache)
        token = torch.where(ended, eos, logits.max(dim=-1).indices)
        ended = ended | token.eq(eos)
        yield token


@right("a generator that writes forever, cut off by zip with a range")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    columns = _columns(model, source, lengths, bos, eos)
    return torch.hstack([column for _, column in zip(range(max_length), columns)])


@right("arithmetic with ones and zeros instead of a mask; topk; grows one tensor")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    count = source.shape[0]
    memory = model.encode(source, lengths)
    token = torch.zeros(count, 1, dtype=torch.long, device=source.device) + bos
    alive = torch.ones(count, 1, dtype=torch.long, device=source.device)
    written = torch.empty(count, 0, dtype=torch.long, device=source.device)
    cache = model.start(memory)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        best = logits[:, -1].topk(1, dim=-1).indices
        token = alive * best + (1 - alive) * eos
        written = torch.cat((written, token), dim=1)
        alive = alive * (token != eos)
        if alive.sum() == 0:
            break
    return written


@right("numpy on the outside, torch only for the model")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    columns = [np.full((source.shape[0], 1), bos, dtype=np.int64)]
    open_ = np.full((source.shape[0], 1), True)
    while len(columns) <= max_length and open_.any():
        token = torch.tensor(columns[-1], device=source.device)
        logits, _, cache = model.step(token, memory, cache)
        best = logits.double().cpu().numpy().argmax(axis=-1)
        columns.append(np.where(open_, best, eos))
        open_ = open_ & (columns[-1] != eos)
    written = np.concatenate(columns[1:], axis=1)
    return torch.tensor(written, dtype=torch.long, device=source.device)


@wrong(
    "leaves BOS in the output",
    "Use BOS as the first input, but leave it out of the output.",
    "BOS in the output",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    tokens = [torch.full((source.shape[0], 1), bos, device=source.device)]
    ended = torch.zeros_like(tokens[0], dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(tokens[-1], memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "lets a sentence go on after its EOS until all others have ended",
    "All later tokens of this sentence must be EOS, whatever the model predicts.",
    "tokens after EOS",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.shape[0], 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "gives every step the cache of the first one",
    "It returns logits (B, 1, V), weights, which you do not need, and the cache for the next step.",
    "cache not passed on",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.shape[0], 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, *_ = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "looks for EOS in all tokens so far, the first input included",
    "Some models use the same token for BOS and EOS, so the first input must not end a sentence.",
    "the first input ends a sentence",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    tokens = torch.full((source.shape[0], 1), bos, device=source.device)
    for _ in range(max_length):
        logits, _, cache = model.step(tokens[:, -1:], memory, cache)
        ended = (tokens == eos).any(dim=1, keepdim=True)
        token = torch.where(ended, eos, logits.argmax(-1))
        tokens = torch.cat([tokens, token], dim=1)
        if (tokens == eos).any(dim=1).all():
            break
    return tokens[:, 1:]


@wrong(
    "expects a source with exactly two axes",
    "source: what `encode` reads; its first axis is B.",
    "source must have two axes",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    count, _ = source.shape
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((count, 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "squeezes the logits, which for a single sentence also drops the batch's axis",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "fails for a single sentence",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.shape[0], 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        best = logits.squeeze().argmax(dim=1)
        token = best[:, None].masked_fill(ended, eos)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "makes its tokens with source.new_full, so they have the dtype of the source",
    "Token ids (B, T), of dtype long, T <= `max_length`; after its first EOS, a sentence holds only EOS.",
    "tokens in the dtype of the source",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    tokens = source.new_full((source.shape[0], max_length + 1), eos)
    tokens[:, 0] = bos
    ended = torch.zeros(source.shape[0], dtype=torch.bool, device=source.device)
    for t in range(max_length):
        logits, _, cache = model.step(tokens[:, t : t + 1].long(), memory, cache)
        best = logits[:, 0].argmax(-1).masked_fill(ended, eos)
        tokens[:, t + 1] = best
        ended |= best == eos
        if ended.all():
            break
    return tokens[:, 1 : t + 2]


@wrong(
    "calls model.eval(), which a model need not have (FromTheStart does not), and which changes the mode of one that has it",
    "model: has `encode`, `start` and `step`.",
    "asks the model for more than it has",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    model.eval()
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.shape[0], 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "counts EOS tokens to see whether all sentences have ended, but an ended sentence adds one EOS at every later step",
    "Stop when all sentences have ended, or after `max_length` steps.",
    "stops too early",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.shape[0], 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens, how_many = [], 0
    while len(tokens) < max_length and how_many < source.shape[0]:
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended |= token == eos
        how_many += int((token == eos).sum())
    return torch.cat(tokens, dim=1)


@wrong(
    "never writes BOS, even where it is the most probable token",
    "Greedy decoding takes the most probable token at every step.",
    "BOS can never be written",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.shape[0], 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        if bos != eos:  # BOS only ever stands at the beginning
            logits = logits.clone()
            logits[..., bos] = float("-inf")
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)
