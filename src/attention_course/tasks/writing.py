"""The writing task: language modeling, which predicts each next token of a text.

The text is an extract of this course, in a file next to this one: prose of the book as
of November 2026, and two modules of the package. In the prose, code and tables were
removed, formulas were replaced by a letter, and numbers from runs by N. The validation
and test splits consist of whole documents. Masked language modeling is the task in
`pretraining`.
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as FromBytes
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from torch import Tensor, nn

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, batches, pad

EXTRACT = Path(__file__).with_name("extract.txt")
SHA256 = "e3df8f1b13754d1e759e814bffb15df09a11b2fd07ad48d1bbd07e56e5925ba7"
SPLITS = ("train", "validation", "test")
WINDOW = 128  # tokens that a model reads at once


class Document(NamedTuple):
    """A file of the extract.

    Attributes:
        split: the split that it belongs to: "train", "validation" or "test".
        name: name of the file that it was taken from.
        text: the whole text.
    """

    split: str
    name: str
    text: str


class Window(NamedTuple):
    """A part of a document that a model reads at once.

    Attributes:
        tokens: ids.
        characters: number of characters of the text that they stand for.
    """

    tokens: tuple[int, ...]
    characters: int


class TextBatch(NamedTuple):
    """A batch of windows, as padded tensors.

    Attributes:
        given: (B, T), BOS and all tokens but the last (shifted right): the model's
            input.
        wanted: (B, T), the tokens themselves: what to predict at each position.
    """

    given: Int[Tensor, "B T"]
    wanted: Int[Tensor, "B T"]


def read_extract(path: Path = EXTRACT) -> list[Document]:
    """Read the documents of the extract.

    Args:
        path: a copy of the file that comes with the package.

    Returns:
        The documents, in the order of the file.

    Raises:
        ValueError: the file is not the one that this module was written for.
    """
    content = path.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != SHA256:
        raise ValueError(
            f"{path} has SHA256 {found[:8]}..., not {SHA256[:8]}...: install the"
            " package again"
        )
    parts = re.split(r"^=== (\w+) (\S+)\n", content.decode(), flags=re.MULTILINE)[1:]
    return [Document(*parts[i : i + 3]) for i in range(0, len(parts), 3)]


def learn_pieces(texts: Sequence[str], vocab_size: int) -> Tokenizer:
    """Learn a byte-pair encoding (BPE) from texts, and return its tokenizer.

    Sennrich et al. (2016), Section 3.2, on bytes as in Radford et al. (2019), Section
    2.2: the 256 bytes are pieces from the start, so that every text can be encoded.

    Args:
        texts: texts to count pairs in.
        vocab_size: total number of pieces, including the four special tokens and the
            256 bytes.

    Returns:
        The tokenizer; its special tokens have the same ids as in `Vocabulary`.

    Raises:
        ValueError: `vocab_size` is too small for the special tokens and the bytes.
    """
    alphabet = sorted(ByteLevel.alphabet())
    least = len(SPECIALS) + len(alphabet)
    if vocab_size < least:
        raise ValueError(
            f"a vocabulary of bytes has {least} tokens or more, got {vocab_size}"
        )
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = FromBytes()
    trainer = BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIALS),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def cut(
    tokenizer: Tokenizer, text: str, window: int, stride: int | None = None
) -> list[Window]:
    """Split a text, followed by EOS, into windows of tokens.

    Args:
        tokenizer: from `learn_pieces`.
        text: a document.
        window: tokens in a window; the last windows may be shorter.
        stride: tokens from the start of one window to the start of the next. None: as
            many as in a window, so that each token is in one window.

    Returns:
        The windows, from left to right.

    Raises:
        ValueError: `window` or `stride` is below 1.
    """
    stride = window if stride is None else stride
    if min(window, stride) < 1:
        raise ValueError(
            f"windows and strides are at least 1, got {window} and {stride}"
        )
    encoding = tokenizer.encode(text, add_special_tokens=False)
    ids = [*encoding.ids, EOS]
    ends = [0, *(end for _, end in encoding.offsets), len(text)]  # before each token
    return [
        Window(tuple(ids[i : i + window]), ends[min(i + window, len(ids))] - ends[i])
        for i in range(0, len(ids), stride)
    ]


@dataclass(frozen=True)
class WritingTask:
    """A task that predicts every token in windows of text.

    Attributes:
        name: the task's name in tables.
        train: overlapping windows.
        validation: windows that do not overlap.
        test: windows of other documents that do not overlap.
        tokenizer: turns texts into ids and ids into texts.
        documents: the windows of each document of validation and test.
        metric: what `score` measures.
    """

    name: str
    train: Sequence[Window]
    validation: Sequence[Window]
    test: Sequence[Window]
    tokenizer: Tokenizer
    documents: Mapping[str, Sequence[Window]]
    metric: str = "minus bits per character"

    length: ClassVar[None] = None

    @property
    def source_size(self) -> int:
        """Return V, the size of the vocabulary; source and target are the same text."""
        return self.tokenizer.get_vocab_size()

    @property
    def target_size(self) -> int:
        """Return V, the size of the vocabulary."""
        return self.tokenizer.get_vocab_size()

    def read(
        self, sources: Sequence[str], device: torch.device | str = "cpu"
    ) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]:
        """Turn prompts into the inputs of `TransformerLM.encode`.

        Raises:
            ValueError: there are no prompts.
        """
        if not sources:
            raise ValueError("a batch needs at least one prompt, got 0")
        rows = [
            self.tokenizer.encode(source, add_special_tokens=False).ids
            for source in sources
        ]
        lengths = torch.tensor([len(row) for row in rows], device=device)
        return pad(rows).to(device), lengths

    def collate(
        self, examples: Sequence[Window], device: torch.device | str = "cpu"
    ) -> TextBatch:
        """Combine windows into a padded batch, and shift the inputs right by one.

        Raises:
            ValueError: there are no windows, or one is empty.
        """
        if not examples or not all(example.tokens for example in examples):
            raise ValueError("a batch needs at least one window, and each a token")
        given = pad([(BOS, *example.tokens[:-1]) for example in examples])
        wanted = pad([example.tokens for example in examples])
        return TextBatch(given.to(device), wanted.to(device))

    def loss(
        self, model: nn.Module, batch: TextBatch, label_smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Return the summed cross-entropy in nats, and the number of tokens in the sum.

        Args:
            model: called as `model(given)`; returns logits (B, T, V).
            batch: from `collate`.
            label_smoothing: share of probability spread over the whole vocabulary.
        """
        logits = model(batch.given)
        total = F.cross_entropy(
            logits.transpose(1, 2),  # (B, V, T)
            batch.wanted,
            ignore_index=PAD,
            label_smoothing=label_smoothing,
            reduction="sum",
        )
        return total, (batch.wanted != PAD).sum()

    @torch.no_grad()
    def bits(
        self, model: nn.Module, examples: Sequence[Window], batch_size: int = 64
    ) -> float:
        """Return -log2 of the probability of the windows, in bits.

        The model is left in `eval()` mode.
        """
        model.eval()
        device = next((p.device for p in model.parameters()), "cpu")
        sums = [
            self.loss(model, batch)[0].item()
            for batch in batches(self, examples, batch_size, device)
        ]
        return sum(sums) / math.log(2)

    def score(
        self, model: nn.Module, examples: Sequence[Window], batch_size: int = 64
    ) -> float:
        """Return minus the bits per character, so that higher is better."""
        characters = sum(example.characters for example in examples)
        return -self.bits(model, examples, batch_size) / characters

    def view(self, example: Window) -> str:
        """Format a window on one line, with a bar between tokens."""
        pieces = [self.tokenizer.decode([token]) for token in example.tokens]
        return "|".join(pieces).replace("\n", "\\n")


def writing(
    vocab_size: int = 1024, window: int = WINDOW, stride: int = 32
) -> WritingTask:
    """Make the writing task: language modeling on the extract.

    The pieces are learned from the training documents alone.

    Args:
        vocab_size: V, see `learn_pieces`.
        window: tokens in a window.
        stride: tokens between the starts of two training windows.

    Returns:
        The task; nothing in it is drawn at random.

    Raises:
        ValueError: see `learn_pieces` and `cut`.
    """
    documents = read_extract()
    texts = {split: [d for d in documents if d.split == split] for split in SPLITS}
    tokenizer = learn_pieces([d.text for d in texts["train"]], vocab_size)
    held_out = {
        d.name: cut(tokenizer, d.text, window)
        for d in texts["validation"] + texts["test"]
    }
    validation, test = (
        [part for d in texts[split] for part in held_out[d.name]]
        for split in ("validation", "test")
    )
    train = [
        part for d in texts["train"] for part in cut(tokenizer, d.text, window, stride)
    ]
    return WritingTask("writing", train, validation, test, tokenizer, held_out)
