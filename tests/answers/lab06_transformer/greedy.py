"""Answers to greedy."""

from functools import partial

import torch
from answers.core import draw, right, right_edits, wide, wrong_edits
from answers.lab06_transformer.shared import sizes
from answers.signs import AXES, EXCHANGED, FITS, NO_NAME, ONE_AXIS

from attention_course.tasks.core import PAD
from nbjudge import Request, edit


@wide("greedy")
def any_script(g):
    for b, _, s, v, *_ in sizes(g):
        v += 4
        for longest in (1, 3, 8):
            ends = torch.randint(10, (b,), generator=g)
            source = torch.randint(v, (b, s), generator=g)
            bos, eos = torch.randperm(v, generator=g)[:2].tolist()
            tables = (draw(g, v, v), draw(g, v, v))
            lengths = 1 + torch.arange(b)
            yield Request((*tables, source, lengths, ends, bos, eos, longest))


def step_by_step(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = torch.full((source.size(0), 1), bos, dtype=torch.long, device=source.device)
    ended = token == -1
    tokens = []
    for _ in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1)
        token = token.masked_fill(ended, eos)
        tokens.append(token)
        ended = ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


right("greedy")(step_by_step)
change = partial(edit, step_by_step)
BEGIN = "torch.full((source.size(0), 1), bos, dtype=torch.long, device=source.device)"
BEST, FILLED = "logits.argmax(dim=-1)", "token.masked_fill(ended, eos)"
DONE, JOINED = "ended.all()", "torch.cat(tokens, dim=1)"

right_edits(
    "greedy",
    step_by_step,
    begun_with_new_full=change(
        BEGIN, "source.new_ones(len(source), 1).mul(bos).long()"
    ),
    begun_from_a_list=change(
        BEGIN, "torch.tensor([[bos]] * source.size(0), device=source.device)"
    ),
    by_max=change(BEST, "logits.max(-1).indices"),
    by_topk=change(BEST, "logits[:, -1].topk(1).indices"),
    by_sorting=change(BEST, "logits.argsort(dim=-1, descending=True)[..., 0]"),
    by_probability=change(BEST, "logits.softmax(dim=-1).argmax(dim=-1)"),
    by_log_probability=change(
        BEST, "logits[:, 0].log_softmax(-1).argmax(-1, keepdim=True)"
    ),
    with_where=change(FILLED, "torch.where(ended, eos, token)"),
    with_arithmetic=change(FILLED, "token * ~ended + eos * ended"),
    with_assignment=change(FILLED, "token.clone(); token[ended] = eos"),
    counted=change(DONE, "int(ended.sum()) == len(ended)"),
    stacked=change(JOINED, "torch.stack(tokens, dim=1).squeeze(-1)"),
)


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


CHOSEN = "wrong tokens are fed or chosen"
GOES_ON = "a sentence continues after its EOS"
NUMBER = "a wrong number of steps"
WORK = "tokens right, model calls or dtype wrong"
GO_ON = change(FILLED, "token") & change(DONE, "False")
# All tokens so far are fed at every step.
FROM_BOS = (
    change("tokens = []", "tokens = [token]")
    & change("model.step(token,", "model.step(torch.cat(tokens, dim=1),")
    & change(BEST, "logits[:, -1:].argmax(-1)")
    & change("return torch.cat(tokens,", "return torch.cat(tokens[1:],")
)

wrong_edits(
    "greedy",
    step_by_step,
    begun_with_zeros=(
        change(", bos, dtype", ", 0, dtype"),
        CHOSEN,
        "BOS is fed in at every step",
    ),
    begun_without_time=(change("(source.size(0), 1)", "(source.size(0),)"), AXES, FITS),
    over_the_batch=(
        change(BEST, "logits.argmax(dim=0)[..., : logits.size(0)].T"),
        FITS,
        CHOSEN,
        EXCHANGED,
    ),
    over_the_time=(change("dim=-1", "dim=1"), FITS, CHOSEN, AXES, ONE_AXIS),
    the_second_best=(
        change(BEST, "logits.topk(2).indices[..., 1]"),
        CHOSEN,
        "the least probable token",
    ),
    values_not_places=(
        change(BEST, "logits.max(dim=-1).values"),
        "the largest logit, not its index",
    ),
    never_ended=(change(FILLED, "token"), GOES_ON),
    ended_with_padding=(
        change(FILLED, f"token.masked_fill(ended, {PAD})"),
        "another token than EOS after the end",
    ),
    any_ended=(
        change(DONE, "ended.any()"),
        "the first EOS ends all sentences",
        NUMBER,
    ),
    never_done=(change(DONE, "False"), "decoding always goes on to max_length", NUMBER),
    begins_with_bos=(
        change("cat(tokens,", "cat([torch.full_like(tokens[0], 1), *tokens],"),
        "BOS in the output",
        NUMBER,
    ),
    eos_cut_off=(change("cat(tokens,", "cat(tokens[:-1],"), NUMBER),
    one_axis_more=(change("cat(tokens", "stack(tokens"), ONE_AXIS),
    time_first=(change(JOINED, f"{JOINED}.T"), EXCHANGED),
    cache_dropped=(
        GO_ON & change("memory, cache)", "memory, model.start(memory))"),
        "the cache is not passed on",
    ),
    feeds_everything=(
        FROM_BOS & GO_ON,
        "the whole prefix is fed at every step",
    ),
    encodes_at_every_step=(
        change("token, memory", "token, model.encode(source, lengths)"),
        "the source is read at every step",
    ),
    computes_everything_again=(
        FROM_BOS & change("memory, cache)", "memory, model.start(memory))"),
        WORK,
    ),
    in_eval_mode_for_a_while=(
        change("memory = model.encode", "model.eval(); memory = model.encode")
        & change("return torch", "model.train(); return torch"),
        NO_NAME,
    ),
    on_the_device_of_the_parameters=(
        change(
            "device=source.device",
            "device=next(iter([*model.parameters(), source])).device",
        ),
        NO_NAME,
    ),
    no_token_is_minus_one=(
        change("tokens = []", "tokens = token.new_full((len(token), max_length), -1)")
        & change("for _ in", "for t in")
        & change("tokens.append(token)", "tokens[:, t : t + 1] = token")
        & change("ended | (token == eos)", "(tokens == eos).any(1, keepdim=True)")
        & change(JOINED, "tokens[:, : t + 1]"),
        NUMBER,
    ),
)
