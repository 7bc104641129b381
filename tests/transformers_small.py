"""What the tests of Transformers share: small models, and torch's own of like weights."""

import pytest
import torch
from torch import nn

from attention_course.models import (
    decoder_only,
    encoder_only,
    transformer_decoder,
)
from attention_course.seq2seq import EncoderDecoder
from attention_course.transformer import LearnedPositions, SinusoidalPositions

B, T, S = 2, 3, 5
H, D, F, L = 2, 14, 11, 3
V_SOURCE, V = 17, 19

SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 0, 0]])
LENGTHS = torch.tensor([5, 3])
# No token stands twice, so that the gradient of an embedding belongs to one position.
TARGET = torch.tensor([[1, 4, 5], [2, 6, 7]])
STACK = {"dim": D, "num_heads": H, "hidden_dim": F, "num_layers": L}


class NoPositions(nn.Module):
    def forward(self, x, past=0):
        return x


def positions(kind):
    return {
        "sines": SinusoidalPositions(D),
        "learned": LearnedPositions(23, D),
        "none": NoPositions(),
    }[kind]


def shaken(module):
    """Every parameter its own random numbers: no bias of 0, no norm that changes
    nothing."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.4)
    return module.eval()


def translator(kind="sines", tied=False, **sizes):
    sizes = STACK | sizes
    encoder = encoder_only(vocab_size=V_SOURCE, **sizes, positions=positions(kind))
    decoder = transformer_decoder(
        vocab_size=V, **sizes, positions=positions(kind), tied=tied
    )
    return shaken(EncoderDecoder(encoder, decoder))


def language_model(kind="sines", **sizes):
    return shaken(
        decoder_only(vocab_size=V, **(STACK | sizes), positions=positions(kind))
    )


def answers(model, source=SOURCE, lengths=LENGTHS, target=TARGET):
    return model(source, lengths, target, need_weights=True)


both_orders = pytest.mark.parametrize(
    "pre_norm", [True, False], ids=["pre_norm", "post_norm"]
)


def torchs_attention(ours, name):
    projections = (ours.query_proj, ours.key_proj, ours.value_proj)
    return {
        f"{name}.in_proj_weight": torch.cat(
            [projection.weight for projection in projections]
        ),
        f"{name}.in_proj_bias": torch.cat(
            [projection.bias for projection in projections]
        ),
        f"{name}.out_proj.weight": ours.output_proj.weight,
        f"{name}.out_proj.bias": ours.output_proj.bias,
    }


def renamed(ours, name):
    return {f"{name}.{key}": value for key, value in ours.state_dict().items()}


def torchs_encoder_block(ours, pre_norm):
    theirs = nn.TransformerEncoderLayer(
        D, H, F, dropout=0.0, batch_first=True, norm_first=pre_norm
    )
    theirs.load_state_dict(
        torchs_attention(ours.self_attention, "self_attn")
        | renamed(ours.feed_forward.inner, "linear1")
        | renamed(ours.feed_forward.outer, "linear2")
        | renamed(ours.around_self.norm, "norm1")
        | renamed(ours.around_feed_forward.norm, "norm2")
    )
    return theirs


def torchs_decoder_block(ours, pre_norm):
    theirs = nn.TransformerDecoderLayer(
        D, H, F, dropout=0.0, batch_first=True, norm_first=pre_norm
    )
    theirs.load_state_dict(
        torchs_attention(ours.self_attention, "self_attn")
        | torchs_attention(ours.cross_attention, "multihead_attn")
        | renamed(ours.feed_forward.inner, "linear1")
        | renamed(ours.feed_forward.outer, "linear2")
        | renamed(ours.around_self.norm, "norm1")
        | renamed(ours.around_cross.norm, "norm2")
        | renamed(ours.around_feed_forward.norm, "norm3")
    )
    return theirs
