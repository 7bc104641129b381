"""The multi30k task: translate photo captions from German to English, in subwords.

Multi30k (Elliott et al., 2016) is a real corpus: the English captions of 31,000
photographs, which translators put into German. Here a model translates the German
captions back into English. The corpus is not part of this package: the user names a
folder with the files of data/task1/raw in https://github.com/multi30k/dataset.
"""

import gzip
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sacrebleu
from tokenizers import Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import Punctuation, Split
from tokenizers.pre_tokenizers import Sequence as Pipeline
from tokenizers.trainers import BpeTrainer

from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.core import Length, Vocabulary
from attention_course.tasks.sequences import Example, SequenceTask

SHA256 = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test_2016_flickr.de.gz": (
        "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"
    ),
    "test_2016_flickr.en.gz": (
        "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"
    ),
}
SPLITS = ("train", "val", "test_2016_flickr")

# marks the space before a word, so that joining the pieces restores the text
WORD_START = "▁"


class Subwords:
    """Split text into subwords by byte-pair encoding (BPE), on characters.

    Sennrich et al. (2016), Section 3.2. No piece crosses a space or a punctuation mark.
    Every piece is a part of the text itself, even if it has a character that was not in
    the training texts.

    Args:
        texts: what to learn the pieces from.
        vocab_size: number of pieces, including single characters.
    """

    def __init__(self, texts: Sequence[str], vocab_size: int):
        self._tokenizer = Tokenizer(BPE(unk_token="<unk>"))
        self._tokenizer.pre_tokenizer = Pipeline(
            [Split(Regex(WORD_START), "merged_with_next"), Punctuation()]
        )
        trainer = BpeTrainer(
            vocab_size=vocab_size, show_progress=False, special_tokens=["<unk>"]
        )
        self._tokenizer.train_from_iterator(map(_mark_words, texts), trainer)

    @classmethod
    def from_str(cls, text: str) -> "Subwords":
        """Restore subwords from the text that `to_str` returned."""
        subwords = cls.__new__(cls)
        subwords._tokenizer = Tokenizer.from_str(text)
        return subwords

    def to_str(self) -> str:
        """Return the pieces as JSON."""
        return self._tokenizer.to_str()

    def split(self, text: str) -> tuple[str, ...]:
        """Split a text into pieces; a run of spaces counts as one space."""
        marked = _mark_words(text)
        return tuple(
            marked[start:end] for start, end in self._tokenizer.encode(marked).offsets
        )


def join(pieces: Sequence[str]) -> str:
    """Join the pieces of a text."""
    return "".join(pieces).replace(WORD_START, " ").strip()


@dataclass(frozen=True, kw_only=True)
class TranslationTask(SequenceTask):
    """A translation task on subwords, whose score is the BLEU of the joined text.

    Attributes:
        source_subwords: splits sources.
        target_subwords: splits targets.
    """

    source_subwords: Subwords
    target_subwords: Subwords

    def example(self, source: str, target: str = "") -> Example:
        """Split a sentence, and its translation if there is one, into subwords."""
        return _unaligned(
            self.source_subwords.split(source), self.target_subwords.split(target)
        )

    @property
    def length(self) -> Length:
        """Return a function that counts the pieces of a target and its source."""
        return lambda example: (len(example.target), len(example.source))

    def max_length(self, examples: Sequence[Example]) -> int:
        """Return the maximum number of pieces to decode, from the sources alone."""
        return 2 * max(len(example.source) for example in examples) + 10

    def score(
        self, model: EncoderDecoder, examples: Sequence[Example], batch_size: int = 256
    ) -> float:
        """Return the cased BLEU of greedy translations, in [0, 100]."""
        translations = [
            self.text(pieces) for pieces in self.predict(model, examples, batch_size)
        ]
        return sacrebleu.corpus_bleu(
            translations, [[self.text(example.target) for example in examples]]
        ).score

    def text(self, tokens: Sequence[str]) -> str:
        """Join the pieces of a text."""
        return join(tokens)


def multi30k(data: str | Path, vocab_size: int = 4_000) -> TranslationTask:
    """Make the multi30k task from the files of the corpus, German -> English.

    There are 29,000 training pairs, 1,014 validation pairs, and the 1,000 test pairs of
    test_2016_flickr.

    The text keeps its case. Each language has its own subwords, learned from the
    training pairs alone.

    Args:
        data: the folder with the six files.
        vocab_size: number of pieces in each language.

    Returns:
        The task; there is no gold alignment.

    Raises:
        ValueError: a file is missing, or is not the published one.
    """
    pairs = [
        list(zip(_lines(data, f"{split}.de.gz"), _lines(data, f"{split}.en.gz")))
        for split in SPLITS
    ]
    german, english = (Subwords(texts, vocab_size) for texts in zip(*pairs[0]))
    train, validation, test = (
        [
            _unaligned(german.split(source), english.split(target))
            for source, target in split
        ]
        for split in pairs
    )
    return TranslationTask(
        name="multi30k",
        metric="BLEU",
        train=train,
        validation=validation,
        test=test,
        source_vocabulary=Vocabulary(
            piece for example in train for piece in example.source
        ),
        target_vocabulary=Vocabulary(
            piece for example in train for piece in example.target
        ),
        separator=" ",
        source_subwords=german,
        target_subwords=english,
    )


def _unaligned(source: tuple[str, ...], target: tuple[str, ...]) -> Example:
    """Make an example without gold positions, since the alignment is not known."""
    return Example(source, target, (frozenset(),) * len(target))


def _mark_words(text: str) -> str:
    return "".join(WORD_START + word for word in text.split())


def _lines(folder: str | Path, name: str) -> list[str]:
    path = Path(folder) / name
    advice = "get it from data/task1/raw of https://github.com/multi30k/dataset"
    if not path.is_file():
        raise ValueError(f"{path} is missing; {advice}")
    compressed = path.read_bytes()
    if (found := hashlib.sha256(compressed).hexdigest()) != SHA256[name]:
        raise ValueError(
            f"{path} has SHA256 {found[:8]}..., not {SHA256[name][:8]}... as published;"
            f" {advice}"
        )
    return gzip.decompress(compressed).decode("utf-8").removesuffix("\n").split("\n")
