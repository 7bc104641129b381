"""Links from formgrader to the instructor's pages, and the server for these pages.

JupyterLab's own file viewer does not work here: in it, a page cannot link to another.
"""

from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, DictLoader, PrefixLoader
from jupyter_server.base.handlers import AuthenticatedFileHandler
from nbgrader.server_extensions.formgrader import formgrader

LINK = """\
{%% extends "nbgrader/%s" %%}
{%%- block sidebar -%%}{{ super() }}
<li role="presentation">
<a href="{{ base_url }}/formgrader/course/gradebook/reports/%s.html">
Class at a Glance</a></li>
{%%- endblock -%%}
"""
# Formgrader's pages, and the page of ours to which each links.
PAGES = {
    "manage_assignments.tpl": "index",
    "gradebook_assignments.tpl": "index",
    "manage_students.tpl": "index",
    "manage_submissions.tpl": "{{ assignment_id }}",
}


class Pages(AuthenticatedFileHandler):
    """Serve the reports, and the book that they link to, to users who are logged in."""

    def initialize(self, path: str, *_: Any, **__: Any) -> None:
        """Serve a folder of the course that formgrader shows."""
        root = self.settings["nbgrader_formgrader"].coursedir.root
        super().initialize(path=str(Path(root, path)))

    def check_xsrf_cookie(self) -> None:
        """Let our pages link to each other: they only read, and change nothing."""


def link() -> None:
    """Add the links to formgrader, once."""
    handlers = formgrader.handlers.default_handlers
    if any(handler is Pages for _, handler, *_ in handlers):
        return  # the configuration is read more than once
    # the same relative paths as on disk, so that the reports' links to the book work
    for folder in ("gradebook/reports", "_build/html"):
        route = rf"/formgrader/course/{folder}/(.+)"
        handlers.append((route, Pages, {"path": folder}))
    extension = formgrader.FormgradeExtension
    stock = extension.init_tornado_settings

    def init_tornado_settings(self: Any, webapp: Any) -> None:
        stock(self, webapp)
        environment = webapp.settings["nbgrader_jinja2_env"]
        ours = DictLoader({name: LINK % (name, page) for name, page in PAGES.items()})
        theirs = environment.loader
        environment.loader = ChoiceLoader(
            [ours, theirs, PrefixLoader({"nbgrader": theirs})]
        )

    extension.init_tornado_settings = init_tornado_settings
