"""vocabulary: a number for every token, and back."""

from typing import Any

import torch
from torch import Tensor

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary
from attention_labs.lab01_preprocessing.shared import (
    ONCE,
    PLAIN,
    as_letters,
    as_list,
    draw_words,
    lend,
    same_tokens,
    sees,
)
from attention_labs.pages import FORCING, PADDING
from nbjudge import (
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    Sign,
    edit,
    error_like,
    same_whole_numbers,
)

INFERENCE = "02_encoder_decoder.html#encoder-decoder-inference"


def _use_vocabulary(
    vocabulary: Any, texts: list[str], method: str, given: list[Any]
) -> Tensor | None:
    """Make a vocabulary, and ask it for ids, for tokens, or for all that it knows."""
    made = lend(vocabulary, texts)
    if method == "tokens":
        return as_letters([made.tokens[i] for i in range(len(made.tokens))])
    returned = lend(getattr(made, method), given)
    if returned is None or method == "decode":
        return as_letters(returned)
    return torch.tensor([int(i) for i in as_list(returned)], dtype=torch.long)


def _some_words(g: torch.Generator) -> list[str]:
    words = draw_words(g, 9)
    return [words[i] for i in torch.randint(9, (20,), generator=g).tolist()]


def _known_tokens(g: torch.Generator) -> list[Request]:
    words = _some_words(g)
    others = [*_some_words(g), "<eos>", *_some_words(g), "<unk>"]
    return [Request((texts, "tokens", [])) for texts in (words, others)]


def _encoded_tokens(g: torch.Generator) -> list[Request]:
    words = _some_words(g)
    unknown = [words[4], *draw_words(g, 2), words[1]]
    asked = (words[3:8], unknown, ["<eos>", words[2]])
    return [Request((words, "encode", tokens)) for tokens in asked]


def _decoded_ids(g: torch.Generator) -> list[Request]:
    words = _some_words(g)
    ids = torch.randint(len(SPECIALS), len(set(words)), (9,), generator=g).tolist()
    rows = (
        [BOS, *ids[:4], EOS, PAD, PAD],
        [*ids[:3], EOS, *ids[3:6], EOS, ids[6]],
        [*ids[:2], UNK, *ids[2:5]],
        [BOS, PAD, *ids[5:]],
        [EOS, PAD],
    )
    return [Request((words, "decode", row)) for row in rows]


def _right_ids(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    finding = same_whole_numbers(request, reply, reference)
    return (
        finding if reply.error else finding and Finding("other ids", "the tokens' ids")
    )


def _ids_of(reply: Reply) -> list[int]:
    """Read the ids of a reply, none where it holds tokens."""
    return reply.outputs[0].tolist() if reply.outputs[0].dim() == 1 else []


def _encoding_ends(error: str) -> Sign:
    found = error_like(error)
    return lambda request, *replies: (
        request.inputs[1] == "encode" and found(request, *replies)
    )


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
            same_tokens,
        ),
        Property(
            "encode: ids of tokens, UNK for unknown ones",
            2,
            _encoded_tokens,
            _right_ids,
        ),
        Property(
            "decode: up to the first EOS, without PAD and BOS",
            2,
            _decoded_ids,
            same_tokens,
        ),
    ),
    mistakes=(
        Mistake(
            "the specials are left out",
            "PAD, BOS, EOS and UNK have the ids 0 to 3 in every vocabulary: their"
            " tokens come first.",
            INFERENCE,
            edit(Vocabulary.__init__, "(*SPECIALS, *", "tuple("),
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
            made_by=edit(Vocabulary.__init__, " - set(SPECIALS)", ""),
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
            sign=_encoding_ends(
                "^(KeyError|ValueError: .* is not in|ValueError: tuple.index)"
            ),
        ),
        Mistake(
            "unknown tokens are left out",
            "A token that is not in the vocabulary becomes UNK, so that the sentence"
            " keeps its length.",
            sign=sees(
                lambda given, wanted: (
                    given == [i for i in wanted if i != UNK] != wanted
                ),
                _ids_of,
            ),
        ),
        Mistake(
            "an unknown token is padding",
            "PAD stands for nothing, and everything downstream ignores it. An unknown"
            " token is there: UNK.",
            PADDING,
            edit(Vocabulary.encode, "UNK", "PAD"),
        ),
        Mistake(
            "what is no id is put out",
            "encode gives whole numbers, one per token.",
            sign=_encoding_ends(r"int\(\) argument|invalid literal|only one element"),
        ),
        Mistake(
            "BOS and EOS among the ids",
            "encode gives one id for each token that it is handed; BOS and EOS are put"
            " to them where batches are made.",
            FORCING,
            sign=sees(
                lambda given, wanted: {BOS, EOS} & set(given) - set(wanted), _ids_of
            ),
        ),
        Mistake(
            "an unknown token gets an id of its own",
            "A vocabulary is made once, as a model has a number for each of its tokens"
            " and for no others: what is not in it becomes UNK.",
            sign=sees(
                lambda given, wanted: (
                    UNK in wanted and max(given, default=0) > max(wanted)
                ),
                _ids_of,
            ),
        ),
        Mistake(
            "a special token is unknown",
            "The four specials are tokens of the vocabulary like all others: encode"
            " knows their ids.",
            sign=sees(
                lambda given, wanted: (
                    EOS in wanted and EOS not in given and UNK in given
                ),
                _ids_of,
            ),
        ),
        Mistake(
            "not as many ids as tokens",
            "encode gives one id for each token. A `return` inside a loop ends it at"
            " the first one.",
            sign=sees(lambda given, wanted: len(given) != len(wanted), _ids_of),
        ),
        Mistake(
            "the answer goes on after its end",
            "What stands behind the first EOS is no part of the answer.",
            INFERENCE,
            edit(Vocabulary.decode, "break", "continue"),
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
