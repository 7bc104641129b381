"""context_step: a decoder that is told of the source at every step."""

from attention_course.rnn import FinalStateDecoder
from attention_labs.lab02_bottleneck.shared import (
    HANDOVER,
    OF_STEPS,
    OF_STEPS_LAST,
    STEP,
    step_properties,
    use_step,
)
from nbjudge import ANYWHERE, Mistake, Question, edit, error_like


def _told(
    vocabulary: int, embedding: int, state: int, memory: int
) -> FinalStateDecoder:
    return FinalStateDecoder(vocabulary, embedding, state, memory, every_step=True)


CONTEXT_STEP = Question(
    name="context_step",
    reference=_told,
    use=use_step,
    properties=step_properties(_told),
    mistakes=(
        Mistake(
            "the source before the token",
            "The order of what is attached decides which weights it meets: the token,"
            " then the source.",
            HANDOVER,
            edit(STEP, "[x, context]", "[context, x]"),
        ),
        Mistake(
            "told at the first step only",
            "The source is attached to every input, not to the first alone.",
            HANDOVER,
            edit(
                STEP,
                "[x, context]",
                "[x, nn.functional.pad(context[:, :1], (0, 0, 0, x.size(1) - 1))]",
            ),
        ),
        Mistake(
            "zeros, where the source is meant",
            "What is attached is the content of the slot, `memory.value`.",
            HANDOVER,
            edit(STEP, "[x, context]", "[x, torch.zeros_like(context)]"),
        ),
        Mistake(
            "one source for many tokens",
            "torch.cat does not stretch axes of length one: repeat the slot for each of"
            " the T tokens.",
            HANDOVER,
            sign=lambda request, reply, reference: (
                request.inputs[0].size(1) > 1
                and error_like("Sizes of tensors must match")(request, reply, reference)
            ),
        ),
        *OF_STEPS,
        *ANYWHERE,
        *OF_STEPS_LAST,
    ),
)
