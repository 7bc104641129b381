"""Pretraining: guess the words that were hidden in a sentence.

Nobody has to label anything for that.

BERT's masked tokens (Devlin et al., 2019, Section 3.1) on the synthetic sentences of
`tagging`. What an encoder learns here helps it to tag where few labelled sentences are
at hand.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from attention_course.tasks.core import Vocabulary
from attention_course.tasks.labels import (
    NO_LABEL,
    LabelledExample,
    LabelTask,
    ReadTokens,
    accuracy,
)
from attention_course.tasks.tagging import tagging

MASK = "<mask>"
NOT_ASKED = ""


@dataclass(frozen=True)
class MaskedTask(LabelTask):
    """Sentences with some words hidden in, those words out.

    A label's id is its token's.
    """

    def score(
        self,
        model: nn.Module,
        examples: Sequence[LabelledExample],
        batch_size: int = 256,
    ) -> float:
        """Return the share of hidden words that are guessed."""
        hidden = [
            tuple(label for label in example.labels if label != NOT_ASKED)
            for example in examples
        ]
        return accuracy(self.predict(model, examples, batch_size), hidden)

    def view(self, example: LabelledExample) -> str:
        """Write an example on one line: what is shown -> what is hidden."""
        return (
            f"{self.write(example.source)} -> {' '.join(filter(None, example.labels))}"
        )

    def _id(self, label: str) -> int:
        return NO_LABEL if label == NOT_ASKED else super()._id(label)


def pretraining(
    train_size: int = 20_000, held_out_size: int = 300, seed: int = 0
) -> MaskedTask:
    """Hide words in the sentences of `tagging`; their tags are not looked at.

    To go on from what an encoder has learned here, tag with the token ids of this task:
    `dataclasses.replace(tagging(50), read=pretraining().read)` has 50 labelled
    sentences.

    Args:
        train_size: sentences to train on.
        held_out_size: sentences in each of validation and test.
        seed: of the sentences and of what is hidden in them.

    Returns:
        The task. Its training sentences are in no held-out split of `tagging` with this
        seed and `held_out_size`.
    """
    sentences = tagging(train_size, held_out_size, seed)
    words = sorted({word for example in sentences.train for word in example.source})
    vocabulary = Vocabulary([MASK, *words])
    rng = random.Random(seed)
    train, validation, test = (
        [hide(example.source, words, rng) for example in split]
        for split in (sentences.train, sentences.validation, sentences.test)
    )
    return MaskedTask(
        "pretraining",
        train,
        validation,
        test,
        vocabulary.tokens,
        ReadTokens(vocabulary),
        " ".join,
    )


def hide(
    sentence: Sequence[str], words: Sequence[str], rng: random.Random
) -> LabelledExample:
    """Ask for 15 % of a sentence's words, at least one.

    In 80 % of the places stands a mask, in 10 % a random word, and in 10 % the word
    itself, so that an encoder cannot rely on a mask where something is asked of it.
    Devlin et al. (2019), Section 3.1 and Appendix A.1.

    Args:
        sentence: its words.
        words: what a random word is drawn from.
        rng: where the chance comes from.

    Returns:
        The sentence with its words hidden; the labels are those words, and `NOT_ASKED`
        elsewhere.
    """
    shown, asked = list(sentence), [NOT_ASKED] * len(sentence)
    for s in rng.sample(range(len(sentence)), max(1, round(0.15 * len(sentence)))):
        asked[s] = sentence[s]
        shown[s] = rng.choices((MASK, rng.choice(words), sentence[s]), (0.8, 0.1, 0.1))[
            0
        ]
    return LabelledExample(tuple(shown), tuple(asked))
