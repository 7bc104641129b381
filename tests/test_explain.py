import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attention_course import models
from attention_course.explain import (
    LookElsewhere,
    answer_with,
    gradient_times_input,
    shared_weight,
)
from attention_course.scores import AdditiveScore
from attention_course.tasks.core import Task
from attention_course.tasks.sentiment import sentiment

B, S, V = 2, 5, 3
SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 4, 10, 0, 0]])
LENGTHS = torch.tensor([5, 3])


@pytest.fixture(params=[False, True], ids=["states", "words"])
def model(request):
    return models.classifier(
        11, V, 7, 13, AdditiveScore(13, 26, 5), look_up_words=request.param
    ).eval()


def test_with_its_own_weights_a_model_answers_as_ever(model):
    logits, weights = model(SOURCE, LENGTHS)
    assert_close(answer_with(model, SOURCE, LENGTHS, weights), logits)


def test_other_weights_look_up_other_slots(model):
    one_hot = nn.functional.one_hot(torch.tensor([[3], [1]]), S).float()
    values = (
        model.encoder.embedding(SOURCE)
        if model.values
        else model.encoder(SOURCE, LENGTHS).states
    )
    assert_close(
        answer_with(model, SOURCE, LENGTHS, one_hot), model.head(values[[0, 1], [3, 1]])
    )


def test_gradient_times_input_is_what_a_little_less_of_a_word_costs(model):
    """Central differences: each word's embedding, everywhere that it goes, a little
    longer and a little shorter."""
    model, step = model.double(), 1e-4
    table = model.encoder.embedding.weight

    def leads():
        best = model(SOURCE, LENGTHS)[0].topk(2).values
        return (best[:, 0] - best[:, 1]).detach()

    found = gradient_times_input(model, SOURCE, LENGTHS)
    for s in (0, 2):
        for b in range(B):
            row, kept = SOURCE[b, s], table.detach().clone()
            ends = []
            for factor in (1 + step, 1 - step):
                with torch.no_grad():
                    table[row] = kept[row] * factor
                ends.append(leads()[b])
                with torch.no_grad():
                    table.copy_(kept)
            assert_close(
                found[b, s], (ends[0] - ends[1]) / (2 * step), rtol=1e-3, atol=1e-7
            )


def test_gradients_leave_nothing_behind(model):
    gradient_times_input(model, SOURCE, LENGTHS)
    assert not model.encoder.embedding._forward_hooks
    assert all(parameter.grad is None for parameter in model.parameters())


def test_shared_weight_by_hand():
    one, other = (
        torch.tensor([[[0.7, 0.3, 0.0]], [[1.0, 0.0, 0.0]]]),
        torch.tensor([[[0.2, 0.3, 0.5]], [[0.0, 1.0, 0.0]]]),
    )
    assert_close(shared_weight(one, other), torch.tensor([0.5, 0.0]))
    assert_close(shared_weight(one, one), torch.ones(2))


def test_a_copy_pays_for_where_it_looks_and_a_coin_for_what_it_says():
    task = sentiment(train_size=30, held_out_size=5)
    model = models.classifier(
        len(task.read.vocabulary), 2, 7, 13, AdditiveScore(13, 26, 5)
    )
    goal = LookElsewhere(task, model, strength=0.25)
    batch = goal.collate(task.train)
    assert isinstance(goal, Task)

    (copied, count), logits = (
        goal.loss(model, batch),
        model(batch.source, batch.lengths)[0],
    )
    entropy = torch.distributions.Categorical(logits=logits).entropy().sum()
    assert count == 30
    assert_close(copied, entropy + 0.25 * 30)

    def coin(source, lengths):
        return torch.zeros(len(source), 2), torch.zeros(source.shape)[:, None]

    assert_close(goal.loss(coin, batch)[0], 30 * torch.tensor(2.0).log())
    goal.loss(model, batch)[0].backward()
    assert all(p.grad is not None for p in model.encoder.parameters())


def test_the_other_model_is_not_trained():
    task = sentiment(train_size=30, held_out_size=5)
    other, model = (
        models.classifier(len(task.read.vocabulary), 2, 7, 13, AdditiveScore(13, 26, 5))
        for _ in range(2)
    )
    goal = LookElsewhere(task, other)
    goal.loss(model, goal.collate(task.train))[0].backward()
    assert all(parameter.grad is None for parameter in other.parameters())
