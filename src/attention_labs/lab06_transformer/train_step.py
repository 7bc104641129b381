"""Question `train_step`: loss per token, gradient clipping and an optimizer step."""

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_course.tasks.core import PAD
from attention_course.tasks.sequences import Batch
from attention_labs.lab06_transformer.shared import LENGTHS, NO_NOTHING
from attention_labs.pages import FORCING, PADDING
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Reply,
    Request,
    close,
    comparable,
    edit,
    normal,
    of_outputs,
    same_numbers,
)


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, clip_norm: float
) -> Tensor:
    """Update the model once, and return the loss in nats per token."""
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    logits, target = logits.flatten(0, 1), batch.target_out.flatten()
    loss = F.cross_entropy(logits, target, ignore_index=PAD)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


LONGEST = 7  # where the longest allowed gradient stands among the inputs


class _Little(nn.Module):
    """A little model: each token predicts the next, and the source helps."""

    def __init__(self, table: Tensor, reader: Tensor):
        super().__init__()
        self.table = nn.Parameter(table.detach().clone())
        self.reader = nn.Parameter(reader.detach().clone())
        self.modes: set[bool] = set()  # in which it was called

    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor
    ) -> tuple[Tensor, None]:
        self.modes.add(self.training)
        heard = (self.reader[source] / lengths[:, None, None]).mean(1, keepdim=True)
        logits = self.table[target] + heard
        return logits.mT.contiguous().mT, None  # a model may make them in any layout


def _use_train_step(
    train: Any,
    table: Tensor,
    reader: Tensor,
    source: Tensor,
    lengths: Tensor,
    target_in: Tensor,
    target_out: Tensor,
    left: Tensor | None,
    clip_norm: float,
    rate: float,
) -> Any:
    """Train on batches, with gradients that were left over before the first.

    Where the parameters arrive says how each step was made. Last come what should not
    be: losses with a gradient, and modes that were changed.
    """
    model = _Little(table, reader)
    rates = (model.table, rate), (model.reader, rate / 2)
    groups = [{"params": [x], "lr": own} for x, own in rates]
    optimizer = torch.optim.SGD(groups, momentum=0.5, weight_decay=0.02)
    if left is not None:
        model.table.grad, model.reader.grad = left.clone(), left.clone()
    losses, odd_modes = [], 0
    batches = map(Batch, source, lengths, target_in, target_out)
    for number, batch in enumerate(batches):
        model.train(mode := (len(batch.source) + number) % 2 == 0).modes.clear()
        with torch.enable_grad():
            loss = train(model, optimizer, batch, clip_norm)
        if loss is None:
            return None
        odd_modes += {model.training, *model.modes} != {mode}
        losses.append(torch.as_tensor(loss, dtype=table.dtype, device=table.device))
    attached = sum(loss.requires_grad for loss in losses)
    odd = table.new_tensor([attached, odd_modes])
    return torch.stack(losses).detach(), model.table, model.reader, odd


def _to_train(
    d: Draw,
    batches: int = 1,
    padded: bool = False,
    left: bool = False,
    cut: bool = False,
) -> Request:
    """Make batches; no gradient here is as long as 10, all are longer than 0.01."""
    rows, size = (batches, d.B), d.V + 1  # beside PAD
    written = torch.randint(0 if padded else d.T, d.T + 1, rows, generator=d)
    written[:, 0] = d.T
    padding = torch.arange(d.T) >= written[..., None]
    target_in, target_out = (
        torch.randint(1, size, (*rows, d.T), generator=d).masked_fill(padding, PAD)
        for _ in range(2)
    )
    source = torch.randint(1, size, (*rows, d.S), generator=d)
    lengths = torch.randint(1, d.S + 1, rows, generator=d)
    tables = normal(d, size, size), normal(d, size, size)
    old = normal(d, size, size) if left else None
    most = d.number(1, 9) / 1000 if cut else float(d.number(10, 99))
    batch = source, lengths, target_in, target_out
    return Request((*tables, *batch, old, most, d.number(1, 20) / 2))


def _nearly(request: Request, share: float) -> Request:
    """Let clip_norm be a share of the norm of the first gradient."""
    table, reader, *batches, left, _, rate = request.inputs
    model = _Little(table, reader)
    with torch.enable_grad():
        still = torch.optim.SGD(model.parameters(), lr=0.0)
        train_step(model, still, Batch(*(x[0] for x in batches)), torch.inf)
    gradients = [x.grad for x in model.parameters() if x.grad is not None]
    norm = float(nn.utils.get_total_norm(gradients))
    return replace(request, inputs=(table, reader, *batches, left, share * norm, rate))


def _cut(d: Draw) -> list[Request]:
    return [
        _to_train(d, cut=True),
        _to_train(d, 2, padded=True, cut=True),
        _nearly(_to_train(d), d.number(6, 9) / 10),
        _nearly(_to_train(d), d.number(12, 15) / 10),
    ]


def _rare(d: Draw) -> list[Request]:
    nothing = _to_train(d)
    *rest, _, rate = nothing.inputs
    asked = [_to_train(d, batches=3), _to_train(d, left=True)]
    zero = replace(nothing, inputs=(*rest, 0.0, rate), about="clip_norm: 0")
    return [*asked, zero, _sure(d)]


def _sure(d: Draw) -> Request:
    """Let all tokens be 1, and the model be sure of it: there is nothing to learn."""
    request = _to_train(d)
    table, *others, target_out, left, most, rate = request.inputs
    table = table + 1e5 * (torch.arange(len(table)) == 1)
    ones = torch.ones_like(target_out)
    inputs = (table, *others, ones, left, most, rate)
    return replace(request, inputs=inputs, about="a gradient of zeros")


@comparable
def _nothing_learned(request: Request, reply: Reply, reference: Reply) -> bool:
    right = close(reply.outputs[0][:1], reference.outputs[0][:1])
    return right and all(map(close, reply.outputs[1:3], request.inputs[:2]))


@comparable
def _loss_alone(request: Request, reply: Reply, reference: Reply) -> bool:
    (loss, *learned, _), (wanted, *to_learn, _) = reply.outputs, reference.outputs
    return not close(loss, wanted) and all(map(close, learned, to_learn))


PER_TOKEN = (
    "The loss is the sum over all tokens that are not PAD, divided by the number of"
    " these tokens."
)

LOSS = "F.cross_entropy(logits, target, ignore_index=PAD)"
CLEAR = "optimizer.zero_grad()"
NOT_CLEARED = edit(train_step, CLEAR, "")
CUT = "nn.utils.clip_grad_norm_(model.parameters(), clip_norm)"
SUM = "F.cross_entropy(logits, target, ignore_index=PAD, reduction='sum')"
MEANS = """torch.stack([
        F.cross_entropy(x, y, ignore_index=PAD)
        for x, y in zip(logits.unflatten(0, batch.target_out.shape), batch.target_out)
    ]).mean()"""

BATTERY = Battery(
    FUNCTION,
    _to_train,
    {
        "B": Axis("sentences"),
        "T": Axis("target positions", long=300),
        "S": Axis("source positions", long=300),
        "V": Axis("tokens beside PAD", long=300),
    },
    leaves_out={
        "in front": "the text says (B, T, V)",
        "long in bfloat16": "a sum over many tokens is rounded",
        **NO_NOTHING,
    },
)

QUESTION = Question(
    name="train_step",
    reference=train_step,
    use=_use_train_step,
    battery=BATTERY,
    requirements={
        "lengths": LENGTHS,
        "mean": "Compute the loss, which is the mean over all tokens that are not"
        " padding:",
        "cut": "Then compute the gradient. Take the gradients of all parameters as one"
        " long vector, and scale this vector down to the Euclidean norm `clip_norm` if"
        " its norm is larger. Then make one step of the optimizer.",
        "left": "The parameters may still hold gradients from earlier steps. Do not"
        " let these old gradients count.",
        "fields": "A batch has the fields `source`, `lengths`, `target_in` and"
        " `target_out`. The decoder reads `target_in`, which is BOS followed by the"
        " target. It should predict `target_out`, which is the target followed by EOS.",
        "called": "Call the model as `model(source, lengths, target_in)`. It returns"
        " logits (B, T, V) and weights. All parameters of the model influence the"
        " logits.",
        "model": "model: updated in place; do not change its mode (train or eval), not"
        " even for one call.",
        "optimizer": "optimizer: an optimizer of the model's parameters.",
        "clip_norm": "clip_norm: the largest allowed Euclidean norm of the gradient.",
        "returns": "The loss before the update, in nats per token: a number or a"
        " detached tensor.",
    },
    properties=(
        BATTERY.numbers(
            "the loss, and the parameters after one step",
            1,
            of_outputs(0, 3, same_numbers),
            checks=("mean", "fields", "called", "model", "optimizer", "returns"),
            gradients=False,
        ),
        BATTERY.line(
            "padding is not part of the loss",
            1,
            lambda d: _to_train(d, padded=True),
            of_outputs(0, 3, same_numbers),
            checks=("mean",),
        ),
        BATTERY.line(
            "a gradient that is too long is shortened to clip_norm",
            1,
            _cut,
            of_outputs(0, 3, same_numbers),
            checks=("cut", "clip_norm"),
        ),
        BATTERY.edges(
            1,
            of_outputs(0, 3, same_numbers),
            claim="no step uses gradients of earlier steps; edge cases",
            also=_rare,
            checks=("lengths", "left"),
        ),
        BATTERY.manners(1, checks=("model", "returns")),
    ),
    mistakes=(
        Mistake(
            "padding is included in the loss",
            PER_TOKEN,
            PADDING,
            edit(train_step, ", ignore_index=PAD", ""),
        ),
        Mistake(
            "padding counts in the mean",
            PER_TOKEN,
            PADDING,
            edit(train_step, LOSS, SUM + " / target.numel()"),
        ),
        Mistake(
            "sum of the losses instead of the mean",
            PER_TOKEN,
            FORCING,
            edit(train_step, LOSS, SUM),
        ),
        Mistake(
            "mean of the per-sentence means",
            PER_TOKEN + " A token of a short sentence counts as much as a token of a"
            " long one.",
            PADDING,
            edit(train_step, LOSS, MEANS),
        ),
        Mistake(
            "the input tokens are used as the target",
            "The decoder reads target_in and should predict target_out, which is one"
            " token ahead.",
            FORCING,
            edit(train_step, "batch.target_out", "batch.target_in"),
        ),
        Mistake(
            "softmax before cross-entropy",
            "F.cross_entropy takes logits and computes the softmax itself.",
            FORCING,
            edit(train_step, "entropy(logits", "entropy(logits.softmax(-1)"),
        ),
        Mistake(
            "gradients of earlier steps are not cleared",
            "backward adds to the gradients that are already there. Call zero_grad"
            " before it.",
            "",
            (
                NOT_CLEARED,
                NOT_CLEARED
                & edit(train_step, "optimizer.step()", f"optimizer.step(); {CLEAR}"),
            ),
        ),
        Mistake(
            "the gradient is not shortened",
            "nn.utils.clip_grad_norm_ shortens the gradients of all parameters"
            " together. Call it after backward and before step.",
            "",
            edit(
                train_step,
                "nn.utils.clip_grad_norm_(model.parameters(), clip_norm)",
                "",
            ),
        ),
        Mistake(
            "each number of the gradient is clipped",
            "Limit the length of the whole gradient, and keep its direction.",
            "",
            edit(train_step, "clip_grad_norm_", "clip_grad_value_"),
        ),
        Mistake(
            "each parameter's gradient is shortened separately",
            "Take the gradients of all parameters as one long vector. Its length may"
            " be at most clip_norm.",
            "",
            edit(
                train_step,
                CUT,
                "[nn.utils.clip_grad_norm_([p], clip_norm)"
                " for p in model.parameters()]",
            ),
        ),
        Mistake(
            "short gradients are scaled up to clip_norm",
            "Do not change a gradient that is shorter than clip_norm.",
            "",
            edit(
                train_step,
                CUT,
                "length = nn.utils.clip_grad_norm_(model.parameters(), torch.inf)\n"
                "    [p.grad.mul_(clip_norm / length) for p in model.parameters()]",
            ),
        ),
        Mistake(
            "the model is put into another mode",
            "Dropout depends on the mode, which the caller has chosen. Do not change it"
            " in a training step, not even for a while.",
            sign=comparable(lambda *asked: bool(asked[1].outputs[-1][1] > 0)),
        ),
        Mistake(
            "the returned loss still requires a gradient",
            "A loss with its graph keeps everything in memory that it was computed"
            " from. Return loss.detach() or a number.",
            sign=comparable(lambda *asked: bool(asked[1].outputs[-1][0] > 0)),
        ),
        Mistake(
            "the parameters do not change",
            "The parameters have not changed. Do the gradients exist when the"
            " optimizer makes its step?",
            "",
            sign=_nothing_learned,
        ),
        Mistake(
            "a wrong loss is returned",
            "The parameters are right. Return the loss that you called backward on, in"
            " nats per token.",
            FORCING,
            sign=_loss_alone,
        ),
        Mistake(
            "wrong when there is padding",
            PER_TOKEN,
            PADDING,
            sign=comparable(
                lambda request, reply, reference: bool((request.inputs[5] == PAD).any())
            ),
        ),
        Mistake(
            "wrong when the gradient has to be clipped",
            "clip_norm limits the length of the gradient of all parameters together.",
            "",
            sign=comparable(
                lambda request, reply, reference: request.inputs[LONGEST] < 1
            ),
        ),
        Mistake(
            "wrong with more than one step",
            "The first step is right. Does it leave gradients behind that change the"
            " second step?",
            "",
            sign=comparable(
                lambda request, reply, reference: len(request.inputs[2]) > 1
            ),
        ),
        Mistake(
            "the loss is right, the update is wrong",
            "Do each of these once, in this order: clear the gradients, call backward,"
            " shorten the gradient, make the step.",
            "",
            sign=comparable(
                lambda request, reply, reference: close(
                    reply.outputs[0][:1], reference.outputs[0][:1]
                )
            ),
        ),
        *ANYWHERE,
        Mistake(
            "a wrong loss",
            "The loss is the mean of -log P(target_out) over all tokens that are not"
            " padding. The decoder reads target_in.",
            FORCING,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
