"""Answers to greedy."""

import torch
from answers.core import draw, right, wide, wrong
from answers.lab06_transformer.blocks import sizes
from answers.lab06_transformer.train_step import named
from answers.signs import FITS, ONE_AXIS

from attention_course.tasks.core import PAD
from nbjudge.question import Request


@wide("greedy")
def any_script(g):
    for b, _, s, v, *_ in sizes(g):
        v += 4
        for longest in (1, 3, 8):
            ends = torch.randint(10, (b,), generator=g)
            source = torch.randint(v, (b, s), generator=g)
            bos, eos = torch.randperm(v, generator=g)[:2].tolist()
            numbers = (torch.empty(number, 0) for number in (bos, eos, longest))
            yield Request((draw(g, v, v), draw(g, v, v), source, ends, *numbers))


class Writer:
    """Greedy decoding in pieces that a student might write otherwise."""

    def __call__(self, model, source, lengths, bos, eos, max_length):
        memory = model.encode(source, lengths)
        cache = model.start(memory)
        token = self.begin(source, bos)
        ended = token == -1
        tokens = []
        for _ in range(max_length):
            logits, _, cache = model.step(token, memory, cache)
            token = self.after_the_end(self.choose(logits), ended, eos)
            tokens.append(token)
            ended = ended | (token == eos)
            if self.done(ended):
                break
        return self.join(tokens)

    def begin(self, source, bos):
        return torch.full(
            (source.size(0), 1), bos, dtype=torch.long, device=source.device
        )

    def choose(self, logits):
        return logits.argmax(dim=-1)

    def after_the_end(self, token, ended, eos):
        return token.masked_fill(ended, eos)

    def done(self, ended):
        return ended.all()

    def join(self, tokens):
        return torch.cat(tokens, dim=1)


def greedy_with(**parts):
    writer = type("Writer", (Writer,), parts)()

    def greedy(model, source, lengths, bos, eos, max_length):
        return writer(model, source, lengths, bos, eos, max_length)

    return greedy


def right_writing(part):
    return lambda function: right("greedy", function.__name__)(
        greedy_with(**{part: function})
    )


def wrong_writing(part, *names):
    return lambda function: wrong("greedy", *names)(
        named(greedy_with(**{part: function}), function)
    )


right("greedy", "step_by_step")(greedy_with())


@right_writing("begin")
def begun_with_new_full(self, source, bos):
    return source.new_ones(len(source), 1).mul(bos)


@right_writing("begin")
def begun_from_a_list(self, source, bos):
    return torch.tensor([[bos]] * source.size(0), device=source.device)


@right_writing("choose")
def by_max(self, logits):
    return logits.max(-1).indices


@right_writing("choose")
def by_topk(self, logits):
    return logits[:, -1].topk(1).indices


@right_writing("choose")
def by_sorting(self, logits):
    return logits.argsort(dim=-1, descending=True)[..., 0]


@right_writing("choose")
def by_probability(self, logits):
    return logits.softmax(dim=-1).argmax(dim=-1)


@right_writing("choose")
def by_log_probability(self, logits):
    return logits[:, 0].log_softmax(-1).argmax(-1, keepdim=True)


@right_writing("after_the_end")
def with_where(self, token, ended, eos):
    return torch.where(ended, eos, token)


@right_writing("after_the_end")
def with_arithmetic(self, token, ended, eos):
    return token * ~ended + eos * ended


@right_writing("after_the_end")
def with_assignment(self, token, ended, eos):
    token = token.clone()
    token[ended] = eos
    return token


@right_writing("done")
def counted(self, ended):
    return int(ended.sum()) == len(ended)


@right_writing("join")
def stacked(self, tokens):
    return torch.stack(tokens, dim=1).squeeze(-1)


@right("greedy")
def filled_in(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    tokens = torch.full((source.size(0), max_length), eos, device=source.device)
    token, going = (
        torch.full_like(tokens[:, :1], bos),
        torch.ones_like(tokens[:, 0], dtype=torch.bool),
    )
    for t in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1)
        tokens[going, t] = token[going, 0]
        going = going & (token[:, 0] != eos)
        if not going.any():
            return tokens[:, : t + 1]
    return tokens


@wrong_writing("begin", "other tokens are fed or chosen", "BOS at every step")
def begun_with_zeros(self, source, bos):
    return torch.zeros(source.size(0), 1, dtype=torch.long)


@wrong_writing("begin", "written for one number of axes", FITS)
def begun_without_time(self, source, bos):
    return torch.full((source.size(0),), bos)


@wrong_writing("choose", "other tokens are fed or chosen", "axes exchanged")
def over_the_batch(self, logits):
    return logits.argmax(dim=0)[..., : logits.size(0)].T


@wrong_writing(
    "choose",
    FITS,
    "other tokens are fed or chosen",
    "written for one number of axes",
    ONE_AXIS,
)
def over_the_time(self, logits):
    return logits.argmax(dim=1)


@wrong_writing("choose", "other tokens are fed or chosen", "the least likely token")
def the_second_best(self, logits):
    return logits.topk(2).indices[..., 1]


@wrong_writing("choose", "a number chosen, not its place")
def values_not_places(self, logits):
    return logits.max(dim=-1).values


@wrong_writing("after_the_end", "a sentence goes on after its end")
def never_ended(self, token, ended, eos):
    return token


@wrong_writing("after_the_end", "a sentence goes on after its end")
def ended_with_padding(self, token, ended, eos):
    return token.masked_fill(ended, PAD)


@wrong_writing("done", "the first sentence to end ends all", "another number of steps")
def any_ended(self, ended):
    return ended.any()


@wrong_writing("done", "written to max_length always", "another number of steps")
def never_done(self, ended):
    return False


@wrong_writing("join", "BOS is written down", "another number of steps")
def begins_with_bos(self, tokens):
    return torch.cat([torch.full_like(tokens[0], 1), *tokens], dim=1)


@wrong_writing("join", "another number of steps")
def eos_cut_off(self, tokens):
    return torch.cat(tokens[:-1], dim=1)


@wrong_writing("join", ONE_AXIS)
def one_axis_more(self, tokens):
    return torch.stack(tokens, dim=1)


@wrong_writing("join", "axes exchanged")
def time_first(self, tokens):
    return torch.cat(tokens, dim=1).T


@wrong("greedy", "the cache is not handed on")
def cache_dropped(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    start = model.start(memory)
    tokens = [torch.full((source.size(0), 1), bos)]
    for _ in range(max_length):
        logits, _, _ = model.step(tokens[-1], memory, start)
        tokens.append(logits.argmax(-1))
    return torch.cat(tokens[1:], dim=1)


@wrong("greedy", "the whole beginning is fed at every step")
def feeds_everything(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, tokens = model.start(memory), torch.full((source.size(0), 1), bos)
    for _ in range(max_length):
        logits, _, cache = model.step(tokens, memory, cache)
        tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)
    return tokens[:, 1:]


@wrong("greedy", "more work than needed")
def encodes_at_every_step(model, source, lengths, bos, eos, max_length):
    cache, token = (
        model.start(model.encode(source, lengths)),
        torch.full((source.size(0), 1), bos),
    )
    tokens, ended = [], token == -1
    for _ in range(max_length):
        logits, _, cache = model.step(token, model.encode(source, lengths), cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens, ended = [*tokens, token], ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong("greedy", "more work than needed")
def computes_everything_again(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    tokens = torch.full((source.size(0), 1), bos)
    ended = tokens == -1
    for _ in range(max_length):
        logits, _, _ = model.step(tokens, memory, model.start(memory))
        token = logits[:, -1:].argmax(-1).masked_fill(ended, eos)
        tokens, ended = torch.cat([tokens, token], dim=1), ended | (token == eos)
        if ended.all():
            break
    return tokens[:, 1:]
