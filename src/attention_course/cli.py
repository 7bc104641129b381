"""The command line: train, translate, write and evaluate from a shell.

A command imports what does the work, `runs`, when it has work to do: torch takes
seconds, which `--help` and a mistake in the arguments should not cost.
"""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from attention_course import registry


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
    usual = "" if default is None else f"  [default: {default}]"
    return typer.Option(help=help + usual, **limits)


def some(name: str) -> Any:
    """Describe an option that only some tasks or models take."""
    default, meaning = (registry.OPTIONS | registry.SIZES)[name]
    return setting(meaning, default)


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
        typer.Option(help="Folder for checkpoint and history; one for each run."),
    ],
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on from the folder's checkpoint, if any."),
    ] = False,
    data: Annotated[Path | None, some("data")] = None,
    vocab_size: Annotated[int | None, some("vocab_size")] = None,
    max_length: Annotated[int | None, some("max_length")] = None,
    dim: Annotated[int | None, some("dim")] = None,
    hidden_dim: Annotated[int | None, some("hidden_dim")] = None,
    layers: Annotated[int | None, some("layers")] = None,
    heads: Annotated[int | None, some("heads")] = None,
    dropout: Annotated[float | None, some("dropout")] = None,
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
    asked = dict(data=data, vocab_size=vocab_size, max_length=max_length)
    options = registry.options_of(task, asked)
    widths = dict(dim=dim, hidden_dim=hidden_dim)
    sizes = registry.sizes_of(
        model, task, dict(**widths, layers=layers, heads=heads, dropout=dropout)
    )
    if validate_every is None:
        given = dict(validate_by=validate_by, patience=patience)
        registry.refuse(given, "without --validate-every")
    from attention_course import runs

    runs.train_run(
        runs.About(task, options, model, sizes),
        out,
        runs.TrainConfig(
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
        ),
        by_score=validate_by == By.score,
        checkpoint_every=checkpoint_every,
        resume=resume,
        device=device.value,
        precision=precision.value,
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
    from attention_course import runs

    task, model = runs.load(run, data, device.value)
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
    "write",
    short_help="Go on with a prompt.",
    help="""Go on with a prompt, by a pretrained GPT-2 or Llama.

\b
    attention-course write --checkpoint gpt2 "Attention is"
    attention-course write --checkpoint gpt2 --temperature 0.8 --top-k 40 \\
        "Attention is"

The folder has the files config.json, tokenizer.json and model.safetensors, or an index
of several such files, as the library transformers saves them. Nothing is downloaded.
""",
)
def write_command(
    prompt: Annotated[str, typer.Argument(help="How the text begins.")],
    checkpoint: Annotated[Path, typer.Option(help="Folder of the pretrained model.")],
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens to write, if the text does not end.")
    ] = 40,
    temperature: Annotated[
        float | None,
        setting("Draw at random, above 1 more boldly; else the likeliest.", None),
    ] = None,
    top_k: Annotated[
        int | None, setting("Draw among that many likeliest tokens.", None)
    ] = None,
    seed: Annotated[int | None, setting("Of the chance.", 0)] = None,
    device: DeviceName = Device.auto,
) -> None:
    """Go on with a prompt."""
    chance = dict(top_k=top_k, seed=seed)
    if temperature is None:
        registry.refuse(chance, "without --temperature")
    from attention_course import runs
    from attention_course.pretrained import read_writer

    writer = read_writer(checkpoint, runs.launch(device.value, "32-true").device)
    typer.echo(writer.write(prompt, max_tokens, temperature, top_k, seed or 0))


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
    from attention_course import runs

    task, model = runs.load(run, data, device.value)
    texts = runs.evaluate_run(task, model, split.value, decoding)
    if out:
        out.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def decoding_of(beam_size: int | None, length_penalty: float | None) -> dict[str, Any]:
    """Return how to decode, as far as the command says it."""
    if beam_size in (None, 1):
        given = dict(length_penalty=length_penalty)
        registry.refuse(given, "without a --beam-size above 1")
    asked = dict(beam_size=beam_size, length_penalty=length_penalty)
    return {name: value for name, value in asked.items() if value is not None}


def main() -> None:
    """Run the command line; what goes wrong is said in one line."""
    try:
        app(prog_name="attention-course")
    except (ValueError, OSError, FloatingPointError) as error:
        raise SystemExit(f"attention-course: {error}") from None


if __name__ == "__main__":
    main()
