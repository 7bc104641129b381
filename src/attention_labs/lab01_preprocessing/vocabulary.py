"""Question `vocabulary`: map tokens to ids, and ids back to tokens."""

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary
from attention_labs.lab01_preprocessing.shared import (
    WORDS,
    draw_words,
    some_of,
)
from attention_labs.pages import FORCING, PADDING
from nbjudge import (
    ONCE,
    PLAIN_SIGNS,
    STATE,
    Axis,
    Battery,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    Sign,
    another_kind,
    as_letters,
    as_list,
    each_of,
    edit,
    error_like,
    left_alone,
    same_kind,
    same_tokens,
    same_whole_numbers,
    sees,
    unchanged,
    with_kind,
)

# Others would be sorted, spelled or cut out in another way.
ODD = (
    *("Été", "été", "e\u0301t", "Zoé", "zoé", "ß", "ss"),
    *("Œ", "ﬁ", "²", "2", "10", "9"),
    *("-", "'", ".", " ", "<s>", "<>", "<sep>", "</s>", "<PAD>", "_", "\u00a0", "中"),
)
INFERENCE = "02_encoder_decoder.html#encoder-decoder-inference"


def _use_vocabulary(vocabulary: Any, method: str, given: Sequence[Any]) -> Any:
    """Ask a vocabulary for ids, for tokens, or for all that it knows."""
    if method == "tokens":
        known = [vocabulary.tokens[i] for i in range(len(vocabulary))]
        return with_kind(as_letters(known), known)
    returned = getattr(vocabulary, method)(given)
    if returned is None:
        return None
    if method == "decode":
        return with_kind(as_letters(returned), returned)
    ids = [operator.index(i) for i in as_list(returned)]
    told = with_kind(torch.tensor(ids, dtype=torch.long), returned)
    if isinstance(returned, list):
        returned.clear()  # it is the caller's: what is encoded later must not need it
    return told


def _asked(words: list[str], method: str, given: Sequence[Any]) -> Request:
    said = f"{method}({given})" if given else f"{method}"
    return Request((method, given), (words,), about=f"{said:.100} of {words!r:.100}")


def _known(d: Draw) -> tuple[list[str], list[str]]:
    """Draw what a vocabulary is made of, some of it twice; and what is not in it."""
    words = draw_words(d, d.N)
    unknown = [word for word in WORDS[: max(30, 3 * d.N)] if word not in words]
    return [*words[::2], *words[::-1], *words[:1]], unknown


def _anything(d: Draw, least: int = PAD) -> list[Request]:
    """Ask for everything; with ids from `least` on, above 0, of known words alone."""
    words, unknown = _known(d)
    ids = torch.randint(least, len(SPECIALS) + d.N, (d.T,), generator=d).tolist()
    tokens = some_of(d, words if least else [*words, *unknown], d.T)
    return [
        _asked(words, "tokens", []),
        _asked(words, "encode", tokens),
        _asked(words, "decode", [UNK if i == EOS else i for i in ids]),
        _asked(words, "decode", ids),
    ]


def _encoded_tokens(d: Draw) -> list[Request]:
    words, unknown = _known(d)
    asked = (
        [words[0], *some_of(d, unknown, 2), words[1]],
        [*SPECIALS, words[1], *SPECIALS[::-1]],
        ["", words[0].upper(), f" {words[0]}", "<s>", f"{words[0]}!", "7"],
    )
    return [
        *(_asked(words, "encode", tokens) for tokens in asked),
        _asked([*words, "One", "two"], "encode", ["one", "ONE", "One", "Two", "two"]),
    ]


def _decoded_ids(d: Draw) -> list[Request]:
    words, _ = _known(d)
    a, b, c, e, f = some_of(d, range(len(SPECIALS), len(SPECIALS) + d.N), 5)
    rows = (
        [BOS, a, b, c, e, EOS, PAD, PAD],
        [a, b, EOS, c, e, EOS, f],
        [a, UNK, b, b, UNK],
        [BOS, PAD, a, PAD, b, BOS, c],
        [PAD, a, EOS, PAD, b],
        [UNK, EOS],
        [EOS, a],
        [EOS, PAD],
        [BOS, PAD],
    )
    return [_asked(words, "decode", row) for row in rows]


def _specials_in_texts(d: Draw) -> list[Request]:
    words, _ = _known(d)
    others = (
        [*words, "<eos>", *words[:2], "<unk>"],
        [*SPECIALS[::-1], *words, *SPECIALS],
        ["<pad>"],
        ["", *words],
        # pieces of the special tokens are words like all others
        [name.strip("<>") for name in SPECIALS] + ["<", "o", *words],
        some_of(d, ODD, 3 * len(ODD)),
    )
    return [
        _asked(known, *asked)
        for known in others
        for asked in (
            ("tokens", []),
            ("encode", [*SPECIALS, *known[-2:]]),
            ("decode", [len(SPECIALS) + i for i in range(len({*known} - {*SPECIALS}))]),
        )
    ]


def _elsewhere(d: Draw) -> list[Request]:
    """Ask what another vocabulary has just been asked."""
    others, _ = _known(d)
    return [
        replace(asked, before=(replace(asked, init=(others,)),))
        for asked in _anything(d)
    ]


def _rare(d: Draw) -> list[Request]:
    words, unknown = _known(d)
    tokens = tuple(some_of(d, [*words, *unknown], d.T))
    return [
        *_specials_in_texts(d),
        _asked(words, "encode", tokens),
        *_elsewhere(d),
    ]


def _right(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """The ids, or the tokens, are the right ones."""
    if request.inputs[0] != "encode" or reply.error:
        return same_tokens(request, reply, reference)
    first = [x._replace(outputs=x.outputs[:1]) for x in (reply, reference)]
    return same_whole_numbers(request, *first) and Finding(
        f"ids {_ids_of(reply)}", f"ids {_ids_of(reference)}"
    )


def _ids_of(reply: Reply) -> list[int]:
    """Read the ids of a reply, none where it holds tokens."""
    return reply.outputs[0].tolist() if reply.outputs[0].dim() == 1 else []


def _encoding_ends(error: str) -> Sign:
    found = error_like(error)
    return lambda request, *replies: (
        request.inputs[0] == "encode" and found(request, *replies)
    )


BATTERY = Battery(
    STATE,
    _anything,
    {
        "N": Axis("different tokens", least=0, long=400, fixed=True),
        "T": Axis("in a row", least=0, long=300),
    },
)

QUESTION = Question(
    name="vocabulary",
    reference=Vocabulary,
    use=_use_vocabulary,
    battery=BATTERY,
    requirements={
        "tokens": "`tokens[i]` must be the token with the id `i`. The four tokens in"
        " `SPECIALS` come first. All other tokens follow *once* each, in the order in"
        " which `sorted` puts them, so every run gives the same ids. If one of the"
        " four is among `tokens`, do not give it a second id.",
        "encode": "`encode` must return a list of ids. A token that is not in the"
        " vocabulary becomes `UNK`.",
        "decode": "`decode` must return a tuple of tokens. Stop at the first `EOS`,"
        " and leave out this `EOS` and every `PAD` and `BOS`. Keep all other tokens.",
        "lists": "Do not change the inputs.",
        "any order": "tokens: a list of the tokens that get an id, in any order; some"
        " may be repeated.",
        "ids": "Map tokens to a list of ids.",
        "back": "Map a list of ids to a tuple of tokens.",
    },
    properties=(
        BATTERY.line(
            "the four specials, then every token once, in order; their ids, and back",
            2,
            lambda d: _anything(d, len(SPECIALS)),
            _right,
            checks=("tokens", "encode", "decode", "any order"),
        ),
        BATTERY.line(
            "encode: UNK for unknown tokens, and for the specials their own ids",
            1,
            _encoded_tokens,
            _right,
            checks=("encode",),
        ),
        BATTERY.line(
            "decode: up to the first EOS, without PAD and BOS",
            1,
            _decoded_ids,
            _right,
            checks=("decode",),
        ),
        BATTERY.edges(
            1,
            each_of(_right, same_kind),
            checks=("tokens", "encode", "decode", "ids", "back"),
            claim="edges: specials in the texts; one token, none, many; a list of ids"
            " and a tuple of tokens; repeated calls, two vocabularies",
            also=_rare,
        ),
        BATTERY.manners(1, left_alone, checks=("lists",)),
    ),
    mistakes=(
        Mistake(
            "the special tokens are missing",
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
                    wanted[:4] == list(SPECIALS) and len(set(given)) < len(given)
                )
            ),
        ),
        Mistake(
            "the tokens are in the wrong order",
            "A set has no reliable order, and the order of the texts changes with the"
            " texts. Sort the tokens and put them after the specials.",
            made_by=(
                edit(
                    Vocabulary.__init__,
                    "sorted(set(tokens) - set(SPECIALS))",
                    "(x for x in dict.fromkeys(tokens) if x not in SPECIALS)",
                ),
                edit(
                    Vocabulary.__init__, "set(SPECIALS)", "{*SPECIALS}, key=str.lower"
                ),
            ),
            sign=sees(
                lambda given, wanted: (
                    given != wanted and sorted(given) == sorted(wanted)
                )
            ),
        ),
        Mistake(
            "looking up the id of a token fails",
            "A model meets tokens that it has not seen in training: they become UNK.",
            made_by=edit(Vocabulary.encode, ".get(token, UNK)", "[token]"),
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
            "unknown tokens get the id of PAD",
            "PAD stands for nothing, and all later steps ignore it. An unknown token"
            " does stand for something: it becomes UNK.",
            PADDING,
            edit(Vocabulary.encode, "UNK", "PAD"),
        ),
        Mistake(
            "encode returns items that are not integers",
            "encode gives whole numbers, one per token.",
            sign=_encoding_ends("cannot be interpreted as an integer|only integer"),
        ),
        Mistake(
            "BOS or EOS among the ids",
            "encode gives one id for each of its tokens. BOS and EOS are added later,"
            " where batches are made.",
            FORCING,
            sign=sees(
                lambda given, wanted: {BOS, EOS} & set(given) - set(wanted), _ids_of
            ),
        ),
        Mistake(
            "encode returns an id outside the vocabulary",
            "A vocabulary does not grow, because a model has parameters for its tokens"
            " and for no others. Other tokens become UNK.",
            sign=lambda request, reply, reference: (
                UNK in _ids_of(reference)
                and max(_ids_of(reply), default=0)
                >= len({*SPECIALS, *(request.init or ((),))[0]})
            ),
        ),
        Mistake(
            "the token <eos> does not get its id",
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
            "the id 0 is treated as missing",
            "PAD has the id 0, and Python treats 0 as False. Test with `in`, or give"
            " `get` a second argument.",
            PADDING,
            edit(Vocabulary.encode, "get(token, UNK)", "get(token) or UNK"),
        ),
        Mistake(
            "two vocabularies share their ids",
            "An attribute of the class belongs to all of its objects. Make lists and"
            " dictionaries in __init__, on self.",
            made_by=edit(Vocabulary.__init__, "self._ids = {", "type(self)._ids = {"),
            sign=lambda request, reply, reference: any(
                earlier.init is not None for earlier in request.before
            ),
        ),
        Mistake(
            "wrong number of ids",
            "encode gives one id for each token. A `return` inside a loop ends it at"
            " the first one.",
            sign=sees(lambda given, wanted: len(given) != len(wanted), _ids_of),
        ),
        Mistake(
            "decoding continues after EOS",
            "Whatever comes after the first EOS is not part of the answer.",
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
            "special tokens among the decoded tokens",
            "PAD and BOS are not tokens of an answer, and EOS ends the answer without"
            " being part of it.",
            INFERENCE,
            sign=sees(
                lambda given, wanted: bool(
                    {"<pad>", "<bos>", "<eos>"} & (set(given) - set(wanted))
                )
            ),
        ),
        Mistake(
            "UNK is left out when decoding",
            "UNK is a token of the answer, though not a good one. Only PAD and BOS are"
            " left out.",
            made_by=edit(Vocabulary.decode, "(PAD, BOS)", "(PAD, BOS, UNK)"),
        ),
        Mistake(
            "decoding stops at PAD",
            "PAD is left out wherever it stands. Only EOS ends the answer.",
            INFERENCE,
            edit(Vocabulary.decode, "i == EOS", "i in (EOS, PAD)"),
        ),
        Mistake(
            "decoded tokens are missing",
            "Leave out PAD and BOS wherever they stand, and everything from the first"
            " EOS on. Keep all other tokens.",
            INFERENCE,
            sign=sees(
                lambda given, wanted: len(given) < len(wanted) and "<pad>" not in wanted
            ),
        ),
        Mistake(
            "an input list is changed",
            "sort, append, remove and += change a list in place, and the list belongs"
            " to the caller. sorted(...) and [... for ...] make new lists.",
            sign=lambda request, reply, reference: reply.changed,
            undone=unchanged,
        ),
        ONCE,
        Mistake(
            "a search for a missing id or token fails",
            "A row has no EOS if the model never predicted one. In this case the"
            " whole row is the answer.",
            INFERENCE,
            edit(
                Vocabulary.decode,
                "tokens = []",
                "tokens, ids = [], ids[: ids.index(EOS)]",
            ),
            sign=error_like("2 is not in list|substring not found|x not in list"),
        ),
        another_kind(
            "a type other than the one asked for",
            "encode gives a list, decode a tuple. A tuple and a list are never equal,"
            " so answers would not match.",
        ),
        Mistake(
            "the result is not a tuple of strings",
            "decode gives a tuple with a string for each token.",
            sign=error_like("a token is a string|a string was returned"),
        ),
        *PLAIN_SIGNS,
    ),
)
