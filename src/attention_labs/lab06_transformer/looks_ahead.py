"""Question `looks_ahead`: a test that finds leaks of future tokens in any decoder.

The test does not train the decoder.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_labs.lab06_transformer.shared import LENGTHS
from nbjudge import (
    ANYWHERE,
    Axis,
    Battery,
    Changed,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    close,
    comparable,
    each_of,
    edit,
    error_like,
    good_manners,
    in_words,
    left_alone,
    normal,
    of_output,
    same_numbers,
    somewhere,
    state_of,
)

DECODER = "13_transformer.html#transformer-decoder"


@torch.no_grad()
def looks_ahead(model: Any, source: Tensor, lengths: Tensor, target: Tensor) -> bool:
    """Say whether a model looks ahead: change every token, and look before it."""
    was_training, found = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= bool(((after - before)[:, :t].abs() > 1e-4).any())
    model.train(was_training)
    return found


class _Suspect(nn.Module):
    """A decoder whose logits come from all tokens so far, the source, and a leak."""

    def __init__(
        self,
        table: Tensor,
        ahead: Tensor,
        seen: Tensor,
        heard: Tensor,
        dropout: float,
        asking: Tensor | None = None,
    ):
        super().__init__()
        self.table, self.dropout = nn.Parameter(table.clone()), nn.Dropout(dropout)
        # what a token adds to the logits: to its own, if it is seen; or a row of seen
        leak = torch.diag(seen) if seen.dim() == 1 else seen
        self.leak, self.ahead, self.heard = leak, ahead, heard
        # at which tokens a position looks ahead
        self.asking = torch.ones_like(heard) if asking is None else asking
        self.tried = torch.zeros_like(ahead[1:, :1] * leak[0])

    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor
    ) -> tuple[Tensor, None]:
        asked = self.table[source].mean(1, keepdim=True) / lengths[:, None, None]
        if target.size(1) == self.ahead.size(1):
            self.tried.scatter_(1, target.mT[1:], 1.0)
        more = target.size(1) - self.ahead.size(1)
        ahead = F.pad(self.ahead, (0, more, 0, more))  # cuts, too
        said = self.dropout(self.table[target]).cumsum(1).tanh()
        # which sentence this is, is told by its source alone
        heard = self.heard[source[:, 0]][:, None, None]
        leak = self.asking[target][..., None] * (ahead @ self.leak[target])
        return said + asked + heard * leak, None


def _use_looks_ahead(
    looks: Any,
    table: Tensor,
    ahead: Tensor,
    seen: Tensor,
    heard: Tensor,
    dropout: float,
    training: bool,
    source: Tensor,
    lengths: Tensor,
    target: Tensor,
    asking: Tensor | None = None,
) -> Any:
    """Ask about a decoder.

    Returns:
        What is said of it; whether it is in the mode in which it came; and, to name
        mistakes, which tokens it was given at which position, from 1 on.
    """
    model = _Suspect(table, ahead, seen, heard, dropout, asking).train(training)
    was = state_of(model)
    said = looks(model, source, lengths, target)
    if said is None:
        return None
    if bool(said != bool(said)):
        raise TypeError(f"returned {type(said).__name__}, wanted True or False")
    modes = {part.training for part in model.modules()}
    verdict, same = (table.new_tensor(x) for x in (bool(said), modes == {training}))
    outputs = verdict, same, model.tried
    kept = state_of(model) == was and bool((model.table == table).all())
    return outputs if kept else Changed(outputs)


Ahead = Callable[[int], Tensor]  # of T: which position (row) sees which one (column)


def _one(t: int, s: int) -> Ahead:
    def ahead(size: int) -> Tensor:
        seen = torch.zeros(size, size, dtype=torch.float64)
        seen[t % size, s % size] = 1
        return seen.triu(1)

    return ahead


NOWHERE: Ahead = lambda size: torch.zeros(size, size, dtype=torch.float64)  # noqa: E731
EVERYWHERE: Ahead = lambda size: torch.ones_like(NOWHERE(size)).triu(1)  # noqa: E731
NEXT: Ahead = lambda size: EVERYWHERE(size).tril(1)  # noqa: E731
AHEAD = {
    "a decoder without a causal mask": EVERYWHERE,
    "a decoder whose mask is one position too far": NEXT,
    "only the first position sees the one after it": _one(0, 1),
    "only the last but one sees the last position": _one(-2, -1),
    "only the first position sees the last": _one(0, -1),
}


def _suspect(
    d: Draw,
    about: str = "a decoder that does not look ahead",
    ahead: Ahead = NOWHERE,
    size: float = 0.5,
    dropout: float = 0.0,
    training: bool = False,
) -> Request:
    """Draw a decoder, and a leak of this size for every token in every sentence."""
    every = torch.ones(d.V, dtype=torch.float64)
    table = normal(d, d.V, d.V)
    lengths = torch.randint(1, d.S + 1, (d.B,), generator=d)
    source, target = (torch.randint(d.V, (d.B, n), generator=d) for n in (d.S, d.T))
    leak = (size * ahead(d.T), every, every, dropout, training)
    return Request((table, *leak, source, lengths, target), about=about)


def _one_token(d: Draw, token: int, step: int) -> Request:
    """Draw a leak for one token; at its place stands one that is a step away."""
    t = d.number(1, max(d.T - 1, 1))
    about = "only one token of the vocabulary is seen too early"
    leaky = _suspect(d, about, _one(t - 1, t))
    table, ahead, every, *others, target = leaky.inputs
    alone = torch.zeros_like(every)
    alone[token] = 1
    target[target == token] = (token + 1) % d.V
    target[:, t % d.T] = (token + step) % d.V
    return replace(leaky, inputs=(table, ahead, alone, *others, target))


def _one_sentence(d: Draw, row: int) -> Request:
    """Draw a leak that shows in one sentence alone: its source begins with token 0."""
    leaky = _suspect(d, "only one sentence has a leak", EVERYWHERE)
    table, ahead, every, _, *others, source, lengths, target = leaky.inputs
    alone = torch.zeros_like(every)
    alone[0] = 1
    source[:, 0] = d.V - 1
    source[row, 0] = 0
    inputs = (table, ahead, every, alone, *others, source, lengths, target)
    return replace(leaky, inputs=inputs)


def _one_of_each(d: Draw) -> Request:
    """Draw a leak for one token in one sentence."""
    leaky = _one_token(d, d.number(0, d.V - 1), 1)
    table, ahead, every, _, *others = leaky.inputs
    alone = _one_sentence(d, d.number(0, d.B - 1))
    inputs = (table, ahead, every, alone.inputs[3], *others[:2], *alone.inputs[6:8])
    about = "only one token is seen too early, in one sentence alone"
    return replace(leaky, inputs=(*inputs, others[-1]), about=about)


def _among_others(d: Draw) -> Request:
    """Draw a leak for one token in one sentence; the others have it there already."""
    leaky = _one_of_each(d)
    _, ahead, seen, heard, *_, source, _, target = leaky.inputs
    place, token = int(ahead.sum(0).argmax()), int(seen.argmax())
    deaf = heard[source[:, 0]] == 0
    target = target.clone()
    target[deaf, place] = token
    return replace(leaky, inputs=(*leaky.inputs[:-1], target))


def _where_it_stands(d: Draw) -> Request:
    """Draw a leak at one token of the target, in one sentence, and for one token.

    It is found only if all other tokens stay as they are.
    """
    request = _one_of_each(d)
    _, ahead, _, heard, *_, source, _, target = request.inputs
    place = int(ahead.sum(1).argmax())
    token = d.number(1, max(d.V - 2, 1)) % d.V
    has_leak = heard[source[:, 0]] > 0
    target = target.clone()
    target[:, place] = torch.where(has_leak, token, (token + 1) % d.V)
    asking = torch.zeros_like(heard)
    asking[token] = 1
    inputs = (*request.inputs[:-1], target, asking)
    return replace(request, inputs=inputs, about="only one token looks ahead")


def _far_off(d: Draw) -> Request:
    """Let the first position see one token at the last place, in one sentence."""
    request = _one_sentence(d, d.B - 1)
    table, _, _, *others, target = request.inputs
    alone = torch.zeros(d.V, dtype=torch.float64)
    alone[-2:-1] = 1
    inputs = (table, 0.5 * _one(0, -1)(d.T), alone, *others, target % max(d.V - 2, 1))
    about = "the first position sees one token at the last, in one sentence alone"
    return replace(request, inputs=inputs, about=about)


def _in_many_logits(d: Draw) -> Request:
    """Draw rounding errors that are much only if they are added up."""
    about = "rounding errors in many logits, and no leak"
    table, ahead, every, *others, target = _suspect(d, about, NEXT, 9e-6).inputs
    odd = torch.arange(d.V, dtype=torch.float64)[:, None] % 2 * every
    even = target - target % 2  # so that an odd token changes every sentence
    return Request((table, ahead, odd, *others, even), about=about)


def _all_alike(d: Draw) -> Request:
    """Draw a leak that adds the same to all logits of a position."""
    leaky = _suspect(d, "a leak that raises all logits of a position alike", NEXT)
    table, ahead, every, *others = leaky.inputs
    alike = every.cumsum(0)[:, None] * every
    return replace(leaky, inputs=(table, ahead, alike, *others))


def _far(request: Request) -> Request:
    """Make the part of the logits large that the source alone says."""
    table, *others = request.inputs
    return replace(request, inputs=(1e4 * table.abs() + 1e5, *others))


def _rare(d: Draw) -> list[Request]:
    leaks = [_suspect(d, about, ahead) for about, ahead in AHEAD.items()]
    dropping = partial(_suspect, d, dropout=0.5, training=True)
    return [
        *leaks[2:],
        _one_token(d, 0, 1),
        _one_token(d, d.V - 1, -1),
        _one_token(d, d.number(0, d.V - 1), 0),
        _one_sentence(d, 0),
        _one_sentence(d, d.B - 1),
        *(_one_of_each(d) for _ in range(4)),
        *(_among_others(d) for _ in range(2)),
        *(_where_it_stands(d) for _ in range(2)),
        _far_off(BATTERY.sized(d, B=d.number(5, 6), T=9, V=d.number(15, 16))),
        _in_many_logits(BATTERY.sized(d, B=150, T=2, V=120)),
        _all_alike(d),
        _suspect(d, "a small leak", NEXT, 2e-3),
        _far(_suspect(d, "a small leak among large logits", NEXT, 2e-3)),
        _suspect(d, "rounding errors, and no leak", EVERYWHERE, 5e-6),
        dropping("dropout, and no leak"),
        dropping("dropout, and a leak", NEXT),
    ]


def _plain_leaks(d: Draw) -> list[Request]:
    return [_suspect(d), *(_suspect(d, *leak) for leak in [*AHEAD.items()][:2])]


def _ordinary(d: Draw) -> Request:
    """Draw an honest decoder or a leaky one, in one mode or the other."""
    training = bool(d.number(0, 1))
    if d.number(0, 1):
        return _suspect(d, training=training)
    about, ahead = d.one_of(AHEAD.items())
    return _suspect(d, about, ahead, training=training)


BATTERY = Battery(
    (
        *("one", "alike", "second call"),
        *("unchanged", "strided", "float32", "elsewhere"),
    ),
    _ordinary,
    {
        "B": Axis("sentences", most=4),
        "S": Axis("source positions", most=5),
        "T": Axis("target positions", most=4),
        "V": Axis("tokens in the vocabulary", most=5),
    },
)


def _verdict(request: Request, reply: Reply, reference: Reply) -> Finding:
    given, wanted = (bool(x.outputs[0]) for x in (reply, reference))
    return Finding(f"{given}", f"{wanted}")


def _same_mode(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error or bool(reply.outputs[1]):
        return None
    return Finding("the model is in a different mode than before", "the same mode")


_same_verdict = in_words(of_output(0, same_numbers), _verdict)
_manners = in_words(of_output(0, good_manners), _verdict)


@comparable
def _too_few_tried(request: Request, reply: Reply, reference: Reply) -> bool:
    missed = bool(reply.outputs[0] < reference.outputs[0])
    return missed and not bool(reply.outputs[2].all())


change = partial(edit, looks_ahead)
COMPARED, TRIED = "(after - before)[:, :t]", "changed[:, t] = token"
ONLY_BEFORE = (
    "A token may change the logits from its own position on. Compare only the logits"
    " before it."
)
COPIED = "changed = target.clone()"


def _with_base(base: str) -> Any:
    asked = "before, _ = model(source, lengths, target)"
    start = f"base = {base}.clone(); " + asked.replace("target", "base")
    return change(asked, start) & change("= target.clone()", "= base.clone()")


EVERY = "A leak may concern a single position and a single token. Try all of them."

QUESTION = Question(
    name="looks_ahead",
    reference=looks_ahead,
    use=_use_looks_ahead,
    plain=True,
    battery=BATTERY,
    requirements={
        "lengths": LENGTHS,
        "called": "Call the model as `model(source, lengths, target)`. It returns"
        " logits (B, T, V) and weights, which you do not need.",
        "ahead": "Replace the target's token at a position t by some token of the"
        " vocabulary. If a logit at a position before t then changes by more than"
        " 0.001, the model looks ahead.",
        "every": "A leak may be very narrow. It may concern a single pair of"
        " positions, a single token of the vocabulary, or a single sentence of the"
        " batch. So try every position, and at each position every token from 0 to V -"
        " 1.",
        "rounding": "Rounding may change logits, too, but by less than 0.00001. No"
        " logit changes by an amount between 0.00001 and 0.001.",
        "dropout": "In train mode, dropout changes the logits from call to call. So"
        " put the model into eval mode for the test, and afterwards back into its"
        " earlier mode. All parts of the model are in the same mode.",
        "model": "model: called as above; keep its mode (train or eval).",
        "source": "source: what the model reads; its first axis is B.",
        "source lengths": "lengths: the number of tokens in each source.",
        "target": "target: token ids (B, T); do not change them.",
        "returns": "True if the model looks ahead, and False if it does not.",
    },
    properties=(
        BATTERY.numbers(
            "a decoder with a causal mask, a decoder without one, and a decoder that"
            " sees one position too far",
            2,
            _same_verdict,
            ("called", "ahead", "model", "source", "source lengths", "returns"),
            False,
            _plain_leaks,
        ),
        BATTERY.edges(
            1,
            _same_verdict,
            ("lengths", "every", "rounding", "dropout"),
            "leaks of one position, of one token, in one sentence; a small leak;"
            " rounding; dropout; edges: length one, equal lengths, repeated calls",
            _rare,
        ),
        replace(
            BATTERY.manners(1, _manners, ("dropout", "model", "target")),
            throughout=each_of(left_alone, _same_mode),
            claim="the model's mode and the inputs are unchanged, in every dtype, on"
            " every device",
        ),
    ),
    mistakes=(
        Mistake(
            "positions from the change on are compared",
            ONLY_BEFORE,
            DECODER,
            (change("[:, :t]", "[:, : t + 1]"), change("[:, :t]", "[:, t:]")),
        ),
        Mistake(
            "only the last token is changed",
            EVERY,
            DECODER,
            change("range(1, target", "range(target.size(1) - 1, target"),
        ),
        Mistake(
            "only the position just before the change is compared",
            "A leak may reach far back. Compare all positions before the change.",
            DECODER,
            change("[:, :t]", "[:, t - 1 : t]"),
        ),
        Mistake(
            "only the first position is compared",
            "Any position may look ahead. Compare all positions before the change.",
            DECODER,
            change("[:, :t]", "[:, :1]"),
        ),
        Mistake(
            "not every token is tried at every position",
            EVERY,
            DECODER,
            (
                change(TRIED, "changed[:, t] = (target[:, t] + 1) % before.size(-1)"),
                change("range(before.size(-1))", "[0]"),
            ),
        ),
        Mistake(
            "some tokens were not tried at some positions",
            EVERY,
            DECODER,
            sign=_too_few_tried,
        ),
        Mistake(
            "only the first sentence is compared",
            "A leak may appear in only one sentence of the batch. Compare all"
            " sentences.",
            DECODER,
            change("[:, :t]", "[0, :t]"),
        ),
        Mistake(
            "probabilities are compared instead of logits",
            "If all logits of a position grow by one amount, its probabilities stay"
            " as they are. Compare the logits.",
            DECODER,
            (
                change(COMPARED, "(after.softmax(-1) - before.softmax(-1))[:, :t]"),
                change(COMPARED, "(after.softmax(-1) - before.softmax(-1))[:, :t]")
                & change("1e-4", "1e-3"),
                change(
                    COMPARED, "(after.log_softmax(-1) - before.log_softmax(-1))[:, :t]"
                ),
            ),
        ),
        Mistake(
            "the changes are averaged",
            "A leak may concern few logits. A single change of more than 0.001 is a"
            " leak, however small the mean of all changes is.",
            DECODER,
            change(
                COMPARED + ".abs() > 1e-4).any()", COMPARED + ".abs().mean() > 1e-3)"
            ),
        ),
        Mistake(
            "only the most probable tokens are compared",
            "A leak may be too small to change which logit is the largest. Compare the"
            " logits.",
            DECODER,
            change(COMPARED, "(after.argmax(-1) - before.argmax(-1))[:, :t]"),
        ),
        Mistake(
            "decreases of logits are ignored",
            "A logit may become larger or smaller. Use `abs`.",
            DECODER,
            change(".abs()", ""),
        ),
        Mistake(
            "only the last change decides",
            "One leak is enough. Remember it when you try the next token.",
            DECODER,
            change("found |= bool", "found = bool"),
        ),
        Mistake(
            "another target than the given one",
            "Change one token of the given target. All other tokens stay as they are,"
            " in every sentence.",
            DECODER,
            (
                _with_base("torch.zeros_like(target)"),
                _with_base("target[:1].expand_as(target)"),
                change("was_training, found", "changed, was_training, found")
                & change(
                    "model.training, False", "target.clone(), model.training, False"
                )
                & change(COPIED, "pass")
                & change("found |=", "before, was = after, before; found |=")
                & change("(after - before)", "(after - was)"),
            ),
        ),
        Mistake(
            "rounding is mistaken for a leak",
            "Rounding changes logits a little. Only a change of more than 0.001 is a"
            " leak.",
            DECODER,
            (change("> 1e-4", "!= 0"), change("1e-4", "1e-9")),
        ),
        Mistake(
            "the threshold for a leak is too high",
            "Every change of more than 0.001 is a leak.",
            DECODER,
            change("1e-4", "0.1"),
        ),
        Mistake(
            "dropout is mistaken for a leak",
            "In train mode, two calls differ even for the same tokens. Put the model"
            " into eval mode.",
            DECODER,
            change("model.eval()", "pass"),
        ),
        Mistake(
            "the model is left in a different mode",
            "`model.training` tells the mode of the model. Store it, and restore it"
            " with `model.train(mode)`.",
            "",
            (
                change("model.train(was_training)", "pass"),
                change("model.train(was_training)", "model.train()"),
            ),
            sign=lambda request, reply, reference: (
                len(reply.outputs) == 3
                and close(reply.outputs[0], reference.outputs[0])
                and not close(reply.outputs[1], reference.outputs[1])
            ),
        ),
        Mistake(
            "a tensor with several values used as a bool",
            "The comparison gives a tensor. Reduce it with `any()`, and convert the"
            " result with `bool`.",
            "",
            sign=error_like("Boolean value of Tensor"),
        ),
        Mistake(
            "neither True nor False is returned",
            "Return True or False, not what was found: `bool` turns it into one.",
            "",
            change("return found", "return [found] * found"),
            sign=error_like("wanted True or False"),
        ),
        *ANYWHERE,
        Mistake(
            "a leak is missed",
            EVERY + " In every sentence, compare all positions before the change.",
            DECODER,
            sign=somewhere(0, lambda given, wanted: given < wanted),
        ),
        Mistake(
            "a leak is reported where there is none",
            ONLY_BEFORE + " Rounding and dropout may change these logits, too.",
            DECODER,
            sign=somewhere(0, lambda given, wanted: given > wanted),
        ),
    ),
)
