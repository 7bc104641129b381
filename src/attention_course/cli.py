"""The command line: train, translate and evaluate from a shell. It alone joins models and tasks."""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from lightning_fabric import Fabric

from attention_course import models
from attention_course.checkpoints import Checkpoints
from attention_course.scores import AdditiveScore, GeneralScore
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.dates import dates
from attention_course.tasks.multi30k import multi30k
from attention_course.tasks.numerals import numerals
from attention_course.tasks.reversal import reversal
from attention_course.training import TrainConfig, train, validation_loss
from attention_course.windows import LocalM, LocalP


@dataclass(frozen=True)
class TaskOptions:
    """What a task may be asked for; each takes what it has a use for.

    Attributes:
        data: folder of a corpus.
        vocab_size: subwords per language.
        max_length: letters in the longest string.
    """

    data: Path | None
    vocab_size: int
    max_length: int

    def folder(self) -> Path:
        """Return the folder of a corpus, for a task that needs one."""
        if self.data is None:
            raise ValueError("this task reads a corpus from a folder: name it with --data")
        return self.data


TASKS: dict[str, Callable[[TaskOptions], Any]] = {
    "dates": lambda options: dates(),
    "multi30k": lambda options: multi30k(options.folder(), options.vocab_size),
    "numerals-de": lambda options: numerals("de"),
    "numerals-fr": lambda options: numerals("fr"),
    "reversal": lambda options: reversal(options.max_length),
}


@dataclass(frozen=True)
class Sizes:
    """How large a model is; each takes what it has a use for.

    Attributes:
        dim: width of embeddings, and of a Transformer's states.
        hidden_dim: width of recurrent states and of what compares them; inside a Transformer's feed-forward networks.
        layers: of the encoder; of a GNMT and a Transformer, on each side.
        heads: of a Transformer.
        dropout: share that training drops; a GNMT has none.
    """

    dim: int
    hidden_dim: int
    layers: int
    heads: int
    dropout: float

    def recurrent(self) -> tuple[int, int]:
        """Return the widths of a recurrent model's embeddings and states."""
        return self.dim, self.hidden_dim

    def rest(self) -> dict[str, Any]:
        """Return what most recurrent models have in common besides."""
        return {"num_layers": self.layers, "dropout": self.dropout}

    def additive(self, directions: int = 2) -> AdditiveScore:
        """Return Bahdanau's score of a decoder's states and an encoder's, of one direction or of two."""
        return AdditiveScore(self.hidden_dim, directions * self.hidden_dim, self.hidden_dim)

    def general(self) -> GeneralScore:
        """Return Luong's general score of a decoder's states and those of an encoder of two directions."""
        return GeneralScore(self.hidden_dim, 2 * self.hidden_dim)


# (source tokens, target tokens), sizes -> an untrained model
MODELS: dict[str, Callable[[tuple[int, int], Sizes], EncoderDecoder]] = {
    "final-state": lambda v, s: models.final_state(*v, *s.recurrent(), **s.rest()),
    "context": lambda v, s: models.context_every_step(*v, *s.recurrent(), **s.rest()),
    "bahdanau": lambda v, s: models.bahdanau(*v, *s.recurrent(), s.additive(), **s.rest()),
    "luong": lambda v, s: models.luong(*v, *s.recurrent(), s.general(), **s.rest()),
    "luong-fed": lambda v, s: models.luong(*v, *s.recurrent(), s.general(), input_feeding=True, **s.rest()),
    "local-m": lambda v, s: models.luong(*v, *s.recurrent(), s.general(), LocalM(5), **s.rest()),
    "local-p": lambda v, s: models.luong(
        *v, *s.recurrent(), s.general(), LocalP(s.hidden_dim, s.hidden_dim, 5), **s.rest()
    ),
    "gnmt": lambda v, s: models.gnmt(*v, s.dim, s.hidden_dim, s.additive(1), s.layers),
    "transformer": lambda v, s: models.transformer(*v, s.dim, s.heads, s.hidden_dim, s.layers, s.dropout, tied=True),
}


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Precision(StrEnum):
    """In what to compute."""

    single = "32-true"
    mixed = "bf16-mixed"


class By(StrEnum):
    """What to choose the best weights by."""

    loss = "loss"
    score = "score"


app = typer.Typer(
    help="Train sequence-to-sequence models, with attention and without.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def _main() -> None:
    """Keep `train` a word of its own."""


@app.command("train")
def train_command(
    task: Annotated[str, typer.Option(help=f"What to learn: {', '.join(TASKS)}.")],
    model: Annotated[str, typer.Option(help=f"What learns it: {', '.join(MODELS)}.")],
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint and the history; one for each run.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the folder's checkpoint, if there is one.")
    ] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of the corpus, for a task that has one.")] = None,
    vocab_size: Annotated[int, typer.Option(help="Subwords per language (multi30k).")] = 4_000,
    max_length: Annotated[int, typer.Option(help="Letters in the longest string (reversal).")] = 20,
    dim: Annotated[int, typer.Option(help="Width of embeddings, and of a Transformer's states.")] = 32,
    hidden_dim: Annotated[int, typer.Option(help="Width of recurrent states; inside feed-forward networks.")] = 64,
    layers: Annotated[int, typer.Option(help="Layers of the encoder; of gnmt and transformer, on each side.")] = 2,
    heads: Annotated[int, typer.Option(help="Heads of a Transformer.")] = 4,
    dropout: Annotated[float, typer.Option(help="Share that training drops (not of gnmt).")] = 0.0,
    steps: Annotated[int, typer.Option(help="Batches to train on.")] = 300,
    batch_size: Annotated[int, typer.Option(help="Examples per batch, of all processes together.")] = 64,
    learning_rate: Annotated[float, typer.Option(help="Adam's, at its highest.")] = 5e-3,
    warmup: Annotated[int, typer.Option(help="Steps over which the learning rate rises.")] = 50,
    clip: Annotated[float, typer.Option(help="Longest allowed gradient.")] = 1.0,
    label_smoothing: Annotated[float, typer.Option(help="Share spread over the whole vocabulary.")] = 0.0,
    validate_every: Annotated[int | None, typer.Option(help="Steps between validations.")] = None,
    validate_by: Annotated[By, typer.Option(help="What the best weights are chosen by.")] = By.loss,
    patience: Annotated[int | None, typer.Option(help="Validations without a better one before the end.")] = None,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 500,
    seed: Annotated[int, typer.Option(help="Of the first weights and of the order of the examples.")] = 0,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.auto,
    precision: Annotated[Precision, typer.Option(help="In what to compute.")] = Precision.single,
) -> None:
    """Train a model on a task; stop it when you like, and go on with --resume.

    attention-course train --task dates --model bahdanau --out runs/dates

    On several processes: torchrun --nproc-per-node 2 --no-python attention-course train ...
    """
    sizes = Sizes(dim, hidden_dim, layers, heads, dropout)
    about = {"task": task, "model": model, "vocab_size": vocab_size, "max_length": max_length}
    checkpoints = Checkpoints(out, checkpoint_every, about | asdict(sizes))
    if checkpoints.path.exists() and not resume:
        raise ValueError(f"there is a run in {out}: go on with it by --resume, or name another folder")
    fabric = launch(device, precision)
    its_task = named(TASKS, "task", task)(TaskOptions(data, vocab_size, max_length))
    torch.manual_seed(seed)
    its_model = build(model, its_task, sizes)
    torch.manual_seed(seed + fabric.global_rank)  # what dropout drops differs from process to process
    config = TrainConfig(
        steps, batch_size, learning_rate, warmup, clip, label_smoothing, validate_every, patience, seed
    )
    parameters = sum(parameter.numel() for parameter in its_model.parameters())
    fabric.print(f"{task}, {model}: {parameters:,} parameters, on {fabric.world_size} x {fabric.device.type}")
    validate = (lambda model: -validation_loss(model, its_task)) if validate_by == By.loss else None
    history = train(its_model, its_task, config, fabric, validate, checkpoints)
    fabric.print(f"{len(history)} steps in {history[-1].seconds:.0f} s; loss {history[-1].loss:.3f} nats per token")


def named(table: Mapping[str, Any], what: str, name: str) -> Any:
    """Look a name up; one that is not there is answered with those that are."""
    if name not in table:
        raise ValueError(f"there is no {what} {name!r}; there are {', '.join(table)}")
    return table[name]


def build(name: str, task: Any, sizes: Sizes) -> EncoderDecoder:
    """Build a model of the table for a task's vocabularies."""
    return named(MODELS, "model", name)((len(task.source_vocabulary), len(task.target_vocabulary)), sizes)


def launch(device: Device, precision: Precision) -> Fabric:
    """Start Fabric with as many processes as `torchrun` has started, or one."""
    processes, nodes = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), int(os.environ.get("GROUP_WORLD_SIZE", "1"))
    strategy = "ddp" if processes * nodes > 1 else "auto"
    fabric = Fabric(
        accelerator=device, strategy=strategy, devices=processes, num_nodes=nodes, precision=precision.value
    )
    fabric.launch()
    return fabric


def main() -> None:
    """Run the command line; what goes wrong is said in one line."""
    try:
        app()
    except (ValueError, OSError, FloatingPointError) as error:
        raise SystemExit(f"attention-course: {error}") from None
