import itertools

import torch

from blind import right, wrong

ONCE = "Call `model.encode(source, lengths)` once: it reads the source and returns a memory."
LAST = "takes the last token (B, 1), and only this token."
CACHE = "It returns logits (B, 1, V), weights, which you do not need, and the cache for the next step."
MOST = "Greedy decoding takes the most probable token at every step."
OUT = "Use BOS as the first input, but leave it out of the output."
SAME = "Some models use the same token for BOS and EOS, so the first input must not end a sentence."
AFTER = "All later tokens of this sentence must be EOS, whatever the model predicts."
STOP = "Stop when all sentences have ended, or after `max_length` steps."
HAS = "model: has `encode`, `start` and `step`, and need not have anything else."
NOTOKEN = "eos: id of the token that ends a target; it may be an id that no token has."
LONG = "Token ids (B, T), of dtype long, T <= `max_length`; after its first EOS, a"
NUMBERS = "for all lengths and all numbers of sentences from 1 up, for large and for small numbers"


@right("fills a table of EOS column by column and cuts off what was not written")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    b = source.size(0)
    out = torch.full((b, max_length), eos, dtype=torch.long, device=source.device)
    token = torch.full((b, 1), bos, dtype=torch.long, device=source.device)
    alive = torch.ones(b, dtype=torch.bool, device=source.device)
    for t in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        best = logits[:, 0].argmax(-1)
        out[alive, t] = best[alive]
        token = out[:, t : t + 1].clone()
        alive = alive & (token[:, 0] != eos)
        if not alive.any():
            break
    return out[:, : t + 1]


@right("plain Python lists, one per sentence")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    rows = [[] for _ in range(source.shape[0])]
    last = [bos] * len(rows)
    while len(rows[0]) < max_length and not all(eos in row for row in rows):
        token = torch.tensor(last, device=source.device)[:, None]
        logits, _, cache = model.step(token, memory, cache)
        best = logits.squeeze(1).argmax(dim=-1).tolist()
        last = [eos if eos in row else new for row, new in zip(rows, best)]
        for row, new in zip(rows, last):
            row.append(new)
    return torch.tensor(rows, dtype=torch.long, device=source.device)


@right("a generator of tokens that islice cuts off")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    def tokens():
        memory = model.encode(source, lengths)
        cache = model.start(memory)
        token = torch.full((source.size(0), 1), bos, device=source.device)
        ended = torch.zeros_like(token, dtype=torch.bool)
        while not ended.all():
            logits, _, cache = model.step(token, memory, cache)
            token = torch.where(ended, eos, logits.argmax(-1))
            yield token
            ended = ended | (token == eos)

    return torch.cat(list(itertools.islice(tokens(), max_length)), dim=1)


@right("arithmetic with a factor that is 1 while a sentence goes on and 0 afterwards")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, token = model.start(memory), None
    going = torch.ones((source.size(0), 1), dtype=torch.long, device=source.device)
    written = []
    while len(written) < max_length and (not written or int(going.sum())):
        token = going * bos if token is None else token
        logits, _, cache = model.step(token, memory, cache)
        token = going * logits.argmax(-1) + (1 - going) * eos
        going = going * (token - eos).abs().clamp(max=1)
        written.append(token)
    return torch.hstack(written)


def write(model, memory, token, eos, max_length, choose=None, ended=None):
    """The usual loop, with a function that chooses the tokens."""
    cache = model.start(memory)
    choose = choose or (lambda logits, ended: logits.argmax(-1))
    ended = torch.zeros_like(token, dtype=torch.bool) if ended is None else ended
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = choose(logits, ended).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


def first(source, bos):
    return torch.full((source.size(0), 1), bos, device=source.device)


@wrong("begins the output with BOS", breaks=OUT, name="BOS in the output")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    token = first(source, bos)
    rest = write(model, model.encode(source, lengths), token, eos, max_length)
    return torch.cat([token, rest], dim=1)[:, :max_length]


@wrong("always takes max_length steps", breaks=STOP, name="does not stop when all sentences have ended")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, token = model.start(memory), first(source, bos)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        ended |= token == eos
        tokens.append(token)
    return torch.cat(tokens, dim=1)


@wrong("goes on writing what the model predicts after EOS", breaks=AFTER, name="tokens after EOS")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, token = model.start(memory), first(source, bos)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1)
        ended |= token == eos
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong("gives the model all tokens so far and uses its last logits", breaks=LAST, name="whole prefix at every step")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, tokens = model.start(memory), first(source, bos)
    ended = torch.zeros_like(tokens, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(tokens, memory, cache)
        token = logits[:, -1:].argmax(-1).masked_fill(ended, eos)
        tokens = torch.cat([tokens, token], dim=1)
        ended |= token == eos
        if ended.all():
            break
    return tokens[:, 1:]


@wrong("a sentence has ended if its last token is EOS, which is also asked for the first input: for BOS = EOS, "
       "everything is EOS", breaks=SAME, name="BOS ends a sentence")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    token = first(source, bos)
    memory = model.encode(source, lengths)
    return write(model, memory, token, eos, max_length, ended=token == eos)


@wrong("calls model.eval() first, which a model need not have", breaks=HAS, name="model.eval() called")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    model.eval()
    return write(model, model.encode(source, lengths), first(source, bos), eos, max_length)


@wrong("makes the output with source.new_full: float ids for a source of vectors, int32 ids for an int32 source",
       breaks=LONG, name="ids with the dtype of the source")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    out = source.new_full((source.size(0), max_length), eos)
    ids = write(model, model.encode(source, lengths), first(source, bos), eos, max_length)
    out[:, : ids.size(1)] = ids
    return out[:, : ids.size(1)]


@wrong("makes EOS the best token of an ended sentence by writing into logits[..., eos]: fails if no token has "
       "the id eos", breaks=NOTOKEN, name="logits indexed with eos")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    def choose(logits, ended):
        logits = logits.clone()
        logits[..., eos] = torch.where(ended, torch.inf, logits[..., eos])
        return logits.argmax(-1)

    return write(model, model.encode(source, lengths), first(source, bos), eos, max_length, choose)


@wrong("never writes BOS, because it sets its logit to -inf: wrong for BOS = EOS, or when BOS is the most probable "
       "token", breaks=MOST, name="BOS excluded from the choice")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    def choose(logits, ended):
        logits = logits.clone()
        logits[..., bos] = -torch.inf
        return logits.argmax(-1)

    return write(model, model.encode(source, lengths), first(source, bos), eos, max_length, choose)


@wrong("squeezes all axes of length one out of the logits: fails for a single sentence", breaks=NUMBERS,
       name="squeeze removes the batch axis")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    def choose(logits, ended):
        return logits.squeeze().argmax(-1)[:, None]

    return write(model, model.encode(source, lengths), first(source, bos), eos, max_length, choose)
