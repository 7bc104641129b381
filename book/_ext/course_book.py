"""What the course's book needs beyond Jupyter Book 1.

Pages that follow the code, and a site that needs no network.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from course_addresses import in_colab, is_site
from docutils import nodes
from jupyter_cache import get_cache
from myst_nb.core.execute import create_client
from myst_nb.core.read import create_nb_reader
from sphinx.util import logging

ROOT = Path(__file__).parents[2]
# Pages whose results are running times: another kernel beside them would change these.
ALONE = {"book/15_cost"}
logger = logging.getLogger(__name__)


def prepare_kernels(app, config):
    """Give the kernels of all pages one environment.

    What they inherit is set before the first one starts.
    """
    # One thread, so that the seconds that a page reports mean the same on every
    # machine.
    os.environ["OMP_NUM_THREADS"] = "1"
    # A progress bar is for someone who waits; on a page it would stand for ever at 100
    # %.
    os.environ["TQDM_DISABLE"] = "1"
    # How figures look: the file `matplotlibrc` beside this one.
    os.environ["MATPLOTLIBRC"] = str(Path(__file__).parent)
    # "python3" is the interpreter that builds, also where the user has a kernel of that
    # name.
    os.environ["JUPYTER_PATH"] = str(Path(sys.prefix, "share", "jupyter"))
    # Nobody's own start-up files; and no warning per page that a kernel talks to its
    # own machine unencrypted.
    profile = Path(app.outdir).parent / ".ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(
        "c.IPKernelApp.log_level = 'ERROR'\nc.InlineBackend.figure_formats = {'svg'}\n"
    )
    os.environ["IPYTHONDIR"] = str(profile.parent)


def follow_the_code(app, config):
    """Execute every page again when the package changes.

    The cache looks at the cells alone.

    The name of the cache's folder holds a hash of all that the cells import, of its
    versions and of the reports that they show. Sphinx itself reads all pages again when
    this value changes (myst-nb declares it with `rebuild="env"`), so nothing more is
    needed.
    """
    code = hashlib.sha256()
    others = [ROOT / "constraints.txt", Path(__file__).with_name("matplotlibrc")]
    others += sorted((ROOT / "book" / "reports").glob("*.json"))
    for path in [*sorted((ROOT / "src").rglob("*.py")), *others]:
        if path.exists():
            code.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    caches = Path(app.outdir).parent / ".jupyter_cache"
    current = caches / code.hexdigest()[:16]
    for old in caches.iterdir() if caches.exists() else ():
        if old != current:
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    current.mkdir(parents=True, exist_ok=True)
    config.nb_execution_cache_path = str(current)
    app.reusable_pages = executed_pages(current)


def execute_side_by_side(app, env, docnames):
    """Fill the cache with all pages that will be read, a kernel per core.

    myst-nb itself runs one after the other. Pages that measure times come last, alone.
    """
    # makes its tables, before threads want them
    get_cache(app.config.nb_execution_cache_path).list_cache_records()

    def execute(docname):
        path = env.doc2path(docname)
        text = Path(path).read_text(encoding="utf-8")
        if reader := create_nb_reader(path, env.myst_config, env.mystnb_config, text):
            with create_client(
                reader.read(text), path, env.mystnb_config, logger, reader.read_fmt
            ):
                pass  # to enter is to execute, or to find in the cache

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(execute, [name for name in docnames if name not in ALONE]))
    for docname in ALONE.intersection(docnames):
        execute(docname)


def executed_pages(cache):
    """Count the executed pages that a cache's folder holds."""
    return len(list(Path(cache, "executed").glob("*")))


def say_what_was_reused(app, exception):
    """Tell a reader who waits why it was quick, or was not."""
    if not exception:
        new = executed_pages(app.config.nb_execution_cache_path) - app.reusable_pages
        logger.info(
            "book: %d pages executed, %d reused from an earlier build",
            new,
            app.reusable_pages,
        )


def copy_mathjax(app, exception):
    """Put MathJax into the site, so that formulas need no network.

    The scripts that _config.yml names and the fonts, of a package's 24 MB.
    """
    if exception or not is_site(app):
        return
    # The package's name has hyphens: it can be found, not written in an import
    # statement.
    package = importlib.util.find_spec(
        "sphinx-mathjax-offline"
    ).submodule_search_locations[0]
    source, target = (
        Path(package, "static", "mathjax"),
        Path(app.outdir, "_static", "mathjax"),
    )
    fonts = Path("output", "chtml", "fonts", "woff-v2")
    shutil.copytree(source / fonts, target / fonts, dirs_exist_ok=True)
    parts = app.config.mathjax3_config["loader"]["load"]
    for name in ("startup", *parts, "output/chtml/fonts/tex"):
        name = name.replace("[tex]", "input/tex/extensions")
        script = target / f"{name}.js"
        script.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / f"{name}.js", script)


def show_as_handed_out(app, docname, source):
    """On a lab's page, say how to work in it, and leave out the outputs."""
    if not docname.startswith("labs/"):
        return
    notebook = nbformat.reads(source[0], as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    name = Path(docname).with_suffix(".ipynb").name
    title, _, rest = notebook.cells[0].source.partition("\n")
    colab = in_colab(app.config.repository, docname)
    or_colab = f", [open it in Colab]({colab})," if colab else ""
    how = f"""
:::{{admonition}} To work in this lab
This page is for reading. {{download}}`Download the notebook <{name}>`{or_colab} or
start JupyterLab in a copy of the course: {{ref}}`how-to-lab` says what each needs.
:::
"""
    notebook.cells[0].source = title + "\n" + how + rest
    source[0] = nbformat.writes(notebook)


def fold_solutions(app, doctree):
    """Move each cell tagged `solution` into the dropdown before it.

    MyST executes cells at a page's top level only.
    """
    for cell in list(doctree.findall(nodes.container)):
        if "tag_solution" not in cell["classes"]:
            continue
        before = cell.parent[cell.parent.index(cell) - 1]
        if before.get("design_component") != "dropdown":
            logger.warning(
                "a cell tagged solution does not follow a dropdown", location=cell
            )
            continue
        cell.parent.remove(cell)
        before += cell


def number_chapters(app, doctree, docname):
    """Call a chapter by its number where a sentence refers to it.

    A title in the middle of a sentence reads as a part of it, and a table is a list of
    titles.
    """
    numbers, titles = app.env.toc_secnumbers, app.env.titles
    for reference in doctree.findall(nodes.reference):
        target = reference.get("refuri", "").partition("#")[0]
        name = os.path.normpath(
            os.path.join(os.path.dirname(docname), os.path.splitext(target)[0])
        )
        number = numbers.get(name, {}).get("")
        in_table = any(isinstance(n, nodes.entry) for n in _ancestors(reference))
        title = titles[name].astext() if name in titles else None
        if target and number and not in_table and reference.astext() == title:
            reference["reftitle"] = title
            reference[:] = [nodes.inline(text=f"Chapter {number[0]}")]


def _ancestors(node):
    while node := node.parent:
        yield node


def drop_thebe(app, pagename, templatename, context, doctree):
    """Leave out the scripts for live cells, which the book has none of.

    Loaded twice, they end in a SyntaxError.
    """
    context["script_files"] = [
        script
        for script in context.get("script_files", [])
        if "THEBE_JS_URL" not in str(getattr(script, "attributes", {}).get("body", ""))
        and "thebe" not in str(getattr(script, "filename", script))
    ]


# What the themes and extensions write -> what a screen reader can make sense of.
ACCESSIBLE = (
    # A name that differs from the visible text is not found by someone who speaks to
    # the computer (WCAG 2.5.3).
    (r'<summary aria-label="Toggle hidden content">', "<summary>"),
    (r'(<button[^>]*search-button-field[^>]*?) aria-label="Search"', r"\1"),
    (
        r'(<button[^>]*theme-switch-button[^>]*?) aria-label="Color mode"',
        r'\1 aria-label="Light Dark System Settings color mode"',
    ),
    # What opens a part of the table of contents is an icon without a name (WCAG 4.1.2).
    (
        r'<summary>(<span class="toctree-toggle")',
        r'<summary aria-label="Pages of this part">\1',
    ),
    # The book's title stands in the sidebar, outside of every landmark.
    (
        r'<div (id="pst-primary-sidebar" class="[^"]*")>',
        r'<div \1 role="complementary" aria-label="Book">',
    ),
    # A heading that says nothing is a cell like any other.
    (r"<th([^>]*)>(\s*(?:<p></p>)?\s*)</th>", r"<td\1>\2</td>"),
    # The bibliography is a list, so its children must be list items (WCAG 1.3.1).
    (
        r'(<div class="citation" id="[^"]*") role="doc-biblioentry"',
        r'\1 role="listitem"',
    ),
)


def make_accessible(app, exception):
    """Mend what only the finished pages show."""
    if exception or not is_site(app):
        return
    for path in Path(app.outdir).rglob("*.html"):
        before = after = path.read_text(encoding="utf-8")
        for pattern, replacement in ACCESSIBLE:
            after = re.sub(pattern, replacement, after)
        if after != before:
            path.write_text(after, encoding="utf-8")


def forget_after_warnings(app, exception):
    """Read all pages again after a build with warnings.

    Sphinx would keep quiet about them the second time.
    """
    if app._warncount:
        Path(app.doctreedir, "environment.pickle").unlink(missing_ok=True)


def setup(app):
    """Connect all of the above."""
    app.config.mathjax_path = "mathjax/startup.js"
    app.connect("config-inited", prepare_kernels)
    app.connect("config-inited", follow_the_code)
    app.connect("env-before-read-docs", execute_side_by_side)
    app.connect("source-read", show_as_handed_out)
    app.connect("doctree-read", fold_solutions)
    app.connect("doctree-resolved", number_chapters)
    # after the extensions that add them
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", make_accessible)
    app.connect("build-finished", forget_after_warnings)
    app.connect("build-finished", say_what_was_reused)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
