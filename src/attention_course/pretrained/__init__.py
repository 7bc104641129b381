"""Pretrained models: GPT-2, Llama and BERT with the weights of others, in our parts.

`load` makes a model of this package out of a configuration and tensors as the library
transformers names them; `read_writer` reads them from a folder that it has saved.
"""

from attention_course.pretrained.families import FAMILIES, load
from attention_course.pretrained.writer import Writer, read_writer

__all__ = ["FAMILIES", "Writer", "load", "read_writer"]
