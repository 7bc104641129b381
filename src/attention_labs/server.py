"""Serve the built book from a Jupyter server, so that links in feedback open its pages.

A server shows files of its own without their styles, because it trusts none of them.
The course's environment lists this module as a server extension; Jupyter calls the two
functions.
"""

import os
from pathlib import Path
from typing import Any

# Of `make book`, seen from where the server begins; ATTENTION_SITE names another.
SITE = Path("_build", "html")


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "attention_labs.server"}]


def _load_jupyter_server_extension(app: Any) -> None:
    from jupyter_server.utils import url_path_join
    from tornado.web import StaticFileHandler

    site = Path(app.root_dir, os.environ.get("ATTENTION_SITE", SITE))
    if not (site / "index.html").is_file():
        return
    address = url_path_join(app.base_url, "attention-book/")
    settings = {"path": str(site), "default_filename": "index.html"}
    app.web_app.add_handlers(".*$", [(f"{address}(.*)", StaticFileHandler, settings)])
    # Kernels get the environment of their server, and formgrader is a part of it.
    os.environ.setdefault("ATTENTION_BOOK", f"{address}book/")
