import torch
import torch.nn.functional as F

from attention_course.tasks.core import PAD
from blind import right, wrong


@right("a for loop with a set of the sentences that are still alive")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    alive = set(range(len(source)))
    token = torch.full((len(source), 1), bos, device=source.device)
    said = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = torch.full_like(token, eos)
        for b in sorted(alive):
            token[b, 0] = logits[b, 0].argmax()
            if token[b, 0] == eos:
                alive.discard(b)
        said.append(token)
        if not alive:
            break
    return torch.cat(said, dim=1)


@right("writes into a buffer full of EOS, which grows when it is full")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    size, device = source.shape[0], source.device
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((size, 1), bos, dtype=torch.long, device=device)
    buffer = torch.full((size, 4), eos, dtype=torch.long, device=device)
    alive = torch.ones(size, dtype=torch.bool, device=device)
    step = 0
    while step < max_length and alive.any():
        if step == buffer.shape[1]:
            buffer = F.pad(buffer, (0, step), value=eos)
        logits, _, cache = model.step(token, memory, cache)
        best = logits[:, -1].max(dim=-1).indices
        buffer[alive, step] = best[alive]
        alive &= best != eos
        token = buffer[:, step : step + 1].clone()
        step += 1
    return buffer[:, :step]


@right("keeps the sentences as lists of Python numbers")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    sentences = [[] for _ in range(source.shape[0])]
    last = [bos] * len(sentences)
    ended = [False] * len(sentences)
    while not all(ended) and len(sentences[0]) < max_length:
        token = torch.tensor(last, dtype=torch.long, device=source.device)[:, None]
        logits, _, cache = model.step(token, memory, cache)
        choices = logits.squeeze(1).argmax(dim=-1).tolist()
        last = [eos if done else best for done, best in zip(ended, choices)]
        for sentence, id_ in zip(sentences, last):
            sentence.append(id_)
        ended = [done or id_ == eos for done, id_ in zip(ended, last)]
    return torch.tensor(sentences, dtype=torch.long, device=source.device)


@right("a generator of columns, and a sort instead of argmax")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    def columns():
        memory = model.encode(source, lengths)
        cache = model.start(memory)
        token = torch.zeros(len(source), 1, dtype=torch.long, device=source.device)
        token += bos
        ended = torch.zeros_like(token, dtype=torch.bool)
        steps = 0
        while steps < max_length and not bool(ended.all()):
            logits, _, cache = model.step(token, memory, cache)
            ranked = logits[:, 0].sort(dim=-1, descending=True, stable=True).indices
            token = torch.where(ended, torch.full_like(token, eos), ranked[:, :1])
            ended = ended.logical_or(token.eq(eos))
            steps += 1
            yield token

    return torch.hstack(list(columns()))


@wrong(
    "always makes max_length steps, and puts EOS after the first EOS at the end",
    breaks="Stop when all sentences have ended, or after `max_length` steps.",
    name="does not stop early",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.shape[0], 1), bos, device=source.device)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1)
        tokens.append(token)
    tokens = torch.cat(tokens, dim=1)
    ends = (tokens == eos).long()
    return tokens.masked_fill(ends.cumsum(dim=1) > ends, eos)


@wrong(
    "stops as soon as one of the sentences has ended",
    breaks="Stop when all sentences have ended, or after `max_length` steps.",
    name="any sentence instead of all",
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
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.any():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "counts BOS as one of the max_length tokens",
    breaks="max_length: the largest number of steps, at least 1.",
    name="one step too few",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    tokens = torch.full((source.shape[0], 1), bos, device=source.device)
    ended = torch.zeros_like(tokens, dtype=torch.bool)
    while tokens.shape[1] < max_length and not ended.all():
        logits, _, cache = model.step(tokens[:, -1:], memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens = torch.cat([tokens, token], dim=1)
    return tokens[:, 1:]


@wrong(
    "gives the first cache to every step",
    breaks="It returns logits (B, 1, V), weights, which you do not need, and the cache for"
    " the next step.",
    name="the new cache is thrown away",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.shape[0], 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, _ = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "fills up with PAD after a sentence's EOS",
    breaks="All later tokens of this sentence must be EOS, whatever the model predicts.",
    name="padding after the end",
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
        token = logits.argmax(dim=-1).masked_fill(ended, PAD)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "looks for EOS in the inputs of the steps, the first of which is BOS",
    breaks="Some models use the same token for BOS and EOS, so the first input must not"
    " end a sentence.",
    name="BOS ends the sentence where it is the same token as EOS",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.shape[0], 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        ended = ended | (token == eos)
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        if (ended | (token == eos)).all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "squeezes the logits, and loses the axis of the batch if there is one sentence",
    breaks="Your code must work for all lengths and all numbers of sentences from 1 up,"
    " for large and for small numbers, in train mode and in eval mode.",
    name="fails for a single sentence",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.shape[0], 1), bos, device=source.device)
    ended = torch.zeros(source.shape[0], dtype=torch.bool, device=source.device)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        best = logits.squeeze().argmax(dim=1).masked_fill(ended, eos)
        ended = ended | (best == eos)
        tokens.append(best)
        token = best.unsqueeze(1)
        if ended.all():
            break
    return torch.stack(tokens, dim=1)


@wrong(
    "computes the probabilities with exp, which overflows for large logits",
    breaks="An exponential, however, may overflow.",
    name="the softmax overflows",
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
        shares = logits.exp() / logits.exp().sum(dim=-1, keepdim=True)
        token = shares.argmax(dim=-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "makes EOS the best token of an ended sentence by its logit, which may not exist",
    breaks="eos: id of the token that ends a target; it may be an id that no token has.",
    name="EOS as an index",
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
        logits = logits.clone()
        logits[:, :, eos] = logits[:, :, eos].masked_fill(ended, float("inf"))
        token = logits.argmax(dim=-1)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "makes the first token with the dtype of the source, which need not hold token ids",
    breaks="source: what `encode` reads; its first axis is B.",
    name="takes the source for token ids",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = source.new_full((source.shape[0], 1), bos)
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
