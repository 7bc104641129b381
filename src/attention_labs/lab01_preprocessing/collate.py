"""collate: examples become a batch."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_course.tasks import core
from attention_course.tasks.core import BOS, EOS, SPECIALS, UNK
from attention_course.tasks.sequences import Batch, Example, SequenceTask
from attention_labs.lab01_preprocessing.batches import (
    SOURCES,
    TARGETS,
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
    comparable,
    error_like,
    of_outputs,
    same_numbers,
    same_whole_numbers,
)


def collate(task: Any, examples: Sequence[Example], device: str = "cpu") -> Batch:
    """Pad examples to a batch, as the course's tasks do."""
    whole = SequenceTask("", (), (), (), task.source_vocabulary, task.target_vocabulary)
    return whole.collate(examples, device)


def _use_collate(
    collate: Callable[..., Any],
    sources: Tensor,
    source_sizes: Tensor,
    targets: Tensor,
    target_sizes: Tensor,
    elsewhere: Tensor | None,
) -> Any:
    """Make a batch of letters; if it goes elsewhere, say which of its tensors have
    gone."""

    def tokens(letters: str, row: list[int], size: int) -> tuple[str, ...]:
        return tuple(letters[i - len(SPECIALS)] for i in row[:size])

    examples = [
        Example(tokens(SOURCES, source, s), tokens(TARGETS, target, t), ())
        for source, s, target, t in zip(
            *(x.tolist() for x in (sources, source_sizes, targets, target_sizes))
        )
    ]
    batch = (
        collate(letter_task(), examples)
        if elsewhere is None
        else collate(letter_task(), examples, "meta")
    )
    if batch is None:
        return None
    if not isinstance(batch, Batch):
        raise TypeError(f"a {type(batch).__name__} was returned, wanted a Batch")
    return batch if elsewhere is None else torch.tensor([x.is_meta for x in batch])


def _examples(
    g: torch.Generator,
    source_sizes: Sequence[int],
    target_sizes: Sequence[int],
    elsewhere: bool = False,
) -> Request:
    sides = [
        x
        for sizes in (source_sizes, target_sizes)
        for x in (draw_ids(g, len(sizes), max(sizes)), torch.tensor(sizes))
    ]
    return Request((*sides, torch.zeros(0) if elsewhere else None))


def _some_examples(g: torch.Generator) -> Iterator[Request]:
    yield _examples(g, (5, 2, 4), (3, 6, 1))
    yield _examples(g, (1, 7), (4, 2))


def _alike_examples(g: torch.Generator) -> Iterator[Request]:
    yield from _some_examples(g)
    yield _examples(g, (4, 4), (6, 6))
    yield _examples(g, (3,), (2,))


def _examples_elsewhere(g: torch.Generator) -> Iterator[Request]:
    yield _examples(g, (5, 2, 4), (3, 6, 1), elsewhere=True)


def _in_place(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error:
        return Finding(reply.error, "no error on another device")
    if same_numbers(
        request,
        reply,
        reference._replace(outputs=tuple(x.double() for x in reference.outputs)),
    ):
        return Finding("another place", "the ids on the device, the lengths on the CPU")
    return None


def _collate_with(
    change: Callable[[Batch, list[list[int]]], Batch],
) -> Callable[..., Batch]:
    """Make a batch and change it: change(batch, ids of the targets)."""

    def wrong(task: Any, examples: Sequence[Example], device: str = "cpu") -> Batch:
        return change(
            collate(task, examples, device),
            [task.target_vocabulary.encode(e.target) for e in examples],
        )

    return wrong


def _sources_bordered(
    task: Any, examples: Sequence[Example], device: str = "cpu"
) -> Batch:
    rows = [
        [BOS, *task.source_vocabulary.encode(example.source), EOS]
        for example in examples
    ]
    batch = collate(task, examples, device)
    return batch._replace(
        source=core.pad(rows).to(device),
        lengths=torch.tensor([len(row) for row in rows]),
    )


@comparable
def _as_wide_as_the_batch(request: Request, reply: Reply, reference: Reply) -> bool:
    return close(reply.outputs[0], reference.outputs[0]) and not close(
        reply.outputs[1], reference.outputs[1]
    )


def _targets_alone(
    test: Callable[[Tensor, Tensor, Batch], bool],
) -> Callable[[Request, Reply, Reply], bool]:
    """Look at wrong targets beside right sources: test(target_in, target_out, the right
    batch)."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        if reply.error or len(reply.outputs) != 4 or len(reference.outputs) != 4:
            return False
        if all(
            close(given, wanted)
            for given, wanted in zip(reply.outputs[2:], reference.outputs[2:])
        ):
            return False
        return test(reply.outputs[2], reply.outputs[3], Batch(*reference.outputs))

    return sign


def _token_missing(ids: Tensor, wanted: Tensor, token: int) -> bool:
    return (
        ids.dim() == 2
        and len(ids) == len(wanted)
        and bool((~(ids == token).any(-1)).any())
    )


COLLATE = Question(
    name="collate",
    reference=collate,
    use=_use_collate,
    plain=True,
    stand_ins={"pad": core.pad},
    properties=(
        Property(
            "the sources' ids, and how many tokens each has",
            1,
            _some_examples,
            of_outputs(0, 2, same_whole_numbers),
        ),
        Property(
            "the target with BOS in front, and with EOS behind",
            2,
            _alike_examples,
            of_outputs(2, 4, same_whole_numbers),
        ),
        Property(
            "ids go to the device, lengths stay on the CPU",
            1,
            _examples_elsewhere,
            _in_place,
        ),
    ),
    mistakes=(
        Mistake(
            "the target is not shifted",
            "What goes in at a position is the token before the one that should come"
            " out: BOS in front of the one, EOS behind the other.",
            FORCING,
            _collate_with(
                lambda batch, ids: batch._replace(target_in=batch.target_out)
            ),
            _targets_alone(lambda given, said, batch: close(given, said)),
        ),
        Mistake(
            "shifted the wrong way",
            "What goes in begins with BOS, what should come out ends with EOS.",
            FORCING,
            _collate_with(
                lambda batch, ids: batch._replace(
                    target_in=batch.target_out, target_out=batch.target_in
                )
            ),
        ),
        Mistake(
            "the end behind the padding",
            "EOS follows the last token of each target; padding comes after it.",
            FORCING,
            _collate_with(
                lambda batch, ids: batch._replace(
                    target_out=F.pad(core.pad(ids), (0, 1), value=EOS).to(
                        batch.source.device
                    )
                )
            ),
        ),
        Mistake(
            "BOS and EOS on both sides",
            "Each of the two has one token more than the target: BOS in front of the"
            " one, EOS behind the other.",
            FORCING,
            _collate_with(
                lambda batch, ids: batch._replace(
                    target_in=core.pad([[BOS, *row, EOS] for row in ids]).to(
                        batch.source.device
                    ),
                    target_out=core.pad([[BOS, *row, EOS] for row in ids]).to(
                        batch.source.device
                    ),
                )
            ),
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
            _sources_bordered,
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
            _collate_with(
                lambda batch, ids: batch._replace(
                    lengths=batch.lengths.new_full(
                        batch.lengths.shape, batch.source.size(1)
                    )
                )
            ),
        ),
        Mistake(
            "the lengths are those of something else",
            "lengths[b] is the number of tokens in source b.",
            PADDING,
            sign=_as_wide_as_the_batch,
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
                and request.inputs[-1] is None
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
                request.inputs[-1] is not None and not reply.error
            ),
        ),
        *ANYWHERE,
    ),
)
