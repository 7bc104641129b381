"""Answers to accuracy."""

import torch
from answers.core import draw, right, wide, wrong
from answers.signs import FITS, NO_NAME, NOTHING

from nbjudge.question import Request


@wide("accuracy")
def any_batches(g):
    for number in range(24):
        sizes = torch.randint(1, 9, (1 + number % 4,), generator=g).tolist()
        words, labels, length = (
            2 + n for n in torch.randint(6, (3,), generator=g).tolist()
        )
        table = draw(g, words, labels)
        source = torch.randint(words, (sum(sizes), length), generator=g)
        answers = torch.where(
            torch.rand(sum(sizes), generator=g) < 0.6,
            table[source[:, 0]].argmax(-1),
            torch.randint(labels, (sum(sizes),), generator=g),
        )
        yield Request((table, source, answers[:, None], sizes, bool(number % 2)))


@right("accuracy")
def accuracy(model, batches):
    was_training = model.training
    model.eval()
    right_ones = count = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            right_ones += (logits.argmax(dim=-1) == batch.labels[:, 0]).sum().item()
            count += len(batch.labels)
    model.train(was_training)
    return right_ones / count


@right("accuracy")
def in_lists(model, batches):
    mode = model.training
    model.train(False)
    said, wanted = [], []
    with torch.no_grad():
        for batch in batches:
            said += model(batch.source, batch.lengths)[0].argmax(-1).tolist()
            wanted += batch.labels.squeeze(-1).tolist()
    model.train(mode)
    return sum(a == b for a, b in zip(said, wanted)) / len(said)


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


@right("accuracy")
def weighted_mean(model, batches):
    training = model.training
    model.eval()
    total, share = 0, 0.0
    with torch.inference_mode():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            n = batch.labels.size(0)
            share += (
                n
                * (logits.max(dim=1).indices == batch.labels.view(-1))
                .double()
                .mean()
                .item()
            )
            total += n
    model.train(training)
    return share / total


def _quiet(function):
    return torch.no_grad()(function)


@right("accuracy", "as_a_decorator")
@_quiet
def as_a_decorator(model, batches):
    was = model.training
    model.eval()
    hits = [int((model(x, n)[0].argmax(-1) == y[:, 0]).sum()) for x, n, y in batches]
    sizes = [len(y) for _, _, y in batches]
    model.train(was)
    return sum(hits) / sum(sizes)


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
def mistakes_counted(model, batches):
    old = model.training
    model.eval()
    wrong_ones, everything = 0, 0
    with torch.no_grad():
        for batch in batches:
            best = model(batch.source, batch.lengths)[0].argmax(-1)
            wrong_ones += torch.count_nonzero(best - batch.labels[:, 0]).item()
            everything += best.shape[0]
    model.train(mode=old)
    return 1 - wrong_ones / everything


@right("accuracy")
def by_the_logits_of_the_label(model, batches):
    was_training = model.training
    model.eval()
    n = k = 0
    with torch.no_grad():
        for batch in batches:
            logits = model(batch.source, batch.lengths)[0]
            k += (logits.gather(1, batch.labels)[:, 0] == logits.amax(1)).sum().item()
            n += logits.size(0)
    if was_training:
        model.train()
    else:
        model.eval()
    return k / n


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


def counted(
    before=lambda model: model.eval(),
    after=lambda model, was: model.train(was),
    grad=torch.no_grad,
):
    def measured(model, batches):
        was, hits, count = model.training, 0, 0
        before(model)
        with grad():
            for b in batches:
                hits += (
                    (model(b.source, b.lengths)[0].argmax(-1) == b.labels[:, 0])
                    .sum()
                    .item()
                )
                count += len(b.labels)
        after(model, was)
        return hits / count

    return measured


def entered(name, thing, *names):
    thing.__name__ = name
    wrong("accuracy", *names)(thing)


entered(
    "left_in_eval",
    counted(after=lambda model, was: None),
    "the model is left in eval mode",
)
entered(
    "left_in_training",
    counted(after=lambda model, was: model.train()),
    "the model is left in training mode",
)
entered(
    "never_in_eval", counted(before=lambda model: None), "measured in training mode"
)
entered("gradients_on", counted(grad=torch.enable_grad), "gradients are kept")


@wrong("accuracy", "gradients are kept")
def gradients_off_for_good(model, batches):
    torch.set_grad_enabled(False)
    return accuracy(model, batches)


@wrong("accuracy", "every answer is compared with every label")
def labels_with_an_axis(model, batches):
    was_training, hits, count = model.training, 0, 0
    model.eval()
    with torch.no_grad():
        for batch in batches:
            hits += (
                (model(batch.source, batch.lengths)[0].argmax(-1) == batch.labels)
                .sum()
                .item()
            )
            count += len(batch.labels)
    model.train(was_training)
    return hits / count


@wrong(
    "accuracy", "counted in another way", "the batches are put together in another way"
)
def mean_with_an_axis(model, batches):
    was_training, hits = model.training, []
    model.eval()
    with torch.no_grad():
        for batch in batches:
            hits += [
                (model(batch.source, batch.lengths)[0].argmax(-1) == batch.labels)
                .float()
                .mean()
            ]
    model.train(was_training)
    return torch.stack(hits).mean().item()


@wrong(
    "accuracy",
    "the mean of the batches' shares",
    "the batches are put together in another way",
)
def mean_of_means(model, batches):
    was_training, shares = model.training, []
    model.eval()
    with torch.no_grad():
        for b in batches:
            shares.append(
                (model(b.source, b.lengths)[0].argmax(-1) == b.labels[:, 0])
                .float()
                .mean()
                .item()
            )
    model.train(was_training)
    return sum(shares) / len(shares)


@wrong("accuracy", "the batches are put together in another way")
def last_batch_alone(model, batches):
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for b in batches:
            share = (
                (model(b.source, b.lengths)[0].argmax(-1) == b.labels[:, 0])
                .float()
                .mean()
                .item()
            )
    model.train(was_training)
    return share


@wrong("accuracy", "the batches are put together in another way")
def first_batch_alone(model, batches):
    return accuracy(model, batches[:1])


@wrong("accuracy", "the likeliest sentence, not the likeliest label", FITS)
def over_sentences(model, batches):
    was_training, hits, count = model.training, 0, 0
    model.eval()
    with torch.no_grad():
        for b in batches:
            hits += (
                (model(b.source, b.lengths)[0].argmax(0) == b.labels[:, 0]).sum().item()
            )
            count += len(b.labels)
    model.train(was_training)
    return hits / count


@wrong("accuracy", "the number of right labels, not their share")
def number_alone(model, batches):
    return accuracy(model, batches) * sum(len(b.labels) for b in batches)


@wrong("accuracy", "counted in another way", "off by one constant factor")
def in_percent(model, batches):
    return 100 * accuracy(model, batches)


@wrong("accuracy", "counted in another way")
def the_errors(model, batches):
    return 1 - accuracy(model, batches)


@wrong(
    "accuracy",
    "the number of right labels, not their share",
    "the batches are put together in another way",
)
def per_batch(model, batches):
    return accuracy(model, batches) * sum(len(b.labels) for b in batches) / len(batches)


@wrong("accuracy", NOTHING)
def share_printed(model, batches):
    print(accuracy(model, batches))


@wrong("accuracy", NO_NAME)
def weights_not_taken_off(model, batches):
    was_training, hits, count = model.training, 0, 0
    model.eval()
    with torch.no_grad():
        for b in batches:
            hits += (
                (model(b.source, b.lengths).argmax(-1) == b.labels[:, 0]).sum().item()
            )
            count += len(b.labels)
    model.train(was_training)
    return hits / count
