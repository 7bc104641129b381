import itertools
import math

import torch

from blind import right, wrong

CHANGE = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
ALL = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRAD = "Gradients must be right, too."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
ONCE = "Call `model.encode(source, lengths)` once: it reads the source and returns a memory."
ONLY = (
    "At every step, `model.step(token, memory, cache)` takes the last token (B, 1), and"
    " only this token."
)
BEST = "Greedy decoding takes the most probable token at every step."
BOS_OUT = "Use BOS as the first input, but leave it out of the output."
SAME = (
    "Some models use the same token for BOS and EOS, so the first input must not end a"
    " sentence."
)
LATER = "All later tokens of this sentence must be EOS, whatever the model predicts."
STOP = "Stop when all sentences have ended, or after `max_length` steps."
MODEL = "model: has `encode`, `start` and `step`, and need not have anything else."
READS = "source: what `encode` reads; its first axis is B."
LONG = "Token ids (B, T), of dtype long, T <= `max_length`; after its first EOS, a"



@right("Python lists: one list per sentence, padded with EOS at the end")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    written = [[] for _ in range(len(source))]
    last = [bos] * len(source)
    for _ in range(max_length):
        token = torch.tensor(last, dtype=torch.long, device=source.device)[:, None]
        logits, _, cache = model.step(token, memory, cache)
        choices = logits[:, 0].argmax(dim=-1).tolist()
        for b, (sentence, choice) in enumerate(zip(written, choices)):
            over = bool(sentence) and sentence[-1] == eos
            last[b] = eos if over else choice
            sentence.append(last[b])
        if all(token == eos for token in last):
            break
    return torch.tensor(written, dtype=torch.long, device=source.device)


@right("a generator makes the tokens; counts how many sentences are still open")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    def columns():
        memory = model.encode(source, lengths)
        cache = model.start(memory)
        last = torch.full((len(source), 1), bos, dtype=torch.long, device=source.device)
        still_open = torch.ones_like(last)
        while still_open.sum() > 0:
            logits, _, cache = model.step(last, memory, cache)
            best = torch.max(logits, dim=-1).indices
            last = best * still_open + eos * (1 - still_open)
            still_open = still_open * (last != eos)
            yield last

    return torch.cat(list(itertools.islice(columns(), max_length)), dim=1)


@right("collects raw predictions, and overwrites what follows the first EOS at the end")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.shape[0], 1), int(bos), device=source.device)
    raw = torch.empty(source.shape[0], 0, dtype=torch.long, device=source.device)
    ends = torch.zeros(source.shape[0], dtype=torch.bool, device=source.device)
    while raw.size(1) < max_length and not ends.all():
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=2)
        raw = torch.cat([raw, token], dim=1)
        ends = (raw == eos).any(dim=1)
        token = torch.where(ends[:, None], eos, token)
    after = (raw == eos).long().cumsum(dim=1) > 0
    return raw.masked_fill(after, eos)


@right("grows a table of EOS and writes into the rows that are still open")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    device = source.device
    rows = torch.arange(source.size(0), device=device)
    table = torch.full((source.size(0), 1), bos, dtype=torch.long, device=device)
    for _ in range(max_length):
        logits, _, cache = model.step(table[:, -1:].clone(), memory, cache)
        column = torch.full((source.size(0), 1), eos, dtype=torch.long, device=device)
        column[rows] = logits[rows, -1].argmax(dim=-1, keepdim=True)
        table = torch.cat([table, column], dim=1)
        rows = rows[column[rows, 0] != eos]
        if rows.numel() == 0:
            break
    return table[:, 1:]


@wrong("leaves BOS in the output", BOS_OUT, "output begins with BOS")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    tokens.append(token)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "keeps what the model predicts after a sentence has ended",
    LATER,
    "goes on after EOS",
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
        token = logits.argmax(dim=-1)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "gives the model all tokens so far instead of the last one",
    ONLY,
    "whole prefix given to step",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    tokens.append(token)
    for _ in range(max_length):
        logits, _, cache = model.step(torch.cat(tokens, dim=1), memory, cache)
        token = logits[:, -1:].argmax(dim=-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens[1:], dim=1)


@wrong(
    "always makes max_length steps, even if all sentences have ended",
    STOP,
    "does not stop early",
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
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
    return torch.cat(tokens, dim=1)


@wrong(
    "looks for EOS in the input token before each step, so that BOS ends all sentences"
    " if it is the same token",
    SAME,
    "BOS ends a sentence",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        ended = ended | (token == eos)
        if tokens and ended.all():
            break
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
    return torch.cat(tokens, dim=1)


@wrong(
    "writes each new token into the same tensor, so a model that keeps its tokens, as"
    " a model without a cache does, sees its past change",
    ONLY,
    "input token overwritten in place",
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
        token.copy_(logits.argmax(dim=-1).masked_fill(ended, eos))
        ended |= token == eos
        tokens.append(token.clone())
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "makes the first token with the dtype of the source, which need not be long",
    READS,
    "first token has the source's dtype",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = source.new_full((source.size(0), 1), bos)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "puts the model into eval mode, which fails for a model that has only the three"
    " methods",
    MODEL,
    "needs more than three methods",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    earlier = model.training
    model.eval()
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    model.train(earlier)
    return torch.cat(tokens, dim=1)


@wrong(
    "stops only if the model predicts EOS for all sentences in the same step; the"
    " sentences that ended before are filled with EOS, but nobody remembers them",
    STOP,
    "sentences must end together",
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
        predicted = logits.argmax(dim=-1)
        token = predicted.masked_fill(ended, eos)
        ended = ended | (predicted == eos)
        tokens.append(token)
        if (predicted == eos).all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "forces EOS by writing into the model's logits, which the model may use again, for"
    " instance in the next call",
    STATE,
    "writes into the model's logits",
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
        if ended.any():
            over = ended[:, 0]
            logits[over] = -math.inf
            logits[over, :, eos] = 0.0
        token = logits.argmax(dim=-1)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)
