"""Interactive figures: a trained model with compressed weights, or numbers to change.

The book's scripts run them in a browser (`book/live/`). Figures that do not respond are
in `plotting`.
"""

import html
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, cast

import torch
from tokenizers import Tokenizer
from torch import Tensor

from attention_course.attention import MultiHeadAttention
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.core import BOS, EOS, SPECIALS, UNK
from attention_course.tasks.sequences import SequenceTask
from attention_course.transformer import TransformerDecoder, TransformerLM

LARGEST = 127  # the largest code of 8 bits
RESPONDS = "On the book's page this figure responds to you, if JavaScript is on."


def pack(
    state: Mapping[str, Tensor], bits: Literal[8, 16] = 8
) -> dict[str, dict[str, Any]]:
    """Pack parameters into few bytes.

    Eight bits round each row of a matrix to 255 values, scaled by its largest entry;
    sixteen bits are half precision.

    Args:
        state: names and parameters, matrices or vectors; a vector is one row.
        bits: bits per number.

    Returns:
        For each name, a dictionary for JSON: `shape`, `codes` in base64 and, with eight
        bits, `scales`, one per row. See `unpack`.
    """
    packed = {}
    for name, tensor in state.items():
        rows = tensor.detach().reshape(-1, tensor.size(-1))
        part: dict[str, Any] = {"shape": list(tensor.shape)}
        if bits == 8:
            # rounded as in the JSON, so that codes and scales agree
            scales = [float(f"{x / LARGEST:.7g}") for x in rows.abs().amax(-1).tolist()]
            steps = torch.tensor(scales)[:, None].clamp(min=1e-30)
            codes = (rows / steps).round().clamp(-LARGEST, LARGEST).to(torch.int8)
            part["scales"] = scales
        else:
            codes = rows.to(torch.float16)
        packed[name] = part | {"codes": b64encode(codes.numpy().tobytes()).decode()}
    return packed


def unpack(packed: Mapping[str, Mapping[str, Any]]) -> dict[str, Tensor]:
    """Return the parameters that a page computes with, as `pack` has rounded them."""
    state = {}
    for name, part in packed.items():
        codes = bytearray(b64decode(part["codes"]))
        if "scales" in part:
            rows = torch.frombuffer(codes, dtype=torch.int8).view(
                len(part["scales"]), -1
            )
            numbers = rows * torch.tensor(part["scales"])[:, None]
        else:
            numbers = torch.frombuffer(codes, dtype=torch.float16).float()
        state[name] = numbers.view(part["shape"])
    return state


def figure(
    name: str,
    model: EncoderDecoder,
    task: SequenceTask,
    label: str,
    examples: Sequence[str],
) -> str:
    """Write a figure in which the reader types a source and sees where `model` attends.

    Args:
        name: the model's name, for the pages that show it.
        model: Bahdanau's, with one layer, GRUs and the additive score; or a Transformer
            with pre-norm blocks and sinusoidal positions.
        task: what the model reads and writes, characters or words.
        label: what to type, in words.
        examples: sources to choose from; the first one is filled in.

    Returns:
        HTML with the model's weights in it. The book's builder moves them into a file
        that is loaded when the reader first touches the figure.
    """
    kind: dict[str, Any] = {"kind": "bahdanau"}
    if isinstance(model.decoder, TransformerDecoder):
        attention = cast(MultiHeadAttention, model.decoder.blocks[0].self_attention)
        kind = {
            "kind": "transformer",
            "layers": len(model.decoder.blocks),
            "heads": attention.num_heads,
        }
    weights = kind | {
        # with eight bits, attention maps of a Transformer are off by .05
        "parameters": pack(model.state_dict(), 16 if "heads" in kind else 8),
        "words": any(
            len(t) > 1 for t in task.source_vocabulary.tokens[len(SPECIALS) :]
        ),
        "source": task.source_vocabulary.tokens,
        "target": task.target_vocabulary.tokens,
        "bos": BOS,
        "eos": EOS,
        "unknown": UNK,
        "longest": max(len(example.source) for example in task.train),
        "steps": 2 * max(len(example.target) for example in task.train),
    }
    return again(name, label, examples).replace(
        "</div>",
        f'<script type="application/json">{json.dumps(weights)}</script></div>',
    )


def writer(
    name: str,
    model: TransformerLM,
    tokenizer: Tokenizer,
    label: str,
    examples: Sequence[str],
) -> str:
    """Write a figure in which the reader types a prompt and `model` continues it.

    Args:
        name: the model's name.
        model: built like `models.gpt2`, with its embedding tied to its output layer.
        tokenizer: of byte-pair pieces, from `tasks.writing.learn_pieces`.
        label: what to type, in words.
        examples: prompts to choose from; the first one is filled in.

    Returns:
        HTML, see `figure`.
    """
    pieces = json.loads(tokenizer.to_str())["model"]
    attention = cast(MultiHeadAttention, model.blocks[0].self_attention)
    state = {
        key: part for key, part in model.state_dict().items() if key != "head.weight"
    }
    weights = {
        "parameters": pack(state),
        "pieces": sorted(pieces["vocab"], key=pieces["vocab"].get),
        "merges": [" ".join(pair) for pair in pieces["merges"]],
        "special": len(SPECIALS),
        "bos": BOS,
        "eos": EOS,
        "layers": len(model.blocks),
        "heads": attention.num_heads,
        "window": state["embedding.positions.table.weight"].size(0),
    }
    return again(name, label, examples, "writer").replace(
        "</div>",
        f'<script type="application/json">{json.dumps(weights)}</script></div>',
    )


def again(name: str, label: str, examples: Sequence[str], kind: str = "live") -> str:
    """Write the figure of a model whose weights are on another page."""
    listed = html.escape(json.dumps(list(examples)))
    return (
        f'<div class="{kind}" data-model="{html.escape(name)}"'
        f' data-label="{html.escape(label)}" data-example="{html.escape(examples[0])}"'
        f' data-examples="{listed}"><p>{RESPONDS}</p></div>'
    )


def sliders(kind: str, title: str, choice: str = "", **numbers: Any) -> str:
    """Write a figure with sliders, cells to switch or points to drag.

    Args:
        kind: one of the kinds in `book/live/kinds/`.
        title: what to do, in words.
        choice: label of the choice, for a kind that has one.
        **numbers: the data of the figure: numbers, texts and lists of them.

    Returns:
        HTML. Without JavaScript, the figure is a table of the numbers.
    """
    written = html.escape(json.dumps(numbers))
    return (
        f'<div class="touch" data-kind="{html.escape(kind)}"'
        f' data-title="{html.escape(title)}" data-choice="{html.escape(choice)}"'
        f' data-numbers="{written}"><p>{html.escape(title)}. {RESPONDS}</p>'
        f"{_still(numbers)}</div>"
    )


def _still(numbers: Mapping[str, Any]) -> str:
    """Write lists as the columns of a table, or frames as its rows."""
    if "frames" in numbers:
        header = ["", "", ""]
        rows = [
            [choice, frame["name"], frame["says"]]
            for choice, frames in numbers["frames"].items()
            for frame in frames
        ]
    else:
        columns = {
            name: value for name, value in numbers.items() if isinstance(value, list)
        }
        header = list(columns)
        rows = [list(row) for row in zip_longest(*columns.values(), fillvalue="")]
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(x))}</td>" for x in row) + "</tr>"
        for row in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
    return f"<table>{top}<tbody>{body}</tbody></table>"
