"""What the commands do: train into a folder, load from it, decode, score."""

import math
import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from lightning_fabric import Fabric
from torch import nn

from attention_course import registry
from attention_course.metrics import exact_match, text_scores, token_accuracy
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.core import padded_share, shuffled_forever
from attention_course.tasks.multi30k import TranslationTask
from attention_course.tasks.sequences import SequenceTask
from attention_course.training import (
    Checkpoints,
    TrainConfig,
    evaluate,
    train,
    validation_loss,
)
from attention_course.training.checkpoints import read

Precision = Literal["32-true", "bf16-mixed"]


class About(NamedTuple):
    """What a run is of, by the names of `registry`.

    Attributes:
        task: name of the task.
        options: what is asked of it.
        model: name of the model.
        sizes: how large it is.
    """

    task: str
    options: Mapping[str, Any]
    model: str
    sizes: Mapping[str, Any]

    def make(self) -> tuple[Any, Any]:
        """Make the task and the untrained model."""
        task = registry.make_task(self.task, **self.options)
        sizes = task.source_size, task.target_size
        return task, registry.make_model(self.model, *sizes, **self.sizes)


def train_run(
    about: About,
    folder: Path,
    config: TrainConfig,
    by_score: bool = False,
    checkpoint_every: int = 500,
    resume: bool = False,
    device: str = "auto",
    precision: Precision = "32-true",
) -> None:
    """Train a model on a task, and leave checkpoint and history in a folder.

    Args:
        about: the task and the model.
        folder: one for each run.
        config: how to train.
        by_score: whether the best weights are those with the best score of the task,
            instead of the lowest loss.
        checkpoint_every: steps between two checkpoints.
        resume: whether to go on from the folder's checkpoint, if it has one.
        device: "auto", "cpu" or "cuda".
        precision: "32-true" or "bf16-mixed".

    Raises:
        ValueError: the folder has a run that was not asked for, or what making,
            launching and training raise.
    """
    kept = {name: value for name, value in about.options.items() if name != "data"}
    named = {"task": about.task, "model": about.model, **kept, **about.sizes}
    data = about.options.get("data")
    checkpoints = Checkpoints(folder, checkpoint_every, named, data)
    if checkpoints.path.exists() and not resume:
        raise ValueError(
            f"there is a run in {folder}: go on with it by --resume, or name another"
            " folder"
        )

    fabric = launch(device, precision)
    torch.manual_seed(config.seed)
    task, model = about.make()
    # what dropout drops differs from process to process
    torch.manual_seed(config.seed + fabric.global_rank)
    fabric.print(
        f"{about.task}, {about.model}: {parameters(model):,} parameters, on"
        f" {fabric.world_size} x {fabric.device.type}"
    )
    if length := task.length:
        drawn = shuffled_forever(task.train, config.batch_size, config.seed, length)
        first_pass = islice(drawn, math.ceil(len(task.train) / config.batch_size))
        share = padded_share(first_pass, length)
        fabric.print(f"batches are grouped by length: {share:.1%} of them is padding")
    validate = None if by_score else lambda model: -validation_loss(model, task)
    history = train(model, task, config, fabric, validate, checkpoints)
    fabric.print(
        f"{len(history)} steps in {history[-1].seconds:.0f} s; loss"
        f" {history[-1].loss:.3f} nats per token"
    )


def load(folder: Path, data: Path | None = None, device: str = "auto") -> Any:
    """Make the task and the model of a run again.

    Args:
        folder: of the run.
        data: folder of the task's corpus, if it has one; None: as in training.
        device: "auto", "cpu" or "cuda".

    Returns:
        The task, and the model with its best weights, or the last ones.

    Raises:
        ValueError: there is no run in the folder, or `data` was given for a task that
            has no corpus.
    """
    state = read(folder)
    about = state["about"]
    if "task" not in about or "model" not in about:
        raise ValueError(
            f"the checkpoint in {folder} does not say its task and model: it was not"
            " made by train"
        )
    options = registry.find_task(about["task"]).options
    sizes = registry.find_model(about["model"], about["task"]).sizes
    if "data" not in options:
        registry.refuse({"data": data}, f"for the task {about['task']}")
    known = about | {"data": data or state.get("data")}
    task, model = About(
        about["task"],
        {name: known[name] for name in options},
        about["model"],
        {name: known[name] for name in sizes},
    ).make()
    model.load_state_dict(state["best"][2] if state["best"] else state["model"])
    return task, model.to(launch(device, "32-true").device).eval()


def evaluate_run(
    task: Any, model: Any, split: str, decoding: Mapping[str, Any]
) -> list[str]:
    """Print what a model scores on a split.

    Args:
        task: as from `load`.
        model: as from `load`.
        split: "validation" or "test".
        decoding: "beam_size" and "length_penalty", where they are not the usual ones.

    Returns:
        The predictions as texts.

    Raises:
        ValueError: `decoding` was given for a task that is not decoded.
    """
    if not isinstance(task, SequenceTask):
        registry.refuse(decoding, f"for the task {task.name}")
    examples = getattr(task, split)
    print(
        f"{task.name}, {split}: {len(examples):,} examples; {parameters(model):,}"
        " parameters"
    )
    predictions = task.predict(model, examples, **decoding)
    if isinstance(task, SequenceTask):
        report_sequences(task, model, examples, predictions)
        return [task.text(prediction) for prediction in predictions]
    print(f"{task.metric} {task.score(model, examples):.4f}")
    if any(example.gold for example in examples):
        print(f"alignment hit rate {task.hit_rate(model, examples):.4f}")
    return [" ".join(prediction) for prediction in predictions]


def report_sequences(
    task: SequenceTask,
    model: EncoderDecoder,
    examples: Sequence[Any],
    predictions: Sequence[Any],
) -> None:
    """Print what predicted sequences score, and alignments where they are known."""
    targets = [example.target for example in examples]
    print(f"exact match {exact_match(predictions, targets):.4f}")
    print(f"token accuracy {token_accuracy(predictions, targets):.4f}")
    if isinstance(task, TranslationTask):
        for score in text_scores(
            [task.text(p) for p in predictions], [task.text(t) for t in targets]
        ):
            print(score)
    if any(any(example.gold) for example in examples):
        evaluation = evaluate(model, task, examples)
        if evaluation.hit_rate is not None:
            print(f"alignment hit rate {evaluation.hit_rate:.4f}")
            print(f"alignment error rate {evaluation.alignment_error:.4f}")


def parameters(model: nn.Module) -> int:
    """Count a model's parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


def launch(device: str, precision: Precision) -> Fabric:
    """Start Fabric with as many processes as `torchrun` has started, or one."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    nodes = int(os.environ.get("GROUP_WORLD_SIZE", "1"))
    if device == "cuda" and torch.cuda.device_count() < here:
        raise ValueError(
            f"{here} GPUs are needed, one for each process, and"
            f" {torch.cuda.device_count()} are here"
        )
    strategy = "ddp" if here * nodes > 1 else "auto"
    fabric = Fabric(
        accelerator=device,
        strategy=strategy,
        devices=here,
        num_nodes=nodes,
        precision=precision,
    )
    fabric.launch()
    return fabric
