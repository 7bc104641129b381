"""Each page with cells as a notebook to take along: executed, in plain Markdown.

A notebook is made from the finished page, so its links, numbers and citations are
those that the page shows; its cells come from the page's source and their outputs from
the run that made the page.
"""

import base64
import json
import re
from pathlib import Path
from urllib.parse import urljoin

import nbformat
from bs4 import BeautifulSoup, NavigableString
from jupyter_cache import get_cache
from markdownify import MarkdownConverter
from myst_nb.core.read import create_nb_reader

REPORT = re.compile(r'Path\("reports/(\w+\.json)"\)')
LIVE = re.compile(r'<div class="(live|writer|touch)"')
SETUP = """\
# What the page has and a notebook lacks: {what}.
import importlib.util

if importlib.util.find_spec("attention_course") is None:
    %pip install --quiet {wheel}
"""
REPORTS = """
import json
from pathlib import Path

Path("reports").mkdir(exist_ok=True)
for name, report in json.loads(r'''{reports}''').items():
    Path("reports", name).write_text(json.dumps(report))
"""
GLUE = '''

def glue(name, value, display=True):
    """The page puts the value into a sentence, which has it already."""
'''


class Markdown(MarkdownConverter):
    """Write a part of a page as Markdown that JupyterLab and Colab understand."""

    class Options(MarkdownConverter.DefaultOptions):
        """ATX headings, and a fence with the language of each listing."""

        heading_style = "atx"
        bullets = "-"
        newline_style = "backslash"

        @staticmethod
        def code_language_callback(pre):
            """Read the language from the class that Sphinx gives a listing."""
            found = pre.find_parent(class_=re.compile("^highlight-"))
            name = found["class"][0].removeprefix("highlight-") if found else ""
            return "" if name in ("default", "none") else name

    def escape(self, text, parent_tags):
        """Keep what looks like a tag from becoming one."""
        return super().escape(text, parent_tags).replace("<", "&lt;")

    def convert_div(self, el, text, parent_tags):
        """Quote an admonition."""
        if "admonition" not in el.get("class", []):
            return super().convert_div(el, text, parent_tags)
        lines = text.strip().splitlines()
        return "\n\n" + "\n".join(f"> {line}".rstrip() for line in lines) + "\n\n"

    def convert_p(self, el, text, parent_tags):
        """Stress an admonition's title."""
        if "admonition-title" in el.get("class", []):
            text = f"**{text.strip()}**"
        return super().convert_p(el, text, parent_tags)

    def convert_details(self, el, text, parent_tags):
        """Leave folded what is folded."""
        return f"\n\n<details>{text.rstrip()}\n\n</details>\n\n"

    def convert_summary(self, el, text, parent_tags):
        """Title what is folded; see `convert_details`."""
        return f"<summary>{text.strip()}</summary>\n\n"

    def convert_caption(self, el, text, parent_tags):
        """Put a table's caption above it."""
        return f"\n\n*{text.strip()}*\n\n"


def in_markdown(html, page, macros):
    """Return a part of a page in Markdown.

    Args:
        html: the part.
        page: its address, against which its links are read; without one, those within
            the site become text.
        macros: names and meanings of the book's own TeX commands, which a notebook
            does not know. One with an argument gives this a colour, and is left out.
    """
    soup = BeautifulSoup(html, "html.parser")
    kept = []

    def keep(element, text):
        # letters alone: nothing of it is escaped
        kept.append(text)
        element.replace_with(NavigableString(f"KEPT{len(kept) - 1}TPEK"))

    for element in soup.select("a.headerlink, .sd-summary-state-marker, script"):
        element.decompose()
    for link in soup.select("a[href]"):
        if not link["href"].startswith(("https:", "http:")):
            link["href"] = urljoin(page, link["href"])
            if not page:
                link.unwrap()
    for element in soup.select(".math"):
        number = element.select_one(".eqno")
        tag = number.extract().get_text().strip("()# ") if number else ""
        tex = element.get_text().strip()[2:-2].strip()
        for name, meaning in macros.items():
            meaning = meaning if isinstance(meaning, str) else ""
            tex = re.sub(rf"\\{name}(?![a-zA-Z])", lambda _, m=meaning: m, tex)
        if element.find_parent("table"):
            tex = tex.replace(r"\|", r"\Vert ").replace("|", r"\vert ")
        if element.name == "div":
            tex += rf" \tag{{{tag}}}" if tag else ""
            keep(element, f"\n\n$$\n{tex}\n$$\n\n")
        else:
            keep(element, f"${tex}$")
    for frame in soup.select(".figure-frame"):
        code = base64.b64encode(str(frame.svg).encode()).decode()
        alt = frame.svg["aria-label"].replace('"', "'")
        keep(frame, f'<img alt="{alt}" src="data:image/svg+xml;base64,{code}">')
    text = Markdown().convert_soup(soup)
    text = re.sub(r"KEPT(\d+)TPEK", lambda found: kept[int(found[1])], text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def parts(element):
    """Take a page apart into texts and code cells, which lie at any depth in it."""
    if "cell" in element.get("class", []):
        yield element
    elif element.select_one("div.cell"):
        for child in element.children:
            if isinstance(child, NavigableString):
                yield str(child)
            elif child.name == "summary":
                yield f"<p><strong>{child.get_text(strip=True)}</strong></p>"
            else:
                yield from parts(child)
    else:
        yield str(element)


def executed(app, docname):
    """Read a page's code cells by their place, with outputs if the cache has them."""
    env, path = app.env, app.env.doc2path(docname)
    text = Path(path).read_text(encoding="utf-8")
    reader = create_nb_reader(path, env.myst_config, env.mystnb_config, text)
    notebook = reader.read(text)
    try:
        cache = get_cache(app.config.nb_execution_cache_path)
        _, notebook = cache.merge_match_into_notebook(notebook)
    except KeyError:  # built without executing
        pass
    return {
        n: cell
        for n, cell in enumerate(notebook.cells)
        # the page's budget of processor time is that of the machine that builds it
        if "outputs" in cell and 'glue("seconds"' not in cell.source
    }


def portable(cell, page):
    """Prepare a cell for a place without the book's tools around it."""
    cell = nbformat.v4.new_code_cell(
        re.sub(r"^from myst_nb import glue\n", "", cell.source, flags=re.MULTILINE),
        metadata={"tags": list(cell.metadata.get("tags", []))},
        outputs=cell.get("outputs", []),
        execution_count=cell.get("execution_count"),
    )
    folded = {"hide-input", "remove-input", "remove-cell", "solution"}
    if folded & set(cell.metadata.tags):
        cell.metadata["jupyter"] = {"source_hidden": True}
    outputs = []
    for output in cell.outputs:
        data = output.get("data", {})
        if any("papermill.record" in kind for kind in data):  # glue's
            continue
        if LIVE.search("".join(data.get("text/html", ""))):
            where = f'<a href="{page}">on its page</a>' if page else "on its page"
            data["text/html"] = f"<p>This figure responds to you {where}.</p>"
        if data:
            output["metadata"] = {}
        outputs.append(output)
    cell.outputs = outputs
    return cell


def setup_cell(sources, wheel):
    """Write the cell that brings what a notebook alone lacks.

    Args:
        sources: the page's cells.
        wheel: what pip installs: an address, or a file beside the notebook.
    """
    text = "\n".join(sources)
    folder = Path(__file__).parents[1] / "reports"
    # a page also says what it shows once there is a report
    names = sorted(n for n in set(REPORT.findall(text)) if (folder / n).exists())
    what = "the package"
    if names:
        what += " and the stored reports that it reads"
    if "transformers" in text:
        wheel += ' "transformers>=5"'
    cell = SETUP.format(what=what, wheel=wheel)
    if names:
        reports = {name: json.loads((folder / name).read_text()) for name in names}
        cell += REPORTS.format(reports=json.dumps(reports))
    if "glue(" in text:
        cell += GLUE
    return nbformat.v4.new_code_cell(
        cell.rstrip(), metadata={"jupyter": {"source_hidden": True}}
    )


def notebook_of(body, shown, cells, page, wheel, macros):
    """Make a page's notebook.

    Args:
        body: HTML of the page.
        shown: which of its cells the page shows, in order.
        cells: all of its code cells by their place; the page may hide some.
        page: its address, or "".
        wheel: see `setup_cell`.
        macros: see `in_markdown`.
    """
    result = [setup_cell([cell.source for cell in cells.values()], wheel)]
    waiting, shown, left = [], list(shown), dict(cells)

    def write_text():
        if text := in_markdown("".join(waiting), page, macros):
            result.append(nbformat.v4.new_markdown_cell(text))
        waiting.clear()

    for part in parts(BeautifulSoup(body, "html.parser")):
        if isinstance(part, str):
            waiting.append(part)
            continue
        write_text()
        place = shown.pop(0)
        for number in [n for n in left if n <= place]:
            result.append(portable(left.pop(number), page))
        waiting += [f"<p>{c.decode_contents()}</p>" for c in part.select("figcaption")]
    write_text()
    result += [portable(cell, page) for cell in left.values()]
    result[:2] = result[1::-1]  # the title first
    for number, cell in enumerate(result):
        cell.id = f"cell-{number}"  # the same in every build
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.v4.new_notebook(cells=result, metadata={"kernelspec": kernel})
