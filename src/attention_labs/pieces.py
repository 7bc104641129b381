"""Pieces: a mistake is mostly a right answer in which one piece is another."""

from collections.abc import Callable
from typing import Any


def with_pieces(base: type, **pieces: Callable[..., Any]) -> Any:
    """Derive a class in which functions without self stand in the place of methods."""
    return type(
        "Wrong", (base,), {name: staticmethod(piece) for name, piece in pieces.items()}
    )


def with_methods(base: type, **methods: Callable[..., Any]) -> Any:
    """Derive a class in which other methods stand in the place of some."""
    return type("Wrong", (base,), methods)
