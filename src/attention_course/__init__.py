"""Attention, measured: the package behind the book and the labs.

Import from the module that a thing lives in: `from attention_course.scores import
DotScore`.
"""

__version__ = "0.1.0"
