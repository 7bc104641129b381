"""Question `grow_embedding`: add rows for words that the pretrained body lacks."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attention_labs.lab07_transfer.shared import LOADING
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Axis,
    Battery,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    close,
    comparable,
    each_of,
    edit,
    error_like,
    good_manners,
    in_words,
    left_alone,
    normal,
    of_output,
    same_copies,
    same_numbers,
    wrong_in,
    wrong_output,
)


def grow_embedding(embedding: nn.Embedding, count: int) -> nn.Embedding:
    """Make an embedding with rows for `count` more words."""
    old, padding = embedding.weight.detach(), embedding.padding_idx
    words = [i for i in range(len(old)) if i != padding]
    new = old[words].mean(dim=0, keepdim=True).expand(count, -1)
    weight, frozen = torch.cat([old, new]), not embedding.weight.requires_grad
    return nn.Embedding.from_pretrained(weight, freeze=frozen, padding_idx=padding)


def _use_grow(
    grow: Any,
    table: Tensor,
    padding: int,
    asks: bool,
    count: int,
    before: Tensor | None = None,
) -> Any:
    """Hand over an embedding; a padding below 0 is none.

    If another table is given, the embedding has it first, and is grown then, too.

    Returns:
        The new table; the id of its padding, whether it asks for a gradient and is an
        embedding of so many rows; and whether the old embedding has its rows, its
        padding and its `requires_grad` still, and its memory for itself.
    """
    own = None if padding < 0 else padding
    embedding = nn.Embedding.from_pretrained(
        table if before is None else before, freeze=not asks, padding_idx=own
    )
    weight = embedding.weight
    if before is not None:
        grow(embedding, count)
        weight.data = table
    grown = grow(embedding, count)
    if grown is None:
        return None
    old, new = embedding.weight, grown.weight
    is_embedding = isinstance(grown, nn.Embedding)
    is_embedding = is_embedding and _lengths(grown) == new.shape
    own_now = -1 if grown.padding_idx is None else grown.padding_idx
    shared = grown is embedding or (
        not old.is_meta
        and old.untyped_storage().data_ptr() == new.untyped_storage().data_ptr()
    )
    kept = (old.shape, old.requires_grad) == (table.shape, asks)
    kept = kept and embedding.padding_idx == own and old is weight
    kept = kept and _lengths(embedding) == table.shape
    told = (own_now, new.requires_grad, is_embedding), (kept, not shared)
    wide, cpu = torch.float64, torch.device("cpu")
    return new.detach(), *(torch.tensor(x, dtype=wide, device=cpu) for x in told)


def _lengths(embedding: nn.Embedding) -> tuple[int, int]:
    return embedding.num_embeddings, embedding.embedding_dim


def _to_grow(d: Draw, padded: bool | None = None, asks: bool | None = None) -> Request:
    """Draw a table whose rows have a mean, and whose padding is no row of zeros."""
    table = normal(d, d.V, d.D) + normal(d, d.D)
    padded, asks = (bool(d.number(0, 1)) if x is None else x for x in (padded, asks))
    padded = padded and d.V > 1  # there is a word
    padding = d.number(0, d.V - 1)
    about = (
        f"words: {d.V}, new words: {d.N}, padding_idx: {padding if padded else None}"
    )
    inputs = (table, padding if padded else -1, asks, d.N)
    return Request(inputs, about=f"{about}, requires_grad: {asks}")


def _all_kinds(d: Draw) -> list[Request]:
    flags = (True, False)
    kinds = [_to_grow(d, padded, asks) for padded in flags for asks in flags]
    table, _, *others = _to_grow(d, True).inputs
    ends = (Request((table, i, *others)) for i in (0, d.V - 1))
    none = [replace(x, inputs=(*x.inputs[:3], 0)) for x in kinds[:2]]
    none = [replace(x, about="no new words") for x in none]
    two = Request((table[:2], d.number(0, 1), *others), about="a word and padding")
    zeros = table.index_fill(0, torch.tensor([d.V - 1]), 0.0)
    zeros = Request((zeros, 0, *others), about="a word whose row is zero")
    again = replace(
        kinds[0],
        inputs=(*kinds[0].inputs, normal(d, d.V, d.D)),
        about="an embedding that was grown before it was trained",
    )
    return [
        *kinds,
        again,
        *none,
        two,
        zeros,
        *(replace(x, about=f"padding_idx: {x.inputs[1]}") for x in ends),
    ]


def _which_kind(request: Request, reply: Reply, reference: Reply) -> Finding:
    names = ("padding_idx", "requires_grad", "an nn.Embedding")
    pairs = zip(names, *(x.outputs[0].tolist() for x in (reply, reference)))
    name, given, wanted = next(x for x in pairs if x[1] != x[2])
    return Finding(f"{name}: {given:g}", f"{wanted:g} (-1: None; 1: yes, 0: no)")


def _what_became(request: Request, reply: Reply, reference: Reply) -> Finding:
    if not reply.outputs[0][0]:
        return Finding("the old embedding is another one than before", "as it was")
    return Finding("the old and the new table share memory", "a table of its own")


def _old_rows_copied(
    request: Request, reply: Reply, reference: Reply
) -> Finding | None:
    count = len(request.inputs[0])
    own, wanted = (
        x._replace(outputs=(x.outputs[0][:count],)) for x in (reply, reference)
    )
    return same_copies(request, own, wanted)


_rows = of_output(0, same_numbers)
_kinds = of_output(1, in_words(same_numbers, _which_kind))
_old = of_output(2, in_words(same_numbers, _what_became))

BATTERY = Battery(
    FUNCTION,
    _to_grow,
    {
        "V": Axis("words", long=300),
        "D": Axis("width"),
        "N": Axis("new words", least=0, long=300),
    },
    leaves_out={"in front": "a table has two axes"},
)

change = partial(edit, grow_embedding)
MEAN = "old[words].mean(dim=0, keepdim=True).expand(count, -1)"
AVERAGE = (
    "Set every new row to the mean of the old rows, without the row of the padding."
)
SETTINGS = (
    "Give the new embedding the `padding_idx` of the old one, and give its weight the"
    " same `requires_grad`."
)

QUESTION = Question(
    name="grow_embedding",
    reference=grow_embedding,
    use=_use_grow,
    battery=BATTERY,
    requirements={
        "rows": "Take the V rows of the old embedding first, and add `count` new rows"
        " after them. `count` may be 0.",
        "mean": "Set each new row to the mean of the old rows.",
        "padding": "If the embedding has a `padding_idx`, leave the row of this id out"
        " of the mean, because it belongs to no word. There is always at least one row"
        " of a word.",
        "settings": "Give the new embedding the same `padding_idx` as the old one (it"
        " may be None). Give its weight the same `requires_grad`.",
        "apart": "The two embeddings must not share memory: a later change to one of"
        " them must not change the other.",
        "embedding": "embedding: an `nn.Embedding` with V rows; do not change it.",
        "count": "count: the number of new rows.",
        "returns": "An `nn.Embedding` with V + count rows (its `num_embeddings`), of"
        " the old one's dtype and on its device.",
    },
    properties=(
        BATTERY.numbers(
            "the old rows, followed by new rows that are their mean",
            2,
            _rows,
            ("rows", "mean", "embedding", "count", "returns"),
            False,
            lambda d: _to_grow(d, padded=False),
        ),
        BATTERY.edges(
            1,
            each_of(_rows, _kinds),
            ("rows", "padding", "settings"),
            "padding does not count in the mean; padding_idx and requires_grad are"
            " kept; edges: one row, two rows, no new rows, many new rows, large"
            " numbers, repeated calls",
            _all_kinds,
        ),
        replace(
            BATTERY.manners(
                1,
                each_of(of_output(0, each_of(good_manners, _old_rows_copied)), _old),
                ("apart", "embedding", "returns"),
            ),
            throughout=each_of(left_alone, _old),
        ),
    ),
    mistakes=(
        Mistake(
            "the padding counts in the mean",
            AVERAGE + " `padding_idx` is None, or the id of the padding.",
            LOADING,
            change(
                "words = [i for i in range(len(old)) if i != padding]", "words = ..."
            ),
        ),
        Mistake(
            "the first row is always treated as padding",
            "`padding_idx` tells which row belongs to the padding. If it is None, no"
            " row does.",
            LOADING,
            (
                change("range(len(old)) if i != padding", "range(1, len(old))"),
                change("i != padding", "i != (padding or 0)"),
            ),
        ),
        Mistake(
            "the new rows are zeros",
            AVERAGE,
            LOADING,
            change(MEAN, "old.new_zeros(count, old.size(1))"),
        ),
        Mistake(
            "random new rows",
            AVERAGE,
            LOADING,
            change(MEAN, "torch.randn(count, old.size(1)).to(old)"),
            sign=comparable(
                lambda request, reply, reference: (
                    (new := reply.outputs[0][len(request.inputs[0]) :]).size(0) > 1
                    and not close(new, new[:1].expand_as(new))
                )
            ),
        ),
        Mistake(
            "sum of the rows instead of the mean",
            AVERAGE,
            LOADING,
            change("mean(dim", "sum(dim"),
        ),
        Mistake(
            "one mean over all entries",
            "Take the mean over the rows, so that it has an entry for each column.",
            LOADING,
            change(MEAN, "old[words].mean().expand(count, old.size(1))"),
        ),
        Mistake(
            "the new rows come first",
            "The old words keep their ids. Put the new rows after the old ones.",
            LOADING,
            change("[old, new]", "[new, old]"),
        ),
        Mistake(
            "wrong number of rows",
            "Add `count` new rows. `count` may be 0.",
            LOADING,
            change("expand(count", "expand(1"),
            sign=wrong_output(
                lambda given, wanted: (
                    given.shape[1:] == wanted.shape[1:] and len(given) != len(wanted)
                )
            ),
        ),
        Mistake(
            "padding_idx is not passed on",
            SETTINGS,
            LOADING,
            change(", padding_idx=padding)", ")"),
        ),
        Mistake(
            "the new embedding is always frozen",
            SETTINGS + " `from_pretrained` freezes the weight unless you pass"
            " `freeze=False`.",
            LOADING,
            change("freeze=frozen, ", ""),
        ),
        Mistake(
            "the new embedding is never frozen",
            SETTINGS,
            LOADING,
            change("freeze=frozen", "freeze=False"),
        ),
        Mistake(
            "the padding row is zero",
            "`nn.Embedding(..., padding_idx=...)` sets this row to zero. Copy the old"
            " rows afterwards.",
            LOADING,
            sign=comparable(
                lambda request, reply, reference: (
                    (i := request.inputs[1]) >= 0
                    and not bool(reply.outputs[0][i].any())
                    and bool(reference.outputs[0][i].any())
                )
            ),
        ),
        Mistake(
            "the old embedding is changed or shares memory",
            "Make a new embedding with its own table. `clone` and `cat` copy.",
            "",
            sign=wrong_in(2, 0, 1),
        ),
        Mistake(
            "the result is not an embedding",
            "Put the table into an `nn.Embedding`, and return this embedding.",
            "",
            sign=error_like("has no attribute '(padding_idx|weight)'"),
        ),
        *ANYWHERE,
        Mistake(
            "a wrong padding_idx or requires_grad",
            SETTINGS,
            LOADING,
            sign=wrong_in(1, 0),
        ),
        Mistake(
            "the old rows are wrong",
            "The body was trained with the old rows. Do not change them.",
            LOADING,
            sign=comparable(
                lambda request, reply, reference: (
                    not close(
                        reply.outputs[0][: len(request.inputs[0])], request.inputs[0]
                    )
                )
            ),
        ),
        Mistake(
            "wrong new rows",
            AVERAGE,
            LOADING,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
