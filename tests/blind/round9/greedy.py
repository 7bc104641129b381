import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong


@right("ended sentences in a Python list, token ids collected as lists of numbers")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    said = [[] for _ in range(len(source))]
    over = [False] * len(said)
    last = [bos] * len(said)
    for _ in range(max_length):
        token = torch.tensor(last, dtype=torch.long, device=source.device)[:, None]
        logits, _, cache = model.step(token, memory, cache)
        best = logits[:, -1].argmax(dim=-1).tolist()
        last = [eos if done else new for done, new in zip(over, best)]
        over = [done or new == eos for done, new in zip(over, last)]
        for row, new in zip(said, last):
            row.append(new)
        if all(over):
            break
    return torch.tensor(said, dtype=torch.long, device=source.device)


@right("takes the raw predictions, and fills with EOS when all steps are done")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, dtype=torch.long, device=source.device)
    raw = token[:, :0]
    while raw.size(1) < max_length and not (raw == eos).any(dim=1).all():
        logits, _, cache = model.step(token, memory, cache)
        token = logits.max(dim=-1).indices
        raw = torch.cat([raw, token], dim=1)
    hits = (raw == eos).long()
    after_eos = (hits.cumsum(dim=1) - hits) > 0
    return raw.masked_fill(after_eos, eos)


@right("a buffer full of EOS, cut to the number of steps")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    count = source.shape[0]
    out = torch.full((count, max_length), eos, dtype=torch.long, device=source.device)
    alive = torch.ones(count, dtype=torch.bool, device=source.device)
    token = torch.full((count, 1), bos, dtype=torch.long, device=source.device)
    steps = 0
    while steps < max_length and alive.any():
        logits, _, cache = model.step(token, memory, cache)
        new = logits.squeeze(1).topk(1, dim=-1).indices
        out[alive, steps] = new[alive, 0]
        token = out[:, steps : steps + 1].clone()
        alive = alive & (token[:, 0] != eos)
        steps += 1
    return out[:, :steps]


@right("a generator yields the columns, torch.where puts EOS in")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    def columns():
        memory = model.encode(source, lengths)
        cache = model.start(memory)
        token = torch.tensor([[bos]], device=source.device).repeat(len(source), 1)
        end = torch.tensor([[eos]], device=source.device)
        ended = torch.zeros_like(token, dtype=torch.bool)
        for _ in range(max_length):
            logits, _, cache = model.step(token, memory, cache)
            token = torch.where(ended, end, logits.argmax(-1))
            ended = ended.logical_or(token.eq(end))
            yield token
            if ended.all():
                return

    return torch.cat(tuple(columns()), dim=1)


@wrong(
    "lets a sentence go on after its EOS while others have not ended",
    "All later tokens of this sentence must be EOS, whatever the model predicts.",
    "tokens after EOS not replaced",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((len(source), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "counts the first input as an end if bos equals eos: all sentences consist of EOS then",
    "Some models use the same token for BOS and EOS, so the first input must not end a sentence.",
    "BOS ends the sentence when it equals EOS",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((len(source), 1), bos, device=source.device)
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
    "stops as soon as one sentence of the batch has ended, and cuts off the others",
    "Stop when all sentences have ended, or after `max_length` steps.",
    "stops at the first ended sentence",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((len(source), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.any():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "unpacks source.shape as (B, S): a source of vectors (B, S, D) or with one axis raises",
    "source: what `encode` reads; its first axis is B.",
    "assumes a source with exactly two axes",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    batch, _ = source.shape
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((batch, 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "calls model.eval(): raises if the model has only the three methods, and changes the mode of one that has it",
    "model: has `encode`, `start` and `step`.",
    "needs eval(), which the model may not have",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    model.eval()
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((len(source), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "compares exp(logits): logits above 88 are all infinite, logits below -104 all 0, and the first of them wins",
    "Greedy decoding takes the most probable token at every step.",
    "exp overflows for large logits",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((len(source), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        scores = logits.exp()  # no need to divide, the order is the same
        token = scores.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "squeezes all axes of length one: for one sentence the result has the shape (T,)",
    "Token ids (B, T), of dtype long, T <= `max_length`; after its first EOS, a sentence holds only EOS.",
    "batch axis lost for a single sentence",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((len(source), 1), bos, device=source.device)
    ended = torch.zeros(len(source), dtype=torch.bool, device=source.device)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        best = logits.argmax(dim=-1).squeeze()
        best = best.masked_fill(ended.squeeze(), eos)
        tokens.append(best)
        ended = ended | (best == eos)
        token = best.reshape(-1, 1)
        if ended.all():
            break
    return torch.stack(tokens, dim=-1)


@wrong(
    "replaces later tokens by EOS, but asks the raw predictions whether all have ended, so it goes on when sentences end at different steps",
    "Stop when all sentences have ended, or after `max_length` steps.",
    "stops only if all predict EOS together",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((len(source), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        best = logits.argmax(dim=-1)
        token = best.masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if (best == eos).all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "ignores an EOS at the first step, so a sentence whose first prediction is EOS goes on",
    "A sentence ends when the model predicts EOS for it.",
    "EOS at the first step does not count",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((len(source), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for step in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        if step > 0:  # BOS may be the same id as EOS
            ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "writes each new token into the tensor that it gave the model before: a model whose cache keeps this tensor (as FromTheStart does) sees another prefix",
    "Greedy decoding takes the most probable token at every step.",
    "overwrites a tensor that the cache still holds",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((len(source), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token.copy_(logits.argmax(dim=-1).masked_fill_(ended, eos))
        tokens.append(token.clone())
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)
