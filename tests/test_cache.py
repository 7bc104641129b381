"""The cache that is written in place is the readable one, token by token."""

import pytest
import torch
from torch.testing import assert_close

from attention_course import models
from attention_course.attention import KeyValue
from attention_course.cache import AHEAD, Growing, Lineage, make_room, reorder
from attention_course.decoding import beam_search, greedy, sample
from attention_course.seq2seq import select

BOS, NEVER, STEPS = 1, -1, 2 * AHEAD + 3
SOURCE, LENGTHS = torch.randint(4, 17, (3, 5)), torch.tensor([5, 3, 1])
SIZES = {"dim": 12, "num_heads": 2, "hidden_dim": 13, "num_layers": 2}
BUILDERS = {
    "transformer": lambda: models.transformer(source_size=17, target_size=17, **SIZES),
    "language model": lambda: models.decoder_only(vocab_size=17, **SIZES),
    "shared keys, rotary": lambda: models.llama(
        vocab_size=17, num_key_heads=1, base=1e4, eps=1e-5, **SIZES
    ),
}


@pytest.fixture(params=list(BUILDERS))
def transformer(request):
    model = BUILDERS[request.param]()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model.eval()


def key_value(steps, rows=3):
    return KeyValue(*torch.randn(2, rows, 2, steps, 6))


@torch.no_grad()
def test_a_step_into_buffers_is_the_readable_step(transformer):
    memory = transformer.encode(SOURCE, LENGTHS)
    token = torch.full((3, 1), BOS)
    _, _, readable = transformer.step(token, memory, transformer.start(memory))
    in_place = make_room(readable, STEPS)
    for _ in range(STEPS):
        token = torch.randint(4, 17, (3, 1))
        expected, _, readable = transformer.step(token, memory, readable)
        logits, _, in_place = transformer.step(token, memory, in_place)
        assert_close(logits, expected)
        assert_close(in_place, readable)
        assert all(isinstance(layer, Growing) for layer in in_place)


@pytest.mark.parametrize(
    "search",
    [
        greedy,
        lambda *a: sample(*a, generator=torch.Generator().manual_seed(0)),
        lambda *a: beam_search(*a, beam_size=4),
    ],
    ids=["greedy", "sample", "beam"],
)
def test_a_search_finds_what_it_finds_with_the_readable_cache(
    transformer, search, monkeypatch
):
    asked = transformer, SOURCE, LENGTHS, BOS, NEVER, STEPS
    in_place = search(*asked)
    monkeypatch.setattr("attention_course.decoding.make_room", lambda cache, _: cache)
    assert_close(in_place, search(*asked))


def test_nothing_that_is_there_is_copied():
    (cache,) = make_room((key_value(3),), AHEAD)
    for _ in range(AHEAD):
        before, cache = cache, cache.extend(key_value(1))
        assert cache.key.data_ptr() == before.key.data_ptr()
        assert cache.value.data_ptr() == before.value.data_ptr()


def test_where_the_room_ends_there_is_more():
    start, news = key_value(3), [key_value(1) for _ in range(2 * AHEAD)]
    for steps in (0, 1, AHEAD):
        readable, in_place = start, make_room(start, steps)
        for new in news:
            readable, in_place = readable.extend(new), in_place.extend(new)
        assert_close(KeyValue(*in_place), readable)


def test_elsewhere_than_on_a_cpu_there_is_room_for_all_steps():
    cache = make_room(KeyValue(*torch.empty(2, 3, 2, 4, 6, device="meta")), 100)
    assert cache.room.key.shape == (3, 2, 104, 6)


def test_what_is_no_key_value_stays():
    state = torch.randn(3, 4)
    assert make_room((state, None), 5) == (state, None)


def searched(steps, device="cpu"):
    """Reorder two caches by the same random parents, one of them by `select`."""
    readable = key_value(4, rows=1).key.expand(6, -1, -1, -1)  # one sentence: all alike
    readable = KeyValue(readable, readable)
    cache, lineage, counts = (
        make_room(readable, steps),
        Lineage(6, torch.device(device)),
        [],
    )
    for _ in range(steps):
        parent = torch.randint(6, (6,))
        counts.append(lineage.changed(parent))
        readable, cache = select(readable, parent), reorder(cache, parent, counts[-1])
        assert_close(KeyValue(*cache), readable)
        new = key_value(1, rows=6)
        readable, cache = readable.extend(new), cache.extend(new)
    return counts


def test_beams_are_reordered_in_place():
    counts = searched(STEPS)
    # beams die out, so that in the end all have their first positions in common
    assert counts[0] == 0 and max(counts) < STEPS - 2


def test_a_device_is_not_waited_for():
    # no value of a meta tensor can be read
    lineage = Lineage(6, torch.device("meta"))
    parent = torch.zeros(6, dtype=torch.long, device="meta")
    assert [lineage.changed(parent) for _ in range(4)] == [0, 1, 2, 3]


def test_what_keeps_its_place_is_not_copied():
    lineage, same = Lineage(4, torch.device("cpu")), torch.arange(4)
    assert [lineage.changed(same) for _ in range(3)] == [0, 0, 0]
    assert lineage.changed(torch.tensor([0, 0, 2, 3])) == 3
    assert lineage.changed(torch.tensor([1, 0, 2, 3])) == 1  # 0 and 1 have one past
