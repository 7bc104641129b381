"""What lab06_transformer asks: blocks, a step of training, and a writer that never reads a word of its own twice."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_course import decoding, masks, transformer
from attention_course.attention import KeyValue
from attention_course.masks import causal_mask, padding_mask
from attention_course.questions.core import Finding, Misconception, Property, Question, Reply, Request
from attention_course.questions.inputs import manners, normal, parameters, some_allowed
from attention_course.questions.judges import good_manners, of_output, same_gradients, same_numbers
from attention_course.questions.signs import ANYWHERE, close, comparable, error_like, wrong_output
from attention_course.tasks.core import PAD
from attention_course.tasks.sequences import Batch
from attention_course.transformer import SinusoidalPositions, TransformerMemory

B, H, T, S, P, DH, HIDDEN, V = 2, 3, 5, 7, 4, 4, 10, 11
D = H * DH
MASK = "notation.html#notation-mask"
BLOCK = "13_transformer.html#transformer-stream"
SOURCE = "13_transformer.html#transformer-decoder"
FORCING = "02_encoder_decoder.html#encoder-decoder-forcing"
PADDING = "04_soft_lookup.html#soft-lookup-padding"
WRITING = "14_decoding.html#decoding-greedy"
CACHE = "14_decoding.html#decoding-cache"


def _as_length(number: int) -> Tensor:
    """Let a number travel as the length of an axis: that it keeps on every device."""
    return torch.empty(number, 0)


def _tensors(tree: Any) -> Iterator[Tensor]:
    """Go through the tensors of nested tuples."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, tuple | list):
        for part in tree:
            yield from _tensors(part)


def _flat(tree: Any) -> Any:
    return None if tree is None else tuple(_tensors(tree))


# --- causal_mask ----------------------------------------------------------------------------------------------------


def _use_mask(mask: Callable[..., Tensor], positions: Tensor) -> Tensor:
    size, device = positions.size(0), positions.device
    return mask(size) if device.type == "cpu" else mask(size, device)


def _sizes(g: torch.Generator) -> Iterator[Request]:
    yield Request((_as_length(T),))
    yield Request((_as_length(1),))


def _elsewhere(g: torch.Generator) -> Iterator[Request]:
    yield Request((_as_length(T),), device="meta")


def _same_mask(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.outputs and reply.outputs[0].dtype != torch.bool:
        return Finding(f"{reply.outputs[0].dtype}", f"{torch.bool}")
    wanted = reference._replace(outputs=tuple(x.to(torch.float64) for x in reference.outputs))
    if finding := same_numbers(request, reply, wanted):
        counts = "entries" in finding.seen and not reply.error
        wrong = int((reply.outputs[0] != reference.outputs[0]).sum()) if counts else 0
        return Finding(f"{wrong} entries wrong", "none") if counts else finding
    return None


def _on_its_device(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error:
        return Finding(reply.error, f"no error on device {request.device}")
    devices = [output.device.type for output in reply.outputs]
    return None if devices == [request.device] else Finding(f"device {', '.join(devices)}", request.device)


CAUSAL_MASK = Question(
    name="causal_mask",
    reference=masks.causal_mask,
    use=_use_mask,
    properties=(
        Property("each position sees itself and what came before", 1, _sizes, _same_mask),
        Property("made on the device that is asked for", 1, _elsewhere, _on_its_device),
    ),
    misconceptions=(
        Misconception(
            "the upper triangle",
            "Rows ask, columns are asked: row t is True up to column t, not from there on.",
            MASK,
            lambda size, device=None: torch.ones(size, size, dtype=torch.bool, device=device).triu(),
        ),
        Misconception(
            "a position does not see itself",
            "The diagonal is allowed: without it the first position could attend to nothing.",
            MASK,
            lambda size, device=None: torch.ones(size, size, dtype=torch.bool, device=device).tril(-1),
        ),
        Misconception(
            "one position too far",
            "Position t + 1 is what position t has to predict: it is not allowed.",
            MASK,
            lambda size, device=None: torch.ones(size, size, dtype=torch.bool, device=device).tril(1),
        ),
        Misconception(
            "the mask inside out",
            "In this course True means: may attend.",
            MASK,
            lambda size, device=None: torch.ones(size, size, dtype=torch.bool, device=device).triu(1),
        ),
        Misconception(
            "nothing is forbidden",
            "What comes after a position may not be seen from it.",
            MASK,
            lambda size, device=None: torch.ones(size, size, dtype=torch.bool, device=device),
        ),
        Misconception(
            "a mask of numbers",
            "A mask is made of True and False: its dtype is torch.bool.",
            MASK,
            sign=lambda request, reply, reference: bool(reply.outputs) and reply.outputs[0].dtype != torch.bool,
        ),
        Misconception(
            "a tensor made on the default device",
            "The mask is made where `device` says.",
            sign=lambda request, reply, reference: (
                bool(reply.outputs) and reply.outputs[0].device.type != request.device
            ),
        ),
        Misconception(
            "another triangle",
            "Write the 3 x 3 mask down by hand: one True in the first row, three in the last.",
            MASK,
            sign=wrong_output(lambda given, wanted: given.shape == wanted.shape),
        ),
        *ANYWHERE,
    ),
)


# --- encoder_block --------------------------------------------------------------------------------------------------

STATES = 0
PRE_NORM, POST_NORM = (D, H, HIDDEN, 0, 1), (D, H, HIDDEN, 0, 0)
ALL_DROPPED = (D, H, HIDDEN, 1, 1)  # nothing that a sub-layer says gets through


def _with_switches(block: Any, dim: int, num_heads: int, hidden_dim: int, dropout: int, pre_norm: int) -> Any:
    return block(dim, num_heads, hidden_dim, float(dropout), bool(pre_norm))


class _EncoderBlock(transformer.EncoderBlock):
    """The course's block in pieces that a misconception can replace."""

    def forward(self, x: Tensor, mask: Tensor | None = None, past: KeyValue | None = None) -> Any:
        query = self.read(x)
        seen = self.self_attention.remember(*self.keep(x, query))
        context, _ = self.self_attention.ask(query, seen, self.allow(mask), need_weights=False)
        return self.think(x, self.add(x, query, context)), seen

    def read(self, x: Tensor) -> Tensor:
        return self.around_self.before(x)

    def keep(self, x: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        return query, query

    def allow(self, mask: Tensor | None) -> Tensor | None:
        return mask

    def add(self, x: Tensor, query: Tensor, context: Tensor) -> Tensor:
        return self.around_self.after(x, context)

    def think(self, x: Tensor, y: Tensor) -> Tensor:
        return self.around_feed_forward.after(y, self.feed_forward(self.around_feed_forward.before(y)))


def _encoder_with(**pieces: Callable[..., Any]) -> type[nn.Module]:
    return type("Wrong", (_EncoderBlock,), pieces)


def _use_encoder(block: Any, x: Tensor, mask: Tensor | None) -> Any:
    return _flat(block(x) if mask is None else block(x, mask))


def _reading(
    g: torch.Generator, mask: Tensor | None = None, init: tuple[int, ...] = PRE_NORM, gradients: bool = False
) -> Request:
    weights = parameters(g, lambda: _with_switches(transformer.EncoderBlock, *init))
    return Request((normal(g, B, T, D), mask), init, weights, gradients)


def _unmasked_blocks(g: torch.Generator) -> Iterator[Request]:
    yield _reading(g)


def _masked_blocks(g: torch.Generator) -> Iterator[Request]:
    yield _reading(g, some_allowed(g, B, T, T), gradients=True)
    yield _reading(g, padding_mask(torch.tensor([T, T - 2]), T), gradients=True)
    yield _reading(g, causal_mask(T))


def _post_norm_blocks(g: torch.Generator) -> Iterator[Request]:
    yield _reading(g, some_allowed(g, B, T, T), POST_NORM, gradients=True)
    yield _reading(g, None, ALL_DROPPED)


def _block_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_reading(g, some_allowed(g, B, 1, T)))


@comparable
def _states_right(request: Request, reply: Reply, reference: Reply) -> bool:
    return close(reply.outputs[STATES], reference.outputs[STATES])


def _has_mask(request: Request, reply: Reply, reference: Reply) -> bool:
    return any(x is not None and x.dtype == torch.bool for x in request.inputs)


def _is_post_norm(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.init == POST_NORM


def _all_dropped(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.init == ALL_DROPPED


def _other_memory(request: Request, reply: Reply, reference: Reply) -> bool:
    if request.device == "meta" or len(reply.outputs) != len(reference.outputs):
        return False
    right = [close(given, wanted) for given, wanted in zip(reply.outputs, reference.outputs)]
    return right[STATES] and not all(right[-2:])


WAY_AROUND = "What a sub-layer says is added to what went in: `after(x, ...)` with the states as they came in."
NORM_PLACE = (
    "`before` and `after` know where the norm stands: one is called on what the sub-layer reads, one on the sum."
)
DROPPED = "Training drops from what a sub-layer adds: it is the second thing that `after` takes."
THINKING = "The feed-forward network is the second sub-layer: it reads the states after the first, in the same manner."

ENCODER_BLOCK = Question(
    name="encoder_block",
    reference=transformer.EncoderBlock,
    use=_use_encoder,
    make=_with_switches,
    properties=(
        Property("the states, without a mask", 2, _unmasked_blocks, of_output(STATES, same_numbers)),
        Property("what is remembered, all gradients, padding and causal masks", 1, _masked_blocks, same_gradients),
        Property("post-norm blocks; dropout on what a sub-layer adds", 1, _post_norm_blocks, same_gradients),
        Property("inputs unchanged, dtype kept, works on any device", 1, _block_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "dropout at another place",
            DROPPED,
            BLOCK,
            _encoder_with(add=lambda self, x, query, context: self.around_self.after(context, x)),
        ),
        Misconception(
            "no way around the attention",
            WAY_AROUND,
            BLOCK,
            _encoder_with(add=lambda self, x, query, context: context),
        ),
        Misconception(
            "the way around begins behind the norm",
            WAY_AROUND + " In a pre-norm block that is x, not the normalised x.",
            BLOCK,
            _encoder_with(add=lambda self, x, query, context: self.around_self.after(query, context)),
        ),
        Misconception(
            "the attention reads what is not normalised",
            NORM_PLACE,
            BLOCK,
            _encoder_with(read=lambda self, x: x),
        ),
        Misconception(
            "keys and values of what is not normalised",
            "Queries, keys and values are maps of the same sequence: what `before` returned.",
            BLOCK,
            _encoder_with(keep=lambda self, x, query: (x, x)),
        ),
        Misconception(
            "the feed-forward network reads what is not normalised",
            NORM_PLACE,
            BLOCK,
            _encoder_with(think=lambda self, x, y: self.around_feed_forward.after(y, self.feed_forward(y))),
        ),
        Misconception(
            "no way around the feed-forward network",
            WAY_AROUND,
            BLOCK,
            _encoder_with(think=lambda self, x, y: self.feed_forward(self.around_feed_forward.before(y))),
        ),
        Misconception(
            "the feed-forward network left out",
            THINKING,
            BLOCK,
            _encoder_with(think=lambda self, x, y: y),
        ),
        Misconception(
            "both sub-layers read what came in",
            THINKING,
            BLOCK,
            _encoder_with(
                think=lambda self, x, y: self.around_feed_forward.after(
                    y, self.feed_forward(self.around_feed_forward.before(x))
                )
            ),
        ),
        Misconception(
            "one norm for both sub-layers",
            "Each sub-layer has a `Residual` of its own: around_self and around_feed_forward.",
            BLOCK,
            _encoder_with(
                think=lambda self, x, y: self.around_self.after(y, self.feed_forward(self.around_self.before(y)))
            ),
        ),
        Misconception(
            "the mask reaches nothing",
            "Hand it to `ask`.",
            MASK,
            _encoder_with(allow=lambda self, mask: None),
        ),
        Misconception(
            "the mask inside out",
            "In this course True means: may attend, and `ask` takes it as it is.",
            MASK,
            _encoder_with(allow=lambda self, mask: None if mask is None else ~mask),
        ),
        Misconception(
            "something else is remembered",
            "The states are right. What comes second is what `self_attention.remember` returned.",
            BLOCK,
            sign=_other_memory,
        ),
        *ANYWHERE,
        Misconception(
            "dropout at another place",
            DROPPED,
            BLOCK,
            sign=comparable(_all_dropped),
        ),
        Misconception(
            "the norm at another place",
            NORM_PLACE + " This block is a post-norm block.",
            BLOCK,
            sign=comparable(_is_post_norm),
        ),
        Misconception(
            "another mask",
            "Without a mask the block is right: the mask goes into `ask`, unchanged.",
            MASK,
            sign=comparable(_has_mask),
        ),
        Misconception(
            "the sub-layers are joined in another way",
            "Twice: read what `before` returns, and give `after` the states and what the sub-layer says.",
            BLOCK,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)


# --- decoder_block --------------------------------------------------------------------------------------------------


class _DecoderBlock(transformer.DecoderBlock):
    """The course's block in pieces that a misconception can replace."""

    def forward(
        self,
        x: Tensor,
        source: KeyValue,
        mask: Tensor | None = None,
        source_mask: Tensor | None = None,
        past: KeyValue | None = None,
        need_weights: bool = False,
    ) -> Any:
        x, seen = self.look_back(x, mask, past)
        x, weights = self.look_up(x, source, source_mask)
        return self.think(x), weights, seen

    def look_back(self, x: Tensor, mask: Tensor | None, past: KeyValue | None) -> tuple[Tensor, KeyValue]:
        query = self.around_self.before(x)
        seen = self.join(past, self.self_attention.remember(query, query))
        context, _ = self.self_attention.ask(query, seen, mask, need_weights=False)
        return self.around_self.after(x, context), seen

    def join(self, past: KeyValue | None, new: KeyValue) -> KeyValue:
        return new if past is None else past.extend(new)

    def look_up(self, x: Tensor, source: KeyValue, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        context, weights = self.cross_attention.ask(self.around_cross.before(x), source, mask)
        return self.around_cross.after(x, context), weights

    def think(self, x: Tensor) -> Tensor:
        return self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))


def _decoder_with(**pieces: Callable[..., Any]) -> type[nn.Module]:
    return type("Wrong", (_DecoderBlock,), pieces)


def _cross_first(self: Any, x: Tensor, source: KeyValue, mask: Any, source_mask: Any, past: Any, _: bool) -> Any:
    x, weights = self.look_up(x, source, source_mask)
    x, seen = self.look_back(x, mask, past)
    return self.think(x), weights, seen


def _side_by_side(self: Any, x: Tensor, source: KeyValue, mask: Any, source_mask: Any, past: Any, _: bool) -> Any:
    y, seen = self.look_back(x, mask, past)
    context, weights = self.cross_attention.ask(self.around_cross.before(x), source, source_mask)
    return self.think(self.around_cross.after(y, context)), weights, seen


def _masks_exchanged(self: Any, x: Tensor, source: KeyValue, mask: Any, source_mask: Any, past: Any, _: bool) -> Any:
    return _DecoderBlock.forward(self, x, source, source_mask, mask, past)


def _self_with_source_projections(self: Any, x: Tensor, mask: Any, past: Any) -> Any:
    query = self.around_self.before(x)
    seen = self.join(past, self.cross_attention.remember(query, query))
    context, _ = self.cross_attention.ask(query, seen, mask)
    return self.around_self.after(x, context), seen


def _use_decoder(
    block: Any,
    x: Tensor,
    source_key: Tensor,
    source_value: Tensor,
    mask: Tensor | None,
    source_mask: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    need_weights: Tensor | None,
) -> Any:
    past = None if past_key is None or past_value is None else KeyValue(past_key, past_value)
    wanted = need_weights is not None
    out = block(x, KeyValue(source_key, source_value), mask, source_mask, past, wanted)
    if isinstance(out, tuple) and len(out) == 3 and not wanted:
        out = out[0], out[2]
    return _flat(out)


def _heads(g: torch.Generator, positions: int) -> tuple[Tensor, Tensor]:
    return normal(g, B, H, positions, DH), normal(g, B, H, positions, DH)


def _writing(
    g: torch.Generator,
    mask: Tensor | None = None,
    source_mask: Tensor | None = None,
    past: int = 0,
    tokens: int = T,
    init: tuple[int, ...] = PRE_NORM,
    gradients: bool = False,
    need_weights: bool = False,
) -> Request:
    weights = parameters(g, lambda: _with_switches(transformer.DecoderBlock, *init))
    pasts = _heads(g, past) if past else (None, None)
    look = _as_length(1) if need_weights else None
    inputs = (normal(g, B, tokens, D), *_heads(g, S), mask, source_mask, *pasts, look)
    return Request(inputs, init, weights, gradients)


def _free_writing(g: torch.Generator) -> Iterator[Request]:
    yield _writing(g)


def _looked_at(g: torch.Generator) -> Iterator[Request]:
    yield _writing(g, need_weights=True)
    yield _writing(g, source_mask=some_allowed(g, B, 1, S), need_weights=True)


def _masked_writing(g: torch.Generator) -> Iterator[Request]:
    padding = padding_mask(torch.tensor([S, S - 3]), S)
    yield _writing(g, causal_mask(T), padding, gradients=True)
    yield _writing(g, causal_mask(T), padding, init=POST_NORM, gradients=True)
    yield _writing(g, causal_mask(T), padding, init=ALL_DROPPED)


def _longer_writing(g: torch.Generator) -> Iterator[Request]:
    yield _writing(g, past=P, tokens=1, source_mask=some_allowed(g, B, 1, S))
    yield _writing(g, causal_mask(P + T)[P:], past=P, gradients=True)


def _writing_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_writing(g, causal_mask(P + T)[P:], some_allowed(g, B, 1, S), past=P))


@comparable
def _weight_on_padding(request: Request, reply: Reply, reference: Reply) -> bool:
    """Look for weight where the right weights are exactly zero, if weights were asked for."""
    looked = request.inputs[-1] is not None
    return looked and bool(((reference.outputs[1] == 0) & (reply.outputs[1].abs() > 1e-6)).any())


def _has_past(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.inputs[5] is not None


def _alone(request: Request, reply: Reply, reference: Reply) -> bool:
    return not _has_mask(request, reply, reference) and not _has_past(request, reply, reference)


DECODER_BLOCK = Question(
    name="decoder_block",
    reference=transformer.DecoderBlock,
    use=_use_decoder,
    make=_with_switches,
    properties=(
        Property("the states, from the sequence and the source", 2, _free_writing, of_output(STATES, same_numbers)),
        Property("the weights over the source, when they are asked for", 1, _looked_at, same_numbers),
        Property(
            "each mask where it belongs; pre-norm, post-norm, dropout; all gradients",
            1,
            _masked_writing,
            same_gradients,
        ),
        Property("what the past left is seen, and handed on with the new", 1, _longer_writing, same_gradients),
        Property("inputs unchanged, dtype kept, works on any device", 1, _writing_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "the source is asked first",
            "First the sequence asks itself, then the source, then every position thinks for itself.",
            SOURCE,
            _decoder_with(forward=_cross_first),
        ),
        Misconception(
            "both attentions read what came in",
            "The source is asked by the states after the self-attention.",
            SOURCE,
            _decoder_with(forward=_side_by_side),
        ),
        Misconception(
            "the masks exchanged",
            "`mask` is for the sequence's own positions, `source_mask` for the source's.",
            MASK,
            _decoder_with(forward=_masks_exchanged),
        ),
        Misconception(
            "one attention for both",
            "self_attention and cross_attention have maps of their own.",
            SOURCE,
            _decoder_with(look_back=_self_with_source_projections),
        ),
        Misconception(
            "the source is not asked",
            "Without cross-attention the decoder knows nothing of the source.",
            SOURCE,
            _decoder_with(
                look_up=lambda self, x, source, mask: (x, self.cross_attention.ask(x, source, mask)[1]),
            ),
        ),
        Misconception(
            "no way around the cross-attention",
            WAY_AROUND,
            BLOCK,
            _decoder_with(
                look_up=lambda self, x, source, mask: self.cross_attention.ask(
                    self.around_cross.before(x), source, mask
                )
            ),
        ),
        Misconception(
            "the source is asked by what is not normalised",
            NORM_PLACE,
            BLOCK,
            _decoder_with(
                look_up=lambda self, x, source, mask: (
                    self.around_cross.after(x, self.cross_attention.ask(x, source, mask)[0]),
                    self.cross_attention.ask(x, source, mask)[1],
                )
            ),
        ),
        Misconception(
            "the past is ignored",
            "What the block returned for the positions before x comes back as `past`: `past.extend(new)` joins them.",
            CACHE,
            _decoder_with(join=lambda self, past, new: new),
        ),
        Misconception(
            "the new before the past",
            "The past comes first, as its positions do: `past.extend(new)`.",
            CACHE,
            _decoder_with(join=lambda self, past, new: new if past is None else new.extend(past)),
        ),
        Misconception(
            "a forbidden position has weight",
            "The source's mask has to reach the attention that asks the source.",
            MASK,
            sign=_weight_on_padding,
        ),
        Misconception(
            "something else is remembered",
            "The states are right. What comes last is keys and values of all target positions so far.",
            CACHE,
            sign=_other_memory,
        ),
        *ANYWHERE,
        Misconception(
            "other weights are returned",
            "The weights are those of the cross-attention, of every head: (B, H, T, S).",
            SOURCE,
            sign=lambda request, reply, reference: (
                len(reply.outputs) == len(reference.outputs) == 4
                and close(reply.outputs[STATES], reference.outputs[STATES])
                and not close(reply.outputs[1], reference.outputs[1])
            ),
        ),
        Misconception(
            "dropout at another place",
            DROPPED,
            BLOCK,
            sign=comparable(_all_dropped),
        ),
        Misconception(
            "the norm at another place",
            NORM_PLACE + " This block is a post-norm block.",
            BLOCK,
            sign=comparable(_is_post_norm),
        ),
        Misconception(
            "something is wrong with the past",
            "Without a past the block is right. New queries look at old and new keys; the old ones are not made again.",
            CACHE,
            sign=comparable(_has_past),
        ),
        Misconception(
            "something is wrong with a mask",
            "Without masks the block is right: `mask` is for the self-attention, `source_mask` for the other.",
            MASK,
            sign=comparable(_has_mask),
        ),
        Misconception(
            "the sub-layers are joined in another way",
            "Three times: read what `before` returns, and give `after` the states and what the sub-layer says.",
            BLOCK,
            sign=comparable(_alone),
        ),
    ),
)


# --- train_step -----------------------------------------------------------------------------------------------------


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, clip_norm: float) -> Tensor:
    """Update the model once, and return the loss in nats per token."""
    return _Step()(model, optimizer, batch, clip_norm)


class _Step:
    """A step of training in pieces that a misconception can replace."""

    def __call__(self, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, clip_norm: float) -> Tensor:
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        loss = self.loss(logits, batch)
        self.clear(optimizer)
        loss.backward()
        self.update(model, optimizer, clip_norm)
        return loss.detach()

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        return _loss(logits, batch.target_out)

    def clear(self, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()

    def update(self, model: nn.Module, optimizer: torch.optim.Optimizer, clip_norm: float) -> None:
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()


def _loss(logits: Tensor, target: Tensor, **options: Any) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), **{"ignore_index": PAD, **options})


def _train_with(**pieces: Callable[..., Any]) -> Callable[..., Tensor]:
    step: type[_Step] = type("Wrong", (_Step,), {name: staticmethod(piece) for name, piece in pieces.items()})
    return lambda model, optimizer, batch, clip_norm: step()(model, optimizer, batch, clip_norm)


def _clip_values(model: nn.Module, optimizer: torch.optim.Optimizer, clip_norm: float) -> None:
    nn.utils.clip_grad_value_(model.parameters(), clip_norm)
    optimizer.step()


class _Little(nn.Module):
    """A model that a step of training can be tried on: each token predicts the next, and the source helps."""

    def __init__(self, table: Tensor, reader: Tensor):
        super().__init__()
        self.table = nn.Parameter(table.detach().clone())
        self.reader = nn.Parameter(reader.detach().clone())

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor, None]:
        return self.table[target] + self.reader[source].mean(1, keepdim=True), None


def _use_train_step(
    train: Any, table: Tensor, reader: Tensor, source: Tensor, target_in: Tensor, target_out: Tensor, clip: Tensor
) -> Any:
    """Train on one batch after the other; where the parameters arrive says how each step was made."""
    model = _Little(table, reader)
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    losses = []
    with torch.enable_grad():
        for read, given, wanted in zip(source, target_in, target_out):
            lengths = torch.full((len(read),), read.size(1))
            loss = train(model, optimizer, Batch(read, lengths, given, wanted), clip.size(0) / 100)
            if loss is None:
                return None
            losses.append(torch.as_tensor(loss, dtype=table.dtype).detach())
    if not model.training:
        raise ValueError("the model came in training and was left in evaluation")
    return torch.stack(losses), model.table, model.reader


NEVER, SHORT = 1000, 2  # hundredths: no gradient here is as long as 10, and all are longer than 0.02


def _to_train(g: torch.Generator, batches: int = 1, lengths: Sequence[int] = (T, T, T), clip: int = NEVER) -> Request:
    shape = (batches, len(lengths), T)
    padding = torch.arange(T) >= torch.tensor(lengths)[:, None]
    target_in = torch.randint(4, V, shape, generator=g).masked_fill(padding, PAD)
    target_out = torch.randint(4, V, shape, generator=g).masked_fill(padding, PAD)
    source = torch.randint(4, V, (batches, len(lengths), S), generator=g)
    return Request((normal(g, V, V), normal(g, V, V), source, target_in, target_out, _as_length(clip)))


def _one_batch(g: torch.Generator) -> Iterator[Request]:
    yield _to_train(g)


def _padded_batch(g: torch.Generator) -> Iterator[Request]:
    yield _to_train(g, lengths=(T, 1, T - 2))


def _two_batches(g: torch.Generator) -> Iterator[Request]:
    yield _to_train(g, batches=3)


def _long_gradient(g: torch.Generator) -> Iterator[Request]:
    yield _to_train(g, clip=SHORT)
    yield _to_train(g, batches=2, lengths=(T, 2, T - 1), clip=SHORT)


@comparable
def _nothing_learned(request: Request, reply: Reply, reference: Reply) -> bool:
    return all(x is not None and close(given, x) for given, x in zip(reply.outputs[1:], request.inputs[:2]))


@comparable
def _loss_alone(request: Request, reply: Reply, reference: Reply) -> bool:
    return not close(reply.outputs[0], reference.outputs[0]) and all(
        map(close, reply.outputs[1:], reference.outputs[1:])
    )


@comparable
def _loss_right(request: Request, reply: Reply, reference: Reply) -> bool:
    return close(reply.outputs[0][:1], reference.outputs[0][:1])


def _padded(request: Request, reply: Reply, reference: Reply) -> bool:
    wanted = request.inputs[4]
    return wanted is not None and bool((wanted == PAD).any())


def _several(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.inputs[2] is not None and len(request.inputs[2]) > 1


def _clipped(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.inputs[5] is not None and len(request.inputs[5]) == SHORT


PER_TOKEN = "The loss is the sum over all tokens that are not PAD, divided by their number."

TRAIN_STEP = Question(
    name="train_step",
    reference=train_step,
    use=_use_train_step,
    properties=(
        Property("the loss, and the parameters after one step", 2, _one_batch, same_numbers),
        Property("padding is no part of the loss", 1, _padded_batch, same_numbers),
        Property("each step has a gradient of its own", 1, _two_batches, same_numbers),
        Property("a long gradient is cut to clip_norm", 1, _long_gradient, same_numbers),
    ),
    misconceptions=(
        Misconception(
            "loss on padding",
            PER_TOKEN,
            PADDING,
            _train_with(loss=lambda logits, batch: _loss(logits, batch.target_out, ignore_index=-100)),
        ),
        Misconception(
            "divided by padding, too",
            PER_TOKEN,
            PADDING,
            _train_with(
                loss=lambda logits, batch: _loss(logits, batch.target_out, reduction="sum") / batch.target_out.numel()
            ),
        ),
        Misconception(
            "the sum of the losses, not their mean",
            PER_TOKEN,
            FORCING,
            _train_with(loss=lambda logits, batch: _loss(logits, batch.target_out, reduction="sum")),
        ),
        Misconception(
            "mean of the sentences' means",
            PER_TOKEN + " A token of a short sentence counts no more than another.",
            PADDING,
            _train_with(
                loss=lambda logits, batch: torch.stack(
                    [F.cross_entropy(x, y, ignore_index=PAD) for x, y in zip(logits, batch.target_out)]
                ).mean()
            ),
        ),
        Misconception(
            "the token that was given is asked for",
            "What the decoder is given is target_in; what it should say, one token further, is target_out.",
            FORCING,
            _train_with(loss=lambda logits, batch: _loss(logits, batch.target_in)),
        ),
        Misconception(
            "softmax before cross-entropy",
            "F.cross_entropy takes logits, and makes its own softmax.",
            FORCING,
            _train_with(loss=lambda logits, batch: _loss(logits.softmax(-1), batch.target_out)),
        ),
        Misconception(
            "gradients of earlier steps added",
            "backward adds to what is there: zero_grad comes before it.",
            "",
            _train_with(clear=lambda optimizer: None),
        ),
        Misconception(
            "the gradient is not cut",
            "nn.utils.clip_grad_norm_ shortens the gradient of all parameters together: after backward, before step.",
            "",
            _train_with(update=lambda model, optimizer, clip_norm: optimizer.step()),
        ),
        Misconception(
            "each number of the gradient is cut",
            "It is the length of the gradient that may be clip_norm at most: the direction stays.",
            "",
            _train_with(update=_clip_values),
        ),
        Misconception(
            "the model is switched to evaluation",
            "model.eval() switches dropout off, which belongs to training: a step of training leaves the mode alone.",
            sign=error_like("left in evaluation"),
        ),
        Misconception(
            "nothing is learned",
            "The parameters are what they were: is there a gradient when the optimizer makes its step?",
            "",
            sign=_nothing_learned,
        ),
        Misconception(
            "another loss is returned",
            "The parameters are right. What is returned is the loss that backward was called on, in nats per token.",
            FORCING,
            sign=_loss_alone,
        ),
        Misconception(
            "something is wrong with the padding",
            PER_TOKEN,
            PADDING,
            sign=comparable(_padded),
        ),
        Misconception(
            "something is wrong with the length of the gradient",
            "clip_norm is the longest allowed gradient, over all parameters together.",
            "",
            sign=comparable(_clipped),
        ),
        Misconception(
            "something is wrong from the second step on",
            "One step is right: what is left from it?",
            "",
            sign=comparable(_several),
        ),
        Misconception(
            "the loss is right, the step is not",
            "Clear the gradients, backward, cut, step: each once, in this order.",
            "",
            sign=_loss_right,
        ),
        *ANYWHERE,
        Misconception(
            "another loss",
            "It is the mean of -log P(target_out) over all tokens, with target_in given to the decoder.",
            FORCING,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)


# --- greedy ---------------------------------------------------------------------------------------------------------


class _Script:
    """A model that greedy decoding can be tried on: each token depends on all before it, and the end is known.

    The logits come from the last token, from a state that every token changes, and from the source.
    """

    def __init__(self, table: Tensor, mix: Tensor, ends: Tensor, eos: int):
        self.table, self.mix, self.ends, self.eos = table, mix, ends, eos
        self.encoded = self.stepped = 0

    def encode(self, source: Tensor, lengths: Tensor) -> Tensor:
        self.encoded += 1
        return self.table[source].sum(1) / lengths[:, None]

    def start(self, memory: Tensor) -> Any:
        return torch.zeros_like(memory), 0

    def step(self, token: Tensor, memory: Tensor, cache: Any) -> Any:
        state, steps = cache
        logits = []
        for one in token.unbind(1):
            self.stepped += 1
            state = torch.tanh(state @ self.mix + self.table[one])
            said = 3 * state @ self.mix.mT + memory
            said[:, self.eos] = torch.where(self.ends == steps, 1e3, -1e3)
            logits.append(said)
            steps += 1
        return torch.stack(logits, dim=1), None, (state, steps)


def _use_greedy(
    greedy: Any, table: Tensor, mix: Tensor, source: Tensor, ends: Tensor, bos: Tensor, eos: Tensor, longest: Tensor
) -> Any:
    """Decode, and count: a source that was read, and tokens that were stepped over."""
    model = _Script(table, mix, ends, eos.size(0))
    lengths = 1 + torch.arange(len(source))
    decoded = greedy(model, source, lengths, bos.size(0), eos.size(0), longest.size(0))
    tokens = getattr(decoded, "tokens", decoded)  # the course's returns more
    return None if tokens is None else (tokens, torch.tensor([model.encoded, model.stepped]))


def _to_write(g: torch.Generator, ends: Sequence[int], longest: int) -> Request:
    """Ask for sentences with so many tokens before their EOS."""
    bos, eos = torch.randperm(V, generator=g)[:2].tolist()
    source = torch.randint(V, (len(ends), S), generator=g)
    sizes = (_as_length(bos), _as_length(eos), _as_length(longest))
    return Request((normal(g, V, V), normal(g, V, V) / 2, source, torch.tensor(ends), *sizes))


def _same_tokens(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if finding := of_output(0, same_numbers)(request, reply, reference):
        return Finding("other tokens", "the likeliest tokens") if "wrong by" in finding.seen else finding
    kind = reply.outputs[0].dtype
    return None if kind == torch.long else Finding(f"{kind}", f"{torch.long}")


def _same_counts(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if finding := _same_tokens(request, reply, reference):
        return finding
    given, few = (", ".join(map(str, x.outputs[1].flatten().tolist())) for x in (reply, reference))
    return None if given == few else Finding(f"times that the source was read, tokens fed: {given}", few)


def _endless(g: torch.Generator) -> Iterator[Request]:
    for _ in range(3):
        yield _to_write(g, (99, 99, 99), 6)


def _ended_apart(g: torch.Generator) -> Iterator[Request]:
    yield _to_write(g, (1, 9, 3), 6)
    yield _to_write(g, (0, 2, 9, 4), 7)


def _all_ended(g: torch.Generator) -> Iterator[Request]:
    yield _to_write(g, (1, 4, 2), 9)
    yield _to_write(g, (0, 0), 9)
    yield _to_write(g, (5,), 6)


def _script(**changes: bool) -> Callable[..., Tensor]:
    """Make greedy decoding with one thing in it wrong."""

    def wrong(model: Any, source: Tensor, lengths: Tensor, bos: int, eos: int, max_length: int) -> Tensor:
        does = changes.get
        memory = model.encode(source, lengths)
        cache = first = model.start(memory)
        token = torch.full((source.size(0), 1), bos)
        ended = torch.zeros_like(token, dtype=torch.bool)
        tokens = [token] if does("begins") else []
        for _ in range(max_length):
            given = tokens[0].new_full((len(token), 1), bos) if does("always_bos") and tokens else token
            logits, _, cache = model.step(given, memory, first if does("forgets") else cache)
            token = logits.argmin(-1) if does("least") else logits.argmax(-1)
            token = token if does("goes_on") else token.masked_fill(ended, eos)
            tokens.append(token)
            ended = ended | (token == eos)
            if bool(ended.any() if does("first_ends") else ended.all()) and not does("never_stops"):
                break
        return torch.cat(tokens, dim=1)

    return wrong


def _whole_beginning(model: Any, source: Tensor, lengths: Tensor, bos: int, eos: int, max_length: int) -> Tensor:
    memory = model.encode(source, lengths)
    cache, tokens = model.start(memory), torch.full((source.size(0), 1), bos)
    ended = torch.zeros_like(tokens, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(tokens, memory, cache)
        token = logits[:, -1:].argmax(-1).masked_fill(ended, eos)
        tokens, ended = torch.cat([tokens, token], dim=1), ended | (token == eos)
        if ended.all():
            break
    return tokens[:, 1:]


@comparable
def _right_until_the_end(request: Request, reply: Reply, reference: Reply) -> bool:
    ends = request.inputs[3]
    until = torch.arange(reference.outputs[0].size(1)) <= (0 if ends is None else ends[:, None])
    return close(reply.outputs[0] * until, reference.outputs[0] * until)


def _length_differs(request: Request, reply: Reply, reference: Reply) -> bool:
    if reply.error or not reply.outputs or reply.outputs[0].dim() != 2:
        return False
    given, wanted = reply.outputs[0], reference.outputs[0]
    return given.size(0) == wanted.size(0) and 0 < abs(given.size(1) - wanted.size(1)) < V


def _tokens_right(request: Request, reply: Reply, reference: Reply) -> bool:
    return not reply.error and close(reply.outputs[0], reference.outputs[0])


GREEDY = Question(
    name="greedy",
    reference=decoding.greedy,
    use=_use_greedy,
    properties=(
        Property("the likeliest token, and from it the next", 2, _endless, _same_tokens),
        Property("after its EOS a sentence has only EOS", 1, _ended_apart, _same_tokens),
        Property(
            "ends when all sentences have; reads the source once, feeds each token once", 1, _all_ended, _same_counts
        ),
    ),
    misconceptions=(
        Misconception(
            "BOS at every step",
            "A step is given the token that the step before it chose.",
            WRITING,
            _script(always_bos=True),
        ),
        Misconception(
            "the cache is not handed on",
            "Each step returns a cache: the next step wants it.",
            WRITING,
            _script(forgets=True),
        ),
        Misconception(
            "BOS is written down",
            "BOS starts the sentence and is no part of it.",
            WRITING,
            _script(begins=True),
        ),
        Misconception(
            "the whole beginning is fed at every step",
            "What came before is in the cache: a step is given one new token.",
            CACHE,
            _whole_beginning,
        ),
        Misconception(
            "a sentence goes on after its end",
            "Whatever the model says after a sentence's EOS, its tokens are EOS.",
            WRITING,
            _script(goes_on=True),
        ),
        Misconception(
            "the first sentence to end ends all",
            "Decoding stops when *every* sentence has had its EOS.",
            WRITING,
            _script(first_ends=True),
        ),
        Misconception(
            "written to max_length always",
            "When every sentence has had its EOS there is nothing left to write.",
            WRITING,
            _script(never_stops=True),
        ),
        Misconception(
            "a number chosen, not its place",
            "A token is the place of the largest logit, not the logit.",
            WRITING,
            sign=error_like("used as indices"),
        ),
        Misconception(
            "the least likely token",
            "The likeliest token has the largest logit.",
            WRITING,
            _script(least=True),
        ),
        *ANYWHERE,
        Misconception(
            "lists, where a tensor is meant",
            "The tokens of all steps, each (B, 1), are joined along the second axis to a tensor (B, T).",
            sign=error_like("wanted tensors"),
        ),
        Misconception(
            "more work than needed",
            "The tokens are right. The source is read once, and each token fed once.",
            CACHE,
            sign=_tokens_right,
        ),
        Misconception(
            "a sentence goes on after its end",
            "Whatever the model says after a sentence's EOS, its tokens are EOS.",
            WRITING,
            sign=_right_until_the_end,
        ),
        Misconception(
            "another number of steps",
            "At most max_length tokens, BOS not counted; fewer if every sentence has had its EOS, which is counted.",
            WRITING,
            sign=_length_differs,
        ),
        Misconception(
            "other tokens are fed or chosen",
            "BOS goes in first, then always what was chosen last: the place of the largest of the V logits.",
            WRITING,
            sign=lambda request, reply, reference: bool(reply.outputs),
        ),
    ),
)


# --- cached_step ----------------------------------------------------------------------------------------------------

LAYERS = 2


def _with_positions(decoder: Any, *init: int) -> Any:
    return decoder(*init, SinusoidalPositions(init[1]))


def _use_steps(decoder: Any, target: Tensor, key: Tensor, value: Tensor, mask: Tensor, pieces: Tensor) -> Any:
    """Go over the target piece by piece, and count the positions that go through the first block."""
    memory = TransformerMemory(tuple(KeyValue(k, v) for k, v in zip(key, value)), mask)
    counted: list[int] = []
    decoder.blocks[0].register_forward_hook(lambda module, inputs, output: counted.append(inputs[0].size(1)))
    cache, logits = decoder.start(memory), []
    for tokens in target.split(list(pieces.shape), dim=1):
        out = decoder.step(tokens, memory, cache)
        if not isinstance(out, tuple) or len(out) != 3:
            return _flat(out)
        logits.append(out[0])
        cache = out[2]
    return torch.cat(logits, dim=1), *_tensors(cache), logits[0].new_full((1,), sum(counted))


def _stepwise(g: torch.Generator, *pieces: int, gradients: bool = False, layers: int = LAYERS) -> Request:
    tokens, init = sum(pieces), (V, D, H, HIDDEN, layers)
    memory = (normal(g, layers, B, H, S, DH), normal(g, layers, B, H, S, DH))
    weights = parameters(g, lambda: _with_positions(transformer.TransformerDecoder, *init))
    inputs = (torch.randint(V, (B, tokens), generator=g), *memory, some_allowed(g, B, 1, S), torch.zeros(pieces))
    return Request(inputs, init, weights, gradients)


def _at_once(g: torch.Generator) -> Iterator[Request]:
    yield _stepwise(g, T)


def _one_by_one(g: torch.Generator) -> Iterator[Request]:
    yield _stepwise(g, *(1,) * T)


def _in_pieces(g: torch.Generator) -> Iterator[Request]:
    yield _stepwise(g, 2, 3, gradients=True)
    yield _stepwise(g, 3, 1, 2, layers=1)


def _step_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_stepwise(g, 2, 3))


def _up_to_the_count(judge: Any) -> Any:
    """Compare all outputs but the last, which says how much work it was."""

    def judged(request: Request, reply: Reply, reference: Reply) -> Finding | None:
        return judge(
            request, reply._replace(outputs=reply.outputs[:-1]), reference._replace(outputs=reference.outputs[:-1])
        )

    return judged


def _each_once(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error or len(reply.outputs) != len(reference.outputs):
        return Finding(reply.error or f"{len(reply.outputs)} tensors returned", "no error")
    counted, few = float(reply.outputs[-1].sum()), float(reference.outputs[-1])
    return Finding(f"{counted:.0f} positions through the first block", f"{few:.0f}") if counted > few else None


class _Stack(transformer.TransformerDecoder):
    """The course's decoder in pieces that a misconception can replace."""

    def step(self, token: Tensor, memory: TransformerMemory, cache: Any, need_weights: bool = False) -> Any:
        past = 0 if cache[0] is None else cache[0].key.size(2)
        x = self.embedding(token, self.place(past))
        mask, all_seen = self.allow(past, token), []
        for block, source, layer_past in zip(self.blocks, memory.layers, self.recall(cache)):
            x, _, seen = block(x, source, mask, self.allow_source(memory.mask), layer_past)
            all_seen.append(seen)
        return self.head(self.finish(x)), None, self.keep(all_seen)

    def place(self, past: int) -> int:
        return past

    def allow(self, past: int, token: Tensor) -> Tensor | None:
        return causal_mask(past + token.size(1), token.device)[past:]

    def allow_source(self, mask: Tensor) -> Tensor | None:
        return mask

    def recall(self, cache: Any) -> Any:
        return cache

    def finish(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def keep(self, seen: list[KeyValue]) -> Any:
        return tuple(seen)


def _stack_with(**pieces: Callable[..., Any]) -> type[nn.Module]:
    return type("Wrong", (_Stack,), pieces)


def _is_cut(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.inputs[-1] is not None and request.inputs[-1].dim() > 1


def _other_cache(request: Request, reply: Reply, reference: Reply) -> bool:
    if request.device == "meta" or len(reply.outputs) != len(reference.outputs):
        return False
    (logits, *kept, _), (wanted, *to_keep, _) = reply.outputs, reference.outputs
    return close(logits, wanted) and not all(map(close, kept, to_keep))


_shapes_differ = error_like("broadcast")


@comparable
def _same_logits(request: Request, reply: Reply, reference: Reply) -> bool:
    return _is_cut(request, reply, reference) and _states_right(request, reply, reference)


@comparable
def _first_piece_right(request: Request, reply: Reply, reference: Reply) -> bool:
    first = 0 if request.inputs[-1] is None else request.inputs[-1].size(0)
    return close(reply.outputs[STATES][:, :first], reference.outputs[STATES][:, :first])


def _only_later_pieces(request: Request, reply: Reply, reference: Reply) -> bool:
    fails = _shapes_differ(request, reply, reference) or _first_piece_right(request, reply, reference)
    return _is_cut(request, reply, reference) and fails and not _same_logits(request, reply, reference)


@comparable
def _first_token_right(request: Request, reply: Reply, reference: Reply) -> bool:
    return close(reply.outputs[STATES][:, -1], reference.outputs[STATES][:, -1])


CACHED_STEP = Question(
    name="cached_step",
    reference=transformer.TransformerDecoder,
    use=_use_steps,
    make=_with_positions,
    stand_ins={"causal_mask": causal_mask, "DecoderBlock": transformer.DecoderBlock},
    properties=(
        Property("all tokens at once", 2, _at_once, of_output(STATES, same_numbers)),
        Property("one token after the other: the same logits", 2, _one_by_one, _up_to_the_count(same_numbers)),
        Property("pieces of several tokens: the same logits", 1, _in_pieces, _up_to_the_count(same_gradients)),
        Property("each position goes through the blocks once", 1, _one_by_one, _each_once),
        Property("inputs unchanged, dtype kept, works on any device", 1, _step_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "every step stands at position 0",
            "So many tokens came before: `embedding(token, past)`.",
            CACHE,
            _stack_with(place=lambda self, past: 0),
        ),
        Misconception(
            "the past is ignored",
            "Each block wants what it returned at the step before: its place in the cache.",
            CACHE,
            _stack_with(recall=lambda self, cache: (None,) * len(self.blocks)),
        ),
        Misconception(
            "one layer's past for all",
            "Each layer has keys and values of its own: go through blocks, sources and cache together.",
            CACHE,
            _stack_with(recall=lambda self, cache: (cache[0],) * len(self.blocks)),
        ),
        Misconception(
            "the cache is not handed on",
            "What the blocks returned is the next step's cache: one entry per layer.",
            CACHE,
            _stack_with(keep=lambda self, seen: (None,) * len(seen)),
        ),
        Misconception(
            "no causal mask",
            "Where several tokens go in at once, each may see itself and what came before, and no more.",
            MASK,
            _stack_with(allow=lambda self, past, token: None),
        ),
        Misconception(
            "the first rows of the mask",
            "The new tokens are the *last* of past + T positions: theirs are the mask's last T rows.",
            MASK,
            _stack_with(
                allow=lambda self, past, token: causal_mask(past + token.size(1), token.device)[: token.size(1)]
            ),
        ),
        Misconception(
            "a mask for the new positions alone",
            "The new tokens ask all past + T positions: T rows, past + T columns.",
            MASK,
            _stack_with(allow=lambda self, past, token: causal_mask(token.size(1), token.device)),
        ),
        Misconception(
            "the source's mask left out",
            "Padding in the source may not be attended to: memory.mask goes into every block.",
            MASK,
            _stack_with(allow_source=lambda self, mask: None),
        ),
        Misconception(
            "the last norm left out",
            "The sum that pre-norm blocks leave is normalised once, before the head.",
            BLOCK,
            _stack_with(finish=lambda self, x: x),
        ),
        Misconception(
            "something else is in the cache",
            "The logits are right. The cache has, for each layer, what its block returned last: keys and values.",
            CACHE,
            sign=_other_cache,
        ),
        Misconception(
            "wrong from the second piece on",
            "What is new has a past: its positions count on, its mask is wider, and each block gets its own past.",
            CACHE,
            sign=_only_later_pieces,
        ),
        *ANYWHERE,
        Misconception(
            "the beginning is computed again",
            "The numbers are right, the work is not saved: only the new tokens go through the blocks.",
            CACHE,
            sign=_same_logits,
        ),
        Misconception(
            "right at the last token alone",
            "The last token may see everything. What may the others see?",
            MASK,
            sign=_first_token_right,
        ),
        Misconception(
            "the stack is put together in another way",
            "Embed, then every block with its own source, mask, source mask and past; then the norm, then the head.",
            BLOCK,
            sign=comparable(lambda request, reply, reference: True),
        ),
        Misconception(
            "not as many logits as tokens",
            "Every token that goes in gets its logits: (B, T, V), also when T is more than one.",
            BLOCK,
            sign=lambda request, reply, reference: (
                not reply.error and reply.outputs[0].shape[1:2] != reference.outputs[0].shape[1:2]
            ),
        ),
    ),
)

QUESTIONS = (CAUSAL_MASK, ENCODER_BLOCK, DECODER_BLOCK, TRAIN_STEP, GREEDY, CACHED_STEP)
