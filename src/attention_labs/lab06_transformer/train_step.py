"""train_step: a loss per token, a gradient of a limited length, an update."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_course.tasks.core import PAD
from attention_course.tasks.sequences import Batch
from attention_labs.lab06_transformer.blocks import S, T, V
from attention_labs.pages import FORCING, PADDING
from attention_labs.pieces import with_pieces
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    as_length,
    close,
    comparable,
    error_like,
    normal,
    same_numbers,
)


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, clip_norm: float
) -> Tensor:
    """Update the model once, and return the loss in nats per token."""
    return _Step()(model, optimizer, batch, clip_norm)


class _Step:
    """A step of training in pieces that a mistake can replace."""

    def __call__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        batch: Batch,
        clip_norm: float,
    ) -> Tensor:
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        loss = self.loss(logits, batch)
        self.clear(optimizer)
        loss.backward()
        self.update(model, optimizer, clip_norm)
        return loss.detach()

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        return _loss(logits, batch.target_out)

    def clear(self, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()

    def update(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, clip_norm: float
    ) -> None:
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()


def _loss(logits: Tensor, target: Tensor, **options: Any) -> Tensor:
    return F.cross_entropy(
        logits.flatten(0, 1), target.flatten(), **{"ignore_index": PAD, **options}
    )


def _clip_values(
    model: nn.Module, optimizer: torch.optim.Optimizer, clip_norm: float
) -> None:
    nn.utils.clip_grad_value_(model.parameters(), clip_norm)
    optimizer.step()


class _Little(nn.Module):
    """A model that a step of training can be tried on: each token predicts the next,
    and the source helps."""

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
    clip: Tensor,
) -> Any:
    """Train on one batch after the other; where the parameters arrive says how each
    step was made."""
    model = _Little(table, reader)
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    losses = []
    with torch.enable_grad():
        for read, given, wanted in zip(source, target_in, target_out):
            lengths = torch.full((len(read),), read.size(1))
            loss = train(
                model,
                optimizer,
                Batch(read, lengths, given, wanted),
                clip.size(0) / 100,
            )
            if loss is None:
                return None
            losses.append(torch.as_tensor(loss, dtype=table.dtype).detach())
    if not model.training:
        raise ValueError("the model came in training and was left in evaluation")
    return torch.stack(losses), model.table, model.reader


# hundredths: no gradient here is as long as 10, and all are longer than 0.02
NEVER, SHORT = 1000, 2


def _to_train(
    g: torch.Generator,
    batches: int = 1,
    lengths: Sequence[int] = (T, T, T),
    clip: int = NEVER,
) -> Request:
    shape = (batches, len(lengths), T)
    padding = torch.arange(T) >= torch.tensor(lengths)[:, None]
    target_in = torch.randint(4, V, shape, generator=g).masked_fill(padding, PAD)
    target_out = torch.randint(4, V, shape, generator=g).masked_fill(padding, PAD)
    source = torch.randint(4, V, (batches, len(lengths), S), generator=g)
    return Request(
        (
            normal(g, V, V),
            normal(g, V, V),
            source,
            target_in,
            target_out,
            as_length(clip),
        )
    )


def _one_batch(g: torch.Generator) -> Iterator[Request]:
    yield _to_train(g)


def _padded_batch(g: torch.Generator) -> Iterator[Request]:
    yield _to_train(g, lengths=(T, 1, T - 2))


def _two_batches(g: torch.Generator) -> Iterator[Request]:
    yield _to_train(g, batches=3)


def _long_gradient(g: torch.Generator) -> Iterator[Request]:
    yield _to_train(g, clip=SHORT)
    yield _to_train(g, batches=2, lengths=(T, 2, T - 1), clip=SHORT)


@comparable
def _nothing_learned(request: Request, reply: Reply, reference: Reply) -> bool:
    return all(
        x is not None and close(given, x)
        for given, x in zip(reply.outputs[1:], request.inputs[:2])
    )


@comparable
def _loss_alone(request: Request, reply: Reply, reference: Reply) -> bool:
    return not close(reply.outputs[0], reference.outputs[0]) and all(
        map(close, reply.outputs[1:], reference.outputs[1:])
    )


@comparable
def _loss_right(request: Request, reply: Reply, reference: Reply) -> bool:
    return close(reply.outputs[0][:1], reference.outputs[0][:1])


def _padded(request: Request, reply: Reply, reference: Reply) -> bool:
    wanted = request.inputs[4]
    return wanted is not None and bool((wanted == PAD).any())


def _several(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.inputs[2] is not None and len(request.inputs[2]) > 1


def _clipped(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.inputs[5] is not None and len(request.inputs[5]) == SHORT


PER_TOKEN = (
    "The loss is the sum over all tokens that are not PAD, divided by their number."
)

TRAIN_STEP = Question(
    name="train_step",
    reference=train_step,
    use=_use_train_step,
    properties=(
        Property(
            "the loss, and the parameters after one step", 2, _one_batch, same_numbers
        ),
        Property("padding is no part of the loss", 1, _padded_batch, same_numbers),
        Property("each step has a gradient of its own", 1, _two_batches, same_numbers),
        Property(
            "a long gradient is cut to clip_norm", 1, _long_gradient, same_numbers
        ),
    ),
    mistakes=(
        Mistake(
            "loss on padding",
            PER_TOKEN,
            PADDING,
            with_pieces(
                _Step,
                loss=lambda logits, batch: _loss(
                    logits, batch.target_out, ignore_index=-100
                ),
            )(),
        ),
        Mistake(
            "divided by padding, too",
            PER_TOKEN,
            PADDING,
            with_pieces(
                _Step,
                loss=lambda logits, batch: (
                    _loss(logits, batch.target_out, reduction="sum")
                    / batch.target_out.numel()
                ),
            )(),
        ),
        Mistake(
            "the sum of the losses, not their mean",
            PER_TOKEN,
            FORCING,
            with_pieces(
                _Step,
                loss=lambda logits, batch: _loss(
                    logits, batch.target_out, reduction="sum"
                ),
            )(),
        ),
        Mistake(
            "mean of the sentences' means",
            PER_TOKEN + " A token of a short sentence counts no more than another.",
            PADDING,
            with_pieces(
                _Step,
                loss=lambda logits, batch: torch.stack(
                    [
                        F.cross_entropy(x, y, ignore_index=PAD)
                        for x, y in zip(logits, batch.target_out)
                    ]
                ).mean(),
            )(),
        ),
        Mistake(
            "the token that was given is asked for",
            "What the decoder is given is target_in; what it should say, one token"
            " further, is target_out.",
            FORCING,
            with_pieces(
                _Step, loss=lambda logits, batch: _loss(logits, batch.target_in)
            )(),
        ),
        Mistake(
            "softmax before cross-entropy",
            "F.cross_entropy takes logits, and makes its own softmax.",
            FORCING,
            with_pieces(
                _Step,
                loss=lambda logits, batch: _loss(logits.softmax(-1), batch.target_out),
            )(),
        ),
        Mistake(
            "gradients of earlier steps added",
            "backward adds to what is there: zero_grad comes before it.",
            "",
            with_pieces(_Step, clear=lambda optimizer: None)(),
        ),
        Mistake(
            "the gradient is not cut",
            "nn.utils.clip_grad_norm_ shortens the gradient of all parameters together:"
            " after backward, before step.",
            "",
            with_pieces(
                _Step, update=lambda model, optimizer, clip_norm: optimizer.step()
            )(),
        ),
        Mistake(
            "each number of the gradient is cut",
            "It is the length of the gradient that may be clip_norm at most: the"
            " direction stays.",
            "",
            with_pieces(_Step, update=_clip_values)(),
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
            sign=comparable(_padded),
        ),
        Mistake(
            "something is wrong with the length of the gradient",
            "clip_norm is the longest allowed gradient, over all parameters together.",
            "",
            sign=comparable(_clipped),
        ),
        Mistake(
            "something is wrong from the second step on",
            "One step is right: what is left from it?",
            "",
            sign=comparable(_several),
        ),
        Mistake(
            "the loss is right, the step is not",
            "Clear the gradients, backward, cut, step: each once, in this order.",
            "",
            sign=_loss_right,
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
