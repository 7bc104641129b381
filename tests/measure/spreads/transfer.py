"""What chapter 16 says of pretraining, from several seeds and several draws of the
labelled sentences, and with four times as much training on them."""

import os
from collections.abc import Iterator
from dataclasses import replace
from statistics import mean

os.environ["HF_HUB_OFFLINE"] = "1"  # before the import: nothing is fetched

import torch
from measure import report
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM, BertForTokenClassification

from attention_course.tasks.labels import LabelTask
from attention_course.tasks.pretraining import MaskedTask, pretraining
from attention_course.tasks.tagging import tagging
from attention_course.training import TrainConfig, train

DRAWS, STEPS, LONG = 5, 60, 4
COUNTS, LONG_COUNTS, PARTS_COUNT = (10, 30, 100, 300), (10, 300), 30
WAYS = {"from scratch": 2e-3, "frozen": 1e-2, "fine-tuned": 2e-3}


def rows(quick: bool) -> Iterator[report.Row]:
    """Pretrain and tag; `what` is "sentences / way / steps / which"."""
    draws = 2 if quick else DRAWS
    masked, labelled = pretraining(), tagging(DRAWS * COUNTS[-1])
    found = [figures(masked, labelled, draw, quick) for draw in range(draws)]
    for what in found[0]:
        values = [of[what] for of in found]
        unit = "nats" if what.endswith("loss") else "of the tags"
        for which, value in (
            ("mean", mean(values)),
            ("lowest", min(values)),
            ("highest", max(values)),
        ):
            yield report.row(f"{what} / {which}", value, unit, note=f"{draws} draws")


class Borrowed(nn.Module):
    """A model of the library, called as the course calls its own."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, None]:
        mask = torch.arange(source.size(1)) < lengths[:, None]
        return self.model(input_ids=source, attention_mask=mask.long()).logits, None


def figures(
    masked: MaskedTask, labelled: LabelTask, draw: int, quick: bool
) -> dict[str, float]:
    """Pretrain from seed `draw`, and tag with sentences that no other draw has."""
    config = BertConfig(
        vocab_size=len(masked.read.vocabulary),
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=40,
        type_vocab_size=1,
        hidden_act="relu",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        layer_norm_eps=1e-5,
        num_labels=len(labelled.labels),
    )
    torch.manual_seed(draw)
    guesser = BertForMaskedLM(config)
    steps, warmup = (2, 2) if quick else (340, 50)
    schedule = TrainConfig(
        steps, 128, learning_rate=8e-3, warmup_steps=warmup, seed=draw
    )
    history = train(Borrowed(guesser), masked, schedule)
    last = [row.loss for row in history[-20:]]
    found = {"pretraining / last loss": sum(last) / len(last)}

    def tagged(few: LabelTask, way: str, steps: int) -> float:
        torch.manual_seed(draw)
        model = BertForTokenClassification(config)
        if way in ("embeddings", "encoder"):
            known = getattr(guesser.bert, way).state_dict()
            getattr(model.bert, way).load_state_dict(known)
        elif way != "from scratch":
            model.bert.load_state_dict(guesser.bert.state_dict())
        model.bert.requires_grad_(way != "frozen")
        warmup = min(10, steps)
        schedule = TrainConfig(
            steps, 16, learning_rate=WAYS.get(way, 2e-3), warmup_steps=warmup, seed=draw
        )
        train(Borrowed(model), few, schedule)
        return few.score(Borrowed(model), few.test)

    for count in COUNTS:
        begin = draw * COUNTS[-1]
        sentences = labelled.train[begin : begin + count]
        few = replace(labelled, train=sentences, read=masked.read)
        for way in WAYS:
            found[f"{count} / {way} / {STEPS} steps"] = tagged(
                few, way, 2 if quick else STEPS
            )
            if count in LONG_COUNTS:
                found[f"{count} / {way} / {LONG * STEPS} steps"] = tagged(
                    few, way, 2 if quick else LONG * STEPS
                )
        if count == PARTS_COUNT:
            for part in ("embeddings", "encoder"):
                found[f"{count} / pretrained {part} only / {STEPS} steps"] = tagged(
                    few, part, 2 if quick else STEPS
                )
        key = f"{count} / {{}} / {STEPS} steps"
        found[key.format("fine-tuned minus frozen")] = (
            found[key.format("fine-tuned")] - found[key.format("frozen")]
        )
    return found
