"""final_state_step: a decoder that is told of the source once."""

from attention_course.rnn import FinalStateDecoder
from attention_labs.lab02_bottleneck.shared import (
    OF_STEPS,
    OF_STEPS_LAST,
    step_properties,
    use_step,
)
from nbjudge import ANYWHERE, Question

FINAL_STATE_STEP = Question(
    name="final_state_step",
    reference=FinalStateDecoder,
    use=use_step,
    properties=step_properties(FinalStateDecoder),
    mistakes=(*OF_STEPS, *ANYWHERE, *OF_STEPS_LAST),
)
