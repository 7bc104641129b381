"""What stands at the head and foot of a page that is published, or passed on."""

import html
import re
from datetime import UTC, datetime
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement

import yaml
from course_addresses import address
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]
LICENCE = (
    '<a rel="license" href="https://creativecommons.org/licenses/by/4.0/">CC BY 4.0</a>'
)
BIBTEX = """\
@misc{{attention-measured,
  author = {{{{{author}}}}},
  title = {{{title}}},
  year = {{{year}}},
  note = {{Version {version}}}{url},
}}"""


def citation():
    """Read how to cite the course: author, title, version, year, date; url, or ""."""
    stored = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    return {
        "author": " and ".join(author["name"] for author in stored["authors"]),
        "title": stored["title"],
        "version": stored["version"],
        "year": stored["date-released"].year,
        "date": stored["date-released"].isoformat(),
        "url": address("SITE"),
    }


class HowToCite(SphinxDirective):
    """Show the course's entry for BibTeX."""

    def run(self):
        """Return a listing."""
        self.env.note_dependency(str(ROOT / "CITATION.cff"))
        cited = citation()
        if cited["url"]:
            cited["url"] = f",\n  url = {{{cited['url']}/}}"
        text = BIBTEX.format(**cited)
        return [nodes.literal_block(text, text, language="bibtex")]


def name_site(app, config):
    """Give the extension for social cards the site's address."""
    site = address("SITE")
    config.version = config.release = citation()["version"]
    config.ogp_site_url = f"{site}/" if site else ""
    config.ogp_social_cards = {"enable": bool(site), "line_color": "#2a6f97"}


def write_head_and_foot(app, pagename, templatename, context, doctree):
    """Say of each page what it is part of, under which licence, and how to cite it."""
    if app.builder.name != "html":
        return
    if not app.config.ogp_site_url:  # a card needs an address that it leads to
        context["metatags"] = re.sub(
            r'<meta (property="og|name="twitter):[^>]*>\n?',
            "",
            context.get("metatags", ""),
        )
    cited = citation()
    title = html.unescape(re.sub("<[^>]*>", "", context.get("title") or ""))
    course = cited["title"].partition(":")[0]
    within = course if title in ("", course) else f"“{title}”, in: {course}"
    where = f", {app.config.html_baseurl}/{pagename}.html" if cited["url"] else ""
    text = f"{cited['author']}: {within}, version {cited['version']},"
    text = html.escape(f"{text} {cited['year']}{where}", quote=False)
    more = context["pathto"]("book/how_to_use").rstrip("#") + "#how-to-cite"
    context["theme_extra_footer"] = (
        f"<p>Version {cited['version']}. Text: {LICENCE}; code: MIT.</p>"
        f'<p><a href="{more}">Cite</a> this page as: {text}.</p>'
    )


def write_site_map(app, exception):
    """List all pages for search engines, also those that this build did not write."""
    path = Path(app.outdir, "sitemap.xml")
    path.unlink(missing_ok=True)
    if exception or app.builder.name != "html" or not app.config.html_baseurl:
        return
    pages = Element("urlset", xmlns="http://www.sitemaps.org/schemas/sitemap/0.9")
    for docname in sorted(app.env.found_docs):
        page = SubElement(pages, "url")
        SubElement(page, "loc").text = f"{app.config.html_baseurl}/{docname}.html"
        changed, _ = app.env.git_last_updated.get(docname) or (None, None)
        if changed:
            day = datetime.fromtimestamp(int(changed), UTC).date()
            SubElement(page, "lastmod").text = day.isoformat()
    ElementTree(pages).write(path, encoding="utf-8", xml_declaration=True)


def setup(app):
    """Connect it."""
    app.setup_extension("sphinxext.opengraph")
    app.setup_extension("sphinx_last_updated_by_git")
    app.add_directive("how-to-cite", HowToCite)
    app.connect("config-inited", name_site)
    app.connect("html-page-context", write_head_and_foot, priority=900)
    app.connect("build-finished", write_site_map)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
