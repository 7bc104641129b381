"""What lab01_preprocessing asks: from texts to batches, and from logits to a loss and a share of right answers."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_course import masks, metrics
from attention_course.questions.core import Finding, Misconception, Property, Question, Reply, Request
from attention_course.questions.inputs import as_length, normal
from attention_course.questions.judges import good_manners, of_output, of_outputs, same_gradients, same_numbers
from attention_course.questions.signs import ANYWHERE, close, comparable, error_like, wrong_output
from attention_course.tasks import core
from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary
from attention_course.tasks.sequences import Batch, Example, SequenceTask

B, S, T, V = 3, 5, 7, 11
FORCING = "02_encoder_decoder.html#encoder-decoder-forcing"
GENERATOR = "02_encoder_decoder.html#encoder-decoder-generator"
INFERENCE = "02_encoder_decoder.html#encoder-decoder-inference"
ACCURACIES = "02_encoder_decoder.html#encoder-decoder-two"
PADDING = "04_soft_lookup.html#soft-lookup-padding"
MASK = "notation.html#notation-mask"

# Of the signs, those that say something about strings and lists, too.
PLAIN = tuple(
    mistake
    for mistake in ANYWHERE
    if mistake.name
    in (
        "nothing returned",
        "too much or too little is returned",
        "an argument that may be left out is required",
        "a name that does not exist",
    )
)


# --- strings, as tensors --------------------------------------------------------------------------------------------


def _letters(texts: Sequence[str]) -> Tensor:
    """Lay texts out as rows of Unicode numbers, filled up with zeros."""
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a token is a string, got {type(text).__name__}")
    width = max((len(text) for text in texts), default=0)
    rows = [[ord(letter) for letter in text] + [0] * (width - len(text)) for text in texts]
    return torch.tensor(rows, dtype=torch.long).reshape(len(rows), width)


def _texts(letters: Tensor) -> list[str]:
    """Read rows of Unicode numbers; whatever else is in a reply becomes a question mark."""
    if letters.dim() != 2 or letters.is_meta:
        return []
    known = range(1, 0xD800)
    rows = letters.long().tolist()
    return ["".join(chr(i) if i in known else "?" for i in row if i != 0) for row in rows]


def _tokens(returned: Any) -> Tensor | None:
    """Take what should be a list or tuple of tokens."""
    if isinstance(returned, str):
        raise TypeError("a string was returned, wanted a tuple of tokens")
    return None if returned is None else _letters(_kept(returned))


def _kept(returned: Any) -> list[Any]:
    """Take what one may go through as often as one likes."""
    if isinstance(returned, Iterator):
        raise TypeError(f"a {type(returned).__name__} was returned, which is empty when it has been read once")
    return list(returned)


def _lend(use: Callable[[list[Any]], Any], theirs: list[Any]) -> Any:
    """Let an answer read a list, and look whether the list is what it was."""
    before = list(theirs)
    returned = use(theirs)
    if theirs != before:
        raise ValueError("the list that came in was changed")
    return returned


def _first_difference(reply: Reply, reference: Reply) -> Finding | None:
    """Compare two lists of tokens."""
    given, wanted = _texts(reply.outputs[0]), _texts(reference.outputs[0])
    if len(given) != len(wanted):
        return Finding(f"{len(given)} tokens", f"{len(wanted)} tokens")
    for place, (one, other) in enumerate(zip(given, wanted)):
        if one != other:
            return Finding(f"{one!r} at place {place}", "another token")
    return None


def _same_tokens(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error:
        return Finding(reply.error, "no error")
    if len(reply.outputs) != 1 or reply.outputs[0].dim() != 2:
        return Finding("something else", "tokens")
    return _first_difference(reply, reference)


def _whole_numbers(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Every output has the reference's entries and dtype."""
    numbers = reference._replace(outputs=tuple(wanted.double() for wanted in reference.outputs))
    finding = same_numbers(request, reply, numbers)
    if finding and not finding.seen.startswith("entries"):
        return finding
    for given, wanted in zip(reply.outputs, reference.outputs):
        if wrong := int((given != wanted).sum()):
            return Finding(f"{wrong} of {wanted.numel()} numbers are others", "the right ones")
        if given.dtype != wanted.dtype:
            return Finding(f"{given.dtype}", f"{wanted.dtype}")
    return None


def _ids(g: torch.Generator, *shape: int) -> Tensor:
    """Draw ids of tokens that are no specials."""
    return torch.randint(len(SPECIALS), V, shape, generator=g)


# --- tokenize -------------------------------------------------------------------------------------------------------


def tokenize(text: str) -> tuple[str, ...]:
    """Cut a text into words and signs, in small letters."""
    return tuple(re.findall(r"\w+|[^\w\s]", text.lower()))


def _use_tokenize(cut: Callable[[str], Any], text: Tensor) -> Tensor | None:
    return _tokens(cut(_texts(text)[0]))


def _words(g: torch.Generator, count: int, letters: str = "abcdefghijkmnopqrstuvwxyz") -> list[str]:
    sizes = torch.randint(2, 7, (count,), generator=g).tolist()
    return ["".join(letters[i] for i in torch.randint(len(letters), (n,), generator=g).tolist()) for n in sizes]


def _text(*parts: str) -> Request:
    return Request((_letters(["".join(parts)]),))


def _in_words(g: torch.Generator) -> Iterator[Request]:
    for count in (3, 1, 5):
        yield _text(" ".join(_words(g, count)))
    a, b = _words(g, 2)
    yield _text(" ".join((a, "i", b, a)))


def _in_signs(g: torch.Generator) -> Iterator[Request]:
    a, b, c = _words(g, 3)
    yield _text(a, "-", b, " ", c)
    yield _text(a, ", ", b, "?!")
    yield _text("(", a, ") ", b, " - ", c, ".")
    yield _text(a, "--", b, "'", c)


def _in_all_letters(g: torch.Generator) -> Iterator[Request]:
    a, b, c = _words(g, 3)
    yield _text(a.upper(), " ", b.capitalize(), " ", c)
    yield _text(*_words(g, 1, "éèüñö"), a, " ", *_words(g, 1, "ÀÉÜÑ"))
    yield _text(a, " ", *_words(g, 1, "0123456789"), " ", b, "7")
    yield _text("  ", a, "  ", b, "\t", c, "\n")


def _cut_rightly(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    finding = _same_tokens(request, reply, reference)
    if finding is None or reply.error or len(reply.outputs) != 1 or request.inputs[0] is None:
        return finding
    cut, wanted = _texts(reply.outputs[0]), len(_texts(reference.outputs[0]))
    seen = f"{_texts(request.inputs[0])[0]!r} cut into {' | '.join(cut)}"
    return Finding(seen, f"{wanted} tokens" if len(cut) != wanted else "other tokens")


def _says(test: Callable[[list[str], list[str]], bool]) -> Callable[[Request, Reply, Reply], bool]:
    """Look at tokens: test(given, wanted)."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        if reply.error or len(reply.outputs) != 1:
            return False
        return test(_texts(reply.outputs[0]), _texts(reference.outputs[0]))

    return sign


def _no_signs(tokens: list[str]) -> list[str]:
    return [token for token in tokens if token.isalnum()]


ONCE = Misconception(
    "something that can be read only once",
    "map, filter, zip and (... for ...) make iterators: after one loop over them nothing is left. tuple(...) or "
    "list(...) keeps what is in them.",
    sign=error_like("empty when it has been read once"),
)


TOKENIZE = Question(
    name="tokenize",
    reference=tokenize,
    use=_use_tokenize,
    plain=True,
    properties=(
        Property("words, cut where a space stands", 1, _in_words, _cut_rightly),
        Property("signs are tokens of their own", 1, _in_signs, _cut_rightly),
        Property("capital letters, accents, digits and any white space", 1, _in_all_letters, _cut_rightly),
    ),
    misconceptions=(
        Misconception(
            "a text cut into letters",
            "A tuple of a string holds its letters: here a whole word is a token.",
            thing=lambda text: tuple(text.lower()),
            sign=_says(lambda given, wanted: len(given) > len(wanted) and all(len(token) == 1 for token in given)),
        ),
        Misconception(
            "signs stay at the words",
            "Splitting at white space leaves 'ninety-nine,' in one piece: signs are tokens of their own.",
            thing=lambda text: tuple(text.lower().split()),
            sign=_says(
                lambda given, wanted: any(not token.isalnum() and any(map(str.isalnum, token)) for token in given)
            ),
        ),
        Misconception(
            "signs thrown away",
            "A hyphen or a comma is a token, too, and so is every other sign that is no white space.",
            sign=_says(
                lambda given, wanted: (
                    _no_signs(given) == _no_signs(wanted) and len(given) < len(wanted) and set(given) <= set(wanted)
                )
            ),
        ),
        Misconception(
            "capital letters kept",
            "'One' and 'one' are the same token: make all letters small.",
            sign=_says(lambda given, wanted: given != wanted and [token.lower() for token in given] == wanted),
        ),
        Misconception(
            "letters with accents torn off",
            "[a-z] are the letters of English only; \\w and str.isalpha know those of all languages.",
            sign=_says(
                lambda given, wanted: (
                    any(not c.isascii() for c in "".join(wanted))
                    and [c for c in "".join(given).lower() if c.isascii()]
                    == [c for c in "".join(wanted) if c.isascii()]
                )
            ),
        ),
        Misconception(
            "digits are no part of a word",
            "A run of letters and digits is one token.",
            sign=_says(lambda given, wanted: any(c.isdigit() for c in "".join(wanted))),
        ),
        Misconception(
            "white space among the tokens",
            "White space separates and is no token, however much there is; nor is the nothing between two spaces.",
            sign=_says(lambda given, wanted: any(not token.strip() for token in given)),
        ),
        Misconception(
            "words lost or out of order",
            "The tokens stand in the order of the text, a token that occurs twice is there twice, and a word may have "
            "one letter.",
            sign=_says(lambda given, wanted: given != wanted and set(given) <= set(wanted)),
        ),
        ONCE,
        Misconception(
            "no tuple of strings",
            "What comes back is a tuple with a string for each token.",
            sign=error_like("a token is a string|a string was returned|not iterable"),
        ),
        *PLAIN,
        Misconception(
            "signs run together",
            "Each sign is a token by itself: '?!' are two.",
            sign=_says(lambda given, wanted: given != wanted and "".join(given) == "".join(wanted)),
        ),
    ),
)


# --- vocabulary -----------------------------------------------------------------------------------------------------


def _use_vocabulary(vocabulary: Any, texts: Tensor, asked: Tensor | None, ids: Tensor | None) -> Tensor | None:
    """Make a vocabulary, and ask it for ids, for tokens, or for all that it knows."""
    made = _lend(vocabulary, _texts(texts))
    if asked is not None:
        encoded = _lend(made.encode, _texts(asked))
        return None if encoded is None else torch.tensor([int(i) for i in _kept(encoded)], dtype=torch.long)
    if ids is not None:
        return _tokens(_lend(made.decode, ids.tolist()))
    return _tokens([made.tokens[i] for i in range(len(made.tokens))])


def _some_words(g: torch.Generator) -> list[str]:
    words = _words(g, 9)
    return [words[i] for i in torch.randint(9, (20,), generator=g).tolist()]


def _known_tokens(g: torch.Generator) -> Iterator[Request]:
    yield Request((_letters(_some_words(g)), None, None))
    yield Request((_letters([*_some_words(g), "<eos>", *_some_words(g), "<unk>"]), None, None))


def _encoded_tokens(g: torch.Generator) -> Iterator[Request]:
    words = _some_words(g)
    yield Request((_letters(words), _letters(words[3:8]), None))
    yield Request((_letters(words), _letters([words[4], *_words(g, 2), words[1]]), None))
    yield Request((_letters(words), _letters(["<eos>", words[2]]), None))


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
        yield Request((_letters(words), None, torch.tensor(row)))


class _Vocabulary:
    """A vocabulary in pieces that a misconception can replace."""

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


def _vocabulary_with(**pieces: Callable[..., Any]) -> type[_Vocabulary]:
    return type("Wrong", (_Vocabulary,), pieces)


def _as_known(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if request.inputs[1] is None:
        return _same_tokens(request, reply, reference)
    finding = _whole_numbers(request, reply, reference)
    return finding if finding is None or reply.error else Finding("other ids", "the tokens' ids")


def _asked_for_ids(request: Request) -> bool:
    return request.inputs[1] is not None


def _ids_alone(test: Callable[[list[int], list[int]], Any]) -> Callable[[Request, Reply, Reply], bool]:
    """Look at ids: test(given, wanted)."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        if reply.error or len(reply.outputs) != 1 or not _asked_for_ids(request):
            return False
        return bool(test(reply.outputs[0].flatten().tolist(), reference.outputs[0].tolist()))

    return sign


VOCABULARY = Question(
    name="vocabulary",
    reference=Vocabulary,
    use=_use_vocabulary,
    plain=True,
    properties=(
        Property("the four specials, then every token once, in order", 2, _known_tokens, _as_known),
        Property("encode: ids of tokens, UNK for unknown ones", 2, _encoded_tokens, _as_known),
        Property("decode: up to the first EOS, without PAD and BOS", 2, _decoded_ids, _as_known),
    ),
    misconceptions=(
        Misconception(
            "the specials are left out",
            "PAD, BOS, EOS and UNK have the ids 0 to 3 in every vocabulary: their tokens come first.",
            INFERENCE,
            _vocabulary_with(number=lambda self, tokens: sorted(set(tokens) - set(SPECIALS))),
            _says(lambda given, wanted: wanted[:4] == list(SPECIALS) and not set(SPECIALS) & set(given)),
        ),
        Misconception(
            "a token has two ids",
            "Each token gets one id, however often it occurs, and so do the specials if they occur in the texts.",
            thing=_vocabulary_with(number=lambda self, tokens: (*SPECIALS, *sorted(set(tokens)))),
            sign=_says(lambda given, wanted: len(set(given)) < len(given) and set(given) == set(wanted)),
        ),
        Misconception(
            "the tokens are not in order",
            "A set has no order that one could rely on, and the order of the texts changes with the texts: sort the "
            "tokens, after the specials.",
            sign=_says(lambda given, wanted: given != wanted and sorted(given) == sorted(wanted)),
        ),
        Misconception(
            "an unknown token is an error",
            "A model meets tokens that it has not seen in training: they become UNK.",
            sign=lambda request, reply, reference: (
                _asked_for_ids(request)
                and error_like("^(KeyError|ValueError: .* is not in|ValueError: tuple.index)")(
                    request, reply, reference
                )
            ),
        ),
        Misconception(
            "unknown tokens are left out",
            "A token that is not in the vocabulary becomes UNK, so that the sentence keeps its length.",
            sign=lambda request, reply, reference: (
                _asked_for_ids(request)
                and not reply.error
                and reply.outputs[0].tolist() == [i for i in reference.outputs[0].tolist() if i != UNK]
            ),
        ),
        Misconception(
            "an unknown token is padding",
            "PAD stands for nothing, and everything downstream ignores it. An unknown token is there: UNK.",
            PADDING,
            _vocabulary_with(encode=lambda self, tokens: [self.ids.get(token, PAD) for token in tokens]),
        ),
        Misconception(
            "what is no id is put out",
            "encode gives whole numbers, one per token.",
            sign=lambda request, reply, reference: (
                _asked_for_ids(request)
                and error_like(r"int\(\) argument|invalid literal|only one element")(request, reply, reference)
            ),
        ),
        Misconception(
            "BOS and EOS among the ids",
            "encode gives one id for each token that it is handed; BOS and EOS are put to them where batches are made.",
            FORCING,
            sign=_ids_alone(lambda given, wanted: {BOS, EOS} & set(given) - set(wanted)),
        ),
        Misconception(
            "an unknown token gets an id of its own",
            "A vocabulary is made once, as a model has a number for each of its tokens and for no others: what is not "
            "in it becomes UNK.",
            sign=_ids_alone(lambda given, wanted: UNK in wanted and max(given, default=0) > max(wanted)),
        ),
        Misconception(
            "a special token is unknown",
            "The four specials are tokens of the vocabulary like all others: encode knows their ids.",
            sign=_ids_alone(lambda given, wanted: EOS in wanted and EOS not in given and UNK in given),
        ),
        Misconception(
            "not as many ids as tokens",
            "encode gives one id for each token. A `return` inside a loop ends it at the first one.",
            sign=_ids_alone(lambda given, wanted: len(given) != len(wanted)),
        ),
        Misconception(
            "the answer goes on after its end",
            "What stands behind the first EOS is no part of the answer.",
            INFERENCE,
            _vocabulary_with(
                decode=lambda self, ids: [self.tokens[i] for i in ids if i not in (PAD, BOS, EOS)],
            ),
            _says(
                lambda given, wanted: (
                    len(given) > len(wanted) and "<eos>" not in given and given[: len(wanted)] == wanted
                )
            ),
        ),
        Misconception(
            "specials among the answer's tokens",
            "PAD and BOS are no tokens of an answer, and EOS ends it without being part of it.",
            INFERENCE,
            sign=_says(lambda given, wanted: bool({"<pad>", "<bos>", "<eos>"} & (set(given) - set(wanted)))),
        ),
        Misconception(
            "unknown tokens left out of the answer",
            "UNK is a token that was said, if not a good one: only PAD and BOS are left out.",
            sign=_says(lambda given, wanted: given == [token for token in wanted if token != "<unk>"] != wanted),
        ),
        Misconception(
            "tokens of the answer are lost",
            "PAD and BOS are left out wherever they stand, and so is what comes from the first EOS on; nothing else.",
            INFERENCE,
            sign=_says(lambda given, wanted: len(given) < len(wanted) and "<pad>" not in wanted),
        ),
        Misconception(
            "a list of the caller's is changed",
            "sort, append, remove and += change a list in place, and the caller's list it is: sorted(...) and "
            "[... for ...] make new ones.",
            sign=error_like("the list that came in was changed"),
        ),
        ONCE,
        Misconception(
            "an end is taken for granted",
            "A row may have no EOS, if the model never said it: then all of it counts.",
            INFERENCE,
            sign=error_like("2 is not in list|substring not found|x not in list"),
        ),
        Misconception(
            "no tuple of strings",
            "decode gives a tuple with a string for each token.",
            sign=error_like("a token is a string|a string was returned"),
        ),
        *PLAIN,
    ),
)


# --- pad ------------------------------------------------------------------------------------------------------------


def _use_pad(pad: Callable[..., Any], ids: Tensor, sizes: Tensor) -> Any:
    rows = [row[:size] for row, size in zip(ids.tolist(), sizes.tolist())]
    before = [list(row) for row in rows]
    padded = pad(rows)
    if rows != before:
        raise ValueError("the rows that came in were changed")
    return padded


def _rows(g: torch.Generator, sizes: Sequence[int]) -> Request:
    return Request((_ids(g, len(sizes), max(sizes)), torch.tensor(sizes)))


def _ragged_rows(g: torch.Generator) -> Iterator[Request]:
    yield _rows(g, (4, 7, 2))
    yield _rows(g, (3, 1, 2, 5, 5))
    ids = _ids(g, 3, 6)
    ids[:, 0] = torch.tensor([len(SPECIALS) + 1, len(SPECIALS), V - 1])  # the longest is not the largest
    yield Request((ids, torch.tensor([3, 6, 2])))


def _other_rows(g: torch.Generator) -> Iterator[Request]:
    yield _rows(g, (4, 4))
    yield _rows(g, (6,))
    yield _rows(g, (3, 0))


PAD_QUESTION = Question(
    name="pad",
    reference=core.pad,
    use=_use_pad,
    plain=True,
    properties=(
        Property("short rows filled up behind their last id", 2, _ragged_rows, _whole_numbers),
        Property("rows of one length, a single row, an empty row", 1, _other_rows, _whole_numbers),
    ),
    misconceptions=(
        Misconception(
            "filled up in front",
            "Padding comes behind the last id, so that every sentence begins in the first column.",
            PADDING,
            lambda rows: torch.tensor([[PAD] * (max(map(len, rows)) - len(row)) + row for row in rows]),
        ),
        Misconception(
            "rows cut off",
            "The longest row says how wide the batch is, not the shortest.",
            thing=lambda rows: torch.tensor([row[: min(map(len, rows))] for row in rows]),
        ),
        Misconception(
            "one column too many or too few",
            "The longest row needs no filling.",
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 1
                and reply.outputs[0].dim() == 2
                and abs(reply.outputs[0].size(1) - reference.outputs[0].size(1)) == 1
            ),
        ),
        Misconception(
            "columns are sentences",
            "A row of the tensor is a row that came in: (B, T).",
            thing=lambda rows: core.pad(rows).T,
        ),
        Misconception(
            "filled up with another id",
            "The id that stands for nothing is PAD.",
            sign=comparable(
                lambda request, reply, reference: (
                    close(reply.outputs[0] * (reference.outputs[0] != PAD), reference.outputs[0])
                    and not close(reply.outputs[0], reference.outputs[0])
                )
            ),
        ),
        Misconception(
            "the rows in another order",
            "Row b of the tensor is row b of those that came in: whoever sorts by length loses which is which.",
            sign=comparable(
                lambda request, reply, reference: (
                    sorted(reply.outputs[0].tolist()) == sorted(reference.outputs[0].tolist())
                    and not close(reply.outputs[0], reference.outputs[0])
                )
            ),
        ),
        Misconception(
            "the caller's rows are changed",
            "append, extend and += change a list in place, and the caller's list it is: build new ones.",
            sign=error_like("rows that came in were changed"),
        ),
        Misconception(
            "rows still of different lengths",
            "A tensor is a rectangle: torch.tensor wants lists of one length, so fill them up before.",
            sign=error_like("expected sequence of length|at dim 1|stack expects each tensor|inhomogeneous"),
        ),
        Misconception(
            "lists returned, where a tensor is meant",
            "Lists of one length become a tensor by torch.tensor.",
            sign=error_like("wanted tensors"),
        ),
        Misconception(
            "ids are whole numbers",
            "An embedding looks its row up by a whole number: the dtype is torch.long.",
            sign=lambda request, reply, reference: (
                "type 'str'" in reply.error
                or (not reply.error and len(reply.outputs) == 1 and reply.outputs[0].dtype != torch.long)
            ),
        ),
        *ANYWHERE,
    ),
)


# --- padding_mask ---------------------------------------------------------------------------------------------------


def _use_mask(mask: Callable[..., Any], lengths: Tensor, size: Tensor) -> Any:
    return mask(lengths, size.size(0))


def _lengths(g: torch.Generator, batch: int, size: int, shortest: int = 1) -> Tensor:
    """Draw lengths; one sentence is as long as the batch is wide."""
    lengths = torch.randint(shortest, size, (batch,), generator=g)
    return lengths.index_fill(0, torch.randint(batch, (1,), generator=g), size)


def _full_width(g: torch.Generator) -> Iterator[Request]:
    for batch, size in ((B, S), (4, 9), (2, 7)):
        yield Request((_lengths(g, batch, size), as_length(size)))


def _wider(g: torch.Generator) -> Iterator[Request]:
    yield Request((_lengths(g, B, S), as_length(S + 2)))
    yield Request((torch.tensor([3, 0]), as_length(4)))
    yield Request((torch.tensor([2]), as_length(2)))


def _on_any_device(g: torch.Generator) -> Iterator[Request]:
    yield replace(next(_full_width(g)), device="meta")


def _as_a_mask(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error or reply.changed or request.device == "meta":
        return good_manners(replace(request, dtype=torch.bool), reply, reference)
    return _whole_numbers(request, reply, reference)


def _exclude(lengths: Tensor, size: int, holds: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return holds(torch.arange(size, device=lengths.device), lengths[:, None])[:, None]


PADDING_MASK = Question(
    name="padding_mask",
    reference=masks.padding_mask,
    use=_use_mask,
    properties=(
        Property("True on tokens, False on padding, as (B, 1, S)", 1, _full_width, _as_a_mask),
        Property("batches padded wider, an empty sentence, a single one", 1, _wider, _as_a_mask),
        Property("of dtype bool, on any device", 1, _on_any_device, _as_a_mask),
    ),
    misconceptions=(
        Misconception(
            "mask the wrong way around",
            "Here True means a token, which may be attended to; there are libraries in which it means padding.",
            MASK,
            lambda lengths, size: _exclude(lengths, size, lambda s, n: s >= n),
        ),
        Misconception(
            "one position of padding counted as a token",
            "Positions count from 0: a sentence of n tokens has the positions 0 to n - 1.",
            MASK,
            lambda lengths, size: _exclude(lengths, size, lambda s, n: s <= n),
        ),
        Misconception(
            "the first token missed out",
            "Positions count from 0: a sentence of n tokens has the positions 0 to n - 1.",
            MASK,
            lambda lengths, size: _exclude(lengths, size, lambda s, n: s < n - 1),
        ),
        Misconception(
            "the axis of the queries is missing",
            "All queries share the row: the mask is (B, 1, S).",
            MASK,
            lambda lengths, size: _exclude(lengths, size, lambda s, n: s < n)[:, 0],
        ),
        Misconception(
            "the width is taken from the longest sentence",
            "A batch may be padded wider than its longest sentence: `size` says how wide.",
            PADDING,
            lambda lengths, size: _exclude(lengths, int(lengths.max()), lambda s, n: s < n),
        ),
        Misconception(
            "one sentence stands for all",
            "Each sentence has a length of its own: the first axis is B.",
            MASK,
            lambda lengths, size: _exclude(lengths[:1], size, lambda s, n: s < n),
        ),
        Misconception(
            "a row for every query",
            "The same positions are allowed to all queries: their axis is of length one, and is stretched where it is "
            "needed.",
            MASK,
            lambda lengths, size: _exclude(lengths, size, lambda s, n: s < n).expand(-1, size, -1),
        ),
        Misconception(
            "numbers, where True and False are meant",
            "A comparison gives torch.bool, and `~` and `masked_fill` want it.",
            MASK,
            sign=lambda request, reply, reference: (
                not reply.error and len(reply.outputs) == 1 and reply.outputs[0].dtype != torch.bool
            ),
        ),
        *ANYWHERE,
    ),
)


# --- collate --------------------------------------------------------------------------------------------------------

SOURCES, TARGETS = "abcdefg", "nopqrst"


def _task() -> SimpleNamespace:
    # Vocabulary, not core.Vocabulary: where answers are graded, a stub stands there.
    return SimpleNamespace(source_vocabulary=Vocabulary(SOURCES), target_vocabulary=Vocabulary(TARGETS))


def collate(task: Any, examples: Sequence[Example], device: str = "cpu") -> Batch:
    """Pad examples to a batch, as the course's tasks do."""
    whole = SequenceTask("", (), (), (), task.source_vocabulary, task.target_vocabulary)
    return whole.collate(examples, device)


def _use_collate(
    collate: Callable[..., Any], sources: Tensor, source_sizes: Tensor, targets: Tensor, target_sizes: Tensor,
    elsewhere: Tensor | None,
) -> Any:  # fmt: skip
    """Make a batch of letters; if it goes elsewhere, say which of its tensors have gone."""

    def tokens(letters: str, row: list[int], size: int) -> tuple[str, ...]:
        return tuple(letters[i - len(SPECIALS)] for i in row[:size])

    examples = [
        Example(tokens(SOURCES, source, s), tokens(TARGETS, target, t), ())
        for source, s, target, t in zip(*(x.tolist() for x in (sources, source_sizes, targets, target_sizes)))
    ]
    batch = collate(_task(), examples) if elsewhere is None else collate(_task(), examples, "meta")
    if batch is None:
        return None
    if not isinstance(batch, Batch):
        raise TypeError(f"a {type(batch).__name__} was returned, wanted a Batch")
    return batch if elsewhere is None else torch.tensor([x.is_meta for x in batch])


def _examples(
    g: torch.Generator, source_sizes: Sequence[int], target_sizes: Sequence[int], elsewhere: bool = False
) -> Request:
    sides = [
        x for sizes in (source_sizes, target_sizes) for x in (_ids(g, len(sizes), max(sizes)), torch.tensor(sizes))
    ]
    return Request((*sides, torch.zeros(0) if elsewhere else None))


def _some_examples(g: torch.Generator) -> Iterator[Request]:
    yield _examples(g, (5, 2, 4), (3, 6, 1))
    yield _examples(g, (1, 7), (4, 2))


def _alike_examples(g: torch.Generator) -> Iterator[Request]:
    yield from _some_examples(g)
    yield _examples(g, (4, 4), (6, 6))
    yield _examples(g, (3,), (2,))


def _examples_elsewhere(g: torch.Generator) -> Iterator[Request]:
    yield _examples(g, (5, 2, 4), (3, 6, 1), elsewhere=True)


def _in_place(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error:
        return Finding(reply.error, "no error on another device")
    if same_numbers(request, reply, reference._replace(outputs=tuple(x.double() for x in reference.outputs))):
        return Finding("another place", "the ids on the device, the lengths on the CPU")
    return None


def _collate_with(change: Callable[[Batch, list[list[int]]], Batch]) -> Callable[..., Batch]:
    """Make a batch and change it: change(batch, ids of the targets)."""

    def wrong(task: Any, examples: Sequence[Example], device: str = "cpu") -> Batch:
        return change(collate(task, examples, device), [task.target_vocabulary.encode(e.target) for e in examples])

    return wrong


def _sources_bordered(task: Any, examples: Sequence[Example], device: str = "cpu") -> Batch:
    rows = [[BOS, *task.source_vocabulary.encode(example.source), EOS] for example in examples]
    batch = collate(task, examples, device)
    return batch._replace(source=core.pad(rows).to(device), lengths=torch.tensor([len(row) for row in rows]))


@comparable
def _as_wide_as_the_batch(request: Request, reply: Reply, reference: Reply) -> bool:
    return close(reply.outputs[0], reference.outputs[0]) and not close(reply.outputs[1], reference.outputs[1])


def _targets_alone(test: Callable[[Tensor, Tensor, Batch], bool]) -> Callable[[Request, Reply, Reply], bool]:
    """Look at wrong targets beside right sources: test(target_in, target_out, the right batch)."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        if reply.error or len(reply.outputs) != 4 or len(reference.outputs) != 4:
            return False
        if all(close(given, wanted) for given, wanted in zip(reply.outputs[2:], reference.outputs[2:])):
            return False
        return test(reply.outputs[2], reply.outputs[3], Batch(*reference.outputs))

    return sign


def _token_missing(ids: Tensor, wanted: Tensor, token: int) -> bool:
    return ids.dim() == 2 and len(ids) == len(wanted) and bool((~(ids == token).any(-1)).any())


COLLATE = Question(
    name="collate",
    reference=collate,
    use=_use_collate,
    plain=True,
    stand_ins={"pad": core.pad},
    properties=(
        Property("the sources' ids, and how many tokens each has", 1, _some_examples, of_outputs(0, 2, _whole_numbers)),
        Property(
            "the target with BOS in front, and with EOS behind", 2, _alike_examples, of_outputs(2, 4, _whole_numbers)
        ),
        Property("ids go to the device, lengths stay on the CPU", 1, _examples_elsewhere, _in_place),
    ),
    misconceptions=(
        Misconception(
            "the target is not shifted",
            "What goes in at a position is the token before the one that should come out: BOS in front of the one, EOS "
            "behind the other.",
            FORCING,
            _collate_with(lambda batch, ids: batch._replace(target_in=batch.target_out)),
            _targets_alone(lambda given, said, batch: close(given, said)),
        ),
        Misconception(
            "shifted the wrong way",
            "What goes in begins with BOS, what should come out ends with EOS.",
            FORCING,
            _collate_with(lambda batch, ids: batch._replace(target_in=batch.target_out, target_out=batch.target_in)),
        ),
        Misconception(
            "the end behind the padding",
            "EOS follows the last token of each target; padding comes after it.",
            FORCING,
            _collate_with(
                lambda batch, ids: batch._replace(
                    target_out=F.pad(core.pad(ids), (0, 1), value=EOS).to(batch.source.device)
                )
            ),
        ),
        Misconception(
            "BOS and EOS on both sides",
            "Each of the two has one token more than the target: BOS in front of the one, EOS behind the other.",
            FORCING,
            _collate_with(
                lambda batch, ids: batch._replace(
                    target_in=core.pad([[BOS, *row, EOS] for row in ids]).to(batch.source.device),
                    target_out=core.pad([[BOS, *row, EOS] for row in ids]).to(batch.source.device),
                )
            ),
            _targets_alone(
                lambda given, said, batch: bool(
                    ((given == BOS).any() & (given == EOS).any()) | ((said == BOS).any() & (said == EOS).any())
                )
            ),
        ),
        Misconception(
            "the beginning is missing",
            "The first token has to be predicted, too, from BOS.",
            FORCING,
            sign=_targets_alone(lambda given, said, batch: _token_missing(given, batch.target_in, BOS)),
        ),
        Misconception(
            "the end is missing",
            "Where to stop has to be learned: EOS is the last token of what should come out.",
            FORCING,
            sign=_targets_alone(lambda given, said, batch: _token_missing(said, batch.target_out, EOS)),
        ),
        Misconception(
            "sources between BOS and EOS",
            "An encoder is not asked to say anything: sources are their own tokens, and nothing more.",
            FORCING,
            _sources_bordered,
            lambda request, reply, reference: (
                len(reply.outputs) == 4
                and not reply.error
                and bool(((reply.outputs[0] == EOS) | (reply.outputs[0] == BOS)).any())
            ),
        ),
        Misconception(
            "padding counted in the lengths",
            "The lengths count each source's own tokens; how wide the batch is, its shape says.",
            PADDING,
            _collate_with(
                lambda batch, ids: batch._replace(
                    lengths=batch.lengths.new_full(batch.lengths.shape, batch.source.size(1))
                )
            ),
        ),
        Misconception(
            "the lengths are those of something else",
            "lengths[b] is the number of tokens in source b.",
            PADDING,
            sign=_as_wide_as_the_batch,
        ),
        Misconception(
            "a vocabulary of the other language",
            "Ids of UNK everywhere: sources are encoded by the source's vocabulary, targets by the target's.",
            sign=lambda request, reply, reference: (
                not reply.error
                and any(bool((x == UNK).any()) for x in reply.outputs)
                and not any(bool((x == UNK).any()) for x in reference.outputs)
            ),
        ),
        Misconception(
            "tokens, where ids are meant",
            "A tensor holds numbers: encode the tokens before they are padded.",
            sign=error_like("too many dimensions 'str'|must be an integer|integer is required|type 'str'|invalid data"),
        ),
        Misconception(
            "lists, where tensors are meant",
            "The four fields of a Batch are tensors: `pad` makes them of rows of ids, torch.tensor of the lengths.",
            sign=error_like("wanted tensors"),
        ),
        Misconception(
            "not every example is in the batch",
            "Each example is a row of each of the four tensors, in the order in which the examples came.",
            sign=lambda request, reply, reference: (
                not reply.error
                and request.inputs[-1] is None
                and [len(x) if x.dim() else 0 for x in reply.outputs] != [len(x) for x in reference.outputs]
            ),
        ),
        Misconception(
            "no Batch is returned",
            "The four tensors are the fields of a Batch, in this order: source, lengths, target_in, target_out.",
            sign=error_like("wanted a Batch|Batch.__new__"),
        ),
        Misconception(
            "left where they were made, or sent along too far",
            "The three tensors of ids go to `device`; the lengths stay on the CPU, where encoders expect them.",
            sign=lambda request, reply, reference: request.inputs[-1] is not None and not reply.error,
        ),
        *ANYWHERE,
    ),
)


# --- loss -----------------------------------------------------------------------------------------------------------


class _Table(nn.Module):
    """A model whose logits depend on the token that goes in, and on the source."""

    def __init__(self, table: Tensor):
        super().__init__()
        self.table = table

    def forward(self, source: Tensor, lengths: Tensor, target_in: Tensor) -> tuple[Tensor, None]:
        return self.table[target_in] + self.table[source].mean(1, keepdim=True), None


def _use_loss(
    loss: Callable[..., Any], source: Tensor, lengths: Tensor, given: Tensor, said: Tensor, table: Tensor
) -> Any:
    result = loss(_task(), _Table(table), Batch(source, lengths, given, said))
    if result is None or isinstance(result, Tensor):
        return result
    total, *count = result
    return total, *(torch.tensor(float(number), dtype=torch.float64) for number in count)


def _taught(g: torch.Generator, sizes: Sequence[int], gradients: bool = True) -> Request:
    targets = [row[:size] for row, size in zip(_ids(g, len(sizes), max(sizes)).tolist(), sizes)]
    given, said = (core.pad(rows) for rows in ([[BOS, *row] for row in targets], [[*row, EOS] for row in targets]))
    source, lengths = _ids(g, len(sizes), S), torch.full((len(sizes),), S)
    return Request((source, lengths, given, said, normal(g, V, V)), gradients=gradients)


def _without_padding(g: torch.Generator) -> Iterator[Request]:
    yield _taught(g, (4, 4))
    yield _taught(g, (6,))


def _with_padding(g: torch.Generator) -> Iterator[Request]:
    yield _taught(g, (2, 6, 4))
    yield _taught(g, (0, 5))


def _in_other_dtypes(g: torch.Generator) -> Iterator[Request]:
    for dtype in (torch.float32, torch.bfloat16):
        yield replace(_taught(g, (2, 6, 4), gradients=False), dtype=dtype)


TOTAL, COUNT = 0, 1


def _right_count(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if finding := same_numbers(request, reply, reference):
        count = reply.outputs[0] if reply.outputs else None
        return (
            finding
            if reply.error or count is None or count.numel() != 1
            else Finding(f"{float(count):g} tokens", f"{float(reference.outputs[0]):g} tokens")
        )
    return None


def _loss_with(**options: Any) -> Callable[..., Any]:
    def wrong(task: Any, model: Any, batch: Batch, label_smoothing: float = 0.0) -> Any:
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        how = {"ignore_index": PAD, "reduction": "sum", **options}
        total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), **how)
        return total, int((batch.target_out != PAD).sum())

    return wrong


def _loss_of(given: Callable[[Batch], Tensor], said: Callable[[Batch], Tensor]) -> Callable[..., Any]:
    def wrong(task: Any, model: Any, batch: Batch, label_smoothing: float = 0.0) -> Any:
        return SequenceTask.loss(task, model, batch._replace(target_in=given(batch), target_out=said(batch)))

    return wrong


def _shifted_again(task: Any, model: Any, batch: Batch, label_smoothing: float = 0.0) -> Any:
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right = batch.target_out[:, 1:].flatten()
    total = F.cross_entropy(logits[:, :-1].flatten(0, 1), right, ignore_index=PAD, reduction="sum")
    return total, int((right != PAD).sum())


def _mixed_up(task: Any, model: Any, batch: Batch, label_smoothing: float = 0.0) -> Any:
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    logits = logits.reshape(len(logits), logits.size(-1), -1)  # (B, V, T), of numbers in the order of (B, T, V)
    total = F.cross_entropy(logits, batch.target_out, ignore_index=PAD, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


def _soft_twice(task: Any, model: Any, batch: Batch, label_smoothing: float = 0.0) -> Any:
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.softmax(-1).flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, reduction="sum"
    )
    return total, int((batch.target_out != PAD).sum())


def _total(test: Callable[[Tensor, Tensor, Tensor], bool]) -> Callable[[Request, Reply, Reply], bool]:
    """Look at a wrong total: test(given, wanted, what should come out)."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        if reply.error or not reply.outputs or reply.outputs[TOTAL].shape != reference.outputs[TOTAL].shape:
            return False
        given, wanted = reply.outputs[TOTAL].double(), reference.outputs[TOTAL]
        return request.inputs[3] is not None and not close(given, wanted) and test(given, wanted, request.inputs[3])

    return sign


LOSS = Question(
    name="loss",
    reference=SequenceTask.loss,
    use=_use_loss,
    properties=(
        Property("the sum of the losses, and its gradient", 1, _without_padding, of_output(TOTAL, same_gradients)),
        Property("padding adds nothing, nor a gradient", 2, _with_padding, of_output(TOTAL, same_gradients)),
        Property("how many tokens are in the sum", 1, _with_padding, of_output(COUNT, _right_count)),
        Property("dtype kept", 1, _in_other_dtypes, of_output(TOTAL, good_manners)),
    ),
    misconceptions=(
        Misconception(
            "a mean, where the sum is meant",
            "cross_entropy takes the mean unless it is told otherwise; look at `reduction`.",
            GENERATOR,
            _loss_with(reduction="mean"),
            _total(
                lambda given, wanted, said: any(
                    close(given * count, wanted) for count in ((said != PAD).sum(), said.numel(), *said.shape)
                )
            ),
        ),
        Misconception(
            "padding has a say",
            "Positions that only fill up are neither to be punished nor counted: see `ignore_index`.",
            PADDING,
            _loss_with(ignore_index=-100),
        ),
        Misconception(
            "the end does not count",
            "EOS is a token: where to stop has to be learned. What is left out is PAD.",
            FORCING,
            _loss_with(ignore_index=EOS),
        ),
        Misconception(
            "logits of other positions and tokens",
            "view and reshape have the right shape and mix the logits up: cross_entropy wants (N, V), or the V behind "
            "the B by an exchange of axes.",
            thing=_mixed_up,
        ),
        Misconception(
            "the loss looks at what goes in",
            "The logits at a position are about the token that should come out there: compare them with target_out.",
            FORCING,
            _loss_of(lambda batch: batch.target_in, lambda batch: batch.target_in),
        ),
        Misconception(
            "the model is given the answer",
            "What goes in is target_in. With target_out in its place the model has only to copy.",
            FORCING,
            _loss_of(lambda batch: batch.target_out, lambda batch: batch.target_out),
        ),
        Misconception(
            "the model is given the answer",
            "What goes in is target_in, what should come out is target_out.",
            FORCING,
            _loss_of(lambda batch: batch.target_out, lambda batch: batch.target_in),
        ),
        Misconception(
            "the target is shifted once more",
            "target_in and target_out are shifted already: position t of the logits belongs to that of target_out.",
            FORCING,
            _shifted_again,
        ),
        Misconception(
            "the end is left out",
            "EOS is a token like any other in the loss: where to stop has to be learned.",
            FORCING,
            _loss_of(
                lambda batch: batch.target_in, lambda batch: batch.target_out.masked_fill(batch.target_out == EOS, PAD)
            ),
        ),
        Misconception(
            "softmax done twice",
            "cross_entropy takes logits, and does the softmax itself.",
            GENERATOR,
            _soft_twice,
        ),
        Misconception(
            "positions and vocabulary mixed up",
            "cross_entropy wants the vocabulary on the second axis: make one axis of B and T, and V is the second.",
            GENERATOR,
            sign=error_like("Expected target size|Expected input batch_size|shape .* is invalid|Target \\d+ is out of"),
        ),
        Misconception(
            "a loss per position, where one sum is meant",
            "What is returned first has no axes.",
            GENERATOR,
            sign=lambda request, reply, reference: (
                not reply.error and bool(reply.outputs) and reply.outputs[TOTAL].dim() > 0
            ),
        ),
        Misconception(
            "no gradient can pass a number",
            "float(...) and .item() make a plain number of a tensor: nothing can be learned through it.",
            sign=error_like("wanted tensors"),
        ),
        Misconception(
            "padding is counted",
            "The number is that of the tokens in the sum: where target_out is not PAD.",
            PADDING,
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 2
                and request.inputs[3] is not None
                and bool((request.inputs[3] == PAD).any())
                and close(reply.outputs[COUNT], torch.tensor(request.inputs[3].numel()))
            ),
        ),
        Misconception(
            "other tokens are counted",
            "The number is that of the tokens in the sum: where target_out is not PAD, EOS included.",
            PADDING,
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 2
                and close(reply.outputs[TOTAL], reference.outputs[TOTAL])
                and not close(reply.outputs[COUNT], reference.outputs[COUNT])
            ),
        ),
        *ANYWHERE,
        Misconception(
            "padding has a say",
            "Positions that only fill up are neither to be punished nor counted.",
            PADDING,
            sign=_total(lambda given, wanted, said: bool((said == PAD).any())),
        ),
        Misconception(
            "another loss",
            "It is the sum of -log P(target_out) over all tokens, in nats, and nothing else.",
            GENERATOR,
            sign=_total(lambda given, wanted, said: True),
        ),
    ),
)


# --- exact_match ----------------------------------------------------------------------------------------------------

# Some of them, put together, make another.
WORDS = ("", "o", "ne", "one", "neo", "on", "e", "n", "eo")


def _use_exact_match(exact_match: Callable[..., Any], predictions: Tensor, references: Tensor) -> Tensor | None:
    said, right = ([tuple(WORDS[i] for i in row if i) for row in x.tolist()] for x in (predictions, references))
    share = exact_match(said, right)
    return None if share is None else torch.tensor(float(share), dtype=torch.float64)


def _answers(g: torch.Generator, right: int, wrong: Callable[[Tensor, int], Tensor], rows: int = 7) -> Request:
    """Draw different tokens per row, and make all but some of the rows wrong, each in its way."""
    references = torch.stack([torch.randperm(len(WORDS) - 1, generator=g)[:5] + 1 for _ in range(rows)])
    order = torch.randperm(rows, generator=g).tolist()
    predictions = references.clone()
    for row in order[right:]:
        predictions[row] = wrong(references[row], row)
    return Request((predictions, references))


def _one_wrong(row: Tensor, number: int) -> Tensor:
    place = number % 5
    return row.index_fill(0, torch.tensor(place), int(row[(place + 1) % 5]))


def _right_and_wrong(g: torch.Generator) -> Iterator[Request]:
    yield _answers(g, 3, _one_wrong)
    yield _answers(g, 5, lambda row, _: row.roll(1))
    yield _answers(g, 0, _one_wrong)
    yield _answers(g, 4, _one_wrong, rows=4)
    predictions, references = _answers(g, 7, _one_wrong).inputs
    assert predictions is not None
    yield Request((torch.cat([predictions[:3].roll(1, dims=0), predictions[3:]]), references))


def _too_long_or_short(g: torch.Generator) -> Iterator[Request]:
    def short_or_wrong(row: Tensor, number: int) -> Tensor:
        return F.pad(row[:-1], (0, 1)) if number % 2 else _one_wrong(row, number)

    predictions, references = _answers(g, 2, short_or_wrong).inputs
    yield Request((predictions, references))
    yield Request((references, predictions))
    yield Request((torch.tensor([[3, 6], [2, 4]]), torch.tensor([[1, 2, 6], [2, 4, 0]])))


def _right_share(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if finding := same_numbers(request, reply, reference):
        return finding if reply.error else Finding("another share", "the share of right answers")
    return None


def _tokenwise(predictions: Any, references: Any) -> float:
    hits = [a == b for p, r in zip(predictions, references) for a, b in zip(p, r)]
    return sum(hits) / len(hits)


def _share(test: Callable[[Any, Any], Any]) -> Callable[..., float]:
    return lambda predictions, references: sum(map(test, predictions, references)) / len(references)


EXACT_MATCH = Question(
    name="exact_match",
    reference=metrics.exact_match,
    use=_use_exact_match,
    plain=True,
    properties=(
        Property("the share of answers that are right in every token", 2, _right_and_wrong, _right_share),
        Property("a token too many or too few is wrong", 1, _too_long_or_short, _right_share),
    ),
    misconceptions=(
        Misconception(
            "right tokens counted, not right answers",
            "An answer is right or wrong as a whole: one wrong token is enough.",
            ACCURACIES,
            _tokenwise,
        ),
        Misconception(
            "right tokens counted, not right answers",
            "An answer is right or wrong as a whole: one wrong token is enough.",
            ACCURACIES,
            _share(lambda p, r: sum(a == b for a, b in zip(p, r)) / max(len(r), 1)),
        ),
        Misconception(
            "compared only as far as the shorter one goes",
            "zip stops with the shorter: an answer that breaks off is not right.",
            ACCURACIES,
            _share(lambda p, r: all(a == b for a, b in zip(p, r))),
        ),
        Misconception(
            "the order of the tokens does not count",
            "A set or a sorted list of tokens has forgotten where they stood.",
            ACCURACIES,
            _share(lambda p, r: sorted(p) == sorted(r)),
        ),
        Misconception(
            "the order of the tokens does not count",
            "A set of tokens has forgotten where they stood.",
            ACCURACIES,
            _share(lambda p, r: set(p) == set(r)),
        ),
        Misconception(
            "an answer compared with another example's",
            "The first prediction belongs to the first reference, and so on.",
            ACCURACIES,
            lambda predictions, references: sum(p in references for p in predictions) / len(references),
        ),
        Misconception(
            "tokens run together before they are compared",
            "Put together without anything between them, different tokens can make the same text.",
            thing=_share(lambda p, r: "".join(p) == "".join(r)),
        ),
        Misconception(
            "one right token is enough",
            "All tokens of an answer have to be right: all, not any.",
            ACCURACIES,
            _share(lambda p, r: any(a == b for a, b in zip(p, r))),
        ),
        Misconception(
            "wrong answers counted",
            "What is wanted is the share of right ones.",
            ACCURACIES,
            _share(lambda p, r: p != r),
        ),
        Misconception(
            "right answers counted, not their share",
            "Divide by the number of examples.",
            ACCURACIES,
            lambda predictions, references: sum(map(tuple.__eq__, predictions, references)),
        ),
        Misconception(
            "all or nothing over all examples",
            "Each answer counts by itself: what is wanted is the share of right ones.",
            ACCURACIES,
            lambda predictions, references: float(predictions == references),
        ),
        Misconception(
            "a share in percent",
            "A share is a number between 0 and 1.",
            thing=_share(lambda p, r: 100 * (p == r)),
        ),
        Misconception(
            "no number is returned",
            "The share of right answers is one number.",
            sign=error_like(r"float\(\) argument|only be converted to"),
        ),
        Misconception(
            "tensors expected, where tuples of strings come",
            "Tokens are strings here: compare them in Python.",
            sign=error_like("too many dimensions|'(list|tuple|str|bool)' object|can't convert|unsupported operand"),
        ),
        *PLAIN,
        Misconception(
            "divided by something else",
            "The share is that of the examples.",
            ACCURACIES,
            sign=wrong_output(
                lambda given, wanted: given.shape == wanted.shape and bool((given > 0) & (given < wanted))
            ),
        ),
    ),
)

QUESTIONS = (TOKENIZE, VOCABULARY, PAD_QUESTION, PADDING_MASK, COLLATE, LOSS, EXACT_MATCH)
