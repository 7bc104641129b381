"""Command-line options that several commands share, with types, defaults and help."""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from attention_course import registry
from attention_course.runs import choices
from attention_course.training.folder import CHECKPOINT

app = typer.Typer(
    help="Train models with attention and without, and use them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(asked: bool) -> bool:
    """Print the version of the package and end, if that was asked for.

    Returns:
        What was asked, which Typer takes as the option's value.
    """
    if asked:
        typer.echo(f"attention-course {version('attention-course')}")
        raise typer.Exit
    return asked


@app.callback()
def all_commands(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=show_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Declare the options that stand before the name of a command."""


def setting(help: str, default: Any, **limits: Any) -> Any:
    """Declare an option that has an effect only in some cases.

    Its value is None if it is not given, so that it can be refused where it has no
    effect.
    """
    usual = "" if default is None else f"  [default: {default}]"
    return typer.Option(help=help + usual, **limits)


def size_option(name: str) -> Any:
    """Declare an option for a size that only some models have."""
    return setting(registry.SIZES[name].meaning, registry.SIZES[name].default)


def task_option(name: str) -> Any:
    """Declare an option that only some tasks take."""
    usual = [
        f"{row.options[name]} ({task})"
        for task, row in registry.TASKS.items()
        if row.options.get(name)
    ]
    return setting(registry.OPTIONS[name], ", ".join(usual) or None)


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
    setting("Hypotheses kept per source; 1 is greedy decoding.", 1, min=1),
]
LengthPenalty = Annotated[
    float | None,
    setting("Exponent of the length penalty: above 0, longer ones win.", 0.0),
]
Precision = Annotated[
    Literal["32-true", "bf16-mixed"],
    typer.Option(
        help="In what to compute; bf16-mixed: products in bfloat16, weights in single"
        " precision."
    ),
]
Compile = Annotated[
    bool,
    typer.Option(
        "--compile",
        help="Compile a Transformer's steps of decoding, which takes a minute at first;"
        " on a CPU it needs a C++ compiler.",
    ),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    typer.Option(help="Where to compute; auto: on a GPU if there is one."),
]


def decoding_of(beam_size: int | None, length_penalty: float | None) -> dict[str, Any]:
    """Return the options of decoding that the user gave."""
    if beam_size in (None, 1):
        given = dict(length_penalty=length_penalty)
        choices.refuse(given, "without a --beam-size above 1")
    asked = dict(beam_size=beam_size, length_penalty=length_penalty)
    return {name: value for name, value in asked.items() if value is not None}


def check_run(folder: Path) -> None:
    """Refuse a folder without a checkpoint, before torch is imported."""
    if folder.name == CHECKPOINT and folder.is_file():
        raise ValueError(
            f"{folder} is a file of a run: name its folder, {folder.parent}"
        )
    if not (folder / CHECKPOINT).exists():
        raise ValueError(
            f"there is no checkpoint in {folder}; attention-course ls lists runs"
        )
