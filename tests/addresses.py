"""What `make book` is told about where the course stands on the web, and what it makes
of it."""

import os
import re

# Where projects have addresses of their own; those below are of others.
HOSTS = (
    r"git(?:hub|lab|ea)\.|bitbucket\.|codeberg\.|sr\.ht|colab\.|mybinder\.|pypi\."
    r"|huggingface\.|readthedocs\.|netlify\.|(?:github|gitlab|codeberg)\.(?:io|page)"
)
OTHERS = (
    "github.com/bentrevett/pytorch-seq2seq",
    "github.com/blingenf/copydetect",
    "github.com/containers/bubblewrap",
    "github.com/multi30k/dataset",
    "jupytext.readthedocs.io",
    "nbgrader.readthedocs.io",
    "ngshare.readthedocs.io",
)


def of_projects(text):
    """Find the addresses of projects that are none of the others."""
    found = re.findall(rf"\b(?:[\w-]+\.)*(?:{HOSTS})[\w.]*/?[^\s\"'<>()\\`}}]*", text)
    return [link for link in found if not link.startswith(OTHERS)]


def without_addresses():
    """Return this process's environment as if nobody had named an address."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("SITE", "REPOSITORY")
    }
