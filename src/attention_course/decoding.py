"""Decoding: greedy search, sampling (temperature, top-k) and beam search.

They work with any model that has `encode`, `start` and `step`.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attention_course.cache import Lineage, make_room, reorder
from attention_course.seq2seq import select

# Steps between two checks of whether all sentences have ended, because each check waits
# for the device. On a CPU, there is a check at every step.
LOOK_EVERY = 16


@runtime_checkable
class Model(Protocol):
    """What decoding needs from a model: an `EncoderDecoder`, or a language model.

    The source of a language model is its prompt.

    Decoding calls the model in `torch.inference_mode()`. The tensors that decoding
    returns are ordinary ones; but if the model itself, or a hook, keeps a tensor from
    such a call, it has to be cloned before gradients can flow through it.
    """

    def encode(self, source: Tensor, lengths: Tensor) -> Any:
        """Encode the source once."""

    def start(self, memory: Any) -> Any:
        """Return the cache before the first step."""

    def step(
        self, token: Tensor, memory: Any, cache: Any
    ) -> tuple[Tensor, Tensor | None, Any]:
        """Predict one token."""


class Decoded(NamedTuple):
    """What decoding returns.

    Attributes:
        tokens: (B, T), token ids; after a sentence's EOS, EOS is repeated.
        weights: (B, T, S), the attention weights of each step; None from a Transformer,
            which returns weights on request only: put BOS in front of the tokens, leave
            out the last one, and call the model with `need_weights=True`.
        scores: (B,), the log-probability of each sentence, in nats; `beam_search`
            divides it by its length penalty.
    """

    tokens: Int[Tensor, "B T"]
    weights: Float[Tensor, "B T S"] | None
    scores: Float[Tensor, " B"]


def _without_gradients(search: Callable[..., Decoded]) -> Callable[..., Decoded]:
    """Search in inference mode, which is faster than `no_grad`.

    The returned tensors can be used in training.
    """

    @functools.wraps(search)
    def run(*args: Any, **kwargs: Any) -> Decoded:
        with torch.inference_mode():
            tokens, weights, scores = search(*args, **kwargs)
        return Decoded(
            tokens.clone(), None if weights is None else weights.clone(), scores.clone()
        )

    return run


def greedy(
    model: Model,
    source: Shaped[Tensor, "B ..."],
    lengths: Int[Tensor, " B"],
    bos: int,
    eos: int,
    max_length: int,
) -> Decoded:
    """Take the most probable token at every step, for a batch of sources at once.

    Args:
        model: switch it to `eval()` first.
        source: the model's input; see `EncoderDecoder.encode`.
        lengths: tokens in each source.
        bos: id of the token that starts a target.
        eos: id of the token that ends a target.
        max_length: steps after which decoding stops even without EOS.

    Returns:
        Tokens, weights and scores of T <= `max_length` steps.

    Raises:
        ValueError: `max_length` is below 1.
    """
    return _one_by_one(
        model,
        source,
        lengths,
        bos,
        eos,
        max_length,
        lambda logits: logits.argmax(dim=-1),
    )


def sample(
    model: Model,
    source: Shaped[Tensor, "B ..."],
    lengths: Int[Tensor, " B"],
    bos: int,
    eos: int,
    max_length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> Decoded:
    r"""Draw every token at random, with the probabilities that the model gives.

    .. math:: P(y_t = v) = \mathrm{softmax}_v(z_{tv} / \tau)

    Args:
        model: switch it to `eval()` first.
        source: the model's input; see `EncoderDecoder.encode`.
        lengths: tokens in each source.
        bos: id of the token that starts a target.
        eos: id of the token that ends a target.
        max_length: steps after which decoding stops even without EOS.
        temperature: tau; as it approaches 0, sampling becomes `greedy`; above 1,
            improbable tokens are drawn more often.
        top_k: draw only among this many most probable tokens (Fan et al., 2018, Section
            5.2); None = among all.
        generator: the random number generator, on the model's device.

    Returns:
        Tokens, weights and scores of T <= `max_length` steps. The scores are those of
        the model itself, at temperature 1.

    Raises:
        ValueError: `max_length` is below 1, `temperature` is not above 0, or `top_k` is
            not between 1 and V.
    """
    if not temperature > 0:
        raise ValueError(f"a temperature is above 0, got {temperature}")

    def draw(logits: Tensor) -> Tensor:
        if top_k is not None:
            if not 1 <= top_k <= logits.size(-1):
                raise ValueError(
                    f"cannot draw among the {top_k} likeliest of {logits.size(-1)}"
                    " tokens"
                )
            best = logits.topk(top_k)
            logits = torch.full_like(logits, -math.inf).scatter(
                -1, best.indices, best.values
            )
        # A constant does not change the softmax; subtracting the largest logit prevents
        # an overflow at a low temperature.
        odds = ((logits - logits.amax(dim=-1, keepdim=True)) / temperature).softmax(
            dim=-1
        )
        return torch.multinomial(odds[:, 0], 1, generator=generator)  # (B, 1)

    return _one_by_one(model, source, lengths, bos, eos, max_length, draw)


def gnmt_length_penalty(
    length: Int[Tensor, "..."], alpha: float
) -> Float[Tensor, "..."]:
    r"""Compensate for the probability that every further token costs.

    Without it, the shortest sentence would be the most probable.

    .. math:: lp(Y) = (5 + |Y|)^\alpha / (5 + 1)^\alpha

    Wu et al. (2016), Section 7, where Y is the sentence and log P(Y) / lp(Y) its score.

    Args:
        length: |Y|, in tokens, including EOS.
        alpha: 0 = no penalty; the paper found 0.2 best.

    Returns:
        The number to divide a log-probability by; 1 for a sentence of one token.
    """
    return ((5 + length) / 6) ** alpha


@_without_gradients
def beam_search(
    model: Model,
    source: Shaped[Tensor, "B ..."],
    lengths: Int[Tensor, " B"],
    bos: int,
    eos: int,
    max_length: int,
    beam_size: int,
    length_penalty: float = 0.0,
) -> Decoded:
    """Keep the `beam_size` best hypotheses for each sentence of a batch.

    A hypothesis that has ended stays in the beam as long as its score is among the
    best, so a beam of one is `greedy`. Graves (2012), Section 2.5; Sutskever et al.
    (2014), Section 3.2.

    Args:
        model: switch it to `eval()` first.
        source: the model's input; see `EncoderDecoder.encode`.
        lengths: tokens in each source.
        bos: id of the token that starts a target.
        eos: id of the token that ends a target.
        max_length: steps after which decoding stops even without EOS.
        beam_size: K, hypotheses per sentence.
        length_penalty: alpha, see `gnmt_length_penalty`.

    Returns:
        The tokens, weights and score of each source's best hypothesis, over T <=
        `max_length` steps.

    Raises:
        ValueError: `max_length` or `beam_size` is below 1, or the length penalty is not
            a finite number.
    """
    _check_steps(max_length)
    if beam_size < 1:
        raise ValueError(f"a beam holds at least 1 sentence, got beam_size {beam_size}")
    if not math.isfinite(length_penalty):
        raise ValueError(f"a length penalty is a number, got {length_penalty}")
    batch = torch.arange(source.size(0), device=source.device)
    # Row b K + k of memory, cache and tokens is beam k of sentence b.
    memory = select(model.encode(source, lengths), batch.repeat_interleave(beam_size))
    cache = model.start(memory)
    lineage = Lineage(len(batch) * beam_size, source.device)
    token = source.new_full((len(batch) * beam_size, 1), bos, dtype=torch.long)
    log_probs = torch.zeros(len(batch), beam_size, device=source.device)
    log_probs[:, 1:] = -math.inf  # all beams start out the same: keep one
    length = torch.zeros(log_probs.shape, dtype=torch.long, device=source.device)
    ended = torch.zeros(log_probs.shape, dtype=torch.bool, device=source.device)

    end = _End(source.device)
    steps: list[tuple[Tensor, Tensor, Tensor | None]] = []
    best_scores: list[Tensor] = []
    for _ in range(max_length):
        logits, weights, cache = model.step(token, memory, cache)
        gains = _log_probabilities(logits).unflatten(0, (-1, beam_size))  # (B, K, V)
        gains = gains.masked_fill(ended[..., None], -math.inf)
        # a hypothesis that has ended continues with EOS, at no cost
        gains[..., eos].masked_fill_(ended, 0.0)
        length = length + ~ended
        candidates = log_probs[..., None] + gains
        scores, best = (
            (candidates / gnmt_length_penalty(length, length_penalty)[..., None])
            .flatten(1)
            .topk(beam_size)
        )
        beam, token = best // gains.size(-1), best % gains.size(-1)  # (B, K)

        log_probs, length = (
            candidates.flatten(1).gather(1, best),
            length.gather(1, beam),
        )
        ended = ended.gather(1, beam) | (token == eos)
        parent = (batch[:, None] * beam_size + beam).flatten()  # (B K)
        token = token.view(-1, 1)  # (B K, 1)
        if not steps:
            cache = _room(model)(cache, max_length - 1)
        cache = reorder(cache, parent, lineage.changed(parent))
        steps.append((parent, token, weights))
        best_scores.append(scores[:, 0])
        if end.reached(ended):
            break

    needed = end.steps()
    row = batch * beam_size
    tokens: list[Tensor] = []
    looked: list[Tensor | None] = []
    # from the best sentence's last token back to its first
    for parent, token, weights in reversed(steps[:needed]):
        tokens.append(token[row])
        row = parent[row]
        looked.append(select(weights, row))
    return _joined(tokens[::-1], looked[::-1], best_scores[needed - 1])


@_without_gradients
def _one_by_one(
    model: Model,
    source: Tensor,
    lengths: Tensor,
    bos: int,
    eos: int,
    max_length: int,
    choose: Callable[[Tensor], Tensor],
) -> Decoded:
    """Let `choose` turn logits (B, 1, V) into tokens (B, 1) until all have ended."""
    _check_steps(max_length)
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = source.new_full((source.size(0), 1), bos, dtype=torch.long)
    ended = torch.zeros_like(token, dtype=torch.bool)
    end = _End(source.device)
    tokens: list[Tensor] = []
    weights: list[Tensor | None] = []
    gains: list[Tensor] = []
    for _ in range(max_length):
        logits, step_weights, cache = model.step(token, memory, cache)
        if not tokens:
            cache = _room(model)(cache, max_length - 1)
        token = choose(logits).masked_fill(ended, eos)  # (B, 1)
        tokens.append(token)
        weights.append(step_weights)
        gains.append(
            _log_probabilities(logits).gather(1, token).masked_fill(ended, 0.0)
        )
        ended = ended | (token == eos)
        if end.reached(ended):
            break
    needed = end.steps()
    scores = torch.cat(gains[:needed], dim=1).sum(dim=1)
    return _joined(tokens[:needed], weights[:needed], scores)


class _End:
    """Find out when all sentences have ended, while rarely waiting for a device.

    Steps taken in the meantime are cut off again.
    """

    def __init__(self, device: torch.device):
        self._every = 1 if device.type == "cpu" else LOOK_EVERY
        self._flags: list[Tensor] = []  # after each step, whether all had ended

    def reached(self, ended: Tensor) -> bool:
        """Record which sentences have ended after a step, and say whether to stop."""
        self._flags.append(ended.all())
        return len(self._flags) % self._every == 0 and bool(_read(self._flags[-1]))

    def steps(self) -> int:
        """Return the steps until all had ended, or all steps if some have not."""
        taken = len(self._flags)
        if self._every == 1:
            return taken
        going_on = _read((~torch.stack(self._flags)).sum())
        return min(taken, 1 + going_on)


def _read(value: Tensor) -> int:
    """Fetch a number; nowhere else does decoding wait for a device."""
    return int(value)


def _room(model: Model) -> Callable[[Any, int], Any]:
    # A model that reads whole buffers allocates them itself: see `Compiled`.
    return getattr(model, "make_room", make_room)


def _log_probabilities(logits: Tensor) -> Tensor:
    # In half precision, many different probabilities would become equal.
    dtype = torch.promote_types(logits.dtype, torch.float32)
    return logits[:, 0].log_softmax(dim=-1, dtype=dtype)  # (B, V)


def _joined(
    tokens: list[Tensor], weights: list[Tensor | None], scores: Tensor
) -> Decoded:
    looked = [step for step in weights if step is not None]
    return Decoded(
        torch.cat(tokens, dim=1), torch.cat(looked, dim=-2) if looked else None, scores
    )


def _check_steps(max_length: int) -> None:
    if max_length < 1:
        raise ValueError(f"decoding takes at least 1 step, got max_length {max_length}")
