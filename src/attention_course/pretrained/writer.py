"""Text generation with a checkpoint: a prompt in, the text and its continuation out."""

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
    """A language model with its tokenizer.

    Attributes:
        model: in eval mode, or with compiled steps.
        size: number of tokens in the model's vocabulary.
        tokenizer: turns texts into ids and ids into texts.
        max_length: the longest text that the model was made for, in tokens.
        begin: the token with which an empty prompt begins, if there is one.
        ends: the tokens that end a text.
    """

    model: TransformerLM | Compiled
    size: int
    tokenizer: Tokenizer
    max_length: int
    begin: int | None
    ends: tuple[int, ...]

    def compiled(self) -> "Writer":
        """Compile the decoding steps of the model."""
        return self._replace(model=Compiled(self.model))

    def write(
        self,
        prompt: str,
        max_tokens: int,
        temperature: float | None = None,
        top_k: int | None = None,
        seed: int = 0,
    ) -> str:
        """Continue a prompt.

        Args:
            prompt: the beginning of the text.
            max_tokens: number of tokens to write, or fewer if the text ends.
            temperature: see `sample`; None: take the most probable token every time.
            top_k: see `sample`.
            seed: seed of the random numbers.

        Returns:
            The prompt and its continuation, as the tokenizer writes them.

        Raises:
            ValueError: the prompt and the new tokens are longer than the model allows,
                the prompt is empty or has tokens that the model lacks, or what `sample`
                raises.
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
    """Read a checkpoint of GPT-2 or Llama, as saved by the library transformers.

    Args:
        folder: contains config.json, tokenizer.json, and model.safetensors or an index
            of several such files.
        device: where to compute.

    Returns:
        The model and its tokenizer, ready to write.

    Raises:
        ValueError: a file is missing or damaged, the model is of another family, or its
            tensors do not match its configuration; the message names the file or the
            tensor.
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
    """Return the token ids under a name: none, one, or a list of them.

    Raises:
        ValueError: they are not ids.
    """
    said = config.get(name)
    tokens = [] if said is None else said if isinstance(said, list) else [said]
    for token in tokens:
        if not isinstance(token, int) or isinstance(token, bool) or token < 0:
            raise ValueError(f"{name} in config.json is the id of a token, got {said}")
    return tuple(tokens)
