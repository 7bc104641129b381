"""Load a language model that was trained here, for the command `write`.

The `Writer` that continues a prompt, and pretrained language models, are in
`attention_course.pretrained`.
"""

from pathlib import Path

from tokenizers.processors import TemplateProcessing

from attention_course.pretrained.writer import Writer
from attention_course.runs.loading import load_model
from attention_course.tasks.core import BOS, EOS, SPECIALS
from attention_course.tasks.writing import WINDOW, WritingTask


def run_writer(folder: Path, device: str = "auto") -> Writer:
    """Load the language model of a run.

    Args:
        folder: folder of the run.
        device: "auto", "cpu" or "cuda".

    Returns:
        A `Writer`, which continues prompts.

    Raises:
        ValueError: there is no run in the folder, it is damaged, or its model is not a
            language model.
    """
    about, task, model, _ = load_model(folder, device)
    if not isinstance(task, WritingTask):
        raise ValueError(
            f"the run in {folder} learned the task {about.task}, and only runs of the"
            " task writing can go on with a prompt; ask it with translate"
        )
    begin = SPECIALS[BOS]
    task.tokenizer.post_processor = TemplateProcessing(
        single=f"{begin} $A", special_tokens=[(begin, BOS)]
    )
    size = task.target_size
    return Writer(model, size, task.tokenizer, WINDOW, None, (EOS,))
