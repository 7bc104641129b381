"""The command line: train, translate and evaluate from a shell."""

import math
import os
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from lightning_fabric import Fabric
from torch import nn

from attention_course import registry
from attention_course.metrics import exact_match, text_scores, token_accuracy
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.core import padded_share, shuffled_forever
from attention_course.tasks.multi30k import TranslationTask
from attention_course.tasks.sequences import SequenceTask
from attention_course.training import TrainConfig, evaluate, train, validation_loss
from attention_course.training.checkpoints import Checkpoints, read


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


def setting(help: str, default: Any, **limits: Any) -> Any:
    """Describe an option that does something in some cases only.

    It is None where it is not given, so that it can be refused where it does nothing.
    """
    return typer.Option(help=f"{help}  [default: {default}]", **limits)


def size(name: str, help: str) -> Any:
    """Describe a size, which only some models take."""
    return setting(help, registry.SIZES[name])


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
    int | None,
    setting("Beginnings kept per sentence; 1 is greedy decoding.", 1, min=1),
]
LengthPenalty = Annotated[
    float | None,
    setting("Exponent of the length penalty: above 0, longer ones win.", 0.0),
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
    task: Annotated[
        str, typer.Option(help=f"What to learn: {', '.join(registry.TASKS)}.")
    ],
    model: Annotated[
        str,
        typer.Option(
            help=f"What learns it: {', '.join(registry.MODELS)}; each learns some of"
            " the tasks."
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
        int | None,
        setting("Subwords per language (multi30k).", registry.OPTIONS["vocab_size"]),
    ] = None,
    max_length: Annotated[
        int | None,
        setting(
            "Letters in the longest string (reversal).", registry.OPTIONS["max_length"]
        ),
    ] = None,
    dim: Annotated[
        int | None,
        size("dim", "Width of embeddings, and of a Transformer's states."),
    ] = None,
    hidden_dim: Annotated[
        int | None,
        size(
            "hidden_dim",
            "Width of recurrent states; inside feed-forward networks.",
        ),
    ] = None,
    layers: Annotated[
        int | None,
        size("layers", "Layers of the encoder; of gnmt and transformer, on each side."),
    ] = None,
    heads: Annotated[int | None, size("heads", "Heads of a Transformer.")] = None,
    dropout: Annotated[
        float | None, size("dropout", "Share that training drops.")
    ] = None,
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
        By | None, setting("What the best weights are chosen by.", By.loss.value)
    ] = None,
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
    task_row, model_row = registry.find_task(task), registry.find_model(model, task)
    options = taken(
        {"data": data, "vocab_size": vocab_size, "max_length": max_length},
        registry.OPTIONS,
        task_row.options,
        f"for the task {task}",
    )
    sizes = taken(
        {
            "dim": dim,
            "hidden_dim": hidden_dim,
            "layers": layers,
            "heads": heads,
            "dropout": dropout,
        },
        registry.SIZES,
        model_row.sizes,
        f"for the model {model}",
    )
    if validate_every is None:
        given = {"validate_by": validate_by, "patience": patience}
        refuse(list(given), given, "without --validate-every")
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
    about = {"task": task, "model": model} | options | sizes
    about.pop("data", None)
    checkpoints = Checkpoints(out, checkpoint_every, about, data)
    if checkpoints.path.exists() and not resume:
        raise ValueError(
            f"there is a run in {out}: go on with it by --resume, or name another"
            " folder"
        )

    fabric = launch(device, precision)
    its_task = registry.make_task(task, **options)
    torch.manual_seed(seed)
    its_model = registry.make_model(
        model, its_task.source_size, its_task.target_size, **sizes
    )
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
        if validate_by != By.score
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
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    data: DataFolder = None,
    device: DeviceName = Device.auto,
) -> None:
    """Decode sources with a trained model."""
    decoding = decoding_of(beam_size, length_penalty)
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
    for prediction in task.predict(model, examples, **decoding):
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
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    out: Annotated[
        Path | None, typer.Option(help="File for the predictions, one per line.")
    ] = None,
    data: DataFolder = None,
    device: DeviceName = Device.auto,
) -> None:
    """Score a trained model on held-out examples."""
    decoding = decoding_of(beam_size, length_penalty)
    task, model = load(run, data, device)
    if not isinstance(task, SequenceTask):
        refuse(list(decoding), decoding, f"for the task {task.name}")
    examples = getattr(task, split)
    typer.echo(
        f"{task.name}, {split}: {len(examples):,} examples; {parameters(model):,}"
        " parameters"
    )
    predictions = task.predict(model, examples, **decoding)
    if isinstance(task, SequenceTask):
        texts = [task.text(prediction) for prediction in predictions]
        report_sequences(task, model, examples, predictions)
    else:
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
    task_row = registry.find_task(about["task"])
    if data and "data" not in task_row.options:
        refuse(["data"], {"data": data}, f"for the task {about['task']}")
    known = about | {"data": data or state.get("data")}
    task = registry.make_task(
        about["task"], **{name: known[name] for name in task_row.options}
    )
    sizes = registry.find_model(about["model"], about["task"]).sizes
    model = registry.make_model(
        about["model"],
        task.source_size,
        task.target_size,
        **{name: about[name] for name in sizes},
    )
    model.load_state_dict(state["best"][2] if state["best"] else state["model"])
    return task, model.to(launch(device, Precision.single).device).eval()


def taken(
    given: Mapping[str, Any], defaults: Mapping[str, Any], names: Sequence[str], to: str
) -> dict[str, Any]:
    """Return the options that a task or a model takes; refuse others that are given.

    Args:
        given: by name; None: it was left to its default.
        defaults: by name.
        names: of those that are taken.
        to: what takes them.

    Returns:
        Values by name.

    Raises:
        ValueError: an option was given that does nothing.
    """
    refuse([name for name in given if name not in names], given, to)
    return {
        name: defaults[name] if given[name] is None else given[name] for name in names
    }


def refuse(names: Sequence[str], given: Mapping[str, Any], why: str) -> None:
    """Refuse options that were given where nothing would come of them."""
    for name in names:
        if given[name] is not None:
            raise ValueError(f"--{name.replace('_', '-')} does nothing {why}")


def decoding_of(beam_size: int | None, length_penalty: float | None) -> dict[str, Any]:
    """Return how to decode, as far as the command says it."""
    given = {"beam_size": beam_size, "length_penalty": length_penalty}
    if beam_size in (None, 1):
        refuse(["length_penalty"], given, "without a --beam-size above 1")
    return {name: value for name, value in given.items() if value is not None}


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
