import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attention_course.decoding import greedy
from attention_course.seq2seq import Encoded, EncoderDecoder, Memory

BOS, EOS = 1, 2
B, S, V = 2, 5, 11
SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 0, 0]])
LENGTHS = torch.tensor([5, 3])


class Scripted(nn.Module):
    """Says what its script says, one row per sentence; at step t it looks at source token t."""

    def __init__(self, script):
        super().__init__()
        self.script = torch.tensor(script)
        self.heard = []

    def forward(self, source, lengths):
        states = torch.zeros(*source.shape, 1)
        return Encoded(states, states[:, 0], torch.ones(source.size(0), 1, source.size(1), dtype=torch.bool))

    def remember(self, encoded):
        return Memory(encoded.states, encoded.states, encoded.mask, encoded.final)

    def start(self, memory):
        return memory.state

    def step(self, token, memory, cache):
        self.heard.append(token[:, 0].tolist())
        t = int(cache[0, 0])
        logits = torch.eye(V)[self.script[:, t]][:, None]
        weights = torch.eye(memory.key.size(1))[t].expand(token.size(0), 1, -1)
        return logits, weights, cache + 1

    def decode(self, target, memory):
        raise AssertionError("decoding knows no target")


def decode_script(script, max_length):
    scripted = Scripted(script)
    return greedy(EncoderDecoder(scripted, scripted), SOURCE, LENGTHS, BOS, EOS, max_length), scripted.heard


def test_stops_when_every_sentence_has_ended():
    decoded, heard = decode_script([[5, EOS, 7, 8, 9], [4, 6, EOS, 9, 10]], max_length=5)

    assert decoded.tokens.tolist() == [[5, EOS, EOS], [4, 6, EOS]]
    assert_close(decoded.weights, torch.eye(S)[:3].expand(B, 3, S))
    assert heard == [[BOS, BOS], [5, 4], [EOS, 6]]  # each step reads what the one before said


def test_an_end_is_an_end_even_if_the_model_goes_on():
    decoded, _ = decode_script([[EOS, 7, 7, 7, 7], [4, 4, 4, 4, EOS]], max_length=5)

    assert decoded.tokens.tolist() == [[EOS] * 5, [4, 4, 4, 4, EOS]]


def test_stops_at_the_maximal_length():
    decoded, heard = decode_script([[3, 4, 5, 6, 7], [8, 9, 10, 3, 4]], max_length=2)

    assert decoded.tokens.tolist() == [[3, 4], [8, 9]]
    assert decoded.weights.size(1) == len(heard) == 2


def argmax_loop(model, source, steps):
    """Decode one sentence without padding, cache or batch: the whole prefix anew for every token, and no end."""
    memory = model.encode(source[None], torch.tensor([len(source)], device="cpu"))
    prefix = [BOS]
    for _ in range(steps):
        logits, weights = model.decode(torch.tensor([prefix], device=source.device), memory)
        prefix.append(int(logits[0, -1].argmax()))
    return prefix[1:], weights[0]


def test_greedy_is_an_argmax_loop_over_teacher_forcing(model, device):
    """Whatever token is declared the end: a sentence is cut after its first one, and the others go on."""
    model, steps = model.to(device), 7
    lengths = torch.tensor([5, 3, 1, 4, 2, 5, 3])
    source = torch.randint(4, 17, (len(lengths), 5)).to(device)
    endless = [argmax_loop(model, row[:length], steps) for row, length in zip(source, lengths.tolist())]
    assert len({tuple(tokens) for tokens, _ in endless}) > 2  # the sentences differ, or the test says little

    for eos in range(19):
        cut = [tokens[: tokens.index(eos) + 1] if eos in tokens else tokens for tokens, _ in endless]
        longest = max(map(len, cut))
        decoded = greedy(model, source, lengths, BOS, eos, steps)
        assert decoded.tokens.tolist() == [tokens + [eos] * (longest - len(tokens)) for tokens in cut]
        for row, tokens, (_, weights) in zip(decoded.weights, cut, endless):
            assert_close(row[: len(tokens), : weights.size(1)], weights[: len(tokens)])


def test_no_gradient_is_kept(model):
    assert not greedy(model, SOURCE, LENGTHS, BOS, EOS, 3).weights.requires_grad


def test_no_steps_at_all_are_refused():
    with pytest.raises(ValueError, match="max_length 0"):
        decode_script([[EOS], [EOS]], max_length=0)
