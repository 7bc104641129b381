"""loss: the sum of the losses of all tokens, and their number."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_course.tasks import core
from attention_course.tasks.core import BOS, EOS, PAD
from attention_course.tasks.sequences import Batch, SequenceTask
from attention_labs.lab01_preprocessing.batches import (
    S,
    V,
    draw_ids,
    letter_task,
)
from attention_labs.pages import FORCING, PADDING
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    close,
    error_like,
    good_manners,
    normal,
    of_output,
    same_gradients,
    same_numbers,
)

GENERATOR = "02_encoder_decoder.html#encoder-decoder-generator"


class _Table(nn.Module):
    """A model whose logits depend on the token that goes in, and on the source."""

    def __init__(self, table: Tensor):
        super().__init__()
        self.table = table

    def forward(
        self, source: Tensor, lengths: Tensor, target_in: Tensor
    ) -> tuple[Tensor, None]:
        return self.table[target_in] + self.table[source].mean(1, keepdim=True), None


def _use_loss(
    loss: Callable[..., Any],
    source: Tensor,
    lengths: Tensor,
    given: Tensor,
    said: Tensor,
    table: Tensor,
) -> Any:
    result = loss(letter_task(), _Table(table), Batch(source, lengths, given, said))
    if result is None or isinstance(result, Tensor):
        return result
    total, *count = result
    return total, *(
        torch.tensor(float(number), dtype=torch.float64) for number in count
    )


def _taught(
    g: torch.Generator, sizes: Sequence[int], gradients: bool = True
) -> Request:
    targets = [
        row[:size]
        for row, size in zip(draw_ids(g, len(sizes), max(sizes)).tolist(), sizes)
    ]
    given, said = (
        core.pad(rows)
        for rows in ([[BOS, *row] for row in targets], [[*row, EOS] for row in targets])
    )
    source, lengths = draw_ids(g, len(sizes), S), torch.full((len(sizes),), S)
    return Request((source, lengths, given, said, normal(g, V, V)), gradients=gradients)


def _without_padding(g: torch.Generator) -> Iterator[Request]:
    yield _taught(g, (4, 4))
    yield _taught(g, (6,))


def _with_padding(g: torch.Generator) -> Iterator[Request]:
    yield _taught(g, (2, 6, 4))
    yield _taught(g, (0, 5))


def _in_other_dtypes(g: torch.Generator) -> Iterator[Request]:
    for dtype in (torch.float32, torch.bfloat16):
        yield replace(_taught(g, (2, 6, 4), gradients=False), dtype=dtype)


TOTAL, COUNT = 0, 1


def _right_count(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if finding := same_numbers(request, reply, reference):
        count = reply.outputs[0] if reply.outputs else None
        return (
            finding
            if reply.error or count is None or count.numel() != 1
            else Finding(
                f"{float(count):g} tokens", f"{float(reference.outputs[0]):g} tokens"
            )
        )
    return None


def _loss_with(**options: Any) -> Callable[..., Any]:
    def wrong(task: Any, model: Any, batch: Batch, label_smoothing: float = 0.0) -> Any:
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        how = {"ignore_index": PAD, "reduction": "sum", **options}
        total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), **how)
        return total, int((batch.target_out != PAD).sum())

    return wrong


def _loss_of(
    given: Callable[[Batch], Tensor], said: Callable[[Batch], Tensor]
) -> Callable[..., Any]:
    def wrong(task: Any, model: Any, batch: Batch, label_smoothing: float = 0.0) -> Any:
        return SequenceTask.loss(
            task, model, batch._replace(target_in=given(batch), target_out=said(batch))
        )

    return wrong


def _shifted_again(
    task: Any, model: Any, batch: Batch, label_smoothing: float = 0.0
) -> Any:
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right = batch.target_out[:, 1:].flatten()
    total = F.cross_entropy(
        logits[:, :-1].flatten(0, 1), right, ignore_index=PAD, reduction="sum"
    )
    return total, int((right != PAD).sum())


def _mixed_up(task: Any, model: Any, batch: Batch, label_smoothing: float = 0.0) -> Any:
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    # (B, V, T), of numbers in the order of (B, T, V)
    logits = logits.reshape(len(logits), logits.size(-1), -1)
    total = F.cross_entropy(logits, batch.target_out, ignore_index=PAD, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


def _soft_twice(
    task: Any, model: Any, batch: Batch, label_smoothing: float = 0.0
) -> Any:
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.softmax(-1).flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, int((batch.target_out != PAD).sum())


def _total(
    test: Callable[[Tensor, Tensor, Tensor], bool],
) -> Callable[[Request, Reply, Reply], bool]:
    """Look at a wrong total: test(given, wanted, what should come out)."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        if (
            reply.error
            or not reply.outputs
            or reply.outputs[TOTAL].shape != reference.outputs[TOTAL].shape
        ):
            return False
        given, wanted = reply.outputs[TOTAL].double(), reference.outputs[TOTAL]
        return (
            request.inputs[3] is not None
            and not close(given, wanted)
            and test(given, wanted, request.inputs[3])
        )

    return sign


LOSS = Question(
    name="loss",
    reference=SequenceTask.loss,
    use=_use_loss,
    properties=(
        Property(
            "the sum of the losses, and its gradient",
            1,
            _without_padding,
            of_output(TOTAL, same_gradients),
        ),
        Property(
            "padding adds nothing, nor a gradient",
            2,
            _with_padding,
            of_output(TOTAL, same_gradients),
        ),
        Property(
            "how many tokens are in the sum",
            1,
            _with_padding,
            of_output(COUNT, _right_count),
        ),
        Property("dtype kept", 1, _in_other_dtypes, of_output(TOTAL, good_manners)),
    ),
    mistakes=(
        Mistake(
            "a mean, where the sum is meant",
            "cross_entropy takes the mean unless it is told otherwise; look at"
            " `reduction`.",
            GENERATOR,
            _loss_with(reduction="mean"),
            _total(
                lambda given, wanted, said: any(
                    close(given * count, wanted)
                    for count in ((said != PAD).sum(), said.numel(), *said.shape)
                )
            ),
        ),
        Mistake(
            "padding has a say",
            "Positions that only fill up are neither to be punished nor counted: see"
            " `ignore_index`.",
            PADDING,
            _loss_with(ignore_index=-100),
        ),
        Mistake(
            "the end does not count",
            "EOS is a token: where to stop has to be learned. What is left out is PAD.",
            FORCING,
            _loss_with(ignore_index=EOS),
        ),
        Mistake(
            "logits of other positions and tokens",
            "view and reshape have the right shape and mix the logits up: cross_entropy"
            " wants (N, V), or the V behind the B by an exchange of axes.",
            made_by=_mixed_up,
        ),
        Mistake(
            "the loss looks at what goes in",
            "The logits at a position are about the token that should come out there:"
            " compare them with target_out.",
            FORCING,
            _loss_of(lambda batch: batch.target_in, lambda batch: batch.target_in),
        ),
        Mistake(
            "the model is given the answer",
            "What goes in is target_in. With target_out in its place the model has only"
            " to copy.",
            FORCING,
            _loss_of(lambda batch: batch.target_out, lambda batch: batch.target_out),
        ),
        Mistake(
            "the model is given the answer",
            "What goes in is target_in, what should come out is target_out.",
            FORCING,
            _loss_of(lambda batch: batch.target_out, lambda batch: batch.target_in),
        ),
        Mistake(
            "the target is shifted once more",
            "target_in and target_out are shifted already: position t of the logits"
            " belongs to that of target_out.",
            FORCING,
            _shifted_again,
        ),
        Mistake(
            "the end is left out",
            "EOS is a token like any other in the loss: where to stop has to be"
            " learned.",
            FORCING,
            _loss_of(
                lambda batch: batch.target_in,
                lambda batch: batch.target_out.masked_fill(
                    batch.target_out == EOS, PAD
                ),
            ),
        ),
        Mistake(
            "softmax done twice",
            "cross_entropy takes logits, and does the softmax itself.",
            GENERATOR,
            _soft_twice,
        ),
        Mistake(
            "positions and vocabulary mixed up",
            "cross_entropy wants the vocabulary on the second axis: make one axis of B"
            " and T, and V is the second.",
            GENERATOR,
            sign=error_like(
                "Expected target size|Expected input batch_size|shape .* is"
                " invalid|Target \\d+ is out of"
            ),
        ),
        Mistake(
            "a loss per position, where one sum is meant",
            "What is returned first has no axes.",
            GENERATOR,
            sign=lambda request, reply, reference: (
                not reply.error
                and bool(reply.outputs)
                and reply.outputs[TOTAL].dim() > 0
            ),
        ),
        Mistake(
            "no gradient can pass a number",
            "float(...) and .item() make a plain number of a tensor: nothing can be"
            " learned through it.",
            sign=error_like("wanted tensors"),
        ),
        Mistake(
            "padding is counted",
            "The number is that of the tokens in the sum: where target_out is not PAD.",
            PADDING,
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 2
                and request.inputs[3] is not None
                and bool((request.inputs[3] == PAD).any())
                and close(reply.outputs[COUNT], torch.tensor(request.inputs[3].numel()))
            ),
        ),
        Mistake(
            "other tokens are counted",
            "The number is that of the tokens in the sum: where target_out is not PAD,"
            " EOS included.",
            PADDING,
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 2
                and close(reply.outputs[TOTAL], reference.outputs[TOTAL])
                and not close(reply.outputs[COUNT], reference.outputs[COUNT])
            ),
        ),
        *ANYWHERE,
        Mistake(
            "padding has a say",
            "Positions that only fill up are neither to be punished nor counted.",
            PADDING,
            sign=_total(lambda given, wanted, said: bool((said == PAD).any())),
        ),
        Mistake(
            "another loss",
            "It is the sum of -log P(target_out) over all tokens, in nats, and nothing"
            " else.",
            GENERATOR,
            sign=_total(lambda given, wanted, said: True),
        ),
    ),
)
