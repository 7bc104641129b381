import functools
import itertools
import math

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
)
from torch.testing import assert_close

from attention_course import decoding, models
from attention_course.decoding import beam_search, gnmt_length_penalty, greedy, sample
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import Encoded, EncoderDecoder, Memory

BOS, EOS = 1, 2
B, S, V = 2, 5, 11
SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 0, 0]])
LENGTHS = torch.tensor([5, 3])


class Scripted(nn.Module):
    """Says what its script says, one row per sentence; at step t it looks at source
    token t."""

    def __init__(self, script):
        super().__init__()
        self.script = torch.tensor(script)
        self.heard = []

    def forward(self, source, lengths):
        states = torch.zeros(*source.shape, 1)
        return Encoded(
            states,
            states[:, 0],
            torch.ones(source.size(0), 1, source.size(1), dtype=torch.bool),
        )

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
    return (
        greedy(
            EncoderDecoder(scripted, scripted), SOURCE, LENGTHS, BOS, EOS, max_length
        ),
        scripted.heard,
    )


def test_stops_when_every_sentence_has_ended():
    decoded, heard = decode_script(
        [[5, EOS, 7, 8, 9], [4, 6, EOS, 9, 10]], max_length=5
    )

    assert decoded.tokens.tolist() == [[5, EOS, EOS], [4, 6, EOS]]
    assert_close(decoded.weights, torch.eye(S)[:3].expand(B, 3, S))
    # each step reads what the one before said
    assert heard == [[BOS, BOS], [5, 4], [EOS, 6]]


def test_an_end_is_an_end_even_if_the_model_goes_on():
    decoded, _ = decode_script([[EOS, 7, 7, 7, 7], [4, 4, 4, 4, EOS]], max_length=5)

    assert decoded.tokens.tolist() == [[EOS] * 5, [4, 4, 4, 4, EOS]]


def test_stops_at_the_maximal_length():
    decoded, heard = decode_script([[3, 4, 5, 6, 7], [8, 9, 10, 3, 4]], max_length=2)

    assert decoded.tokens.tolist() == [[3, 4], [8, 9]]
    assert decoded.weights.size(1) == len(heard) == 2


def argmax_loop(model, source, steps):
    """Decode one sentence without padding, cache or batch: the whole prefix anew for
    every token, and no end."""
    memory = model.encode(source[None], torch.tensor([len(source)], device="cpu"))
    prefix = [BOS]
    for _ in range(steps):
        logits, weights = model.decode(
            torch.tensor([prefix], device=source.device), memory, need_weights=True
        )
        prefix.append(int(logits[0, -1].argmax()))
    return prefix[1:], weights[0]


def test_greedy_is_an_argmax_loop_over_teacher_forcing(model, device):
    """Whatever token is declared the end: a sentence is cut after its first one, and
    the others go on."""
    model, steps = model.to(device), 7
    lengths = torch.tensor([5, 3, 1, 4, 2, 5, 3])
    source = torch.randint(4, 17, (len(lengths), 5)).to(device)
    endless = [
        argmax_loop(model, row[:length], steps)
        for row, length in zip(source, lengths.tolist())
    ]
    # the sentences differ, or the test says little
    assert len({tuple(tokens) for tokens, _ in endless}) > 2

    for eos in range(19):
        cut = [
            tokens[: tokens.index(eos) + 1] if eos in tokens else tokens
            for tokens, _ in endless
        ]
        longest = max(map(len, cut))
        decoded = greedy(model, source, lengths, BOS, eos, steps)
        assert decoded.tokens.tolist() == [
            tokens + [eos] * (longest - len(tokens)) for tokens in cut
        ]
        if decoded.weights is not None:  # a Transformer's are not asked for
            for row, tokens, (_, weights) in zip(decoded.weights, cut, endless):
                assert_close(
                    row[: len(tokens), : weights.size(1)], weights[: len(tokens)]
                )


def test_no_gradient_is_kept(model):
    for decoded in (
        greedy(model, SOURCE, LENGTHS, BOS, EOS, 3),
        sample(model, SOURCE, LENGTHS, BOS, EOS, 3),
        beam_search(model, SOURCE, LENGTHS, BOS, EOS, 3, beam_size=2),
    ):
        for part in filter(torch.is_tensor, decoded):
            assert not part.requires_grad
            assert not part.is_inference()  # or nothing could be trained on it


def test_no_steps_at_all_are_refused():
    with pytest.raises(ValueError, match="max_length 0"):
        decode_script([[EOS], [EOS]], max_length=0)


def shaken(model):
    """Weights far from torch's own, so that likelihoods differ."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model.eval()


def transformer(target_size=V, num_layers=2, pre_norm=True):
    return shaken(
        models.transformer(
            source_size=17,
            target_size=target_size,
            dim=12,
            num_heads=3,
            hidden_dim=13,
            num_layers=num_layers,
            pre_norm=pre_norm,
        )
    )


def language_model(target_size=V):
    """It reads the other models' sources as prompts, and writes as few kinds of token."""
    model = models.decoder_only(
        vocab_size=17, dim=12, num_heads=3, hidden_dim=13, num_layers=2
    )
    model.head = nn.Linear(12, target_size)
    return shaken(model)


def recurrent(target_size=V):
    return shaken(translator(models.bahdanau, target_size))


def translator(order, target_size=V):
    return order(
        source_size=17,
        target_size=target_size,
        embedding_dim=7,
        hidden_dim=11,
        score=AdditiveScore(11, 22, 13),
    )


TRANSFORMERS = {
    f"{n} layers": lambda n=n: transformer(num_layers=n) for n in (1, 2, 3)
} | {"post-norm": lambda: transformer(pre_norm=False)}
BOTH_KINDS = TRANSFORMERS | {"language model": language_model, "recurrent": recurrent}


@pytest.fixture(params=list(BOTH_KINDS))
def any_model(request):
    return BOTH_KINDS[request.param]()


def log_probability(model, source, tokens):
    """Score one sentence without cache or batch: its first token is predicted from
    BOS."""
    memory = model.encode(source[None], torch.tensor([len(source)], device="cpu"))
    logits, _ = model.decode(torch.tensor([[BOS, *tokens[:-1]]]), memory)
    return logits[0].log_softmax(dim=-1)[range(len(tokens)), tokens].sum()


def unpadded():
    return [row[:length] for row, length in zip(SOURCE, LENGTHS.tolist())]


def cut(tokens, eos=EOS):
    return tokens[: tokens.index(eos) + 1] if eos in tokens else tokens


def test_greedy_with_a_cache_is_greedy_without(any_model):
    decoded = greedy(any_model, SOURCE, LENGTHS, BOS, EOS, 7)

    for source, row, score in zip(unpadded(), decoded.tokens.tolist(), decoded.scores):
        memory = any_model.encode(
            source[None], torch.tensor([len(source)], device="cpu")
        )
        prefix = [BOS]
        while len(prefix) <= 7 and prefix[-1] != EOS:
            prefix.append(
                int(any_model.decode(torch.tensor([prefix]), memory)[0][0, -1].argmax())
            )
        assert cut(row) == prefix[1:]
        assert_close(score, log_probability(any_model, source, cut(row)))


# Sampling


def test_a_sample_of_one_candidate_is_greedy(any_model):
    expected = greedy(any_model, SOURCE, LENGTHS, BOS, EOS, 7)

    assert_close(sample(any_model, SOURCE, LENGTHS, BOS, EOS, 7, top_k=1), expected)
    for temperature in (1e-4, 1e-40):
        assert_close(
            sample(any_model, SOURCE, LENGTHS, BOS, EOS, 7, temperature=temperature),
            expected,
        )


def test_a_low_temperature_does_not_overflow_half_precision():
    model = transformer().half()
    decoded = sample(model, SOURCE, LENGTHS, BOS, EOS, 7, temperature=1e-5)

    assert decoded.scores.isfinite().all()


def test_no_more_candidates_than_asked_for_even_if_all_are_alike():
    model, n = language_model(), 400
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.zero_()
    decoded = sample(
        model,
        torch.zeros(n, 1, dtype=torch.long),
        torch.ones(n, dtype=torch.long),
        BOS,
        EOS,
        1,
        top_k=3,
    )

    assert len(decoded.tokens.unique()) == 3


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scores_of_a_model_in_half_precision_are_in_single_precision(dtype):
    model = transformer().to(dtype)
    logits, _ = model(SOURCE, LENGTHS, torch.full((B, 1), BOS))
    for decoded in (
        greedy(model, SOURCE, LENGTHS, BOS, EOS, 1),
        sample(model, SOURCE, LENGTHS, BOS, EOS, 1),
        beam_search(model, SOURCE, LENGTHS, BOS, EOS, 1, 1),
    ):
        expected = (
            logits[:, 0].float().log_softmax(dim=-1).gather(1, decoded.tokens)[:, 0]
        )
        assert_close(decoded.scores, expected)


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, None), (0.5, None), (2.0, 3)])
def test_tokens_come_as_often_as_they_should(temperature, top_k):
    model, n = transformer(target_size=5), 4000
    source, lengths = SOURCE[:1].expand(n, -1), LENGTHS[:1].expand(n)
    decoded = sample(
        model,
        source,
        lengths,
        BOS,
        EOS,
        1,
        temperature,
        top_k,
        torch.Generator().manual_seed(3),
    )

    memory = model.encode(SOURCE[:1], LENGTHS[:1])
    logits = model.decode(torch.tensor([[BOS]]), memory)[0][0, 0]
    odds = (logits / temperature).exp()
    if top_k:
        odds[logits.argsort()[:-top_k]] = 0
    shares = decoded.tokens[:, 0].bincount(minlength=5) / n
    assert_close(shares, odds / odds.sum(), rtol=0, atol=4 * math.sqrt(0.25 / n))


def test_a_generator_makes_samples_repeat(any_model):
    def draw(seed):
        return sample(
            any_model,
            SOURCE,
            LENGTHS,
            BOS,
            EOS,
            7,
            3.0,
            None,
            torch.Generator().manual_seed(seed),
        )

    assert_close(draw(5), draw(5))
    assert len({str(draw(seed).tokens.tolist()) for seed in range(5)}) > 1


def test_an_end_is_an_end_of_a_sample_too():
    decoded = sample(
        transformer(target_size=5), SOURCE, LENGTHS, BOS, EOS, 11, temperature=3.0
    )

    rows = decoded.tokens.tolist()
    assert all(set(row[len(cut(row)) :]) <= {EOS} for row in rows)
    assert decoded.tokens.size(1) == max(len(cut(row)) for row in rows)


# Beam search


def test_the_length_penalty_by_hand():
    assert_close(
        gnmt_length_penalty(torch.tensor([1, 7, 13]), 1.0),
        torch.tensor([1.0, 2.0, 3.0]),
    )
    assert_close(
        gnmt_length_penalty(torch.tensor([1, 19]), 0.5), torch.tensor([1.0, 2.0])
    )
    assert_close(gnmt_length_penalty(torch.tensor([1, 7]), 0.0), torch.ones(2))


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_a_beam_of_one_is_greedy(any_model, alpha):
    expected = greedy(any_model, SOURCE, LENGTHS, BOS, EOS, 7)
    decoded = beam_search(any_model, SOURCE, LENGTHS, BOS, EOS, 7, 1, alpha)

    assert_close(decoded[:2], expected[:2])
    length = torch.tensor([len(cut(row)) for row in expected.tokens.tolist()])
    assert_close(decoded.scores, expected.scores / gnmt_length_penalty(length, alpha))


def penalised(model, source, tokens, alpha):
    return (
        float(log_probability(model, source, tokens)) / ((5 + len(tokens)) / 6) ** alpha
    )


@torch.no_grad()
@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("build", [transformer, language_model, recurrent])
def test_a_beam_that_holds_everything_finds_the_best(build, alpha):
    model, vocab_size, steps = build(target_size=5), 5, 3
    decoded = beam_search(
        model, SOURCE, LENGTHS, BOS, EOS, steps, vocab_size**steps, alpha
    )

    everything = {
        tuple(cut(list(tokens)))
        for tokens in itertools.product(range(vocab_size), repeat=steps)
    }
    for source, row, score in zip(unpadded(), decoded.tokens.tolist(), decoded.scores):
        best = max(
            everything, key=lambda tokens: penalised(model, source, list(tokens), alpha)
        )
        assert cut(row) == list(best)
        assert_close(
            float(score),
            penalised(model, source, list(best), alpha),
            rtol=1e-4,
            atol=1e-4,
        )


def beam_by_lists(model, source, steps, beam_size, alpha, eos):
    """Search for one sentence with lists: no batch, no cache, the whole prefix anew for
    every token."""
    memory = model.encode(source[None], torch.tensor([len(source)], device="cpu"))
    beam = [([], 0.0)]
    for _ in range(steps):
        candidates = []
        for tokens, total in beam:
            if tokens and tokens[-1] == eos:
                candidates.append((tokens, total))
                continue
            logits, _ = model.decode(torch.tensor([[BOS, *tokens]]), memory)
            gains = logits[0, -1].log_softmax(dim=-1).tolist()
            candidates += [
                ([*tokens, token], total + gain) for token, gain in enumerate(gains)
            ]
        candidates.sort(
            key=lambda c: c[1] / ((5 + len(c[0])) / 6) ** alpha, reverse=True
        )
        beam = candidates[:beam_size]
    return beam[0][0], beam[0][1] / ((5 + len(beam[0][0])) / 6) ** alpha


@torch.no_grad()
@pytest.mark.parametrize(("beam_size", "alpha"), [(2, 0.0), (3, 1.0), (5, 2.0)])
def test_beams_keep_to_their_own_past(any_model, beam_size, alpha):
    """Whatever token is declared the end. If memory, cache or ends were not reordered
    with the beams, scores differ."""
    for eos in (2, 3, 4, 5):
        decoded = beam_search(any_model, SOURCE, LENGTHS, BOS, eos, 5, beam_size, alpha)
        for source, row, score in zip(
            unpadded(), decoded.tokens.tolist(), decoded.scores
        ):
            expected, expected_score = beam_by_lists(
                any_model, source, 5, beam_size, alpha, eos
            )
            assert cut(row, eos) == expected
            assert set(row[len(expected) :]) <= {eos}
            assert_close(float(score), expected_score, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("eos", [2, 3, 4, 5])
@pytest.mark.parametrize("order", [models.bahdanau, models.luong])
def test_a_beams_weights_are_those_of_its_sentence(order, eos):
    model = shaken(translator(order))
    decoded = beam_search(model, SOURCE, LENGTHS, BOS, eos, 7, 5, 1.0)
    target = torch.cat([torch.full((B, 1), BOS), decoded.tokens[:, :-1]], dim=1)
    _, weights = model(SOURCE, LENGTHS, target)

    for row, given, expected in zip(decoded.tokens.tolist(), decoded.weights, weights):
        assert_close(given[: len(cut(row, eos))], expected[: len(cut(row, eos))])


def test_the_search_may_begin_with_what_is_less_likely():
    """Greedy takes the likelier first token and loses; a beam of two keeps the other
    one."""
    a, b, never = 3, 4, -1e9
    log = math.log
    # after BOS: a 0.6, b 0.4; after a: four tokens alike; after b: EOS almost surely
    tables = {
        BOS: {a: log(0.6), b: log(0.4)},
        a: {t: log(0.25) for t in (5, 6, 7, EOS)},
        b: {EOS: log(0.9), 5: log(0.1)},
    }

    class Table(Scripted):
        def step(self, token, memory, cache):
            rows = [
                [tables.get(t, {EOS: 0.0}).get(v, never) for v in range(V)]
                for t in token[:, 0].tolist()
            ]
            return torch.tensor(rows)[:, None], None, cache

    model = EncoderDecoder(Table([[0]]), Table([[0]]))
    assert greedy(model, SOURCE, LENGTHS, BOS, EOS, 3).tokens[0, 0] == a
    decoded = beam_search(model, SOURCE, LENGTHS, BOS, EOS, 3, 2)
    assert [cut(row) for row in decoded.tokens.tolist()] == [[b, EOS]] * B
    assert_close(decoded.scores, torch.full((B,), log(0.36)))
    assert decoded.weights is None


# A device that is not waited for


def searches(eos, steps):
    asked = LENGTHS, BOS, eos, steps
    return {
        "greedy": lambda model, source: greedy(model, source, *asked),
        "sample": lambda model, source: sample(
            model, source, *asked, generator=torch.Generator().manual_seed(0)
        ),
        "beam": lambda model, source: beam_search(model, source, *asked, 3, 0.6),
    }


@pytest.mark.parametrize("search", ["greedy", "sample", "beam"])
@pytest.mark.parametrize("eos", [2, 3, 4, 5])
def test_looking_seldom_changes_nothing(any_model, search, eos, monkeypatch):
    search = searches(eos, 20)[search]
    expected = search(any_model, SOURCE)
    # looked at as another device is
    elsewhere = functools.partial(decoding._End, torch.device("meta"))
    monkeypatch.setattr(decoding, "_End", lambda _: elsewhere())
    for every in (3, 7, 50):
        monkeypatch.setattr(decoding, "LOOK_EVERY", every)
        assert_close(search(any_model, SOURCE), expected)


@pytest.mark.plain
@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_nothing_is_read_but_the_end_every_few_steps(any_model, search, monkeypatch):
    """On "meta" there are no values: whoever reads one, or copies one back, raises."""
    read = []
    monkeypatch.setattr(decoding, "_read", lambda value: read.append(value) or 0)
    model = any_model.to("meta")
    asked = SOURCE.to("meta"), LENGTHS.to("meta"), BOS, EOS, 40
    with pytest.raises(RuntimeError, match="meta"):
        SOURCE.to("meta").sum().item()
    greedy(model, *asked) if search == "greedy" else beam_search(model, *asked, 3)
    assert len(read) == 40 // decoding.LOOK_EVERY + 1


@pytest.mark.plain
@pytest.mark.parametrize("search", ["greedy", "beam"])
@pytest.mark.parametrize("build", [transformer, language_model, recurrent])
def test_nothing_is_read_of_fake_tensors_either(build, search, monkeypatch):
    monkeypatch.setattr(decoding, "_read", lambda value: 0)
    elsewhere = torch.device("meta")  # as on a device that has to be waited for
    for name in ("_End", "Lineage"):
        real = getattr(decoding, name)
        made = lambda *given, real=real: real(*given[:-1], elsewhere)  # noqa: E731
        monkeypatch.setattr(decoding, name, made)
    with FakeTensorMode():
        model = build()
        source = torch.zeros(2, 5, dtype=torch.long)
        lengths = torch.zeros(2, dtype=torch.long)
        with pytest.raises(DataDependentOutputException):
            lengths.sum().item()
        asked = model, source, lengths, BOS, EOS, 20
        found = greedy(*asked) if search == "greedy" else beam_search(*asked, 3)
        assert isinstance(found.tokens, FakeTensor) and found.tokens.size(1) == 1


# What follows is about our own errors.


@pytest.mark.plain
def test_what_cannot_be_searched_is_refused():
    model = transformer()
    with pytest.raises(ValueError, match="max_length 0"):
        beam_search(model, SOURCE, LENGTHS, BOS, EOS, 0, 2)
    with pytest.raises(ValueError, match="at least 1 .*beam_size 0"):
        beam_search(model, SOURCE, LENGTHS, BOS, EOS, 3, 0)
    with pytest.raises(ValueError, match="penalty is a number, got nan"):
        beam_search(model, SOURCE, LENGTHS, BOS, EOS, 3, 2, math.nan)


@pytest.mark.plain
def test_what_cannot_be_drawn_is_refused():
    model = transformer()
    for temperature in (0.0, math.nan):
        with pytest.raises(ValueError, match=f"above 0, got {temperature}"):
            sample(model, SOURCE, LENGTHS, BOS, EOS, 3, temperature=temperature)
    for top_k in (0, V + 1):
        with pytest.raises(ValueError, match=f"the {top_k} likeliest of {V} tokens"):
            sample(model, SOURCE, LENGTHS, BOS, EOS, 3, top_k=top_k)
