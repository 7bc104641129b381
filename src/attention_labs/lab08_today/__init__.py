"""Questions of lab 8: the parts of today's language models."""

from attention_labs.lab08_today.grouped_queries import GROUPED_QUERIES
from attention_labs.lab08_today.induction_score import INDUCTION_SCORE
from attention_labs.lab08_today.rotary import ROTARY
from attention_labs.lab08_today.running_softmax import RUNNING_SOFTMAX
from attention_labs.lab08_today.top_p import TOP_P

QUESTIONS = (ROTARY, GROUPED_QUERIES, RUNNING_SOFTMAX, TOP_P, INDUCTION_SCORE)
