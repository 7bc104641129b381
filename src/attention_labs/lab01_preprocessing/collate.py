"""collate: examples become a batch."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course.tasks import core
from attention_course.tasks.core import BOS, EOS, SPECIALS, UNK
from attention_course.tasks.sequences import Batch, Example, SequenceTask
from attention_labs.lab01_preprocessing.shared import (
    SOURCES,
    TARGETS,
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
    Reply,
    Request,
    Sign,
    close,
    edit,
    error_like,
    of_outputs,
    same_whole_numbers,
    wrong_in,
)

# Of batches: tokens in each source, and in each target.
SIZES = (((5, 2, 4), (3, 6, 1)), ((1, 7), (4, 2)))


def collate(task: Any, examples: Sequence[Example], device: str = "cpu") -> Batch:
    """Pad examples to a batch, as the course's tasks do."""
    whole = SequenceTask("", (), (), (), task.source_vocabulary, task.target_vocabulary)
    return whole.collate(examples, device)


def _use_collate(
    collate: Callable[..., Any], sources: Any, targets: Any, *device: str
) -> Any:
    """Make a batch of letters; say which tensors went to a device, if there is one."""
    examples = [Example(tuple(s), tuple(t), ()) for s, t in zip(sources, targets)]
    batch = collate(letter_task(), examples, *device)
    if batch is None:
        return None
    if not isinstance(batch, Batch):
        raise TypeError(f"a {type(batch).__name__} was returned, wanted a Batch")
    return torch.tensor([x.is_meta for x in batch]) if device else batch


def _examples(
    g: torch.Generator, sources: Sequence[int], targets: Sequence[int], *device: str
) -> Request:
    texts = (
        [
            "".join(letters[i - len(SPECIALS)] for i in row)
            for row in draw_rows(g, *sizes)
        ]
        for letters, sizes in ((SOURCES, sources), (TARGETS, targets))
    )
    return Request((*texts, *device))


def _in_place(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error:
        return Finding(reply.error, "no error on another device")
    return same_whole_numbers(request, reply, reference) and Finding(
        "another place", "the ids on the device, the lengths on the CPU"
    )


def _targets_alone(test: Callable[[Tensor, Tensor, Batch], bool]) -> Sign:
    """Look at wrong targets: test(target_in, target_out, the right batch)."""
    return lambda request, reply, reference: (
        len(reply.outputs) == len(reference.outputs) == 4
        and not all(map(close, reply.outputs[2:], reference.outputs[2:]))
        and test(reply.outputs[2], reply.outputs[3], Batch(*reference.outputs))
    )


def _token_missing(ids: Tensor, wanted: Tensor, token: int) -> bool:
    same_rows = ids.dim() == 2 and len(ids) == len(wanted)
    return same_rows and bool((~(ids == token).any(-1)).any())


COLLATE = Question(
    name="collate",
    reference=collate,
    use=_use_collate,
    stand_ins={"pad": core.pad},
    properties=(
        Property(
            "the sources' ids, and how many tokens each has",
            1,
            lambda g: [_examples(g, *sizes) for sizes in SIZES],
            of_outputs(0, 2, same_whole_numbers),
        ),
        Property(
            "the target with BOS in front, and with EOS behind",
            2,
            lambda g: [
                _examples(g, *sizes)
                for sizes in (*SIZES, ((4, 4), (6, 6)), ((3,), (2,)))
            ],
            of_outputs(2, 4, same_whole_numbers),
        ),
        Property(
            "ids go to the device, lengths stay on the CPU",
            1,
            lambda g: [_examples(g, *SIZES[0], "meta")],
            _in_place,
        ),
    ),
    mistakes=(
        Mistake(
            "the target is not shifted",
            "What goes in at a position is the token before the one that should come"
            " out: BOS in front of the one, EOS behind the other.",
            FORCING,
            edit(SequenceTask.collate, "[BOS, *target]", "[*target] + [EOS]"),
            _targets_alone(lambda given, said, batch: close(given, said)),
        ),
        Mistake(
            "shifted the wrong way",
            "What goes in begins with BOS, what should come out ends with EOS.",
            FORCING,
            edit(SequenceTask.collate, "[BOS, *target]", "[*target] + [EOS]")
            & edit(SequenceTask.collate, "[*target, EOS]", "[BOS, *target]"),
        ),
        Mistake(
            "the end behind the padding",
            "EOS follows the last token of each target; padding comes after it.",
            FORCING,
            edit(
                SequenceTask.collate,
                "pad([[*target, EOS] for target in targets])",
                "F.pad(pad(targets), (0, 1), value=EOS)",
            ),
        ),
        Mistake(
            "BOS and EOS on both sides",
            "Each of the two has one token more than the target: BOS in front of the"
            " one, EOS behind the other.",
            FORCING,
            edit(SequenceTask.collate, "[BOS, *target]", "[BOS, *target] + [EOS]")
            & edit(SequenceTask.collate, "[*target, EOS]", "[BOS, *target, EOS]"),
            _targets_alone(
                lambda given, said, batch: bool(
                    ((given == BOS).any() & (given == EOS).any())
                    | ((said == BOS).any() & (said == EOS).any())
                )
            ),
        ),
        Mistake(
            "the beginning is missing",
            "The first token has to be predicted, too, from BOS.",
            FORCING,
            sign=_targets_alone(
                lambda given, said, batch: _token_missing(given, batch.target_in, BOS)
            ),
        ),
        Mistake(
            "the end is missing",
            "Where to stop has to be learned: EOS is the last token of what should come"
            " out.",
            FORCING,
            sign=_targets_alone(
                lambda given, said, batch: _token_missing(said, batch.target_out, EOS)
            ),
        ),
        Mistake(
            "sources between BOS and EOS",
            "An encoder is not asked to say anything: sources are their own tokens, and"
            " nothing more.",
            FORCING,
            edit(
                SequenceTask.read,
                "self.source_vocabulary.encode(source)",
                "[BOS, *self.source_vocabulary.encode(source), EOS]",
            ),
            lambda request, reply, reference: (
                len(reply.outputs) == 4
                and not reply.error
                and bool(((reply.outputs[0] == EOS) | (reply.outputs[0] == BOS)).any())
            ),
        ),
        Mistake(
            "padding counted in the lengths",
            "The lengths count each source's own tokens; how wide the batch is, its"
            " shape says.",
            PADDING,
            edit(
                SequenceTask.collate,
                "lengths=lengths",
                "lengths=torch.full_like(lengths, source.size(1))",
            ),
        ),
        Mistake(
            "the lengths are those of something else",
            "lengths[b] is the number of tokens in source b.",
            PADDING,
            sign=wrong_in(1, 0),
        ),
        Mistake(
            "a vocabulary of the other language",
            "Ids of UNK everywhere: sources are encoded by the source's vocabulary,"
            " targets by the target's.",
            sign=lambda request, reply, reference: (
                not reply.error
                and any(bool((x == UNK).any()) for x in reply.outputs)
                and not any(bool((x == UNK).any()) for x in reference.outputs)
            ),
        ),
        Mistake(
            "tokens, where ids are meant",
            "A tensor holds numbers: encode the tokens before they are padded.",
            sign=error_like(
                "too many dimensions 'str'|must be an integer|integer is required|type"
                " 'str'|invalid data"
            ),
        ),
        Mistake(
            "lists, where tensors are meant",
            "The four fields of a Batch are tensors: `pad` makes them of rows of ids,"
            " torch.tensor of the lengths.",
            sign=error_like("wanted tensors"),
        ),
        Mistake(
            "not every example is in the batch",
            "Each example is a row of each of the four tensors, in the order in which"
            " the examples came.",
            sign=lambda request, reply, reference: (
                not reply.error
                and request.inputs[-1] != "meta"
                and [len(x) if x.dim() else 0 for x in reply.outputs]
                != [len(x) for x in reference.outputs]
            ),
        ),
        Mistake(
            "no Batch is returned",
            "The four tensors are the fields of a Batch, in this order: source,"
            " lengths, target_in, target_out.",
            sign=error_like("wanted a Batch|Batch.__new__"),
        ),
        Mistake(
            "left where they were made, or sent along too far",
            "The three tensors of ids go to `device`; the lengths stay on the CPU,"
            " where encoders expect them.",
            sign=lambda request, reply, reference: (
                request.inputs[-1] == "meta" and not reply.error
            ),
        ),
        *ANYWHERE,
    ),
)
