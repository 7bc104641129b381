"""Figures that run a model in the page: `attention_course.live` and `book/live/`."""

import os
import re
import shutil
from pathlib import Path

SCRIPTS = Path(__file__).parents[1] / "live"
FIGURE = re.compile(r'<div class="live" data-model="(\w+)"')
WEIGHTS = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)


def give_scripts(app, exception):
    """Move the weights out of their page, and load what its figures need.

    A page with a figure loads the model and what the figure does; the weights wait
    until a reader touches it.
    """
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    folder = out / "_static" / "live"
    shutil.copytree(SCRIPTS, folder, dirs_exist_ok=True)
    for path in (out / "book").glob("*.html"):
        page = path.read_text(encoding="utf-8")
        if not (found := FIGURE.search(page)):
            continue
        if weights := WEIGHTS.search(page, found.end()):
            script = f'live.model("{found[1]}", {weights[1]});\n'
            (folder / f"{found[1]}.js").write_text(script, encoding="utf-8")
            page = page[: weights.start()] + page[weights.end() :]
        place = os.path.relpath(folder, path.parent)
        scripts = "".join(
            f'<script src="{place}/{name}.js"></script>\n'
            for name in ("bahdanau", "live")
        )
        if scripts not in page:
            page = page.replace("</head>", f"{scripts}</head>", 1)
        path.write_text(page, encoding="utf-8")


def setup(app):
    """Connect it."""
    app.connect("build-finished", give_scripts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
