"""The command line: train, translate, write, evaluate and ls, from a shell.

A command imports what does the work, `runs`, when it has work to do: torch takes
seconds, which `--help` and a mistake in the arguments should not cost.
"""

from attention_course.cli import listing, train, use
from attention_course.cli.options import app


def main() -> None:
    """Run the command line; what goes wrong is said in one line."""
    try:
        app(prog_name="attention-course")
    except (ValueError, OSError, FloatingPointError) as error:
        raise SystemExit(f"attention-course: {error}") from None
