"""What all tests share: one seed, one thread, no window, and one model of each kind."""

import random

import matplotlib
import pytest
import torch
from hypothesis import settings
from torch import nn

from attention_course import models
from attention_course.rnn import LocalM, LocalP
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import EncoderDecoder
from attention_course.transformer import LearnedPositions

matplotlib.use("Agg")
torch.set_num_threads(1)

# Derandomised and without a database: a test that passes once passes always, and
# nothing is written beside it.
settings.register_profile(
    "course", deadline=None, derandomize=True, database=None, max_examples=30
)
settings.load_profile("course")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    random.seed(0)


@pytest.fixture(params=["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
def device(request):
    return torch.device(request.param)


# The sizes are distinct primes, apart from the key width, which is twice the hidden
# width.
SIZES = {"source_size": 17, "target_size": 19, "embedding_dim": 7, "hidden_dim": 11}


def additive(key_dim=22):
    return AdditiveScore(query_dim=11, key_dim=key_dim, hidden_dim=13)


ONE_SLOT = {
    "final_state": lambda: models.final_state(**SIZES),
    "context_every_step": lambda: models.context_every_step(
        **SIZES, num_layers=2, cell=nn.LSTM
    ),
}
GLOBAL = {
    "bahdanau": lambda: models.bahdanau(**SIZES, score=additive()),
    "luong": lambda: models.luong(**SIZES, score=additive()),
    "luong_fed": lambda: models.luong(
        **SIZES, score=additive(), input_feeding=True, num_layers=2, cell=nn.RNN
    ),
    "gnmt": lambda: models.gnmt(**SIZES, score=additive(key_dim=11), num_layers=4),
}
LOCAL = {
    "luong_local_m": lambda: models.luong(
        **SIZES, score=additive(), window=LocalM(half_width=1)
    ),
    "luong_local_m_fed": lambda: models.luong(
        **SIZES, score=additive(), window=LocalM(1), input_feeding=True
    ),
    "luong_local_p": lambda: models.luong(
        **SIZES, score=additive(), window=LocalP(11, 5, half_width=2)
    ),
}


STACK = {"dim": 14, "num_heads": 2, "hidden_dim": 11, "num_layers": 3}


def transformer_post_norm():
    """The norm after the sum, and positions from a table: `models.transformer` has
    neither."""
    return EncoderDecoder(
        models.encoder_only(
            vocab_size=17, **STACK, positions=LearnedPositions(23, 14), pre_norm=False
        ),
        models.transformer_decoder(
            vocab_size=19, **STACK, positions=LearnedPositions(29, 14), pre_norm=False
        ),
    )


TRANSFORMERS = {
    "transformer": lambda: models.transformer(source_size=17, target_size=19, **STACK),
    "transformer_post_norm": transformer_post_norm,
}
BUILDERS = {**ONE_SLOT, **GLOBAL, **LOCAL, **TRANSFORMERS}


def each(builders):
    """Make a fixture that gives each of these models, with weights that are far from
    uniform."""

    @pytest.fixture(params=list(builders))
    def built(request):
        model = builders[request.param]()
        # At torch's own scale all weights are near 1/S and all logits near 0; its norms
        # and some biases do nothing.
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2).add_(torch.randn_like(parameter) / 10)
        return model.eval()

    return built


model = each(BUILDERS)
attentive_model = each(GLOBAL)  # every query may attend to every source token
local_model = each(LOCAL)  # queries attend within a window
one_slot_model = each(ONE_SLOT)  # the memory has one slot
