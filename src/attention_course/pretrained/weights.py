"""Filling a model with the tensors of a checkpoint: all of them, or none."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn


def places(
    model: nn.Module, names: Mapping[str, Sequence[str]], num_layers: int
) -> dict[str, list[str]]:
    """List the tensors that fill a model, each with the parameters that it becomes.

    Args:
        model: the model to fill.
        names: the checkpoint's modules by name, each with the model's modules that it
            becomes; there are several if the checkpoint has joined their maps. "#"
            stands for the number of a layer.
        num_layers: L.

    Returns:
        For each tensor's name, the names of the model's parameters.
    """
    state, found = model.state_dict(), {}
    for theirs, ours in names.items():
        for layer in map(str, range(num_layers if "#" in theirs else 1)):
            for kind in ("weight", "bias"):
                parts = [f"{name.replace('#', layer)}.{kind}" for name in ours]
                if parts[0] in state:
                    found[f"{theirs.replace('#', layer)}.{kind}"] = parts
    return found


def fill(
    model: nn.Module,
    wanted: Mapping[str, Sequence[str]],
    tensors: Mapping[str, Tensor],
    turned: Sequence[str] = (),
) -> None:
    """Put tensors into a model in single precision: either all of them, or none.

    Args:
        model: the model to fill; it may be on the device "meta".
        wanted: see `places`.
        tensors: by name, exactly those in `wanted`.
        turned: parts of the names of tensors whose matrices are transposed.

    Raises:
        ValueError: a tensor is missing, superfluous, of another shape or not of
            floating-point numbers; the message names it.
    """
    _check_names(wanted, tensors)
    state, pieces = model.state_dict(), dict[str, Tensor]()
    for name, parts in wanted.items():
        given, ours = tensors[name], torch.cat([state[part] for part in parts])
        turns = ours.dim() == 2 and any(word in name for word in turned)
        shape = tuple((ours.mT if turns else ours).shape)
        if tuple(given.shape) != shape:
            raise ValueError(
                f"tensor {name} is of shape {tuple(given.shape)}, not of {shape}"
            )
        if not given.is_floating_point():
            raise ValueError(f"tensor {name} is of {given.dtype}, not of real numbers")
        pieces |= zip(parts, (given.mT if turns else given).chunk(len(parts)))
    for part, piece in pieces.items():
        pieces[part] = piece.to(
            torch.float32, copy=True, memory_format=torch.contiguous_format
        )
    # The pieces do not include a tied head.
    model.load_state_dict(pieces, strict=False, assign=True)


def _check_names(
    wanted: Mapping[str, Sequence[str]], tensors: Mapping[str, Tensor]
) -> None:
    for names, told in (
        ([name for name in wanted if name not in tensors], "is missing"),
        ([name for name in tensors if name not in wanted], "is one too many"),
    ):
        if names:
            others = f", and so are {len(names) - 1} others" if len(names) > 1 else ""
            raise ValueError(f"tensor {names[0]} {told}{others}")
