"""train_step: a loss per token, a gradient of a limited length, an update."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_course.tasks.core import PAD
from attention_course.tasks.sequences import Batch
from attention_labs.lab06_transformer.shared import S, T, V
from attention_labs.pages import FORCING, PADDING
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    close,
    comparable,
    edit,
    error_like,
    normal,
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


class _Little(nn.Module):
    """A little model: each token predicts the next, and the source helps."""

    def __init__(self, table: Tensor, reader: Tensor):
        super().__init__()
        self.table = nn.Parameter(table.detach().clone())
        self.reader = nn.Parameter(reader.detach().clone())

    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor
    ) -> tuple[Tensor, None]:
        return self.table[target] + self.reader[source].mean(1, keepdim=True), None


def _use_train_step(
    train: Any,
    table: Tensor,
    reader: Tensor,
    source: Tensor,
    target_in: Tensor,
    target_out: Tensor,
    clip_norm: float,
) -> Any:
    """Train on batches; where the parameters arrive says how each step was made."""
    model = _Little(table, reader)
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    losses = []
    for read, given, wanted in zip(source, target_in, target_out):
        batch = Batch(read, torch.full((len(read),), read.size(1)), given, wanted)
        with torch.enable_grad():
            loss = train(model, optimizer, batch, clip_norm)
        if loss is None:
            return None
        losses.append(torch.as_tensor(loss, dtype=table.dtype).detach())
    if not model.training:
        raise ValueError("the model came in training and was left in evaluation")
    return torch.stack(losses), model.table, model.reader


# no gradient here is as long as 10, and all are longer than 0.02
NEVER, SHORT = 10.0, 0.02


def _to_train(
    g: torch.Generator,
    batches: int = 1,
    lengths: Sequence[int] = (T, T, T),
    clip_norm: float = NEVER,
) -> Request:
    shape = (batches, len(lengths), T)
    padding = torch.arange(T) >= torch.tensor(lengths)[:, None]
    target_in = torch.randint(4, V, shape, generator=g).masked_fill(padding, PAD)
    target_out = torch.randint(4, V, shape, generator=g).masked_fill(padding, PAD)
    source = torch.randint(4, V, (batches, len(lengths), S), generator=g)
    tables = (normal(g, V, V), normal(g, V, V))
    return Request((*tables, source, target_in, target_out, clip_norm))


@comparable
def _nothing_learned(request: Request, reply: Reply, reference: Reply) -> bool:
    return all(map(close, reply.outputs[1:], request.inputs[:2]))


@comparable
def _loss_alone(request: Request, reply: Reply, reference: Reply) -> bool:
    (loss, *learned), (wanted, *to_learn) = reply.outputs, reference.outputs
    return not close(loss, wanted) and all(map(close, learned, to_learn))


PER_TOKEN = (
    "The loss is the sum over all tokens that are not PAD, divided by their number."
)

LOSS = "F.cross_entropy(logits, target, ignore_index=PAD)"
CUT = "nn.utils.clip_grad_norm_(model.parameters(), clip_norm)"
SUM = "F.cross_entropy(logits, target, ignore_index=PAD, reduction='sum')"
MEANS = """torch.stack([
        F.cross_entropy(x, y, ignore_index=PAD)
        for x, y in zip(logits.unflatten(0, batch.target_out.shape), batch.target_out)
    ]).mean()"""

TRAIN_STEP = Question(
    name="train_step",
    reference=train_step,
    use=_use_train_step,
    properties=(
        Property(
            "the loss, and the parameters after one step",
            2,
            lambda g: [_to_train(g)],
            same_numbers,
        ),
        Property(
            "padding is no part of the loss",
            1,
            lambda g: [_to_train(g, lengths=(T, 1, T - 2))],
            same_numbers,
        ),
        Property(
            "each step has a gradient of its own",
            1,
            lambda g: [_to_train(g, batches=3)],
            same_numbers,
        ),
        Property(
            "a long gradient is cut to clip_norm",
            1,
            lambda g: [
                _to_train(g, clip_norm=SHORT),
                _to_train(g, batches=2, lengths=(T, 2, T - 1), clip_norm=SHORT),
            ],
            same_numbers,
        ),
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
            PER_TOKEN + " A token of a short sentence counts no more than another.",
            PADDING,
            edit(train_step, LOSS, MEANS),
        ),
        Mistake(
            "the token that was given is asked for",
            "What the decoder is given is target_in; what it should say, one token"
            " further, is target_out.",
            FORCING,
            edit(train_step, "batch.target_out", "batch.target_in"),
        ),
        Mistake(
            "softmax before cross-entropy",
            "F.cross_entropy takes logits, and makes its own softmax.",
            FORCING,
            edit(train_step, "entropy(logits", "entropy(logits.softmax(-1)"),
        ),
        Mistake(
            "gradients of earlier steps added",
            "backward adds to what is there: zero_grad comes before it.",
            "",
            edit(train_step, "optimizer.zero_grad()", ""),
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
            "It is the length of the gradient that may be clip_norm at most: the"
            " direction stays.",
            "",
            edit(train_step, "clip_grad_norm_", "clip_grad_value_"),
        ),
        Mistake(
            "the model is switched to evaluation",
            "model.eval() switches dropout off, which belongs to training: a step of"
            " training leaves the mode alone.",
            sign=error_like("left in evaluation"),
        ),
        Mistake(
            "nothing is learned",
            "The parameters are what they were: is there a gradient when the optimizer"
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
                lambda request, reply, reference: bool((request.inputs[4] == PAD).any())
            ),
        ),
        Mistake(
            "something is wrong with the length of the gradient",
            "clip_norm is the longest allowed gradient, over all parameters together.",
            "",
            sign=comparable(
                lambda request, reply, reference: request.inputs[5] == SHORT
            ),
        ),
        Mistake(
            "something is wrong from the second step on",
            "One step is right: what is left from it?",
            "",
            sign=comparable(
                lambda request, reply, reference: len(request.inputs[2]) > 1
            ),
        ),
        Mistake(
            "the loss is right, the step is not",
            "Clear the gradients, backward, cut, step: each once, in this order.",
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
