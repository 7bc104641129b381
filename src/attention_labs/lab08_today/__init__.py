"""What lab08_today asks: the parts of a language model of today."""

from attention_labs.lab08_today.grouped_queries import GROUPED_QUERIES
from attention_labs.lab08_today.rotary import ROTARY

QUESTIONS = (ROTARY, GROUPED_QUERIES)
