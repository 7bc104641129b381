"""Question `context_step`: a decoder that gets the source's vector at every step.

The decoder that gets it only once is in `final_state_step`.
"""

from attention_course.rnn import FinalStateDecoder
from attention_labs.lab02_bottleneck.shared import (
    HANDOVER,
    STEP,
    step_question,
)
from nbjudge import Mistake, edit, error_like


def _told(
    vocabulary: int, embedding: int, state: int, memory: int
) -> FinalStateDecoder:
    return FinalStateDecoder(vocabulary, embedding, state, memory, every_step=True)


QUESTION = step_question(
    "context_step",
    _told,
    (
        Mistake(
            "source concatenated before the token",
            "The order of concatenation decides which weights each part meets: first"
            " the token, then the source.",
            HANDOVER,
            edit(STEP, "[x, context]", "[context, x]"),
        ),
        Mistake(
            "the source enters at the first step only",
            "Concatenate the source to every input, not only to the first.",
            HANDOVER,
            edit(
                STEP,
                "[x, context]",
                "[x, nn.functional.pad(context[:, :1], (0, 0, 0, x.size(1) - 1))]",
            ),
        ),
        Mistake(
            "zeros instead of the source",
            "Concatenate the content of the slot, `memory.value`.",
            HANDOVER,
            edit(STEP, "[x, context]", "[x, torch.zeros_like(context)]"),
        ),
        Mistake(
            "every sentence gets the first sentence's source",
            "Each sentence has a source of its own: the axis that is repeated is that"
            " of the tokens, not that of the batch.",
            HANDOVER,
            edit(STEP, "[x, context]", "[x, context[:1].expand_as(context)]"),
        ),
        Mistake(
            "repeating the slot mixes up the sentences",
            "Repeat along the second axis, the axis of the tokens. Repeating along the"
            " batch changes the order of the sentences.",
            HANDOVER,
            edit(
                STEP,
                "[x, context]",
                "[x, memory.value.repeat(x.size(1), 1, 1).view(*x.shape[:2], -1)]",
            ),
        ),
        Mistake(
            "the source comes from self, not from memory",
            "A step gets the memory as an argument. Keep nothing of the source on"
            " self.",
            HANDOVER,
            edit(STEP, "[x, context]", "[x, self.told.expand_as(context)]")
            & edit(
                FinalStateDecoder.remember,
                "return one_slot(",
                "self.told = encoded.final[:, None]; return one_slot(",
            ),
        ),
        Mistake(
            "tensors of different lengths are concatenated",
            "torch.cat does not expand axes of length one. Repeat the slot for each of"
            " the T tokens.",
            HANDOVER,
            sign=lambda request, reply, reference: (
                request.inputs[0].size(1) > 1
                and error_like("must match except in dimension 2")(
                    request, reply, reference
                )
            ),
        ),
    ),
    {
        "told": "Concatenate the embedding of each token and $c$, in this order.",
        "same": "$c$ is the same for all T tokens: it is the one slot of the memory,"
        " `memory.value` (B, 1, E).",
        "equation": r"h_t = \mathrm{GRU}([y_{t-1};\, c],\, h_{t-1})",
        "slot": "memory: from `remember`; `memory.value` is (B, 1, E).",
    },
)
