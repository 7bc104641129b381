"""Questions of lab 3: score functions, the masked softmax and attention."""

from attention_labs.lab03_scoring.additive import ADDITIVE
from attention_labs.lab03_scoring.attend import ATTEND
from attention_labs.lab03_scoring.cosine import COSINE
from attention_labs.lab03_scoring.distance_bias import DISTANCE_BIAS
from attention_labs.lab03_scoring.dot import DOT
from attention_labs.lab03_scoring.gaussian import GAUSSIAN
from attention_labs.lab03_scoring.general import GENERAL
from attention_labs.lab03_scoring.masked_softmax import MASKED_SOFTMAX
from attention_labs.lab03_scoring.scaled_dot import SCALED_DOT

QUESTIONS = (
    MASKED_SOFTMAX,
    DOT,
    SCALED_DOT,
    COSINE,
    GENERAL,
    ADDITIVE,
    GAUSSIAN,
    DISTANCE_BIAS,
    ATTEND,
)
