"""Answers to train_step."""

import torch
import torch.nn.functional as F
from answers.core import draw, right, wide, wrong
from answers.lab06_transformer.blocks import sizes
from answers.signs import NOTHING
from torch import nn

from attention_course.tasks.core import PAD
from nbjudge.question import Request


@wide("train_step")
def any_batches(g):
    for b, t, s, v, n, _, _ in sizes(g):
        v, n = v + 4, n
        for clip in (1, 30, 5000):
            tokens = torch.randint(v, (2, n, b, t), generator=g)
            tokens[:, :, 0, 0] = v - 1
            source = torch.randint(v, (n, b, s), generator=g)
            yield Request(
                (draw(g, v, v), draw(g, v, v), source, *tokens, torch.empty(clip, 0))
            )


def steps_with(loss=None, update=None, returned=None):
    """Make a step of training of the lines that are given, and the usual ones for the
    rest."""

    def usual_loss(logits, target):
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)

    def usual_update(model, optimizer, loss, clip_norm):
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()

    def train_step(model, optimizer, batch, clip_norm):
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        value = (loss or usual_loss)(logits, batch.target_out)
        (update or usual_update)(model, optimizer, value, clip_norm)
        return value.detach() if returned is None else returned(value)

    return train_step


right("train_step", "usual_step")(steps_with())


def right_loss(loss):
    right("train_step", loss.__name__)(steps_with(loss=loss))


def right_update(update):
    right("train_step", update.__name__)(steps_with(update=update))


@right_loss
def classes_second(logits, target):
    return F.cross_entropy(logits.mT, target, ignore_index=PAD)


@right_loss
def sum_over_count(logits, target):
    total = F.cross_entropy(
        logits.reshape(-1, logits.size(-1)),
        target.reshape(-1),
        ignore_index=PAD,
        reduction="sum",
    )
    return total / (target != PAD).sum()


@right_loss
def gathered(logits, target):
    said = logits.log_softmax(-1).gather(-1, target[..., None])[..., 0]
    return -(said * (target != PAD)).sum() / (target != PAD).sum()


@right_loss
def selected(logits, target):
    real = target != PAD
    return F.cross_entropy(logits[real], target[real])


@right_loss
def masked_mean(logits, target):
    each = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    return each.masked_select(target.flatten() != PAD).mean()


@right_loss
def by_nll(logits, target):
    return F.nll_loss(
        F.log_softmax(logits, dim=-1).flatten(0, 1), target.flatten(), ignore_index=PAD
    )


@right_loss
def by_logsumexp(logits, target):
    real = (target != PAD).to(logits.dtype)
    right_ones = (logits * F.one_hot(target, logits.size(-1))).sum(-1)
    return ((logits.logsumexp(-1) - right_ones) * real).sum() / real.sum()


@right_loss
def sentence_after_sentence(logits, target):
    sums = [
        F.cross_entropy(x, y, ignore_index=PAD, reduction="sum")
        for x, y in zip(logits, target)
    ]
    return sum(sums) / (target != PAD).sum()


@right_loss
def with_a_module(logits, target):
    weight = torch.ones_like(logits[0, 0])
    weight[PAD] = 0
    return nn.CrossEntropyLoss(weight=weight)(logits.transpose(1, 2), target)


@right_update
def clipped_by_hand(model, optimizer, loss, clip_norm):
    model.zero_grad()
    loss.backward()
    length = torch.sqrt(sum((p.grad**2).sum() for p in model.parameters()))
    for p in model.parameters():
        p.grad.mul_((clip_norm / (length + 1e-6)).clamp(max=1))
    optimizer.step()


@right_update
def gradients_asked_for(model, optimizer, loss, clip_norm):
    parameters = list(model.parameters())
    for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
        p.grad = gradient.clone()
    nn.utils.clip_grad_norm_(parameters, clip_norm)
    optimizer.step()


@right_update
def cleared_at_the_end(model, optimizer, loss, clip_norm):
    loss.backward()
    torch.nn.utils.clip_grad_norm_(
        list(model.parameters()), max_norm=clip_norm, foreach=False
    )
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)


right("train_step", "a_plain_number")(steps_with(returned=lambda loss: loss.item()))


def wrong_loss(*names):
    return lambda loss: wrong("train_step", *names)(named(steps_with(loss=loss), loss))


def wrong_update(*names):
    return lambda update: wrong("train_step", *names)(
        named(steps_with(update=update), update)
    )


def named(thing, like):
    thing.__name__ = like.__name__
    return thing


@wrong_loss("loss on padding", "something is wrong with the padding")
def padding_counted(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


@wrong_loss("divided by padding, too", "something is wrong with the padding")
def zeros_averaged(logits, target):
    return F.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="none"
    ).mean()


@wrong_loss("mean of the sentences' means", "something is wrong with the padding")
def sentence_means(logits, target):
    each = F.cross_entropy(logits.mT, target, ignore_index=PAD, reduction="none")
    return (each.sum(1) / (target != PAD).sum(1)).mean()


@wrong_loss("the sum of the losses, not their mean")
def summed(logits, target):
    return F.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum"
    )


@wrong_loss("another loss")
def per_sentence(logits, target):
    return F.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum"
    ) / len(target)


@wrong_loss("softmax before cross-entropy")
def softmax_twice(logits, target):
    return F.cross_entropy(
        torch.softmax(logits, dim=-1).flatten(0, 1), target.flatten(), ignore_index=PAD
    )


@wrong_loss("shapes that do not fit", "written for one number of axes")
def classes_last(logits, target):
    return F.cross_entropy(logits, target, ignore_index=PAD)


@wrong_loss("another loss")
def viewed_not_turned(logits, target):
    return F.cross_entropy(
        logits.reshape(len(target), -1, target.size(1)), target, ignore_index=PAD
    )


@wrong_update(
    "gradients of earlier steps added", "something is wrong from the second step on"
)
def never_cleared(model, optimizer, loss, clip_norm):
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()


@wrong_update("nothing is learned")
def cleared_too_late(model, optimizer, loss, clip_norm):
    loss.backward()
    optimizer.zero_grad()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()


@wrong_update("nothing is learned")
def no_step(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)


@wrong_update("nothing is learned")
def no_backward(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()


@wrong_update(
    "the gradient is not cut", "something is wrong with the length of the gradient"
)
def cut_after_the_step(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)


@wrong_update(
    "each number of the gradient is cut",
    "something is wrong with the length of the gradient",
)
def cut_number_by_number(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        p.grad.clamp_(-clip_norm, clip_norm)
    optimizer.step()


@wrong_update("something is wrong with the length of the gradient")
def cut_parameter_by_parameter(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        nn.utils.clip_grad_norm_([p], clip_norm)
    optimizer.step()


@wrong_update(
    "something is wrong with the length of the gradient",
    "the loss is right, the step is not",
)
def always_of_that_length(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    loss.backward()
    length = torch.sqrt(sum((p.grad**2).sum() for p in model.parameters()))
    for p in model.parameters():
        p.grad.mul_(clip_norm / length)
    optimizer.step()


@wrong_update("the loss is right, the step is not")
def two_steps(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    optimizer.step()


@wrong("train_step", "the token that was given is asked for")
def asks_what_it_gives(model, optimizer, batch, clip_norm):
    return steps_with()(
        model, optimizer, batch._replace(target_out=batch.target_in), clip_norm
    )


@wrong("train_step", "another loss")
def gives_what_it_asks(model, optimizer, batch, clip_norm):
    return steps_with()(
        model, optimizer, batch._replace(target_in=batch.target_out), clip_norm
    )


@wrong("train_step", NOTHING)
def nothing_said(model, optimizer, batch, clip_norm):
    steps_with()(model, optimizer, batch, clip_norm)


wrong("train_step", "another loss is returned")(
    named(
        steps_with(returned=lambda loss: loss.detach().exp()),
        type("perplexity", (), {}),
    )
)


@wrong("train_step", "the model is switched to evaluation")
def evaluated(model, optimizer, batch, clip_norm):
    model.eval()
    return steps_with()(model, optimizer, batch, clip_norm)
