"""Chapter 13: the loss as the parts of the Transformer are added, and without each.

English numerals to German ones: two layers of width 32 on each side, batches of 32, 200
steps. The loss is that of the validation examples. Which learning rate is best depends
on the parts, so each model is trained at two, and each seed keeps the lower loss.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from statistics import mean

import torch
from jaxtyping import Float
from measure import report
from torch import Tensor, nn

from attention_course.attention import MultiHeadAttention
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.numerals import numerals
from attention_course.training import TrainConfig, train, validation_loss
from attention_course.transformer import (
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    NoPositions,
    Residual,
    SinusoidalPositions,
    TokenEmbedding,
    TransformerDecoder,
    TransformerEncoder,
)

WIDTH, HEADS, LAYERS = 32, 4, 2
STEPS, BATCH_SIZE, RATES = 200, 32, (5e-3, 1e-2)
SEEDS, QUICK_SEEDS = (0, 1, 2), (0, 1)
PARTS = ("residual", "positions", "feed-forward", "norm", "heads", "scale")


class Unscaled(MultiHeadAttention):
    """Attention whose scores are not divided by the root of a head's width."""

    def __init__(self, dim: int, num_heads: int):
        super().__init__(dim, num_heads)
        self.query_proj.register_forward_hook(
            lambda module, inputs, output: output * math.sqrt(dim / num_heads)
        )


class Around(Residual):
    """A pre-norm residual connection of which either half can be left out."""

    def __init__(self, residual: bool, norm: bool):
        super().__init__(nn.LayerNorm(WIDTH), dropout=0.0, pre_norm=True)
        self.has_residual, self.has_norm = residual, norm

    def before(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return what the sub-layer reads."""
        return self.norm(x) if self.has_norm else x

    def after(
        self, x: Float[Tensor, "B T D"], added: Float[Tensor, "B T D"]
    ) -> Float[Tensor, "B T D"]:
        """Add what the sub-layer says, or put it in the place of what it read."""
        return x + added if self.has_residual else added


class Nothing(nn.Module):
    """A sub-layer that adds nothing."""

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return zeros."""
        return torch.zeros_like(x)


def build(source_size: int, target_size: int, parts: set[str]) -> EncoderDecoder:
    """Build a Transformer that has these parts and no others."""
    residual, norm = "residual" in parts, "norm" in parts

    def attention() -> MultiHeadAttention:
        heads = HEADS if "heads" in parts else 1
        return (MultiHeadAttention if "scale" in parts else Unscaled)(WIDTH, heads)

    def network() -> nn.Module:
        if "feed-forward" in parts:
            return FeedForward(WIDTH, 2 * WIDTH)
        return Nothing() if residual else nn.Identity()

    def around() -> Residual:
        return Around(residual, norm)

    def embedding(size: int) -> TokenEmbedding:
        known = "positions" in parts
        return TokenEmbedding(
            size, WIDTH, SinusoidalPositions(WIDTH) if known else NoPositions(), 0.0
        )

    def last() -> nn.Module:
        return nn.LayerNorm(WIDTH) if norm else nn.Identity()

    encoder = [
        EncoderBlock(attention(), network(), around(), around()) for _ in range(LAYERS)
    ]
    decoder = [
        DecoderBlock(attention(), attention(), network(), around(), around(), around())
        for _ in range(LAYERS)
    ]
    return EncoderDecoder(
        TransformerEncoder(embedding(source_size), encoder, last()),
        TransformerDecoder(
            embedding(target_size), decoder, last(), nn.Linear(WIDTH, target_size)
        ),
    )


def variants() -> Iterator[tuple[str, set[str]]]:
    """Name the models and their parts: one part more each, then all but one."""
    for i in range(len(PARTS) + 1):
        yield f"added / {PARTS[i - 1] if i else 'attention alone'}", set(PARTS[:i])
    for part in PARTS[:-1]:  # without the last: the model before the last
        yield f"without / {part}", set(PARTS) - {part}


def rows(quick: bool) -> Iterator[report.Row]:
    """Train each model from several seeds."""
    task = numerals(train_size=300, held_out_size=40) if quick else numerals()
    for name, parts in variants():
        best: list[float] = []
        for seed in QUICK_SEEDS if quick else SEEDS:
            losses = []
            for rate in RATES:
                torch.manual_seed(seed)
                model = build(task.source_size, task.target_size, parts)
                config = TrainConfig(2 if quick else STEPS, BATCH_SIZE, rate, seed=seed)
                # what ceases to be a number is judged by what it learned until then
                with suppress(FloatingPointError):
                    train(model, task, config)
                losses.append(validation_loss(model, task))
            best.append(min(losses))
        yield report.row(name, mean(best), "nats per token", note="mean of the seeds")
        yield report.row(f"{name}, lowest", min(best), "nats per token")
        yield report.row(f"{name}, highest", max(best), "nats per token")
