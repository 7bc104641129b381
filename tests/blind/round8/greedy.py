import torch

from blind import right, wrong


@right("fills a whole rectangle with EOS first and cuts it where decoding stopped")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    B = source.size(0)
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    like = dict(dtype=torch.long, device=source.device)
    written = torch.full((B, max_length), eos, **like)
    token, ended = torch.full((B, 1), bos, **like), torch.zeros(B, **like).bool()
    steps = 0
    while steps < max_length and not bool(ended.all()):
        logits, _, cache = model.step(token, memory, cache)
        best = logits[:, -1].argmax(dim=-1)
        written[:, steps] = torch.where(ended, written[:, steps], best)
        token = written[:, steps : steps + 1].clone()
        ended = ended | (best == eos)
        steps += 1
    return written[:, :steps]


@right("a generator yields one column after the other")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    def columns():
        memory = model.encode(source, lengths)
        cache = model.start(memory)
        token = torch.full((source.size(0), 1), bos, device=source.device)
        going = torch.ones_like(token, dtype=torch.bool)
        for _ in range(max_length):
            logits, _, cache = model.step(token, memory, cache)
            token = logits.argmax(-1).where(going, eos)
            going = going & (token != eos)
            yield token
            if not going.any():
                return

    return torch.cat([*columns()], dim=1)


@right("recursion, one call per step; ended sentences are counted in Python")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)

    def write(token, cache, ended, left):
        logits, _, cache = model.step(token, memory, cache)
        best = logits[:, 0].max(dim=-1).indices.tolist()
        best = [eos if b in ended else id_ for b, id_ in enumerate(best)]
        ended = ended | {b for b, id_ in enumerate(best) if id_ == eos}
        token = torch.tensor(best, device=source.device).view(-1, 1)
        if left == 1 or len(ended) == len(best):
            return [token]
        return [token] + write(token, cache, ended, left - 1)

    first = torch.tensor([[bos]] * source.size(0), device=source.device)
    return torch.cat(write(first, model.start(memory), frozenset(), max_length), 1)


@right("stops when every row so far contains EOS, tested on the tokens themselves")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length, *, start=None):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    begin = torch.full((len(source), 1), bos, device=source.device)
    out = begin[:, :0]
    token = begin
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = torch.topk(logits, 1, dim=-1).indices.squeeze(-1)
        token = token.masked_fill((out == eos).any(1, keepdim=True), eos)
        out = torch.cat((out, token), dim=1)
        if (out == eos).any(dim=1).all():
            break
    return out


@wrong(
    "the output begins with BOS",
    "The first input is BOS, which is not part of the output.",
    "BOS in the output",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    tokens = [torch.full((source.size(0), 1), bos, device=source.device)]
    ended = torch.zeros_like(tokens[0], dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(tokens[-1], memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended |= token == eos
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "an ended sentence goes on with what the model predicts until the others have ended",
    "From there on all its tokens are EOS, whatever the model predicts, until the other sentences have ended, too.",
    "tokens after EOS kept",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended, tokens = torch.zeros_like(token, dtype=torch.bool), []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1)
        ended |= token == eos
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "stops as soon as the first sentence has ended; the others are cut",
    "When all sentences have ended, or after `max_length` steps, decoding stops.",
    "any in place of all",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended, tokens = torch.zeros_like(token, dtype=torch.bool), []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended |= token == eos
        tokens.append(token)
        if ended.any():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "a sentence counts as ended when its last token is EOS, BOS included: with the same token for BOS and EOS everything is EOS from the start",
    "Some models use the same token for BOS and EOS.",
    "BOS taken for EOS",
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
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        if (token == eos).all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "never stops early: always max_length columns and steps, even if all sentences have ended",
    "When all sentences have ended, or after `max_length` steps, decoding stops.",
    "does not stop when all have ended",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended, tokens = torch.zeros_like(token, dtype=torch.bool), []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        tokens.append(token)
    return torch.cat(tokens, dim=1)


@wrong(
    "takes the exponential of the logits before the maximum: logits above 88 become infinite, and the first of several infinite ones wins",
    "Greedy decoding takes the most probable token at every step.",
    "overflow before argmax",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended, tokens = torch.zeros_like(token, dtype=torch.bool), []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.exp().argmax(dim=-1).masked_fill(ended, eos)
        ended |= token == eos
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "leaves the loop before the last column is kept: when all sentences end at the same step, their EOS is missing; for max_length steps all is right",
    "A sentence ends when the model has produced EOS for it. From there on all its tokens are EOS, whatever the model predicts, until the other sentences have ended, too.",
    "last EOS not returned",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended, tokens = torch.zeros_like(token, dtype=torch.bool), [token[:, :0]]
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended |= token == eos
        if ended.all():
            break
        tokens.append(token)
    return torch.cat(tokens, dim=1)


@wrong(
    "passes all tokens written so far to every step: right for a model that ignores its cache or looks at the last token only, wrong for one with a cache (it reads old tokens twice)",
    "`model.step(token, memory, cache)` takes the last token (B, 1) and returns logits (B, 1, V), weights (not needed here) and the next cache.",
    "whole prefix fed with a cache",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    tokens = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(tokens, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(tokens, memory, cache)
        token = logits[:, -1:].argmax(dim=-1).masked_fill(ended, eos)
        ended |= token == eos
        tokens = torch.cat([tokens, token], dim=1)
        if ended.all():
            break
    return tokens[:, 1:]


@wrong(
    "calls start again before every step, so the cache is always that of the beginning: right at the first step, and for models whose next token depends on the last token alone",
    "`model.start(memory)` returns what the first step needs, and",
    "cache thrown away after each step",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended, tokens = torch.zeros_like(token, dtype=torch.bool), []
    for _ in range(max_length):
        logits, _, _ = model.step(token, memory, model.start(memory))
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended |= token == eos
        tokens.append(token)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


_known = {}


@wrong(
    "remembers what the model wrote for these sources: after further training the same model object gives its old answer",
    "Greedy decoding takes the most probable token at every step.",
    "answer of an earlier call returned",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    name = (id(model), str(source.tolist()), str(lengths.tolist()), bos, eos)
    if (name, max_length) in _known:
        return _known[name, max_length][1].clone()
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended, tokens = torch.zeros_like(token, dtype=torch.bool), []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended |= token == eos
        tokens.append(token)
        if ended.all():
            break
    _known[name, max_length] = (model, torch.cat(tokens, dim=1))
    return _known[name, max_length][1].clone()
