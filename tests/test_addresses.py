"""Where the course stands on the web: nobody is sent to an address that is not ours."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from addresses import of_projects, without_addresses
from bs4 import BeautifulSoup
from sphinx.errors import ConfigError

ROOT = Path(__file__).parents[1]
LAB = "labs/lab03_scoring/lab03_scoring"
# GitHub's own example; the other two hosts can belong to nobody.
GITHUB = "https://github.com/octocat/Hello-World"
GITLAB = "https://gitlab.example/courses/2026/attention"
SITE = "https://attention.example/course"


@pytest.fixture(scope="module")
def extension():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "book" / "_ext")
        import course_addresses

        yield course_addresses


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Make a small book, again and again in one folder, and read it."""
    course = tmp_path_factory.mktemp("addresses") / "course"
    for name in ("book/_ext", "book/assets", "scripts", Path(LAB).parent):
        shutil.copytree(ROOT / name, course / name)
    for path in (*ROOT.iterdir(), ROOT / "book" / "how_to_use.md"):
        if path.is_file():
            shutil.copy(path, course / path.relative_to(ROOT))
    (course / "src").symlink_to(ROOT / "src")
    (course / "book" / "references.bib").touch()
    (course / "_toc.yml").write_text(
        "format: jb-book\nroot: book/how_to_use\nchapters:\n  - glob: labs/*/*\n"
    )

    def run(**addresses):
        jupyter_book = shutil.which("jupyter-book", path=Path(sys.executable).parent)
        done = subprocess.run(
            [jupyter_book, "build", course],
            env={**without_addresses(), **addresses},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        site = course / "_build" / "html"
        run.site = site
        return [
            BeautifulSoup((site / f"{name}.html").read_text(), "html.parser")
            for name in ("book/how_to_use", LAB)
        ]

    return run


def buttons(page):
    names = ("repository-button", "file-button", "edit-button", "issues-button")
    found = [page.select_one(f"a.btn-source-{name}") for name in names]
    return [button and button["href"].partition("?")[0] for button in found]


def launches(page):
    return [a["href"] for a in page.select("a[href*='//colab.']")]


def test_nothing_in_the_sources_is_at_an_address_of_ours():
    folders = ("book", "labs", "solutions", "src")
    sources = [
        *(path for path in ROOT.iterdir() if path.is_file()),
        *(path for name in folders for path in (ROOT / name).rglob("*")),
    ]
    texts = {
        path: path.read_text()
        for path in sources
        if path.is_file()
        and path.suffix not in (".png", ".pyc", ".woff2")
        and path.name not in ("course_addresses.py", "references.bib")
        and ".ipynb_checkpoints" not in path.parts
    }
    assert {ROOT / "CITATION.cff", ROOT / f"{LAB}.ipynb"} <= set(texts)
    found = {path: of_projects(text) for path, text in texts.items()}
    assert not {path: links for path, links in found.items() if links}


@pytest.mark.parametrize(
    "text",
    [
        "see https://github.com/somebody/attention",
        "%pip install git+https://gitlab.com/a/b",
        "https://colab.research.google.com/github/a/b/blob/main/lab.ipynb",
        "url: 'https://somebody.github.io/attention/'",
    ],
)
def test_an_invented_address_is_noticed(text):
    assert of_projects(text)


def test_with_addresses_there_are_links_and_without_there_are_none(build):
    for repository in (GITHUB, GITLAB):
        guide, lab = build(REPOSITORY=repository, SITE=f"{SITE}/")
        for page, path in ((guide, "book/how_to_use.md"), (lab, f"{LAB}.ipynb")):
            part = "" if repository == GITHUB else "/-"
            # `make labs` makes a lab's file: nobody is sent there to change it
            source = page is guide and f"{repository}{part}/blob/main/{path}"
            edit = page is guide and f"{repository}{part}/edit/main/{path}"
            assert buttons(page) == [
                repository,
                source or None,
                edit or None,
                f"{repository}{part}/issues/new",
            ]
            (canonical,) = page.select("link[rel=canonical]")
            here = f"{SITE}/{Path(path).with_suffix('.html')}"
            assert canonical["href"] == here
            assert page.select_one("meta[property='og:url']")["content"] == here
            card = page.select_one("meta[property='og:image']")["content"]
            assert (build.site / card.removeprefix(f"{SITE}/")).stat().st_size > 1000
            assert len(page.select_one("meta[name=description]")["content"]) > 100
            foot = page.select_one(".extra_footer")
            assert here in foot.get_text() and foot.select_one("a[rel=license]")
        listed = (build.site / "sitemap.xml").read_text()
        assert set(re.findall("<loc>(.*?)</loc>", listed)) == {
            f"{SITE}/{path.with_suffix('.html').relative_to(build.site / '_sources')}"
            for path in (build.site / "_sources").rglob("*.*")
        }
        assert f"\n%pip install git+{repository}\n" in guide.get_text()
        assert len(guide.select(f"article a[href='{repository}']")) == 1
        assert launches(lab) == (
            [
                "https://colab.research.google.com/github/octocat/Hello-World/blob/main/"
                f"{LAB}.ipynb"
            ]
            if repository == GITHUB
            else []
        )

    # Also where there were some a moment ago.
    plain = build()
    assert not (build.site / "sitemap.xml").exists()
    for page in plain:
        assert buttons(page) == [None] * 4
        assert not page.select("link[rel=canonical], meta[property^='og:']")
        assert page.select_one("meta[name=description]")
        assert re.search(r"Version \d.*CC BY.*Cite", page.get_text())
        assert not re.search("Colab|%pip|REPOSITORY|SITE", page.get_text())
        links = [e.get("href") or e.get("src") for e in page.select("[href], [src]")]
        assert not of_projects("\n".join(links))


def test_elsewhere_there_are_links_but_no_buttons(extension, monkeypatch):
    """The theme knows no other hosts, and stops the build where it is to."""
    monkeypatch.setenv("REPOSITORY", "https://git.example/somebody/attention.git")
    config = type("Config", (), {"html_theme_options": {}})()
    extension.name_addresses(None, config)
    assert config.repository == "https://git.example/somebody/attention"
    options = config.html_theme_options
    assert not any(options[name] for name in options if name != "repository_branch")


@pytest.mark.parametrize(
    "value",
    [
        "http://attention.example",
        "git@github.com:octocat/Hello-World.git",
        "https://user:secret@attention.example",
        "https://attention.example/<b>",
        "https://attention.example/?a=b",
        "attention.example",
        "https://",
    ],
)
def test_what_is_no_plain_https_address_is_refused(extension, monkeypatch, value):
    monkeypatch.setenv("SITE", value)
    with pytest.raises(ConfigError, match=r"^SITE is no plain https address: [^\n]*$"):
        extension.address("SITE")


def test_an_empty_address_is_none(extension, monkeypatch):
    monkeypatch.setenv("SITE", "")
    assert extension.address("SITE") == ""
    monkeypatch.delenv("SITE")
    assert extension.address("SITE") == ""
