"""Reading a checkpoint's folder: config.json, tokenizer.json and model.safetensors.

Nothing is downloaded, and nothing in the folder can run code: it contains only text and
numbers.
"""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def read_config(folder: Path) -> dict[str, Any]:
    """Read the contents of config.json.

    Raises:
        ValueError: the folder or the file does not exist, or the file is not a JSON
            object.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    return _json(_file(folder, "config.json"))


def read_tokenizer(folder: Path) -> Tokenizer:
    """Read tokenizer.json, and turn off padding and truncation.

    Raises:
        ValueError: the file does not exist or does not contain a tokenizer.
    """
    path = _file(folder, "tokenizer.json")
    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises no more specific one
        raise ValueError(f"{path} holds no tokenizer ({error})") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Read the tensors of model.safetensors, or of the files that its index names.

    Raises:
        ValueError: a file is missing or damaged, or the index and the files disagree;
            the message names the file or the tensor.
    """
    if (folder / WHOLE).exists() or not (folder / INDEX).exists():
        return _tensors(_file(folder, WHOLE))
    path = _file(folder, INDEX)
    files = _json(path).get("weight_map")
    if not isinstance(files, dict) or not all(
        isinstance(name, str) and Path(name).name == name for name in files.values()
    ):
        raise ValueError(f"weight_map in {path} does not say which file a tensor is in")
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(files.values())):
        held = _tensors(_file(folder, name))
        for tensor in {t for t in files if files[t] == name} ^ set(held):
            what = "says that" if tensor not in held else "does not say that"
            raise ValueError(f"{path} {what} tensor {tensor} is in {name}")
        tensors |= held
    return tensors


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise ValueError(f"there is no file {name} in {folder}")
    return folder / name


def _json(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON ({error})") from error
    if not isinstance(said, dict):
        raise ValueError(f"{path} has no names and values")
    return said


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or of another format ({error})") from error
