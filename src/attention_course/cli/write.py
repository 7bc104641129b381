"""The command `write`, which lets a language model continue a prompt.

What the command does is in `attention_course.runs.writing`.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from attention_course.cli.files import standard_input
from attention_course.cli.options import (
    Compile,
    Device,
    Precision,
    app,
    check_run,
    setting,
)
from attention_course.runs import choices
from attention_course.training.interrupts import at_once


@app.command(
    "write",
    short_help="Go on with a prompt.",
    help="""Go on with a prompt, by a language model that was trained here (--run) or by
a pretrained GPT-2 or Llama (--checkpoint).

\b
    attention-course train --task writing --model gpt --out runs/gpt
    attention-course write --run runs/gpt "Attention is"
    attention-course write --checkpoint gpt2 --temperature 0.8 --top-k 40 \\
        "Attention is"

A model of the task writing has read the course's own text and code. Prompt and
continuation have at most 128 tokens together.

The folder of --checkpoint has the files config.json, tokenizer.json and
model.safetensors, or an index of several such files, as the library transformers saves
them. Nothing is downloaded.
""",
)
def write_command(
    prompt: Annotated[
        str, typer.Argument(help="How the text begins; -: standard input.")
    ],
    run: Annotated[
        Path | None, typer.Option(help="Folder of a run of the task writing.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder of a pretrained model.")
    ] = None,
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
    device: Device = "auto",
    precision: Precision = "32-true",
    compile: Compile = False,
) -> None:
    """Continue a prompt."""
    chance = dict(top_k=top_k, seed=seed)
    if temperature is None:
        choices.refuse(chance, "without --temperature")
    elif not temperature > 0:
        raise ValueError(
            f"--temperature is above 0, got {temperature}; leave it out for the"
            " likeliest tokens"
        )
    if (run is None) == (checkpoint is None):
        raise ValueError("name one model to write with, by --run or by --checkpoint")
    if prompt == "-":
        prompt = os.fsdecode(standard_input("a prompt").read()).rstrip("\n")
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the prompt is no UTF-8 from character {error.start + 1} on"
            f" ({prompt[: error.start]!r}): give it in UTF-8"
        ) from None
    if run:
        check_run(run)
    with at_once():
        from attention_course.pretrained import read_writer
        from attention_course.runs.loading import choose_device, computing
        from attention_course.runs.writing import run_writer

    if run:
        writer = run_writer(run, device)
    else:
        assert checkpoint is not None
        writer = read_writer(checkpoint, choose_device(device))
    if compile:
        writer = writer.compiled()
    with computing(writer.model, precision):
        text = writer.write(prompt, max_tokens, temperature, top_k, seed or 0)
    typer.echo(text)
