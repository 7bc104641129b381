"""Question `collate`: turn examples into a padded batch."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from attention_course.tasks import core
from attention_course.tasks.core import BOS, EOS, SPECIALS, UNK, Vocabulary
from attention_course.tasks.sequences import Batch, Example, SequenceTask
from attention_labs.lab01_preprocessing.shared import (
    WORDS,
    draw_lengths,
    draw_words,
    some_of,
)
from attention_labs.pages import FORCING, PADDING
from nbjudge import (
    ANYWHERE,
    PLAIN,
    Axis,
    Battery,
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
    left_alone,
    of_outputs,
    same_whole_numbers,
    unchanged,
    wrong_in,
)


def collate(
    task: Any, examples: Sequence[Example], device: str | torch.device = "cpu"
) -> Batch:
    """Pad examples to a batch, as the course's tasks do, but for where lengths are."""
    whole = SequenceTask("", (), (), (), task.source_vocabulary, task.target_vocabulary)
    source, lengths, *target = whole.collate(examples)
    return Batch(source.to(device), lengths, *(ids.to(device) for ids in target))


def _use_collate(
    collate: Callable[..., Any], words: Any, sources: Any, targets: Any, *device: str
) -> Any:
    """Make a batch; say which tensors went to a device, if there is one."""
    # Vocabulary, not core.Vocabulary: where answers are graded, a stub stands there.
    kinds = ("source_vocabulary", "target_vocabulary")
    task = SimpleNamespace(**dict(zip(kinds, map(Vocabulary, words))))
    examples = [Example(s, t, ()) for s, t in zip(sources, targets)]
    # As in the lab, where it is that of a model's parameters; the default is a string.
    batch = collate(task, examples, *map(torch.device, device))
    # A list that has been changed is changed for the caller, too.
    sources[:], targets[:] = ([x[i] for x in examples] for i in (0, 1))
    if batch is None:
        return None
    if not isinstance(batch, Batch):
        raise TypeError(f"a {type(batch).__name__} was returned, wanted a Batch")
    return torch.tensor([x.is_meta for x in batch]) if device else batch


def _examples(d: Draw, *more: str, device: tuple[str, ...] = ()) -> Request:
    """Draw examples of words that are known; in their places may stand others."""
    words = [draw_words(d, d.V), draw_words(d, d.V)]
    sides = (
        [
            tuple(some_of(d, [*known, *more], n))
            for n in draw_lengths(d, d.B, longest, 1)
        ]
        for known, longest in zip(words, (d.S, d.T))
    )
    return Request((words, *sides, *device))


def _rare(d: Draw) -> list[Request]:
    words, sources, targets = _examples(d).inputs
    (a, b), tokens = words[0][:2], (*SPECIALS, "?", "??")
    others = [["!", *side] for side in words]
    earlier = Request((others, [*sources], [*targets]))
    sizes = [draw_lengths(d, d.B, longest) for longest in (d.S, d.T)]
    return [
        Request((words, sources, targets), before=(earlier,), about="another task"),
        _examples(d, *tokens),
        _examples(d, *WORDS[:30]),
        Request((words, sources, [(), *targets[1:]])),
        Request((words, sources, [() for _ in targets])),
        Request((words, [*sources, *sources], [*targets, *targets])),
        Request((words, [*sources, sources[0]], [*targets, (a, b, a, b)])),
        Request((words, [(a, "<pad>"), (a,), (b, b, a)], [("<eos>", a), (b,), (a,)])),
        Request((words, [(a,), (b,)], [("<bos>", a), ("<bos>", b, "<eos>")])),
        Request((words, [("?",), (a,)], [(b, "?"), ("<pad>", "<unk>", "<bos>")])),
        Request((words, [tokens[:n] or (a,) for n in sizes[0]], targets)),
    ]


def _in_place(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    return same_whole_numbers(request, reply, reference) and Finding(
        reply.error or "a different device",
        "the ids on the device, the lengths on the CPU",
    )


def _targets_alone(test: Callable[[Tensor, Tensor, Batch], bool]) -> Sign:
    """Look at wrong targets: test(target_in, target_out, the right batch)."""
    return lambda request, reply, reference: (
        len(reply.outputs) == len(reference.outputs) == 4
        and not all(map(close, reply.outputs[2:], reference.outputs[2:]))
        and test(reply.outputs[2], reply.outputs[3], Batch(*reference.outputs))
    )


def _times(ids: Tensor, token: int) -> int:
    return int((ids == token).sum())


def _token_missing(ids: Tensor, wanted: Tensor, token: int) -> bool:
    same_rows = ids.dim() == 2 and len(ids) == len(wanted)
    return same_rows and bool((~(ids == token).any(-1)).any())


BATTERY = Battery(
    PLAIN,
    _examples,
    {
        "B": Axis("examples", long=200),
        "S": Axis("tokens in the longest source", long=1100),
        "T": Axis("tokens in the longest target", long=1100),
        "V": Axis("words in a vocabulary", least=2, long=300),
    },
    leaves_out={
        "zero": "there is an example, and no source is empty",
    },
)

QUESTION = Question(
    name="collate",
    reference=collate,
    use=_use_collate,
    stand_ins={"pad": core.pad},
    battery=BATTERY,
    requirements={
        "sources": "Add neither `BOS` nor `EOS` to a source.",
        "lengths": "The lengths are the numbers of tokens in the sources. Leave them"
        " on the CPU, and move the ids to `device`.",
        "tokens": "Count every token, even one that the vocabulary does not know and"
        " even a special token such as `<pad>`. A target may be empty, but a source"
        " never is.",
        "batch": "Return `Batch(source, lengths, target_in, target_out)`, with the"
        " fields in this order.",
        "rows": "Make each row from one `Example`, in the given order, and append `PAD`"
        " to the shorter rows.",
        "examples": "examples: a list; each has `source` and `target`, tuples of"
        " tokens.",
        "unchanged": "Do not change the inputs.",
        "device": "device: where the ids go, a string or a `torch.device`.",
        "returns": "A `Batch` of source (B, S), lengths (B,), target_in (B, T) and"
        " target_out (B, T).",
    },
    properties=(
        BATTERY.numbers(
            "the sources' ids, and how many tokens each has",
            1,
            of_outputs(0, 2, same_whole_numbers),
            checks=("sources", "lengths", "batch", "rows", "returns"),
            gradients=False,
        ),
        BATTERY.line(
            "the target with BOS in front, and with EOS at the end",
            1,
            judge=of_outputs(2, 4, same_whole_numbers),
            checks=("batch", "rows", "returns"),
        ),
        BATTERY.edges(
            1,
            same_whole_numbers,
            checks=("lengths", "tokens", "batch", "returns"),
            claim="edges: tokens that are special or unknown, an empty target, one"
            " example, the same one twice, many; repeated calls",
            also=_rare,
        ),
        BATTERY.line(
            "ids go to the device, lengths stay on the CPU, examples are unchanged",
            1,
            lambda d: _examples(d, device=("meta",)),
            each_of(_in_place, left_alone),
            checks=("lengths", "device", "examples", "unchanged"),
            throughout=left_alone,
        ),
    ),
    mistakes=(
        Mistake(
            "the target is not shifted",
            "The input at a position is the token before the one that should be"
            " predicted there. So target_in begins with BOS, and target_out ends with"
            " EOS.",
            FORCING,
            edit(SequenceTask.collate, "[BOS, *target]", "[*target] + [EOS]"),
            _targets_alone(lambda given, said, batch: close(given, said)),
        ),
        Mistake(
            "the target is shifted in the wrong direction",
            "target_in begins with BOS, and target_out ends with EOS.",
            FORCING,
            edit(SequenceTask.collate, "[BOS, *target]", "[*target] + [EOS]")
            & edit(SequenceTask.collate, "[*target, EOS]", "[BOS, *target]"),
        ),
        Mistake(
            "EOS comes after the padding",
            "EOS follows the last token of each target; padding comes after it.",
            FORCING,
            edit(
                SequenceTask.collate,
                "pad([[*target, EOS] for target in targets])",
                "F.pad(pad(targets), (0, 1), value=EOS)",
            ),
        ),
        Mistake(
            "both BOS and EOS in target_in and target_out",
            "Both have one token more than the target: target_in begins with BOS, and"
            " target_out ends with EOS.",
            FORCING,
            edit(SequenceTask.collate, "[BOS, *target]", "[BOS, *target] + [EOS]")
            & edit(SequenceTask.collate, "[*target, EOS]", "[BOS, *target, EOS]"),
            _targets_alone(
                lambda given, said, batch: (
                    given.size(-1) > batch.target_in.size(-1)
                    and _times(given, EOS) > _times(batch.target_in, EOS)
                    and _times(said, BOS) > _times(batch.target_out, BOS)
                )
            ),
        ),
        Mistake(
            "the last column cut off, not the EOS of each row",
            "In the padded batch, only the longest rows end with EOS. Leave EOS out of"
            " each row of target_in before you pad the rows.",
            FORCING,
            edit(
                SequenceTask.collate,
                "pad([[BOS, *target] for target in targets])",
                "pad([[BOS, *target, EOS] for target in targets])[:, :-1]",
            ),
        ),
        Mistake(
            "EOS in target_in, or BOS in target_out",
            "Both have one token more than the target: target_in begins with BOS, and"
            " target_out ends with EOS.",
            FORCING,
            sign=_targets_alone(
                lambda given, said, batch: (
                    _times(given, EOS) > _times(batch.target_in, EOS)
                    or _times(said, BOS) > _times(batch.target_out, BOS)
                )
            ),
        ),
        Mistake(
            "BOS is missing in target_in",
            "The first token has to be predicted as well, from BOS.",
            FORCING,
            sign=_targets_alone(
                lambda given, said, batch: _token_missing(given, batch.target_in, BOS)
            ),
        ),
        Mistake(
            "EOS is missing in target_out",
            "The model has to learn where to stop, so EOS is the last token of"
            " target_out.",
            FORCING,
            sign=_targets_alone(
                lambda given, said, batch: _token_missing(said, batch.target_out, EOS)
            ),
        ),
        Mistake(
            "BOS or EOS in the sources",
            "An encoder does not predict anything. Sources have their own tokens and"
            " nothing more.",
            FORCING,
            edit(
                SequenceTask.read,
                "self.source_vocabulary.encode(source)",
                "[BOS, *self.source_vocabulary.encode(source), EOS]",
            ),
            lambda request, reply, reference: (
                len(reply.outputs) == 4
                and any(
                    _times(reply.outputs[0], token)
                    > _times(reference.outputs[0], token)
                    for token in (BOS, EOS)
                )
            ),
        ),
        Mistake(
            "the lengths include padding",
            "The lengths count each source's own tokens. The width of the batch can be"
            " read off its shape.",
            PADDING,
            edit(
                SequenceTask.collate,
                "lengths=lengths",
                "lengths=torch.full_like(lengths, source.size(1))",
            ),
        ),
        Mistake(
            "lengths computed from the ids",
            "A token may have the id of PAD, and it still counts. Count the tokens"
            " before you pad the rows.",
            PADDING,
            edit(
                SequenceTask.collate,
                "lengths=lengths",
                "lengths=(source != PAD).sum(1).cpu()",
            ),
        ),
        Mistake(
            "no UNK among the ids",
            "A token that the vocabulary does not know stays in its place, as UNK.",
            PADDING,
            sign=lambda request, reply, reference: (
                not reply.error
                and any(_times(x, UNK) for x in reference.outputs[::2])
                and not any(_times(x, UNK) for x in reply.outputs[::2])
            ),
        ),
        Mistake(
            "the examples are changed",
            "sort, append and remove change the caller's list. Build a new one.",
            sign=lambda request, reply, reference: reply.changed,
            undone=unchanged,
        ),
        Mistake(
            "the sources are right, the lengths are wrong",
            "lengths[b] is the number of tokens in source b.",
            PADDING,
            sign=wrong_in(1, 0),
        ),
        Mistake(
            "unexpected UNK among the ids",
            "Sources are encoded with the vocabulary of the source and targets with"
            " that of the target. The other vocabulary gives UNK everywhere.",
            made_by=edit(collate, "task.target_vocabulary", "task.source_vocabulary"),
            sign=lambda request, reply, reference: (
                not reply.error
                and any(_times(x, UNK) for x in reply.outputs[::2])
                and not any(_times(x, UNK) for x in reference.outputs[::2])
            ),
        ),
        Mistake(
            "tokens instead of ids",
            "A tensor holds numbers: encode the tokens before they are padded.",
            sign=error_like(
                "too many dimensions 'str'|must be an integer|integer is required|type"
                " 'str'|invalid data"
            ),
        ),
        Mistake(
            "lists instead of tensors",
            "The four fields of a Batch are tensors. `pad` turns rows of ids into a"
            " tensor, and torch.tensor does the same for the lengths.",
            sign=error_like("wanted tensors"),
        ),
        Mistake(
            "wrong number of rows in the batch",
            "Each example is a row of each of the four tensors, in the order in which"
            " the examples came.",
            sign=lambda request, reply, reference: (
                not reply.error
                and request.inputs[-1] != "meta"
                and [x.dim() for x in reply.outputs] == [2, 1, 2, 2]
                and [len(x) for x in reply.outputs]
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
            "tensors of the batch on the wrong device",
            "The three tensors of ids go to `device`; the lengths stay on the CPU.",
            made_by=(
                edit(collate, "lengths, *(ids", "lengths.to(device), *(ids"),
                edit(
                    collate,
                    "*(ids.to(device) for ids in target)",
                    "target[0].to(device), target[1]",
                ),
            ),
            sign=lambda request, reply, reference: (
                request.inputs[-1] == "meta" and not reply.error
            ),
        ),
        *ANYWHERE,
    ),
)
