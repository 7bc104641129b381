"""loss: the sum of the losses of all tokens, and their number."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.tasks.core import BOS, EOS, PAD, pad
from attention_course.tasks.sequences import Batch, SequenceTask
from attention_labs.lab01_preprocessing.shared import (
    S,
    V,
    draw_ids,
    draw_rows,
    letter_task,
)
from attention_labs.pages import FORCING, PADDING
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Request,
    Sign,
    close,
    edit,
    error_like,
    good_manners,
    in_words,
    normal,
    of_output,
    same_gradients,
    same_numbers,
)

GENERATOR = "02_encoder_decoder.html#encoder-decoder-generator"
TOTAL, COUNT = 0, 1


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
    total, *counts = result
    return total, *(torch.tensor(float(n), dtype=torch.float64) for n in counts)


def _taught(g: torch.Generator, *sizes: int, **options: Any) -> Request:
    rows, source = draw_rows(g, *sizes), draw_ids(g, len(sizes), S)
    given, said = pad([[BOS, *row] for row in rows]), pad([[*row, EOS] for row in rows])
    lengths = torch.full((len(sizes),), S)
    return Request((source, lengths, given, said, normal(g, V, V)), **options)


def _with_padding(g: torch.Generator) -> list[Request]:
    return [_taught(g, 2, 6, 4, gradients=True), _taught(g, 0, 5, gradients=True)]


def _total(test: Callable[[Tensor, Tensor, Tensor], bool]) -> Sign:
    """Look at a wrong total: test(given, wanted, what should come out)."""
    return lambda request, reply, reference: (
        bool(reply.outputs)
        and reply.outputs[TOTAL].shape == reference.outputs[TOTAL].shape
        and not close(reply.outputs[TOTAL], reference.outputs[TOTAL])
        and test(
            reply.outputs[TOTAL].double(), reference.outputs[TOTAL], request.inputs[3]
        )
    )


LOSS = Question(
    name="loss",
    reference=SequenceTask.loss,
    use=_use_loss,
    properties=(
        Property(
            "the sum of the losses, and its gradient",
            1,
            lambda g: [_taught(g, *n, gradients=True) for n in ((4, 4), (6,))],
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
            of_output(
                COUNT,
                in_words(
                    same_numbers,
                    lambda request, reply, reference: Finding(
                        f"{float(reply.outputs[0]):g} tokens",
                        f"{float(reference.outputs[0]):g} tokens",
                    ),
                ),
            ),
        ),
        Property(
            "dtype kept",
            1,
            lambda g: [
                _taught(g, 2, 6, 4, dtype=dtype)
                for dtype in (torch.float32, torch.bfloat16)
            ],
            of_output(TOTAL, good_manners),
        ),
    ),
    mistakes=(
        Mistake(
            "a mean, where the sum is meant",
            "cross_entropy takes the mean unless it is told otherwise; look at"
            " `reduction`.",
            GENERATOR,
            edit(SequenceTask.loss, '"sum"', '"mean"'),
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
            edit(SequenceTask.loss, "ignore_index=PAD", "ignore_index=-100"),
        ),
        Mistake(
            "the end does not count",
            "EOS is a token: where to stop has to be learned. What is left out is PAD.",
            FORCING,
            edit(SequenceTask.loss, "ignore_index=PAD", "ignore_index=EOS"),
        ),
        Mistake(
            "logits of other positions and tokens",
            "view and reshape have the right shape and mix the logits up: cross_entropy"
            " wants (N, V), or the V behind the B by an exchange of axes.",
            made_by=edit(
                SequenceTask.loss,
                "logits.flatten(0, 1)",
                "logits.reshape(len(logits), logits.size(-1), -1)",
            )
            & edit(SequenceTask.loss, "target_out.flatten()", "target_out"),
        ),
        Mistake(
            "the loss looks at what goes in",
            "The logits at a position are about the token that should come out there:"
            " compare them with target_out.",
            FORCING,
            edit(SequenceTask.loss, "target_out.flatten()", "target_in.flatten()"),
        ),
        Mistake(
            "the model is given the answer",
            "What goes in is target_in. With target_out in its place the model has only"
            " to copy.",
            FORCING,
            (
                edit(SequenceTask.loss, "target_in", "target_out"),
                edit(SequenceTask.loss, "target_in", "target_out ")
                & edit(
                    SequenceTask.loss, "target_out.flatten()", "target_in.flatten()"
                ),
            ),
        ),
        Mistake(
            "the target is shifted once more",
            "target_in and target_out are shifted already: position t of the logits"
            " belongs to that of target_out.",
            FORCING,
            edit(
                SequenceTask.loss,
                "logits.flatten(0, 1)",
                "logits[:, :-1].flatten(0, 1)",
            )
            & edit(
                SequenceTask.loss, "target_out.flatten()", "target_out[:, 1:].flatten()"
            )
            & edit(
                SequenceTask.loss, "batch.target_out !=", "batch.target_out[:, 1:] !="
            ),
        ),
        Mistake(
            "the end is left out",
            "EOS is a token like any other in the loss: where to stop has to be"
            " learned.",
            FORCING,
            edit(
                SequenceTask.loss,
                "target_out.flatten()",
                "target_out.masked_fill(batch.target_out == EOS, PAD).flatten()",
            )
            & edit(
                SequenceTask.loss, "batch.target_out !=", "batch.target_out - EOS >"
            ),
        ),
        Mistake(
            "softmax done twice",
            "cross_entropy takes logits, and does the softmax itself.",
            GENERATOR,
            edit(
                SequenceTask.loss,
                "logits.flatten(0, 1)",
                "logits.softmax(-1).flatten(0, 1)",
            ),
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
