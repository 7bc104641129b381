"""Pretrained GPT-2, Llama and BERT: checkpoints of the library transformers.

`load` builds a model of this package from a configuration and tensors named as in the
library transformers; `read_writer` reads them from a folder that this library has
saved. Untrained models with the same architectures are in `models`.
"""

from attention_course.pretrained.families import FAMILIES, load
from attention_course.pretrained.writer import Writer, read_writer

__all__ = ["FAMILIES", "Writer", "load", "read_writer"]
