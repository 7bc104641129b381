"""Question `loss`: the summed cross-entropy of all tokens, and their number."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_course.tasks.core import BOS, EOS, PAD, UNK, pad
from attention_course.tasks.sequences import Batch, SequenceTask
from attention_labs.lab01_preprocessing.shared import draw_lengths
from attention_labs.pages import FORCING, PADDING
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Axis,
    Battery,
    Changed,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    Sign,
    close,
    each_of,
    edit,
    error_like,
    good_manners,
    normal,
    of_output,
    same_gradients,
    same_numbers,
)
from nbjudge.edits import Edit

GENERATOR = "02_encoder_decoder.html#encoder-decoder-generator"
TOTAL, COUNT = 0, 1


class _Table(nn.Module):
    """A model whose logits depend on what goes in, and on the mean of the source."""

    def __init__(self, table: Tensor):
        super().__init__()
        self.table = table

    def forward(
        self, ids: Tensor, sizes: Tensor, so_far: Tensor
    ) -> tuple[Tensor, None]:
        mean = self.table[ids].sum(1) / sizes.to(self.table)[:, None]
        logits = self.table[so_far] + mean[:, None]
        return logits.mT.contiguous().mT, None


def _use_loss(
    loss: Callable[..., Any],
    source: Tensor,
    lengths: Tensor,
    given: Tensor,
    said: Tensor,
    table: Tensor,
) -> Any:
    training = len(source) % 2 == 1
    model = _Table(table).train(training)
    result = loss(None, model, Batch(source, lengths, given, said))
    if result is None or isinstance(result, Tensor):
        return result
    total, *counts = result
    told = total, *(_number(n, total) for n in counts)
    return told if model.training == training else Changed(told)


def _number(count: Any, total: Any) -> Tensor:
    """Make a tensor of a count, with the axes that it has and should not have."""
    if isinstance(count, Tensor):
        if count.is_meta and isinstance(total, Tensor) and total.is_meta:
            return count.detach().double()
        return torch.tensor(count.tolist(), dtype=torch.float64)
    return torch.tensor(float(count), dtype=torch.float64)


def _taught(d: Draw, least: int = 0, share: float = 0.2) -> Request:
    """Draw a batch; any token may be said, special or not; a share of them is PAD."""
    sizes = draw_lengths(d, d.B, d.T - 1, min(least, d.T - 1))
    ids = torch.randint(PAD + 1, d.V, (d.B, d.T + d.S), generator=d)
    ids *= torch.rand(ids.shape, generator=d) >= share
    rows = [row[:size] for row, size in zip(ids.tolist(), sizes)]
    given, said = pad([[BOS, *row] for row in rows]), pad([[*row, EOS] for row in rows])
    lengths = torch.tensor(draw_lengths(d, d.B, d.S, 1))
    source = ids[:, d.T :] * (torch.arange(d.S) < lengths[:, None])
    return Request((source, lengths, given, said, normal(d, d.V, d.V)))


def _rare(d: Draw) -> list[Request]:
    (source, lengths, given, said, table) = _taught(d).inputs
    wider = [torch.cat([x, 0 * x], dim=1) for x in (given, said)]
    one_more = [torch.cat([x, x[:1]]) for x in (source, lengths, given, said)]
    tables = (30 * table, -30 * table, table + 1e7, 30 * torch.eye(d.V))
    return [
        Request((*one_more, table), gradients=True),  # the model is in the other mode
        Request((source, lengths, *wider, table), gradients=True),
        *(Request((source, lengths, given, said, x.double())) for x in tables),
    ]


def _counted(d: Draw) -> list[Request]:
    """Ask also where every sentence is empty, and where nothing is said at all."""
    source, lengths, given, said, table = _taught(d).inputs
    asked = ((given, said), (given[:, :1], 0 * said[:, :1] + EOS), (given, 0 * said))
    ids = torch.randint(PAD + 1, d.V, (1, 2 * d.number(1100, 1300)), generator=d)
    many = F.pad(ids, (1, 0), value=BOS), F.pad(ids, (0, 1), value=EOS)
    return [
        *(Request((source, lengths, *target, table)) for target in asked),
        Request(
            (source[:1], lengths[:1], *many, table),
            dtype=torch.bfloat16,
            about="an odd number of tokens beyond 2048, and logits in bfloat16",
        ),
    ]


def _exact_count(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Hold a count to its last digit."""
    finding = same_numbers(request, reply, reference)
    if finding and not finding.seen.startswith("entries"):
        return finding
    given, wanted = (x.outputs[0] for x in (reply, reference))
    if given == wanted:
        return None
    return Finding(f"{float(given):.9g} tokens", f"{float(wanted):.9g} tokens")


_same_count = of_output(COUNT, _exact_count)


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


BATTERY = Battery(
    FUNCTION,
    _taught,
    {
        "B": Axis("sentences", long=200),
        "S": Axis("source positions"),
        "T": Axis("target positions", long=300),
        "V": Axis("tokens in the vocabulary", least=5, most=14, long=300),
    },
    leaves_out={
        "zero": "a batch has a sentence, and a sentence its end",
        "in front": "a batch has one axis of sentences",
        "long in bfloat16": "a sum over many tokens is rounded",
    },
)


def _left_out(token: str) -> Edit:
    """Leave a token out of the sum and of the number."""
    return edit(
        SequenceTask.loss,
        "target_out.flatten()",
        f"target_out.masked_fill(batch.target_out == {token}, PAD).flatten()",
    ) & edit(SequenceTask.loss, "!= PAD", f"* (batch.target_out != {token}) != PAD")


QUESTION = Question(
    name="loss",
    reference=SequenceTask.loss,
    use=_use_loss,
    battery=BATTERY,
    requirements={
        "each": "The loss of a position is the negative logarithm of the probability"
        " that the model gives to the correct token:",
        "sum": "Return the *sum* of the losses over all positions that hold a token,"
        " and the number of these positions.",
        "end": "`EOS` counts as a token, because the model must learn where to stop.",
        "padding": "A position at which `target_out` is `PAD` is padding and does not"
        " count, wherever in its row it stands.",
        "call": "Call the model as `model(source, lengths, target_in)`. It returns the"
        " logits and a second result, which you do not need.",
        "any": "The logits are finite, but they may be large, and they need not be"
        " contiguous. They may have any floating-point dtype, and the sum must have the"
        " same dtype.",
        "unchanged": "Do not change the inputs.",
        "returns": "The sum of the losses of all tokens in nats, a tensor without axes,"
        " and the number of tokens, an int or a tensor without axes.",
    },
    properties=(
        BATTERY.line(
            "the sum of the losses, and its gradient",
            1,
            lambda d: replace(_taught(d, least=d.T, share=0.0), gradients=True),
            of_output(TOTAL, same_gradients),
            checks=("each", "sum", "call", "returns"),
        ),
        BATTERY.line(
            "padding adds nothing to the sum or to the gradient",
            1,
            lambda d: replace(_taught(d), gradients=True),
            of_output(TOTAL, same_gradients),
            checks=("sum", "end", "padding"),
        ),
        BATTERY.line(
            "how many tokens are in the sum",
            1,
            _counted,
            _same_count,
            checks=("sum", "end", "padding", "returns"),
        ),
        BATTERY.edges(
            1,
            each_of(of_output(TOTAL, same_gradients), _same_count),
            checks=("each", "sum", "any"),
            claim="edges: one sentence, one position, many; large logits, a target"
            " padded wider, repeated calls",
            also=_rare,
        ),
        BATTERY.manners(1, of_output(TOTAL, good_manners), checks=("any", "unchanged")),
    ),
    mistakes=(
        Mistake(
            "a mean instead of the sum",
            "cross_entropy returns a mean unless you tell it otherwise. Look at"
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
            "padding is included in the loss",
            "Padding must not be part of the sum or of the count. See `ignore_index`.",
            PADDING,
            (
                edit(SequenceTask.loss, "ignore_index=PAD", "ignore_index=-100"),
                edit(SequenceTask.loss, "ignore_index=PAD", "ignore_index=-100")
                & edit(SequenceTask.loss, "!= PAD", "> -1"),
            ),
        ),
        Mistake(
            "EOS is ignored instead of padding",
            "EOS is a token: the model has to learn where to stop. What is left out is"
            " PAD.",
            FORCING,
            edit(SequenceTask.loss, "ignore_index=PAD", "ignore_index=EOS"),
        ),
        Mistake(
            "logits are scrambled by reshape",
            "view and reshape can give the right shape and still mix up the logits."
            " cross_entropy needs (N, V), or (B, V, T) made by exchanging two axes.",
            made_by=edit(
                SequenceTask.loss,
                "logits.flatten(0, 1)",
                "logits.reshape(len(logits), logits.size(-1), -1)",
            )
            & edit(SequenceTask.loss, "target_out.flatten()", "target_out"),
        ),
        Mistake(
            "the loss is computed against target_in",
            "The logits at a position predict the token of target_out at that"
            " position, so compare them with target_out.",
            FORCING,
            edit(SequenceTask.loss, "target_out.flatten()", "target_in.flatten()"),
        ),
        Mistake(
            "target_out is fed to the model",
            "The model's input is target_in. If it gets target_out, it only has to"
            " copy.",
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
            "the target is shifted a second time",
            "target_in and target_out are shifted already: the logits at position t"
            " belong to position t of target_out.",
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
            "EOS is left out of the loss",
            "EOS is a token like any other in the loss: the model has to learn where"
            " to stop.",
            FORCING,
            _left_out("EOS"),
        ),
        Mistake(
            "UNK is left out of the loss",
            "UNK is a token like any other in the loss: what is left out is PAD.",
            FORCING,
            _left_out(str(UNK)),
        ),
        Mistake(
            "probabilities are clamped before the logarithm",
            "If probabilities are clamped from below, very wrong tokens cost too"
            " little and get no gradient. log_softmax needs no clamp.",
            GENERATOR,
            tuple(
                edit(
                    SequenceTask.loss,
                    "logits.flatten(0, 1)",
                    f"logits.softmax(-1).{held}.log().flatten(0, 1)",
                )
                & edit(SequenceTask.loss, "F.cross_entropy", "F.nll_loss")
                & edit(SequenceTask.loss, "label_smoothing=label_smoothing,", "")
                for held in (
                    "clamp(min=1e-8)",
                    "add(1e-8)",
                    "clamp(min=1e-12)",
                    "add(1e-10)",
                )
            ),
        ),
        Mistake(
            "the logarithm of a softmax",
            "A very small probability is rounded to 0, and its logarithm is infinite."
            " log_softmax and cross_entropy compute both in one step.",
            GENERATOR,
            edit(
                SequenceTask.loss,
                "logits.flatten(0, 1)",
                "logits.softmax(-1).log().flatten(0, 1)",
            )
            & edit(SequenceTask.loss, "F.cross_entropy", "F.nll_loss")
            & edit(SequenceTask.loss, "label_smoothing=label_smoothing,", ""),
        ),
        Mistake(
            "softmax applied twice",
            "cross_entropy takes logits and computes the softmax itself.",
            GENERATOR,
            edit(
                SequenceTask.loss,
                "logits.flatten(0, 1)",
                "logits.softmax(-1).flatten(0, 1)",
            ),
        ),
        Mistake(
            "logits and targets do not fit together",
            "cross_entropy needs the vocabulary on the second axis. Merge B and T into"
            " one axis, and V is the second.",
            GENERATOR,
            sign=error_like(
                "Expected target size|Expected input batch_size|shape .* is"
                " invalid|Target \\d+ is out of"
            ),
        ),
        Mistake(
            "a loss per position instead of one sum",
            "The first thing that you return, the sum, is a tensor without axes.",
            GENERATOR,
            sign=lambda request, reply, reference: (
                not reply.error
                and bool(reply.outputs)
                and reply.outputs[TOTAL].dim() > 0
            ),
        ),
        Mistake(
            "a returned value is not a tensor",
            "float(...) and .item() turn a tensor into a plain number, and no gradient"
            " can pass through it.",
            sign=error_like("wanted tensors"),
        ),
        Mistake(
            "the token count includes padding",
            "Count the tokens in the sum, which are the positions where target_out is"
            " not PAD.",
            PADDING,
            edit(SequenceTask.loss, "!= PAD", "> -1"),
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 2
                and bool((request.inputs[3] == PAD).any())
                and close(reply.outputs[COUNT], torch.tensor(request.inputs[3].numel()))
            ),
        ),
        Mistake(
            "the sum is right, the token count is wrong",
            "Count the tokens in the sum: the positions where target_out is not PAD,"
            " including EOS.",
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
            "the loss is too large where there is padding",
            "Padding must not be part of the sum or of the count.",
            PADDING,
            sign=_total(
                lambda given, wanted, said: bool((said == PAD).any() & (given > wanted))
            ),
        ),
        Mistake(
            "a different loss",
            "The loss is the sum of -log P(target_out) over all tokens, in nats, and"
            " nothing else.",
            GENERATOR,
            sign=_total(lambda given, wanted, said: True),
        ),
    ),
)
