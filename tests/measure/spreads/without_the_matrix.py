"""The chapter on attention without the matrix: do sinks form in its GPT, and does it
miss the first token when a window drops it?

The text, the model and the masks are the page's. A seed changes the first weights and
the order of the windows; each seed is trained for the page's number of steps and for
four times as many.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from statistics import mean

import torch
from measure import report
from torch import Tensor, nn

from attention_course import models
from attention_course.masks import causal_mask, sliding_window_mask
from attention_course.tasks.writing import writing
from attention_course.training import TrainConfig, train

SEEDS, STEPS, WINDOW, LAYERS = tuple(range(3)), (150, 600), 64, 4


@torch.no_grad()
def look(model: nn.Module, ids: Tensor, mask: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Logits (B, T, V), and the weights (B, H, T, T) of each layer."""
    x, weights = model.embedding(ids, 0), []
    for block in model.blocks:
        z = block.around_self.before(x)
        weights.append(block.self_attention(z, z, z, mask)[1])
        x, _ = block(x, mask)
    return model.head(model.norm(x)), weights


def causal_window(length: int, size: int, also: int | None = None) -> Tensor:
    """The last `size` positions, and the position `also` where it is not later."""
    mask = causal_mask(length) & sliding_window_mask(length, size - 1)
    if also is not None:
        mask[also:, also] = True
    return mask


MASKS = {
    "the last 8": causal_window(WINDOW, 8),
    "the first and the last 7": causal_window(WINDOW, 7, also=0),
    "the second and the last 7": causal_window(WINDOW, 7, also=1),
}


def rows(quick: bool) -> Iterator[report.Row]:
    task = writing(vocab_size=512, window=WINDOW, stride=8)
    test = task.collate([w for w in task.test if len(w.tokens) == WINDOW])
    late = torch.arange(WINDOW // 2, WINDOW)

    def late_bits(model: nn.Module, mask: Tensor) -> Tensor:
        said = look(model, test.given, mask)[0].log_softmax(dim=-1) / math.log(2)
        bits = -said.gather(-1, test.wanted[..., None])[..., 0]
        return bits[:, late].mean(dim=1)

    even = (1 / (late + 1)).mean().item()
    yield report.row("sinks / spread evenly", even, "share")
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name in STEPS:
        for seed in SEEDS[:2] if quick else SEEDS:
            torch.manual_seed(seed)
            gpt = models.gpt2(
                vocab_size=512,
                dim=64,
                num_heads=4,
                hidden_dim=256,
                num_layers=LAYERS,
                max_length=WINDOW,
            )
            steps = 2 if quick else name
            schedule = TrainConfig(
                steps,
                16,
                learning_rate=8e-3,
                warmup_steps=max(1, steps // 10),
                seed=seed,
            )
            train(gpt, task, schedule)
            gpt.eval()
            _, weights = look(gpt, test.given, causal_mask(WINDOW))
            shares = torch.stack([w[:, :, late, 0].mean(dim=(0, 2)) for w in weights])
            of = f"sinks / {name} steps"
            found[f"{of} / highest share of a head", "share"].append(
                shares.max().item()
            )
            found[f"{of} / mean share above layer 1", "share"].append(
                shares[1:].mean().item()
            )
            everything = late_bits(gpt, causal_mask(WINDOW))
            what = f"{of} / all tokens"
            found[what, "bits per token"].append(everything.mean().item())
            for mask_name, mask in MASKS.items():
                change = (late_bits(gpt, mask) - everything).mean().item()
                found[f"{of} / {mask_name}", "bits per token"].append(change)
    for (what, unit), numbers in found.items():
        yield report.row(what, mean(numbers), unit, note=f"of {len(numbers)} seeds")
        yield report.row(f"{what}, lowest", min(numbers), unit)
        yield report.row(f"{what}, highest", max(numbers), unit)
