"""The command `train`: its options, checked before anything heavy is imported.

What the command does is in `attention_course.runs.training`.
"""

import shlex
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Literal

import typer

from attention_course import registry
from attention_course.cli.options import (
    Device,
    Precision,
    app,
    setting,
    size_option,
    task_option,
)
from attention_course.runs import choices
from attention_course.runs.about import About, refuse_other
from attention_course.training.config import TrainConfig
from attention_course.training.folder import CHECKPOINT
from attention_course.training.interrupts import (
    Stopped,
    at_once,
    is_first_process,
)

# Fields of `TrainConfig` whose options have other names.
OPTIONS = {"warmup_steps": "warmup", "clip_norm": "clip"}


def who_learns_what() -> str:
    """Describe the tasks of each kind, and below them list the models for them."""
    lines = []
    for kind in registry.Kind:
        tasks = {name: row for name, row in registry.TASKS.items() if row.kind is kind}
        models = [name for name, row in registry.MODELS.items() if row.kind is kind]
        lines += [f"    {name:<12} {row.meaning}" for name, row in tasks.items()]
        lines += wrap("by " + ", ".join(models), indent=8)
    return "\n".join(lines)


def wrap(text: str, indent: int) -> list[str]:
    """Wrap a text to lines that fit into a terminal with 78 columns."""
    space = " " * indent
    return textwrap.wrap(text, 76, initial_indent=space, subsequent_indent=space)


@app.command(
    "train",
    short_help="Train a model on a task.",
    help=f"""Train a model on a task, and leave a run in a folder.

\b
    attention-course train --task dates --model bahdanau --out runs/dates \\
        --validate-every 100

The folder stands alone: checkpoint.pt has the weights and the vocabularies, history.csv
a line per step (tokens so far, loss in nats per token or label, the validation's score
or its loss with a minus sign, seconds), history.png draws it, and run.json is a
summary. With --validate-every, the weights that are used afterwards are those of the
best validation. Ctrl-C saves a checkpoint. The same command with --resume goes on, and
ends with the same weights.

Tasks, and the models that learn them:

\b
{who_learns_what()}

A larger run:

\b
    attention-course train --task multi30k --data multi30k --model transformer \\
        --out runs/multi30k --dim 256 --hidden-dim 1024 --layers 3 --heads 4 \\
        --dropout 0.3 --batch-size 128 --steps 10000 --learning-rate 1e-3 \\
        --warmup 1000 --label-smoothing 0.1 --validate-every 500 \\
        --precision bf16-mixed

Two GPUs share every batch, by --devices 2. On several machines, torchrun starts the
processes:

\b
    attention-course train --devices 2 --task ...
    torchrun --nnodes 2 --nproc-per-node 4 ... -m attention_course.cli train --task ...
""",
)
def train_command(
    task: Annotated[str, typer.Option(help="What to learn, see above.")],
    model: Annotated[str, typer.Option(help="What learns it, see above.")],
    out: Annotated[
        Path,
        typer.Option(help="Folder for the run; one for each."),
    ],
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on from the folder's checkpoint, if any."),
    ] = False,
    data: Annotated[Path | None, task_option("data")] = None,
    vocab_size: Annotated[int | None, task_option("vocab_size")] = None,
    max_length: Annotated[int | None, task_option("max_length")] = None,
    dim: Annotated[int | None, size_option("dim")] = None,
    hidden_dim: Annotated[int | None, size_option("hidden_dim")] = None,
    layers: Annotated[int | None, size_option("layers")] = None,
    heads: Annotated[int | None, size_option("heads")] = None,
    dropout: Annotated[float | None, size_option("dropout")] = None,
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
    clip: Annotated[
        float, typer.Option(help="Longest allowed gradient (its norm).")
    ] = 1.0,
    label_smoothing: Annotated[
        float, typer.Option(help="Share of a target spread over the whole vocabulary.")
    ] = 0.0,
    teacher_forcing: Annotated[
        float,
        typer.Option(help="Share of steps that are given the right last token."),
    ] = 1.0,
    validate_every: Annotated[
        int | None, typer.Option(help="Steps between validations; else there are none.")
    ] = None,
    validate_by: Annotated[
        Literal["loss", "score"] | None,
        setting("What the best weights are chosen by.", "loss"),
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
    device: Device = "auto",
    precision: Precision = "32-true",
    devices: Annotated[
        int,
        typer.Option(min=1, help="GPUs, or processes on a CPU, that share each batch."),
    ] = 1,
    compile: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="Compile model and loss, which takes a minute at first; on a CPU it"
            " needs a C++ compiler.",
        ),
    ] = False,
) -> None:
    """Train a model on a task."""
    asked = dict(data=data, vocab_size=vocab_size, max_length=max_length)
    options = choices.options_of(task, asked)
    widths = dict(dim=dim, hidden_dim=hidden_dim)
    sizes = choices.sizes_of(
        model, task, dict(**widths, layers=layers, heads=heads, dropout=dropout)
    )
    if registry.find_task(task).kind not in registry.FORCED:
        forcing = None if teacher_forcing == 1 else teacher_forcing
        choices.refuse({"teacher_forcing": forcing}, f"for the task {task}")
    if validate_every is None:
        given = dict(validate_by=validate_by, patience=patience)
        choices.refuse(given, "without --validate-every")
    try:
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
    except ValueError as error:
        field, _, what = str(error).partition(" ")
        option = OPTIONS.get(field, field.replace("_", "-"))
        raise ValueError(f"--{option} {what}") from None
    if batch_size < devices:
        raise ValueError(
            f"--batch-size {batch_size} is below --devices {devices}, which share each"
            " batch"
        )
    refuse_other(out, resume)
    with at_once():
        from attention_course.runs.training import train_run

    try:
        train_run(
            About(task, options, model, sizes),
            out,
            config,
            by_score=validate_by == "score",
            checkpoint_every=checkpoint_every,
            resume=resume,
            device=device,
            precision=precision,
            devices=devices,
            compile=compile,
        )
    except KeyboardInterrupt as stop:
        if not is_first_process():  # Fabric kills all processes after one that fails
            raise typer.Exit from None
        say_how_to_go_on(out, stop, steps)
        raise typer.Exit(130) from None


def say_how_to_go_on(folder: Path, stop: KeyboardInterrupt, steps: int) -> None:
    """Tell the user who interrupted training what is saved and how to resume."""
    if not (folder / CHECKPOINT).exists():
        typer.echo("stopped; there is no checkpoint yet", err=True)
        return
    words = [word for word in sys.argv[1:] if word != "--resume"]
    where = (
        f"after step {len(stop.history)} of {steps}, which is saved"
        if isinstance(stop, Stopped)
        else "between two checkpoints"
    )
    again = shlex.join(["attention-course", *words, "--resume"])
    typer.echo(f"stopped {where}; go on by\n    {again}", err=True)
