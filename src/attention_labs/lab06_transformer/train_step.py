"""train_step: a loss per token, a gradient of a limited length, an update."""

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

    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor
    ) -> tuple[Tensor, None]:
        heard = (self.reader[source] / lengths[:, None, None]).mean(1, keepdim=True)
        return self.table[target] + heard, None


def _use_train_step(
    train: Any,
    table: Tensor,
    reader: Tensor,
    source: Tensor,
    lengths: Tensor,
    target_in: Tensor,
    target_out: Tensor,
    left: Tensor,
    clip_norm: float,
    rate: float,
) -> Any:
    """Train on batches, with gradients that were left over before the first.

    Where the parameters arrive says how each step was made. Last come what should not
    be: losses with a gradient, and modes that were changed.
    """
    model = _Little(table, reader)
    groups = [{"params": [x]} for x in model.parameters()]
    optimizer = torch.optim.SGD(groups, lr=rate)
    model.table.grad, model.reader.grad = left.clone(), left.clone()
    losses, odd_modes = [], 0
    batches = map(Batch, source, lengths, target_in, target_out)
    for number, batch in enumerate(batches):
        model.train(mode := (len(batch.source) + number) % 2 == 0)
        with torch.enable_grad():
            loss = train(model, optimizer, batch, clip_norm)
        if loss is None:
            return None
        odd_modes += model.training != mode
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
    tables = normal(d, size, size), normal(d, size, size), left * normal(d, size, size)
    most = d.number(1, 9) / 1000 if cut else float(d.number(10, 99))
    batch = source, lengths, target_in, target_out
    return Request((*tables[:2], *batch, tables[2], most, d.number(1, 20) / 2))


def _rare(d: Draw) -> list[Request]:
    nothing = _to_train(d)
    *rest, _, rate = nothing.inputs
    asked = [_to_train(d, batches=3), _to_train(d, left=True)]
    return [*asked, replace(nothing, inputs=(*rest, 0.0, rate), about="clip_norm: 0")]


@comparable
def _nothing_learned(request: Request, reply: Reply, reference: Reply) -> bool:
    right = close(reply.outputs[0][:1], reference.outputs[0][:1])
    return right and all(map(close, reply.outputs[1:3], request.inputs[:2]))


@comparable
def _loss_alone(request: Request, reply: Reply, reference: Reply) -> bool:
    (loss, *learned, _), (wanted, *to_learn, _) = reply.outputs, reference.outputs
    return not close(loss, wanted) and all(map(close, learned, to_learn))


PER_TOKEN = (
    "The loss is the sum over all tokens that are not PAD, divided by their number."
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

TRAIN_STEP = Question(
    name="train_step",
    reference=train_step,
    use=_use_train_step,
    battery=BATTERY,
    requirements={
        "lengths": LENGTHS,
        "mean": "The loss is the mean over all tokens that are not padding,",
        "cut": "Then compute the gradient, shorten it to the length `clip_norm` if it"
        " is longer, and make one step of the optimizer.",
        "left": "Gradients that the parameters still hold from earlier steps must not"
        " count.",
        "fields": "A batch has the fields `source`, `lengths`, `target_in` (BOS and"
        " the target: what the decoder gets) and `target_out` (the target and EOS:"
        " what it should predict).",
        "called": "The model is called as `model(source, lengths, target_in)` and"
        " returns logits (B, T, V) and weights.",
        "model": "model: changed in place; its mode (training or evaluation) stays.",
        "optimizer": "optimizer: of the model's parameters.",
        "clip_norm": "clip_norm: longest allowed gradient.",
        "returns": "The loss before the update, in nats per token: a number, or a"
        " tensor without a gradient (`detach`).",
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
            "a long gradient is cut to clip_norm",
            1,
            lambda d: [_to_train(d, cut=True), _to_train(d, 2, padded=True, cut=True)],
            of_outputs(0, 3, same_numbers),
            checks=("cut", "clip_norm"),
        ),
        BATTERY.edges(
            1,
            of_outputs(0, 3, same_numbers),
            claim="each step uses only its own gradient, not one left over from"
            " before; edges",
            also=_rare,
            checks=("lengths", "left"),
        ),
        BATTERY.manners(1, checks=("model", "returns")),
    ),
    mistakes=(
        Mistake(
            "loss on padding",
            PER_TOKEN,
            PADDING,
            edit(train_step, ", ignore_index=PAD", ""),
        ),
        Mistake(
            "divided by padding, too",
            PER_TOKEN,
            PADDING,
            edit(train_step, LOSS, SUM + " / target.numel()"),
        ),
        Mistake(
            "the sum of the losses, not their mean",
            PER_TOKEN,
            FORCING,
            edit(train_step, LOSS, SUM),
        ),
        Mistake(
            "mean of the sentences' means",
            PER_TOKEN + " A token of a short sentence counts as much as any other"
            " token.",
            PADDING,
            edit(train_step, LOSS, MEANS),
        ),
        Mistake(
            "the token that was given is asked for",
            "The decoder gets target_in and should predict target_out, which is one"
            " token further.",
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
            "gradients of earlier steps added",
            "backward adds to the gradients that are there. Call zero_grad before it.",
            "",
            (
                NOT_CLEARED,
                NOT_CLEARED
                & edit(train_step, "optimizer.step()", f"optimizer.step(); {CLEAR}"),
            ),
        ),
        Mistake(
            "the gradient is not cut",
            "nn.utils.clip_grad_norm_ shortens the gradient of all parameters together:"
            " after backward, before step.",
            "",
            edit(
                train_step,
                "nn.utils.clip_grad_norm_(model.parameters(), clip_norm)",
                "",
            ),
        ),
        Mistake(
            "each number of the gradient is cut",
            "The length of the whole gradient may be at most clip_norm. Its direction"
            " stays the same.",
            "",
            edit(train_step, "clip_grad_norm_", "clip_grad_value_"),
        ),
        Mistake(
            "each parameter's gradient is cut for itself",
            "The gradient is one long vector, of all parameters together: its length"
            " may be at most clip_norm.",
            "",
            edit(
                train_step,
                CUT,
                "[nn.utils.clip_grad_norm_([p], clip_norm)"
                " for p in model.parameters()]",
            ),
        ),
        Mistake(
            "every gradient gets the length clip_norm",
            "A gradient that is shorter than clip_norm stays as it is.",
            "",
            edit(
                train_step,
                CUT,
                "length = nn.utils.clip_grad_norm_(model.parameters(), torch.inf)\n"
                "    [p.grad.mul_(clip_norm / length) for p in model.parameters()]",
            ),
        ),
        Mistake(
            "the model is switched to evaluation",
            "model.eval() switches dropout off, which belongs to training: a training"
            " step does not change the mode.",
            sign=comparable(lambda *asked: bool(asked[1].outputs[-1][1] > 0)),
        ),
        Mistake(
            "the loss comes with its graph",
            "If such losses are kept, everything that they were computed from is kept,"
            " too. Return loss.detach(), or a number.",
            sign=comparable(lambda *asked: bool(asked[1].outputs[-1][0] > 0)),
        ),
        Mistake(
            "nothing is learned",
            "The parameters have not changed. Is there a gradient when the optimizer"
            " makes its step?",
            "",
            sign=_nothing_learned,
        ),
        Mistake(
            "another loss is returned",
            "The parameters are right. What is returned is the loss that backward was"
            " called on, in nats per token.",
            FORCING,
            sign=_loss_alone,
        ),
        Mistake(
            "something is wrong with the padding",
            PER_TOKEN,
            PADDING,
            sign=comparable(
                lambda request, reply, reference: bool((request.inputs[5] == PAD).any())
            ),
        ),
        Mistake(
            "something is wrong with the length of the gradient",
            "clip_norm is the longest allowed gradient, over all parameters together.",
            "",
            sign=comparable(
                lambda request, reply, reference: request.inputs[LONGEST] < 1
            ),
        ),
        Mistake(
            "something is wrong from the second step on",
            "The first step is right. Does it leave gradients behind that change the"
            " second step?",
            "",
            sign=comparable(
                lambda request, reply, reference: len(request.inputs[2]) > 1
            ),
        ),
        Mistake(
            "the loss is right, the step is not",
            "Clear the gradients, call backward, shorten the gradient, make the step:"
            " each once, in this order.",
            "",
            sign=comparable(
                lambda request, reply, reference: close(
                    reply.outputs[0][:1], reference.outputs[0][:1]
                )
            ),
        ),
        *ANYWHERE,
        Mistake(
            "another loss",
            "It is the mean of -log P(target_out) over all tokens, with target_in given"
            " to the decoder.",
            FORCING,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
