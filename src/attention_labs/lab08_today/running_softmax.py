"""Question `running_softmax`: attention with an online softmax, block by block."""

import contextlib
import math
import weakref
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attention_labs.lab08_today.shared import EVERYWHERE
from attention_labs.pages import SCORING
from nbjudge import (
    ANYWHERE,
    ATTENTION,
    FUNCTION,
    Axis,
    Battery,
    Changed,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    edit,
    error_like,
    normal,
)

Blocks = Iterable[tuple[Tensor, Tensor]]
# T and S, and how long a block is, where one T x S tensor, 16 GiB in single precision,
# would not fit into the sandbox. There, tensors have shapes and no numbers.
FAR, FAR_BLOCK = 65_536, 2_048
MOST_CALLS = 100  # of torch's operators, for a block
MANY_BLOCKS, MOST_HELD = 300, 100  # tensors at a time, for so many blocks
UNCOUNTED = 1_000  # numbers that any tensor may have
LOOP = f"more than {MOST_CALLS} operator calls for a block"
OBSERVED = 4  # where the inputs say whether the sizes of tensors are looked at


def running_softmax(query: Tensor, blocks: Blocks) -> Tensor:
    """Look up values by scaled dot products, a block of keys at a time."""
    scale = query.size(-1) ** -0.5
    largest = query.new_full((*query.shape[:-1], 1), -math.inf)
    total = context = torch.zeros_like(largest)
    for key, value in blocks:
        scores = query @ key.mT * scale
        top = scores.amax(dim=-1, keepdim=True).maximum(largest)
        shares, shrink = (scores - top).exp(), (largest - top).exp()
        total = total * shrink + shares.sum(dim=-1, keepdim=True)
        context = context * shrink + shares @ value
        largest = top
    return context / total


class _Largest(TorchDispatchMode):
    """Note how large the largest tensor is that is made, and how many are held.

    Args:
        most: operators that may be called.
    """

    def __init__(self, most: int):
        super().__init__()
        self.numbers, self.calls, self.most = 0, 0, most
        self.living: dict[int, weakref.ref[Tensor]] = {}
        self.held = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.calls += 1
        if self.calls > self.most:
            raise RuntimeError(LOOP)
        made = func(*args, **(kwargs or {}))
        tensors = [x for x in tree_leaves(made) if isinstance(x, Tensor)]
        for x in tensors:
            numbers = x.untyped_storage().nbytes() // x.element_size()
            self.numbers = max(self.numbers, numbers)
        if self.held <= MOST_HELD:  # otherwise it is settled, and counting takes time
            self.living |= {id(x): weakref.ref(x) for x in tensors}
            alive = {key: x for key, x in self.living.items() if x() is not None}
            self.living, self.held = alive, max(self.held, len(alive))
        return made


class _Stream:
    """Blocks that come once, each overwritten when the next one is asked for."""

    def __init__(self, blocks: list[tuple[Tensor, Tensor]]):
        self.blocks, self.changed = blocks, False

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while self.blocks:
            intact = self.blocks.pop(0)
            key, value = block = tuple(part.clone() for part in intact)
            yield key, value
            for part, before in zip(block, intact):
                if not part.is_meta:
                    self.changed |= not torch.equal(part, before)
                    part.fill_(math.nan)


def _use(
    running: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    blocks: list[int],
    observed: bool,
    far: bool,
) -> Any:
    """Hand over keys and values in blocks of these lengths.

    Returns:
        The contexts; or, if that is observed, how many numbers the largest tensor has,
        how many it may have, and how many tensors are held at a time.
    """
    if far:
        query = query.to("meta").expand(FAR, -1).contiguous()
        key, value = (x.to("meta").expand(FAR, -1) for x in (key, value))
        blocks = [FAR_BLOCK] * (FAR // FAR_BLOCK)
    pairs = zip(key.split(blocks, dim=-2), value.split(blocks, dim=-2))
    stream = _Stream(list(pairs))
    queries, keys = query[..., 0].numel(), key[..., : max(blocks), 0].numel()
    width = max(query.size(-1), value.size(-1))
    largest = _Largest(MOST_CALLS * len(blocks))
    with largest if observed else contextlib.nullcontext():
        contexts = running(query, iter(stream))
    if observed and isinstance(contexts, Tensor):
        allowed = 2 * max(queries * max(width, *blocks), keys * width)
        allowed = max(allowed, UNCOUNTED)
        counts = largest.numbers, allowed, largest.held
        return tuple(torch.tensor(float(count)) for count in counts)
    return Changed(contexts) if stream.changed else contexts


def _lengths(d: Draw) -> list[int]:
    """Draw the lengths of K blocks, one of them N, and no other longer."""
    lengths = [d.N, *(d.number(1, d.N) for _ in range(d.K - 1))]
    return [lengths[i] for i in torch.randperm(d.K, generator=d).tolist()]


def _asked(
    d: Draw, blocks: list[int], observed: bool = False, queries: int = 0
) -> Request:
    keys, queries = sum(blocks), queries or d.T
    query, key = normal(d, *d.leading, queries, d.D), normal(d, *d.leading, keys, d.D)
    value = normal(d, *d.leading, keys, d.V)
    shown = ", ".join(map(str, blocks[:12])) + ", ..." * (len(blocks) > 12)
    about = f"queries: {queries}, keys by block: {shown}"
    return Request((query, key, value, blocks, observed, False), about=about)


def _sizes(d: Draw) -> Iterator[Request]:
    """Ask for few queries and many small blocks; and for lengths that do not fit.

    An answer that looks at numbers, which are not there for those, is asked for many
    queries and for blocks of many keys.
    """
    if d.whole:
        return  # there is nothing to be shown in small
    yield _asked(d, [d.number(40, 50) for _ in range(2)], observed=True, queries=200)
    yield _asked(d, [d.number(2, 5) for _ in range(MANY_BLOCKS)], observed=True)
    query, key, value = (normal(d, 1, width) for width in (d.D, d.D, d.V))
    about = f"{FAR:,} queries, {FAR:,} keys in blocks of {FAR_BLOCK:,}"
    inputs = (query, key, value, [1], True, True)
    yield Request(inputs, device="meta", about=about)


def _rare(d: Draw) -> Iterator[Request]:
    """Draw scores far below 0, scores that rise by the block, and scores that fall."""
    plain = _asked(d, _lengths(d))
    query, key, *others = plain.inputs
    yield _asked(d, [1, d.N + 2, d.N + 1])
    beyond = query.abs() + 1  # of one query, a score is below what float32 can hold
    beyond[..., :1, :] *= 1e100
    yield Request(
        (beyond, -(key.abs() + 1), *others), about=f"{plain.about}; a huge query"
    )
    for below in (1e3, 1e6):
        far = (query.abs() + 1, -below * (key.abs() + 1), *others)
        yield Request(far, about=f"{plain.about}; all scores far below 0")
    steps = torch.arange(1, key.size(-2) + 1, dtype=key.dtype)[:, None]
    for name, size in (("rise", steps), ("fall", steps.flip(0))):
        inputs = (query.abs() + 1, 1e3 * size * (key.abs() + 1), *others)
        about = f"{plain.about}; large scores that {name} from block to block"
        yield Request(inputs, about=about)


BATTERY = Battery(
    FUNCTION,
    lambda d: _asked(d, _lengths(d)),
    {
        "B": Axis("sentences", most=4),
        "T": Axis("queries", long=200),
        "N": Axis("keys in a block", long=300),
        "K": Axis("blocks", most=6, long=60),
        "D": Axis("width of a key"),
        "V": Axis("width of a value"),
    },
    leading=3,
    large=(0.0, 1e5, 1e200),  # in float64
    gradients=False,  # none are needed
    leaves_out={
        "zero": "there is a block, and a block has a key",
        "long in bfloat16": "what many sums lose in half precision is not asked about",
    },
)


def _not_too_large(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """No tensor is larger than what a block needs, and few are held."""
    if reply.error:
        # what else goes wrong on this device is told where manners are looked at
        elsewhere = request.device == "meta" and LOOP not in reply.error
        return None if elsewhere else Finding(reply.error, "no error")
    told = [x.is_floating_point() and x.shape == () for x in reply.outputs]
    if told != [True] * 3 or not all(x.isfinite() for x in reply.outputs):
        return Finding("something else than contexts", "a tensor of contexts")
    numbers, allowed, held = (int(x) for x in reply.outputs)
    if numbers > allowed:
        return Finding(f"a tensor of {numbers:,} numbers", f"at most {allowed:,}")
    if held > MOST_HELD:
        return Finding(f"{held} tensors held at a time", f"at most {MOST_HELD}")
    return None


def _cat_all(query: Tensor, blocks: Blocks) -> Tensor:
    """Put all blocks together, one after the other."""
    keys, values = [], []
    for key, value in blocks:
        keys.append(key.clone())
        values.append(value.clone())
    return running_softmax(query, [(torch.cat(keys, -2), torch.cat(values, -2))])


def _parts_kept(query: Tensor, blocks: Blocks) -> Tensor:
    """Keep three tensors for each block, and join them at the end."""
    parts = []
    for key, value in blocks:
        scores = query @ key.mT * query.size(-1) ** -0.5
        top = scores.amax(dim=-1, keepdim=True)
        shares = (scores - top).exp()
        parts.append((top, shares.sum(dim=-1, keepdim=True), shares @ value))
    tops, sums, contexts = (torch.stack(part) for part in zip(*parts))
    shares = (tops - tops.amax(dim=0)).exp()
    return (shares * contexts).sum(dim=0) / (shares * sums).sum(dim=0)


def _kept(query: Tensor, blocks: Blocks) -> Tensor:
    """Keep the blocks, and look at them when all have come."""
    return running_softmax(query, list(blocks))


def _mean_of_blocks(query: Tensor, blocks: Blocks) -> Tensor:
    """Look each block up by itself, and take the mean."""
    contexts = [running_softmax(query, [block]) for block in blocks]
    return torch.stack(contexts).mean(dim=0)


change = partial(edit, running_softmax)
SCALE = SCORING + "scale"
RUNNING = "19_without_the_matrix.html#without-the-matrix-running"
SHRINK = (
    "When a block has a larger score, the earlier sums used a smaller m. Multiply l"
    " and o by the exponential of m - m'."
)
TOP = "Subtract the largest score of all blocks so far, not of one block only."

QUESTION = Question(
    name="running_softmax",
    reference=running_softmax,
    use=_use,
    forbidden=(*ATTENTION, "attention_course.blockwise.blockwise_attend"),
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "sums": r"m' = \max(m, \max_s e_{ts}), \qquad l' = l\, e^{m - m'} + \sum_s"
        r" e^{e_{ts} - m'}, \qquad o' = o\, e^{m - m'} + \sum_s e^{e_{ts} - m'} v_s",
        "result": "After the last block, return the context o / l. It is the context"
        " that one softmax over the keys of all blocks would give.",
        "scores": "The scores are $e_{ts} = q_t^\\top k_s / \\sqrt{D}$. Let every"
        " query attend to every key.",
        "blocks": "`blocks` gives pairs of keys (..., N, D) and values (..., N, Dv)."
        " There is at least one pair. N is at least 1 and may differ from block to"
        " block.",
        "once": "You get each block only once. When you take the next block, its"
        " numbers overwrite those of the last block. So no input requires gradients"
        " here.",
        "small": "Do not make a tensor with more than twice as many numbers as the"
        " largest of these: the queries, the contexts, the keys of a block, its"
        " values, and the scores of all queries for one block. Tensors of up to 1,000"
        " numbers do not count.",
        "held": "What you keep from one block to the next must not grow with the"
        " number of blocks.",
        "no loop": "Compute all queries and a whole block at once. A loop over single"
        " queries or keys costs two points.",
        "in front": "There may be any number of axes before the last two, or none. They"
        " are the same for queries, keys and values.",
        "query": "query: (..., T, D).",
        "argument": "blocks: an iterator over pairs of keys and values.",
        "returns": "The contexts (..., T, Dv).",
    },
    properties=(
        BATTERY.numbers(
            "the contexts equal those of one softmax over all blocks",
            1,
            checks=("sums", "result", "scores", "blocks", "once", "query", "argument"),
            gradients=False,
            requests=lambda d: [_asked(d, [d.N]), _asked(d, _lengths(d))],
        ),
        BATTERY.line(
            f"nothing grows with the number of keys, and no loop over single ones;"
            f" {FAR:,} queries and as many keys",
            2,
            _sizes,
            _not_too_large,
            ("small", "held", "no loop"),
            times=1,
        ),
        BATTERY.edges(
            1,
            checks=("lengths", "blocks", "in front", "returns"),
            claim="scores far below 0, rising and falling scores; edges: length one,"
            " equal lengths, long inputs, more or fewer leading axes, large numbers,"
            " repeated calls",
            also=_rare,
        ),
        BATTERY.manners(1, checks=("manners",)),
    ),
    mistakes=(
        Mistake(
            "the earlier sums are not rescaled",
            SHRINK,
            RUNNING,
            change("(largest - top).exp()", "torch.ones_like(top)"),
        ),
        Mistake(
            "only one of the two sums is rescaled",
            SHRINK + " Rescale both of them.",
            RUNNING,
            (
                change("total = total * shrink", "total = total"),
                change("context = context * shrink", "context = context"),
            ),
        ),
        Mistake(
            "the largest score of only one block",
            TOP + " Otherwise the exponential of m - m' can overflow.",
            RUNNING,
            change(".maximum(largest)", ""),
        ),
        Mistake(
            "the maximum is not subtracted",
            TOP + " The exponential of a large number overflows.",
            RUNNING,
            change(
                "scores.amax(dim=-1, keepdim=True).maximum(largest)",
                "torch.zeros_like(largest)",
            ),
        ),
        Mistake(
            "the running maximum starts at 0",
            "All scores may be below 0. Before the first block, set m to minus"
            " infinity.",
            RUNNING,
            change("-math.inf", "0.0"),
        ),
        Mistake(
            "only the last block counts",
            "Add each block to the sums of the earlier blocks.",
            RUNNING,
            change("total * shrink + shares", "shares")
            & change("context * shrink + shares", "shares"),
        ),
        Mistake(
            "a separate softmax for each block",
            "The blocks share one denominator. Divide once, after the last block.",
            RUNNING,
            _mean_of_blocks,
        ),
        Mistake(
            "division by the sum missing",
            "Divide o by l after the last block.",
            RUNNING,
            change("context / total", "context"),
        ),
        Mistake(
            "scale factor missing",
            "Divide the scores by the square root of D, the width of a key.",
            SCALE,
            change(" * scale", ""),
        ),
        Mistake(
            "scaled by a wrong width",
            "Divide the scores by the square root of D, the width of a key.",
            SCALE,
            change("query @ key.mT * scale", "query @ key.mT * value.size(-1) ** -0.5"),
        ),
        Mistake(
            "blocks are kept to the end",
            "The next block overwrites the last one. Add a block to the sums before"
            " you take the next one.",
            RUNNING,
            _kept,
        ),
        Mistake(
            "too many operator calls for a block",
            "Compute the scores of all queries for a block as one matrix product. Loop"
            " only over the blocks.",
            RUNNING,
            sign=error_like(LOOP),
        ),
        Mistake(
            "a tensor or list that grows with the number of keys",
            "Do not concatenate or collect the blocks. Keep only m, l and o: two"
            " numbers and a vector for each query.",
            RUNNING,
            (_cat_all, _parts_kept),
            sign=lambda request, reply, reference: bool(request.inputs[OBSERVED]),
        ),
        *ANYWHERE,
        Mistake(
            "wrong with more than one block",
            SHRINK + " Divide once, after the last block.",
            RUNNING,
            sign=lambda request, reply, reference: len(request.inputs[3]) > 1,
        ),
    ),
)
