"""The pretraining task: masked language modeling, which predicts hidden words.

The task needs no labels.

It is BERT's masked language model (Devlin et al., 2019, Section 3.1) on the synthetic
sentences of `tagging`. What an encoder learns here helps it to tag when there are few
labeled sentences. Predicting the next token is the task in `writing`.
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
    """A task that predicts the hidden words of sentences.

    A label has the same id as its token.
    """

    def score(
        self,
        model: nn.Module,
        examples: Sequence[LabelledExample],
        batch_size: int = 256,
    ) -> float:
        """Return the share of hidden words that are predicted right."""
        hidden = [
            tuple(label for label in example.labels if label != NOT_ASKED)
            for example in examples
        ]
        return accuracy(self.predict(model, examples, batch_size), hidden)

    def view(self, example: LabelledExample) -> str:
        """Format an example on one line: the words shown -> the words hidden."""
        return (
            f"{self.write(example.source)} -> {' '.join(filter(None, example.labels))}"
        )

    def _id(self, label: str) -> int:
        return NO_LABEL if label == NOT_ASKED else super()._id(label)


def pretraining(
    train_size: int = 20_000, held_out_size: int = 300, seed: int = 0
) -> MaskedTask:
    """Make the pretraining task: the sentences of `tagging`, with hidden words.

    The tags are not used. To fine-tune an encoder that was pretrained here, use the
    token ids of this task for tagging: `dataclasses.replace(tagging(50),
    read=pretraining().read)` has 50 labeled sentences.

    Args:
        train_size: sentences to train on.
        held_out_size: sentences in each of validation and test.
        seed: random seed for the sentences and for the words hidden in them.

    Returns:
        The task. None of its training sentences is in a held-out split of `tagging`
        with the same `seed` and `held_out_size`.
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
    """Choose 15 % of a sentence's words, at least one, as words to predict.

    A mask replaces 80 % of these words and a random word 10 %; the other 10 % stay as
    they are, so that an encoder cannot rely on a mask to tell which words to predict.
    Devlin et al. (2019), Section 3.1 and Appendix A.1.

    Args:
        sentence: the words of the sentence.
        words: the words to draw a random word from.
        rng: the random number generator.

    Returns:
        The sentence with words hidden; the labels are the words to predict, and
        `NOT_ASKED` elsewhere.
    """
    shown, asked = list(sentence), [NOT_ASKED] * len(sentence)
    for s in rng.sample(range(len(sentence)), max(1, round(0.15 * len(sentence)))):
        asked[s] = sentence[s]
        shown[s] = rng.choices((MASK, rng.choice(words), sentence[s]), (0.8, 0.1, 0.1))[
            0
        ]
    return LabelledExample(tuple(shown), tuple(asked))
