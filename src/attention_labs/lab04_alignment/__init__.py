"""Questions of lab 4: decoder steps with attention, and the alignment hit rate."""

from attention_labs.lab04_alignment import (
    alignment_hit_rate,
    bahdanau_step,
    covered_step,
    input_feeding,
    local_p,
    luong_step,
)

QUESTIONS = tuple(
    module.QUESTION
    for module in (
        bahdanau_step,
        alignment_hit_rate,
        luong_step,
        input_feeding,
        covered_step,
        local_p,
    )
)
