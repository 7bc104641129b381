"""Answers to looks_ahead."""

from functools import partial

import torch
from answers.core import draw, right, right_edits, wide, wrong, wrong_edits
from answers.signs import IN_PLACE, NO_NAME, NOTHING

from attention_labs.lab06_transformer.looks_ahead import looks_ahead
from nbjudge import Request, edit


@wide("looks_ahead")
def any_leak(g):
    for number in range(60):
        b, s, t, v = torch.randint(2, 5, (4,), generator=g).tolist()
        ahead = torch.zeros(t, t, dtype=torch.float64)
        for _ in range(number % 3):
            row, column = torch.randint(t, (2,), generator=g).tolist()
            ahead[row, column] = (0.5, 0.002, 5e-6)[number % 4 % 3]
        yield Request(
            (
                draw(g, v, v),
                ahead.triu(1),
                (torch.rand(v, generator=g) < 0.6).double(),
                (torch.rand(v, generator=g) < 0.6).double(),
                0.5 * (number % 5 == 0),
                number % 2 == 0,
                torch.randint(v, (b, s), generator=g),
                torch.randint(1, s + 1, (b,), generator=g),
                torch.randint(v, (b, t), generator=g),
            )
        )


change = partial(edit, looks_ahead)
COMPARED = "(after - before)[:, :t].abs() > 1e-4"
TRIED = "changed[:, t] = token"

right("looks_ahead")(looks_ahead)
right_edits(
    "looks_ahead",
    largest_change=change(
        f"bool(({COMPARED}).any())",
        "(after - before)[:, :t].abs().amax().item() > 5e-4",
    ),
    with_isclose=change(
        f"bool(({COMPARED}).any())",
        "not torch.allclose(after[:, :t], before[:, :t], rtol=0, atol=1e-4)",
    ),
    from_the_end=change(
        "range(1, target.size(1))", "reversed(range(1, target.size(1)))"
    )
    & change("[:, :t].abs()", "[:, :t].neg().abs()"),
    joined_anew=change(
        f"changed = target.clone()\n            {TRIED}",
        "new = torch.full_like(target[:, :1], token)\n            changed ="
        " torch.cat([target[:, :t], new, target[:, t + 1 :]], dim=1)",
    ),
    all_that_follows=change(TRIED, "changed[:, t:] = token"),
    shifted_round_the_vocabulary=change(
        TRIED, "changed[:, t] = (changed[:, t] + token) % before.size(-1)"
    ),
    squared=change(COMPARED, "(after - before)[:, :t].square() > 1e-7"),
)


@right("looks_ahead")
def stops_at_the_first(model, source, lengths, target):
    training = model.training
    model.train(False)
    try:
        with torch.no_grad():
            before = model(source, lengths, target)[0]
            for t in range(target.shape[1]):
                for token in range(before.shape[-1]):
                    other = target.clone()
                    other[:, t] = token
                    apart = model(source, lengths, other)[0][:, :t] - before[:, :t]
                    if apart.numel() and apart.abs().max() > 1e-3:
                        return True
        return False
    finally:
        model.train(training)


@right("looks_ahead")
def all_tokens_in_one_batch(model, source, lengths, target):
    training = model.training
    model.eval()
    found = []
    before, _ = model(source, lengths, target)
    b, v = target.size(0), before.size(-1)
    for t in range(1, target.size(1)):
        many = target.repeat(v, 1)
        many[:, t] = torch.arange(v, device=target.device).repeat_interleave(b)
        after, _ = model(source.repeat(v, 1), lengths.repeat(v), many)
        found.append((after - before.repeat(v, 1, 1))[:, :t].abs().max() > 2e-4)
    model.train(training)
    return any(found)


@right("looks_ahead")
def sentence_by_sentence(model, source, lengths, target):
    training = model.training
    model.eval()
    found = False
    for i in range(len(target)):
        one = source[i : i + 1], lengths[i : i + 1]
        before = model(*one, target[i : i + 1])[0].detach()
        for t in range(1, target.size(1)):
            for token in range(before.size(2)):
                if token != target[i, t]:
                    changed = target[i : i + 1].clone()
                    changed[0, t] = token
                    after = model(*one, changed)[0].detach()
                    found |= bool((after - before)[0, :t].abs().gt(3e-4).any())
    model.train(training)
    return found


@right("looks_ahead")
def position_by_position(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    worst = before.new_zeros(())
    for t in range(target.size(1) - 1):
        for s in range(t + 1, target.size(1)):
            for token in range(before.size(-1)):
                changed = target.scatter(1, torch.full_like(target[:, :1], s), token)
                apart = model(source, lengths, changed)[0][:, t] - before[:, t]
                worst = torch.maximum(worst, apart.abs().max())
    model.train(training)
    return worst > 1e-4


BEFORE = "positions from the change on are compared"
MISSED = "a leak is missed"
ALARM = "a leak is reported where there is none"
SAID = "neither True nor False is returned"
SIZES = "(after - before)[:, :t].abs()"
NARROW = "some tokens were not tried at some positions"


@wrong("looks_ahead", NARROW)
def cut_off(model, source, lengths, target):
    """Compare with the logits of a shorter target."""
    training = model.training
    model.eval()
    whole, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        part, _ = model(source, lengths, target[:, :t])
        found |= bool(((whole[:, :t] - part).abs() > 1e-4).any())
    model.train(training)
    return found


@wrong("looks_ahead", NARROW)
def moved_by_two(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        changed = target.clone()
        changed[:, t:] = (changed[:, t:] + 2) % before.size(-1)
        after, _ = model(source, lengths, changed)
        found |= bool(((after - before)[:, :t].abs() > 1e-4).any())
    model.train(training)
    return found


@wrong("looks_ahead", MISSED, NARROW)
def stops_at_the_first_clean(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        changed = target.clone()
        for token in range(before.size(-1)):
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found = bool(((after - before)[:, :t].abs() > 1e-4).any())
            if not found:
                break
    model.train(training)
    return found


@wrong("looks_ahead", "a tensor with several values used as a bool")
def a_table(model, source, lengths, target):
    model.eval()
    before, _ = model(source, lengths, target)
    after, _ = model(source, lengths, target.roll(1, dims=1))
    return (after - before).abs() > 1e-4


wrong_edits(
    "looks_ahead",
    only_the_first_token=(change("range(1, target.size(1))", "[0]"), NARROW),
    only_the_second_token=(
        change("range(1, target.size(1))", "range(1, min(2, target.size(1)))"),
        NARROW,
    ),
    without_the_last_token=(
        change("range(1, target.size(1))", "range(1, target.size(1) - 1)"),
        NARROW,
    ),
    only_half_of_the_vocabulary=(
        change("range(before.size(-1))", "range(before.size(-1) // 2 + 1)"),
        NARROW,
    ),
    sum_of_changes=(
        change("[:, :t].abs() > 1e-4).any()", "[:, :t].sum().abs() > 1e-4)"),
        MISSED,
    ),
    mean_change=(
        change("[:, :t].abs() > 1e-4).any()", "[:, :t].abs().mean() > 1e-3)"),
        "the changes are averaged",
    ),
    last_sentence_alone=(change("[:, :t]", "[-1:, :t]"), MISSED),
    last_logit_alone=(change("[:, :t]", "[:, :t, -1]"),),
    all_have_to_change=(change(".any()", ".all()"), MISSED),
    compared_with_the_last=(
        change("found |=", "before, before_that = after, before\n            found |=")
        & change("(after - before)", "(after - before_that)"),
    ),
    compared_everywhere=(
        change("[:, :t]", ""),
        ALARM,
        BEFORE,
    ),
    sign_of_any_change=(change("> 1e-4", "> 0"), "rounding is mistaken for a leak"),
    threshold_too_fine=(change("1e-4", "1e-6"), "rounding is mistaken for a leak"),
    threshold_too_coarse=(
        change("1e-4", "0.01"),
        "the threshold for a leak is too high",
    ),
    probabilities=(
        change("(after - before)", "(after.softmax(-1) - before.softmax(-1))")
        & change("1e-4", "1e-3"),
        "probabilities are compared instead of logits",
        MISSED,
        "the threshold for a leak is too high",
    ),
    in_training_mode=(
        change("model.eval()", "model.train()"),
        "dropout is mistaken for a leak",
    ),
    left_in_evaluation=(
        change("model.train(was_training)", "model.eval()"),
        "the model is left in a different mode",
    ),
    target_spoilt=(change("target.clone()", "target"), IN_PLACE),
    nothing_said=(change("return found", "found"), NOTHING),
    the_opposite=(change("return found", "return not found"),),
    no_decoder_leaks=(change("return found", "return False"), MISSED),
    every_decoder_leaks=(change("return found", "return True"), BEFORE),
    mode_misnamed=(change("model.training", "model.mode"), NO_NAME),
    changes_added_up=(
        change(f"bool(({COMPARED}).any())", f"bool(({SIZES}).sum() > 1e-3)"),
        ALARM,
    ),
    squares_added_up=(
        change(f"bool(({COMPARED}).any())", f"bool(({SIZES}**2).sum() > 1e-6)"),
        ALARM,
    ),
    changes_of_a_position_added_up=(
        change(f"bool(({COMPARED}).any())", f"bool(({SIZES}.sum(-1) > 1e-3).any())"),
        ALARM,
    ),
    ten_tokens=(
        change("range(before.size(-1))", "range(min(10, before.size(-1)))"),
        NARROW,
    ),
    eight_positions=(
        change("range(1, target.size(1))", "range(1, min(8, target.size(1)))"),
        NARROW,
    ),
    three_positions_back=(change("[:, :t]", "[:, max(0, t - 3) : t]"), MISSED),
    eight_logits=(change("[:, :t]", "[:, :t, :8]"), MISSED),
    four_sentences=(change("[:, :t]", "[:4, :t]"), MISSED),
    from_a_target_of_zeros=(
        change("model(source, lengths, target)", "model(source, lengths, 0 * target)")
        & change("target.clone()", "0 * target"),
        "another target than the given one",
    ),
    where_it_leaks=(
        change("found |= bool", "found = (found or []) + [t] * bool")
        & change("return found", "return found or []"),
        SAID,
    ),
    how_often_it_leaks=(change("found |= bool", "found += bool"), SAID),
)


@wrong("looks_ahead", "another target than the given one", MISSED)
def goes_on_from_the_last_change(model, source, lengths, target):
    training = model.training
    model.eval()
    changed, found = target.clone(), False
    before, _ = model(source, lengths, changed)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= bool(((after - before)[:, :t].abs() > 1e-4).any())
            before = after
    model.train(training)
    return found
