"""The tasks and models by name, with the sizes and options that each of them takes.

A task or a model is imported only when it is made: importing torch takes seconds, and
listing the names, or reporting a wrong one, should not take that long.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from importlib import import_module
from typing import Any, NamedTuple


class Kind(Enum):
    """The inputs and outputs of a task; a model learns the tasks of one kind."""

    SEQUENCES = auto()  # tokens in, tokens out
    CAPTIONS = auto()  # an image in, tokens out
    TAGS = auto()  # tokens in, a label for each
    SENTENCE_CLASSES = auto()  # tokens in, one label
    FRAME_LABELS = auto()  # frames of sound in, a label for each
    IMAGE_CLASSES = auto()  # an image in, one label
    TEXT = auto()  # a text in, its continuation out


class Source(Enum):
    """The form in which a source is given on the command line."""

    TEXT = "text"
    IMAGE = "image"  # a PNG or NPY file
    FRAMES = "frames"  # an NPY file


SOURCES = {
    Kind.CAPTIONS: Source.IMAGE,
    Kind.IMAGE_CLASSES: Source.IMAGE,
    Kind.FRAME_LABELS: Source.FRAMES,
}


# Tasks of these kinds are learned by encoder-decoders, which are given the last token.
FORCED = (Kind.SEQUENCES, Kind.CAPTIONS)


class Size(NamedTuple):
    """A size that some models have.

    Attributes:
        default: the default value.
        meaning: description for users.
        what: the values that make sense, in words.
        holds: whether a value makes sense.
    """

    default: Any
    meaning: str
    what: str = "at least 1"
    holds: Callable[[Any], bool] = lambda value: value >= 1


class TaskRow(NamedTuple):
    """A row of the table of tasks.

    Attributes:
        kind: decides which models learn it.
        maker: the function that makes it, as "module:function" below
            `attention_course.tasks`.
        meaning: what is learned, in a few words.
        options: which of `OPTIONS` it takes, with their defaults; the function has
            arguments of these names.
        settings: fixed arguments that make it the task of this name.
    """

    kind: Kind
    maker: str
    meaning: str
    options: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}


class ModelRow(NamedTuple):
    """A row of the table of models.

    Attributes:
        kind: kind of the tasks that it learns.
        sizes: which of `SIZES` it takes.
    """

    kind: Kind
    sizes: tuple[str, ...]


TASKS = {
    "captions": TaskRow(
        Kind.CAPTIONS, "scenes:captions", "describe an image of handwritten digits"
    ),
    "dates": TaskRow(
        Kind.SEQUENCES, "dates:dates", "convert dates in several languages to ISO 8601"
    ),
    "focus": TaskRow(
        Kind.IMAGE_CLASSES,
        "scenes:focus",
        "find the only digit of an image, among clutter",
    ),
    "frames": TaskRow(
        Kind.FRAME_LABELS,
        "frames:frames",
        "label each 10 ms of synthetic speech with its vowel",
    ),
    "multi30k": TaskRow(
        Kind.SEQUENCES,
        "multi30k:multi30k",
        "translate photo captions from German to English",
        {"data": None, "vocab_size": 4_000},
    ),
    "numerals-de": TaskRow(
        Kind.SEQUENCES,
        "numerals:numerals",
        "translate English number words to German",
        settings={"language": "de"},
    ),
    "numerals-fr": TaskRow(
        Kind.SEQUENCES,
        "numerals:numerals",
        "translate English number words to French",
        settings={"language": "fr"},
    ),
    "phrases": TaskRow(
        Kind.SEQUENCES,
        "phrases:phrases",
        "translate English sentences of a small grammar to French",
    ),
    "pretraining": TaskRow(
        Kind.TAGS, "pretraining:pretraining", "predict the hidden words of a sentence"
    ),
    "reversal": TaskRow(
        Kind.SEQUENCES,
        "reversal:reversal",
        "reverse a random string of letters",
        {"max_length": 20},
    ),
    "sentiment": TaskRow(
        Kind.SENTENCE_CLASSES,
        "sentiment:sentiment",
        "tell whether a review is positive or negative",
    ),
    "series": TaskRow(Kind.SEQUENCES, "series:series", "forecast next week's sales"),
    "tagging": TaskRow(
        Kind.TAGS, "tagging:tagging", "label each word with its part of speech"
    ),
    "writing": TaskRow(
        Kind.TEXT,
        "writing:writing",
        "predict each next subword of a text",
        {"vocab_size": 1_024},
    ),
}

OPTIONS = {
    "data": "Folder of the corpus (multi30k).",
    "vocab_size": "Subwords of each language, or of the text.",
    "max_length": "Letters in the longest string.",
}
SIZES = {
    "dim": Size(32, "Width of embeddings, and of a Transformer's states, in numbers."),
    "hidden_dim": Size(
        64, "Width of recurrent states; inside feed-forward networks, in numbers."
    ),
    "layers": Size(2, "Layers of the encoder; of gnmt and transformer, on each side."),
    "heads": Size(4, "Heads of a Transformer; they divide --dim."),
    "dropout": Size(
        0.0,
        "Share of numbers that training drops.",
        "a share, at least 0 and below 1",
        lambda value: 0 <= value < 1,
    ),
}

WIDTHS = ("dim", "hidden_dim")
STACK = (*WIDTHS, "layers")
RECURRENT = (*STACK, "dropout")
TRANSFORMER = (*STACK, "heads", "dropout")

# `make_model` builds them.
MODELS = {
    "final-state": ModelRow(Kind.SEQUENCES, RECURRENT),
    "context": ModelRow(Kind.SEQUENCES, RECURRENT),
    "bahdanau": ModelRow(Kind.SEQUENCES, RECURRENT),
    "luong": ModelRow(Kind.SEQUENCES, RECURRENT),
    "luong-fed": ModelRow(Kind.SEQUENCES, RECURRENT),
    "local-m": ModelRow(Kind.SEQUENCES, RECURRENT),
    "local-p": ModelRow(Kind.SEQUENCES, RECURRENT),
    "gnmt": ModelRow(Kind.SEQUENCES, STACK),
    "transformer": ModelRow(Kind.SEQUENCES, TRANSFORMER),
    "captioner": ModelRow(Kind.CAPTIONS, WIDTHS),
    "tagger": ModelRow(Kind.TAGS, STACK),
    "encoder": ModelRow(Kind.TAGS, TRANSFORMER),
    "classifier": ModelRow(Kind.SENTENCE_CLASSES, WIDTHS),
    "frame-labeller": ModelRow(Kind.FRAME_LABELS, STACK),
    "image-classifier": ModelRow(Kind.IMAGE_CLASSES, ("hidden_dim",)),
    "gpt": ModelRow(Kind.TEXT, TRANSFORMER),
}


def find_task(name: str) -> TaskRow:
    """Look up a task.

    Raises:
        ValueError: there is no task of this name; the message lists those that exist.
    """
    return _find(TASKS, "task", name)


def find_model(name: str, task: str) -> ModelRow:
    """Look up a model among those that learn a task.

    Raises:
        ValueError: there is no such task, or no such model for it.
    """
    kind = find_task(task).kind
    fitting = {name: row for name, row in MODELS.items() if row.kind == kind}
    return _find(fitting, f"model for {task} called", name)


def task_maker(name: str) -> Callable[..., Any]:
    """Import the function that makes a task."""
    module, function = find_task(name).maker.split(":")
    return getattr(import_module(f"attention_course.tasks.{module}"), function)


def make_task(name: str, **options: Any) -> Any:
    """Make a task.

    Args:
        name: from `TASKS`.
        options: arguments of the function that makes it.

    Returns:
        The task; see `Task`.

    Raises:
        ValueError: there is no such task, or what the function raises.
    """
    return task_maker(name)(**find_task(name).settings, **options)


def make_model(name: str, source_size: int, target_size: int, **sizes: Any) -> Any:
    """Build an untrained model.

    Args:
        name: from `MODELS`.
        source_size: the task's `source_size`.
        target_size: the task's `target_size`.
        sizes: exactly the sizes that the model's row names.

    Returns:
        The model.

    Raises:
        ValueError: there is no such model, it takes other sizes, or what its builder
            raises.
    """
    row = _find(MODELS, "model", name)
    if sizes.keys() != set(row.sizes):
        raise ValueError(
            f"{name} takes {', '.join(row.sizes)}; got {', '.join(sizes) or 'nothing'}"
        )
    from torch import nn

    from attention_course import models
    from attention_course.pooling import Labeller
    from attention_course.rnn import LocalM, LocalP
    from attention_course.scores import AdditiveScore, GeneralScore

    values: list[Any] = [sizes.get(size) for size in SIZES]
    dim, hidden_dim, layers, heads, dropout = values
    ends: dict[str, Any] = {"source_size": source_size, "target_size": target_size}
    widths: dict[str, Any] = {"embedding_dim": dim, "hidden_dim": hidden_dim}
    rest: dict[str, Any] = {"num_layers": layers, "dropout": dropout}
    stack = {"dim": dim, "num_heads": heads, "hidden_dim": hidden_dim, **rest}

    def additive(directions: int = 2) -> AdditiveScore:
        """Build an additive score for an encoder with one or two directions."""
        return AdditiveScore(hidden_dim, directions * hidden_dim, hidden_dim)

    def luong(**order: Any) -> Any:
        """Build one of Luong's models, with his general score."""
        score = GeneralScore(hidden_dim, 2 * hidden_dim)
        return models.luong(**ends, **widths, score=score, **order, **rest)

    match name:
        case "final-state":
            return models.final_state(**ends, **widths, **rest)
        case "context":
            return models.context_every_step(**ends, **widths, **rest)
        case "bahdanau":
            return models.bahdanau(**ends, **widths, score=additive(), **rest)
        case "luong":
            return luong()
        case "luong-fed":
            return luong(input_feeding=True)
        case "local-m":
            return luong(window=LocalM(5))
        case "local-p":
            return luong(window=LocalP(hidden_dim, hidden_dim, 5))
        case "gnmt":
            return models.gnmt(**ends, **widths, score=additive(1), num_layers=layers)
        case "transformer":
            return models.transformer(**ends, **stack, tied=True)
        case "captioner":
            return models.captioner(
                grid_size=source_size,
                target_size=target_size,
                output_dim=hidden_dim,
                **widths,
                score=additive(1),
            )
        case "tagger":
            return models.tagger(
                source_size=source_size,
                num_labels=target_size,
                **widths,
                num_layers=layers,
            )
        case "encoder":
            encoder = models.encoder_only(vocab_size=source_size, **stack)
            return Labeller(encoder, nn.Linear(dim, target_size))
        case "classifier":
            return models.classifier(
                source_size=source_size,
                num_classes=target_size,
                **widths,
                score=additive(),
                look_up_words=True,
            )
        case "frame-labeller":
            return models.frame_labeller(
                frame_dim=source_size,
                num_labels=target_size,
                **widths,
                num_layers=layers,
            )
        case "image-classifier":
            return models.image_classifier(
                grid_size=source_size,
                num_classes=target_size,
                output_dim=hidden_dim,
                score=additive(1),
            )
        case "gpt":
            from attention_course.tasks.writing import WINDOW

            return models.gpt2(vocab_size=target_size, max_length=WINDOW, **stack)


def _find(table: Mapping[str, Any], what: str, name: str) -> Any:
    if name not in table:
        raise ValueError(f"there is no {what} {name!r}; there are {', '.join(table)}")
    return table[name]
