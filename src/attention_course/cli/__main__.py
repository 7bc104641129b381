"""The command line, for `python -m attention_course.cli` and `torchrun -m`."""

from attention_course.cli import main

if __name__ == "__main__":
    main()
