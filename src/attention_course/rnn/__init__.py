"""Recurrent models: encoders and decoders that read and write one token at a time.

The decoders lead from the bottleneck to attention: they get the source's final state at
the start or at every step, use Bahdanau's or Luong's attention, restrict it to windows
(local attention), or form the deep stack of Google's translator (GNMT).
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
