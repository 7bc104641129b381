import torch
from attention_course.tasks.core import EOS
from blind import right, wrong


@right("keeps each sentence as a Python list of numbers and builds the tensor at the end")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    sentences = [[] for _ in range(len(source))]
    last = [bos] * len(sentences)
    for _ in range(max_length):
        token = torch.tensor(last, dtype=torch.long, device=source.device)
        logits, _, cache = model.step(token.unsqueeze(1), memory, cache)
        best = logits[:, 0].argmax(dim=-1).tolist()
        for b, sentence in enumerate(sentences):
            sentence.append(eos if eos in sentence else best[b])
            last[b] = sentence[-1]
        if all(sentence[-1] == eos for sentence in sentences):
            break
    return torch.tensor(sentences, dtype=torch.long, device=source.device)


@right("a table that is full of EOS from the start; only unfinished rows are written")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    B = source.size(0)
    table = torch.full((B, max_length), eos, dtype=torch.long, device=source.device)
    running = torch.ones(B, dtype=torch.bool, device=source.device)
    token = torch.full((B, 1), bos, dtype=torch.long, device=source.device)
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    steps = 0
    while steps < max_length and running.any():
        logits, _, cache = model.step(token, memory, cache)
        best = logits.squeeze(1).max(dim=-1).indices
        table[running, steps] = best[running]
        token = table[:, steps : steps + 1].clone()
        running = running & (token.squeeze(1) != eos)
        steps += 1
    return table[:, :steps]


@right("recursive: a step and then the rest, which is nothing once all have ended")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)

    def rest(token, cache, ended, left):
        if left == 0 or bool(ended.all()):
            return []
        logits, _, cache = model.step(token, memory, cache)
        best = torch.where(ended, torch.full_like(token, eos), logits.argmax(dim=2))
        return [best, *rest(best, cache, ended.logical_or(best == eos), left - 1)]

    first = torch.full((source.shape[0], 1), bos, device=source.device)
    ended = torch.zeros_like(first, dtype=torch.bool)
    return torch.cat(rest(first, model.start(memory), ended, max_length), dim=1)


@right("a generator that yields one column at a time, with amax and integer arithmetic")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    def columns():
        memory = model.encode(source, lengths)
        cache = model.start(memory)
        token = torch.tensor([[bos]], device=source.device).repeat(len(source), 1)
        alive = torch.ones_like(token)
        for _ in range(max_length):
            logits, _, cache = model.step(token, memory, cache)
            is_best = logits == logits.amax(dim=-1, keepdim=True)
            best = is_best.long().argmax(dim=-1)
            token = best * alive + eos * (1 - alive)
            yield token
            alive = alive * (token != eos).long()
            if not alive.any():
                return

    return torch.hstack(list(columns()))


@wrong(
    "the list of tokens begins with the first input, so BOS is the first column of the"
    " result, always",
    "Use BOS as the first input, but leave it out of the output.",
    "BOS is part of the output",
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
    "knows which sentences have ended, but never puts EOS: a sentence that ends before the"
    " others goes on with whatever the model predicts",
    "All later tokens of this sentence must be EOS, whatever the model predicts.",
    "Ended sentences go on",
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
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "gives every step the first cache, so the model forgets what it wrote before; wrong"
    " from the third token on at the latest",
    "It returns logits (B, 1, V), weights, which you do not need, and the cache for the"
    " next step.",
    "The next cache is not passed on",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, _ = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "a sentence counts as ended if its last token is EOS, the first input included: with"
    " bos == eos, nothing but EOS comes out",
    "Some models use the same token for BOS and EOS, so the first input must not end a"
    " sentence.",
    "First input ends the sentence",
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
        token = torch.where(ended, eos, logits.argmax(dim=-1))
        tokens.append(token)
        if (token == eos).all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "counts BOS as one of the max_length tokens: one step too few where no end comes"
    " before, and an error for max_length=1",
    "Stop when all sentences have ended, or after `max_length` steps.",
    "One step too few",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(1, max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "turns the logits into probabilities with a bare exp, which is infinite for logits"
    " above 88 and zero for all logits below -104: the first token wins then",
    "Greedy decoding takes the most probable token at every step.",
    "Softmax overflows for large logits",
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
        scores = logits.exp()
        probabilities = scores / scores.sum(dim=-1, keepdim=True)
        token = probabilities.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "encodes the source again at every step: the same tokens come out of most models, but"
    " `encode` is called as often as `step`",
    "Call `model.encode(source, lengths)` once: it reads the source and returns a memory.",
    "Encodes the source at every step",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    cache = model.start(model.encode(source, lengths))
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        memory = model.encode(source, lengths)
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "finds the end with the argument eos, but fills up with the course's constant EOS:"
    " right as long as eos is the course's, wrong for another id if sentences end at"
    " different steps",
    "Token ids (B, T), of dtype long, T <= `max_length`; after its first EOS, a sentence"
    " holds only EOS.",
    "Fills up with the course's EOS, not with eos",
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
        token[ended] = EOS
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "always takes max_length steps and tidies up afterwards: EOS after the first EOS, and"
    " the columns after the longest sentence cut off. The result is right, but the model is"
    " asked for more steps after all sentences have ended",
    "Stop when all sentences have ended, or after `max_length` steps.",
    "Does not stop when all have ended",
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
    result = torch.cat(tokens, dim=1)
    is_end = (result == eos).long()
    before = is_end.cumsum(dim=1) - is_end
    result = result.masked_fill(before > 0, eos)
    running = (before + is_end == 0).sum(dim=1)
    return result[:, : min(int(running.max()) + 1, max_length)]


@wrong(
    "makes the first input from the first column of the source: right where the source"
    " holds ids (B, S) of dtype long, but a source of vectors (B, S, D) gives an input"
    " (B, 1, D) of floats",
    "source: what `encode` reads; its first axis is B.",
    "First input copies the source's shape and dtype",
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full_like(source[:, :1], bos)
    ended = torch.zeros(len(source), 1, dtype=torch.bool, device=source.device)
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)
