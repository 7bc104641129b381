import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD

from blind import right, wrong

FIRST = "Use BOS as the first input, but leave it out of the output."
SAME = "Some models use the same token for BOS and EOS, so the first input must not end a sentence."
LATER = "All later tokens of this sentence must be EOS, whatever the model predicts."
STOP = "Stop when all sentences have ended, or after `max_length` steps."
LAST = "At every step, `model.step(token, memory, cache)` takes the last token (B, 1), and only this token."
BEST = "Greedy decoding takes the most probable token at every step."
LONG = "Token ids (B, T), of dtype long, T <= `max_length`; after its first EOS, a sentence holds only EOS."
LENGTHS = "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode."
HAS = "model: has `encode`, `start` and `step`."


# wrong, plain


@wrong(
    "the output begins with BOS",
    FIRST,
    "BOS in the output",
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
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "keeps what the model predicts after the end of a sentence",
    LATER,
    "tokens after the end not replaced",
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
    "stops as soon as one sentence has ended",
    STOP,
    "stops at the first sentence that ends",
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
        if ended.any():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "hands all tokens so far to every step, together with the cache",
    LAST,
    "the whole prefix in every step",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    prefix = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(prefix, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(prefix, memory, cache)
        token = logits[:, -1:].argmax(dim=-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        prefix = torch.cat([prefix, token], dim=1)
        if ended.all():
            break
    return prefix[:, 1:]


# wrong, subtle


@wrong(
    "looks for the end in the first input, too: if BOS is EOS, all sentences have ended",
    SAME,
    "BOS ends the sentence where it is EOS",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    tokens, ended = [], token == eos
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = torch.where(ended, eos, logits.argmax(dim=-1))
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "writes into a tensor of the source's dtype, which is float for images",
    LONG,
    "ids of the source's dtype",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    size = source.size(0)
    token = torch.full((size, 1), bos, device=source.device)
    out = source.new_full((size, max_length), eos)
    ended = torch.zeros(size, 1, dtype=torch.bool, device=source.device)
    for t in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        out[:, t] = token[:, 0]
        ended |= token == eos
        if ended.all():
            break
    return out[:, : t + 1]


@wrong(
    "knows only whether the model's last prediction was EOS: a sentence can go on again",
    LATER,
    "forgets which sentences have ended",
    subtle=True,
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
        ended = predicted == eos
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "stops when there are as many EOS as sentences, also if one sentence has several",
    STOP,
    "counts the EOS, not the sentences",
    subtle=True,
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
        ends = sum(int((one == eos).sum()) for one in tokens)
        if ends >= source.size(0):
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "squeezes the logits, so that a batch of one sentence loses its axis",
    LENGTHS,
    "fails for a single sentence",
    subtle=True,
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
        best = logits.squeeze().argmax(dim=1)  # (B,)
        best = best.masked_fill(ended, eos)
        ended = ended | (best == eos)
        token = best[:, None]
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "never takes PAD or BOS, even where it is the most probable token",
    BEST,
    "special tokens forbidden",
    subtle=True,
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
        logits = logits.clone()
        for special in {PAD, bos} - {eos}:
            logits[..., special] = float("-inf")
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


# right


@right("writes into a table full of EOS, and cuts it at the end")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    size, device = source.size(0), source.device
    out = torch.full((size, max_length), eos, dtype=torch.long, device=device)
    token = torch.full((size, 1), bos, dtype=torch.long, device=device)
    going = torch.ones(size, dtype=torch.bool, device=device)
    steps = 0
    while steps < max_length and going.any():
        logits, _, cache = model.step(token, memory, cache)
        best = logits[:, 0].double().argmax(dim=1)
        out[going, steps] = best[going]
        token = out[:, steps : steps + 1].clone()
        going = going & (best != eos)
        steps += 1
    return out[:, :steps]


@right("a generator yields the tokens, and all that is written tells who has ended")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    def write():
        memory = model.encode(source, lengths)
        cache = model.start(memory)
        token = torch.full((source.size(0), 1), bos, device=source.device)
        written = token[:, :0]
        for _ in range(max_length):
            logits, _, cache = model.step(token, memory, cache)
            over = written.eq(eos).any(dim=1, keepdim=True)
            token = torch.where(over, eos, logits.argmax(dim=2))
            written = torch.cat([written, token], dim=1)
            yield token
            if written.eq(eos).any(dim=1).all():
                return

    with torch.no_grad():
        return torch.cat(list(write()), dim=1)


@right("lists of Python numbers, a set of the sentences that go on")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    last = [bos] * source.shape[0]
    going, rows = set(range(len(last))), [[] for _ in last]
    for _ in range(max_length):
        token = torch.tensor(last, dtype=torch.long, device=source.device).view(-1, 1)
        logits, _, cache = model.step(token, memory, cache)
        best = logits.argmax(-1).flatten().tolist()
        last = [best[b] if b in going else eos for b in range(len(last))]
        for row, one in zip(rows, last):
            row.append(one)
        going -= {b for b, one in enumerate(last) if one == eos}
        if not going:
            break
    return torch.tensor(rows, dtype=torch.long, device=source.device)


@right("blends EOS and the prediction with integers in place of a mask")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, tokens = model.start(memory), []
    token = torch.zeros(len(source), 1, dtype=torch.long, device=source.device) + bos
    alive = torch.ones_like(token)
    while True:
        logits, _, cache = model.step(token, memory, cache)
        token = alive * logits.argmax(dim=-1) + (1 - alive) * eos
        tokens.append(token)
        alive = alive * token.ne(eos).long()
        if len(tokens) == max_length or int(alive.sum()) == 0:
            return torch.hstack(tokens)
