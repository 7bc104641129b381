"""Questions of lab 2: an encoder and a decoder with a single vector between them."""

from attention_labs.lab02_bottleneck.at_end import AT_END
from attention_labs.lab02_bottleneck.context_step import CONTEXT_STEP
from attention_labs.lab02_bottleneck.encoder import ENCODER_QUESTION
from attention_labs.lab02_bottleneck.final_state_step import (
    FINAL_STATE_STEP,
)
from attention_labs.lab02_bottleneck.remember import REMEMBER
from attention_labs.lab02_bottleneck.stacked_encoder import STACKED_ENCODER
from attention_labs.lab02_bottleneck.two_slots import TWO_SLOTS

QUESTIONS = (
    AT_END,
    ENCODER_QUESTION,
    REMEMBER,
    TWO_SLOTS,
    FINAL_STATE_STEP,
    CONTEXT_STEP,
    STACKED_ENCODER,
)
