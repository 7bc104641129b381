import torch

from blind import right, wrong


# Right answers


@right("a table full of EOS, of which the columns that were written are returned")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    device = source.device
    table = torch.full((len(source), max_length), eos, dtype=torch.long, device=device)
    going_on = torch.ones(len(source), dtype=torch.bool, device=device)
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    last = torch.full((len(source), 1), bos, dtype=torch.long, device=device)
    t = 0
    while t < max_length and going_on.any():
        logits, _, cache = model.step(last, memory, cache)
        best = logits[:, 0].argmax(dim=-1)
        table[going_on, t] = best[going_on]
        going_on &= table[:, t] != eos
        last = table[:, t : t + 1].clone()
        t += 1
    return table[:, :t].clone()


@right("keeps the sentences as Python lists, and a set of those that go on")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    said = [[] for _ in range(source.shape[0])]
    going_on = set(range(len(said)))
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    while going_on and len(said[0]) < max_length:
        last = [[words[-1] if words else bos] for words in said]
        token = torch.tensor(last, dtype=torch.long, device=source.device)
        logits, _, cache = model.step(token, memory, cache)
        for b, choice in enumerate(logits.argmax(dim=-1).flatten().tolist()):
            said[b].append(choice if b in going_on else eos)
            if choice == eos:
                going_on.discard(b)
    return torch.tensor(said, dtype=torch.long, device=source.device)


@right("reads off the tokens themselves, at every step, which sentences have ended")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    first = torch.full((source.size(0), 1), bos, dtype=torch.long, device=source.device)
    tokens = first[:, :0]
    for step in range(max_length):
        last = tokens[:, -1:] if step else first
        logits, _, cache = model.step(last, memory, cache)
        token = logits.max(dim=2).indices
        had_ended = (tokens == eos).any(dim=1, keepdim=True)
        token = token * ~had_ended + eos * had_ended
        tokens = torch.cat([tokens, token], dim=1)
        if bool((tokens == eos).any(dim=1).all()):
            break
    return tokens


@right("a generator yields the columns, and the ends are counted")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    def columns():
        memory = model.encode(source, lengths)
        cache = model.start(memory)
        size, where = source.shape[0], source.device
        token = torch.empty(size, 1, dtype=torch.int64, device=where).fill_(bos)
        ends = torch.zeros(size, 1, dtype=torch.int64, device=where)
        for _ in range(max_length):
            logits, _, cache = model.step(token, memory, cache)
            token = logits.topk(1, dim=-1).indices[..., 0]
            token = torch.where(ends > 0, torch.full_like(token, eos), token)
            ends = ends + (token == eos)
            yield token
            if int(ends.clamp(max=1).sum()) == size:
                return

    return torch.hstack(list(columns()))


# Wrong answers


@wrong(
    "begins the list of tokens with BOS, and returns it",
    "Use BOS as the first input, but leave it out of the output.",
    "BOS is in the output",
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
    "notes who has ended, but returns what the model predicts after that",
    "All later tokens of this sentence must be EOS, whatever the model predicts.",
    "no EOS after the end of a sentence",
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
    "stops as soon as one sentence has ended",
    "Stop when all sentences have ended, or after `max_length` steps.",
    "stops at the first end of a sentence",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1)
        tokens.append(token)
        if (token == eos).any():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "counts the first input as an end where BOS and EOS are the same token: all "
    "sentences have then ended before they begin",
    "Some models use the same token for BOS and EOS, so the first input must not end a "
    "sentence.",
    "BOS ends the sentence if it is EOS",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = token == eos
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
    "knows only whether the model's last prediction was EOS: two steps after its EOS, a "
    "sentence goes on if the model then predicts another token",
    "All later tokens of this sentence must be EOS, whatever the model predicts.",
    "forgets again that a sentence has ended",
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
        best = logits.argmax(dim=-1)
        token = torch.where(ended, eos, best)
        tokens.append(token)
        ended = best == eos
        if (token == eos).all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "makes the first input in the dtype of the source: with a source of real numbers, "
    "such as an image, the model gets a token that is no id",
    "source: what `encode` reads; its first axis is B.",
    "the first token has the dtype of the source",
    subtle=True,
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
    "calls model.eval() first, which a model that is no nn.Module does not have",
    "model: has `encode`, `start` and `step`, and need not have anything else.",
    "needs more of the model than the three methods",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
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
    "makes EOS the best token by the logits in its column: there is no such column if "
    "eos is an id that no token has, such as V",
    "eos: id of the token that ends a target; it may be an id that no token has.",
    "EOS is used as an index of the logits",
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
        logits[..., eos] = logits[..., eos].masked_fill(ended, float("inf"))
        token = logits.argmax(dim=-1)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "squeezes the logits (B, 1, V): in a batch of one sentence, the axis of the batch "
    "goes too, and the next token has the shape (1,)",
    "At every step, `model.step(token, memory, cache)` takes the last token (B, 1), and "
    "only this token.",
    "squeeze removes a batch of one",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros(source.size(0), 1, dtype=torch.bool, device=source.device)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.squeeze().argmax(dim=-1, keepdim=True)
        token = torch.where(ended.view(token.shape), eos, token)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=-1).view(source.size(0), -1)


@wrong(
    "compares exp(logits) instead of the logits: large ones all become infinite (and "
    "very negative ones zero), and the first of these tokens wins",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in "
    "train mode and in eval mode.",
    "exp of large logits overflows",
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
        odds = logits.exp()
        token = (odds / odds.sum(dim=-1, keepdim=True)).nan_to_num(nan=1.0)
        token = token.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)
