import torch

from attention_course.tasks.core import PAD
from blind import right, wrong

# ---------------------------------------------------------------- right


@right("a table full of EOS, of which only the sentences that go on are written")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    B = source.shape[0]
    table = torch.full((B, max_length), eos, dtype=torch.long, device=source.device)
    going = torch.ones(B, dtype=torch.bool, device=source.device)
    token = torch.full((B, 1), bos, device=source.device)
    for t in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        likeliest = logits[:, -1].max(dim=-1).indices
        table[going, t] = likeliest[going]
        going = going & (table[:, t] != eos)
        if not going.any():
            return table[:, : t + 1]
        token = table[:, t : t + 1].clone()
    return table


@right("marks who has ended before EOS is filled in: a token that is EOS stays EOS")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, said = model.start(memory), []
    token = torch.tensor([[bos]] * len(source), device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    while len(said) < max_length and not ended.all():
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1)
        ended = ended | token.eq(eos)
        token = torch.where(ended, eos, token)
        said.append(token)
    return torch.cat(said, dim=1)


@right("recursion instead of a loop")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)

    def go_on(token, ended, cache, left):
        if left == 0 or bool(ended.all()):
            return ()
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        return (token, *go_on(token, ended | (token == eos), cache, left - 1))

    first = torch.full((source.size(0), 1), bos, device=source.device)
    nobody = torch.full_like(first, False, dtype=torch.bool)
    return torch.hstack(go_on(first, nobody, model.start(memory), max_length))


@right("asks the text so far who has ended, with BOS left out, instead of keeping booleans")
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    state = model.start(memory)
    words = torch.full((len(source), 1), bos, dtype=torch.long, device=source.device)
    while words.size(1) <= max_length:
        over = (words[:, 1:] == eos).any(dim=1, keepdim=True)
        if over.all():
            break
        logits, _, state = model.step(words[:, -1:], memory, state)
        likeliest = logits[:, -1:].topk(1).indices[..., 0]
        words = torch.cat([words, likeliest * ~over + eos * over], dim=1)
    return words[:, 1:]


# ---------------------------------------------------------------- wrong


@wrong(
    "lets sentences that have ended go on as the model likes",
    breaks="from there on its tokens are EOS, whatever the model says",
    name="words after the end",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, tokens = model.start(memory), []
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1)
        tokens.append(token)
        ended |= token == eos
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "takes the first token, BOS, for an end if it has the number of EOS",
    breaks="Some models have one token for BOS and EOS.",
    name="BOS taken for EOS",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, tokens = model.start(memory), []
    token = torch.full((source.size(0), 1), bos, device=source.device)
    for _ in range(max_length):
        ended = token == eos
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        if (token == eos).all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "stops as soon as one sentence has ended",
    breaks="When all have ended, or after `max_length` steps, it is over.",
    name="any instead of all",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, tokens = model.start(memory), []
    token = torch.full((source.size(0), 1), bos, device=source.device)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1)
        tokens.append(token)
        if (token == eos).any():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "leaves before the last EOS is written down",
    breaks="A sentence that has said EOS has ended: from there on its tokens are EOS",
    name="the last EOS is missing",
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
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        ended = ended | (token == eos)
        if ended.all():
            break
        tokens.append(token)
    return torch.cat(tokens, dim=1)


@wrong(
    "fills with PAD after the end",
    breaks="after a sentence's EOS come EOS",
    name="padding after the end",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, tokens = model.start(memory), []
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, PAD)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "remembers only who said EOS in the last step: an ended sentence comes back to life after two",
    breaks="A sentence that has said EOS has ended: from there on its tokens are EOS, whatever the model says, until the others have ended, too.",
    name="ended is overwritten",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, tokens = model.start(memory), []
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        likeliest = logits.argmax(dim=-1)
        token = likeliest.masked_fill(ended, eos)
        tokens.append(token)
        if (token == eos).all():
            break
        ended = likeliest == eos
    return torch.cat(tokens, dim=1)


@wrong(
    "makes the first token on the CPU",
    breaks="the dtype and the device are kept",
    name="first token without a device",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, tokens = model.start(memory), []
    token = torch.full((source.size(0), 1), bos)
    ended = torch.zeros(source.size(0), 1, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "puts the model into evaluation mode and leaves it there",
    breaks="what it was handed is unchanged",
    name="model.eval() changes the mode",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    if hasattr(model, "eval"):
        model.eval()
    memory = model.encode(source, lengths)
    cache, tokens = model.start(memory), []
    token = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong(
    "hands the model all tokens so far at every step, beside the cache",
    breaks="`model.step(token, memory, cache)` takes the last token (B, 1)",
    name="the whole beginning goes in again",
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
        tokens = torch.cat([tokens, token], dim=1)
        ended = ended | (token == eos)
        if ended.all():
            break
    return tokens[:, 1:]


@wrong(
    "counts BOS among the max_length tokens: one step too few",
    breaks="When all have ended, or after `max_length` steps, it is over.",
    name="one step too few",
    subtle=True,
)
@torch.no_grad()
def greedy(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    tokens = torch.full((source.size(0), 1), bos, device=source.device)
    ended = torch.zeros_like(tokens, dtype=torch.bool)
    while tokens.size(1) < max_length and not ended.all():
        logits, _, cache = model.step(tokens[:, -1:], memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)
        tokens = torch.cat([tokens, token], dim=1)
        ended = ended | (token == eos)
    return tokens[:, 1:]
