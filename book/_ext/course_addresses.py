"""Where the course stands on the web: the environment variables SITE and REPOSITORY.

Links and buttons lead there. Where neither is set there are none.
"""

import os
import re

from sphinx.errors import ConfigError
from sphinx.util.docutils import SphinxDirective

# No user, password, query or space: whatever stands here is printed on every page.
ADDRESS = re.compile(r"https://[\w.-]+(:\d+)?(/[\w.~%-]+)*/?", re.ASCII)
# What the theme can make buttons for.
FORGE = re.compile(r"https://[^/]*git(hub|lab)[^/]*(/[^/]+){2,}")


def address(name):
    """Read an address from an environment variable.

    Args:
        name: of the variable.

    Returns:
        The address, without a slash at its end; empty where the variable is.

    Raises:
        ConfigError: it is no plain https address.
    """
    value = os.environ.get(name, "").strip()
    if value and not ADDRESS.fullmatch(value):
        raise ConfigError(f"{name} is no plain https address: {value}")
    return value.rstrip("/").removesuffix(".git")


def name_addresses(app, config):
    """Tell the theme the addresses: Jupyter Book's _config.yml has no variables."""
    config.html_baseurl = address("SITE")
    config.repository = address("REPOSITORY")
    has_buttons = bool(FORGE.fullmatch(config.repository))
    config.html_theme_options.update(
        # Jupyter Book puts its own repository where none is named.
        repository_url=config.repository if has_buttons else "",
        repository_branch="main",
        use_repository_button=has_buttons,
        use_source_button=has_buttons,
        use_edit_page_button=has_buttons,
        use_issues_button=has_buttons,
    )


def keep_from_generated_files(app, pagename, templatename, context, doctree):
    """Offer no source of a lab's page to edit: `make labs` makes it."""
    if not pagename.startswith("labs/"):
        return
    for group in context.get("header_buttons", []):
        group.get("buttons", [])[:] = [
            button
            for button in group.get("buttons", [])
            if button["label"] not in ("source-file-button", "source-edit-button")
        ]


def in_colab(repository, path):
    """Return the address that opens a notebook in Colab, which knows GitHub alone.

    Empty where there is none.
    """
    name = re.fullmatch(r"https://(github\.com/[^/]+/[^/]+)", repository)
    if not name:
        return ""
    github = name[1].replace(".com", "")
    return f"https://colab.research.google.com/{github}/blob/main/{path}.ipynb"


def is_site(app):
    """Tell whether a browser reads what is built, and not a book's reader."""
    return app.builder.name in ("html", "singlehtml")


class Published(SphinxDirective):
    """Show its content if the repository has an address.

    The address takes the place of the word REPOSITORY.
    """

    has_content = True

    def run(self):
        """Return the content, or nothing."""
        if not self.config.repository:
            return []
        text = "\n".join(self.content).replace("REPOSITORY", self.config.repository)
        return self.parse_text_to_nodes(text)


def setup(app):
    """Connect all of the above."""
    app.add_config_value("repository", "", rebuild="env")
    app.add_directive("published", Published)
    app.connect("config-inited", name_addresses)
    # after the theme has made its buttons
    app.connect("html-page-context", keep_from_generated_files, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
