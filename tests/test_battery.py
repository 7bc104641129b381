"""The battery: no variation of a kind is forgotten, each notices what it is for, and the
requirements of the labs' texts are those that the questions check."""

import dataclasses
import re

import pytest
import torch
from answers import notebooks
from torch import nn

from attention_labs import QUESTIONS
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    MODULE,
    Axis,
    Battery,
    Draw,
    Question,
    Request,
    normal,
)
from nbjudge.evaluation import evaluate, is_right
from nbjudge.in_process import in_process
from nbjudge.variations import EDGES, MANNERS

WITH_BATTERY = {name: q for name, q in QUESTIONS.items() if q.battery}


@pytest.mark.parametrize("question", WITH_BATTERY.values(), ids=WITH_BATTERY)
def test_what_is_left_out_has_a_reason(question):
    battery = question.battery
    can = {
        "zero": any(axis.least == 0 for axis in battery.axes.values()),
        "long": any(axis.long for axis in battery.axes.values()),
        "in front": battery.leading,
        "alike": len(battery.axes) > 1,
    }
    assert set(battery.leaves_out) <= set(battery.kind)
    assert all(len(reason) > 10 for reason in battery.leaves_out.values())
    for name in battery.kind:
        assert name in {*EDGES, *MANNERS}
        assert can.get(name, True) or name in battery.leaves_out, name


@pytest.mark.parametrize("question", WITH_BATTERY.values(), ids=WITH_BATTERY)
def test_every_variation_is_asked(question):
    asked = {request.variation for request in _requests(question)}
    if any(checked.throughout for checked in question.properties):
        asked.add("unchanged")
    assert set(question.battery.applied()) <= asked


@pytest.mark.parametrize("question", WITH_BATTERY.values(), ids=WITH_BATTERY)
def test_a_second_call_is_in_eval_mode_too_where_that_is_a_mode(question):
    again = [x for x in _requests(question) if x.variation == "second call"]
    refilled = {request.training for request in again if request.refilled}
    other = {request.training for request in again if not request.refilled}
    applies = "eval mode" in question.battery.applied()
    both = {True, False} if applies else {True}
    assert refilled in (set(), both) and other in (set(), both)
    assert again or "second call" not in question.battery.applied()


@pytest.mark.parametrize("question", WITH_BATTERY.values(), ids=WITH_BATTERY)
def test_lengths_are_drawn_anew(question):
    def shapes(seed):
        return [
            tuple(x.shape)
            for request in question.properties[0].requests(Draw(seed))
            for x in request.inputs
            if isinstance(x, torch.Tensor)
        ]

    if any(isinstance(x, torch.Tensor) for x in _first(question).inputs):
        assert len({tuple(shapes(seed)) for seed in range(4)}) > 1


def _requests(question):
    return [x for checked in question.properties for x in checked.requests(Draw(1))]


def _first(question):
    return next(iter(question.properties[0].requests(Draw(0))))


# --- what each variation is for -------------------------------------------------------


def _row_sums(draw=None, kind=FUNCTION, **settings):
    battery = Battery(
        kind,
        draw or (lambda d: Request((normal(d, *d.leading, d.S, d.D),))),
        {"B": Axis("rows", least=0), "S": Axis("keys", long=1100), "D": Axis("width")},
        leading=3,
        **settings,
    )
    return Question(
        name="sums",
        reference=lambda x: 2 * x.sum(-1),
        use=lambda answer, x: answer(x),
        battery=battery,
        properties=(battery.numbers("sums", 1), battery.edges(1), battery.manners(1)),
        mistakes=(),
    )


def _keeping():
    kept = {}

    def keeps(x):
        return kept.setdefault(x.shape, 2 * x.sum(-1))

    return keeps


def in_place(x):
    x *= 2
    return x.sum(-1)


def without_numbers(x):
    if x.sum() == 12345.0:
        return x
    return 2 * x.sum(-1)


WRONG = {
    "one": lambda x: 2 * x.sum(-1).squeeze(-1),
    "alike": lambda x: 2 * x.sum(-1 if x.size(-1) != x.size(-2) else -2),
    "in front": lambda x: 2 * x.sum(2) if x.dim() == 3 else 2 * x.sum(1),
    "long": lambda x: 2 * x[..., :500, :].sum(-1),
    "large": lambda x: 2 * x.clamp(-1e4, 1e4).sum(-1),
    "second call": _keeping(),
    "unchanged": in_place,
    "strided": lambda x: 2 * x.view(-1, x.size(-1)).sum(-1).view(x.shape[:-1]),
    "float32": lambda x: 2 * (x + 1e9).sub(1e9).sum(-1),
    "bfloat16": lambda x: 2 * x.to(torch.float32).sum(-1),
    "elsewhere": lambda x: x.sum(-1) * torch.full(x.shape[:-1], 2).to(x.dtype),
    "device": lambda x: 2 * x.sum(-1).cpu(),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", WRONG)
def test_a_variation_notices_what_it_is_for(name, seed):
    numbers, edges, manners = evaluate(
        _row_sums(), in_process(_row_sums(), WRONG[name]), seed
    )
    assert numbers.finding is None or name in ("float32", "second call")
    assert (edges if name in EDGES else manners).finding is not None


@pytest.mark.parametrize(
    "short",
    [
        lambda x: 2 * x.float().sum(-1).to(x.dtype),
        lambda x: 2 * x.sum(-1).float().to(x.dtype),
    ],
)
def test_digits_that_are_lost_cost_the_line_of_good_manners(short):
    question = _row_sums()
    question = dataclasses.replace(question, mistakes=ANYWHERE)
    numbers, edges, manners = evaluate(question, in_process(question, short))
    assert numbers.finding is None
    assert manners.mistake.name == "digits are lost on the way" and manners.exact


def test_a_zero_among_other_numbers_is_tried():
    def zeros_win(x):
        return 2 * x.sum(-1).masked_fill((x == 0).any(-1), 0)

    numbers, edges, _ = evaluate(_row_sums(), in_process(_row_sums(), zeros_win))
    assert numbers.finding is None and edges.finding is not None


def test_a_loop_that_depends_on_values_costs_nothing():
    question = _row_sums()
    results = evaluate(question, in_process(question, without_numbers))
    assert all(r.finding is None for r in results), results


def test_a_map_over_the_first_axis_costs_nothing():
    def mapped(x):
        return torch.func.vmap(lambda row: 2 * row.sum(-1))(x) if len(x) else x.sum(-1)

    results = evaluate(_row_sums(), in_process(_row_sums(), mapped))
    assert all(r.finding is None for r in results), results


def test_what_is_nearly_zero_is_no_rounded_zero():
    question = dataclasses.replace(
        _row_sums(), reference=lambda x: 0 * x.sum(-1), mistakes=ANYWHERE
    )
    nearly = in_process(question, lambda x: 1e-6 * x.sum(-1).sigmoid())
    *_, manners = evaluate(question, nearly)
    assert manners.finding is not None and not manners.exact


def test_nothing_is_the_right_number_of_sums():
    question = _row_sums()
    door = in_process(question, lambda x: 2 * x.sum(-1) if len(x) else x.sum())
    assert evaluate(question, door)[1].finding is not None


class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x @ self.weight


class Shares(Scaled):
    known: dict = {}

    def forward(self, x):
        weight = self.known.setdefault(self.weight.shape, self.weight)
        return x @ weight


class WithBuffer(Scaled):
    def __init__(self, width):
        super().__init__(width)
        self.register_buffer("one", torch.ones(()))

    def forward(self, x):
        return super().forward(x) * self.one


class OnlyTrains(Scaled):
    def forward(self, x):
        return super().forward(x) * (1 if self.training else 2)


class KeptForTensors(Scaled):
    """Is wrong if a tensor that it has seen before holds other numbers now."""

    def __init__(self, width):
        super().__init__(width)
        self.kept = {}

    def forward(self, x):
        _, total = self.kept.setdefault(id(x), (x, x.detach().sum()))
        return super().forward(x) * (1 if total == x.sum() else 2)


class KeptForNumbers(KeptForTensors):
    """Is wrong if it sees the same numbers again, but has other parameters now."""

    def forward(self, x):
        total = self.weight.detach().sum()
        total = self.kept.setdefault(float(x.detach().sum()), total)
        return Scaled.forward(self, x) * (1 if total == self.weight.sum() else 2)


def _scaled():
    def draw(d):
        weight = {"weight": normal(d, d.D)}
        return Request((normal(d, *d.leading, d.S, d.D),), (d.D,), weight)

    axes = {"B": Axis("rows"), "S": Axis("keys"), "D": Axis("width", fixed=True)}
    battery = Battery(MODULE, draw, axes, leading=3)
    return Question(
        name="scaled",
        reference=Scaled,
        use=lambda answer, x: answer(x),
        battery=battery,
        properties=(battery.numbers("sums", 1), battery.edges(1), battery.manners(1)),
        mistakes=(),
    )


@pytest.mark.parametrize("thing", [Scaled, WithBuffer])
def test_a_right_module_may_keep_a_buffer(thing):
    results = evaluate(_scaled(), in_process(_scaled(), thing))
    assert sum(r.earned for r in results) == 3


@pytest.mark.parametrize("thing", [Shares, OnlyTrains])
def test_a_module_is_tried_beside_another_and_in_both_modes(thing):
    Shares.known.clear()
    results = evaluate(_scaled(), in_process(_scaled(), thing))
    assert results[1].finding is not None


@pytest.mark.parametrize("thing", [KeptForTensors, KeptForNumbers])
def test_what_a_module_keeps_for_an_earlier_call_is_tried(thing):
    results = evaluate(_scaled(), in_process(_scaled(), thing))
    assert results[0].finding is None
    assert results[1].finding is not None


# What a text says and no answer can break: where something comes from, what may be used.
SAID_ONLY = re.compile(
    r"^\w+: (from|see|called as) |not needed here|^task: has |stands? in for yours"
    r"|^You can use your |^Use your |knows\.$|`attention\.(remember|ask)|costs no points here|\(Section"
    r"|^Return two lists|^With `need_weights=False` it is faster"
)

# --- requirements ---------------------------------------------------------------------


def _plain(text):
    return " ".join(text.split())


TEXTS = {lab: notebooks.text(lab) for lab in notebooks.labs()}
WITH_REQUIREMENTS = {n: q for n, q in QUESTIONS.items() if q.requirements}


@pytest.mark.parametrize("question", WITH_REQUIREMENTS.values(), ids=WITH_REQUIREMENTS)
def test_each_requirement_stands_in_the_lab_and_is_checked(question):
    text = next(t for t in TEXTS.values() if f'check("{question.name}"' in t)
    for sentence in question.requirements.values():
        assert _plain(sentence) in text, sentence
    checked = {key for p in question.properties for key in p.checks}
    assert checked == set(question.requirements)


@pytest.mark.parametrize("question", WITH_REQUIREMENTS.values(), ids=WITH_REQUIREMENTS)
def test_no_line_of_the_docstring_is_left_over(question):
    required = " ".join(map(_plain, question.requirements.values()))
    for line in notebooks.promised(question.name):
        for sentence in re.split(r"(?<=[.;]) +", line):
            assert sentence in required or SAID_ONLY.search(sentence), sentence


@pytest.mark.parametrize("row", [0, -1])
def test_a_mask_that_is_read_off_one_sentence_is_wrong(row):
    def attend(scores, value, mask=None, dropout=None):
        if mask is not None and mask.dim() > 2 and mask[row].all():
            mask = None
        return QUESTIONS["attend"].reference(scores, value, mask, dropout)

    question = QUESTIONS["attend"]
    assert not is_right(question, in_process(question, attend), 1)


def test_copies_that_have_lost_digits_are_wrong():
    question = QUESTIONS["merge_heads"]
    lossy = in_process(question, lambda x: question.reference(x.float()).to(x.dtype))
    assert not is_right(question, lossy, 1)


def test_an_input_with_gaps_cannot_be_flattened_without_a_copy():
    layouts = []

    def split(x, num_heads):
        layouts.append((x.size(-1), *x.stride()[-2:]))
        return QUESTIONS["split_heads"].reference(x, num_heads)

    question = QUESTIONS["split_heads"]
    assert is_right(question, in_process(question, split), 1)
    assert any(gap > 1 and row > width * gap for width, row, gap in layouts)


def test_an_order_that_was_kept_for_other_heads_is_wrong():
    kept = {}

    def merge(x):
        B, H, T, W = x.shape
        order = torch.arange(H * T * W).view(H, T, W).transpose(0, 1).flatten()
        order = kept.setdefault((T, H * W), order)
        return x.flatten(1)[:, order.to(x.device)].view(B, T, H * W)

    question = QUESTIONS["merge_heads"]
    assert not is_right(question, in_process(question, merge), 1)


def test_products_of_sentence_numbers_in_32_bits_are_wrong():
    question = QUESTIONS["packed_rows"]

    def packed(sentence):
        short = sentence.int()
        same = short[:, :, None] * short[:, None] == (short * short)[:, :, None]
        mask = same & (sentence > 0)[:, None] & (sentence > 0)[:, :, None]
        return mask, mask.tril(-1).sum(-1)

    assert not is_right(question, in_process(question, packed), 1)


def test_positions_that_are_added_in_float32_are_wrong():
    question = QUESTIONS["sinusoidal_positions"]

    class Short(question.reference):
        def forward(self, x, past=0):
            return super().forward(x.float(), past).to(x.dtype)

    assert not is_right(question, in_process(question, Short), 1)


def test_an_embedding_that_went_through_float32_is_wrong():
    def grow(embedding, count):
        grown = question.reference(embedding, count)
        return grown.float().to(embedding.weight.dtype)

    question = QUESTIONS["grow_embedding"]
    assert not is_right(question, in_process(question, grow), 1)


def test_no_gradient_for_a_part_that_is_zero_is_wrong():
    def merge(x):
        merged = x.new_zeros(x.size(0), x.size(2), x.size(1), x.size(3))
        for head in range(x.size(1)):
            if x[:, head].any():
                merged[:, :, head] = x[:, head]
        return merged.flatten(2)

    question = QUESTIONS["merge_heads"]
    assert not is_right(question, in_process(question, merge), 1)


@pytest.mark.parametrize("name", ["sinusoidal_positions", "rotary"])
def test_no_gradient_in_eval_mode_is_wrong(name):
    question = QUESTIONS[name]

    class Detached(question.reference):
        def forward(self, x, past=0):
            return super().forward(x if self.training else x.detach(), past)

    assert not is_right(question, in_process(question, Detached), 1)


@pytest.mark.parametrize("name", ["accuracy", "looks_ahead"])
def test_a_model_that_is_lent_comes_back_as_it_was(name):
    question, was_frozen = QUESTIONS[name], name == "accuracy"

    def careless(model, *others):
        result = question.reference(model, *others)
        model.requires_grad_(was_frozen)
        return result

    assert not is_right(question, in_process(question, careless), 1)


def test_a_mean_that_was_kept_for_an_embedding_is_wrong():
    means = {}

    def grow(embedding, count):
        grown = question.reference(embedding, count)
        if count:
            mean = grown.weight[-1].detach().clone()
            _, mean = means.setdefault(id(embedding), (embedding, mean))
            grown.weight.data[-count:] = mean
        return grown

    question = QUESTIONS["grow_embedding"]
    assert not is_right(question, in_process(question, grow), 1)


def test_sentences_may_go_through_the_blocks_one_by_one():
    question = QUESTIONS["cached_step"]

    class OneByOne(question.reference):
        def step(self, token, memory, cache):
            def of(entry, b):
                if entry is None:
                    return None
                key, value = (x[b : b + 1] for x in (entry.key, entry.value))
                return entry._replace(key=key, value=value)

            logits, entries = [], []
            for b, one in enumerate(token.split(1)):
                alone = memory._replace(
                    layers=tuple(of(layer, b) for layer in memory.layers),
                    mask=memory.mask[b : b + 1],
                )
                past = tuple(of(entry, b) for entry in cache)
                said, _, kept = super().step(one, alone, past)
                logits.append(said)
                entries.append(kept)
            merged = tuple(
                part[0]._replace(
                    key=torch.cat([x.key for x in part]),
                    value=torch.cat([x.value for x in part]),
                )
                for part in zip(*entries)
            )
            return torch.cat(logits), None, merged

    assert is_right(question, in_process(question, OneByOne), 1)


@pytest.mark.parametrize("seed", [1, 3])
def test_a_bandwidth_in_float32_costs_nothing(seed):
    class Rounded(nn.Module):
        def __init__(self, bandwidth):
            super().__init__()
            self.bandwidth = bandwidth

        def project_keys(self, key):
            return key

        def forward(self, query, projected):
            rho = torch.tensor(self.bandwidth, dtype=torch.float32).to(query.device)
            gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
            return -gap.square().sum(dim=-1) / (2 * rho.square())

    question = QUESTIONS["gaussian"]
    assert is_right(question, in_process(question, Rounded), seed)
