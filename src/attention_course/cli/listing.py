"""The command `ls`: list the runs in a folder."""

from pathlib import Path
from typing import Annotated

import typer

from attention_course.cli.options import app
from attention_course.runs.listing import list_runs, table


@app.command(
    "ls",
    short_help="List runs.",
    help="""List the runs in a folder and below it.

\b
    attention-course ls
    attention-course ls runs

Each has its task, its model, the number of parameters, the steps that have been made,
the last loss in nats, a score and its size on disk. The score is that on the test
examples if the run has been evaluated, else that of its best validation.
""",
)
def ls_command(
    folder: Annotated[Path, typer.Argument(help="Where to look.")] = Path("runs"),
) -> None:
    """List runs."""
    rows = list_runs(folder)
    typer.echo(table(rows) if rows else f"there are no runs in {folder}")
