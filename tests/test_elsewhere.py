import torch
from torch.testing import assert_close

from attention_course import models
from attention_course.scores import AdditiveScore
from attention_course.tasks.core import Task
from attention_course.tasks.elsewhere import LookElsewhere, shared_weight
from attention_course.tasks.sentiment import sentiment


def test_shared_weight_by_hand():
    one, other = (
        torch.tensor([[[0.7, 0.3, 0.0]], [[1.0, 0.0, 0.0]]]),
        torch.tensor([[[0.2, 0.3, 0.5]], [[0.0, 1.0, 0.0]]]),
    )
    assert_close(shared_weight(one, other), torch.tensor([0.5, 0.0]))
    assert_close(shared_weight(one, one), torch.ones(2))


def reader(task):
    return models.classifier(
        source_size=task.source_size,
        num_classes=task.target_size,
        embedding_dim=7,
        hidden_dim=13,
        score=AdditiveScore(13, 26, 5),
    )


def test_a_copy_pays_for_where_it_looks_and_a_coin_for_what_it_says():
    task = sentiment(train_size=30, held_out_size=5)
    model = reader(task)
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
    other, model = reader(task), reader(task)
    goal = LookElsewhere(task, other)
    goal.loss(model, goal.collate(task.train))[0].backward()
    assert all(parameter.grad is None for parameter in other.parameters())
