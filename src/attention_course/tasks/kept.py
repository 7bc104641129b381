"""Save and restore a task in a checkpoint: all that decoding needs, but no examples.

The saved task is plain data that a checkpoint can hold: numbers, text, and lists of
them. The checkpoints themselves are in `attention_course.training.checkpoints`.
"""

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from tokenizers import Tokenizer

from attention_course.tasks.core import SPECIALS, Vocabulary

# The classes of tasks that can be saved, and their modules.
CLASSES = {
    "CaptionTask": "scenes",
    "LabelTask": "labels",
    "MaskedTask": "pretraining",
    "SequenceTask": "sequences",
    "SeriesTask": "series",
    "TranslationTask": "multi30k",
    "WritingTask": "writing",
}
# The classes that read the sources of a `LabelTask`, and their modules.
READERS = {"ReadFrames": "frames", "ReadImages": "scenes", "ReadTokens": "labels"}
EXAMPLES = {"train", "validation", "test"}
# The values of these fields in a restored task, which has no examples.
WITHOUT: Mapping[str, Any] = dict.fromkeys(EXAMPLES, ()) | {
    "documents": {},
    "write": str,
}


def keep_task(task: Any) -> dict[str, Any]:
    """Return the data from which `make_again` restores a task.

    Args:
        task: its class is one of `CLASSES`.

    Returns:
        The name of its class, and its fields without examples, as plain data.
    """
    kept = {
        field.name: _plain(getattr(task, field.name))
        for field in fields(task)
        if field.name not in WITHOUT
    }
    if "longest" in kept:
        targets = (len(example.target) for example in task.train)
        kept["longest"] = max([task.longest, *targets])
    return {"class": type(task).__name__, **kept}


def make_again(kept: Mapping[str, Any]) -> Any:
    """Restore a saved task, which decodes as before but has no examples.

    Args:
        kept: from `keep_task`.

    Returns:
        The task.

    Raises:
        ValueError: `kept` is not what `keep_task` returns.
    """
    try:
        made = _class(CLASSES, kept["class"])
        values = {
            field.name: WITHOUT[field.name]
            if field.name in WITHOUT
            else _whole(kept[field.name])
            for field in fields(made)
        }
        return made(**values)
    except Exception as error:  # its type depends on what was edited
        raise ValueError(f"no task can be made of it ({error!r})") from error


def _class(modules: Mapping[str, str], name: str) -> Any:
    return getattr(import_module(f"attention_course.tasks.{modules[name]}"), name)


def _plain(value: Any) -> Any:
    if isinstance(value, Vocabulary):
        return {"tokens": list(value.tokens[len(SPECIALS) :])}
    if isinstance(value, Tokenizer):
        return {"tokenizer": value.to_str()}
    if type(value).__name__ == "Subwords":
        return {"subwords": value.to_str()}
    if type(value).__name__ in READERS:
        vocabulary = getattr(value, "vocabulary", None)
        return {"reader": type(value).__name__, "of": vocabulary and _plain(vocabulary)}
    return list(value) if isinstance(value, tuple) else value


def _whole(value: Any) -> Any:
    match value:
        case {"tokens": tokens}:
            return Vocabulary(tokens)
        case {"tokenizer": text}:
            return Tokenizer.from_str(text)
        case {"subwords": text}:
            return _class({"Subwords": "multi30k"}, "Subwords").from_str(text)
        case {"reader": name, "of": vocabulary}:
            return _class(READERS, name)(*([_whole(vocabulary)] if vocabulary else []))
        case list():
            return tuple(value)
    return value
