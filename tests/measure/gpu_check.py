"""`make gpu-check`: the models of the course on a GPU, against the CPU and against other
libraries.

It needs CUDA and torch 2.10 or newer, and no installation:

    PYTHONPATH=src:tests python -m measure.gpu_check

What else it needs is Python alone: on a machine without it, take along what `--fetch`
puts into _build/bench; x-transformers also needs NumPy. Each part is kept as soon as it
is measured, under the code, the device and torch's version, so that a run that was
stopped goes on where it was, and tries last what failed. `--minutes 20` ends it in time.
The report goes to book/reports/gpu.json, also that of a part of the run, and chapter 15
shows it.
"""

import argparse
import hashlib
import json
import math
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
# A bare machine finds here what it does not have: last, so that what it has comes first.
sys.path.append(str(ROOT / "_build" / "bench"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from measure import peers, report  # noqa: E402
from measure.report import Row, row  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from attention_course import models, registry  # noqa: E402
from attention_course.compiled import Compiled  # noqa: E402
from attention_course.decoding import beam_search, greedy  # noqa: E402

KEPT = ROOT / "_build" / "gpu_check"
STORED = ROOT / "book" / "reports"
OLDEST = (2, 10)
# The id of an EOS that no model writes, so that every sentence takes all steps.
NEVER, BOS, PAD, LETTERS = -1, 1, 0, range(4, 30)


class Effort(NamedTuple):
    """What is measured, and how much of it.

    Attributes:
        dim, heads, hidden_dim, layers, vocab_size: of the models.
        batch, length: sentences, and tokens of each on either side, none of them
            padding.
        rounds: repeats, of which the median counts.
        learning: steps of training before a score is taken.
        backend: of `torch.compile`.
    """

    dim: int = 256
    heads: int = 8
    hidden_dim: int = 1024
    layers: int = 3
    vocab_size: int = 8000
    batch: int = 64
    length: int = 100
    rounds: int = 10
    learning: int = 1500
    backend: str = "inductor"


class Place(NamedTuple):
    """Where it is measured, and how much."""

    device: torch.device
    effort: Effort

    @property
    def cuda(self) -> bool:
        """Whether what only CUDA can tell can be told."""
        return self.device.type == "cuda"

    def tokens(self, vocab_size: int, rows: int | None = None) -> Tensor:
        """Draw sentences, on the CPU."""
        shape = (rows or self.effort.batch, self.effort.length)
        return torch.randint(4, vocab_size, shape)

    def transformer(self, dropout: float = 0.1) -> nn.Module:
        """Build the course's Transformer."""
        e = self.effort
        return models.transformer(
            source_size=e.vocab_size,
            target_size=e.vocab_size,
            dim=e.dim,
            num_heads=e.heads,
            hidden_dim=e.hidden_dim,
            num_layers=e.layers,
            dropout=dropout,
        ).to(self.device)

    def recurrent(self, name: str) -> nn.Module:
        """Build one of the course's recurrent translators."""
        e = self.effort
        layers = 2 if name == "gnmt" else 1
        usual = {"dim": e.dim, "hidden_dim": e.dim, "layers": layers, "dropout": 0.1}
        sizes = {size: usual[size] for size in registry.MODELS[name].sizes}
        ends = e.vocab_size, e.vocab_size
        return registry.make_model(name, *ends, **sizes).to(self.device)


# What a part measures: a list of rows.
Part = Callable[[Place], list[Row]]


# Parity


def sources(kind: registry.Kind, batch: int) -> tuple[tuple[Tensor, ...], int, int]:
    """Draw what a model of a kind reads, and say its source and target size."""
    size = 23
    lengths = torch.randint(3, 8, (batch,))
    lengths[0] = 7
    source = torch.randint(4, size, (batch, 7))
    if kind is registry.Kind.FRAME_LABELS:
        return (torch.randn(batch, 7, 5), lengths), 5, size
    if kind in (registry.Kind.CAPTIONS, registry.Kind.IMAGE_CLASSES):
        images, grid = torch.randn(batch, 1, 16, 16), 64
        lengths = torch.full((batch,), 16)
        if kind is registry.Kind.IMAGE_CLASSES:
            return (images, lengths), grid, size
        return (images, lengths, torch.randint(4, size, (batch, 6))), grid, size
    if kind is registry.Kind.SEQUENCES:
        return (source, lengths, torch.randint(4, size, (batch, 6))), size, size
    return (source, lengths), size, size


LANGUAGE_MODELS: dict[str, Callable[[], nn.Module]] = {
    "decoder-only": lambda: models.decoder_only(vocab_size=23, **STACK),
    "gpt2": lambda: models.gpt2(vocab_size=23, max_length=16, **STACK),
    "llama": lambda: models.llama(vocab_size=23, num_key_heads=2, **STACK),
}
# The registry's language model is GPT-2's.
COMPARED = (
    *(n for n, made in registry.MODELS.items() if made.kind is not registry.Kind.TEXT),
    *LANGUAGE_MODELS,
)
STACK: dict[str, Any] = {"dim": 32, "num_heads": 4, "hidden_dim": 64, "num_layers": 2}


def parity(name: str, place: Place) -> list[Row]:
    """Compare what a model says on the device with what it says on the CPU."""
    torch.manual_seed(0)
    if name in LANGUAGE_MODELS:
        model, given = LANGUAGE_MODELS[name](), (torch.randint(4, 23, (8, 9)),)
    else:
        kind = registry.MODELS[name].kind
        given, source_size, target_size = sources(kind, 8)
        usual = {"dim": 32, "hidden_dim": 64, "layers": 2, "heads": 4, "dropout": 0.0}
        sizes = {size: usual[size] for size in registry.MODELS[name].sizes}
        model = registry.make_model(name, source_size, target_size, **sizes)
    model.eval()
    with torch.no_grad():
        expected = _logits(model(*given))
        model.to(place.device)
        said = _logits(model(*(part.to(place.device) for part in given))).cpu()
    difference = float((said - expected).abs().max())
    what = f"parity / {name} / largest difference of a logit from the CPU's"
    return [row(what, difference, "", at_most=1e-4, note="float32, TF32 off")]


def _logits(said: Any) -> Tensor:
    return said if isinstance(said, Tensor) else said[0]


def score_in_bf16(name: str, place: Place) -> list[Row]:
    """Teach a model to reverse strings, and see whether half precision costs it."""
    torch.manual_seed(0)
    size = len(LETTERS) + 4
    length = min(12, place.effort.length)
    sizes = {"dim": 64, "hidden_dim": 128, "layers": 2, "dropout": 0.0}
    if name == "transformer":
        sizes["heads"] = 4
    model = registry.make_model(name, size, size, **sizes).to(place.device)

    def batch(rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        source = torch.randint(4, size, (rows, length), device=place.device)
        gold = source.flip(1)
        bos = torch.full((rows, 1), BOS, device=place.device)
        lengths = torch.full((rows,), length, device=place.device)
        return source, lengths, torch.cat([bos, gold[:, :-1]], dim=1), gold

    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(place.effort.learning):
        source, lengths, target, gold = batch(64)
        logits, _ = model(source, lengths, target)
        loss = F.cross_entropy(logits.flatten(0, 1), gold.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    model.eval()
    source, lengths, _, gold = batch(512)
    right = {}
    for dtype in (torch.float32, torch.bfloat16):
        half = torch.autocast(place.device.type, dtype) if dtype.itemsize == 2 else None
        with half or nullcontext():
            said = greedy(model, source, lengths, BOS, NEVER, length).tokens
        right[dtype] = float((said == gold).all(dim=1).float().mean())
    single, half_precision = right.values()
    return [
        row(
            f"parity / {name} / exact match in bf16, less that in float32",
            half_precision - single,
            "share",
            at_least=-0.02,
            note=f"strings of {length} reversed: {half_precision:.3f}, {single:.3f}",
        )
    ]


# Time, memory, kernels, waits


def seconds_of(call: Callable[[], object], place: Place) -> float:
    """Measure the median time of a call that has been warmed up."""
    found = []
    for i in range(place.effort.rounds + 3):
        _wait(place)
        begin = time.perf_counter()
        call()
        _wait(place)
        if i >= 3:  # the first ones compile, and fill caches
            found.append(time.perf_counter() - begin)
    return statistics.median(found)


def _wait(place: Place) -> None:
    if place.cuda:
        torch.cuda.synchronize()


def megabytes_of(call: Callable[[], object], place: Place) -> float | None:
    """Measure the largest memory of a call; None where CUDA does not count it."""
    if not place.cuda:
        return None
    torch.cuda.reset_peak_memory_stats()
    call()
    return torch.cuda.max_memory_allocated() / 2**20


def waits_of(call: Callable[[], object], place: Place) -> int | None:
    """Count how often a call waits for the device; None without CUDA."""
    if not place.cuda:
        return None
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            call()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in heard)


def kernels_of(call: Callable[[], object], place: Place) -> int | None:
    """Count the kernels that a call starts; None where the profiler sees none."""
    if not place.cuda:
        return None
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CUDA]
    ) as profile:
        call()
        torch.cuda.synchronize()
    seen = sum(
        event.device_type == torch.autograd.DeviceType.CUDA
        for event in profile.events()
    )
    return seen or None


def peak(place: Place) -> float:
    """Measure what one large product reaches, in multiplications and additions a
    second: the most that a model can."""
    size = 4096 if place.cuda else 64
    a, b = torch.randn(2, size, size, device=place.device)
    return 2 * size**3 / seconds_of(lambda: a @ b, place)


def operations_of(call: Callable[[], object], model: nn.Module) -> int | None:
    """Count the multiplications and additions of a call's products.

    None of a recurrent model, since those inside cuDNN are not seen.
    """
    if any(isinstance(part, nn.RNNBase | nn.RNNCellBase) for part in model.modules()):
        return None
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def figures(
    what: str,
    call: Callable[[], object],
    place: Place,
    steps: int,
    operations: int | None,
) -> list[Row]:
    """Measure a call that handles the tokens of a batch in so many steps."""
    e = place.effort
    seconds = seconds_of(call, place)
    kernels, waits = kernels_of(call, place), waits_of(call, place)
    absent = "" if place.cuda else "only CUDA tells"
    unseen = "" if kernels or not place.cuda else "the profiler sees no kernel here"
    share = operations and operations / seconds / peak(place)
    note = f"{1e3 * seconds:.4g} ms, median of {e.rounds} after 3 to warm up"
    return [
        row(f"{what} / speed", e.batch * e.length / seconds, "tokens/s", note=note),
        row(f"{what} / memory", megabytes_of(call, place), "MiB", note=absent),
        row(
            f"{what} / share of one large product's speed",
            share,
            "share",
            note="" if operations else "only products of eager mode can be counted",
        ),
        row(
            f"{what} / kernels per step",
            None if kernels is None else kernels / steps,
            "",
            note=absent or unseen,
        ),
        row(
            f"{what} / waits per step",
            None if waits is None else waits / steps,
            "",
            note=absent,
        ),
    ]


# Training


def training_step(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """Make a call that takes one step, with Adam."""
    fused = next(model.parameters()).device.type == "cuda"
    optimizer = torch.optim.Adam(model.train().parameters(), lr=1e-4, fused=fused)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def trained(name: str, place: Place) -> tuple[nn.Module, Callable[..., Tensor], tuple]:
    """Build a model or a peer: it, what gives its loss, and what that is given."""
    e = place.effort
    source, target, gold = (place.tokens(e.vocab_size) for _ in range(3))
    source, target, gold = (x.to(place.device) for x in (source, target, gold))
    lengths = torch.full((e.batch,), e.length, device=place.device)
    widths = (e.dim, e.heads, e.hidden_dim, e.layers)

    def against(logits: Tensor, gold: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), gold.flatten())

    if name == "nn.Transformer":
        model = peers.TorchTransformer(e.vocab_size, *widths, 0.1)
        model.told_causal = True  # to look, it would wait
        model = model.drop_like_the_paper().to(place.device)
        padding = torch.zeros_like(source, dtype=torch.bool)
        return (
            model,
            lambda source, target, gold: against(model(source, padding, target), gold),
            (source, target, gold),
        )
    if name == "x-transformers":
        model = peers.x_transformer(
            e.vocab_size, e.dim, e.heads, e.layers, e.length, 0.1
        ).to(place.device)
        shifted = torch.cat([target[:, :1], gold], dim=1)
        return model, model, (source, shifted)
    model = place.transformer() if name == "transformer" else place.recurrent(name)
    return (
        model,
        lambda source, target, gold: against(model(source, lengths, target)[0], gold),
        (source, target, gold),
    )


def training(name: str, compiled: bool, place: Place) -> list[Row]:
    """Measure a training step."""
    torch.manual_seed(0)
    model, loss, given = trained(name, place)
    operations = None
    if not compiled:
        operations = operations_of(lambda: loss(*given).backward(), model)
    if compiled:
        loss = torch.compile(loss, backend=place.effort.backend)
    step = training_step(model, lambda: loss(*given))
    what = f"training / {name}, {'compiled' if compiled else 'eager'}"
    return figures(what, step, place, 1, operations)


# Decoding


def decoding(name: str, how: str, place: Place) -> list[Row]:
    """Measure how a batch is written: greedily, or by a beam of four."""
    torch.manual_seed(0)
    e = place.effort
    source = place.tokens(e.vocab_size).to(place.device)
    lengths = torch.full((e.batch,), e.length, device=place.device)
    widths = (e.dim, e.heads, e.hidden_dim, e.layers)
    call: Callable[[], object]
    if name == "nn.Transformer":
        model = peer = peers.TorchTransformer(e.vocab_size, *widths, 0.0)
        peer.told_causal = True  # to look, it would wait
        peer.to(place.device).eval()
        if how == "compiled":
            peer.decode = torch.compile(peer.decode, backend=e.backend, dynamic=True)
        padding = torch.zeros_like(source, dtype=torch.bool)
        call = lambda: peer.greedy(source, padding, e.length)  # noqa: E731
    elif name == "x-transformers":
        model = other = peers.x_transformer(
            e.vocab_size, e.dim, e.heads, e.layers, e.length, 0.0
        )
        other.to(place.device).eval()
        if how == "compiled":
            other.decoder.net = torch.compile(other.decoder.net, backend=e.backend)
        start = source[:, :1]
        call = lambda: other.generate(  # noqa: E731
            source, start, e.length, temperature=0.0, cache_kv=True
        )
    else:
        model = place.transformer() if name == "transformer" else place.recurrent(name)
        model.eval()
        asked = (source, lengths, BOS, NEVER, e.length)
        model = Compiled(model, e.backend) if how == "compiled" else model
        if how == "beam of 4":
            call = lambda: beam_search(model, *asked, beam_size=4)  # noqa: E731
        else:
            call = lambda: greedy(model, *asked)  # noqa: E731
    operations = None if how == "compiled" else operations_of(call, model)
    what = f"decoding / {name}, {how}"
    rows = figures(what, call, place, e.length, operations)
    if isinstance(model, Compiled):
        skipped = torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]
        given_up = skipped if place.cuda else None
        note = "" if place.cuda else "only CUDA tells"
        rows.append(row(f"{what} / CUDA graphs given up", given_up, "", None, 0, note))
    return rows


RECURRENT = ("bahdanau", "luong", "luong-fed", "gnmt")
PEERS = ("nn.Transformer", "x-transformers")


def parts() -> Iterator[tuple[str, Part]]:
    """List what is measured, each part under its name; what the goals need is first."""

    def bound(function: Callable[..., list[Row]], *given: Any) -> Part:
        return lambda place: function(*given, place)

    for name in ("transformer", *PEERS):
        for how in ("eager", "compiled"):
            yield f"decoding, {name}, {how}", bound(decoding, name, how)
            yield (
                f"training, {name}, {how}",
                bound(training, name, how == "compiled"),
            )
    yield "decoding, transformer, beam", bound(decoding, "transformer", "beam of 4")
    for name in ("transformer", "bahdanau"):
        yield f"bf16, {name}", bound(score_in_bf16, name)
    for name in COMPARED:
        yield f"parity, {name}", bound(parity, name)
    for name in RECURRENT:
        yield f"decoding, {name}", bound(decoding, name, "eager")
        yield f"training, {name}", bound(training, name, False)


def goals(rows: list[Row]) -> list[Row]:
    """Hold the speeds to what was promised."""
    speed = {
        row.what.removesuffix(" / speed"): row.value
        for row in rows
        if row.what.endswith(" / speed") and isinstance(row.value, float)
    }

    def times(what: str, ours: str, other: str | None, at_least: float) -> Row:
        if ours not in speed or other not in speed:
            lacking = ours if ours not in speed else other or "x-transformers"
            return row(what, None, "x", at_least, note=f"without: {lacking}")
        return row(what, speed[ours] / speed[other], "x", at_least, note=other)

    x = [f"decoding / x-transformers, {how}" for how in ("eager", "compiled")]
    better = max((name for name in x if name in speed), key=speed.get, default=None)
    written = "decoding / transformer, compiled"
    return [
        times(
            "goal / decoding, compiled, vs nn.Transformer in eager mode",
            written,
            "decoding / nn.Transformer, eager",
            10,
        ),
        times(
            "goal / decoding, compiled, vs the better x-transformers",
            written,
            better,
            2,
        ),
        times(
            "goal / training, compiled, vs compiled nn.Transformer",
            "training / transformer, compiled",
            "training / nn.Transformer, compiled",
            1,
        ),
    ]


# The run


def about(place: Place) -> list[Row]:
    """Say where and what was measured."""
    e, driver, device = place.effort, "", "a CPU, and so nothing of a GPU"
    if place.cuda:
        device = torch.cuda.get_device_name(place.device)
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            driver = subprocess.run(asked, capture_output=True, text=True).stdout
        except OSError:
            driver = "unknown: there is no nvidia-smi"
    sizes = (
        f"batch {e.batch}, {e.length} source and {e.length} target tokens, {e.layers}"
        f" layers, width {e.dim}, {e.heads} heads, vocabulary {e.vocab_size}"
    )
    return [
        Row("machine / device", device, ""),
        Row("machine / driver", driver.strip().partition("\n")[0] or None, ""),
        Row("machine / CUDA", torch.version.cuda, ""),
        Row("machine / torch", torch.__version__, ""),
        Row("machine / sizes", sizes, ""),
    ]


def code_key(place: Place) -> str:
    """Return a name for all that a figure depends on."""
    files = [*(ROOT / "src" / "attention_course").rglob("*.py"), Path(__file__)]
    files += [Path(peers.__file__)]
    device = torch.cuda.get_device_name(place.device) if place.cuda else "cpu"
    parts = [device, torch.__version__, platform.python_version(), repr(place.effort)]
    digest = hashlib.sha256("\n".join(parts).encode())
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def measure(name: str, part: Part, place: Place) -> list[Row]:
    """Measure a part; whatever goes wrong in it, a row says so."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    try:
        if place.cuda:
            torch.cuda.empty_cache()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other people's
            return part(place)
    except Exception as error:  # also a peer that is not there
        first = (str(error).strip().splitlines() or [""])[0]
        return [failure(name, f"does not run: {type(error).__name__}: {first}")]


def failure(name: str, note: str) -> Row:
    """Say of a part that it was not measured."""
    return Row(name, None, "", "runs", False, note)


def run(place: Place, kept: Path = KEPT, minutes: float = math.inf) -> list[Row]:
    """Measure what has not been measured yet, and keep each part as it is done.

    Args:
        place: where, and how much.
        kept: the folder for what is kept.
        minutes: after which no further part is begun.

    Returns:
        The rows of all parts; one for each part that is still to be measured.
    """
    folder = kept / code_key(place)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = dict(parts())
    files = {name: folder / f"{name.replace(' ', '_')}.json" for name in wanted}
    found = {name: read(path) for name, path in files.items() if path.exists()}
    # What failed may fail again, and take the process with it.
    failed = [name for name, rows in found.items() if rows[0].target == "runs"]
    due = [name for name in wanted if name not in found] + failed
    begin = time.monotonic()
    for i, name in enumerate(due, start=1):
        if time.monotonic() - begin > 60 * minutes:
            print(f"{len(due) - i + 1} parts are left: run again to go on", flush=True)
            break
        keep(files[name], [failure(name, "the run was stopped in this part")])
        started = time.monotonic()
        found[name] = measure(name, wanted[name], place)
        keep(files[name], found[name])
        seconds = time.monotonic() - started
        print(f"{i:3} of {len(due)}: {name}, {seconds:.1f} s", flush=True)
        if is_lost(place):
            print("the GPU does not answer any more: run again to go on", flush=True)
            break
    rows = about(place)
    for name in wanted:
        rows += found.get(name) or [failure(name, "not measured yet")]
    return rows + goals(rows)


def read(path: Path) -> list[Row]:
    """Read what was kept of a part."""
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def keep(path: Path, rows: list[Row]) -> None:
    """Write what was measured, under its own name only when it is whole."""
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps([row._asdict() for row in rows]), encoding="utf-8")
    unfinished.replace(path)


def is_lost(place: Place) -> bool:
    """Return whether an error has ended all work on the GPU, as far as this process."""
    try:
        _wait(place)
    except RuntimeError:  # whatever is asked of it now
        return True
    return False


def missing() -> str | None:
    """Say in one line what this machine lacks, or nothing."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < OLDEST:
        return (
            f"gpu-check needs torch 2.10 or newer, and this is {torch.__version__}:"
            " install a newer one"
        )
    if not torch.cuda.is_available():
        return (
            "gpu-check needs a GPU with CUDA, and torch finds none here: run it on a"
            " machine that has one"
        )
    return None


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write book/reports/gpu.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "--fetch",
        action="store_true",
        help="fetch what a bare machine needs into _build/bench, and measure nothing",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="begin no further part after so many minutes; the next run goes on",
    )
    asked = parser.parse_args(arguments)
    if asked.fetch:
        peers.install()
        return
    if lacking := missing():
        sys.exit(f"error: {lacking}")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    begin = time.perf_counter()
    rows = run(Place(torch.device("cuda"), Effort()), minutes=asked.minutes)
    report.write("gpu", rows, time.perf_counter() - begin, STORED)


if __name__ == "__main__":
    main()
