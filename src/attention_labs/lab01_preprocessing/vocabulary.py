"""vocabulary: a number for every token, and back."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary
from attention_labs.lab01_preprocessing.strings import (
    ONCE,
    PLAIN,
    as_letters,
    as_list,
    as_texts,
    as_tokens,
    draw_words,
    same_tokens,
    sees,
)
from attention_labs.pages import FORCING, PADDING
from attention_labs.pieces import with_methods
from nbjudge import (
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    error_like,
    same_whole_numbers,
)

INFERENCE = "02_encoder_decoder.html#encoder-decoder-inference"


def _lend(use: Callable[[list[Any]], Any], theirs: list[Any]) -> Any:
    """Let an answer read a list, and look whether the list is what it was."""
    before = list(theirs)
    returned = use(theirs)
    if theirs != before:
        raise ValueError("the list that came in was changed")
    return returned


def _use_vocabulary(
    vocabulary: Any, texts: Tensor, asked: Tensor | None, ids: Tensor | None
) -> Tensor | None:
    """Make a vocabulary, and ask it for ids, for tokens, or for all that it knows."""
    made = _lend(vocabulary, as_texts(texts))
    if asked is not None:
        encoded = _lend(made.encode, as_texts(asked))
        return (
            None
            if encoded is None
            else torch.tensor([int(i) for i in as_list(encoded)], dtype=torch.long)
        )
    if ids is not None:
        return as_tokens(_lend(made.decode, ids.tolist()))
    return as_tokens([made.tokens[i] for i in range(len(made.tokens))])


def _some_words(g: torch.Generator) -> list[str]:
    words = draw_words(g, 9)
    return [words[i] for i in torch.randint(9, (20,), generator=g).tolist()]


def _known_tokens(g: torch.Generator) -> Iterator[Request]:
    yield Request((as_letters(_some_words(g)), None, None))
    yield Request(
        (as_letters([*_some_words(g), "<eos>", *_some_words(g), "<unk>"]), None, None)
    )


def _encoded_tokens(g: torch.Generator) -> Iterator[Request]:
    words = _some_words(g)
    yield Request((as_letters(words), as_letters(words[3:8]), None))
    yield Request(
        (as_letters(words), as_letters([words[4], *draw_words(g, 2), words[1]]), None)
    )
    yield Request((as_letters(words), as_letters(["<eos>", words[2]]), None))


def _decoded_ids(g: torch.Generator) -> Iterator[Request]:
    words = _some_words(g)
    ids = torch.randint(len(SPECIALS), len(set(words)), (9,), generator=g).tolist()
    for row in (
        [BOS, *ids[:4], EOS, PAD, PAD],
        [*ids[:3], EOS, *ids[3:6], EOS, ids[6]],
        [*ids[:2], UNK, *ids[2:5]],
        [BOS, PAD, *ids[5:]],
        [EOS, PAD],
    ):
        yield Request((as_letters(words), None, torch.tensor(row)))


class _Vocabulary:
    """A vocabulary in pieces that a mistake can replace."""

    def __init__(self, tokens: Sequence[str]):
        self.tokens = self.number(tokens)
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def number(self, tokens: Sequence[str]) -> Sequence[str]:
        return (*SPECIALS, *sorted(set(tokens) - set(SPECIALS)))

    def encode(self, tokens: Sequence[str]) -> list[int]:
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids: Sequence[int]) -> Sequence[str]:
        kept = ids[: ids.index(EOS)] if EOS in ids else ids
        return [self.tokens[i] for i in kept if i not in (PAD, BOS)]


def _as_known(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if request.inputs[1] is None:
        return same_tokens(request, reply, reference)
    finding = same_whole_numbers(request, reply, reference)
    return (
        finding
        if finding is None or reply.error
        else Finding("other ids", "the tokens' ids")
    )


def _asked_for_ids(request: Request) -> bool:
    return request.inputs[1] is not None


def _ids_alone(
    test: Callable[[list[int], list[int]], Any],
) -> Callable[[Request, Reply, Reply], bool]:
    """Look at ids: test(given, wanted)."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        if reply.error or len(reply.outputs) != 1 or not _asked_for_ids(request):
            return False
        return bool(
            test(reply.outputs[0].flatten().tolist(), reference.outputs[0].tolist())
        )

    return sign


VOCABULARY = Question(
    name="vocabulary",
    reference=Vocabulary,
    use=_use_vocabulary,
    plain=True,
    properties=(
        Property(
            "the four specials, then every token once, in order",
            2,
            _known_tokens,
            _as_known,
        ),
        Property(
            "encode: ids of tokens, UNK for unknown ones", 2, _encoded_tokens, _as_known
        ),
        Property(
            "decode: up to the first EOS, without PAD and BOS",
            2,
            _decoded_ids,
            _as_known,
        ),
    ),
    mistakes=(
        Mistake(
            "the specials are left out",
            "PAD, BOS, EOS and UNK have the ids 0 to 3 in every vocabulary: their"
            " tokens come first.",
            INFERENCE,
            with_methods(
                _Vocabulary,
                number=lambda self, tokens: sorted(set(tokens) - set(SPECIALS)),
            ),
            sees(
                lambda given, wanted: (
                    wanted[:4] == list(SPECIALS) and not set(SPECIALS) & set(given)
                )
            ),
        ),
        Mistake(
            "a token has two ids",
            "Each token gets one id, however often it occurs, and so do the specials if"
            " they occur in the texts.",
            made_by=with_methods(
                _Vocabulary,
                number=lambda self, tokens: (*SPECIALS, *sorted(set(tokens))),
            ),
            sign=sees(
                lambda given, wanted: (
                    len(set(given)) < len(given) and set(given) == set(wanted)
                )
            ),
        ),
        Mistake(
            "the tokens are not in order",
            "A set has no order that one could rely on, and the order of the texts"
            " changes with the texts: sort the tokens, after the specials.",
            sign=sees(
                lambda given, wanted: (
                    given != wanted and sorted(given) == sorted(wanted)
                )
            ),
        ),
        Mistake(
            "an unknown token is an error",
            "A model meets tokens that it has not seen in training: they become UNK.",
            sign=lambda request, reply, reference: (
                _asked_for_ids(request)
                and error_like(
                    "^(KeyError|ValueError: .* is not in|ValueError: tuple.index)"
                )(request, reply, reference)
            ),
        ),
        Mistake(
            "unknown tokens are left out",
            "A token that is not in the vocabulary becomes UNK, so that the sentence"
            " keeps its length.",
            sign=lambda request, reply, reference: (
                _asked_for_ids(request)
                and not reply.error
                and reply.outputs[0].tolist()
                == [i for i in reference.outputs[0].tolist() if i != UNK]
            ),
        ),
        Mistake(
            "an unknown token is padding",
            "PAD stands for nothing, and everything downstream ignores it. An unknown"
            " token is there: UNK.",
            PADDING,
            with_methods(
                _Vocabulary,
                encode=lambda self, tokens: [
                    self.ids.get(token, PAD) for token in tokens
                ],
            ),
        ),
        Mistake(
            "what is no id is put out",
            "encode gives whole numbers, one per token.",
            sign=lambda request, reply, reference: (
                _asked_for_ids(request)
                and error_like(r"int\(\) argument|invalid literal|only one element")(
                    request, reply, reference
                )
            ),
        ),
        Mistake(
            "BOS and EOS among the ids",
            "encode gives one id for each token that it is handed; BOS and EOS are put"
            " to them where batches are made.",
            FORCING,
            sign=_ids_alone(
                lambda given, wanted: {BOS, EOS} & set(given) - set(wanted)
            ),
        ),
        Mistake(
            "an unknown token gets an id of its own",
            "A vocabulary is made once, as a model has a number for each of its tokens"
            " and for no others: what is not in it becomes UNK.",
            sign=_ids_alone(
                lambda given, wanted: (
                    UNK in wanted and max(given, default=0) > max(wanted)
                )
            ),
        ),
        Mistake(
            "a special token is unknown",
            "The four specials are tokens of the vocabulary like all others: encode"
            " knows their ids.",
            sign=_ids_alone(
                lambda given, wanted: (
                    EOS in wanted and EOS not in given and UNK in given
                )
            ),
        ),
        Mistake(
            "not as many ids as tokens",
            "encode gives one id for each token. A `return` inside a loop ends it at"
            " the first one.",
            sign=_ids_alone(lambda given, wanted: len(given) != len(wanted)),
        ),
        Mistake(
            "the answer goes on after its end",
            "What stands behind the first EOS is no part of the answer.",
            INFERENCE,
            with_methods(
                _Vocabulary,
                decode=lambda self, ids: [
                    self.tokens[i] for i in ids if i not in (PAD, BOS, EOS)
                ],
            ),
            sees(
                lambda given, wanted: (
                    len(given) > len(wanted)
                    and "<eos>" not in given
                    and given[: len(wanted)] == wanted
                )
            ),
        ),
        Mistake(
            "specials among the answer's tokens",
            "PAD and BOS are no tokens of an answer, and EOS ends it without being part"
            " of it.",
            INFERENCE,
            sign=sees(
                lambda given, wanted: bool(
                    {"<pad>", "<bos>", "<eos>"} & (set(given) - set(wanted))
                )
            ),
        ),
        Mistake(
            "unknown tokens left out of the answer",
            "UNK is a token that was said, if not a good one: only PAD and BOS are left"
            " out.",
            sign=sees(
                lambda given, wanted: (
                    given == [token for token in wanted if token != "<unk>"] != wanted
                )
            ),
        ),
        Mistake(
            "tokens of the answer are lost",
            "PAD and BOS are left out wherever they stand, and so is what comes from"
            " the first EOS on; nothing else.",
            INFERENCE,
            sign=sees(
                lambda given, wanted: len(given) < len(wanted) and "<pad>" not in wanted
            ),
        ),
        Mistake(
            "a list of the caller's is changed",
            "sort, append, remove and += change a list in place, and the caller's list"
            " it is: sorted(...) and [... for ...] make new ones.",
            sign=error_like("the list that came in was changed"),
        ),
        ONCE,
        Mistake(
            "an end is taken for granted",
            "A row may have no EOS, if the model never said it: then all of it counts.",
            INFERENCE,
            sign=error_like("2 is not in list|substring not found|x not in list"),
        ),
        Mistake(
            "no tuple of strings",
            "decode gives a tuple with a string for each token.",
            sign=error_like("a token is a string|a string was returned"),
        ),
        *PLAIN,
    ),
)
