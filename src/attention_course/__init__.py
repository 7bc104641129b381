"""Attention, measured: the models, tasks and training behind the book and the labs.

Masks and scores become weights, weights become a context (`attention`), and every
model, recurrent or Transformer, is a query over a memory (`seq2seq`). Labs and grading
are in other packages, and nothing here imports them. Import each name from its module:
`from attention_course.scores import DotScore`.
"""

__version__ = "0.1.0"
