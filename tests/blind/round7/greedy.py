import torch
from torch import nn
from blind import right, wrong


@right('a result full of EOS, into which the steps write')
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    batch = source.size(0)
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    out = torch.full((batch, max_length), eos, device=source.device)
    running = torch.ones(batch, dtype=torch.bool, device=source.device)
    token = torch.full((batch, 1), bos, device=source.device)
    for t in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits[:, -1].argmax(dim=-1, keepdim=True)
        out[running, t] = token[running, 0]
        running = running & (out[:, t] != eos)
        if not running.any():
            return out[:, : t + 1]
    return out


@right('Python lists for the sentences, padded with EOS at the end')
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, device = model.start(memory), source.device
    said = [[] for _ in range(source.shape[0])]
    last = [bos] * len(said)
    while True:
        token = torch.tensor(last, dtype=torch.long, device=device).unsqueeze(1)
        logits, _, cache = model.step(token, memory, cache)
        last = logits[:, 0].argmax(dim=-1).tolist()
        for row, (sentence, likeliest) in enumerate(zip(said, last)):
            if sentence and sentence[-1] == eos:
                last[row] = eos
            sentence.append(last[row])
        length = len(said[0])
        if length == max_length or all(token == eos for token in last):
            return torch.tensor(said, dtype=torch.long, device=device)


@right('recursion over the steps, with torch.where')
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)

    def go_on(token, ended, cache, left):
        if left == 0 or bool(ended.all()):
            return []
        logits, _, cache = model.step(token, memory, cache)
        token = logits.max(dim=-1).indices
        token = torch.where(ended, torch.full_like(token, eos), token)
        return [token] + go_on(token, ended | (token == eos), cache, left - 1)

    first = torch.full((len(source), 1), bos, dtype=torch.long, device=source.device)
    nobody = torch.zeros_like(first, dtype=torch.bool)
    return torch.cat(go_on(first, nobody, model.start(memory), max_length), dim=1)


def _columns(model, source, lengths, bos, eos):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.empty(source.shape[0], 1, dtype=torch.long, device=source.device)
    token.fill_(bos)
    alive = torch.ones_like(token)
    while alive.any():
        logits, _, cache = model.step(token, memory, cache)
        token = logits[:, -1].topk(1, dim=-1).indices
        token = token * alive + eos * (1 - alive)
        alive = alive * (token != eos).long()
        yield token


@right('a generator of steps, the loop collects; topk instead of argmax')
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    columns = []
    for column in _columns(model, source, lengths, bos, eos):
        columns.append(column)
        if len(columns) == max_length:
            break
    return torch.cat(columns, dim=1)


@wrong(
    'BOS is the first token of the output, which gets one token too long',
    'The first token that goes in is BOS, which is not part of the output.',
    'BOS left in the output',
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = [token]
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    'after EOS comes whatever the model predicts, as long as other sentences go on',
    'A sentence that has produced EOS has ended: from there on its tokens are EOS, whatever the model predicts, until the others have ended, too.',
    'tokens after EOS are not replaced',
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
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "stops only in a step in which all sentences have EOS at once by the model's own prediction, whatever they said before: usually too late",
    'When all have ended, or after `max_length` steps, decoding stops.',
    'ends only if all say EOS together',
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
        likeliest = logits.argmax(dim=-1)
        token = likeliest.masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if (likeliest == eos).all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    'a sentence has ended if the token that went in is EOS: with one id for BOS and EOS all sentences end before the first step, and torch.cat gets nothing',
    'Some models have one token for BOS and EOS.',
    'fails if BOS and EOS are the same',
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    tokens = []
    for _ in range(max_length):
        ended = token == eos
        if ended.all():
            break
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
    return torch.cat(tokens, dim=1)


@wrong(
    "unpacks the source's shape into two sizes: a source of vectors (B, S, D) raises an error",
    'source: what `encode` reads; axis 0 is B.',
    'takes the source to have two axes',
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
    'the first token has the dtype of the source: for a source of numbers with a fraction the model gets BOS as a float',
    '`model.step(token, memory, cache)` takes the last token (B, 1) and returns logits (B, 1, V), weights (not needed here) and the next cache.',
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
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    'squeeze without an axis: with a single sentence the tokens lose their first axis and the model gets a vector',
    '`model.step(token, memory, cache)` takes the last token (B, 1) and returns logits (B, 1, V), weights (not needed here) and the next cache.',
    'squeeze breaks a single sentence',
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros(source.size(0), dtype=torch.bool, device=source.device)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        said = logits.squeeze().argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(said)
        ended = ended | (said == eos)
        if ended.all():
            break
        token = said.reshape(ended.shape + (1,))
    return torch.stack(tokens).squeeze(1).T


@wrong(
    'the model is put into evaluation mode and stays in it',
    'What comes in stays as it is, and what goes out has its dtype and its device.',
    "changes the model's mode",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    if hasattr(model, "eval"):
        model.eval()
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
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
    'always makes max_length steps and cuts the rest away: the right tokens, but the model is asked after all sentences have ended, even if it cannot answer so long',
    'When all have ended, or after `max_length` steps, decoding stops.',
    'does not stop, only cuts the result',
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens, needed = [], 0
    for _ in range(max_length):
        needed += int(not ended.all())
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
    return torch.cat(tokens[:needed], dim=1)


@wrong(
    'stops before the last column of EOS is kept: the sentence that ends last has no EOS, and if all end at once with the first token there is nothing',
    'A sentence that has produced EOS has ended: from there on its tokens are EOS, whatever the model predicts, until the others have ended, too.',
    'last EOS is missing from the output',
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
        if ended.all():
            break
        tokens.append(token)
    return torch.cat(tokens, dim=1) if tokens else token[:, :0]
