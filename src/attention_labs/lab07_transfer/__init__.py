"""Questions of lab 7: loading a body by name, a new head, freezing, and accuracy."""

from attention_labs.lab07_transfer.accuracy import ACCURACY
from attention_labs.lab07_transfer.freeze import FREEZE
from attention_labs.lab07_transfer.grow_embedding import GROW_EMBEDDING
from attention_labs.lab07_transfer.load_body import LOAD_BODY
from attention_labs.lab07_transfer.parameter_groups import PARAMETER_GROUPS
from attention_labs.lab07_transfer.sentence_head import SENTENCE_HEAD

QUESTIONS = (
    LOAD_BODY,
    GROW_EMBEDDING,
    SENTENCE_HEAD,
    FREEZE,
    ACCURACY,
    PARAMETER_GROUPS,
)
