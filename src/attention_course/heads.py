"""Attention heads of a trained model: where they look, and ablation (`run_heads`).

Previous-token and induction scores measure where the heads look. The attention modules
are in `attention` and `transformer.rotary`.
"""

from collections.abc import Collection, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.masks import causal_mask
from attention_course.transformer import (
    AttentionBlock,
    GroupedQueryAttention,
    Residual,
    TransformerLM,
)

# A layer and one of its heads, both counted from 0.
Head = tuple[int, int]
READ_AS = ("query", "key", "value")


def previous_token_score(weights: Float[Tensor, "B H T T"]) -> Float[Tensor, " H"]:
    """Measure how much weight each head gives to the previous token.

    Args:
        weights: of one layer's self-attention.

    Returns:
        For each head, the mean weight of key t - 1 for query t, over the batch and all
        t that have a previous position; 0 if there are none.
    """
    found = weights.diagonal(-1, dim1=-2, dim2=-1)  # (B, H, T - 1)
    return found.sum(dim=(0, 2)) / max(found.size(0) * found.size(2), 1)


def induction_score(
    tokens: Int[Tensor, "B T"], weights: Float[Tensor, "B H T T"]
) -> Float[Tensor, " H"]:
    """Measure how much weight each head gives to what followed the same token before.

    If the token of query t occurred before, let s < t be its latest occurrence; the
    score counts the weight of key s + 1. After the prefix matching of Olsson et al.
    (2022), Section "Key Concepts".

    Args:
        tokens: token ids at the positions.
        weights: of one layer's self-attention.

    Returns:
        For each head, the mean weight of key s + 1, over all queries whose token
        occurred before; 0 if there are none.
    """
    place = torch.arange(1, tokens.size(1) + 1, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)  # (B, T, T)
    after = (same * place).amax(dim=-1)  # s + 1, or 0 if there is no such s
    found = after > 0
    index = after[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    asked = weights.gather(-1, index)[..., 0] * found[:, None]  # (B, H, T)
    return asked.sum(dim=(0, 2)) / found.sum().clamp(min=1)


def run_heads(
    model: TransformerLM,
    token: Int[Tensor, "B T"],
    removed: Collection[Head] = (),
    cut: Mapping[str, Collection[Head]] | None = None,
) -> tuple[Float[Tensor, "B T V"], list[Float[Tensor, "B H T T"]]]:
    """Run an attention-only model, return its attention maps, and ablate heads.

    What a layer adds to the residual stream is the sum of its heads' outputs; each head
    has its own part of the output map. A removed head adds nothing. A head that is cut
    still adds its output, but the layers above do not read it when they compute
    queries, keys or values.

    Args:
        model: made of pre-norm `AttentionBlock`s with `GroupedQueryAttention`, such as
            `models.attention_only`.
        token: the model's input, as in `TransformerLM.forward`.
        removed: heads that add nothing.
        cut: "query", "key" or "value" -> the heads that are not read for these.

    Returns:
        The logits and, for each layer, the weights of its heads.

    Raises:
        ValueError: the model has other blocks, a head does not exist, or `cut` has
            another name than these three.
    """
    cut = {} if cut is None else cut
    layers = [_taken_apart(block) for block in model.blocks]
    heads = {(i, h) for i, (a, _) in enumerate(layers) for h in range(a.num_heads)}
    for head in {*removed}.union(*cut.values()) - heads:
        raise ValueError(f"the model has no head {head}, only {sorted(heads)}")
    for name in set(cut) - set(READ_AS):
        raise ValueError(f"heads are cut from {', '.join(READ_AS)}, not from {name!r}")
    x, maps = model.embedding(token), []
    written: dict[Head, Tensor] = {}
    for i, (attention, around) in enumerate(layers):
        read = [
            around.before(
                x - sum(written[head] for head in cut.get(name, ()) if head in written)
            )
            for name in READ_AS
        ]
        added, weights = attention(*read, causal_mask(token.size(1), token.device))
        for h, part in enumerate(_parts(attention, weights, read[-1]).unbind(dim=1)):
            if (i, h) in removed:
                added = added - part
            else:
                written[i, h] = part
        x = around.after(x, added)
        maps.append(weights)
    return model.head(model.norm(x)), maps


def _taken_apart(block: nn.Module) -> tuple[GroupedQueryAttention, Residual]:
    """Return a block's attention and residual, if its output is a sum over heads."""
    if not (
        isinstance(block, AttentionBlock)
        and block.around_self.pre_norm
        and isinstance(block.self_attention, GroupedQueryAttention)
    ):
        raise ValueError(
            "heads are taken apart in pre-norm AttentionBlocks with"
            f" GroupedQueryAttention, got {type(block).__name__}"
        )
    return block.self_attention, block.around_self


def _parts(
    attention: GroupedQueryAttention,
    weights: Float[Tensor, "B H T S"],
    read: Float[Tensor, "B S D"],
) -> Float[Tensor, "B H T D"]:
    """Compute each head's output: its context times its columns of the output map."""
    v = attention.remember(read, read).value  # (B, G, S, Dh)
    v = v.repeat_interleave(attention.num_heads // attention.num_key_heads, dim=1)
    columns = attention.output_proj.weight.unflatten(1, (attention.num_heads, -1))
    return (weights @ v) @ columns.transpose(0, 1).mT  # (B, H, T, D)
