"""Links from formgrader to the instructor's pages, which its server hands out.

JupyterLab's own way to files would not do: there, a page may not lead to another.
"""

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

    def initialize(self, *_: Any, **__: Any) -> None:
        """Find the course that formgrader is at."""
        root = self.settings["nbgrader_formgrader"].coursedir.root
        super().initialize(path=root)

    def check_xsrf_cookie(self) -> None:
        """Let a page of ours lead to another: they read, and change nothing."""


def link() -> None:
    """Put the links into formgrader, once."""
    route = r"/formgrader/course/((?:gradebook/reports|_build/html)/.+)"
    if any(path == route for path, *_ in formgrader.handlers.default_handlers):
        return  # the configuration is read more than once
    formgrader.handlers.default_handlers.append((route, Pages))
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
