"""What lab04_alignment asks: who asks when, and does it look where it should?"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attention_course import attention, metrics, rnn, windows
from attention_course.masks import padding_mask
from attention_course.questions.core import Finding, Misconception, Property, Question, Reply, Request
from attention_course.questions.inputs import manners, normal, parameters, some_allowed
from attention_course.questions.judges import good_manners, of_output, same_gradients, same_numbers
from attention_course.questions.signs import ANYWHERE, close, comparable, error_like
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import Memory

B, T, S, D, E, A, M, V = 2, 3, 5, 7, 13, 4, 6, 11
SIZES = (V, M, D, E, A)
BAHDANAU = "06_bahdanau.html#bahdanau-step"
MAPS = "06_bahdanau.html#bahdanau-maps"
LUONG = "07_luong.html#luong-step"
FEEDING = "07_luong.html#luong-feeding"
LOCAL = "07_luong.html#luong-local"

LOGITS, WEIGHTS, STATE = 0, 1, 2


def _with_score(decoder: Any, vocabulary: int, embedding: int, state: int, memory: int, hidden: int) -> Any:
    return decoder(vocabulary, embedding, state, memory, AdditiveScore(state, memory, hidden))


def _use_step(
    decoder: Any, token: Tensor, state: Tensor, key: Tensor, value: Tensor, mask: Tensor, first: Tensor
) -> Any:
    return decoder.step(token, Memory(key, value, mask, first), state)


def _remembered(g: torch.Generator, batch: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw keys, values, mask and the first state."""
    return normal(g, batch, S, A), normal(g, batch, S, E), some_allowed(g, batch, 1, S), normal(g, batch, D).tanh()


def _step(g: torch.Generator, reference: Any, tokens: int = 1, gradients: bool = False, batch: int = B) -> Request:
    token = torch.randint(V, (batch, tokens), generator=g)
    inputs = (token, normal(g, batch, D).tanh(), *_remembered(g, batch))
    return Request(inputs, SIZES, parameters(g, lambda: _with_score(reference, *SIZES)), gradients)


def _wrong_alone(output: int) -> Callable[[Request, Reply, Reply], bool]:
    """Look for replies in which one output is wrong and those that it depends on are right."""
    needed = {STATE: [WEIGHTS], LOGITS: [WEIGHTS, STATE]}[output]

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        right = all(close(reply.outputs[i], reference.outputs[i]) for i in needed)
        return right and not close(reply.outputs[output], reference.outputs[output])

    return comparable(sign)


def _weight_off_mask(request: Request, reply: Reply, reference: Reply) -> bool:
    mask = next(x for x in request.inputs if x is not None and x.dtype == torch.bool)
    return bool((reply.outputs[WEIGHTS].abs() * ~mask > 1e-6).any())


MASK_LEFT_OUT = Misconception(
    "a forbidden position has weight",
    "The memory has a mask: hand it to `attend`.",
    BAHDANAU,
    sign=comparable(_weight_off_mask),
)


# --- bahdanau_step --------------------------------------------------------------------------------------------------


class _Bahdanau(rnn.BahdanauDecoder):
    """The course's decoder in pieces that a misconception can replace."""

    def step(self, token: Tensor, memory: Memory, cache: Tensor) -> Any:
        embedded = self.embedding(token)
        context, weights = attention.attend(
            self.score(self.query(memory, cache), memory.key), memory.value, memory.mask
        )
        state = self.rnn(self.read(embedded, context)[:, 0], self.before(memory, cache))
        logits = self.head(self.say(embedded, context, state[:, None], cache[:, None]))
        return logits, weights, self.keep(state, cache)

    def query(self, memory: Memory, cache: Tensor) -> Tensor:
        return cache[:, None]

    def before(self, memory: Memory, cache: Tensor) -> Tensor:
        return cache

    def read(self, embedded: Tensor, context: Tensor) -> Tensor:
        return torch.cat([embedded, context], dim=-1)

    def say(self, embedded: Tensor, context: Tensor, state: Tensor, before: Tensor) -> Tensor:
        return torch.cat([state, context, embedded], dim=-1)

    def keep(self, state: Tensor, cache: Tensor) -> Tensor:
        return state


def _bahdanau_with(**pieces: Callable[..., Tensor]) -> type[nn.Module]:
    return type("Wrong", (_Bahdanau,), {name: staticmethod(piece) for name, piece in pieces.items()})


def _bahdanau_steps(g: torch.Generator) -> Iterator[Request]:
    yield _step(g, rnn.BahdanauDecoder)


def _bahdanau_learns(g: torch.Generator) -> Iterator[Request]:
    yield _step(g, rnn.BahdanauDecoder, gradients=True)
    yield _step(g, rnn.BahdanauDecoder, batch=1)


def _bahdanau_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_step(g, rnn.BahdanauDecoder))


BAHDANAU_STEP = Question(
    name="bahdanau_step",
    reference=rnn.BahdanauDecoder,
    use=_use_step,
    make=_with_score,
    properties=(
        Property("the state before the update asks", 2, _bahdanau_steps, of_output(WEIGHTS, same_numbers)),
        Property("the context enters the update", 2, _bahdanau_steps, of_output(STATE, same_numbers)),
        Property("the logits, and the gradients of everything", 1, _bahdanau_learns, same_gradients),
        Property("inputs unchanged, dtype kept, works on any device", 1, _bahdanau_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "the first state asks at every step",
            "memory.state is where decoding starts; the state of this step is the cache.",
            BAHDANAU,
            _bahdanau_with(query=lambda memory, cache: memory.state[:, None]),
        ),
        Misconception(
            "the first state asks at every step",
            "memory.state is where decoding starts; the state of this step is the cache.",
            BAHDANAU,
            _bahdanau_with(
                query=lambda memory, cache: memory.state[:, None], before=lambda memory, cache: memory.state
            ),
        ),
        Misconception(
            "every step starts from the first state",
            "memory.state is where decoding starts; the state of this step is the cache.",
            BAHDANAU,
            _bahdanau_with(before=lambda memory, cache: memory.state),
        ),
        Misconception(
            "the old state predicts",
            "The update comes before the prediction: h_t, not h_{t-1}, goes into the output layer.",
            BAHDANAU,
            _bahdanau_with(say=lambda embedded, context, state, before: torch.cat([before, context, embedded], dim=-1)),
        ),
        Misconception(
            "the new state is not handed on",
            "What a step returns last is where the next step starts: the state after the update.",
            BAHDANAU,
            _bahdanau_with(keep=lambda state, cache: cache),
        ),
        Misconception(
            "context before token in the update",
            "The order of what is attached decides which weights it meets: the token, then the context.",
            BAHDANAU,
            _bahdanau_with(read=lambda embedded, context: torch.cat([context, embedded], dim=-1)),
        ),
        Misconception(
            "another order in the output layer",
            "The order of what is attached decides which weights it meets: state, context, token.",
            BAHDANAU,
            _bahdanau_with(say=lambda embedded, context, state, before: torch.cat([embedded, context, state], dim=-1)),
        ),
        MASK_LEFT_OUT,
        *ANYWHERE,
        Misconception(
            "the update reads something else than token and context",
            "The weights are right. The recurrent cell reads the embedded token and the context, one behind the other, "
            "and starts from the state before the update.",
            BAHDANAU,
            sign=_wrong_alone(STATE),
        ),
        Misconception(
            "the output layer reads something else",
            "Weights and state are right. The logits come from the state after the update, the context and the token.",
            BAHDANAU,
            sign=_wrong_alone(LOGITS),
        ),
        Misconception(
            "another query",
            "The query is the state before the update, with an axis for the one target position.",
            BAHDANAU,
            sign=comparable(
                lambda request, reply, reference: not close(reply.outputs[WEIGHTS], reference.outputs[WEIGHTS])
            ),
        ),
    ),
)


# --- luong_step -----------------------------------------------------------------------------------------------------


class _Luong(rnn.LuongDecoder):
    """The course's decoder without windows and input feeding, so that its cache is the state alone."""

    def start(self, memory: Memory) -> Any:
        return memory.state

    def step(self, token: Tensor, memory: Memory, cache: Any) -> Any:
        states, last = self.rnn(self.embedding(token), self.before(memory, cache)[None])
        query = self.query(states, cache)
        context, weights = attention.attend(self.score(query, memory.key), memory.value, memory.mask)
        mixed = self.mix(self.attentional_proj, context, states)
        return self.head(self.say(mixed, states)), weights, self.keep(last[0], mixed)

    def before(self, memory: Memory, cache: Tensor) -> Tensor:
        return cache

    def query(self, states: Tensor, cache: Tensor) -> Tensor:
        return states

    def mix(self, project: nn.Module, context: Tensor, states: Tensor) -> Tensor:
        return torch.tanh(project(torch.cat([context, states], dim=-1)))

    def say(self, mixed: Tensor, states: Tensor) -> Tensor:
        return mixed

    def keep(self, last: Tensor, mixed: Tensor) -> Tensor:
        return last


def _luong_with(**pieces: Callable[..., Tensor]) -> type[nn.Module]:
    return type("Wrong", (_Luong,), {name: staticmethod(piece) for name, piece in pieces.items()})


def _luong_steps(g: torch.Generator) -> Iterator[Request]:
    yield _step(g, _Luong)


def _luong_learns(g: torch.Generator) -> Iterator[Request]:
    yield _step(g, _Luong, gradients=True)
    yield _step(g, _Luong, batch=1)


def _luong_runs(g: torch.Generator) -> Iterator[Request]:
    yield _step(g, _Luong, tokens=T)


def _luong_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_step(g, _Luong, tokens=T))


LUONG_STEP = Question(
    name="luong_step",
    reference=_Luong,
    use=_use_step,
    make=_with_score,
    properties=(
        Property("the state after the update asks", 2, _luong_steps, of_output(WEIGHTS, same_numbers)),
        Property("the attentional vector predicts, and the gradients of everything", 1, _luong_learns, same_gradients),
        Property("many tokens at once, and the last state handed on", 1, _luong_runs, same_numbers),
        Property("inputs unchanged, dtype kept, works on any device", 1, _luong_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "h_{t-1} asks, where h_t is meant",
            "This is Bahdanau's order. Luong's decoder updates first, and the state after the update asks.",
            LUONG,
            _luong_with(query=lambda states, cache: torch.cat([cache[:, None], states[:, :-1]], dim=1)),
        ),
        Misconception(
            "every step starts from the first state",
            "memory.state is where decoding starts; the state of this step is the cache.",
            LUONG,
            _luong_with(before=lambda memory, cache: memory.state),
        ),
        Misconception(
            "tanh missing",
            "The attentional vector is the tanh of W_c [c; h].",
            LUONG,
            _luong_with(mix=lambda project, context, states: project(torch.cat([context, states], dim=-1))),
        ),
        Misconception(
            "state before context in the attentional vector",
            "The order of what is attached decides which weights it meets: the context, then the state.",
            LUONG,
            _luong_with(mix=lambda project, context, states: project(torch.cat([states, context], dim=-1)).tanh()),
        ),
        Misconception(
            "the state predicts, not the attentional vector",
            "Predicting from h_t, the decoder never sees the context: the head reads the attentional vector.",
            LUONG,
            _luong_with(say=lambda mixed, states: states),
        ),
        Misconception(
            "the attentional vector is handed on as the state",
            "The recurrent state goes on as it is; in input feeding the attentional vector goes on beside it.",
            LUONG,
            _luong_with(keep=lambda last, mixed: mixed[:, -1]),
        ),
        MASK_LEFT_OUT,
        *ANYWHERE,
        Misconception(
            "the attentional vector is made of something else",
            "Weights and state are right. It is the tanh of a linear map of context and state, and the head reads it.",
            LUONG,
            sign=_wrong_alone(LOGITS),
        ),
        Misconception(
            "another state is handed on",
            "The weights are right. The next step starts from the state after the last token.",
            LUONG,
            sign=_wrong_alone(STATE),
        ),
        Misconception(
            "another query",
            "The queries are the states after the update, one for each token.",
            LUONG,
            sign=comparable(
                lambda request, reply, reference: not close(reply.outputs[WEIGHTS], reference.outputs[WEIGHTS])
            ),
        ),
    ),
)


# --- input_feeding --------------------------------------------------------------------------------------------------


def _feeding(vocabulary: int, embedding: int, state: int, memory: int, score: AdditiveScore) -> rnn.LuongDecoder:
    return rnn.LuongDecoder(vocabulary, embedding, state, memory, score, input_feeding=True)


def _use_feeding(decoder: Any, tokens: Tensor, key: Tensor, value: Tensor, mask: Tensor, first: Tensor) -> Any:
    """Go from the start through all tokens; what the cache holds is the decoder's own affair."""
    memory = Memory(key, value, mask, first)
    cache, logits, weights = decoder.start(memory), [], []
    for token in tokens.split(1, dim=1):
        step_logits, step_weights, cache = decoder.step(token, memory, cache)
        logits.append(step_logits)
        weights.append(step_weights)
    return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


def _fed(g: torch.Generator, tokens: int, gradients: bool = False, batch: int = B) -> Request:
    inputs = (torch.randint(V, (batch, tokens), generator=g), *_remembered(g, batch))
    return Request(inputs, SIZES, parameters(g, lambda: _with_score(_feeding, *SIZES)), gradients)


def _fed_first(g: torch.Generator) -> Iterator[Request]:
    yield _fed(g, 1)


def _fed_on(g: torch.Generator) -> Iterator[Request]:
    yield _fed(g, 2)
    yield _fed(g, 4, gradients=True)
    yield _fed(g, 2, batch=1)


def _fed_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_fed(g, T))


class _Feeding(rnn.LuongDecoder):
    """Input feeding in pieces that a misconception can replace."""

    def __init__(self, vocabulary: int, embedding: int, state: int, memory: int, score: AdditiveScore):
        super().__init__(vocabulary, embedding, state, memory, score, input_feeding=True)

    def start(self, memory: Memory) -> Any:
        return memory.state, self.first(memory.state)[:, None]

    def step(self, token: Tensor, memory: Memory, cache: Any) -> Any:
        state, fed = cache
        states, last = self.rnn(self.read(self.embedding(token), fed), state[None])
        context, weights = attention.attend(self.score(states, memory.key), memory.value, memory.mask)
        mixed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(mixed), weights, self.keep(last[0], mixed, states)

    def first(self, state: Tensor) -> Tensor:
        return torch.zeros_like(state)

    def read(self, embedded: Tensor, fed: Tensor) -> Tensor:
        return torch.cat([embedded, fed], dim=-1)

    def keep(self, state: Tensor, mixed: Tensor, states: Tensor) -> Any:
        return state, mixed


def _feeding_with(**pieces: Callable[..., Any]) -> type[nn.Module]:
    return type("Wrong", (_Feeding,), {name: staticmethod(piece) for name, piece in pieces.items()})


@comparable
def _only_later_steps(request: Request, reply: Reply, reference: Reply) -> bool:
    firsts = [(given[:, :1], wanted[:, :1]) for given, wanted in zip(reply.outputs, reference.outputs)]
    return request.inputs[0] is not None and request.inputs[0].size(1) > 1 and all(close(*pair) for pair in firsts)


INPUT_FEEDING = Question(
    name="input_feeding",
    reference=_feeding,
    use=_use_feeding,
    make=_with_score,
    properties=(
        Property("the first step, into which zeros are fed", 1, _fed_first, same_numbers),
        Property("every later step knows the attentional vector before it", 2, _fed_on, same_gradients),
        Property("dtype kept, works on any device", 1, _fed_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "zeros are fed at every step",
            "Only the first step has nothing to be told; each later one is fed what the step before it made.",
            FEEDING,
            _feeding_with(keep=lambda state, mixed, states: (state, torch.zeros_like(mixed))),
        ),
        Misconception(
            "the state is fed, not the attentional vector",
            "The recurrent cell knows its own state anyway; what it does not know is what was looked at.",
            FEEDING,
            _feeding_with(keep=lambda state, mixed, states: (state, states)),
        ),
        Misconception(
            "the attentional vector is handed on as the state",
            "It is part of the next *input*. The recurrent state goes on as it is.",
            FEEDING,
            _feeding_with(keep=lambda state, mixed, states: (mixed[:, 0], mixed)),
        ),
        Misconception(
            "the first state is fed first",
            "Before the first step nothing was looked at: zeros.",
            FEEDING,
            _feeding_with(first=lambda state: state),
        ),
        Misconception(
            "attentional vector before token",
            "The order of what is attached decides which weights it meets: the token, then what is fed.",
            FEEDING,
            _feeding_with(read=lambda embedded, fed: torch.cat([fed, embedded], dim=-1)),
        ),
        Misconception(
            "a forbidden position has weight",
            "The memory has a mask: hand it to `attend`.",
            FEEDING,
            sign=comparable(_weight_off_mask),
        ),
        *ANYWHERE,
        Misconception(
            "something else is handed on",
            "The first step is right. The next one needs its recurrent state and its attentional vector.",
            FEEDING,
            sign=_only_later_steps,
        ),
        Misconception(
            "the weights are right, the logits are not",
            "The logits come from the attentional vector, the tanh of W_c [c; h].",
            FEEDING,
            sign=comparable(
                lambda request, reply, reference: close(reply.outputs[WEIGHTS], reference.outputs[WEIGHTS])
            ),
        ),
    ),
)


# --- local_p --------------------------------------------------------------------------------------------------------

LONG, HALF_WIDTH = 17, 3


def _use_window(window: Any, scores: Tensor, query: Tensor, value: Tensor, mask: Tensor) -> Any:
    position = torch.zeros(scores.size(0), dtype=torch.long, device=scores.device)
    return window(scores, query, position, Memory(value, value, mask, query[:, 0]))


def _window(g: torch.Generator, lengths: Sequence[int], gradients: bool = False, queries: int = T) -> Request:
    batch, mask = len(lengths), padding_mask(torch.tensor(lengths), LONG)
    inputs = (normal(g, batch, queries, LONG), normal(g, batch, queries, D), normal(g, batch, LONG, E), mask)
    init = (D, A, HALF_WIDTH)
    return Request(inputs, init, parameters(g, lambda: windows.LocalP(*init)), gradients)


def _whole_sentences(g: torch.Generator) -> Iterator[Request]:
    yield _window(g, (LONG, LONG))


def _padded_sentences(g: torch.Generator) -> Iterator[Request]:
    yield _window(g, (LONG, 9))
    yield _window(g, (1, 13))


def _window_learns(g: torch.Generator) -> Iterator[Request]:
    yield _window(g, (LONG, 11), gradients=True)
    yield _window(g, (LONG, 8, 13), queries=1)
    yield _window(g, (11,))


def _window_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_window(g, (LONG, 11)))


class _Local(windows.LocalP):
    """The course's window in pieces that a misconception can replace."""

    def forward(self, scores: Tensor, query: Tensor, position: Tensor, memory: Memory) -> Any:
        share = self.squash(self.position_proj(self.hidden(self.hidden_proj(query)))).squeeze(-1)
        centre = self.centre(share, memory.mask.sum(dim=-1), scores.size(-1))
        distance = (torch.arange(scores.size(-1), device=scores.device) - centre[..., None]).abs()
        gauss = torch.exp(-((distance / self.spread(self.half_width)) ** 2) / 2)
        weights = self.weigh(scores, memory.mask, distance <= self.half_width, gauss)
        return weights @ memory.value, weights

    def hidden(self, x: Tensor) -> Tensor:
        return torch.tanh(x)

    def squash(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x)

    def centre(self, share: Tensor, lengths: Tensor, size: int) -> Tensor:
        return lengths * share

    def spread(self, half_width: int) -> float:
        return half_width / 2

    def weigh(self, scores: Tensor, mask: Tensor, near: Tensor, gauss: Tensor) -> Tensor:
        return attention.masked_softmax(scores, mask & near) * gauss


def _local_with(**pieces: Callable[..., Any]) -> type[nn.Module]:
    return type("Wrong", (_Local,), {name: staticmethod(piece) for name, piece in pieces.items()})


@comparable
def _outside_the_sentence(request: Request, reply: Reply, reference: Reply) -> bool:
    mask = request.inputs[-1]
    return mask is not None and bool((reply.outputs[1].abs() * ~mask > 1e-6).any())


@comparable
def _outside_the_window(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool(((reply.outputs[1].abs() > 1e-9).sum(-1) > 2 * HALF_WIDTH + 1).any())


def _same_window(reply: Reply, reference: Reply) -> bool:
    given, wanted = (x.outputs[1].abs() > 1e-9 for x in (reply, reference))
    return bool((given == wanted).all())


LOCAL_P = Question(
    name="local_p",
    reference=windows.LocalP,
    use=_use_window,
    properties=(
        Property("the weights around the predicted position", 2, _whole_sentences, of_output(WEIGHTS, same_numbers)),
        Property("each sentence counts its own tokens, not the padding", 1, _padded_sentences, same_numbers),
        Property("the context, and gradients through the position", 1, _window_learns, same_gradients),
        Property("inputs unchanged, dtype kept, works on any device", 1, _window_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "padding counted in the sentence's length",
            "The position is a share of the tokens that the sentence has, not of the length it was padded to.",
            LOCAL,
            _local_with(centre=lambda share, lengths, size: size * share),
        ),
        Misconception(
            "the position is not scaled to the sentence",
            "The sigmoid gives a share between 0 and 1: multiplied by the sentence's length it is a position.",
            LOCAL,
            _local_with(centre=lambda share, lengths, size: share),
        ),
        Misconception(
            "no Gaussian",
            "Within the window the weight falls off with the distance from its centre. Without that the predicted "
            "position gets no gradient.",
            LOCAL,
            _local_with(weigh=lambda scores, mask, near, gauss: attention.masked_softmax(scores, mask & near)),
        ),
        Misconception(
            "a forbidden position has weight",
            "Padding within the window stays padding: the memory's mask and the window are combined with `&`.",
            LOCAL,
            sign=_outside_the_sentence,
        ),
        Misconception(
            "no window",
            "The softmax runs over the positions at most w away from the centre, and no others.",
            LOCAL,
            _local_with(weigh=lambda scores, mask, near, gauss: attention.masked_softmax(scores, mask) * gauss),
            _outside_the_window,
        ),
        Misconception(
            "the Gaussian before the softmax",
            "It multiplies the weights, not the scores.",
            LOCAL,
            _local_with(weigh=lambda scores, mask, near, gauss: attention.masked_softmax(scores * gauss, mask & near)),
        ),
        Misconception(
            "the weights are normalised again",
            "They are left as the Gaussian makes them, and need not sum to one.",
            LOCAL,
            _local_with(
                weigh=lambda scores, mask, near, gauss: attention.masked_softmax(scores + gauss.log(), mask & near)
            ),
        ),
        Misconception(
            "the Gaussian is as wide as the window",
            "Its standard deviation is half of w.",
            LOCAL,
            _local_with(spread=lambda half_width: float(half_width)),
        ),
        Misconception(
            "tanh missing",
            "The network that predicts the position has a hidden layer with a tanh.",
            LOCAL,
            _local_with(hidden=lambda x: x),
        ),
        *ANYWHERE,
        Misconception(
            "the context is no weighted sum of the values",
            "The weights are right: the context is their product with the values.",
            LOCAL,
            sign=comparable(lambda request, reply, reference: close(reply.outputs[1], reference.outputs[1])),
        ),
        Misconception(
            "another window",
            "Weights are zero where |s - p| > w, and nowhere else: p is the sentence's length times the sigmoid, and s "
            "counts from 0.",
            LOCAL,
            sign=comparable(lambda request, reply, reference: not _same_window(reply, reference)),
        ),
        Misconception(
            "another Gaussian",
            "The window is right. The weights of the softmax are multiplied by exp(-(s - p)^2 / (2 (w / 2)^2)).",
            LOCAL,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)


# --- alignment_hit_rate ---------------------------------------------------------------------------------------------


def _use_hit_rate(hit_rate: Callable[..., float], weights: Tensor, gold: Tensor, sizes: Tensor) -> Tensor | None:
    """Hand over plain lists and sets, with as many gold rows as each target has tokens."""
    named = [[set(row.nonzero().flatten().tolist()) for row in rows[:size]] for rows, size in zip(gold, sizes.tolist())]
    rows = weights.tolist()
    before = copy.deepcopy((rows, named))
    share = hit_rate(rows, named)
    if (rows, named) != before:
        raise ValueError("the lists that came in were changed")
    return None if share is None else torch.tensor(float(share), dtype=torch.float64)


def _maps(g: torch.Generator, sizes: Sequence[int]) -> Request:
    count, rows = len(sizes), max(sizes)
    weights = (3 * normal(g, count, rows, S)).softmax(-1)
    gold = some_allowed(g, count, rows, S)
    return Request((weights, gold, torch.tensor(sizes)))


def _full_maps(g: torch.Generator) -> Iterator[Request]:
    for _ in range(4):
        yield _maps(g, (7, 7, 7))


def _ragged_maps(g: torch.Generator) -> Iterator[Request]:
    for _ in range(4):
        request = _maps(g, (2, 7, 5))
        weights, gold, sizes = request.inputs
        assert gold is not None
        gold[:, 1] = False  # a hyphen: it came from nowhere
        yield Request((weights, gold, sizes))


def _empty_maps(g: torch.Generator) -> Iterator[Request]:
    for _ in range(4):
        weights, gold, sizes = _maps(g, (7, 7)).inputs
        assert weights is not None and gold is not None
        weights[:, ::2] = 0.0
        gold[:, ::2, 0] = True
        yield Request((weights, gold, sizes))


def _with_hyphens(request: Request, reply: Reply, reference: Reply) -> bool:
    gold = request.inputs[1]
    return gold is not None and not bool(gold.any(-1).all())


def _with_rows_of_zeros(request: Request, reply: Reply, reference: Reply) -> bool:
    weights = request.inputs[0]
    return weights is not None and bool((weights == 0).all(-1).any())


def _right_share(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    finding = same_numbers(request, reply, reference)
    if finding and not reply.error and [output.shape for output in reply.outputs] == [()]:
        return Finding(f"a share of {float(reply.outputs[0]):.2f}", "another share")
    return finding


def _hits(weights: Any, gold: Any, point: Callable[[Any, Any], float], skip: bool = True) -> list[list[float]]:
    return [[point(row, g) for row, g in zip(rows, marks) if g or not skip] for rows, marks in zip(weights, gold)]


def _largest(row: Any, gold: Any) -> float:
    return float(max(row) > 0 and row.index(max(row)) in gold)


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / max(len(numbers), 1)


HIT_RATE = Question(
    name="alignment_hit_rate",
    reference=metrics.alignment_hit_rate,
    use=_use_hit_rate,
    plain=True,
    properties=(
        Property("the share of rows whose largest weight is on a gold position", 1, _full_maps, _right_share),
        Property(
            "rows without a gold position do not count, every other row counts alike", 1, _ragged_maps, _right_share
        ),
        Property("a row of zeros points nowhere", 1, _empty_maps, _right_share),
    ),
    misconceptions=(
        Misconception(
            "mean of the sentences' shares",
            "Every target position counts alike: add up hits and positions over all sentences, and divide once.",
            MAPS,
            lambda weights, gold: _mean([_mean(row) for row in _hits(weights, gold, _largest)]),
        ),
        Misconception(
            "positions that came from nowhere counted as misses",
            "A hyphen has no place in the source: leave its row out.",
            MAPS,
            lambda weights, gold: _mean(sum(_hits(weights, gold, _largest, skip=False), [])),
        ),
        Misconception(
            "the weight on gold positions, where hits are meant",
            "A hit is all or nothing: is the largest weight of the row on a gold position?",
            MAPS,
            lambda weights, gold: _mean(sum(_hits(weights, gold, lambda row, g: sum(row[s] for s in g)), [])),
        ),
        Misconception(
            "a row of zeros points to the first token",
            "The largest of equal numbers is found first, but a query that attends to nothing hits nothing.",
            MAPS,
            lambda weights, gold: _mean(sum(_hits(weights, gold, lambda row, g: row.index(max(row)) in g), [])),
            _with_rows_of_zeros,
        ),
        Misconception(
            "hits counted, not their share",
            "Divide by the number of target positions that count.",
            MAPS,
            lambda weights, gold: sum(sum(_hits(weights, gold, _largest), [])),
        ),
        Misconception(
            "one gold position looked at",
            "A character may have come from several: any of them is a hit.",
            MAPS,
            lambda weights, gold: _mean(sum(_hits(weights, gold, lambda row, g: _largest(row, {min(g)})), [])),
        ),
        Misconception(
            "no number is returned",
            "The share of hits is one number.",
            MAPS,
            sign=error_like(r"float\(\) argument|one element tensors|only be converted to"),
        ),
        Misconception(
            "tensors expected, where lists come",
            "Weights come as lists of rows of numbers, and gold positions as lists of sets.",
            MAPS,
            sign=error_like("'(list|set)' object|list indices"),
        ),
        Misconception(
            "the caller's lists are changed",
            "pop, remove, sort and del change a list in place, and the caller's list it is: the map is drawn later.",
            sign=error_like("lists that came in were changed"),
        ),
        *ANYWHERE,
        Misconception(
            "a position that came from nowhere is counted",
            "It is neither a hit nor a miss: leave it out of both numbers. Rows beyond the gold sets are no positions.",
            MAPS,
            sign=_with_hyphens,
        ),
    ),
)

QUESTIONS = (BAHDANAU_STEP, HIT_RATE, LUONG_STEP, INPUT_FEEDING, LOCAL_P)
