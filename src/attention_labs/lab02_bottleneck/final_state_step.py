"""Question `final_state_step`: a decoder that gets the source's vector only once.

The decoder that gets it at every step is in `context_step`.
"""

from attention_course.rnn import FinalStateDecoder
from attention_labs.lab02_bottleneck.shared import step_question

QUESTION = step_question(
    "final_state_step",
    FinalStateDecoder,
    (),
    {
        "equation": r"h_t = \mathrm{GRU}(y_{t-1},\, h_{t-1})",
        "once": "The first decoder learns about the source only once, from $h_0$.",
        "slot": "memory: from `remember`.",
    },
)
