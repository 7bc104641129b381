"""The book for e-readers: the builder `epub`, with formulas as MathML and no script."""

import html
import posixpath
import re
import shutil
import textwrap
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import lxml.html
from course_cover import draw_cover
from course_published import citation
from docutils import nodes
from latex2mathml.converter import convert
from lxml import etree
from pygments.formatters import HtmlFormatter
from sphinx import addnodes
from sphinx.builders.epub3 import Epub3Builder
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

STYLE = Path(__file__).with_name("epub.css")
COVER = "cover.png"
LETTERS = 48  # in a line of it
LISTINGS = "a11y-high-contrast-light"
LICENCE = "Text: CC BY 4.0; code: MIT."
PAGE = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="{language}" xml:lang="{language}">
<head><title>{title}</title><link rel="stylesheet" href="{style}"/></head>
{body}
</html>
"""
TITLE_PAGE = """\
<div class="title-page"><img src="{image}" alt="{alt}"/>
<p>{author}. Version {version}, {year}. {licence}</p></div>"""
# Of no use without a script, or for those alone who draw the figures.
OMITTED = (
    ".//script | .//button | .//*[contains(@class, 'sd-summary-state-marker')]"
    " | .//details[contains(@class, 'hide')] | .//a[@class='headerlink']"
)
# What latex2mathml does not know, or writes without brackets that grow.
OTHER_NAMES = {
    "{aligned}": "{split}",
    r"\begin{pmatrix}": r"\left(\begin{matrix}",
    r"\end{pmatrix}": r"\end{matrix}\right)",
}
ROW_SPACE = re.compile(r"\\\\\[[\d.]+\w+\]")
GAP = re.compile(r"\\q?quad(?![a-z])")
UNKNOWN = re.compile(r">(\\\w+|&)<")
DATA = re.compile("data-")
ABSOLUTE = re.compile("[a-z]+:")
OPF = {
    "opf": "http://www.idpf.org/2007/opf",
    "dc": "http://purl.org/dc/elements/1.1/",
}

logger = logging.getLogger(__name__)


def in_mathml(tex, macros, displaystyle=False):
    r"""Write a formula in MathML.

    Args:
        tex: the formula.
        macros: names and meanings of the book's own TeX commands, as for MathJax. One
            with an argument, `["\\class{query}{#1}", 1]`, marks it by a class.
        displaystyle: sums and fractions are as large as in a line of their own.

    Raises:
        ValueError: latex2mathml cannot read the formula.
    """
    for name, meaning in macros.items():
        if not isinstance(meaning, str):
            meaning = meaning[0].replace("{#1}", "")  # the argument follows anyway
        tex = re.sub(rf"\\{name}(?![a-zA-Z])", lambda _, m=meaning: m, tex)
    for name, meaning in OTHER_NAMES.items():
        tex = tex.replace(name, meaning)
    tex = ROW_SPACE.sub(r"\\\\", tex)
    try:
        written = convert(tex, display="block" if displaystyle else "inline")
    except Exception as error:  # its exceptions have nothing in common
        raise ValueError(f"latex2mathml cannot read {tex}") from error
    if unknown := UNKNOWN.search(written):
        raise ValueError(f"latex2mathml does not know {unknown[1]} in {tex}")
    return written.replace('display="block"', 'display="inline" displaystyle="true"', 1)


def write_formula(self, node, tex, displaystyle=False):
    """Add a formula to a page, or a warning to the build."""
    macros = self.config.mathjax3_config["tex"]["macros"]
    try:
        self.body.append(in_mathml(tex, macros, displaystyle))
    except ValueError as error:
        logger.warning(str(error), location=node)


def visit_math(self, node):
    """Write a formula within a sentence."""
    write_formula(self, node, node.astext())
    raise nodes.SkipNode


def visit_displaymath(self, node):
    """Write a formula of its own, with its number.

    Formulas that stand side by side may stand below each other on a narrow screen.
    """
    tex = node.astext()
    if r"\\" in tex and not tex.lstrip().startswith(r"\begin"):
        tex = rf"\begin{{split}}{tex}\end{{split}}"  # as for MathJax
    formulas = [part for part in GAP.split(tex) if part.strip()]
    if r"\begin" in tex or any(f.count("{") != f.count("}") for f in formulas):
        formulas = [tex]
    self.body.append(self.starttag(node, "div", CLASS="math"))
    for formula in formulas:
        write_formula(self, node, formula, displaystyle=True)
        self.body.append("\n")
    if node["number"]:
        number = get_node_equation_number(self, node)
        self.body.append(f'<p class="eqno">({number})</p>')
    self.body.append("</div>")
    raise nodes.SkipNode


def drop_repeated_ids(root):
    """Leave an id to the first element that has it."""
    known = set()
    for element in root.xpath(".//*[@id]"):
        if element.get("id") in known:
            del element.attrib["id"]
        else:
            known.add(element.get("id"))


def in_xhtml(body, has_page):
    """Make a page's HTML well-formed, unfold it, and leave out what needs a script.

    Args:
        body: HTML, formulas in MathML.
        has_page: tells of a link's path whether the book has this page; other links
            within the site become text.

    Returns:
        XHTML, the element `body`.
    """
    root = lxml.html.fragment_fromstring(body, create_parent="body")
    for element in root.xpath(OMITTED):
        element.drop_tree()
    for element in root.iter("details", "summary"):
        element.set("class", f"{element.tag} {element.get('class', '')}".strip())
        element.tag = "div"
    for link in root.xpath(".//a[@href]"):
        path = link.get("href").partition("#")[0]
        if path and not ABSOLUTE.match(path) and not has_page(path):
            link.drop_tag()
    drop_repeated_ids(root)
    for element in root.iter():
        for name in filter(DATA.match, element.attrib):
            del element.attrib[name]
    for table in root.xpath(".//div[contains(@class, 'report')]//table"):
        names = [heading.text_content() for heading in table.iter("th")]
        for row in table.iterfind("tbody/tr"):
            for name, cell in zip(names, row):
                cell.set("data-name", name)  # which the style shows on a narrow screen
    return etree.tostring(root, encoding="unicode")


class Book(Epub3Builder):
    """Sphinx's builder, with pages of our own that need neither theme nor script."""

    math_renderer_name = "mathml"

    def init(self):
        """Begin anew: whatever lies in the folder would get into the book."""
        shutil.rmtree(self.outdir)
        Path(self.outdir, "_static").mkdir(parents=True)  # for extensions
        super().init()

    def handle_page(
        self,
        pagename,
        addctx,
        templatename="page.html",
        outfilename=None,
        event_arg=None,
    ):
        """Write a page."""
        folder = posixpath.dirname(pagename)

        def has_page(path):
            target = posixpath.normpath(posixpath.join(folder, path))
            return target.removesuffix(self.out_suffix) in self.env.found_docs

        cited = citation()
        title, _, subtitle = cited["title"].partition(": ")
        if templatename == COVER:
            body = TITLE_PAGE.format(
                image=COVER, alt=f"{title}: {subtitle}", licence=LICENCE, **cited
            )
        elif "body" in addctx:
            body, title = addctx["body"], addctx["title"]
        else:
            return  # a list for the site alone
        written = Path(self.get_outfilename(pagename))
        written.parent.mkdir(parents=True, exist_ok=True)
        text = PAGE.format(
            language=self.config.language,
            title=re.sub("<.*?>", "", title),
            style=posixpath.relpath(STYLE.name, folder or "."),
            body=in_xhtml(body, has_page),
        )
        written.write_text(text, encoding="utf-8")

    def copy_static_files(self):
        """Write the style and the cover; pages need nothing else."""
        style = STYLE.read_text(encoding="utf-8")
        style += HtmlFormatter(style=LISTINGS).get_style_defs(".highlight")
        Path(self.outdir, STYLE.name).write_text(style, encoding="utf-8")
        title, subtitle = citation()["title"].split(": ")
        lines = textwrap.fill(subtitle, LETTERS)
        draw_cover(Path(self.outdir, COVER), title, lines)

    def copy_image_files(self):
        """Copy figures; e-readers refuse what Matplotlib writes before and beside them.

        That is a document type, metadata, and the same id for equal pictures.
        """
        super().copy_image_files()
        for path in Path(self.outdir, self.imagedir).glob("*.svg"):
            svg = etree.parse(path).getroot()
            for metadata in svg.findall("{*}metadata"):
                svg.remove(metadata)
            drop_repeated_ids(svg)
            path.write_bytes(etree.tostring(svg))

    def get_toc(self):
        """List parts, the chapters in them, and these chapters' sections."""
        root = self.config.root_doc
        doctree = self.env.get_and_resolve_doctree(
            root, self, prune_toctrees=False, includehidden=True
        )
        self.refnodes = []
        for part in doctree.findall(addnodes.compact_paragraph):
            if not part.get("toctree"):
                continue
            entries = []
            for entry in self.get_refnodes(part, []):
                path = posixpath.join(posixpath.dirname(root), entry["refuri"])
                entries += self.chapter(posixpath.normpath(path), entry["level"] + 1)
            file = entries[0]["refuri"]
            # no two entries may lead to the same place
            page = self.env.get_doctree(file.removesuffix(self.out_suffix))
            entries[0]["refuri"] += "#" + page.next_node(nodes.section)["ids"][0]
            caption = html.escape(part.next_node(nodes.title).astext())
            self.refnodes.append({"level": 1, "refuri": file, "text": caption})
            self.refnodes += entries
        self.toc_add_files(self.refnodes)

    def chapter(self, file, level):
        """List a chapter, at a level of the table of contents, and its sections."""
        docname = file.removesuffix(self.out_suffix)
        number = self.env.toc_secnumbers.get(docname, {}).get("", ())
        title = " ".join([*map(str, number), self.env.titles[docname].astext()])
        found = [{"level": level, "refuri": file, "text": html.escape(title)}]
        (chapter,) = self.env.tocs[docname]
        for section in chapter.findall(nodes.list_item):
            if section.parent.parent is not chapter:
                continue
            link = section.next_node(nodes.reference)
            found.append(
                {
                    "level": level + 1,
                    "refuri": self.fix_fragment(file, link["anchorname"]),
                    "text": html.escape(link.astext()),
                }
            )
        return found

    def content_metadata(self):
        """Describe the book as the file CITATION.cff does."""
        cited = citation()
        title, _, subtitle = cited["title"].partition(": ")
        return super().content_metadata() | {
            "title": title,
            "description": subtitle,
            "author": cited["author"],
            "copyright": LICENCE,
            "id": uuid5(NAMESPACE_URL, cited["title"]).urn,
            "version": cited["version"],
        }

    def toc_metadata(self, level, navpoints):
        """Describe the table of contents for old readers."""
        metadata = super().toc_metadata(level, navpoints)
        return metadata | {"uid": self.content_metadata()["id"]}

    def build_epub(self):
        """Say of each file what readers must be prepared for, and pack all."""
        path = Path(self.outdir, "content.opf")
        package = etree.parse(path)
        package.find(".//dc:date", OPF).text = citation()["date"]
        for name in ("contributor", "publisher"):  # others than the authors: nobody
            package.find("opf:metadata", OPF).remove(package.find(f".//dc:{name}", OPF))
        for item in package.iterfind(".//opf:item", OPF):
            name = item.get("href")
            if name == COVER:
                item.set("properties", "cover-image")
            elif name.endswith(self.out_suffix) and name != "nav.xhtml":
                text = Path(self.outdir, name).read_text(encoding="utf-8")
                if "<math" in text:
                    item.set("properties", "mathml")
        package.write(path, encoding="utf-8", xml_declaration=True)
        super().build_epub()


def setup(app):
    """Connect it."""
    app.add_builder(Book, override=True)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    app.config.html_math_renderer = "mathjax"  # Sphinx would take the newest one
    app.config.epub_basename = "attention-measured"
    app.config.epub_cover = (COVER, COVER)
    app.config.epub_show_urls = "no"
    app.config.epub_tocdup = False
    app.config.epub_tocscope = "includehidden"
    app.config.epub_uid = "book"
    app.config.epub_use_index = False
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
