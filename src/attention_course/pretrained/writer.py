"""Writing with a checkpoint: a prompt in, the prompt and what comes after it out."""

from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from tokenizers import Tokenizer

from attention_course.compiled import Compiled
from attention_course.decoding import greedy, sample
from attention_course.pretrained.config import Config, whole
from attention_course.pretrained.families import find_family, load
from attention_course.pretrained.folder import (
    read_config,
    read_tensors,
    read_tokenizer,
)
from attention_course.transformer import TransformerLM


class Writer(NamedTuple):
    """A language model that knows its vocabulary.

    Attributes:
        model: in eval mode, or one with compiled steps.
        size: how many tokens the model has.
        tokenizer: makes ids of texts and texts of ids.
        max_length: the longest text that the model was made for, in tokens.
        begin: the token that an empty prompt begins with, if there is one.
        ends: the tokens that end a text.
    """

    model: TransformerLM | Compiled
    size: int
    tokenizer: Tokenizer
    max_length: int
    begin: int | None
    ends: tuple[int, ...]

    def compiled(self) -> "Writer":
        """Compile the steps in which it writes."""
        return self._replace(model=Compiled(self.model))

    def write(
        self,
        prompt: str,
        max_tokens: int,
        temperature: float | None = None,
        top_k: int | None = None,
        seed: int = 0,
    ) -> str:
        """Go on with a prompt.

        Args:
            prompt: how the text begins.
            max_tokens: tokens to write, fewer where the text ends.
            temperature: see `sample`; None: the likeliest token is taken every time.
            top_k: see `sample`.
            seed: of the chance.

        Returns:
            The prompt and what comes after it, as the tokenizer writes them.

        Raises:
            ValueError: prompt and tokens are longer than what the model was made for,
                the prompt is empty or of tokens that the model does not have, or what
                `sample` raises.
        """
        first, *rest = ids = self._read(prompt)
        if len(ids) + max_tokens > self.max_length:
            raise ValueError(
                f"a prompt of {len(ids)} tokens and {max_tokens} more are too long for"
                f" a model of {self.max_length}"
            )
        device = next(self.model.parameters()).device
        asked: dict[str, Any] = {
            "model": self.model,
            "source": torch.tensor([rest], dtype=torch.long, device=device),
            "lengths": torch.tensor([len(rest)], device=device),
            "bos": first,
            "eos": self.ends[0] if self.ends else -1,
            "max_length": max_tokens,
        }
        if temperature is None:
            decoded = greedy(**asked)
        else:
            generator = torch.Generator(device).manual_seed(seed)
            decoded = sample(
                **asked, temperature=temperature, top_k=top_k, generator=generator
            )
        for token in decoded.tokens[0].tolist():
            if token in self.ends:
                break
            ids.append(token)
        return self.tokenizer.decode(ids)

    def _read(self, prompt: str) -> list[int]:
        ids = self.tokenizer.encode(prompt).ids
        if not ids:
            if self.begin is None:
                raise ValueError("there is nothing to go on with: the prompt is empty")
            ids = [self.begin]
        if max(ids) >= self.size:
            raise ValueError(
                f"the prompt has token {max(ids)}, but the model has {self.size}"
                " tokens: the tokenizer is another model's"
            )
        return ids


def read_writer(folder: Path, device: torch.device | str = "cpu") -> Writer:
    """Read a checkpoint of GPT-2 or Llama as transformers saves it.

    Args:
        folder: has config.json, tokenizer.json, and model.safetensors or an index of
            several such files.
        device: where to compute.

    Returns:
        What writes.

    Raises:
        ValueError: a file is missing or damaged, the model is of another family, or its
            tensors are not those that it says; the file or the tensor is named.
    """
    config = read_config(folder)
    try:
        family = find_family(config)
        if not family.writes:
            raise ValueError(
                f"a model of the family {config['model_type']} fills gaps in a text and"
                " cannot go on with one"
            )
        max_length = whole(config, family.length)
        begins = _tokens(config, "bos_token_id")
        ends = _tokens(config, "eos_token_id")
        tokenizer = read_tokenizer(folder)
        model = cast(TransformerLM, load(config, read_tensors(folder)))
    except ValueError as error:
        where = "" if str(folder) in str(error) else f"{folder}: "
        raise ValueError(f"{where}{error}") from error
    begin = begins[0] if begins else None
    size = model.head.out_features
    return Writer(model.to(device), size, tokenizer, max_length, begin, ends)


def _tokens(config: Config, name: str) -> tuple[int, ...]:
    """Return the tokens of a name: none, one, or a list of them.

    Raises:
        ValueError: they are no ids.
    """
    said = config.get(name)
    tokens = [] if said is None else said if isinstance(said, list) else [said]
    for token in tokens:
        if not isinstance(token, int) or isinstance(token, bool) or token < 0:
            raise ValueError(f"{name} in config.json is the id of a token, got {said}")
    return tuple(tokens)
