"""The command line: train, translate and evaluate from a shell. It alone joins models
and tasks."""

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
import typer
from lightning_fabric import Fabric
from torch import nn

from attention_course import models
from attention_course.checkpoints import Checkpoints, read
from attention_course.metrics import exact_match, text_scores, token_accuracy
from attention_course.pooling import Labeller
from attention_course.scores import AdditiveScore, GeneralScore
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.core import Task, padded_share, shuffled_forever
from attention_course.tasks.dates import dates
from attention_course.tasks.frames import frames
from attention_course.tasks.multi30k import TranslationTask, multi30k
from attention_course.tasks.numerals import numerals
from attention_course.tasks.pretraining import pretraining
from attention_course.tasks.reversal import reversal
from attention_course.tasks.scenes import captions, focus
from attention_course.tasks.sentiment import sentiment
from attention_course.tasks.sequences import SequenceTask
from attention_course.tasks.series import series
from attention_course.tasks.tagging import tagging
from attention_course.training import TrainConfig, evaluate, train, validation_loss
from attention_course.windows import LocalM, LocalP


@dataclass(frozen=True)
class TaskOptions:
    """What a task may be asked for; each takes what it has a use for.

    Attributes:
        data: folder of a corpus.
        vocab_size: subwords per language.
        max_length: letters in the longest string.
    """

    data: Path | None
    vocab_size: int
    max_length: int

    def folder(self) -> Path:
        """Return the folder of a corpus, for a task that needs one."""
        if self.data is None:
            raise ValueError(
                "this task reads a corpus from a folder: name it with --data"
            )
        return self.data


class Kind(NamedTuple):
    """Tasks with the same kind of sources and of targets.

    Attributes:
        models: names of the models that learn such a task.
    """

    models: tuple[str, ...]


SEQUENCES = Kind(
    (
        "final-state",
        "context",
        "bahdanau",
        "luong",
        "luong-fed",
        "local-m",
        "local-p",
        "gnmt",
        "transformer",
    ),
)
CAPTIONS = Kind(("captioner",))
TAGS = Kind(("tagger", "encoder"))
SENTENCE_CLASSES = Kind(("classifier",))
FRAME_LABELS = Kind(("frame-labeller",))
IMAGE_CLASSES = Kind(("image-classifier",))

TASKS: dict[str, tuple[Kind, Callable[[TaskOptions], Task]]] = {
    "captions": (CAPTIONS, lambda options: captions()),
    "dates": (SEQUENCES, lambda options: dates()),
    "focus": (IMAGE_CLASSES, lambda options: focus()),
    "frames": (FRAME_LABELS, lambda options: frames()),
    "multi30k": (
        SEQUENCES,
        lambda options: multi30k(options.folder(), options.vocab_size),
    ),
    "numerals-de": (SEQUENCES, lambda options: numerals("de")),
    "numerals-fr": (SEQUENCES, lambda options: numerals("fr")),
    "pretraining": (TAGS, lambda options: pretraining()),
    "reversal": (SEQUENCES, lambda options: reversal(options.max_length)),
    "sentiment": (SENTENCE_CLASSES, lambda options: sentiment()),
    "series": (SEQUENCES, lambda options: series()),
    "tagging": (TAGS, lambda options: tagging()),
}


@dataclass(frozen=True)
class Sizes:
    """How large a model is; each takes what it has a use for.

    Attributes:
        dim: width of embeddings, and of a Transformer's states.
        hidden_dim: width of recurrent states and of what compares them; inside a
            Transformer's feed-forward networks.
        layers: of the encoder; of a GNMT and a Transformer, on each side.
        heads: of a Transformer.
        dropout: share that training drops; a GNMT has none.
    """

    dim: int
    hidden_dim: int
    layers: int
    heads: int
    dropout: float

    def recurrent(self) -> tuple[int, int]:
        """Return the widths of a recurrent model's embeddings and states."""
        return self.dim, self.hidden_dim

    def rest(self) -> dict[str, Any]:
        """Return what most recurrent models have in common besides."""
        return {"num_layers": self.layers, "dropout": self.dropout}

    def additive(self, directions: int = 2) -> AdditiveScore:
        """Return Bahdanau's score of queries as wide as a state and keys of one state
        or two."""
        return AdditiveScore(
            self.hidden_dim, directions * self.hidden_dim, self.hidden_dim
        )

    def general(self) -> GeneralScore:
        """Return Luong's general score of a decoder's states and those of an encoder of
        two directions."""
        return GeneralScore(self.hidden_dim, 2 * self.hidden_dim)


# The sizes of a task's sources and targets, sizes -> an untrained model
MODELS: dict[str, Callable[[tuple[int, int], Sizes], nn.Module]] = {
    "final-state": lambda e, s: models.final_state(*e, *s.recurrent(), **s.rest()),
    "context": lambda e, s: models.context_every_step(*e, *s.recurrent(), **s.rest()),
    "bahdanau": lambda e, s: models.bahdanau(
        *e, *s.recurrent(), s.additive(), **s.rest()
    ),
    "luong": lambda e, s: models.luong(*e, *s.recurrent(), s.general(), **s.rest()),
    "luong-fed": lambda e, s: models.luong(
        *e, *s.recurrent(), s.general(), input_feeding=True, **s.rest()
    ),
    "local-m": lambda e, s: models.luong(
        *e, *s.recurrent(), s.general(), LocalM(5), **s.rest()
    ),
    "local-p": lambda e, s: models.luong(
        *e,
        *s.recurrent(),
        s.general(),
        LocalP(s.hidden_dim, s.hidden_dim, 5),
        **s.rest(),
    ),
    "gnmt": lambda e, s: models.gnmt(*e, s.dim, s.hidden_dim, s.additive(1), s.layers),
    "transformer": lambda e, s: models.transformer(
        *e, s.dim, s.heads, s.hidden_dim, s.layers, s.dropout, tied=True
    ),
    "captioner": lambda e, s: models.captioner(
        *e, s.hidden_dim, *s.recurrent(), s.additive(1)
    ),
    "tagger": lambda e, s: models.tagger(*e, *s.recurrent(), s.layers),
    "encoder": lambda e, s: Labeller(
        models.encoder_only(e[0], s.dim, s.heads, s.hidden_dim, s.layers, s.dropout),
        nn.Linear(s.dim, e[1]),
    ),
    "classifier": lambda e, s: models.classifier(
        *e, *s.recurrent(), s.additive(), look_up_words=True
    ),
    "frame-labeller": lambda e, s: models.frame_labeller(*e, *s.recurrent(), s.layers),
    "image-classifier": lambda e, s: models.image_classifier(
        *e, s.hidden_dim, s.additive(1)
    ),
}


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Precision(StrEnum):
    """In what to compute."""

    single = "32-true"
    mixed = "bf16-mixed"


class By(StrEnum):
    """What to choose the best weights by."""

    loss = "loss"
    score = "score"


class Split(StrEnum):
    """Which examples to evaluate on."""

    validation = "validation"
    test = "test"


app = typer.Typer(
    help="Train models with attention and without, and use them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

# What several commands take.
RunFolder = Annotated[
    Path,
    typer.Option("--run", help="Folder of the run, as it was given to train --out."),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder of the corpus, for a task that has one; else as in training.",
    ),
]
BeamSize = Annotated[
    int, typer.Option(min=1, help="Beginnings kept per sentence; 1 is greedy decoding.")
]
LengthPenalty = Annotated[
    float,
    typer.Option(help="Exponent of the length penalty: above 0, longer ones win."),
]
DeviceName = Annotated[Device, typer.Option(help="Where to compute.")]


@app.command(
    "train",
    short_help="Train a model on a task.",
    help="""Train a model on a task; leave checkpoint.pt and history.csv in a folder.

\b
    attention-course train --task dates --model bahdanau --out runs/dates

Stop it when you like: the same command with --resume goes on from the last checkpoint,
and ends with the same weights. The history has a line per step: tokens so far, loss in
nats per token, validation, seconds. With --validate-every, the weights that are used
afterwards are those of the best validation.

\b
    attention-course train --task multi30k --data multi30k --model transformer \\
        --out runs/multi30k --dim 256 --hidden-dim 1024 --layers 3 --heads 4 \\
        --dropout 0.3 --batch-size 128 --steps 10000 --learning-rate 1e-3 \\
        --warmup 1000 --label-smoothing 0.1 --validate-every 500 \\
        --precision bf16-mixed

Several processes, one for each GPU, share every batch:

\b
    torchrun --nproc-per-node 2 -m attention_course.cli train --task ...
""",
)
def train_command(
    task: Annotated[str, typer.Option(help=f"What to learn: {', '.join(TASKS)}.")],
    model: Annotated[
        str,
        typer.Option(
            help=f"What learns it: {', '.join(MODELS)}; each learns some of the tasks."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for the checkpoint and the history; one for each run."
        ),
    ],
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on from the folder's checkpoint, if it has one."
        ),
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the corpus, for a task that has one.")
    ] = None,
    vocab_size: Annotated[
        int, typer.Option(help="Subwords per language (multi30k).")
    ] = 4_000,
    max_length: Annotated[
        int, typer.Option(help="Letters in the longest string (reversal).")
    ] = 20,
    dim: Annotated[
        int, typer.Option(help="Width of embeddings, and of a Transformer's states.")
    ] = 32,
    hidden_dim: Annotated[
        int,
        typer.Option(help="Width of recurrent states; inside feed-forward networks."),
    ] = 64,
    layers: Annotated[
        int,
        typer.Option(
            help="Layers of the encoder; of gnmt and transformer, on each side."
        ),
    ] = 2,
    heads: Annotated[int, typer.Option(help="Heads of a Transformer.")] = 4,
    dropout: Annotated[
        float, typer.Option(help="Share that training drops (not of gnmt).")
    ] = 0.0,
    steps: Annotated[int, typer.Option(help="Batches to train on.")] = 300,
    batch_size: Annotated[
        int, typer.Option(help="Examples per batch, of all processes together.")
    ] = 64,
    learning_rate: Annotated[
        float, typer.Option(help="Adam's, at its highest; then it falls to zero.")
    ] = 5e-3,
    warmup: Annotated[
        int, typer.Option(help="Steps over which the learning rate rises.")
    ] = 50,
    clip: Annotated[float, typer.Option(help="Longest allowed gradient.")] = 1.0,
    label_smoothing: Annotated[
        float, typer.Option(help="Share spread over the whole vocabulary.")
    ] = 0.0,
    teacher_forcing: Annotated[
        float, typer.Option(help="How often a decoder is given the right last token.")
    ] = 1.0,
    validate_every: Annotated[
        int | None, typer.Option(help="Steps between validations; else there are none.")
    ] = None,
    validate_by: Annotated[
        By, typer.Option(help="What the best weights are chosen by.")
    ] = By.loss,
    patience: Annotated[
        int | None,
        typer.Option(help="Validations without a better one before the end."),
    ] = None,
    checkpoint_every: Annotated[
        int, typer.Option(min=1, help="Steps between checkpoints.")
    ] = 500,
    seed: Annotated[
        int, typer.Option(help="Of the first weights and of the order of the examples.")
    ] = 0,
    device: DeviceName = Device.auto,
    precision: Annotated[
        Precision, typer.Option(help="In what to compute.")
    ] = Precision.single,
) -> None:
    """Train a model on a task."""
    config = TrainConfig(
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        warmup_steps=warmup,
        clip_norm=clip,
        label_smoothing=label_smoothing,
        teacher_forcing=teacher_forcing,
        validate_every=validate_every,
        patience=patience,
        seed=seed,
    )
    options, sizes = (
        TaskOptions(data, vocab_size, max_length),
        Sizes(dim, hidden_dim, layers, heads, dropout),
    )
    kind, make_task = named(TASKS, "task", task)
    build = named(
        {name: MODELS[name] for name in kind.models}, f"model for {task} called", model
    )
    about = {"task": task, "model": model} | asdict(options) | asdict(sizes)
    del about["data"]
    checkpoints = Checkpoints(out, checkpoint_every, about, data)
    if checkpoints.path.exists() and not resume:
        raise ValueError(
            f"there is a run in {out}: go on with it by --resume, or name another"
            " folder"
        )

    fabric = launch(device, precision)
    its_task = make_task(options)
    torch.manual_seed(seed)
    its_model = build((its_task.source_size, its_task.target_size), sizes)
    # what dropout drops differs from process to process
    torch.manual_seed(seed + fabric.global_rank)
    fabric.print(
        f"{task}, {model}: {parameters(its_model):,} parameters, on {fabric.world_size}"
        f" x {fabric.device.type}"
    )
    if length := its_task.length:
        drawn = shuffled_forever(its_task.train, batch_size, seed, length)
        share = padded_share(
            islice(drawn, math.ceil(len(its_task.train) / batch_size)), length
        )
        fabric.print(f"batches are grouped by length: {share:.1%} of them is padding")
    validate = (
        (lambda model: -validation_loss(model, its_task))
        if validate_by == By.loss
        else None
    )
    history = train(its_model, its_task, config, fabric, validate, checkpoints)
    fabric.print(
        f"{len(history)} steps in {history[-1].seconds:.0f} s; loss"
        f" {history[-1].loss:.3f} nats per token"
    )


@app.command(
    "translate",
    short_help="Decode sources with a trained model.",
    help="""Decode sources with a trained model.

They come from the command line or, one per line, from standard input.

\b
    attention-course translate --run runs/dates "Wednesday, May 9, 2018"
    attention-course translate --run runs/multi30k --beam-size 5 \\
        < german.txt > english.txt
""",
)
def translate_command(
    run: RunFolder,
    source: Annotated[
        list[str] | None,
        typer.Argument(help="What to decode; else the lines of standard input."),
    ] = None,
    beam_size: BeamSize = 1,
    length_penalty: LengthPenalty = 0.0,
    data: DataFolder = None,
    device: DeviceName = Device.auto,
) -> None:
    """Decode sources with a trained model."""
    task, model = load(run, data, device)
    if not task.translates:
        raise ValueError(
            f"{task.name} is no task of texts in and texts out; see what its model can"
            " do with evaluate"
        )
    examples = [task.example(line) for line in source or sys.stdin.read().splitlines()]
    if not examples:
        raise ValueError(
            "there is nothing to decode: give a source, or lines on standard input"
        )
    for prediction in task.predict(
        model, examples, beam_size=beam_size, length_penalty=length_penalty
    ):
        typer.echo(task.text(prediction))


@app.command(
    "evaluate",
    short_help="Score a trained model on held-out examples.",
    help="""Score a trained model on held-out examples.

\b
    attention-course evaluate --run runs/dates
    attention-course evaluate --run runs/multi30k --beam-size 5 \\
        --length-penalty 0.6 --out english.txt

Sentences are scored by BLEU and chrF, with sacreBLEU's signature. Where it is known
which source tokens a target token came from, attention is scored as well.
""",
)
def evaluate_command(
    run: RunFolder,
    split: Annotated[Split, typer.Option(help="Which examples.")] = Split.test,
    beam_size: BeamSize = 1,
    length_penalty: LengthPenalty = 0.0,
    out: Annotated[
        Path | None, typer.Option(help="File for the predictions, one per line.")
    ] = None,
    data: DataFolder = None,
    device: DeviceName = Device.auto,
) -> None:
    """Score a trained model on held-out examples."""
    task, model = load(run, data, device)
    examples = getattr(task, split)
    typer.echo(
        f"{task.name}, {split}: {len(examples):,} examples; {parameters(model):,}"
        " parameters"
    )
    if isinstance(task, SequenceTask):
        predictions = task.predict(
            model, examples, beam_size=beam_size, length_penalty=length_penalty
        )
        texts = [task.text(prediction) for prediction in predictions]
        report_sequences(task, model, examples, predictions)
    else:
        predictions = task.predict(model, examples)
        texts = [" ".join(prediction) for prediction in predictions]
        typer.echo(f"{task.metric} {task.score(model, examples):.4f}")
        if any(example.gold for example in examples):
            typer.echo(f"alignment hit rate {task.hit_rate(model, examples):.4f}")
    if out:
        out.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def report_sequences(
    task: SequenceTask,
    model: EncoderDecoder,
    examples: Sequence[Any],
    predictions: Sequence[Any],
) -> None:
    """Print what predicted sequences score, and their alignments where the right ones
    are known."""
    targets = [example.target for example in examples]
    typer.echo(f"exact match {exact_match(predictions, targets):.4f}")
    typer.echo(f"token accuracy {token_accuracy(predictions, targets):.4f}")
    if isinstance(task, TranslationTask):
        for score in text_scores(
            [task.text(p) for p in predictions], [task.text(t) for t in targets]
        ):
            typer.echo(score)
    if any(any(example.gold) for example in examples):
        evaluation = evaluate(model, task, examples)
        if evaluation.hit_rate is not None:
            typer.echo(f"alignment hit rate {evaluation.hit_rate:.4f}")
            typer.echo(f"alignment error rate {evaluation.alignment_error:.4f}")


def load(folder: Path, data: Path | None, device: Device) -> tuple[Any, Any]:
    """Make the task and the model of a run again, the model with its best weights, or
    the last ones."""
    state = read(folder)
    about = state["about"]
    if "task" not in about or "model" not in about:
        raise ValueError(
            f"the checkpoint in {folder} does not say its task and model: it was not"
            " made by train"
        )
    known = data or (Path(state["data"]) if state.get("data") else None)
    options = TaskOptions(known, about["vocab_size"], about["max_length"])
    _, make_task = named(TASKS, "task", about["task"])
    task = make_task(options)
    sizes = Sizes(**{field.name: about[field.name] for field in fields(Sizes)})
    build = named(MODELS, "model", about["model"])
    model = build((task.source_size, task.target_size), sizes)
    model.load_state_dict(state["best"][2] if state["best"] else state["model"])
    return task, model.to(launch(device, Precision.single).device).eval()


def named(table: Mapping[str, Any], what: str, name: str) -> Any:
    """Look a name up; one that is not there is answered with those that are."""
    if name not in table:
        raise ValueError(f"there is no {what} {name!r}; there are {', '.join(table)}")
    return table[name]


def parameters(model: nn.Module) -> int:
    """Count a model's parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


def launch(device: Device, precision: Precision) -> Fabric:
    """Start Fabric with as many processes as `torchrun` has started, or one."""
    here, nodes = (
        int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        int(os.environ.get("GROUP_WORLD_SIZE", "1")),
    )
    if device == Device.cuda and torch.cuda.device_count() < here:
        raise ValueError(
            f"{here} GPUs are needed, one for each process, and"
            f" {torch.cuda.device_count()} are here"
        )
    strategy = "ddp" if here * nodes > 1 else "auto"
    fabric = Fabric(
        accelerator=device,
        strategy=strategy,
        devices=here,
        num_nodes=nodes,
        precision=precision.value,
    )
    fabric.launch()
    return fabric


def main() -> None:
    """Run the command line; what goes wrong is said in one line."""
    try:
        app(prog_name="attention-course")
    except (ValueError, OSError, FloatingPointError) as error:
        raise SystemExit(f"attention-course: {error}") from None


if __name__ == "__main__":
    main()
