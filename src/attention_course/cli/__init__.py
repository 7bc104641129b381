"""The command line: train, translate, write, evaluate and ls, from a shell.

What the commands do is in `attention_course.runs`. A command imports it only when it
has work to do: importing torch takes seconds, and `--help` and mistakes in the
arguments should be answered at once.
"""

from attention_course.cli import listing, train, use, write
from attention_course.cli.options import app


def main() -> None:
    """Run the command line; an error is reported in one line."""
    try:
        app(prog_name="attention-course")
    except (ValueError, OSError, FloatingPointError) as error:
        raise SystemExit(f"attention-course: {error}") from None
