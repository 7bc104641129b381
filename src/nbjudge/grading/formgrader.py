"""Formgrader's links to the instructor's pages, and the server that has them.

JupyterLab's own way to files would not do: there, a page may not lead to another.
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
# Formgrader's pages, and the page of ours that each leads to.
PAGES = {
    "manage_assignments.tpl": "index",
    "gradebook_assignments.tpl": "index",
    "manage_students.tpl": "index",
    "manage_submissions.tpl": "{{ assignment_id }}",
}


class Pages(AuthenticatedFileHandler):
    """Hands out the reports, and the book that they link to, to who is logged in."""

    def initialize(self, path: str, *_: Any, **__: Any) -> None:
        """Take a folder of the course that formgrader is at."""
        root = self.settings["nbgrader_formgrader"].coursedir.root
        super().initialize(path=str(Path(root, path)))

    def check_xsrf_cookie(self) -> None:
        """Let a page of ours lead to another: they read, and change nothing."""


def link() -> None:
    """Put the links into formgrader, once."""
    handlers = formgrader.handlers.default_handlers
    if any(handler is Pages for _, handler, *_ in handlers):
        return  # the configuration is read more than once
    # as far apart as on disk, so that the reports' links to the book hold
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
