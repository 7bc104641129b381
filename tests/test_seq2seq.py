import copy
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attention_course.seq2seq import Decoder, Encoded, EncoderDecoder, Memory, select
from attention_course.transformer import TransformerDecoder

B, T, S, V = 2, 3, 5, 19
SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 0, 0]])
LENGTHS = torch.tensor([5, 3])
# No token stands twice, so that the gradient of an embedding belongs to one position.
TARGET = torch.tensor([[1, 4, 5], [2, 6, 7]])


class Echo(nn.Module):
    """A decoder small enough to follow by hand: the memory's state is its answer, the
    token is added to it."""

    def remember(self, encoded):
        return Memory(encoded.states, encoded.states, encoded.mask, 10 * encoded.final)

    def start(self, memory):
        return memory.state

    def step(self, token, memory, cache):
        cache = cache + token
        return cache[:, None], memory.mask.to(cache.dtype), cache

    def decode(self, target, memory):
        return (
            memory.state[:, None] + target.cumsum(dim=1)[..., None],
            memory.mask.expand(-1, target.size(1), -1).float(),
        )


class Sum(nn.Module):
    """An encoder whose final state is the sum of the tokens."""

    def forward(self, source, lengths):
        states = source[..., None].float()
        mask = (torch.arange(source.size(1)) < lengths[:, None])[:, None]
        return Encoded(states, (states * mask.mT).sum(dim=1), mask)


def test_what_the_parts_are_asked_by_hand():
    model = EncoderDecoder(Sum(), Echo())
    memory = model.encode(SOURCE, LENGTHS)
    # ten times 4 + ... + 8, and ten times 9 + 10 + 11
    assert_close(memory.state, torch.tensor([[300.0], [300.0]]))

    logits, weights = model(SOURCE, LENGTHS, TARGET)
    assert_close(
        logits[..., 0], torch.tensor([[301.0, 305.0, 310.0], [302.0, 308.0, 315.0]])
    )
    assert_close(weights[1], torch.tensor([[1.0, 1.0, 1.0, 0.0, 0.0]] * T))

    cache = model.start(memory)
    for t in range(T):
        step_logits, _, cache = model.step(TARGET[:, t : t + 1], memory, cache)
        assert_close(step_logits, logits[:, t : t + 1])


def test_a_decoder_is_known_by_its_four_verbs(model):
    assert isinstance(Echo(), Decoder)
    assert isinstance(model.decoder, Decoder)
    assert not isinstance(Sum(), Decoder)


def test_forward_is_encode_then_decode(model):
    assert_close(
        model(SOURCE, LENGTHS, TARGET),
        model.decode(TARGET, model.encode(SOURCE, LENGTHS)),
    )


def test_the_parts_are_registered(model):
    names = {name.split(".")[0] for name, _ in model.named_parameters()}
    assert names == {"encoder", "decoder"}


def test_batch_is_the_first_axis_of_all_that_is_remembered(model):
    """Beam search reorders rows of memory and cache: the answers have to follow."""
    rows = torch.tensor([1, 0, 1])
    memory = model.encode(SOURCE, LENGTHS)
    _, _, cache = model.step(TARGET[:, :1], memory, model.start(memory))
    logits, weights, _ = model.step(TARGET[:, 1:2], memory, cache, need_weights=True)

    chosen = model.step(
        TARGET[rows, 1:2], select(memory, rows), select(cache, rows), need_weights=True
    )
    assert_close(chosen[:2], (logits[rows], weights[rows]))


def test_nothing_is_stashed_between_calls(model):
    memory = model.encode(SOURCE, LENGTHS)
    first, _, cache = model.step(TARGET[:, :1], memory, model.start(memory))
    second, _, _ = model.step(TARGET[:, 1:2], memory, cache)

    # Another sentence in between, and the same steps once more.
    model(SOURCE.flip(1)[:1, :3], torch.tensor([3]), TARGET[:1])
    again, _, cache_again = model.step(TARGET[:, :1], memory, model.start(memory))
    assert_close(again, first)
    assert_close(model.step(TARGET[:, 1:2], memory, cache_again)[0], second)
    assert_close(model.step(TARGET[:, 1:2], memory, cache)[0], second)


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


def test_select_reaches_every_tensor_of_a_tree():
    rows, tensor = torch.tensor([2, 0, 2]), torch.randn(3, 5, 7)
    tree = (Pair(tensor, tensor + 1), None, (tensor + 2, Pair(tensor + 3, tensor + 4)))
    (left, right), none, (third, pair) = chosen = select(tree, rows)

    assert none is None
    assert type(chosen[0]) is type(pair) is Pair
    assert type(chosen) is type(chosen[2]) is tuple
    for offset, part in enumerate([left, right, third, pair.left, pair.right]):
        assert_close(part, torch.stack([tensor[2], tensor[0], tensor[2]]) + offset)
    assert select(None, rows) is None


def test_a_decoder_is_asked_for_weights_only_if_somebody_wants_them():
    class Shy(Echo):
        def decode(self, target, memory, need_weights=False):
            logits, weights = super().decode(target, memory)
            return logits, weights if need_weights else None

        def step(self, token, memory, cache, need_weights=False):
            logits, weights, cache = super().step(token, memory, cache)
            return logits, weights if need_weights else None, cache

    model = EncoderDecoder(Sum(), Shy())
    memory = model.encode(SOURCE, LENGTHS)
    for asked in (True, False):
        answers = [
            model.decode(TARGET, memory, asked)[1],
            model(SOURCE, LENGTHS, TARGET, asked)[1],
            model.step(TARGET[:, :1], memory, memory.state, asked)[1],
        ]
        assert [weights is not None for weights in answers] == [asked] * 3


def test_what_costs_nothing_is_returned_unasked(model):
    """And the logits of a step do not depend on who asks."""
    memory = model.encode(SOURCE, LENGTHS)
    cache = model.start(memory)
    logits, weights, _ = model.step(TARGET[:, :1], memory, cache)
    asked_logits, asked_weights, _ = model.step(
        TARGET[:, :1], memory, cache, need_weights=True
    )

    assert_close(asked_logits, logits)
    if isinstance(model.decoder, TransformerDecoder):
        assert weights is None and asked_weights is not None
    else:
        assert_close(asked_weights, weights)


# What holds for every model: the fixture `model` builds one of each kind. Weights are
# (B, T, S), or (B, L, H, T, S).


def answers(model, source=SOURCE, lengths=LENGTHS, target=TARGET):
    return model(source, lengths, target, need_weights=True)


def random_batch(b, t, s):
    """Token ids for `b` sentences; the first is `s` long, the others vary."""
    lengths = torch.tensor([s, *torch.randint(1, s + 1, (b - 1,)).tolist()])
    return torch.randint(4, 17, (b, s)), lengths, torch.randint(1, V, (b, t))


@pytest.mark.parametrize(
    ("b", "t", "s"), [(2, 3, 5), (3, 5, 2), (1, 2, 7), (2, 1, 3), (2, 3, 1), (1, 1, 1)]
)
def test_decode_is_the_stacked_steps(model, b, t, s, device):
    model = model.to(device)
    source, lengths, target = random_batch(b, t, s)
    memory = model.encode(source.to(device), lengths)
    target = target.to(device)
    logits, weights = model.decode(target, memory, need_weights=True)

    cache, stacked = model.start(memory), []
    for i in range(t):
        *step, cache = model.step(
            target[:, i : i + 1], memory, cache, need_weights=True
        )
        stacked.append(step)
    assert_close(logits, torch.cat([step_logits for step_logits, _ in stacked], dim=1))
    assert_close(
        weights, torch.cat([step_weights for _, step_weights in stacked], dim=-2)
    )


def test_the_target_reaches_the_logits(model):
    """So that none of the invariances below holds because nothing depends on
    anything."""
    logits, _ = model(SOURCE, LENGTHS, TARGET)
    other_source, _ = model(SOURCE + 1, LENGTHS, TARGET)
    other_target, _ = model(SOURCE, LENGTHS, TARGET + 1)

    assert (logits - other_source).abs().amax(dim=-1).min() > 1e-3
    assert (logits - other_target).abs().amax(dim=-1).min() > 1e-3


def test_asking_for_weights_changes_no_logits(model):
    assert_close(model(SOURCE, LENGTHS, TARGET)[0], answers(model)[0])


def test_padding_changes_nothing(model):
    logits, weights = answers(model)
    junk = torch.tensor([[4, 5, 6, 7, 8, 3, 12], [9, 10, 11, 13, 14, 15, 16]])
    junk_logits, junk_weights = answers(model, junk)

    assert_close(junk_logits, logits)
    assert_close(
        model.encoder(junk, LENGTHS).final, model.encoder(SOURCE, LENGTHS).final
    )
    if weights.size(-1) == S:
        assert_close(junk_weights[..., :S], weights)
        assert not junk_weights[0, ..., 5:].any()
        assert not junk_weights[1, ..., 3:].any()


def test_a_sentence_does_not_see_its_batch(model):
    logits, weights = answers(model)
    for b in range(B):
        one, length = slice(b, b + 1), int(LENGTHS[b])
        alone, alone_weights = answers(
            model, SOURCE[one, :length], LENGTHS[one], TARGET[one]
        )
        assert_close(alone, logits[one])
        assert_close(alone_weights, weights[one, ..., : alone_weights.size(-1)])


def test_logits_do_not_depend_on_later_target_tokens(model):
    embedding = model.decoder.embedding.weight
    logits, _ = model(SOURCE, LENGTHS, TARGET)
    for b in range(B):
        for t in range(T):
            (gradient,) = torch.autograd.grad(
                logits[b, t].square().sum(), embedding, retain_graph=True
            )
            reached = gradient.abs().sum(dim=-1) > 0
            assert reached[TARGET[b, : t + 1]].all()
            assert reached.sum() == t + 1  # no later token, and no other sentence's


def test_every_parameter_learns(model):
    logits, _ = model(SOURCE, LENGTHS, TARGET)
    logits.logsumexp(dim=-1).sum().backward()

    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


def test_double_precision_stays_double(model):
    single, _ = model(SOURCE, LENGTHS, TARGET)
    double, weights = answers(copy.deepcopy(model).double())

    assert double.dtype == weights.dtype == torch.float64
    assert_close(double.float(), single, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_has_no_nan(model, dtype):
    single, _ = model(SOURCE, LENGTHS, TARGET)
    half = copy.deepcopy(model).to(dtype)
    logits, weights = answers(half)
    logits.float().logsumexp(dim=-1).sum().backward()

    assert logits.dtype == weights.dtype == dtype
    assert weights.isfinite().all()
    assert (logits.float() - single).abs().max() < 0.1 * single.abs().max()
    assert all(parameter.grad.isfinite().all() for parameter in half.parameters())


@pytest.mark.plain
@pytest.mark.parametrize("lengths", [[5], [5, 3, 1]])
def test_a_source_has_one_length(model, lengths):
    with pytest.raises(ValueError, match=rf"\({len(lengths)},\) for 2 sources"):
        model(SOURCE, torch.tensor(lengths), TARGET)
