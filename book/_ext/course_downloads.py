"""What a reader takes along: notebooks, their package, and the book as one file."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
from course_addresses import address, in_colab
from course_notebooks import executed, notebook_of
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]
FOLDER = "notebooks"  # of the site
DOWNLOADS = "downloads"  # likewise, and of the folder in which everything is built
BUILT = "_build/html"
# Only where the whole course is can this page read what it shows: labs and chapters.
OF_THE_COURSE = "book/instructor_guide"


def wheel_name():
    """Return the file name of the package's wheel."""
    init = ROOT / "src" / "attention_course" / "__init__.py"
    version = re.search(r'__version__ = "(.+)"', init.read_text(encoding="utf-8"))[1]
    return f"attention_course-{version}-py3-none-any.whl"


def write_notebook(app, pagename, templatename, context, doctree):
    """Write a page's notebook, and offer it in the page's head."""
    if app.builder.name != "html" or doctree is None or pagename.startswith("labs/"):
        return
    cells = [n for n in doctree.findall(nodes.container) if "cell_index" in n]
    name = Path(pagename).name + ".ipynb"
    groups = {group["label"]: group for group in context.get("header_buttons", [])}
    buttons = groups.get("download-buttons", {}).get("buttons", [])
    # in the place of the source, which only the book's tools can read
    buttons[:] = [b for b in buttons if b["label"] != "download-source-button"]
    if not cells or pagename == OF_THE_COURSE:
        return
    site, package = address("SITE"), wheel_name()
    if site:
        package = f"{site}/{FOLDER}/{package}"
    elif app.config.repository:
        package = f"git+{app.config.repository}"
    notebook = notebook_of(
        context["body"],
        [cell["cell_index"] for cell in cells],
        executed(app, pagename),
        f"{site}/{pagename}.html" if site else "",
        package,
        app.config.mathjax3_config["tex"]["macros"],
    )
    folder = Path(app.outdir, FOLDER)
    folder.mkdir(exist_ok=True)
    nbformat.write(notebook, folder / name)
    # the student edition, which the repository is to hold, has the built site
    colab = in_colab(app.config.repository, f"{BUILT}/{FOLDER}/{Path(name).stem}")
    offered = {
        "download-notebook-button": (
            context["pathto"](f"{FOLDER}/{name}", 1),
            ".ipynb",
            "Download notebook",
            "fas fa-code",
        ),
        "launch-colab-button": (colab, "Colab", "Open in Colab", "fas fa-rocket"),
    }
    buttons[:0] = [
        dict(type="link", url=url, text=text, tooltip=tip, icon=icon, label=label)
        for label, (url, text, tip, icon) in offered.items()
        if url
    ]


class Downloads(SphinxDirective):
    """List what there is to take along."""

    def run(self):
        """Return a place for it: a doctree serves several builders."""
        return [nodes.comment("", "", downloads=True)]


def name_downloads(app, config):
    """Find the book as one file, if `make pdf` or `make epub` has made it."""
    found = Path(app.outdir).parent.joinpath(DOWNLOADS).glob("*.*")
    config.downloads = sorted(path.name for path in found)


def list_downloads(app, doctree, docname):
    """Fill the places of `Downloads`; a book in one file lies beside nothing."""
    for place in list(doctree.findall(nodes.comment)):
        if not place.get("downloads") or app.builder.name != "html":
            continue
        offered = {
            f"{DOWNLOADS}/{name}": f"The whole book as {Path(name).suffix[1:].upper()}"
            for name in app.config.downloads
        }
        offered[f"{FOLDER}/{wheel_name()}"] = "The package, which the notebooks need"
        up = "../" * docname.count("/")
        lines = [
            f'<li><a href="{up}{path}" download>{text}</a></li>'
            for path, text in offered.items()
        ]
        text = "<ul>" + "".join(lines) + "</ul>"
        place.replace_self(nodes.raw("", text, format="html"))


def copy_downloads(app, exception):
    """Put beside the pages what they offer, and the package that notebooks need."""
    if exception or app.builder.name != "html":
        return
    target = Path(app.outdir, DOWNLOADS)
    shutil.rmtree(target, ignore_errors=True)
    for name in app.config.downloads:
        target.mkdir(exist_ok=True)
        shutil.copy(Path(app.outdir).parent / DOWNLOADS / name, target)
    command = [sys.executable, "-m", "scripts.wheel", str(Path(app.outdir, FOLDER))]
    subprocess.run(command, cwd=ROOT, check=True)


def setup(app):
    """Connect it, after the theme has made its buttons."""
    app.connect("html-page-context", write_notebook, priority=900)
    app.add_config_value("downloads", [], rebuild="html")
    app.add_directive("downloads", Downloads)
    app.connect("config-inited", name_downloads)
    app.connect("doctree-resolved", list_downloads)
    app.connect("build-finished", copy_downloads)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
