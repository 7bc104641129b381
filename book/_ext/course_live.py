"""Pages that respond: they load the scripts of `book/live/` that they need."""

import os
import re
import shutil
from pathlib import Path

from course_addresses import is_site

SCRIPTS = Path(__file__).parents[1] / "live"
# What a page has -> the scripts for it.
NEEDED = {
    '<div class="live"': ("bahdanau", "transformer", "live"),
    '<div class="writer"': ("bahdanau", "transformer", "live", "gpt"),
    '<div class="touch"': ("touch",),
    '<details class="sd-sphinx-override sd-dropdown sd-card sd-mb-3 quiz"': ("quiz",),
}
KIND = re.compile(r'<div class="touch" data-kind="(\w+)"')
WEIGHTS = re.compile(
    r'(<div class="(?:live|writer)" data-model="(\w+)".*?)'
    r'<script type="application/json">(.*?)</script>',
    re.DOTALL,
)


def give_scripts(app, exception):
    """Add scripts to the pages, and move a model's weights into one of their own.

    The weights of `attention_course.live.figure` wait until a reader touches the
    figure; what a page loads at once stays small.
    """
    if exception or not is_site(app):
        return
    out = Path(app.outdir)
    folder = out / "_static" / "live"

    def move(found):
        script = f'live.model("{found[2]}", {found[3]});\n'
        (folder / "models").mkdir(parents=True, exist_ok=True)
        (folder / "models" / f"{found[2]}.js").write_text(script, encoding="utf-8")
        return found[1]

    for path in (out / "book").glob("*.html"):
        before = path.read_text(encoding="utf-8")
        names = [n for part, needed in NEEDED.items() if part in before for n in needed]
        if not names:
            continue
        names += [f"kinds/{kind}" for kind in KIND.findall(before)]
        after = WEIGHTS.sub(move, before)
        shutil.copytree(SCRIPTS, folder, dirs_exist_ok=True)
        place = os.path.relpath(folder, path.parent)
        scripts = "".join(
            f'<script src="{place}/{name}.js"></script>\n'
            for name in dict.fromkeys(names)
        )
        if scripts not in after:  # a page that was not written anew has them
            after = after.replace("</head>", f"{scripts}</head>", 1)
        if after != before:
            path.write_text(after, encoding="utf-8")


def setup(app):
    """Connect it."""
    app.connect("build-finished", give_scripts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
