"""Answers to train_step."""

from functools import partial

import torch
from answers.core import draw, right_edits, wide, wrong_edits
from answers.lab06_transformer.shared import sizes
from answers.signs import AXES, FITS, NAN, NONE, NOTHING

from attention_labs.lab06_transformer.train_step import train_step
from nbjudge import Request, edit


@wide("train_step")
def any_batches(g):
    for b, t, s, v, n, _, _ in sizes(g):
        v += 4
        for clip in (0.01, 0.3, 50.0):
            tokens = torch.randint(v, (2, n, b, t), generator=g)
            tokens[:, :, 0, 0] = v - 1
            source = torch.randint(v, (n, b, s), generator=g)
            lengths = torch.randint(1, s + 1, (n, b), generator=g)
            given = (source, lengths, *tokens, torch.zeros(v, v), clip, 10.0)
            yield Request((draw(g, v, v), draw(g, v, v), *given))


change = partial(edit, train_step)
LOSS = "F.cross_entropy(logits, target, ignore_index=PAD)"
SUM = "F.cross_entropy(logits, target, ignore_index=PAD, reduction='sum')"
CLEAR, BACK, STEP = "optimizer.zero_grad()", "loss.backward()", "optimizer.step()"
CALLED = "logits, _ = model(batch.source, batch.lengths, batch.target_in)"
CUT = "nn.utils.clip_grad_norm_(model.parameters(), clip_norm)"
LENGTH = "torch.sqrt(sum((p.grad**2).sum() for p in model.parameters()))"
# Before they are laid side by side: (B, T, V) and (B, T).
FLAT = "logits, target = logits.flatten(0, 1), batch.target_out.flatten()"
BATCHED = change(FLAT, "target = batch.target_out")

right_edits(
    "train_step",
    usual_step=change(
        FLAT, "logits, target = logits.flatten(0, -2), batch.target_out.flatten()"
    ),
    classes_second=BATCHED & change("(logits, target", "(logits.mT, target"),
    sum_over_count=change(LOSS, SUM + " / (target != PAD).sum()"),
    gathered=BATCHED
    & change(
        LOSS,
        "-(logits.log_softmax(-1).gather(-1, target[..., None])[..., 0]"
        " * (target != PAD)).sum() / (target != PAD).sum()",
    ),
    selected=BATCHED
    & change(LOSS, "F.cross_entropy(logits[target != PAD], target[target != PAD])"),
    masked_mean=change(
        LOSS,
        "F.cross_entropy(logits, target, reduction='none')"
        ".masked_select(target != PAD).mean()",
    ),
    by_nll=BATCHED
    & change(
        LOSS,
        "F.nll_loss(F.log_softmax(logits, dim=-1).flatten(0, 1), target.flatten(),"
        " ignore_index=PAD)",
    ),
    by_logsumexp=change(
        LOSS,
        "((logits.logsumexp(-1) - (logits * F.one_hot(target, logits.size(-1))).sum(-1))"
        " * (target != PAD)).sum() / (target != PAD).sum()",
    ),
    sentence_after_sentence=BATCHED
    & change(
        LOSS,
        "sum(F.cross_entropy(x, y, ignore_index=PAD, reduction='sum')"
        " for x, y in zip(logits, target)) / (target != PAD).sum()",
    ),
    with_a_module=BATCHED
    & change(
        LOSS,
        "nn.CrossEntropyLoss("
        "weight=(torch.arange(logits.size(-1), device=logits.device) != PAD)"
        ".to(logits.dtype))(logits.transpose(1, 2), target)",
    ),
    clipped_by_hand=change(CLEAR, "model.zero_grad()")
    & change(
        CUT,
        f"length = {LENGTH}\n    for p in model.parameters():"
        " p.grad.mul_((clip_norm / (length + 1e-6)).clamp(max=1))",
    ),
    gradients_asked_for=change(CLEAR, "parameters = list(model.parameters())")
    & change(
        BACK,
        "for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):"
        " p.grad = gradient.clone()",
    ),
    cut_in_keywords=change(CLEAR, "optimizer.zero_grad(set_to_none=False)")
    & change(
        "model.parameters(), clip_norm",
        "[*model.parameters()], max_norm=clip_norm, foreach=False",
    ),
    a_plain_number=change("loss.detach()", "loss.item()"),
)

PADDING = "wrong when there is padding"
LEARNED = "the parameters do not change"
LONG = "wrong when the gradient has to be clipped"
RIGHT = "the loss is right, the update is wrong"
ANOTHER = "a wrong loss"

wrong_edits(
    "train_step",
    padding_counted=(
        change(", ignore_index=PAD", ""),
        "padding is included in the loss",
        PADDING,
    ),
    zeros_averaged=(
        change("=PAD)", "=PAD, reduction='none').mean()"),
        "padding counts in the mean",
        PADDING,
    ),
    sentence_means=(
        BATCHED
        & change(
            LOSS,
            "(F.cross_entropy(logits.mT, target, ignore_index=PAD, reduction='none')"
            ".sum(1) / (target != PAD).sum(1)).mean()",
        ),
        "mean of the per-sentence means",
        PADDING,
    ),
    summed=(change(LOSS, SUM), "sum of the losses instead of the mean"),
    per_sentence=(change(LOSS, SUM + " / len(batch.source)"), ANOTHER),
    softmax_twice=(
        change("(logits, target", "(torch.softmax(logits, dim=-1), target"),
        "softmax before cross-entropy",
    ),
    classes_last=(BATCHED, FITS, AXES),
    viewed_not_turned=(
        BATCHED
        & change(
            "(logits, target",
            "(logits.reshape(len(target), -1, target.size(1)), target",
        ),
        ANOTHER,
    ),
    never_cleared=(
        change(CLEAR, ""),
        "gradients of earlier steps are not cleared",
        "wrong with more than one step",
    ),
    cleared_at_the_end=(
        change(CLEAR, "")
        & change(STEP, f"{STEP}; optimizer.zero_grad(set_to_none=False)"),
        "gradients of earlier steps are not cleared",
    ),
    cleared_too_late=(change(CLEAR, "") & change(BACK, f"{BACK}; {CLEAR}"), LEARNED),
    no_step=(change(STEP, ""), LEARNED),
    no_backward=(change(BACK, ""), LEARNED),
    cut_after_the_step=(
        change(CUT, "") & change(STEP, f"{STEP}; {CUT}"),
        "the gradient is not shortened",
        LONG,
    ),
    cut_number_by_number=(
        change(
            CUT, "[p.grad.clamp_(-clip_norm, clip_norm) for p in model.parameters()]"
        ),
        "each number of the gradient is clipped",
        LONG,
    ),
    cut_parameter_by_parameter=(
        change(
            CUT,
            "[nn.utils.clip_grad_norm_([p], clip_norm) for p in model.parameters()]",
        ),
        "each parameter's gradient is shortened separately",
        LONG,
    ),
    always_of_that_length=(
        change(
            CUT,
            f"length = {LENGTH}\n"
            "    for p in model.parameters(): p.grad.mul_(clip_norm / length)",
        ),
        "short gradients are scaled up to clip_norm",
        LONG,
        RIGHT,
    ),
    two_steps=(change(STEP, f"{STEP}; {STEP}"), RIGHT),
    asks_what_it_gives=(
        change("batch.target_out", "batch.target_in"),
        "the input tokens are used as the target",
    ),
    gives_what_it_asks=(change("batch.target_in", "batch.target_out"), ANOTHER),
    nothing_said=(change("return loss.detach()", ""), NOTHING),
    perplexity=(
        change("loss.detach()", "loss.detach().exp()"),
        "a wrong loss is returned",
    ),
    with_its_graph=(
        change("loss.detach()", "loss"),
        "the returned loss still requires a gradient",
    ),
    evaluated=(
        change("logits, _ =", "model.eval(); logits, _ ="),
        "the model is put into another mode",
    ),
    evaluated_for_a_while=(
        change(
            CALLED, f"was = model.training; model.eval(); {CALLED}; model.train(was)"
        ),
        "the model is put into another mode",
    ),
    trained_for_a_while=(
        change(
            CALLED, f"was = model.training; model.train(); {CALLED}; model.train(was)"
        ),
        "the model is put into another mode",
    ),
    steps_by_hand=(
        change(
            STEP,
            "[p.data.sub_(group['lr'] * p.grad)"
            " for group in optimizer.param_groups for p in group['params']]",
        ),
        RIGHT,
    ),
    another_optimizer=(
        change(
            STEP,
            "torch.optim.SGD(model.parameters(), optimizer.param_groups[0]['lr']).step()",
        ),
        RIGHT,
    ),
    optimizer_without_a_memory=(change(CLEAR, f"{CLEAR}; optimizer.state.clear()"),),
    set_to_zero=(
        change(CLEAR, "[p.grad.zero_() for p in model.parameters()]"),
        NONE,
    ),
    length_not_rooted=(
        change(
            CUT,
            f"length = {LENGTH}\n    for p in model.parameters():"
            " p.grad.mul_(clip_norm / length if length**2 > clip_norm else 1.0)",
        ),
        "the gradient is not shortened",
        LONG,
        RIGHT,
    ),
    lengths_added=(
        change(
            CUT,
            "length = sum(p.grad.norm() for p in model.parameters())\n"
            "    for p in model.parameters():"
            " p.grad.mul_((clip_norm / length).clamp(max=1))",
        ),
        LONG,
        RIGHT,
    ),
    divided_by_a_length_of_zero=(
        change(
            CUT,
            f"length = {LENGTH}\n    for p in model.parameters():"
            " p.grad.div_(length).mul_(length.clamp(max=clip_norm))",
        ),
        NAN,
        RIGHT,
    ),
)
