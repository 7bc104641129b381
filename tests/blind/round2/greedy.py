import torch

from attention_course.tasks.core import EOS
from blind import right, wrong


@right("list of columns, torch.where")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = torch.where(ended, eos, logits.argmax(-1))
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@right("a sheet full of EOS that is filled in, and cut at the end")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    B = len(source)
    sheet = torch.full((B, max_length), eos, dtype=torch.long, device=source.device)
    running = torch.ones(B, dtype=torch.bool, device=source.device)
    last = torch.full((B, 1), bos, dtype=torch.long, device=source.device)
    used = 0
    while used < max_length and running.any():
        logits, _, cache = model.step(last, memory, cache)
        best = logits[:, 0].max(dim=-1).indices
        sheet[running, used] = best[running]
        running &= sheet[:, used] != eos
        last = sheet[:, used : used + 1].clone()
        used += 1
    return sheet[:, :used]


@right("bookkeeping in python")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    said = [[] for _ in range(source.size(0))]
    last = [bos] * len(said)
    for _ in range(max_length):
        fed = torch.tensor(last, dtype=torch.long, device=source.device)[:, None]
        logits, _, cache = model.step(fed, memory, cache)
        best = logits.squeeze(1).argmax(-1).tolist()
        last = [eos if eos in mine else b for mine, b in zip(said, best)]
        for mine, b in zip(said, last):
            mine.append(b)
        if all(eos in mine for mine in said):
            break
    return torch.tensor(said, dtype=torch.long, device=source.device)


@right("keeps BOS while writing and cuts it off")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    written = torch.full((source.shape[0], 1), bos, device=source.device)

    def over():
        return (written[:, 1:] == eos).any(dim=1, keepdim=True)

    while written.size(1) <= max_length and not over().all():
        logits, _, cache = model.step(written[:, -1:], memory, cache)
        token = logits.topk(1, dim=-1).indices[:, :, 0].masked_fill(over(), eos)
        written = torch.cat([written, token], dim=1)
    return written[:, 1:]


ENDED = "A sentence that has said EOS has ended: from there on its tokens are EOS, whatever the model says, until the others have ended, too."
OVER = "When all have ended, or after `max_length` steps, it is over."


@wrong("BOS is part of the output", breaks="The first token that goes in is BOS; it is no part of what comes out.", name="BOS comes out", subtle=False)
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
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong("ended sentences go on talking", breaks=ENDED, name="words after the end", subtle=False)
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
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong("stops as soon as one has ended", breaks=OVER, name="any instead of all", subtle=False)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1)
        tokens.append(token)
        if (token == eos).any():
            break
    return torch.cat(tokens, dim=1)


@wrong("the first token is asked whether it is EOS", breaks="Some models have one token for BOS and EOS.", name="BOS that is EOS ends every sentence", subtle=True)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = torch.where(token == eos, eos, logits.argmax(-1))
        tokens.append(token)
        if (token == eos).all():
            break
    return torch.cat(tokens, dim=1)


@wrong("compares exponentials", breaks="Greedy decoding takes the likeliest token at every step.", name="large logits overflow and tie", subtle=True)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.exp().argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong("stops only if the model says EOS to all in one and the same step", breaks=OVER, name="goes on after all have ended", subtle=True)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        best = logits.argmax(-1)
        token = best.masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if (best == eos).all():
            break
    return torch.cat(tokens, dim=1)


@wrong("BOS counts as one of max_length", breaks="max_length: steps after which decoding stops also without EOS.", name="one step too few", subtle=True)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    written = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(written, dtype=torch.bool)
    while written.size(1) < max_length and not ended.all():
        logits, _, cache = model.step(written[:, -1:], memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        written = torch.cat([written, token], dim=1)
        ended = ended | (token == eos)
    return written[:, 1:]


@wrong("encodes again at every step", breaks="`model.encode(source, lengths)` reads the source once and returns a memory,", name="the source is read at every step", subtle=True)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    cache = model.start(model.encode(source, lengths))
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, model.encode(source, lengths), cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong("fills with the course's EOS, not with the one it was given", breaks="(B, T) token ids, T <= `max_length`; after a sentence's EOS come EOS.", name="a constant where the argument belongs", subtle=True)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, EOS)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong("a source has to have two axes", breaks="source: what `encode` reads; axis 0 is B.", name="sources of other shapes fail", subtle=True)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    B, _ = source.shape
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((B, 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)
