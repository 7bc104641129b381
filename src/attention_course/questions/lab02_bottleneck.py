"""What lab02_bottleneck asks: two networks with one vector between them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attention_course import rnn
from attention_course.masks import padding_mask
from attention_course.questions.core import Finding, Misconception, Property, Question, Reply, Request
from attention_course.questions.inputs import manners, normal, parameters
from attention_course.questions.judges import Judge, good_manners, of_output, of_outputs, same_gradients, same_numbers
from attention_course.questions.signs import ANYWHERE, close, comparable, error_like
from attention_course.seq2seq import Encoded, Memory

B, T, S, D, E, M, V = 3, 5, 7, 4, 6, 2, 11
SIZES = (V, M, D, E)
PADDING = "04_soft_lookup.html#soft-lookup-padding"
ENCODER = "02_encoder_decoder.html#encoder-decoder-encoder"
HANDOVER = "02_encoder_decoder.html#encoder-decoder-handover"
FORCING = "02_encoder_decoder.html#encoder-decoder-forcing"
DECODERS = "03_bottleneck.html#bottleneck-decoders"
MASK = "notation.html#notation-mask"

RAGGED = (S, 3, 5)


def _on_the_cpu(lengths: Tensor) -> Tensor:
    """Let lengths be where encoders expect them, also if everything else has gone to a device without numbers."""
    return torch.ones(lengths.shape, dtype=torch.long) if lengths.is_meta else lengths.cpu()


def _last_column(x: Tensor, lengths: Tensor) -> Tensor:
    return x[:, -1]


def _learns_and_behaves(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    judge: Judge = same_gradients if request.gradients else good_manners
    return judge(request, reply, reference)


# --- at_end ---------------------------------------------------------------------------------------------------------


def _use_at_end(at_end: Callable[..., Any], x: Tensor, lengths: Tensor) -> Any:
    return at_end(x, _on_the_cpu(lengths))


def _vectors(g: torch.Generator, lengths: Sequence[int], size: int = S, gradients: bool = False) -> Request:
    return Request((normal(g, len(lengths), size, D), torch.tensor(lengths)), gradients=gradients)


def _ragged_vectors(g: torch.Generator) -> Iterator[Request]:
    yield _vectors(g, RAGGED, gradients=True)
    yield _vectors(g, (2, S, 6, 4, 5), gradients=True)


def _other_vectors(g: torch.Generator) -> Iterator[Request]:
    yield _vectors(g, (4,))
    yield _vectors(g, (1, 1))
    yield _vectors(g, (3, 2, 3), size=9)


def _vectors_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_vectors(g, RAGGED))


AT_END = Question(
    name="at_end",
    reference=rnn.at_end,
    use=_use_at_end,
    properties=(
        Property("the vector at each sentence's own end", 1, _ragged_vectors, same_gradients),
        Property("one sentence, one token, a batch padded wider", 1, _other_vectors, same_numbers),
        Property("inputs unchanged, dtype kept, works on any device", 1, _vectors_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "the last column",
            "In the last column stands padding, for all but the longest sentence.",
            PADDING,
            _last_column,
        ),
        Misconception(
            "one position too far",
            "Positions count from 0: the last of n tokens stands at n - 1.",
            PADDING,
            lambda x, lengths: x[torch.arange(len(x)), lengths % x.size(1)],
            error_like("out of bounds|out of range"),
        ),
        Misconception(
            "the first vector",
            "At position 0 nothing but the first token has been read.",
            PADDING,
            lambda x, lengths: x[:, 0],
        ),
        Misconception(
            "every sentence at every end",
            "x[:, ends] takes all the ends of every sentence: each sentence has one of its own.",
            PADDING,
            lambda x, lengths: x[:, lengths - 1],
        ),
        Misconception(
            "one number of every vector",
            "gather picks as many numbers as its index has: the index needs all D of the last axis.",
            PADDING,
            lambda x, lengths: x.gather(1, (lengths.to(x.device) - 1)[:, None, None])[:, 0],
        ),
        Misconception(
            "the sum or the mean of a sentence",
            "What is wanted is one of the vectors, not a mixture.",
            PADDING,
            lambda x, lengths: padding_mask(lengths.to(x.device), x.size(1)).to(x.dtype)[:, 0, :, None].mul(x).sum(1),
        ),
        Misconception(
            "the sum or the mean of a sentence",
            "What is wanted is one of the vectors, not a mixture.",
            PADDING,
            lambda x, lengths: (
                (padding_mask(lengths.to(x.device), x.size(1)).to(x.dtype) @ x)[:, 0]
                / lengths.to(x.device, x.dtype)[:, None]
            ),
        ),
        *ANYWHERE,
    ),
)


# --- encoder --------------------------------------------------------------------------------------------------------

STATES, FINAL, ALLOWED = 0, 1, 2


def _use_encoder(encoder: Any, source: Tensor, lengths: Tensor) -> Any:
    """Encode; states on padding are nobody's business."""
    encoded = encoder(source, _on_the_cpu(lengths))
    if encoded is None:
        return None
    if not isinstance(encoded, Encoded):
        raise TypeError(f"a {type(encoded).__name__} was returned, wanted an Encoded")
    tokens = padding_mask(lengths, source.size(1))[:, 0, :, None]
    if encoded.states.dim() == 3 and encoded.states.shape[:2] == source.shape:
        encoded = encoded._replace(states=encoded.states.where(tokens, 0))
    return encoded._replace(mask=_as_numbers(encoded.mask, encoded.states))


def _as_numbers(mask: Tensor, like: Tensor) -> Tensor:
    """Let a mask pass for numbers, if it is one."""
    if mask.dtype != torch.bool:
        raise TypeError(f"the mask holds {mask.dtype}, wanted torch.bool")
    return mask.to(like.dtype)


class _Encoder(nn.Module):
    """The lab's first encoder in pieces that a misconception can replace."""

    def __init__(self, vocab_size: int, embedding_dim: int, hidden_dim: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def forward(self, source: Tensor, lengths: Tensor) -> Any:
        embedded = self.embedding(source)
        states = self.run(self.rnn, embedded)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, self.end(states, lengths), mask)

    def run(self, layer: nn.Module, embedded: Tensor) -> Tensor:
        return layer(embedded)[0]

    def end(self, states: Tensor, lengths: Tensor) -> Tensor:
        return rnn.at_end(states, lengths)


def _encoder_with(base: type[nn.Module], **pieces: Callable[..., Any]) -> type[nn.Module]:
    return type("Wrong", (base,), {name: staticmethod(piece) for name, piece in pieces.items()})


def _read(
    g: torch.Generator, reference: Any, init: tuple[int, ...], sizes: Sequence[int] = RAGGED, gradients: bool = False
) -> Request:
    lengths = torch.tensor(sizes)
    source = torch.randint(1, V, (len(sizes), max(sizes)), generator=g) * padding_mask(lengths, max(sizes))[:, 0]
    return Request((source, lengths), init, parameters(g, lambda: reference(*init)), gradients)


def _sources(g: torch.Generator) -> Iterator[Request]:
    yield _read(g, _Encoder, (V, M, D))
    yield _read(g, _Encoder, (V, M, D), (2, 5))


def _sources_learn(g: torch.Generator) -> Iterator[Request]:
    yield _read(g, _Encoder, (V, M, D), gradients=True)
    for dtype in (torch.float32, torch.bfloat16):
        yield replace(_read(g, _Encoder, (V, M, D)), dtype=dtype)


def _final_alone(request: Request, reply: Reply, reference: Reply) -> bool:
    return close(reply.outputs[STATES], reference.outputs[STATES]) and not close(
        reply.outputs[FINAL], reference.outputs[FINAL]
    )


NO_ENCODED = Misconception(
    "no Encoded is returned",
    "The three tensors are the fields of an Encoded, in this order: states, final, mask.",
    ENCODER,
    sign=error_like("wanted an Encoded|Encoded.__new__"),
)
WRONG_MASK = Misconception(
    "mask the wrong way around",
    "True means a token. `padding_mask` gives the mask as it should be.",
    MASK,
    sign=comparable(
        lambda request, reply, reference: close(1 - reply.outputs[ALLOWED].double(), reference.outputs[ALLOWED])
    ),
)
NO_MASK = Misconception(
    "padding allowed",
    "The mask is False on padding: it is made from the lengths.",
    PADDING,
    sign=comparable(
        lambda request, reply, reference: (
            not close(reply.outputs[ALLOWED], reference.outputs[ALLOWED]) and bool((reply.outputs[ALLOWED] == 1).all())
        )
    ),
)
NOT_BOOL = Misconception(
    "numbers, where True and False are meant",
    "A mask is of dtype torch.bool.",
    MASK,
    sign=error_like("wanted torch.bool"),
)

ENCODER_QUESTION = Question(
    name="encoder",
    reference=_Encoder,
    use=_use_encoder,
    stand_ins={"at_end": rnn.at_end},
    properties=(
        Property("the state at every token", 1, _sources, of_output(STATES, same_numbers)),
        Property("the final state at each sentence's own end", 2, _sources, of_output(FINAL, same_numbers)),
        Property("a mask that is True on tokens", 1, _sources, of_output(ALLOWED, same_numbers)),
        Property("all gradients, and dtype kept", 1, _sources_learn, _learns_and_behaves),
    ),
    misconceptions=(
        Misconception(
            "the last column is taken for the final state",
            "Behind a short sentence the layer has read padding, and what an nn.GRU returns second comes from there.",
            PADDING,
            _encoder_with(_Encoder, end=_last_column),
        ),
        Misconception(
            "the final state is the first",
            "At position 0 nothing but the first token has been read.",
            PADDING,
            _encoder_with(_Encoder, end=lambda states, lengths: states[:, 0]),
        ),
        Misconception(
            "the final state is one position too early",
            "`at_end` takes the lengths as they are.",
            PADDING,
            _encoder_with(_Encoder, end=lambda states, lengths: rnn.at_end(states, (lengths - 1).clamp(min=1))),
        ),
        Misconception(
            "embeddings returned as states",
            "The states are what the recurrent layer makes of the embeddings.",
            ENCODER,
            _encoder_with(_Encoder, run=lambda layer, embedded: embedded),
        ),
        Misconception(
            "read across the batch",
            "The layer was made with `batch_first=True`: it wants (B, S, width), and goes along the second axis.",
            ENCODER,
            _encoder_with(_Encoder, run=lambda layer, embedded: layer(embedded.transpose(0, 1))[0].transpose(0, 1)),
        ),
        Misconception(
            "the axis of the layers is left",
            "An nn.GRU returns its last state as (layers, B, D). (And it is the last column's.)",
            ENCODER,
            sign=lambda request, reply, reference: (
                not reply.error and len(reply.outputs) == 3 and reply.outputs[FINAL].dim() == 3
            ),
        ),
        WRONG_MASK,
        NO_MASK,
        NOT_BOOL,
        NO_ENCODED,
        *ANYWHERE,
        Misconception(
            "another final state",
            "The states are right. The final one is that of each sentence's own last token.",
            PADDING,
            sign=comparable(_final_alone),
        ),
        Misconception(
            "another mask",
            "States and final state are right. The mask is (B, 1, S), True on tokens.",
            MASK,
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 3
                and all(map(close, reply.outputs[:2], reference.outputs[:2]))
            ),
        ),
        Misconception(
            "other states",
            "The states are what the GRU returns first, when it reads the embedded tokens: (B, S, E), as they are.",
            ENCODER,
            sign=lambda request, reply, reference: (
                not reply.error
                and request.device != "meta"
                and not close(reply.outputs[STATES], reference.outputs[STATES])
            ),
        ),
    ),
)


# --- remember -------------------------------------------------------------------------------------------------------


class _OneSlot(nn.Module):
    """What the lab's decoders share, in pieces that a misconception can replace."""

    def __init__(self, vocab_size: int, embedding_dim: int, hidden_dim: int, memory_dim: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded: Encoded) -> Memory:
        key, value, mask = self.slot(encoded)
        return Memory(key, value, mask, self.first(self.bridge, encoded))

    def slot(self, encoded: Encoded) -> tuple[Tensor, Tensor, Tensor]:
        return encoded.final[:, None], encoded.final[:, None], encoded.mask[..., :1]

    def first(self, bridge: nn.Module, encoded: Encoded) -> Tensor:
        return torch.tanh(bridge(encoded.final))


def _use_remember(decoder: Any, states: Tensor, final: Tensor, lengths: Tensor) -> Any:
    memory = decoder.remember(Encoded(states, final, padding_mask(lengths, states.size(1))))
    if memory is None:
        return None
    if not isinstance(memory, Memory):
        raise TypeError(f"a {type(memory).__name__} was returned, wanted a Memory")
    return memory._replace(mask=_as_numbers(memory.mask, final))


def _encoded(g: torch.Generator, lengths: Sequence[int] = RAGGED, gradients: bool = False) -> Request:
    inputs = (normal(g, len(lengths), max(lengths), E), normal(g, len(lengths), E), torch.tensor(lengths))
    return Request(inputs, SIZES, parameters(g, lambda: _OneSlot(*SIZES)), gradients)


def _some_encoded(g: torch.Generator) -> Iterator[Request]:
    yield _encoded(g)
    yield _encoded(g, (4,))


def _encoded_learns(g: torch.Generator) -> Iterator[Request]:
    yield _encoded(g, gradients=True)
    yield from manners(_encoded(g))


def _every_slot_kept(request: Request, reply: Reply, reference: Reply) -> bool:
    return not reply.error and len(reply.outputs) == 4 and reply.outputs[1].shape[1:2] == torch.Size([S])


REMEMBER = Question(
    name="remember",
    reference=_OneSlot,
    use=_use_remember,
    properties=(
        Property(
            "one slot, which holds the final state and may be looked at",
            1,
            _some_encoded,
            of_outputs(0, 3, same_numbers),
        ),
        Property("the decoder's first state", 1, _some_encoded, of_output(3, same_numbers)),
        Property("gradients, dtype kept, works on any device", 1, _encoded_learns, _learns_and_behaves),
    ),
    misconceptions=(
        Misconception(
            "a slot for every token",
            "This memory has room for one vector, the final state: (B, 1, E).",
            DECODERS,
            _encoder_with(_OneSlot, slot=lambda encoded: (encoded.states, encoded.states, encoded.mask)),
            _every_slot_kept,
        ),
        Misconception(
            "the last column is taken for the final state",
            "`encoded.final` is the state at each sentence's own end; in the last column of the states stands padding.",
            PADDING,
            _encoder_with(
                _OneSlot,
                slot=lambda encoded: (encoded.states[:, -1:], encoded.states[:, -1:], encoded.mask[..., :1]),
                first=lambda bridge, encoded: torch.tanh(bridge(encoded.states[:, -1])),
            ),
        ),
        Misconception(
            "the slot is forbidden",
            "The mask's last column belongs to padding, for all but the longest source; its first is always a token.",
            MASK,
            _encoder_with(
                _OneSlot, slot=lambda encoded: (encoded.final[:, None], encoded.final[:, None], encoded.mask[..., -1:])
            ),
            comparable(lambda request, reply, reference: not close(reply.outputs[2], reference.outputs[2])),
        ),
        Misconception(
            "a mask for every token",
            "The mask says which slots may be looked at, and there is one: (B, 1, 1).",
            MASK,
            _encoder_with(
                _OneSlot, slot=lambda encoded: (encoded.final[:, None], encoded.final[:, None], encoded.mask)
            ),
        ),
        Misconception(
            "the axis of the slots is missing",
            "One slot is an axis of length one: (B, 1, E).",
            DECODERS,
            _encoder_with(_OneSlot, slot=lambda encoded: (encoded.final, encoded.final, encoded.mask[..., :1])),
        ),
        Misconception(
            "tanh missing",
            "The first state is the tanh of a linear map of the final state.",
            HANDOVER,
            _encoder_with(_OneSlot, first=lambda bridge, encoded: bridge(encoded.final)),
        ),
        Misconception(
            "the final state goes in as it is",
            "Encoder and decoder need not be equally wide: `bridge` maps E numbers to D.",
            HANDOVER,
            _encoder_with(_OneSlot, first=lambda bridge, encoded: encoded.final),
        ),
        Misconception(
            "no Memory is returned",
            "The four tensors are the fields of a Memory: key, value, mask, state.",
            DECODERS,
            sign=error_like("wanted a Memory|Memory.__new__"),
        ),
        NOT_BOOL,
        *ANYWHERE,
        Misconception(
            "another first state",
            "The slot is right. The first state is the tanh of `bridge` of the final state.",
            HANDOVER,
            sign=comparable(
                lambda request, reply, reference: all(map(close, reply.outputs[:3], reference.outputs[:3]))
            ),
        ),
        Misconception(
            "something else in the slot",
            "Key and value are the same tensor: `encoded.final` as it is, with an axis for the one slot, (B, 1, E).",
            DECODERS,
            sign=lambda request, reply, reference: (
                not reply.error and not all(map(close, reply.outputs[:2], reference.outputs[:2]))
            ),
        ),
    ),
)


# --- final_state_step, context_step ---------------------------------------------------------------------------------

LOGITS, WEIGHTS, STATE = 0, 1, 2


def _use_step(decoder: Any, token: Tensor, state: Tensor, slot: Tensor, first: Tensor) -> Any:
    mask = torch.ones(slot.size(0), 1, 1, dtype=torch.bool, device=slot.device)
    return decoder.step(token, Memory(slot, slot, mask, first), state)


class _FinalState(_OneSlot):
    """The lab's decoder in pieces that a misconception can replace."""

    def __init__(self, vocab_size: int, embedding_dim: int, hidden_dim: int, memory_dim: int):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token: Tensor, memory: Memory, cache: Tensor) -> Any:
        states, last = self.rnn(self.read(self.embedding(token), memory), self.before(memory, cache)[None])
        return self.say(self.head, states), self.weigh(states), self.keep(last[0], states, cache)

    def read(self, embedded: Tensor, memory: Memory) -> Tensor:
        return embedded

    def before(self, memory: Memory, cache: Tensor) -> Tensor:
        return cache

    def say(self, head: nn.Module, states: Tensor) -> Tensor:
        return head(states)

    def weigh(self, states: Tensor) -> Tensor:
        return states.new_ones(*states.shape[:2], 1)

    def keep(self, last: Tensor, states: Tensor, cache: Tensor) -> Tensor:
        return last


class _Context(_FinalState):
    def __init__(self, vocab_size: int, embedding_dim: int, hidden_dim: int, memory_dim: int):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def read(self, embedded: Tensor, memory: Memory) -> Tensor:
        return torch.cat([embedded, memory.value.expand(-1, embedded.size(1), -1)], dim=-1)


def _step(g: torch.Generator, reference: Any, tokens: int = 1, gradients: bool = False, batch: int = B) -> Request:
    token = torch.randint(V, (batch, tokens), generator=g)
    inputs = (token, normal(g, batch, D).tanh(), normal(g, batch, 1, E), normal(g, batch, D).tanh())
    return Request(inputs, SIZES, parameters(g, lambda: reference(*SIZES)), gradients)


def _steps_of(reference: Any) -> tuple[Callable[[torch.Generator], Iterator[Request]], ...]:
    """Make the requests of one token, of many, of learning and of manners."""

    def one(g: torch.Generator) -> Iterator[Request]:
        yield _step(g, reference)

    def many(g: torch.Generator) -> Iterator[Request]:
        yield _step(g, reference, tokens=T)
        yield _step(g, reference, tokens=2, batch=1)

    def learns(g: torch.Generator) -> Iterator[Request]:
        yield _step(g, reference, tokens=T, gradients=True)

    def behaves(g: torch.Generator) -> Iterator[Request]:
        yield from manners(_step(g, reference, tokens=T))

    return one, many, learns, behaves


def _logits_of_one_token(request: Request, reply: Reply, reference: Reply) -> bool:
    if reply.error or len(reply.outputs) != len(reference.outputs):
        return False
    given, wanted = reply.outputs[LOGITS], reference.outputs[LOGITS]
    return given.dim() == 3 and given.size(1) == 1 < wanted.size(1)


def _only(output: int) -> Callable[[Request, Reply, Reply], bool]:
    """Look for replies in which one output is wrong, and no other."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        if reply.error or len(reply.outputs) != len(reference.outputs):
            return False
        right = [close(given, wanted) for given, wanted in zip(reply.outputs, reference.outputs)]
        return not right[output] and sum(right) == len(right) - 1

    return sign


def _mistakes_of(base: type[_FinalState], section: str) -> tuple[Misconception, ...]:
    return (
        Misconception(
            "every step starts from the first state",
            "memory.state is where decoding starts; the state before this step is the cache.",
            section,
            _encoder_with(base, before=lambda memory, cache: memory.state),
        ),
        Misconception(
            "every step starts from nothing",
            "Without a state an nn.GRU starts from zeros: the decoder would have no past and no source.",
            section,
            _encoder_with(base, before=lambda memory, cache: torch.zeros_like(cache)),
        ),
        Misconception(
            "the new state is not handed on",
            "What a step returns last is where the next step starts: the state after its last token.",
            section,
            _encoder_with(base, keep=lambda last, states, cache: cache),
        ),
        Misconception(
            "the state after the first token is handed on",
            "A step may take many tokens: the next one starts behind the last of them.",
            section,
            _encoder_with(base, keep=lambda last, states, cache: states[:, 0]),
        ),
        Misconception(
            "probabilities, where logits are meant",
            "The softmax is part of the loss: the head's numbers are returned as they are.",
            FORCING,
            _encoder_with(base, say=lambda head, states: head(states).softmax(-1)),
        ),
        Misconception(
            "probabilities, where logits are meant",
            "The softmax is part of the loss: the head's numbers are returned as they are.",
            FORCING,
            _encoder_with(base, say=lambda head, states: head(states).log_softmax(-1)),
        ),
        Misconception(
            "states, where logits are meant",
            "`head` maps each state to V numbers.",
            section,
            _encoder_with(base, say=lambda head, states: states),
        ),
        Misconception(
            "the logits of one token only",
            "Each of the T tokens has a state and logits of its own.",
            section,
            sign=_logits_of_one_token,
        ),
        Misconception(
            "the axis of the layers",
            "Whatever batch_first says, an nn.GRU starts from a state (layers, B, D), and returns one like this.",
            section,
            sign=error_like("hx should|Expected hidden size"),
        ),
    )


LAST = (
    Misconception(
        "other weights",
        "There is one slot, and at each of the T steps its weight is one: (B, T, 1), all ones.",
        DECODERS,
        sign=_only(WEIGHTS),
    ),
    Misconception(
        "another state is handed on",
        "The logits are right. The next step starts from the state after the last token, (B, D).",
        DECODERS,
        sign=_only(STATE),
    ),
    Misconception(
        "the logits are made of something else",
        "The states are right. The logits are `head` of each of them.",
        DECODERS,
        sign=_only(LOGITS),
    ),
    Misconception(
        "the update reads something else",
        "The recurrent layer reads what the equation names, in this order, and starts from the cache.",
        DECODERS,
        sign=comparable(
            lambda request, reply, reference: (
                close(reply.outputs[WEIGHTS], reference.outputs[WEIGHTS])
                and not close(reply.outputs[STATE], reference.outputs[STATE])
            )
        ),
    ),
)


def _step_properties(reference: Any) -> tuple[Property, ...]:
    one, many, learns, behaves = _steps_of(reference)
    return (
        Property("the logits of one token", 2, one, of_output(LOGITS, same_numbers)),
        Property("many tokens at once, weights of one, and the last state handed on", 1, many, same_numbers),
        Property("gradients of everything that was read", 1, learns, same_gradients),
        Property("inputs unchanged, dtype kept, works on any device", 1, behaves, good_manners),
    )


FINAL_STATE_STEP = Question(
    name="final_state_step",
    reference=_FinalState,
    use=_use_step,
    properties=_step_properties(_FinalState),
    misconceptions=(*_mistakes_of(_FinalState, HANDOVER), *ANYWHERE, *LAST),
)

CONTEXT_STEP = Question(
    name="context_step",
    reference=_Context,
    use=_use_step,
    properties=_step_properties(_Context),
    misconceptions=(
        Misconception(
            "the source before the token",
            "The order of what is attached decides which weights it meets: the token, then the source.",
            HANDOVER,
            _encoder_with(
                _Context,
                read=lambda embedded, memory: torch.cat(
                    [memory.value.expand(-1, embedded.size(1), -1), embedded], dim=-1
                ),
            ),
        ),
        Misconception(
            "told at the first step only",
            "The source is attached to every input, not to the first alone.",
            HANDOVER,
            _encoder_with(
                _Context,
                read=lambda embedded, memory: torch.cat(
                    [
                        embedded,
                        nn.functional.pad(memory.value, (0, 0, 0, embedded.size(1) - 1)),
                    ],
                    dim=-1,
                ),
            ),
        ),
        Misconception(
            "zeros, where the source is meant",
            "What is attached is the content of the slot, `memory.value`.",
            HANDOVER,
            _encoder_with(
                _Context,
                read=lambda embedded, memory: torch.cat(
                    [embedded, torch.zeros_like(memory.value).expand(-1, embedded.size(1), -1)], dim=-1
                ),
            ),
        ),
        Misconception(
            "one source for many tokens",
            "torch.cat does not stretch axes of length one: repeat the slot for each of the T tokens.",
            HANDOVER,
            sign=lambda request, reply, reference: (
                request.inputs[0] is not None
                and request.inputs[0].size(1) > 1
                and error_like("Sizes of tensors must match")(request, reply, reference)
            ),
        ),
        *_mistakes_of(_Context, HANDOVER),
        *ANYWHERE,
        *LAST,
    ),
)


# --- stacked_encoder ------------------------------------------------------------------------------------------------


class _Stacked(nn.Module):
    """The lab's second encoder in pieces that a misconception can replace."""

    def __init__(self, vocab_size: int, embedding_dim: int, hidden_dim: int, num_layers: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        widths = [embedding_dim] + [2 * hidden_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(nn.GRU(width, hidden_dim, batch_first=True) for width in widths)
        self.backwards = nn.ModuleList(nn.GRU(width, hidden_dim, batch_first=True) for width in widths)

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        states = self.embedding(source)
        ahead = turned = states
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            turned, _ = backwards(self.turn(states, lengths))
            states = self.join(ahead, self.turn_back(turned, lengths))
        final = self.end(ahead, turned, lengths)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))

    def turn(self, x: Tensor, lengths: Tensor) -> Tensor:
        return rnn.reverse_padded(x, lengths)

    def turn_back(self, x: Tensor, lengths: Tensor) -> Tensor:
        return rnn.reverse_padded(x, lengths)

    def join(self, ahead: Tensor, back: Tensor) -> Tensor:
        return torch.cat([ahead, back], dim=-1)

    def end(self, ahead: Tensor, turned: Tensor, lengths: Tensor) -> Tensor:
        return torch.cat([rnn.at_end(ahead, lengths), rnn.at_end(turned, lengths)], dim=-1)


def _not_turned(x: Tensor, lengths: Tensor) -> Tensor:
    return x


def _flipped(x: Tensor, lengths: Tensor) -> Tensor:
    return x.flip(1)


def _one_layer(g: torch.Generator) -> Iterator[Request]:
    yield _read(g, _Stacked, (V, M, D, 1))


def _two_layers(g: torch.Generator) -> Iterator[Request]:
    yield _read(g, _Stacked, (V, M, D, 2), gradients=True)
    yield _read(g, _Stacked, (V, M, D, 3), (4, 2, 6, 5))


def _layers_manners(g: torch.Generator) -> Iterator[Request]:
    for dtype in (torch.float32, torch.bfloat16):
        yield replace(_read(g, _Stacked, (V, M, D, 2)), dtype=dtype)


def _half(first: bool, output: int) -> Callable[[Request, Reply, Reply], bool]:
    """Look for replies that are right in one direction and wrong in the other."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        if output == FINAL and not close(reply.outputs[STATES], reference.outputs[STATES]):
            return False
        given, wanted = (x.outputs[output].chunk(2, dim=-1) for x in (reply, reference))
        right = [close(*pair) for pair in zip(given, wanted)]
        return right == [first, not first]

    return comparable(sign)


STACKED_ENCODER = Question(
    name="stacked_encoder",
    reference=_Stacked,
    use=_use_encoder,
    stand_ins={"at_end": rnn.at_end},
    properties=(
        Property("one layer: the states of both directions", 2, _one_layer, of_output(STATES, same_numbers)),
        Property("one layer: where each direction has read everything", 2, _one_layer, of_output(FINAL, same_numbers)),
        Property("more layers, the mask, and all gradients", 1, _two_layers, same_gradients),
        Property("dtype kept", 1, _layers_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "the whole batch turned around",
            "flip(1) puts a short sentence's padding in front of it: each sentence is turned within its own length.",
            ENCODER,
            _encoder_with(_Stacked, turn=_flipped, turn_back=_flipped),
        ),
        Misconception(
            "backward states not turned back",
            "Position s of the backward states belongs to another token, until they are turned back.",
            ENCODER,
            _encoder_with(_Stacked, turn_back=_not_turned),
        ),
        Misconception(
            "both directions read forwards",
            "The backward layer reads each sentence from its end: turn it around first.",
            ENCODER,
            _encoder_with(_Stacked, turn=_not_turned, turn_back=_not_turned),
        ),
        Misconception(
            "both directions read forwards",
            "The backward layer reads each sentence from its end: turn it around before it is read, and back after.",
            ENCODER,
            _encoder_with(_Stacked, turn=_not_turned),
        ),
        Misconception(
            "backward before forward",
            "The forward state comes first, the backward one behind it.",
            ENCODER,
            _encoder_with(_Stacked, join=lambda ahead, back: torch.cat([back, ahead], dim=-1)),
        ),
        Misconception(
            "the directions are added",
            "The two states of a position are set end to end: 2D numbers.",
            ENCODER,
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 3
                and 2 * reply.outputs[STATES].shape[-1:].numel() == reference.outputs[STATES].size(-1)
            ),
        ),
        Misconception(
            "backward final state at the last token",
            "At the last token the backward layer has only begun. It has read everything at the first token of the "
            "sentence, which is the end of the turned one.",
            ENCODER,
            _encoder_with(
                _Stacked,
                end=lambda ahead, turned, lengths: torch.cat([rnn.at_end(ahead, lengths), turned[:, 0]], dim=-1),
            ),
            _half(True, FINAL),
        ),
        Misconception(
            "the last column is taken for the final state",
            "Behind a short sentence both layers have gone on reading padding.",
            PADDING,
            _encoder_with(
                _Stacked, end=lambda ahead, turned, lengths: torch.cat([ahead[:, -1], turned[:, -1]], dim=-1)
            ),
            _half(False, FINAL),
        ),
        Misconception(
            "the forward layer is wrong",
            "The backward states are right. The forward layer reads the states of the layer below as they are.",
            ENCODER,
            sign=_half(False, STATES),
        ),
        Misconception(
            "the backward layer is wrong",
            "The forward states are right. The backward layer reads each sentence turned around within its own length, "
            "and its states are turned back.",
            ENCODER,
            sign=_half(True, STATES),
        ),
        Misconception(
            "the layers do not stand on each other",
            "Each layer reads the states of the one below it, of both directions, 2D numbers.",
            ENCODER,
            sign=lambda request, reply, reference: (
                request.init is not None
                and request.init[-1] > 1
                and error_like("input.size|input_size|mat1 and mat2|must have")(request, reply, reference)
            ),
        ),
        WRONG_MASK,
        NO_MASK,
        NOT_BOOL,
        NO_ENCODED,
        *ANYWHERE,
        Misconception(
            "another final state",
            "The states are right. The final one is the forward state at each sentence's last token, and the backward "
            "state at its first.",
            ENCODER,
            sign=comparable(_final_alone),
        ),
        Misconception(
            "one layer is right, more are not",
            "Each layer reads the states of the one below it, of both directions; the top one's are returned.",
            ENCODER,
            sign=lambda request, reply, reference: request.init is not None and request.init[-1] > 1,
        ),
        Misconception(
            "the directions are joined in another way",
            "In every layer both directions read the same states; what the backward one says is turned back, and set "
            "behind the forward one's: (B, S, 2D).",
            ENCODER,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)

QUESTIONS = (AT_END, ENCODER_QUESTION, REMEMBER, FINAL_STATE_STEP, CONTEXT_STEP, STACKED_ENCODER)
