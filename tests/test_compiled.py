"""The compiled step predicts what the readable step predicts, in few graphs."""

import math

import pytest
import torch
from torch.testing import assert_close

from attention_course import compiled, models
from attention_course.compiled import Compiled, windows
from attention_course.decoding import beam_search, greedy, sample
from attention_course.scores import DotScore
from attention_course.seq2seq import EncoderDecoder
from attention_course.transformer import LearnedPositions

BOS, NEVER = 1, -1
SOURCE, LENGTHS = torch.randint(4, 17, (3, 5)), torch.tensor([5, 3, 1])
SIZES = {"dim": 12, "num_heads": 2, "hidden_dim": 13, "num_layers": 1}
BUILDERS = {
    "transformer": lambda: models.transformer(source_size=17, target_size=17, **SIZES),
    "learned positions, post-norm": lambda: EncoderDecoder(
        models.encoder_only(vocab_size=17, **SIZES),
        models.transformer_decoder(
            vocab_size=17, positions=LearnedPositions(80, 12), pre_norm=False, **SIZES
        ),
    ),
    "language model": lambda: models.decoder_only(vocab_size=17, **SIZES),
    "rotary, shared keys": lambda: models.llama(
        vocab_size=17, num_key_heads=1, **SIZES
    ),
}
# torch.compile traces what runs; types are not checked at the same time.
pytestmark = pytest.mark.plain


def built(name):
    model = BUILDERS[name]()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model.eval()


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()


@torch.no_grad()
@pytest.mark.parametrize("name", BUILDERS)
def test_the_compiled_step_is_the_readable_step(name):
    model, steps = built(name), 70
    compiled = Compiled(model, backend="aot_eager")
    memory = model.encode(SOURCE, LENGTHS)
    token = torch.full((3, 1), BOS)
    _, _, readable = model.step(token, memory, model.start(memory))
    _, _, cache = compiled.step(token, memory, compiled.start(memory))
    cache = compiled.make_room(cache, steps)
    for _ in range(steps):
        token = torch.randint(4, 17, (3, 1))
        expected, _, readable = model.step(token, memory, readable)
        logits, weights, cache = compiled.step(token, memory, cache)
        assert_close(logits, expected, rtol=1e-4, atol=1e-4)
        assert weights is None
    with pytest.raises(ValueError, match=f"room for {cache[0].key.size(2)} positions"):
        compiled.step(token, memory, cache)


@pytest.mark.parametrize("name", BUILDERS)
def test_searches_find_the_same_tokens(name):
    model = built(name)
    compiled = Compiled(model, backend="aot_eager")
    searches = (
        greedy,
        lambda *a: sample(*a, generator=torch.Generator().manual_seed(0)),
        lambda *a: beam_search(*a, beam_size=3),
    )
    for search in searches:
        asked = SOURCE, LENGTHS, BOS, NEVER, 11
        expected, found = search(model, *asked), search(compiled, *asked)
        assert_close(found.tokens, expected.tokens)
        assert_close(found.scores, expected.scores, rtol=1e-4, atol=1e-4)


def graphs(search):
    """Count the graphs that are compiled meanwhile."""
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    search()
    return torch._dynamo.utils.counters["stats"]["unique_graphs"] - before


@pytest.mark.parametrize(("steps", "expected"), [(20, 1), (100, 2), (128, 3)])
def test_one_graph_for_each_window(steps, expected):
    compiled = Compiled(built("transformer"), backend="aot_eager")
    asked = compiled, SOURCE, LENGTHS, BOS, NEVER, steps

    assert graphs(lambda: greedy(*asked)) == expected
    assert graphs(lambda: greedy(*asked)) == 0  # the same buffers


def test_batches_of_many_sizes_need_few_graphs():
    compiled = Compiled(built("transformer"), backend="aot_eager")

    def search():
        for rows in (2, 3, 4, 5):
            source = torch.randint(4, 17, (rows, rows + 3))
            lengths = torch.full((rows,), rows + 3)
            greedy(compiled, source, lengths, BOS, NEVER, 40)

    assert graphs(search) <= 3


def test_what_a_step_writes_to_stays_where_it_is():
    """CUDA graphs are given up where anything else is written to."""
    written = []

    def backend(graph, inputs):
        nodes = [n for n in graph.graph.nodes if n.target == "index_copy_"]
        written.extend(n.args[0].meta["tensor_dict"] for n in nodes)
        return graph.forward

    compiled = Compiled(built("transformer"), backend=backend)
    greedy(compiled, SOURCE, LENGTHS, BOS, NEVER, 100)
    assert len(written) == 4  # keys and values of a layer, in two windows
    assert all(tensor["_dynamo_static_input_type"] for tensor in written)


def test_windows_are_few():
    for room in range(32, 3000):
        sizes = windows(room)
        assert sizes[-1] == room and len(sizes) <= 1 + math.log2(room / 32)
    assert windows(7) == [7]


def test_what_an_earlier_search_left_is_not_seen():
    model = built("transformer")
    compiled = Compiled(model, backend="aot_eager")
    asked = SOURCE, LENGTHS, BOS, NEVER, 11
    greedy(compiled, *asked)
    for room in next(iter(compiled._rooms.values())):
        room.value.fill_(math.nan)
    found, expected = greedy(compiled, *asked), greedy(model, *asked)
    assert_close(found.scores, expected.scores, rtol=1e-4, atol=1e-4)


def test_a_recurrent_model_is_refused():
    model = models.luong(
        source_size=17,
        target_size=17,
        embedding_dim=6,
        hidden_dim=8,
        score=DotScore(),
        input_feeding=True,
    )
    with pytest.raises(ValueError, match="has a LuongDecoder: decode without"):
        Compiled(model)


def test_a_step_that_would_fall_into_several_graphs_is_refused(monkeypatch):
    whole = compiled._logits

    def broken(*given):
        torch._dynamo.graph_break()
        return whole(*given)

    monkeypatch.setattr(compiled, "_logits", broken)
    model = Compiled(built("transformer"), backend="aot_eager")
    with pytest.raises(torch._dynamo.exc.Unsupported):
        greedy(model, SOURCE, LENGTHS, BOS, NEVER, 5)
