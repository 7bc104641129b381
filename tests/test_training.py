import dataclasses
import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import nn
from torch.testing import assert_close

from attention_course import models
from attention_course.runs.loading import computing
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import Encoded, EncoderDecoder, Memory
from attention_course.tasks.core import EOS
from attention_course.tasks.reversal import reversal
from attention_course.tasks.sequences import Batch, Example, make_task
from attention_course.training import (
    Objective,
    OwnTokens,
    Run,
    TrainConfig,
    alignment,
    evaluate,
    fabric_at,
    loop,
    train,
    train_step,
    validation_loss,
)

HIDDEN = 24
FIELDS = dataclasses.fields(TrainConfig)


@pytest.fixture(scope="module")
def task():
    return reversal(max_length=3, train_size=2000, held_out_size=100)


def build(task, name="bahdanau"):
    key_dim = {"bahdanau": 2 * HIDDEN, "luong": 2 * HIDDEN, "gnmt": HIDDEN}
    has_score = name in key_dim
    score = {"score": AdditiveScore(HIDDEN, key_dim[name], 16)} if has_score else {}
    return getattr(models, name)(
        source_size=len(task.source_vocabulary),
        target_size=len(task.target_vocabulary),
        embedding_dim=16,
        hidden_dim=HIDDEN,
        **score,
    )


# One step


def one_step(task, batch, learning_rate=0.0, clip_norm=1.0, model=None):
    """Make a step of plain gradient descent; return its loss and the model."""
    model = model or build(task)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    fabric = fabric_at(torch.device("cpu"))
    run = Run(
        model, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    )
    objective, run.optimizer = fabric.setup(
        Objective(model, task, TrainConfig()), optimizer
    )
    told = train_step(fabric, objective, batch, run, clip_norm)
    return told[0].item(), model


def test_the_loss_is_in_nats_per_token(task):
    model = build(task)
    nn.init.zeros_(model.decoder.head.weight)
    nn.init.zeros_(model.decoder.head.bias)

    # Who knows nothing pays ln V for every token.
    loss, _ = one_step(task, task.collate(task.train[:7]), model=model)
    assert loss == pytest.approx(math.log(len(task.target_vocabulary)))


def test_padding_is_not_counted(task):
    batch = task.collate(task.train[:7])
    padded = Batch(
        F.pad(batch.source, (0, 2)),
        batch.lengths,
        *(F.pad(part, (0, 3)) for part in batch[2:]),
    )
    losses, updates = [], []
    for given in (batch, padded):
        torch.manual_seed(0)
        before = nn.utils.parameters_to_vector(build(task).parameters())
        torch.manual_seed(0)
        loss, model = one_step(task, given, learning_rate=1.0)
        losses.append(loss)
        updates.append(nn.utils.parameters_to_vector(model.parameters()) - before)

    assert losses[0] == pytest.approx(losses[1])
    assert updates[0].norm() > 0.1
    assert_close(updates[0], updates[1])


def test_a_long_gradient_is_clipped(task):
    model = build(task)
    before = nn.utils.parameters_to_vector(model.parameters()).detach()
    one_step(
        task,
        task.collate(task.train[:7]),
        learning_rate=1.0,
        clip_norm=0.01,
        model=model,
    )

    step = nn.utils.parameters_to_vector(model.parameters()).detach() - before
    assert step.norm().item() == pytest.approx(0.01, rel=1e-2)


def test_gradients_do_not_add_up_over_steps(task):
    model, batch = build(task), task.collate(task.train[:7])
    gradients = []
    for _ in range(2):
        one_step(task, batch, clip_norm=1e9, model=model)
        gradients.append(model.decoder.head.weight.grad.clone())

    assert_close(gradients[0], gradients[1])


# Training


@pytest.mark.parametrize(
    "name", ["final_state", "context_every_step", "bahdanau", "luong", "gnmt"]
)
def test_the_loss_falls(task, name, device):
    model = build(task, name).to(device)
    history = train(
        model,
        task,
        TrainConfig(steps=40, batch_size=32, learning_rate=1e-2, warmup_steps=5),
    )
    losses = [row.loss for row in history]

    assert [row.step for row in history] == list(range(1, 41))
    assert losses[0] == pytest.approx(math.log(len(task.target_vocabulary)), abs=0.5)
    assert sum(losses[-5:]) / 5 < 0.75 * losses[0]
    assert not model.training


def test_reversal_is_learnt(task):
    model = build(task)
    before = evaluate(model, task, task.test)
    train(model, task, TrainConfig(steps=200, learning_rate=1e-2, warmup_steps=20))
    after = evaluate(model, task, task.test)

    assert before.exact_match < 0.1
    assert after.exact_match > 0.9
    assert before.hit_rate < 0.9
    assert after.hit_rate > 0.95


def losses_of(task, weights_seed=0, **settings):
    torch.manual_seed(weights_seed)
    return [
        row.loss
        for row in train(
            build(task), task, TrainConfig(steps=5, batch_size=8, **settings)
        )
    ]


def test_training_is_the_seeds(task):
    assert losses_of(task) == pytest.approx(losses_of(task), rel=1e-6)
    assert losses_of(task) != pytest.approx(losses_of(task, seed=1), rel=1e-3)
    assert losses_of(task) != pytest.approx(losses_of(task, weights_seed=1), rel=1e-3)


def learning_rates(task, monkeypatch, config):
    trace = []

    def spy(fabric, objective, batch, run, clip_norm, wait):
        trace.append(
            (run.optimizer.param_groups[0]["lr"], len(batch.source), clip_norm)
        )
        return train_step(fabric, objective, batch, run, clip_norm, wait)

    monkeypatch.setattr(loop, "train_step", spy)
    train(build(task), task, config)
    rates, sizes, norms = zip(*trace)
    assert set(sizes) == {config.batch_size}
    assert set(norms) == {config.clip_norm}
    return list(rates)


def test_the_learning_rate_warms_up_and_falls_to_zero(task, monkeypatch):
    config = TrainConfig(
        steps=10, batch_size=3, learning_rate=0.1, warmup_steps=4, clip_norm=0.7
    )
    rates = learning_rates(task, monkeypatch, config)

    # In four equal steps up to the whole; then half a cosine over the six steps that
    # are left.
    warmup = [0.1 * (i + 1) / 4 for i in range(4)]
    decay = [0.1 * (1 + math.cos(math.pi * i / 6)) / 2 for i in range(6)]
    assert rates == pytest.approx(warmup + decay)


def test_without_warm_up_the_learning_rate_starts_at_the_top(task, monkeypatch):
    rates = learning_rates(
        task,
        monkeypatch,
        TrainConfig(steps=5, batch_size=3, learning_rate=0.1, warmup_steps=0),
    )

    assert rates[0] == pytest.approx(0.1)
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.03


def test_the_learning_rate_moves_the_weights(task):
    before = build(task).state_dict()
    model = build(task)
    model.load_state_dict(before)
    train(
        model,
        task,
        TrainConfig(steps=1, batch_size=3, learning_rate=0.1, warmup_steps=5),
    )

    # Adam's first step is as long as its learning rate, which is a fifth of the
    # highest.
    moved = (model.decoder.head.bias - before["decoder.head.bias"]).abs().max().item()
    assert moved == pytest.approx(0.02, rel=1e-2)


def test_nothing_goes_to_stderr(task, capfd):
    """In a graded cell nbgrader takes anything on stderr for an error."""
    model = build(task)
    train(model, task, TrainConfig(steps=3, batch_size=8, warmup_steps=2))
    evaluate(model, task, task.test[:5])

    assert capfd.readouterr().err == ""


def test_label_smoothing_reaches_the_task(task):
    batch = task.collate(task.train[:7])
    smoothed, plain = (
        Objective(build(task), task, TrainConfig(label_smoothing=share))
        for share in (0.3, 0.0)
    )
    smoothed.model = plain.model

    assert_close(
        smoothed(batch)[0], task.loss(plain.model, batch, label_smoothing=0.3)[0]
    )
    assert smoothed(batch)[0] > plain(batch)[0]


def test_mixed_precision_trains_and_leaves_single_weights(task):
    losses = []
    for precision in ("32-true", "bf16-mixed"):
        torch.manual_seed(0)
        model = models.transformer(
            source_size=task.source_size,
            target_size=task.target_size,
            dim=16,
            num_heads=2,
            hidden_dim=32,
            num_layers=1,
        )
        fabric = Fabric(accelerator="cpu", devices=1, precision=precision)
        history = train(
            model, task, TrainConfig(steps=30, batch_size=16, validate_every=30), fabric
        )
        losses.append([row.loss for row in history])
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


@pytest.mark.parametrize(
    "name", ["final_state", "context_every_step", "bahdanau", "luong", "gnmt"]
)
def test_every_model_trains_in_mixed_precision(task, name):
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    model = build(task, name)
    train(model, task, TrainConfig(steps=2, batch_size=5, validate_every=2), fabric)

    assert all(parameter.isfinite().all() for parameter in model.parameters())
    with computing(model, "bf16-mixed"):
        assert 0 <= task.score(model, task.validation) <= 1


@pytest.mark.plain
@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"steps": 0}, "steps is at least 1, got 0"),
        ({"batch_size": -3}, "batch_size is at least 1, got -3"),
        ({"learning_rate": -1}, "learning_rate is finite and above 0, got -1"),
        ({"learning_rate": math.inf}, "learning_rate is finite and above 0, got inf"),
        ({"warmup_steps": -5}, "warmup_steps is at least 0, got -5"),
        ({"clip_norm": -1}, "clip_norm is above 0, got -1"),
        ({"clip_norm": 0.0}, "clip_norm is above 0, got 0.0"),
        ({"label_smoothing": -0.1}, "label_smoothing is at least 0 and .*, got -0.1"),
        ({"label_smoothing": 1.0}, "label_smoothing is .* below 1, got 1.0"),
        ({"teacher_forcing": 1.5}, "teacher_forcing is a share .* 0 and 1, got 1.5"),
        ({"validate_every": 0}, "validate_every is at least 1, got 0"),
        ({"patience": 0}, "patience is at least 1, got 0"),
        ({"seed": 2**63}, "seed is at least 0 and below 2.63, got 9223372036854775808"),
        ({"seed": -1}, "seed is at least 0 and below 2.63, got -1"),
        *(({field.name: math.nan}, f"{field.name} is .*, got nan") for field in FIELDS),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting, named):
    with pytest.raises(ValueError, match=named):
        TrainConfig(**setting)


@pytest.mark.plain
@pytest.mark.parametrize(("batch_size", "examples"), [(1, 5), (5, 1)])
def test_each_process_needs_an_example(task, batch_size, examples):
    two = SimpleNamespace(world_size=2, device=torch.device("cpu"))
    few = replace(task, train=task.train[:examples])
    with pytest.raises(ValueError, match="2 processes share each batch, .* has 1$"):
        train(build(task), few, TrainConfig(batch_size=batch_size), two)


# Teacher forcing


@pytest.mark.parametrize(
    "name", ["final_state", "context_every_step", "bahdanau", "luong", "gnmt"]
)
def test_always_the_right_token_is_teacher_forcing(task, name):
    model, batch = build(task, name), task.collate(task.train[:5])
    logits, _ = OwnTokens(model, 1.0)(batch.source, batch.lengths, batch.target_in)

    assert_close(logits, model(batch.source, batch.lengths, batch.target_in)[0])


class Parrot(nn.Module):
    """Is sure that the next token is the one after the last one in the vocabulary, and
    notes what it is given."""

    def __init__(self):
        super().__init__()
        self.given = []

    def forward(self, source, lengths):
        return Encoded(
            torch.zeros(len(source), 1, 1),
            torch.zeros(len(source), 1),
            lengths[:, None, None] > 0,
        )

    def remember(self, encoded):
        return encoded.final

    def start(self, memory):
        return memory

    def step(self, token, memory, cache):
        self.given.append(token[:, 0].tolist())
        return 1e3 * F.one_hot((token + 1) % 19, 19).float(), None, cache

    def decode(self, target, memory, need_weights=False):
        raise AssertionError("the model's own tokens are known only step by step")


def test_never_the_right_token_is_free_running():
    parrot = Parrot()
    target = torch.tensor([[1, 9, 9, 9], [1, 7, 7, 7]])
    logits, _ = OwnTokens(EncoderDecoder(parrot, parrot), 0.0)(
        target, torch.tensor([4, 4]), target
    )

    assert parrot.given == [[1, 1], [2, 2], [3, 3], [4, 4]]
    assert logits.argmax(dim=-1).tolist() == [[2, 3, 4, 5], [2, 3, 4, 5]]


def test_the_ratio_is_how_often_the_right_token_is_given():
    parrot = Parrot()
    target = torch.full((500, 11), 17)
    OwnTokens(EncoderDecoder(parrot, parrot), 0.7)(
        target, torch.ones(500, dtype=torch.long), target
    )

    # After a right token, 17, its own one would be 18; a coin is thrown for each
    # sentence and each token.
    shares = [row.count(17) / 500 for row in parrot.given[1:]]
    assert sum(shares) / len(shares) == pytest.approx(0.7, abs=0.03)
    assert all(0.55 < share < 0.85 for share in shares)


def test_own_tokens_train_all_that_teacher_forcing_does(task):
    model = build(task)
    history = train(
        model,
        task,
        TrainConfig(steps=30, batch_size=32, learning_rate=1e-2, teacher_forcing=0.5),
    )

    assert history[-1].loss < 0.9 * history[0].loss
    assert all(parameter.grad.any() for parameter in model.parameters())


@pytest.mark.plain
def test_what_has_no_decoder_has_no_own_tokens():
    with pytest.raises(ValueError, match="needs an EncoderDecoder, got Linear"):
        OwnTokens(nn.Linear(2, 3), 0.5)


# Validation and the end of training


def scripted(metrics):
    """Return a validation with these results, and a list of the heads' biases that it
    was shown."""
    shown, left = [], iter(metrics)

    def validate(model):
        shown.append(model.decoder.head.bias.detach().clone())
        model.eval()
        return next(left)

    return validate, shown


def test_the_best_weights_are_kept(task):
    validate, shown = scripted([1.0, 3.0, 2.0, 2.0])
    model = build(task)
    history = train(
        model,
        task,
        TrainConfig(steps=7, batch_size=3, validate_every=2),
        validate=validate,
    )

    # After every second step, and after the last.
    assert [(row.step, row.metric) for row in history if row.metric is not None] == [
        (2, 1),
        (4, 3),
        (6, 2),
        (7, 2),
    ]
    assert_close(model.decoder.head.bias, shown[1], rtol=0, atol=0)
    assert not torch.equal(shown[1], shown[3])


def test_validation_changes_nothing_but_the_end(task):
    """It leaves the model in eval() mode, in which dropout would be off for the
    rest."""
    sizes = {"dim": 8, "num_heads": 2, "hidden_dim": 11, "num_layers": 1}
    losses = []
    for every in (None, 1):
        torch.manual_seed(0)
        model = models.transformer(
            source_size=task.source_size,
            target_size=task.target_size,
            **sizes,
            dropout=0.5,
        )
        losses.append(
            [
                row.loss
                for row in train(
                    model,
                    task,
                    TrainConfig(steps=4, batch_size=3, validate_every=every),
                )
            ]
        )
    assert losses[0] == losses[1]


def test_training_ends_when_patience_does(task):
    config = TrainConfig(steps=50, batch_size=3, validate_every=2, patience=3)
    validate, shown = scripted([1.0, 5.0, 2.0, 6.0, 6.0, 3.0, 4.0, 7.0])
    model = build(task)
    history = train(model, task, config, validate=validate)

    # The best was the fourth; a draw is no better. The eighth was not waited for.
    assert history[-1].step == 14
    assert_close(model.decoder.head.bias, shown[3], rtol=0, atol=0)


def test_a_task_scores_its_validation_examples_by_default(task):
    model = build(task)
    history = train(
        model,
        task,
        TrainConfig(steps=3, batch_size=64, learning_rate=0.05, validate_every=3),
    )

    assert history[-1].metric == task.score(model, task.validation)


def test_validation_loss_by_hand(task):
    model = build(task)
    nn.init.zeros_(model.decoder.head.weight)
    nn.init.zeros_(model.decoder.head.bias)

    assert validation_loss(model, task, batch_size=7) == pytest.approx(
        math.log(len(task.target_vocabulary))
    )
    assert not model.training


def test_tokens_are_counted(task):
    history = train(build(task), task, TrainConfig(steps=2, batch_size=len(task.train)))

    in_one_pass = sum(len(example.target) + 1 for example in task.train)
    assert [row.tokens for row in history] == [in_one_pass, 2 * in_one_pass]


@pytest.mark.plain
def test_a_loss_that_is_not_a_number_is_told_with_its_step(task):
    """The weights are left as they were before it."""
    model = build(task)
    calls = []

    def spoil(module, arguments, output):
        calls.append(output.detach().clone())
        return output * math.nan if len(calls) == 3 else output

    model.decoder.head.register_forward_hook(spoil)
    with pytest.raises(FloatingPointError, match="at step 3 the loss is nan"):
        train(model, task, TrainConfig(steps=5, batch_size=3))
    assert all(parameter.isfinite().all() for parameter in model.parameters())


@pytest.mark.plain
def test_an_infinite_gradient_is_told_with_its_step(task):
    model = build(task)
    model.decoder.head.bias.register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(
        FloatingPointError, match="at step 1 the loss is 3.*length (inf|nan)"
    ):
        train(model, task, TrainConfig(steps=5, batch_size=3))
    assert all(parameter.isfinite().all() for parameter in model.parameters())


# Evaluation


class Rigged(nn.Module):
    """Knows each sentence by its first token; says and looks at what it is told to."""

    def __init__(self, answers, looks):
        super().__init__()
        self.answers, self.looks = answers, looks
        # evaluate() asks where the model is
        self.somewhere = nn.Parameter(torch.zeros(()))

    def forward(self, source, lengths):
        mask = (torch.arange(source.size(1)) < lengths[:, None])[:, None]
        return Encoded(source[..., None].float(), source[:, :1].float(), mask)

    def remember(self, encoded):
        # which sentence, which step
        state = torch.cat([encoded.final, torch.zeros_like(encoded.final)], dim=-1)
        return Memory(encoded.states, encoded.states, encoded.mask, state)

    def start(self, memory):
        return memory.state

    def step(self, token, memory, cache):
        ids = [[*self.answers[int(name)], EOS, EOS, EOS][int(t)] for name, t in cache]
        logits = F.one_hot(torch.tensor(ids), 8)[:, None].float()
        return logits, memory.mask.float(), cache + torch.tensor([0.0, 1.0])

    def decode(self, target, memory, need_weights=False):
        slots = memory.mask.size(-1)
        weights = torch.zeros(*target.shape, slots)
        for b, name in enumerate(memory.state[:, 0].int().tolist()):
            for t, s in enumerate(self.looks[name]):
                weights[b, t, s] = 1.0
        return torch.zeros(*target.shape, 8), weights


@pytest.fixture
def letters():
    """Reversals of a, b, c, d, whose ids are 4, 5, 6, 7."""
    examples = [
        Example(
            tuple(text),
            tuple(text[::-1]),
            tuple(frozenset({s}) for s in reversed(range(len(text)))),
        )
        for text in ("abc", "bd", "c")
    ]
    return make_task(
        "letters",
        [[*examples, Example(("d",), ("d",), (frozenset({0}),))], examples, examples],
    )


# "cba" is right, "dd" should be "db", "c" is right
ANSWERS = {4: [6, 5, 4], 5: [7, 7], 6: [6]}
LOOKS = {4: [2, 1, 2], 5: [1, 0], 6: [0]}  # the third row of "abc" should look at 0


@pytest.mark.parametrize("batch_size", [1, 2, 256])
def test_evaluation_by_hand(letters, batch_size):
    rigged = Rigged(ANSWERS, LOOKS)
    model = EncoderDecoder(rigged, rigged).train()
    evaluation = evaluate(model, letters, letters.test, batch_size)

    assert evaluation.predictions == [("c", "b", "a"), ("d", "d"), ("c",)]
    assert evaluation.exact_match == pytest.approx(2 / 3)
    assert evaluation.hit_rate == pytest.approx(5 / 6)
    assert evaluation.alignment_error == pytest.approx(1 / 6)
    for name, rows in zip((4, 5, 6), evaluation.weights):
        assert [row.index(1.0) for row in rows[: len(LOOKS[name])]] == LOOKS[name]
    assert not model.training


def test_a_prediction_may_be_too_long(letters):
    rigged = Rigged(ANSWERS | {6: [6, 6, 6, 6, 6, 6]}, LOOKS)
    evaluation = evaluate(EncoderDecoder(rigged, rigged), letters, letters.test)

    # Decoding stops after the longest target and its end, which is enough to know that
    # this one is wrong.
    assert evaluation.predictions[2] == ("c",) * 4
    assert evaluation.exact_match == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["final_state", "context_every_step"])
def test_one_slot_has_no_alignment(task, name):
    evaluation = evaluate(build(task, name), task, task.test[:11])

    assert evaluation.hit_rate is evaluation.alignment_error is None
    assert len(evaluation.weights) == len(evaluation.predictions) == 11


def test_weights_are_those_of_the_right_target(task, device):
    """A wrong prediction must not change what is plotted and scored as alignment."""
    model = build(task).to(device)
    evaluation = evaluate(model, task, task.test[:7], batch_size=3)
    for e, weights in zip(task.test[:7], evaluation.weights):
        batch = task.collate([e], device)
        with torch.no_grad():
            _, forced = model(batch.source, batch.lengths, batch.target_in)
        t, s = forced.shape[1:]
        assert_close(torch.tensor(weights)[:t, :s], forced[0].cpu())


def test_a_transformers_alignment_is_the_mean_of_its_last_layers_heads():
    first, last = (
        torch.full((1, 2, 1, 2), 0.5),
        torch.tensor([[[[1.0, 0.0]], [[0.5, 0.5]]]]),
    )
    assert_close(
        alignment(torch.stack([first, last], dim=1)), torch.tensor([[[0.75, 0.25]]])
    )
    assert_close(alignment(last[:, 0]), last[:, 0])
    with pytest.raises(ValueError, match="no weights"):
        alignment(None)


def test_a_transformer_learns_to_reverse_and_looks_where_it_should():
    task = reversal(max_length=5, train_size=4000, held_out_size=100)
    model = models.transformer(
        source_size=task.source_size,
        target_size=task.target_size,
        dim=32,
        num_heads=2,
        hidden_dim=64,
        num_layers=2,
    )
    train(model, task, TrainConfig(steps=200))
    evaluation = evaluate(model, task, task.test)

    assert evaluation.exact_match >= 0.9
    assert evaluation.hit_rate >= 0.8
    for e, rows in zip(task.test, evaluation.weights):
        assert sum(rows[0]) == pytest.approx(1, abs=1e-4)
        assert not any(rows[0][len(e.source) :])


def test_progress_is_a_line_per_minute_where_nobody_watches(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # of another test
    with loop.progress_bar("dates", 0, steps=9) as bar:
        for _ in range(9):
            now[0] += 25
            bar.update()
            bar.set_postfix_str("loss 0.5", refresh=False)

    told = capsys.readouterr().out.replace("\r", "").split("\n")
    assert told[:2] == [f"dates: {n} of 9 steps, loss 0.5" for n in (3, 6)]
    assert len(told) == 4
