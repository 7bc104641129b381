"""Questions of lab 6: Transformer blocks, a training step, and cached decoding."""

from attention_labs.lab06_transformer.cached_step import CACHED_STEP
from attention_labs.lab06_transformer.causal_mask import CAUSAL_MASK
from attention_labs.lab06_transformer.decoder_block import DECODER_BLOCK
from attention_labs.lab06_transformer.encoder_block import ENCODER_BLOCK
from attention_labs.lab06_transformer.greedy import GREEDY
from attention_labs.lab06_transformer.looks_ahead import LOOKS_AHEAD
from attention_labs.lab06_transformer.train_step import TRAIN_STEP

QUESTIONS = (
    CAUSAL_MASK,
    ENCODER_BLOCK,
    DECODER_BLOCK,
    TRAIN_STEP,
    GREEDY,
    LOOKS_AHEAD,
    CACHED_STEP,
)
