"""One colour for each quantity of attention: in formulas, in both themes, in drawings."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
MACROS = yaml.safe_load((ROOT / "_config.yml").read_text())["sphinx"]["config"][
    "mathjax3_config"
]["tex"]["macros"]
CLASSES = {
    name: re.fullmatch(r"\\class\{(\w+)\}\{#1\}", meaning[0])[1]
    for name, meaning in MACROS.items()
    if isinstance(meaning, list)
}
LOOK = (ROOT / "book" / "assets" / "look.css").read_text()
COMMAND = re.compile(rf"\\({'|'.join(CLASSES)})(?![a-zA-Z])")

pytestmark = pytest.mark.plain


def variables(theme):
    block = re.search(rf'html\[data-theme="{theme}"\] \{{(.*?)\}}', LOOK, re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#\w{6});", block[1]))


def luminance(color):
    """Relative luminance, WCAG 2.2."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_book_uses_each_colour_and_knows_each_that_it_uses():
    text = "".join(path.read_text() for path in (ROOT / "book").glob("*.md"))
    assert len(CLASSES) == 5
    assert set(COMMAND.findall(text)) == set(CLASSES)
    # a class that is not its command: MathJax would show the name, in red
    for name in set(CLASSES.values()) - set(CLASSES):
        assert f"\\{name}{{" not in text


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("role", CLASSES.values())
def test_each_colour_can_be_read_on_what_is_behind_formulas(theme, role):
    assert f"mjx-container .{role} {{ color: var(--role-{role}); }}" in LOOK
    known = variables(theme)
    for ground in ("background", "on-background", "surface", "target"):
        pair = luminance(known[f"role-{role}"]), luminance(known[f"pst-color-{ground}"])
        assert (max(pair) + 0.05) / (min(pair) + 0.05) >= 4.5, ground


def test_paper_has_the_colours_of_the_light_theme():
    text = (ROOT / "book" / "assets" / "print.css").read_text()
    printed = dict(re.findall(r"--(role-\w+): (#\w{6});", text))
    light = variables("light")
    assert printed == {name: light[name] for name in light if name.startswith("role-")}
    assert printed.keys() == {f"role-{role}" for role in CLASSES.values()}


def test_a_notebook_to_take_along_has_plain_formulas(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    from course_notebooks import in_markdown

    html = (
        r'<p>So <span class="math">\(\val{v_s}\)</span>:</p><div class="math">'
        r"\[\context{c_t} = \sum_s \weight{\softmax(\query{q}^\top \key{k_s})}\, "
        r"\val{v_s}\]</div>"
    )
    assert in_markdown(html, "", MACROS) == (
        "So ${v_s}$:\n\n$$\n"
        r"{c_t} = \sum_s {\operatorname{softmax}({q}^\top {k_s})}\, {v_s}"
        "\n$$"
    )


def test_labs_know_no_macros():
    paths = [*ROOT.glob("labs/*/*.ipynb"), *ROOT.glob("solutions/**/*.*")]
    assert paths
    for path in paths:
        if path.suffix in (".ipynb", ".py", ".md"):
            assert not COMMAND.search(path.read_text()), path


def test_a_drawing_follows_the_theme(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    import course_figures

    light = variables("light")
    for color, role in course_figures.ROLES.items():
        assert color == light[f"role-{role}"]
        path = f'<path style="fill: none; stroke: {color}"/>'
        text = f'<text style="font: 9px x; fill: {color}">asks</text>'
        svg = f'<svg viewBox="0 0 100 50">{path}{text}</svg>'
        inlined = course_figures.inline(svg, "shows", "", "figure1")
        assert inlined.count(f": var(--role-{role}, {color})") == 2
