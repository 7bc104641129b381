"""Questions of lab 1: text preprocessing, padded batches, the loss and exact match."""

from attention_labs.lab01_preprocessing.collate import COLLATE
from attention_labs.lab01_preprocessing.exact_match import EXACT_MATCH
from attention_labs.lab01_preprocessing.loss import LOSS
from attention_labs.lab01_preprocessing.pad import PAD_QUESTION
from attention_labs.lab01_preprocessing.pad_left import PAD_LEFT
from attention_labs.lab01_preprocessing.padding_mask import PADDING_MASK
from attention_labs.lab01_preprocessing.tokenize import TOKENIZE
from attention_labs.lab01_preprocessing.vocabulary import VOCABULARY

QUESTIONS = (
    TOKENIZE,
    VOCABULARY,
    PAD_QUESTION,
    PAD_LEFT,
    PADDING_MASK,
    COLLATE,
    LOSS,
    EXACT_MATCH,
)
