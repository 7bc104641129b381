"""The commands `translate` and `evaluate`, which use a trained model.

What the commands do is in `attention_course.runs`.
"""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from attention_course import registry
from attention_course.cli.files import make_way, standard_input, write
from attention_course.cli.options import (
    BeamSize,
    Compile,
    DataFolder,
    Device,
    LengthPenalty,
    Precision,
    RunFolder,
    app,
    check_run,
    decoding_of,
)
from attention_course.runs import choices
from attention_course.training.interrupts import at_once

# Models of these kinds return no attention weights.
UNWEIGHED = (registry.Kind.TAGS, registry.Kind.FRAME_LABELS)


@app.command(
    "translate",
    short_help="Decode sources with a trained model.",
    help="""Decode sources with a trained model.

They come from the command line or, one per line, from standard input, and are answered
as they come. Nothing but the run's folder is read.

\b
    attention-course translate --run runs/dates "Wednesday, May 9, 2018"
    attention-course translate --run runs/dates --attention maps.html \\
        "Wednesday, May 9, 2018"
    attention-course translate --run runs/multi30k --beam-size 5 \\
        < german.txt > english.txt
    attention-course translate --run runs/captions digits.png

An empty line is answered by an empty line. Of tasks with labels, the answer is the
label, or a label per token. A source of the tasks captions and focus is a file, PNG or
NPY, of 24 x 24 pixels, bright digits on black; one of the task frames is an NPY file,
(frames, 32).
""",
)
def translate_command(
    run: RunFolder,
    source: Annotated[
        list[str] | None,
        typer.Argument(help="What to decode; none, or -: lines of standard input."),
    ] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    attention: Annotated[
        Path | None, typer.Option(help="File for a page (HTML) of attention maps.")
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Answer in JSON, an object per line: tokens, score (log-probability in"
            " nats), warnings, and weights, a row per target token: one for each source"
            " token, or for the one state that a model without attention reads.",
        ),
    ] = False,
    device: Device = "auto",
    precision: Precision = "32-true",
    compile: Compile = False,
) -> None:
    """Decode sources with a trained model."""
    decoding = decoding_of(beam_size, length_penalty)
    check_run(run)
    if attention:
        if attention.suffix.lower() not in (".html", ".htm"):
            raise ValueError(
                f"--attention {attention} would be a page: name a file .html"
            )
        make_way(attention)
    if source == ["-"]:
        source = None
    with at_once():
        from attention_course.runs.decoding import answer_lines
        from attention_course.runs.loading import (
            computing,
            load_model,
            with_steps_compiled,
        )
        from attention_course.runs.sources import Reader, arriving

    about, task, model, _ = load_model(run, device)
    refuse_for(about.kind, about.task, about.model, decoding, attention)
    if compile:
        model = with_steps_compiled(model, about)
    weighed = (as_json or attention is not None) and about.kind not in UNWEIGHED
    warn = lambda told: typer.echo(told, err=True)  # noqa: E731
    form = registry.SOURCES.get(about.kind, registry.Source.TEXT)
    reader = Reader(task, form, warn, "source" if source else "line")
    for name in filter(os.path.isfile, source or ()):
        if form is registry.Source.TEXT:
            warn(f"{name} is decoded as a text; to decode the file's lines: < {name}")
    mapped: list[Any] = []
    try:
        for given in (
            [source] if source else arriving(standard_input("sources, one per line"))
        ):
            lines = [reader.read(line) for line in given]
            with computing(model, precision):
                answers = answer_lines(task, model, lines, decoding, weighed)
            for answer in answers:
                said = answer.as_dict(weighed) if as_json else None
                typer.echo(
                    json.dumps(said, ensure_ascii=False) if said else answer.text
                )
                if answer.is_cut:
                    warn(f"{reader.word} {answer.line.number}: {answer.warnings[-1]}")
                mapped += [answer] if attention and answer.target else []
    finally:  # also after Ctrl-C
        if attention and mapped:
            from attention_course.runs.maps import page

            write(attention, page(f"{about.model} on {about.task}", mapped))
    if not reader.count:
        raise ValueError(
            "there is nothing to decode: give a source, or lines on standard input"
        )
    if reader.failed:
        raise typer.Exit(1)


@app.command(
    "evaluate",
    short_help="Score a trained model on held-out examples.",
    help="""Score a trained model on held-out examples.

\b
    attention-course evaluate --run runs/dates
    attention-course evaluate --run runs/multi30k --beam-size 5 \\
        --length-penalty 0.6 --out english.txt

Exact match, token accuracy and alignment scores are shares between 0 and 1; the
examples are made again as in training. Sentences are scored by BLEU and chrF, with
sacreBLEU's signature, and language models in bits per character. Where it is known
which source tokens a target token came from, attention is scored as well. Scores of
greedy decoding go into the run's folder, as scores.json, where attention-course ls
finds them.
""",
)
def evaluate_command(
    run: RunFolder,
    split: Annotated[
        Literal["validation", "test"], typer.Option(help="Which examples.")
    ] = "test",
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    out: Annotated[
        Path | None, typer.Option(help="File for the predictions, one per line.")
    ] = None,
    data: DataFolder = None,
    device: Device = "auto",
    precision: Precision = "32-true",
    compile: Compile = False,
) -> None:
    """Score a trained model on held-out examples."""
    decoding = decoding_of(beam_size, length_penalty)
    check_run(run)
    if out:
        make_way(out)
    with at_once():
        from attention_course.runs.evaluation import evaluate_run, note_scores
        from attention_course.runs.loading import computing, load, with_steps_compiled

    about, task, model, step = load(run, data, device)
    typer.echo(f"{run}: {about.model} on {about.task}, after {step:,} steps")
    if about.kind is registry.Kind.TEXT:
        choices.refuse({"out": out}, f"for the task {about.task}")
    if compile:
        model = with_steps_compiled(model, about)
    with computing(model, precision):
        scores, texts = evaluate_run(task, model, split, decoding)
    if out:
        write(out, "".join(f"{text}\n" for text in texts))
    if decoding.get("beam_size", 1) == 1:
        try:
            note_scores(run, split, step, scores)
        except OSError as error:
            why = error.strerror
            typer.echo(f"the scores could not be noted in {run} ({why})", err=True)


def refuse_for(
    kind: registry.Kind,
    task: str,
    model: str,
    decoding: dict[str, Any],
    attention: Path | None,
) -> None:
    """Refuse options that have no effect for a run's model."""
    if kind is registry.Kind.TEXT:
        raise ValueError(f"the task {task} has prompts: go on with one by write")
    if kind not in (registry.Kind.SEQUENCES, registry.Kind.CAPTIONS):
        choices.refuse(decoding, f"for the task {task}")
    if kind in UNWEIGHED:
        given = {"attention": attention}
        choices.refuse(given, f"for the model {model}, which gives no weights")
