"""Questions of lab 4: decoder steps with attention, and the alignment hit rate."""

from attention_labs.lab04_alignment.alignment_hit_rate import HIT_RATE
from attention_labs.lab04_alignment.bahdanau_step import BAHDANAU_STEP
from attention_labs.lab04_alignment.covered_step import COVERED_STEP
from attention_labs.lab04_alignment.input_feeding import INPUT_FEEDING
from attention_labs.lab04_alignment.local_p import LOCAL_P
from attention_labs.lab04_alignment.luong_step import LUONG_STEP

QUESTIONS = (BAHDANAU_STEP, HIT_RATE, LUONG_STEP, INPUT_FEEDING, COVERED_STEP, LOCAL_P)
