"""What a run keeps of its task: all that decoding takes, and none of the examples.

It is plain data: numbers, text and lists of them, which a checkpoint can hold.
"""

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from tokenizers import Tokenizer

from attention_course.tasks.core import SPECIALS, Vocabulary

# The tasks that can be kept, and the modules that they are in.
CLASSES = {
    "CaptionTask": "scenes",
    "LabelTask": "labels",
    "MaskedTask": "pretraining",
    "SequenceTask": "sequences",
    "SeriesTask": "series",
    "TranslationTask": "multi30k",
    "WritingTask": "writing",
}
# What reads the sources of a `LabelTask`.
READERS = {"ReadFrames": "frames", "ReadImages": "scenes", "ReadTokens": "labels"}
EXAMPLES = {"train", "validation", "test"}
# Made again, these have no examples and nothing to write of one.
WITHOUT: Mapping[str, Any] = dict.fromkeys(EXAMPLES, ()) | {
    "documents": {},
    "write": str,
}


def keep_task(task: Any) -> dict[str, Any]:
    """Return what `make_again` makes the task of again.

    Args:
        task: of one of `CLASSES`.

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
    """Make a task without examples, which decodes as the one that was kept.

    Args:
        kept: from `keep_task`.

    Returns:
        The task.

    Raises:
        ValueError: it is not what `keep_task` returns.
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
    except Exception as error:  # depends on what was edited
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
