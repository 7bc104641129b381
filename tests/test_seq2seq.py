import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._pytree import tree_map

from attention_course.seq2seq import Decoder, Encoded, EncoderDecoder, Memory

B, T, S = 2, 3, 5
SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 0, 0]])
LENGTHS = torch.tensor([5, 3])
TARGET = torch.tensor([[1, 4, 5], [1, 6, 7]])


class Echo(nn.Module):
    """A decoder small enough to follow by hand: the memory's state is its answer, the token is added to it."""

    def remember(self, encoded):
        return Memory(encoded.states, encoded.states, encoded.mask, 10 * encoded.final)

    def start(self, memory):
        return memory.state

    def step(self, token, memory, cache):
        cache = cache + token
        return cache[:, None], memory.mask.to(cache.dtype), cache

    def decode(self, target, memory):
        return memory.state[:, None] + target.cumsum(dim=1)[..., None], memory.mask.expand(
            -1, target.size(1), -1
        ).float()


class Sum(nn.Module):
    """An encoder whose final state is the sum of the tokens."""

    def forward(self, source, lengths):
        states = source[..., None].float()
        mask = (torch.arange(source.size(1)) < lengths[:, None])[:, None]
        return Encoded(states, (states * mask.mT).sum(dim=1), mask)


def test_what_the_parts_are_asked_by_hand():
    model = EncoderDecoder(Sum(), Echo())
    memory = model.encode(SOURCE, LENGTHS)
    assert_close(memory.state, torch.tensor([[300.0], [300.0]]))  # ten times 4 + ... + 8, and ten times 9 + 10 + 11

    logits, weights = model(SOURCE, LENGTHS, TARGET)
    assert_close(logits[..., 0], torch.tensor([[301.0, 305.0, 310.0], [301.0, 307.0, 314.0]]))
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
    assert_close(model(SOURCE, LENGTHS, TARGET), model.decode(TARGET, model.encode(SOURCE, LENGTHS)))


def test_the_parts_are_registered(model):
    names = {name.split(".")[0] for name, _ in model.named_parameters()}
    assert names == {"encoder", "decoder"}


def test_batch_is_the_first_axis_of_all_that_is_remembered(model):
    """Beam search reorders rows of memory and cache: the answers have to follow."""
    rows = torch.tensor([1, 0, 1])
    memory = model.encode(SOURCE, LENGTHS)
    _, _, cache = model.step(TARGET[:, :1], memory, model.start(memory))
    logits, weights, _ = model.step(TARGET[:, 1:2], memory, cache)

    chosen, chosen_cache = tree_map(lambda part: part[rows], (memory, cache))
    chosen_logits, chosen_weights, _ = model.step(TARGET[rows, 1:2], chosen, chosen_cache)
    assert_close(chosen_logits, logits[rows])
    assert_close(chosen_weights, weights[rows])


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
