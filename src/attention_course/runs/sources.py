"""Read sources to decode: text, images and sound, from arguments, stdin and files."""

import codecs
import math
import os
import re
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attention_course.registry import Source
from attention_course.tasks.core import SPECIALS
from attention_course.tasks.sequences import SequenceTask

REPLACED = "\N{REPLACEMENT CHARACTER}"  # what Python puts in place of invalid bytes
LARGEST = {"uint8": 255, "uint16": 65_535}  # the values of full brightness


class Line(NamedTuple):
    """A source, as the user gave it.

    Attributes:
        number: counted from 1.
        name: the text that was given, for messages.
        source: tokens, an image or frames; None if there is nothing to decode.
        warnings: what is wrong with it.
    """

    number: int
    name: str
    source: Any
    warnings: tuple[str, ...] = ()


def arriving(stream: BufferedIOBase, most: int = 256) -> Iterator[list[bytes]]:
    """Yield a stream's lines in batches of those that have arrived so far.

    So a file is read in large batches, and a person at a terminal is answered line by
    line.

    Args:
        stream: its `read1` returns the bytes that are available.
        most: maximum number of lines in a batch.

    Yields:
        Lists of lines, without line endings.
    """
    rest = b""
    while piece := stream.read1(1 << 16):
        *lines, rest = (rest + piece).split(b"\n")
        for i in range(0, len(lines), most):
            yield lines[i : i + most]
    if rest:
        yield [rest]


class Reader:
    """Turn lines into sources, and warn about what is wrong with them.

    Args:
        task: splits texts into tokens.
        form: what the lines are: text, or names of files.
        warn: called with a line that says what is wrong.
        word: what a line is called in warnings.
    """

    def __init__(
        self,
        task: Any,
        form: Source,
        warn: Callable[[str], None],
        word: str = "line",
    ):
        self.task, self.form, self.warn, self.word = task, form, warn, word
        self.count = 0
        self.failed = False  # whether a file could not be read
        self.warnings: list[str] = []  # of the line that is being read
        vocabulary = getattr(task, "source_vocabulary", None)
        if not isinstance(task, SequenceTask):
            vocabulary = getattr(task.read, "vocabulary", None)
        self.known = set(vocabulary.tokens) if vocabulary else set()

    def read(self, line: bytes | str) -> Line:
        """Read the next line."""
        self.count += 1
        self.warnings = []
        if isinstance(line, str) and self.form is Source.TEXT:
            line = os.fsencode(line)  # arguments may be no UTF-8 either
        if isinstance(line, bytes):
            line = self._text(line)
        if not line.strip():
            return self._line(line, None)
        if self.form is not Source.TEXT:
            return self._line(line, self._file(line))
        tokens = self._tokens(line.strip())
        unknown = dict.fromkeys(
            token for token in tokens if token not in self.known and token != REPLACED
        )
        if unknown:
            listed = ", ".join(map(repr, unknown))
            self._warn(
                f"the model has never seen {listed}, and reads {SPECIALS[-1]} instead"
            )
        return self._line(line, tokens or None)

    def _line(self, name: str, source: Any) -> Line:
        return Line(self.count, name, source, tuple(self.warnings))

    def _text(self, line: bytes) -> str:
        line = line.removesuffix(b"\r")
        if self.count == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            self._warn(
                f"byte 0x{line[error.start]:02x} at position {error.start + 1} is no"
                f" UTF-8; the model reads {SPECIALS[-1]} instead"
            )
            return line.decode(errors="replace")

    def _tokens(self, text: str) -> tuple[str, ...]:
        if isinstance(self.task, SequenceTask):
            tokens = self.task.example(text).source
        else:
            tokens = tuple(text.split())
        return tuple(part for token in tokens for part in self._parts(token))

    def _parts(self, word: str) -> list[str]:
        """Cut "Fifty-one" into fifty, - and one, if the model knows only these."""
        for written in (word, word.lower()):
            parts = re.findall(r"\w+|[^\w\s]", written)
            for tokens in ([written], parts):
                if tokens and self.known.issuperset(tokens):
                    return tokens
        return [word]

    def _file(self, name: str) -> Tensor | None:
        try:
            read = read_image if self.form is Source.IMAGE else read_frames
            source = read(Path(name))
            self.task.read([source])
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self._warn(f"{name} cannot be read: {reason}")
            self.failed = True
            return None
        return source

    def _warn(self, what: str) -> None:
        self.warnings.append(what)
        self.warn(f"{self.word} {self.count}: {what}")


def read_image(path: Path) -> Tensor:
    """Read a grayscale image.

    Args:
        path: a PNG, whose colors are turned into gray, or an array in NumPy's format,
            (height, width), with integers as in a PNG or with brightness.

    Returns:
        Brightness, 0 for black and 1 for white, (1, height, width).

    Raises:
        OSError: there is no such file.
        ValueError: the file is not an image, or its brightness is out of range.
    """
    pixels = _array(path) if path.suffix.lower() == ".npy" else _picture(path)
    if pixels.size != math.prod(pixels.shape[-2:]):
        raise ValueError(
            f"an image is an array (height, width) in gray, got {pixels.shape}"
        )
    full = LARGEST.get(str(pixels.dtype), 1)
    pixels = pixels / full
    # noise may go beyond 0 and 1, but the model does not know images with 255 for white
    if not (pixels.size and -0.5 <= pixels.min() and pixels.max() <= 1.5):
        span = f"{pixels.min():g} to {pixels.max():g}" if pixels.size else "nothing"
        raise ValueError(f"brightness is 0 for black and 1 for white, got {span}")
    if 0 < pixels.max() <= 1 / full < 1:
        raise ValueError(f"its brightest pixel is 1 of {full}: give 0 and 1 as floats")
    if pixels.mean() > 0.5:
        raise ValueError("most of it is bright: the digits are bright on black")
    return torch.from_numpy(pixels).float().reshape(1, *pixels.shape[-2:])


def read_frames(path: Path) -> Tensor:
    """Read frames of sound, an array (frames, bands) in NumPy's format.

    Raises:
        OSError: there is no such file.
        ValueError: the file is not an array of finite numbers.
    """
    frames = torch.from_numpy(_array(path).astype(np.float32))
    if not frames.isfinite().all():
        raise ValueError("some of its numbers are infinite or nan")
    return frames


def _array(path: Path) -> np.ndarray:
    with path.open("rb") as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
    if array.dtype.kind not in "buif" or array.ndim < 2:
        raise ValueError(
            f"it has {array.ndim} axes of {array.dtype}; two of numbers are expected"
        )
    return array


def _picture(path: Path) -> np.ndarray:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            deep = image.mode.startswith("I")  # 16 bits per pixel
            return np.asarray(image if deep else image.convert("L")).astype(
                np.uint16 if deep else np.uint8
            )
    except UnidentifiedImageError:
        raise ValueError("it is no image") from None
