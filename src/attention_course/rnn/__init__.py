"""Recurrent models: encoders that read token by token, and decoders that write so.

The decoders are the course's steps from the bottleneck to attention: a final state at
the start, the same state at every step, Bahdanau's order and Luong's, windows for local
attention, and the stack of Google's translator.
"""

from attention_course.rnn.decoders import (
    BahdanauDecoder,
    FinalStateDecoder,
    LuongCache,
    LuongDecoder,
)
from attention_course.rnn.encoders import (
    Cell,
    FrameEncoder,
    RNNEncoder,
    RNNStack,
    at_end,
    reverse_padded,
)
from attention_course.rnn.gnmt import GNMTDecoder, GNMTEncoder, LSTMState
from attention_course.rnn.windows import LocalM, LocalP

__all__ = [
    "BahdanauDecoder",
    "Cell",
    "FinalStateDecoder",
    "FrameEncoder",
    "GNMTDecoder",
    "GNMTEncoder",
    "LSTMState",
    "LocalM",
    "LocalP",
    "LuongCache",
    "LuongDecoder",
    "RNNEncoder",
    "RNNStack",
    "at_end",
    "reverse_padded",
]
