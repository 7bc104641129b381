import torch

from attention_course.tasks.core import EOS
from blind import right, wrong

ENDED = "A sentence that has said EOS has ended: from there on its tokens are EOS, whatever the model says, until the others have ended, too."
OVER = "When all have ended, or after `max_length` steps, it is over."
FIRST = "The first token that goes in is BOS; it is no part of what comes out."


@right("the plain loop")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = [token[:, :0]]
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@right("written into a table full of EOS, cut at the end")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    B = len(source)
    table = torch.full((B, max_length), eos, dtype=torch.long, device=source.device)
    running = torch.ones(B, dtype=torch.bool, device=source.device)
    memory = model.encode(source, lengths)
    cache, token, T = model.start(memory), table.new_full((B, 1), bos), 0
    while T < max_length and running.any():
        logits, _, cache = model.step(token, memory, cache)
        said = logits[:, -1].max(dim=-1).indices
        table[running, T] = said[running]
        running = running & (table[:, T] != eos)
        token = table[:, T : T + 1].clone()
        T += 1
    return table[:, :T]


@right("recursion; whether all have ended is counted in a set")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    B = source.shape[0]
    ended = set()

    def write(token, cache, left):
        if left == 0 or len(ended) == B:
            return []
        logits, _, cache = model.step(token, memory, cache)
        best = logits.squeeze(1).argmax(dim=1).tolist()
        best = [eos if b in ended else t for b, t in enumerate(best)]
        ended.update(b for b, t in enumerate(best) if t == eos)
        token = torch.tensor(best, device=source.device).unsqueeze(1)
        return [token] + write(token, cache, left - 1)

    begin = torch.full((B, 1), bos, device=source.device)
    return torch.cat([begin[:, :0]] + write(begin, model.start(memory), max_length), 1)


@right("collects what the model says, repairs what follows EOS afterwards")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    said = torch.full((source.size(0), 1), bos, device=source.device)
    while said.size(1) <= max_length:
        logits, _, cache = model.step(said[:, -1:], memory, cache)
        said = torch.cat([said, logits.argmax(dim=2)], dim=1)
        if (said[:, 1:] == eos).any(dim=1).all():
            break
    out = said[:, 1:]
    after = (out == eos).long().cumsum(dim=1) > 0
    return torch.where(after, torch.full_like(out, eos), out)


@wrong("BOS is returned, too", breaks=FIRST, name="BOS in the output")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = [token]
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong("goes on talking after EOS", breaks=ENDED, name="tokens after the end")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = [token[:, :0]]
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong("always takes max_length steps", breaks=OVER, name="does not stop")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = [token[:, :0]]
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
    return torch.cat(tokens, dim=1)


@wrong(
    "stops when the first sentence has ended (right for one sentence)",
    breaks=OVER,
    name="any instead of all",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = [token[:, :0]]
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.any():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "ended is who was handed EOS: if BOS and EOS are the same token, nobody ever speaks",
    breaks=FIRST,
    name="BOS taken for an end",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    tokens = [token[:, :0]]
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(token == eos, eos)
        tokens.append(token)
        if (token == eos).all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "all sources are taken for full length",
    breaks="lengths: tokens in each source.",
    name="padding of the source is read",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, torch.full_like(lengths, source.size(1)))
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = [token[:, :0]]
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "a source has to have two axes",
    breaks="source: what `encode` reads; axis 0 is B.",
    name="shape of the source assumed",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    B, _ = source.shape
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((B, 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = [token[:, :0]]
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "compares exp of the logits: above 88 all are infinite, and the first one wins",
    breaks="Greedy decoding takes the likeliest token at every step.",
    name="overflow before argmax",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = [token[:, :0]]
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.exp().argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "fills with the course's EOS, not with the one given",
    breaks="(B, T) token ids, T <= `max_length`; after a sentence's EOS come EOS.",
    name="EOS is a constant",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = [token[:, :0]]
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, EOS)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "one step too many if nobody ends before",
    breaks="max_length: steps after which decoding stops also without EOS.",
    name="max_length + 1 tokens",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    while len(tokens) <= max_length and not ended.all():
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
    return torch.cat(tokens, dim=1)
