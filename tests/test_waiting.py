"""No step of training waits for the device, but for the readings that are named."""

import threading
from collections import Counter

import pytest
import torch
from measure.operators import Operators
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.testing import assert_close

from attention_course import models
from attention_course.pooling import Labeller
from attention_course.scores import AdditiveScore
from attention_course.tasks.reversal import reversal
from attention_course.tasks.tagging import tagging
from attention_course.training import (
    Objective,
    Run,
    TrainConfig,
    fabric_at,
    loop,
    read,
    train,
    train_step,
)

SIZES = {"embedding_dim": 7, "hidden_dim": 11}
STACK = {"dim": 14, "num_heads": 2, "hidden_dim": 11, "num_layers": 2, "dropout": 0.1}


@pytest.fixture(scope="module")
def task():
    return reversal(max_length=5, train_size=60, held_out_size=5)


def transformer(task):
    return models.transformer(
        source_size=task.source_size, target_size=task.target_size, **STACK
    )


def recurrent(name, key_dim, **more):
    def build(task):
        return getattr(models, name)(
            source_size=task.source_size,
            target_size=task.target_size,
            **SIZES,
            score=AdditiveScore(11, key_dim, 13),
            **more,
        )

    return build


BUILDERS = {
    "transformer": transformer,
    "bahdanau": recurrent("bahdanau", 22),
    "luong": recurrent("luong", 22),
    "luong_fed": recurrent("luong", 22, input_feeding=True, num_layers=2),
    "gnmt": recurrent("gnmt", 11, num_layers=3),
}
each_model = pytest.mark.parametrize("name", BUILDERS)


def step_of(model, task, batch, optimizer, wait, clip_norm=1.0):
    """Make one step where the model is; return what it told, and the run."""
    fabric = fabric_at(torch.device("cpu"))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    objective, optimizer = fabric.setup(
        Objective(model, task, TrainConfig()), optimizer, move_to_device=False
    )
    run = Run(model, optimizer, schedule)
    return train_step(fabric, objective, batch, run, clip_norm, wait), run


@each_model
def test_a_training_step_reads_nothing(name, task):
    """A fake tensor has no values: reading one raises."""
    batch = task.collate(task.train[:7])
    with FakeTensorMode(allow_non_fake_inputs=False) as fake:
        model = BUILDERS[name](task)
        given = type(batch)(*(fake.from_tensor(part) for part in batch))
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        told, _ = step_of(model, task, given, optimizer, wait=False)
        with pytest.raises(DataDependentOutputException):
            read([told], 1)

    assert told.shape == (3,)


@each_model
def test_a_training_step_copies_nothing_back(name, task):
    """What was made elsewhere than the model, or is copied from there, raises."""
    model = BUILDERS[name](task).to("meta")
    # RMSprop, since a fused optimizer is none of this device
    optimizer = torch.optim.RMSprop(model.parameters())
    batch = task.collate(task.train[:7], "meta")
    with Operators() as seen:
        step_of(model, task, batch, optimizer, wait=False)

    assert seen.total > 100
    assert not seen.waits


def test_a_labeller_copies_nothing_back():
    task = tagging(train_size=9, held_out_size=2)
    body = models.encoder_only(vocab_size=task.source_size, **STACK)
    model = Labeller(body, nn.Linear(14, task.target_size)).to("meta")
    optimizer = torch.optim.RMSprop(model.parameters())
    batch = task.collate(task.train[:7], "meta")
    with Operators() as seen:
        step_of(model, task, batch, optimizer, wait=False)

    assert not seen.waits


@each_model
def test_lengths_are_not_copied_where_a_source_is_read(name, task):
    model = BUILDERS[name](task).to("meta")
    batch = task.collate(task.train[:7], "meta")
    with Operators() as seen:
        model.encode(batch.source, batch.lengths)

    assert seen.total > 10
    assert not seen.waits


def test_the_counter_sees_what_it_counts():
    with Operators() as seen:
        x = torch.ones(3)
        x.double()  # computed where it is
        x.to("meta")
        float(x.sum())
        x.nonzero()

    assert seen.waits == {"_to_copy": 1, "_local_scalar_dense": 1, "nonzero": 1}
    assert seen.total == 6  # and ones, a conversion, and the sum


class Breaks(nn.Module):
    """Lets the loss of one step be nan."""

    def __init__(self, model, at):
        super().__init__()
        self.model, self.at, self.calls = model, at, 0

    def forward(self, *batch):
        self.calls += 1
        logits, weights = self.model(*batch)
        return logits * (torch.nan if self.calls == self.at else 1.0), weights


@pytest.mark.parametrize("read_every", [1, 5, 50])
def test_a_loss_that_is_no_number_is_found_with_its_step(task, read_every):
    config = TrainConfig(steps=12, batch_size=7, warmup_steps=3)
    torch.manual_seed(0)
    model = recurrent("bahdanau", 22)(task)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(FloatingPointError, match="at step 8 the loss is nan"):
        train(Breaks(model, at=8), task, config, read_every=read_every)

    # The weights are those of a run that is stopped after step 7.
    other = recurrent("bahdanau", 22)(task)
    other.load_state_dict(start)
    seen = []
    with pytest.raises(StopIteration):
        train(StopsAfter(other, 7, seen), task, config, read_every=read_every)
    for name, value in model.state_dict().items():
        assert_close(value, seen[0][name], rtol=0, atol=0)
    assert not torch.equal(
        model.state_dict()["decoder.head.bias"], start["decoder.head.bias"]
    )


class StopsAfter(nn.Module):
    """Notes its model's weights after some steps, and ends the training."""

    def __init__(self, model, steps, seen):
        super().__init__()
        self.model, self.left, self.seen = model, steps, seen

    def forward(self, *batch):
        if self.left == 0:
            self.seen.append(
                {name: value.clone() for name, value in self.model.state_dict().items()}
            )
            raise StopIteration
        self.left -= 1
        return self.model(*batch)


def test_reading_seldom_changes_nothing_but_how_often(task, monkeypatch):
    """Losses, validations and patience are those of a run that reads every step."""
    readings = Counter()
    histories = []

    def spy(told, first):
        readings[len(told)] += 1
        return read(told, first)

    monkeypatch.setattr(loop, "read", spy)
    for read_every in (1, 4):
        torch.manual_seed(0)
        readings.clear()
        validations = iter([1.0, 3.0, 2.0, 2.5, 9.0])
        history = train(
            transformer(task),
            task,
            TrainConfig(steps=30, batch_size=7, validate_every=6, patience=2),
            validate=lambda model, left=validations: next(left),
            read_every=read_every,
        )
        histories.append(history)

    # six steps to a validation: four, and the two that are left
    assert readings == {4: 4, 2: 4}
    assert [len(history) for history in histories] == [24, 24]
    for often, seldom in zip(*histories):
        assert often.loss == pytest.approx(seldom.loss, rel=1e-3)
        assert (often.step, often.tokens, often.metric) == (
            seldom.step,
            seldom.tokens,
            seldom.metric,
        )


@pytest.mark.plain
def test_never_to_read_makes_no_sense(task):
    with pytest.raises(ValueError, match="read_every is at least 1, got 0"):
        train(transformer(task), task, read_every=0)


# Batches made ahead


def test_batches_are_made_ahead_in_another_thread_and_in_order():
    made, threads = [], set()
    asked = iter(range(7))

    def make(one):
        made.append(one)
        threads.add(threading.current_thread())
        return 10 * one

    things = loop.ahead(make, asked, number=2)
    assert next(things) == 0
    # one has been given out, two are on their way, and no more was drawn
    assert next(asked) == 3
    assert list(things) == [10, 20, 40, 50, 60]
    assert made == [0, 1, 2, 4, 5, 6]
    assert threading.current_thread() not in threads


def test_what_making_a_batch_raises_is_raised_when_it_is_due():
    things = loop.ahead(lambda one: 6 // one, iter([3, 2, 0, 1]))

    assert [next(things), next(things)] == [2, 3]
    with pytest.raises(ZeroDivisionError):
        next(things)


def test_batches_for_a_device_are_pinned_and_moved_there(task, monkeypatch):
    pinned = []
    monkeypatch.setattr(
        torch.Tensor, "pin_memory", lambda self: pinned.append(self) or self
    )
    fabric = fabric_at(torch.device("cpu"))
    monkeypatch.setattr(type(fabric), "device", torch.device("meta"))
    drawn = [task.train[:3], task.train[3:8]]
    moved = list(loop.made_ahead(task, drawn, fabric))

    assert [batch.source.device.type for batch in moved] == ["meta", "meta"]
    assert [batch.source.size(0) for batch in moved] == [3, 5]
    assert {x.size(0) for x in pinned} == {3, 5}
