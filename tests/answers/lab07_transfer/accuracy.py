"""Answers to accuracy."""

from functools import partial

import torch
from answers.core import draw, right, right_edits, wide, wrong_edits
from answers.signs import FITS, IN_PLACE, NO_NAME, NOTHING

from attention_labs.lab07_transfer.accuracy import accuracy
from nbjudge import Request, edit


@wide("accuracy")
def any_batches(g):
    for number in range(24):
        sizes = torch.randint(1, 9, (1 + number % 4,), generator=g).tolist()
        words, labels, length = (2 + torch.randint(6, (3,), generator=g)).tolist()
        table = draw(g, words, labels)
        batches = []
        for size in sizes:
            source = torch.randint(words, (size, length), generator=g)
            lengths = torch.full((size,), length)
            answers = torch.where(
                torch.rand(size, generator=g) < 0.6,
                table[source[:, -1]].argmax(-1),
                torch.randint(labels, (size,), generator=g),
            )
            batches.append([source, lengths, answers[:, None]])
        yield Request((table, batches, bool(number % 2)))


change = partial(edit, accuracy)
HITS = "(logits.argmax(-1) == batch.labels[:, 0]).sum()"
ADDED = f"right += int({HITS})"

right("accuracy")(accuracy)
right_edits(
    "accuracy",
    in_lists=change(
        f"int({HITS})",
        "sum(a == b for a, b in zip(logits.argmax(-1).tolist(),"
        " batch.labels.squeeze(-1).tolist()))",
    )
    & change("model.eval()", "model.train(False)"),
    weighted_mean=change("no_grad", "inference_mode")
    & change(
        f"int({HITS})",
        "batch.labels.size(0) * (logits.max(dim=1).indices == batch.labels.view(-1))"
        ".double().mean().item()",
    ),
    mistakes_counted=change(
        f"int({HITS})",
        "torch.count_nonzero(logits.argmax(-1) - batch.labels[:, 0]).item()",
    )
    & change("right / count", "1 - right / count")
    & change("train(was_training)", "train(mode=was_training)"),
    by_the_logits_of_the_label=change(
        f"int({HITS})",
        "(logits.gather(1, batch.labels)[:, 0] == logits.amax(1)).sum().item()",
    )
    & change("len(batch.labels)", "logits.size(0)"),
)


@right("accuracy")
def all_at_the_end(model, batches):
    before = model.training
    model.eval()
    with torch.no_grad():
        hits = [
            model(b.source, b.lengths)[0].argmax(1, keepdim=True) == b.labels
            for b in batches
        ]
    if before:
        model.train()
    return torch.cat(hits).float().mean().item()


def _quiet(function):
    return torch.no_grad()(function)


@right("accuracy", "as_a_decorator")
@_quiet
def as_a_decorator(model, batches):
    was = model.training
    model.eval()
    hits = [int((model(x, n)[0].argmax(-1) == y[:, 0]).sum()) for x, n, y in batches]
    model.train(was)
    return sum(hits) / sum(len(y) for _, _, y in batches)


@right("accuracy")
def with_finally(model, batches):
    was = model.training
    try:
        model.eval()
        counts = torch.zeros(2)
        for batch in batches:
            with torch.no_grad():
                best = torch.argmax(model(batch.source, batch.lengths)[0], dim=1)
            counts += torch.tensor(
                [best.eq(batch.labels.flatten()).sum(), best.numel()]
            )
        return float(counts[0] / counts[1])
    finally:
        model.train(was)


@right("accuracy")
def sentence_by_sentence(model, batches):
    was, hits = model.training, []
    model.eval()
    for source, lengths, labels in batches:
        with torch.no_grad():
            for row, length, label in zip(source, lengths, labels):
                logits = model(row[None], length[None])[0][0]
                hits.append(logits.argmax().item() == label.item())
    model.train(was)
    return hits.count(True) / len(hits)


@right("accuracy")
def by_set_grad_enabled(model, batches):
    was_training, enabled = model.training, torch.is_grad_enabled()
    model.eval()
    torch.set_grad_enabled(False)
    scores = [
        (model(b.source, b.lengths)[0].topk(1).indices == b.labels).squeeze(1)
        for b in batches
    ]
    torch.set_grad_enabled(enabled)
    model.train(was_training)
    flat = [bool(x) for row in scores for x in row]
    return sum(flat) / len(flat)


@right("accuracy")
def through_numpy(model, batches):
    state = bool(model.training)
    model.eval()
    with torch.no_grad():
        pairs = [
            (model(b.source, b.lengths)[0].numpy().argmax(1), b.labels.numpy()[:, 0])
            for b in batches
        ]
    model.train(state)
    return float(sum((a == b).sum() for a, b in pairs) / sum(len(a) for a, _ in pairs))


EVAL, BACK = "model.eval()", "model.train(was_training)"
SHARE = "return right / count"
COUNTED = "wrong answers count"
BATCHES = "the batches are put together in a wrong way"
NUMBER = "number of right labels instead of their share"

wrong_edits(
    "accuracy",
    left_in_eval=(change(BACK, "pass"), "the model is left in eval mode"),
    left_in_training=(
        change(BACK, "model.train()"),
        "the model is left in train mode",
    ),
    never_in_eval=(change(EVAL, "pass"), "measured in train mode"),
    gradients_on=(
        change("no_grad", "enable_grad"),
        "gradients not switched off, or not restored",
    ),
    gradients_off_for_good=(
        change(EVAL, f"torch.set_grad_enabled(False); {EVAL}"),
        "gradients not switched off, or not restored",
    ),
    labels_with_an_axis=(
        change("batch.labels[:, 0]", "batch.labels"),
        "every prediction is compared with every label",
    ),
    mean_with_an_axis=(
        change(HITS, "0) + (logits.argmax(-1) == batch.labels).double().mean(")
        & change("len(batch.labels)", "1"),
        "every prediction is compared with every label",
        COUNTED,
        BATCHES,
    ),
    mean_of_means=(
        change(f"{HITS})", f"{HITS}) / len(batch.labels)")
        & change("+= len(batch.labels)", "+= 1"),
        "mean of the per-batch accuracies",
        BATCHES,
    ),
    last_batch_alone=(
        change("right +=", "right =") & change("count +=", "count ="),
        "only one batch counts",
    ),
    first_batch_alone=(
        change("in batches", "in batches[:1]"),
        "only one batch counts",
    ),
    over_sentences=(
        change("argmax(-1)", "argmax(0)"),
        "the most probable sentence, not the most probable label",
        FITS,
    ),
    after_a_sigmoid=(change("logits.argmax", "logits.sigmoid().argmax"), COUNTED),
    above_a_hundred_below=(
        change(
            "logits.argmax(-1)", "(logits.max(-1).indices * (logits.amax(-1) > -100))"
        ),
        COUNTED,
    ),
    parameters_switched_off=(
        change(EVAL, f"{EVAL}; model.requires_grad_(False)"),
        IN_PLACE,
    ),
    gradients_cleared=(change(EVAL, f"{EVAL}; model.zero_grad()"), IN_PLACE),
    number_alone=(change("right / count", "right"), NUMBER),
    in_percent=(
        change(SHARE, "return 100 * right / count"),
        COUNTED,
        "off by a constant factor",
    ),
    the_errors=(change(SHARE, "return 1 - right / count"), COUNTED),
    per_batch=(change(SHARE, "return right / len(batches)"), NUMBER, BATCHES, COUNTED),
    share_printed=(change(SHARE, "print(right / count)"), NOTHING),
    weights_not_taken_off=(change("logits, _ =", "logits ="), NO_NAME),
)
