"""`make closings`: does what each lab says of its closing experiment hold, from three
seeds?

The experiments are the labs' own: the code cells of the solutions are run from top to
bottom, and the claims look at what they leave behind. A seed changes the first weights
and the order of the batches (in Lab 7 those of the pretraining), and the examples stay.
"""

import argparse
import math
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import nbformat
import torch
from measure import report

SEEDS = (0, 1, 2)
Found = Mapping[str, Any]  # what a notebook leaves behind
Changes = tuple[tuple[str, str], ...]


class Claim(NamedTuple):
    """What a lab says, as a number with a bound.

    Attributes:
        says: the claim; of its place in the notebook it needs no more.
        measure: takes what the notebook has left behind.
        unit: of the number.
        at_least, at_most: one of them is the bound.
    """

    says: str
    measure: Callable[[Found], float]
    unit: str = "share"
    at_least: float | None = None
    at_most: float | None = None

    def row(self, found: Found, where: str) -> report.Row:
        """Measure the claim and hold it to its bound."""
        return report.row(
            f"{where} / {self.says}",
            float(self.measure(found)),
            self.unit,
            self.at_least,
            self.at_most,
        )


class Closing(NamedTuple):
    """A lab's closing experiment.

    Attributes:
        lab: whose notebook is run.
        claims: what has to hold.
        changes: texts in the notebook and what stands there instead; each is there once.
        quick: the same, for a run of seconds, from which the same claims hold.
        also: claims that need the time of the whole run.
    """

    lab: str
    claims: tuple[Claim, ...]
    changes: Changes = ()
    quick: Changes | None = None
    also: tuple[Claim, ...] = ()


def run(lab: str, seed: int, changes: Changes = ()) -> dict[str, Any]:
    """Run the code cells of a lab's solution and return the names they leave behind.

    Args:
        lab: such as lab03_scoring.
        seed: stands in place of the notebook's.
        changes: see `Closing`.

    Raises:
        ValueError: a text that was to be changed is not in the notebook, or more than
            once.
    """
    path = report.ROOT / "solutions" / lab / f"{lab}.ipynb"
    cells = [
        cell.source
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code" and not cell.source.startswith("check(")
    ]
    code = "\n\n".join(cells)
    for old, new in (("SEED = 0 ", f"SEED = {seed} "), *changes):
        if code.count(old) != 1:
            raise ValueError(f"{lab} has {old!r} {code.count(old)} times, not once")
        code = code.replace(old, new)
    names: dict[str, Any] = {"__name__": lab}
    exec(compile(code, str(path), "exec"), names)
    plt.close("all")
    for value in names.values():
        if isinstance(value, tempfile.TemporaryDirectory):
            value.cleanup()  # or it complains when the process ends
    return names


def measure(closing: Closing, seed: int, quick: bool = False) -> Iterator[report.Row]:
    """Run one closing experiment and hold its claims to their bounds."""
    changes = closing.quick or () if quick else closing.changes
    found = run(closing.lab, seed, changes)
    for claim in closing.claims if quick else closing.claims + closing.also:
        yield claim.row(found, f"{closing.lab} / seed {seed}")


def _at_end(curve: Sequence[float], steps: int) -> float:
    return mean(curve[-steps:])


# --- what the labs say ----------------------------------------------------------------


def _lab01_loss(name: str) -> Callable[[Found], float]:
    return lambda found: (
        _at_end(found["curves"][name], 20)
        / _at_end(found["curves"]["as it should be"], 20)
    )


LAB01 = (
    Claim(
        "without the shift the loss is a tenth of what it should be, or less",
        _lab01_loss("no shift"),
        "x",
        at_most=0.1,
    ),
    Claim(
        "without the shift no numeral is right",
        lambda found: found["shares"]["no shift"],
        at_most=0.01,
    ),
    Claim(
        "the loss is lower if padding counts",
        _lab01_loss("padding counted"),
        "x",
        at_most=0.9,
    ),
    Claim(
        "with padding counted the model is no better than by chance",
        lambda found: (
            found["shares"]["padding counted"] - found["shares"]["as it should be"]
        ),
        at_most=0.07,
    ),
)

ONE_VECTOR = ("told once", "told at every step", "and read by a stack")


def _lab02_right(model: str, first: int, last: int) -> Callable[[Found], float]:
    return lambda found: mean(
        found["curves"][model][length] for length in range(first, last + 1)
    )


def _lab02_half(found: Found) -> float:
    lengths = sorted(found["curves"]["told once"])
    return next(
        (
            length
            for length in lengths
            if max(found["curves"][name][length] for name in ONE_VECTOR) < 0.5
        ),
        math.inf,
    )


def _lab02_best_of_ten(found: Found) -> float:
    return max(found["curves"][name][10] for name in ONE_VECTOR)


LAB02 = (
    Claim(
        "short strings are right from one vector",
        _lab02_right("told at every step", 2, 3),
        at_least=0.95,
    ),
    Claim(
        "of ten letters one vector gets next to nothing right",
        _lab02_best_of_ten,
        at_most=0.05,
    ),
    Claim(
        "told at every step is better than told once on 4 to 7 letters",
        lambda found: (
            _lab02_right("told at every step", 4, 7)(found)
            - _lab02_right("told once", 4, 7)(found)
        ),
        at_least=0.1,
    ),
)
LAB02_SLOTS = Claim(
    "with a slot for every token most strings of ten letters are right",
    lambda found: found["curves"]["a slot for every token"][10],
    at_least=0.8,
)
LAB02_STEPS = (
    Claim(
        "the best model with one vector is below one half from here on",
        _lab02_half,
        "letters",
        at_most=8,
    ),
)
LAB02_LONGER = (
    Claim(
        "four times the steps: below one half from here on",
        _lab02_half,
        "letters",
        at_least=8,
    ),
    Claim(
        "four times the steps: one vector still fails on ten letters",
        _lab02_best_of_ten,
        at_most=0.25,
    ),
)


def _lab03_error(found: Found, bandwidth: float) -> float:
    x, y, points = found["x"], found["y"], found["points"]
    curve, _ = found["attend"](found["GaussianScore"](bandwidth)(points, x), y)
    return float((curve - torch.sin(points) - 1).square().mean().sqrt())


def _lab03_flat(found: Found) -> float:
    x, y, points = found["x"], found["y"], found["points"]
    curve, _ = found["attend"](found["GaussianScore"](10.0)(points, x), y)
    return float((curve - y.mean()).abs().max())


LAB03 = (
    Claim(
        "a very narrow kernel looks up the noise: its error, by that of b = 0.3",
        lambda found: _lab03_error(found, 0.02) / _lab03_error(found, 0.3),
        "x",
        at_least=1.3,
    ),
    Claim("a very wide kernel returns the mean of y", _lab03_flat, "", at_most=0.1),
    Claim(
        "your score learns to read dates",
        lambda found: found["result"].exact_match,
        at_least=0.9,
    ),
    Claim(
        "it looks at the right fields",
        lambda found: found["result"].hit_rate,
        at_least=0.9,
    ),
    Claim(
        "your weights are the model's",
        lambda found: found["difference"],
        "",
        at_most=1e-5,
    ),
)


def _lab04_rate(found: Found, name: str) -> float:
    return found["alignment_hit_rate"](found["results"][name].weights, found["gold"])


def _lab04_widest(found: Found) -> int:
    """How many characters a row of local-p reaches from its first to its last."""
    rows = [row for rows in found["results"]["local-p"].weights for row in rows]
    seen = [[s for s, weight in enumerate(row) if weight > 0] for row in rows]
    return max(places[-1] - places[0] + 1 for places in seen if places)


def _lab04_sum(found: Found) -> float:
    rows = [row for rows in found["results"]["local-p"].weights for row in rows]
    return mean(sum(row) for row in rows)


def _lab04_encoder_share(found: Found) -> float:
    """Which share of a step of the Luong model is the encoder's, forwards and back."""
    model = found["build"](found["LuongDecoder"])
    batch = found["task"].collate(found["task"].train[:48])

    def seconds(work: Callable[[], torch.Tensor]) -> float:
        def once() -> float:
            begin = time.process_time()
            work().backward()
            return time.process_time() - begin

        return min(once() for _ in range(7))

    return seconds(
        lambda: model.encoder(batch.source, batch.lengths).states.square().sum()
    ) / seconds(lambda: found["task"].loss(model, batch)[0])


LAB04 = (
    Claim(
        "Bahdanau's order gets nearly all dates right",
        lambda found: found["results"]["Bahdanau"].exact_match,
        at_least=0.9,
    ),
    Claim(
        "Luong's order gets nearly all dates right",
        lambda found: found["results"]["Luong"].exact_match,
        at_least=0.9,
    ),
    Claim(
        "the hit rates of the two orders differ by less than 0.05",
        lambda found: abs(_lab04_rate(found, "Bahdanau") - _lab04_rate(found, "Luong")),
        at_most=0.05,
    ),
    Claim(
        "a row of local-p reaches over eleven characters at most",
        _lab04_widest,
        "characters",
        at_most=11,
    ),
    Claim("the rows of local-p do not sum to one", _lab04_sum, "", at_most=0.95),
)
LAB04_TIMES = (
    Claim(
        "Bahdanau's order takes about as long: its time, by that of Luong's",
        lambda found: found["seconds"]["Bahdanau"] / found["seconds"]["Luong"],
        "x",
        at_least=0.7,
    ),
    Claim(
        "and not more than twice as long",
        lambda found: found["seconds"]["Bahdanau"] / found["seconds"]["Luong"],
        "x",
        at_most=2,
    ),
    Claim(
        "the encoder takes much of the time of Luong's order",
        _lab04_encoder_share,
        at_least=0.3,
    ),
    Claim(
        "with a window fewer dates are right",
        lambda found: (
            found["results"]["Luong"].exact_match
            - found["results"]["local-p"].exact_match
        ),
        at_least=0.02,
    ),
)


def _lab05_change(found: Found, place: str) -> torch.Tensor:
    return found["compare"]({"with": found["positions"], "without": lambda x: x}[place])


def _lab05_short(found: Found) -> float:
    """Which share of the strings that are right without positions is short."""
    right = [
        len(example.source)
        for example, said in zip(
            found["task"].test, found["results"]["without"].predictions
        )
        if tuple(said) == example.target
    ]
    return mean(length <= 4 for length in right) if right else 1.0


LAB05 = (
    Claim(
        "without positions no context changes",
        lambda found: float(_lab05_change(found, "without").max()),
        "",
        at_most=1e-5,
    ),
    Claim(
        "with positions every context changes, also those of words that stayed",
        lambda found: float(_lab05_change(found, "with").min()),
        "",
        at_least=0.01,
    ),
    Claim(
        "with positions nearly all strings are right",
        lambda found: found["results"]["with"].exact_match,
        at_least=0.8,
    ),
    Claim(
        "without positions hardly any string is right",
        lambda found: found["results"]["without"].exact_match,
        at_most=0.1,
    ),
    Claim(
        "what is right without positions has four letters at most",
        _lab05_short,
        at_least=0.8,
    ),
)

LAB06 = (
    Claim(
        "with the mask the loss stays at the price of the filler word, or above",
        lambda found: _at_end(found["curves"]["with"], 10) / found["price"],
        "x",
        at_least=0.95,
    ),
    Claim(
        "without the mask the loss is far below it",
        lambda found: _at_end(found["curves"]["without"], 10) / found["price"],
        "x",
        at_most=0.2,
    ),
    Claim(
        "with the mask nearly all numbers are right",
        lambda found: found["shares"]["with"],
        at_least=0.95,
    ),
    Claim(
        "without the mask most numbers are wrong",
        lambda found: found["shares"]["without"],
        at_most=0.5,
    ),
    Claim(
        "the cache changes no token: tokens that differ",
        lambda found: int((found["one"] != found["other"]).sum()),
        "tokens",
        at_most=0,
    ),
)
LAB06_TIMES = (
    Claim(
        "the cache saves little for 12 tokens: by this factor",
        lambda found: found["factors"][12],
        "x",
        at_most=3,
    ),
    Claim(
        "the cache saves more for 120 tokens: its factor, by that for 12",
        lambda found: found["factors"][120] / found["factors"][12],
        "x",
        at_least=1.5,
    ),
)


def _lab07(name: str, count: int) -> Callable[[Found], float]:
    return lambda found: mean(found["found"][name, count])


def _lab07_gap(better: str, worse: str, count: int) -> Callable[[Found], float]:
    """How far the worst draw of one way is above the best of the other."""
    return lambda found: (
        min(found["found"][better, count]) - max(found["found"][worse, count])
    )


def _lab07_ahead(better: str, worse: str, count: int) -> Callable[[Found], float]:
    """How far the mean of one way is above that of the other."""
    return lambda found: _lab07(better, count)(found) - _lab07(worse, count)(found)


def _lab07_draws(better: str, worse: str, count: int) -> Callable[[Found], float]:
    """In which share of the draws one way is above the other, on the same sentences."""
    return lambda found: mean(
        one > other
        for one, other in zip(
            found["found"][better, count], found["found"][worse, count], strict=True
        )
    )


LAB07 = (
    Claim(
        "a wrong prefix copies nothing: tensors that are not missing",
        lambda found: len(found["new"].state_dict()) - len(found["missing"]),
        "tensors",
        at_most=0,
    ),
    Claim(
        "20 labels: frozen is ahead of from scratch in most draws",
        _lab07_draws("frozen", "from scratch", 20),
        at_least=0.8,
    ),
    Claim(
        "20 labels: frozen is ahead of from scratch, in the mean of ten draws",
        _lab07_ahead("frozen", "from scratch", 20),
        at_least=0.03,
    ),
    Claim(
        "20 labels: falling rates are ahead of from scratch, in the mean of ten draws",
        _lab07_ahead("falling rates", "from scratch", 20),
        at_least=0.03,
    ),
    Claim(
        "20 labels: one rate gains nothing on frozen, in the mean of ten draws",
        _lab07_ahead("one rate", "frozen", 20),
        at_most=0.02,
    ),
)
LAB07_MORE = (
    Claim(
        "60 labels: falling rates are ahead of from scratch, in every draw",
        _lab07_gap("falling rates", "from scratch", 60),
        at_least=0.02,
    ),
    Claim(
        "from scratch with 200 labels is where frozen is with 20, or beyond",
        lambda found: _lab07("from scratch", 200)(found) - _lab07("frozen", 20)(found),
        at_least=0.0,
    ),
    Claim(
        "600 labels: one rate is ahead of frozen, in every draw",
        _lab07_gap("one rate", "frozen", 600),
        at_least=0.0,
    ),
)


def _lab08_best(layer: int, kind: str) -> Callable[[Found], float]:
    """Return the highest score of a layer's heads, in the model with two layers."""
    return lambda found: max(found["found"][2][kind][layer - 1])


LAB08 = (
    Claim(
        "all scores at once and the running softmax: largest difference",
        lambda found: found["largest_difference"],
        "",
        at_most=1e-5,
    ),
    Claim(
        "with G = 2 of 8 key heads the cache is a quarter",
        lambda found: found["cache_bytes"][2] / found["cache_bytes"][8],
        at_most=0.25,
    ),
    Claim(
        "two layers repeat nearly all tokens",
        lambda found: found["found"][2]["right"],
        at_least=0.9,
    ),
    Claim(
        "one layer repeats few",
        lambda found: found["found"][1]["right"],
        at_most=0.35,
    ),
    Claim(
        "a head of the second layer looks at what came next the last time",
        _lab08_best(2, "scores"),
        at_least=0.2,
    ),
    Claim(
        "no head of the first layer does",
        _lab08_best(1, "scores"),
        at_most=0.1,
    ),
    Claim(
        "a head of the first layer looks at the previous token",
        _lab08_best(1, "backs"),
        at_least=0.5,
    ),
    Claim(
        "windows of 512 tokens are harder to predict than those of 64, by",
        lambda found: found["bits"][512] - found["bits"][64],
        "bits per token",
        at_least=0.1,
    ),
)
LAB08_WORDS = (
    Claim(
        "unknown words: from all tokens, above those from the nucleus with p = 0.8",
        lambda found: found["unknown"][1] - found["unknown"][0.8],
        at_least=0.02,
    ),
    Claim(
        "unknown words: from p = 0.8, above those from p = 0.4",
        lambda found: found["unknown"][0.8] - found["unknown"][0.4],
        at_least=0.0,
    ),
)

NO_SLOTS = (
    'learn(\n    "a slot for every',
    '(lambda *_: None)(\n    "a slot for every',
)
NO_FEEDING = ('learn("input feeding"', '(lambda *_: None)("input feeding"')

CLOSINGS = (
    Closing("lab01_preprocessing", LAB01, quick=(("steps=300", "steps=200"),)),
    Closing("lab03_scoring", LAB03, quick=(("steps=150", "steps=110"),)),
    Closing("lab04_alignment", LAB04, quick=(NO_FEEDING,), also=LAB04_TIMES),
    Closing("lab05_self_attention", LAB05, quick=(("steps=200", "steps=150"),)),
    Closing(
        "lab06_transformer",
        LAB06,
        quick=(("BOS, -1, max_length=tokens", "BOS, -1, max_length=2"),),
        also=LAB06_TIMES,
    ),
    Closing(
        "lab07_transfer",
        LAB07,
        quick=(("{20: 10, 60: 3, 200: 3, 600: 3}", "{20: 10}"),),
        also=LAB07_MORE,
    ),
    Closing(
        "lab08_today",
        LAB08,
        quick=(("STEPS = 400", "STEPS = 250"),),
        also=LAB08_WORDS,
    ),
    Closing(
        "lab02_bottleneck",
        LAB02,
        quick=(("steps=400", "steps=250"), NO_SLOTS),
        also=(LAB02_SLOTS, *LAB02_STEPS),
    ),
    # The longest comes last. With slots it needs no more steps.
    Closing(
        "lab02_bottleneck",
        (),
        changes=(("steps=400", "steps=1600"), NO_SLOTS),
        also=LAB02_LONGER,
    ),
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a regular expression for the labs")
    parser.add_argument("--name", default="closings", help="of the report")
    options = parser.parse_args(arguments)
    plt.switch_backend("agg")
    torch.set_num_threads(1)
    start = time.process_time()
    rows = []
    for closing in CLOSINGS:
        if re.search(options.only, closing.lab):
            for seed in SEEDS:
                begin = time.process_time()
                new = list(measure(closing, seed))
                rows += new
                print(report.table(new))
                print(f"{time.process_time() - begin:.1f} s", flush=True)
                # one that is stopped leaves what it has
                seconds = time.process_time() - start
                report.write(options.name, rows, seconds, report.REPORTS)


if __name__ == "__main__":
    main()
