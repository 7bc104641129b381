"""`make bench`: how fast the course's models are, against PyTorch's own modules and
three other libraries.

Processor time of one thread, in one process. Whatever does the same work takes turns,
so that a busy hour is busy for all; a figure is the median of the rounds, a ratio above
1 means that the course is quicker. The table goes to the screen and to
_build/reports/bench.json; the full one that the book shows is committed as
book/reports/bench.json.
"""

import argparse
import logging
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from measure import operators, peers, report
from measure.report import Row, row
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from tqdm import tqdm

from attention_course import models
from attention_course.attention import MultiHeadAttention, attend
from attention_course.decoding import beam_search, greedy
from attention_course.scores import AdditiveScore, GeneralScore
from attention_course.transformer import FeedForward

DROPOUT = 0.1
# the id of an EOS that no model writes, so that every sentence takes all steps
NEVER = -1


class Sizes(NamedTuple):
    """What both sides of a comparison are built with; sentences have `length` tokens,
    none of them padding."""

    dim: int
    heads: int
    hidden_dim: int
    layers: int
    batch: int
    length: int
    vocab_size: int = 1000


class Plan(NamedTuple):
    """How much to measure."""

    rounds: int
    transformers: dict[str, Sizes]
    recurrent: Sizes
    long: int
    growth: list[int]


FULL = Plan(
    rounds=9,
    transformers={
        "small": Sizes(128, 4, 512, 2, 64, 32),
        "medium": Sizes(256, 8, 1024, 3, 32, 64),
    },
    recurrent=Sizes(dim=128, heads=1, hidden_dim=256, layers=1, batch=64, length=32),
    long=2048,
    growth=[64, 128, 256, 512, 1024],
)
QUICK = Plan(
    rounds=1,
    transformers={"tiny": Sizes(8, 2, 16, 1, 3, 4, 17)},
    recurrent=Sizes(8, 1, 8, 1, 3, 4, 17),
    long=256,
    growth=[4, 8],
)


class Contest:
    """Calls that do the same work, run in turns."""

    def __init__(self, **builders: Callable[[], Callable[[], object]]):
        self.calls: dict[str, Callable[[], object]] = {}
        self.seconds: dict[str, float] = {}
        self.missing: dict[str, str] = {}
        for name, build in builders.items():
            try:
                call = build()
                call()  # the first time is slower
                self.calls[name] = call
            except Exception as error:  # whatever is wrong with a peer, its row says so
                self.missing[name] = (
                    f"does not run: {type(error).__name__}:"
                    f" {str(error).splitlines()[0]}"
                )

    def run(self, rounds: int) -> "Contest":
        """Measure everybody's median."""
        seconds: dict[str, list[float]] = {name: [] for name in self.calls}
        for _ in range(rounds):
            for name, call in self.calls.items():
                begin = time.process_time()
                call()
                seconds[name].append(time.process_time() - begin)
        self.seconds = {name: statistics.median(of) for name, of in seconds.items()}
        return self

    def ratio(
        self,
        what: str,
        peer: str,
        at_least: float | None = None,
        note: str = "",
        ours: str = "ours",
        floor: str = "floor",
    ) -> Row:
        """Say how many times as long the peer takes, and how many times at most.

        No call can take less time than the products of matrices in it, its floor.
        """
        for name in (ours, peer):
            if name in self.missing:
                reason = "; ".join(filter(None, [self.missing[name], note]))
                return row(what, None, "x", at_least)._replace(holds=False, note=reason)
        times = (
            f"{1e3 * self.seconds[peer]:.4g} against {1e3 * self.seconds[ours]:.4g} ms"
        )
        if floor in self.seconds:
            most = self.seconds[peer] / self.seconds[floor]
            times += f"; with nothing but its matrix products {most:.2f}"
        return row(
            what,
            self.seconds[peer] / self.seconds[ours],
            "x",
            at_least,
            note="; ".join(filter(None, [times, note])),
        )

    def share(
        self, what: str, part: str, note: str, at_least: float | None = None
    ) -> Row:
        """Say how much of our time a part of the work takes by itself."""
        times = f"{1e3 * self.seconds[part]:.4g} of {1e3 * self.seconds['ours']:.4g} ms"
        return row(
            what,
            self.seconds[part] / self.seconds["ours"],
            "of the time",
            at_least,
            note=f"{times}; {note}",
        )


class Products(TorchDispatchMode):
    """Notes every product of matrices that a call makes, to make them again and nothing
    else."""

    # The last two are taken apart into the others, but not in inference mode.
    KINDS = {
        getattr(torch.ops.aten, name).default
        for name in ("mm", "addmm", "bmm", "linear", "matmul")
    }

    def __init__(self, call: Callable[[], object]):
        super().__init__()
        self.seen: list[tuple] = []
        with self:
            call()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in self.KINDS:
            self.seen.append((func, [arg.detach() for arg in args]))
        return func(*args, **(kwargs or {}))

    @torch.inference_mode()
    def __call__(self) -> None:
        for func, args in self.seen:
            func(*args)


class Batch:
    """Random sentences."""

    def __init__(self, sizes: Sizes):
        shape = (sizes.batch, sizes.length)
        self.source, self.target, self.gold = (
            torch.randint(4, sizes.vocab_size, shape) for _ in range(3)
        )
        self.lengths = torch.full((sizes.batch,), sizes.length)
        self.padding = torch.zeros(shape, dtype=torch.bool)


def training(
    model: nn.Module, logits: Callable[[], Tensor], batch: Batch
) -> Callable[[], None]:
    """Make a call that takes one step: forwards, the loss, backwards, Adam."""
    optimizer = torch.optim.Adam(model.train().parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(logits().flatten(0, 1), batch.gold.flatten()).backward()
        optimizer.step()

    return step


def ours_training(model: nn.Module, batch: Batch) -> Callable[[], None]:
    """Make a call that trains one of the course's models."""
    return training(
        model, lambda: model(batch.source, batch.lengths, batch.target)[0], batch
    )


def transformer(sizes: Sizes, dropout: float = 0.0) -> nn.Module:
    """Build the course's Transformer."""
    return models.transformer(
        source_size=sizes.vocab_size,
        target_size=sizes.vocab_size,
        dim=sizes.dim,
        num_heads=sizes.heads,
        hidden_dim=sizes.hidden_dim,
        num_layers=sizes.layers,
        dropout=dropout,
    )


def transformer_training(name: str, sizes: Sizes, plan: Plan) -> list[Row]:
    """Compare training steps."""
    batch, vocab_size = Batch(sizes), sizes.vocab_size
    widths = (sizes.dim, sizes.heads, sizes.hidden_dim, sizes.layers)
    step = ours_training(transformer(sizes, DROPOUT), batch)

    def torchs(like_the_paper: bool) -> Callable[[], None]:
        model = peers.TorchTransformer(vocab_size, *widths, DROPOUT)
        model = model.drop_like_the_paper() if like_the_paper else model
        return training(
            model, lambda: model(batch.source, batch.padding, batch.target), batch
        )

    def joeynmts() -> Callable[[], None]:
        model = peers.joeynmt_transformer(vocab_size, *widths, DROPOUT)
        return training(
            model,
            lambda: peers.joeynmt_logits(
                model, batch.source, batch.lengths, batch.target
            ),
            batch,
        )

    def x_transformers() -> Callable[[], None]:
        model = peers.x_transformer(
            vocab_size, *widths[:2], sizes.layers, sizes.length, DROPOUT
        )
        target = torch.cat([batch.target[:, :1], batch.gold], dim=1)
        optimizer = torch.optim.Adam(model.train().parameters(), lr=1e-4)

        def step() -> None:
            optimizer.zero_grad()
            model(batch.source, target).backward()
            optimizer.step()

        return step

    contest = Contest(
        ours=lambda: step,
        equal=lambda: torchs(like_the_paper=True),
        torch=lambda: torchs(like_the_paper=False),
        joeynmt=joeynmts,
        x_transformers=x_transformers,
        floor=lambda: Products(step),
    ).run(plan.rounds)
    what = f"Transformer training step, {name}"
    inside = (
        "it also applies dropout to attention weights and inside feed-forward networks"
    )
    return [
        contest.ratio(
            f"{what}, vs nn.Transformer", "torch", 1.15, f"as it comes: {inside}"
        ),
        contest.ratio(
            f"{what}, vs nn.Transformer, equal dropout",
            "equal",
            {"small": 1.15, "medium": 1.12}.get(name),
            "both apply dropout where the paper does",
        ),
        contest.ratio(f"{what}, vs joeynmt", "joeynmt", note=inside),
        contest.ratio(
            f"{what}, vs x-transformers",
            "x_transformers",
            note="dropout inside sub-layers instead of after them",
        ),
        contest.share(
            f"{what}, its matrix products alone",
            "floor",
            "the floor, without attention's own products",
        ),
    ]


def transformer_decoding(name: str, sizes: Sizes, plan: Plan) -> list[Row]:
    """Compare greedy decoding."""
    batch, vocab_size, steps = Batch(sizes), sizes.vocab_size, sizes.length
    widths = (sizes.dim, sizes.heads, sizes.hidden_dim, sizes.layers)
    model = transformer(sizes).eval()

    def ours() -> object:
        return greedy(model, batch.source, batch.lengths, peers.BOS, NEVER, steps)

    def torchs() -> Callable[[], object]:
        peer = peers.TorchTransformer(vocab_size, *widths, DROPOUT).eval()
        return lambda: peer.greedy(batch.source, batch.padding, steps)

    def x_transformers() -> Callable[[], object]:
        peer = peers.x_transformer(
            vocab_size, *widths[:2], sizes.layers, steps, DROPOUT
        ).eval()
        return lambda: peer.generate(
            batch.source, batch.target[:, :1], steps, temperature=0.0, cache_kv=True
        )

    contest = Contest(
        ours=lambda: ours,
        torch=torchs,
        x_transformers=x_transformers,
        floor=lambda: Products(ours),
    )
    contest.run(plan.rounds)
    what = f"Transformer greedy decoding, {name}"
    return [
        contest.ratio(
            f"{what}, vs nn.Transformer", "torch", note="which recomputes the prefix"
        ),
        contest.ratio(
            f"{what}, vs x-transformers",
            "x_transformers",
            1.6,
            "which has a cache as well",
        ),
        contest.share(
            f"{what}, its matrix products alone",
            "floor",
            "the floor",
            {"small": 0.65, "medium": 0.75}.get(name),
        ),
    ]


def beam(name: str, sizes: Sizes, plan: Plan) -> list[Row]:
    """Compare beams of five."""
    batch, vocab_size, steps = Batch(sizes), sizes.vocab_size, sizes.length
    widths = (sizes.dim, sizes.heads, sizes.hidden_dim, sizes.layers)
    model = transformer(sizes).eval()
    with torch.no_grad():
        # no sentence ends before the last step
        model.decoder.head.bias[peers.EOS] = -1e4

    def joeynmts() -> Callable[[], object]:
        peer = peers.joeynmt_transformer(vocab_size, *widths, DROPOUT).eval()
        return lambda: peers.joeynmt_search(
            peer, batch.source, batch.lengths, steps, beam_size=5
        )

    def ours() -> object:
        given = model, batch.source, batch.lengths, peers.BOS, peers.EOS, steps
        return beam_search(*given, beam_size=5)

    contest = Contest(
        ours=lambda: ours, joeynmt=joeynmts, floor=lambda: Products(ours)
    ).run(plan.rounds)
    return [
        contest.ratio(
            f"Transformer beam of 5, {name}, vs joeynmt",
            "joeynmt",
            6,
            "which recomputes the prefix",
        )
    ]


def d2l_encoder(name: str, sizes: Sizes, plan: Plan) -> list[Row]:
    """Compare encoders, forwards and backwards: d2l's package has no Transformer
    decoder."""
    batch = Batch(sizes)
    widths = (sizes.dim, sizes.heads, sizes.hidden_dim, sizes.layers)
    encoder = models.encoder_only(
        vocab_size=sizes.vocab_size,
        dim=sizes.dim,
        num_heads=sizes.heads,
        hidden_dim=sizes.hidden_dim,
        num_layers=sizes.layers,
        dropout=DROPOUT,
        pre_norm=False,
    )

    def d2ls() -> Callable[[], object]:
        peer = peers.d2l_encoder(sizes.vocab_size, *widths, DROPOUT)
        return lambda: peer(batch.source, batch.lengths).sum().backward()

    def ours() -> object:
        return encoder(batch.source, batch.lengths).states.sum().backward()

    contest = Contest(ours=lambda: ours, d2l=d2ls, floor=lambda: Products(ours)).run(
        plan.rounds
    )
    what = f"Transformer encoder, forwards and backwards, {name}, vs d2l"
    return [
        contest.ratio(
            what, "d2l", note="post-norm; d2l also applies dropout to attention weights"
        )
    ]


def recurrent(sizes: Sizes, plan: Plan) -> list[Row]:
    """Compare recurrent models: training steps, and greedy decoding."""
    batch, vocab_size, dim = Batch(sizes), sizes.vocab_size, sizes.hidden_dim
    widths = {
        "source_size": vocab_size,
        "target_size": vocab_size,
        "embedding_dim": sizes.dim,
        "hidden_dim": dim,
        "dropout": DROPOUT,
    }
    bahdanau = models.bahdanau(**widths, score=AdditiveScore(dim, 2 * dim, dim))
    # joeynmt's output layer: a tanh of the state's width, then a map without bias.
    wide = bahdanau.decoder.head.in_features
    bahdanau.decoder.head = nn.Sequential(
        nn.Linear(wide, dim), nn.Tanh(), nn.Linear(dim, vocab_size, bias=False)
    )
    fed = models.luong(
        **widths, score=AdditiveScore(dim, 2 * dim, dim), input_feeding=True
    )
    luong = models.luong(**widths, score=GeneralScore(dim, 2 * dim))

    def joeynmts(attention: str, feeding: bool) -> nn.Module:
        return peers.joeynmt_rnn(
            vocab_size,
            sizes.dim,
            dim,
            DROPOUT,
            attention=attention,
            input_feeding=feeding,
        )

    def joeynmts_training(attention: str, feeding: bool) -> Callable[[], None]:
        peer = joeynmts(attention, feeding)
        return training(
            peer,
            lambda: peers.joeynmt_logits(
                peer, batch.source, batch.lengths, batch.target
            ),
            batch,
        )

    steps = {
        "bahdanau": ours_training(bahdanau, batch),
        "fed": ours_training(fed, batch),
        "luong": ours_training(luong, batch),
    }
    trained = Contest(
        **{name: lambda step=step: step for name, step in steps.items()},
        **{
            f"floor_{name}": lambda step=step: Products(step)
            for name, step in steps.items()
        },
        joeynmts_bahdanau=lambda: joeynmts_training("bahdanau", feeding=True),
        joeynmts_luong=lambda: joeynmts_training("luong", feeding=False),
    ).run(plan.rounds)

    def ours_greedy(model: nn.Module) -> Callable[[], object]:
        model.eval()
        return lambda: greedy(
            model, batch.source, batch.lengths, peers.BOS, NEVER, sizes.length
        )

    def joeynmts_greedy() -> Callable[[], object]:
        peer = joeynmts("bahdanau", feeding=True).eval()
        return lambda: peers.joeynmt_search(
            peer, batch.source, batch.lengths, sizes.length, beam_size=1
        )

    decoded = Contest(
        bahdanau=lambda: ours_greedy(bahdanau),
        joeynmt=joeynmts_greedy,
        floor=lambda: Products(ours_greedy(bahdanau)),
    ).run(plan.rounds)
    equal_head = (
        "equal head; its additive decoder asks after the update and feeds back a vector"
        " half as wide"
    )
    same = "the same function: additive score, asked after the update, input feeding"
    once = "the same function without input feeding; joeynmt takes the steps one by one"
    return [
        trained.ratio(
            "Bahdanau training step, vs joeynmt",
            "joeynmts_bahdanau",
            1.2,
            equal_head,
            "bahdanau",
            "floor_bahdanau",
        ),
        trained.ratio(
            "joeynmt's additive decoder, training step",
            "joeynmts_bahdanau",
            None,
            same,
            "fed",
            "floor_fed",
        ),
        trained.ratio(
            "Luong training step, all steps in one pass, vs joeynmt",
            "joeynmts_luong",
            1.6,
            once,
            "luong",
            "floor_luong",
        ),
        decoded.ratio(
            "Bahdanau greedy decoding, vs joeynmt",
            "joeynmt",
            2.5,
            equal_head,
            "bahdanau",
        ),
    ]


def additive(sizes: Sizes, plan: Plan) -> list[Row]:
    """Compare additive attention alone, T steps of one query each, forwards and
    backwards."""
    dim, steps = sizes.hidden_dim, sizes.length
    query, key = (
        torch.randn(sizes.batch, steps, dim),
        torch.randn(sizes.batch, steps, 2 * dim),
    )
    query.requires_grad_()
    key.requires_grad_()
    score = AdditiveScore(dim, 2 * dim, dim)
    concat = nn.Linear(3 * dim, dim, bias=False)  # W = [W_q W_k]

    def projected_once() -> None:
        projected = score.project_keys(key)
        contexts = [attend(score(q, projected), key)[0] for q in query.split(1, dim=1)]
        torch.cat(contexts, dim=1).sum().backward()

    def concatenated() -> None:
        contexts = []
        for q in query.split(1, dim=1):
            hidden = torch.tanh(
                concat(torch.cat([q.expand(-1, steps, -1), key], dim=-1))
            )
            contexts.append(attend(score.energy_proj(hidden).mT, key)[0])
        torch.cat(contexts, dim=1).sum().backward()

    def d2ls() -> Callable[[], None]:
        peer, lengths = peers.d2l_additive(dim), torch.full((sizes.batch,), steps)

        def each_step() -> None:
            contexts = [peer(q, key, key, lengths) for q in query.split(1, dim=1)]
            torch.cat(contexts, dim=1).sum().backward()

        return each_step

    contest = Contest(
        ours=lambda: projected_once,
        concat=lambda: concatenated,
        d2l=d2ls,
        floor=lambda: Products(projected_once),
    ).run(plan.rounds)
    what = "Additive attention alone, keys projected once"
    return [
        contest.ratio(f"{what}, vs concatenating at every step", "concat", 5),
        contest.ratio(
            f"{what}, vs d2l", "d2l", note="which projects them at every step"
        ),
    ]


def multi_head(name: str, sizes: Sizes, plan: Plan) -> list[Row]:
    """Compare multi-head self-attention alone, forwards and backwards."""
    x = torch.randn(sizes.batch, sizes.length, sizes.dim, requires_grad=True)
    ours = MultiHeadAttention(sizes.dim, sizes.heads)
    torchs = nn.MultiheadAttention(sizes.dim, sizes.heads, batch_first=True)
    rows = []
    for need in (False, True):
        asked = "with weights" if need else "no weights asked for"
        contest = Contest(
            ours=lambda need=need: (
                lambda: ours(x, x, x, need_weights=need)[0].sum().backward()
            ),
            torch=lambda need=need: (
                lambda: (
                    torchs(x, x, x, need_weights=need, average_attn_weights=False)[0]
                    .sum()
                    .backward()
                )
            ),
        ).run(plan.rounds)
        rows.append(
            contest.ratio(
                f"Multi-head self-attention, {name}, {asked}, vs nn.MultiheadAttention",
                "torch",
            )
        )
    return rows


def kept_for_backward(call: Callable[[], object]) -> list[Tensor]:
    """Find the tensors that a call keeps for its gradient, each storage once."""
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = call()  # alive until its memory has been counted
    assert result is not None
    return list(kept.values())


def score_memory(plan: Plan) -> list[Row]:
    """Count what attention over a long sequence keeps in memory for the backward
    pass."""
    length, dim, heads = plan.long, 64, 4
    attention = MultiHeadAttention(dim, heads)
    x = torch.randn(1, length, dim, requires_grad=True)
    mask = torch.ones(1, 1, length, dtype=torch.bool)
    rows = []
    for need in (False, True):
        kept = kept_for_backward(
            lambda need=need: attention(x, x, x, mask, need_weights=need)
        )
        tables = sum(tensor.numel() >= length**2 for tensor in kept)
        megabytes = sum(tensor.untyped_storage().nbytes() for tensor in kept) / 2**20
        asked = "with weights" if need else "no weights asked for"
        what, note = (
            f"score memory at T = S = {length}, {asked}",
            f"{heads} heads, width {dim}, B = 1",
        )
        at_most = None if need else 0
        rows.append(
            row(
                f"{what}: (T, S) tensors kept for the backward pass",
                tables,
                "tensors",
                None,
                at_most,
                note,
            )
        )
        rows.append(row(f"{what}: kept in all", megabytes, "MiB", note=note))
    return rows


def layers_of(T: int, S: int, D: int) -> dict[str, Callable[[], None]]:
    """Build layers of width D, that look from T positions at S others, or go along
    them."""
    x, memory = (torch.randn(4, size, D, requires_grad=True) for size in (T, S))
    attention, recurrent, feed_forward = (
        MultiHeadAttention(D, 2),
        nn.GRU(D, D, batch_first=True),
        FeedForward(D, 4 * D),
    )
    return {
        "attention": (
            lambda: attention(x, memory, memory, need_weights=False)[0].sum().backward()
        ),
        "attention with weights": (
            lambda: attention(x, memory, memory)[0].sum().backward()
        ),
        "recurrent layer": lambda: recurrent(memory)[0].sum().backward(),
        "feed-forward": lambda: feed_forward(x).sum().backward(),
    }


def growth(plan: Plan) -> list[Row]:
    """Measure how layers' cost grows with the target, the source and the width;
    forwards and backwards."""
    rows = []
    for axis in "TSD":
        for n in plan.growth:
            at = {**dict.fromkeys("TSD", plan.growth[0]), axis: n}
            if axis == "T":
                at["S"] = n  # a sequence that attends to itself
            layers = layers_of(**at)
            if axis == "S":
                layers.pop("feed-forward")  # it sees no source
            contest = Contest(
                **{layer: lambda call=call: call for layer, call in layers.items()}
            ).run(plan.rounds)
            fixed = ", ".join(
                f"{letter} = {size}" for letter, size in at.items() if letter != axis
            )
            for layer, seconds in contest.seconds.items():
                rows.append(
                    row(
                        f"growth in {axis}: {layer}, {axis} = {n}",
                        1e3 * seconds,
                        "ms",
                        note=f"B = 4, {fixed}",
                    )
                )
    return rows


# What a step should have at most, with a GPU: four tensors are a batch.
MOST = {operators.READ: 0, "nonzero": 0, operators.COPY: 4}
MOST_DECODING = {operators.READ: 1 / operators.LOOK_EVERY, "nonzero": 0}
KINDS = {
    "all": "operators",
    operators.READ: "values read",
    "nonzero": "sizes that depend on values",
    operators.COPY: "copies to the device",
}


def operators_per_step() -> list[Row]:
    """Count operators, before the course was made ready for a GPU and now."""
    then, note = None, "small models; the host asks as seldom as it asks a GPU"
    try:
        then = operators.counted(operators.BEFORE)
    except OSError as error:
        note = f"{error}; {note}"
    rows = []
    for what, now in operators.counted().items():
        most = MOST_DECODING if "decoding" in what else MOST
        for kind in ("all", *most):
            name = f"operators / {what}, per step / {KINDS[kind]}"
            at = f"{name}, at {operators.BEFORE}"
            if then:
                rows.append(row(at, then[what][kind], "", note=note))
            else:
                rows.append(Row(at, None, "", holds=False, note=note))
            rows.append(row(f"{name}, now", now[kind], "", None, most.get(kind), note))
    return rows


# What a command imports before it reads a model.
IMPORTS = {
    "translate": "decoding loading sources",
    "write": "loading writing",
    "evaluate": "evaluation loading",
}


def starts(rounds: int) -> list[Row]:
    """Measure the processor time that a command takes before its work begins."""
    shell = ["-m", "attention_course.cli"]
    calls = {
        "import torch": ["-c", "import torch"],
        "--help": [*shell, "--help"],
        "train, a wrong option": [*shell, "train", "--dim", "wide"],
        "ls": [*shell, "ls", str(report.ROOT / "tests" / "runs")],
    }
    for command, names in IMPORTS.items():
        modules = ", ".join(f"attention_course.runs.{name}" for name in names.split())
        calls[command] = ["-c", f"import attention_course.cli, {modules}"]
    seen: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, words in calls.items():
            seen[name].append(seconds_of_process(words))
    found = {name: statistics.median(seconds) for name, seconds in seen.items()}
    torchs = found["import torch"]
    rows = []
    for name, seconds in found.items():
        note = f"median of {rounds}"
        rows.append(row(f"start / {name}", seconds, "s", note=note))
        if name in IMPORTS:
            what = f"start / {name}, without the import of torch"
            rows.append(row(what, seconds - torchs, "s", None, 0.5, note))
    return rows


def seconds_of_process(words: list[str]) -> float:
    """Measure the processor time of a run of Python."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(plan: Plan) -> Iterator[Row]:
    """Measure everything."""
    yield from starts(min(plan.rounds, 5))
    yield from operators_per_step()
    torch.manual_seed(0)
    for name, sizes in plan.transformers.items():
        yield from transformer_decoding(name, sizes, plan)
        yield from transformer_training(name, sizes, plan)
    name, sizes = next(iter(plan.transformers.items()))
    for part in (beam, d2l_encoder, multi_head):
        yield from part(name, sizes, plan)
    for part in (recurrent, additive):
        yield from part(plan.recurrent, plan)
    yield from score_memory(plan)
    yield from growth(plan)


def main(arguments: list[str] | None = None) -> None:
    """Fetch the peers, measure, write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="tiny sizes, one round: shows that it runs, and no more",
    )
    quick = parser.parse_args(arguments).quick
    begin = time.perf_counter()
    torch.set_num_threads(1)
    peers.install()
    logging.disable(logging.INFO)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other people's
        rows = list(tqdm(measure(QUICK if quick else FULL), unit=" rows"))
    report.write("bench-quick" if quick else "bench", rows, time.perf_counter() - begin)


if __name__ == "__main__":
    main()
