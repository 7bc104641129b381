"""Attention, measured: the subject behind the book and the labs, and how to train it.

Masks and scores become weights, weights become a context (`attention`), and every
model, recurrent or Transformer, is a query over a memory (`seq2seq`). It knows nothing
of labs or grading, and imports neither. Import from the module that a thing lives in:
`from attention_course.scores import DotScore`.
"""

__version__ = "0.1.0"
