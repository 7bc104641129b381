"""Write attention maps to a self-contained HTML page, for `translate --attention`.

Figures of attention maps are in `attention_course.plotting`.
"""

import base64
import io
from collections.abc import Sequence
from typing import Any

import jinja2
from PIL import Image
from torch import Tensor

from attention_course.runs.decoding import Answer

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Attention of {{ title }}</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em;
  padding: 0 1em }
.map { overflow-x: auto }
table { border-collapse: collapse; margin: .5em 0 1em; font-size: 12px }
caption { text-align: left; font-size: 14px; padding-bottom: .3em }
th { font-weight: normal; padding: 2px 5px; white-space: pre }
th[scope=row] { text-align: right }
td { min-width: 2.2em; padding: 2px; text-align: center;
  border: 1px solid rgb(128 128 128 / .25);
  background: rgb(138 92 208 / var(--weight)) }
.grids { display: flex; flex-wrap: wrap; gap: 1em; align-items: flex-start }
figure { margin: 0; display: flex; flex-direction: column-reverse }
img { width: 14em; image-rendering: pixelated }
figcaption { font-size: 14px; padding-bottom: .3em }
</style>
<h1>Attention of {{ title }}</h1>
{% if answers and answers[0].images %}
<p>Each grid shows where the model looked in the image before it wrote the word above.
The strongest color of a grid is that of its largest weight, and no color is a weight of
zero. The weights of a grid sum to one.</p>
{% else %}
<p>Each row shows where the model looked before it wrote the token at its left. The
stronger the color of a cell, the larger its weight. The weights of a row sum to one,
except in local attention with a predicted position (local-p).</p>
{% endif %}
{% macro cell(weight, most=1) -%}
<td style="--weight: {{ '%.3f' % (weight / most) }}">{{ '%.2f' % weight }}</td>
{%- endmacro %}
{% macro grid(answer, rows, caption) -%}
<div class="map">
{% if answer.images %}
<p>{{ caption }}</p>
<div class="grids">
{% if answer.picture %}
<figure><img src="{{ answer.picture }}" alt="the image {{ answer.name }}">
<figcaption>the image</figcaption></figure>
{% endif %}
{% for token, row in answer.target | zip(rows) %}
<table><caption>{{ token }}</caption>
{% for cells in row | batch(answer.side) %}
<tr>{% for weight in cells %}{{ cell(weight, row | max) }}{% endfor %}</tr>
{% endfor %}
</table>
{% endfor %}
</div>
{% else %}
<table><caption>{{ caption }}</caption>
<tr><td></td>{% for token in answer.source %}
<th scope="col">{{ token | shown }}</th>{% endfor %}</tr>
{% for token, row in answer.target | zip(rows) %}
<tr><th scope="row">{{ token | shown }}</th>
{% for weight in row %}{{ cell(weight) }}{% endfor %}</tr>
{% endfor %}
</table>
{% endif %}
</div>
{%- endmacro %}
{% for answer in answers %}
<h2>{{ answer.name }} → {{ answer.text }}</h2>
{% for warning in answer.warnings %}
<p>Warning: {{ warning }}.</p>
{% endfor %}
{{ grid(answer, answer.map, answer.caption) }}
{% if answer.heads %}
<details><summary>Every layer and head</summary>
{% for heads in answer.heads %}{% set layer = loop.index %}
{% for rows in heads %}
{{ grid(answer, rows, 'layer %d, head %d' % (layer, loop.index)) }}
{% endfor %}
{% endfor %}
</details>
{% endif %}
{% endfor %}
</html>
"""


def page(title: str, answers: Sequence[Answer]) -> str:
    """Return a page with the attention maps of answers.

    Args:
        title: title of the page.
        answers: answers with weights; those to empty lines are left out.

    Returns:
        HTML, with numbers in the cells for readers who cannot see the colors.
    """
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"zip": zip, "shown": _shown}
    template = environment.from_string(PAGE)
    return template.render(
        title=title, answers=[_parts(a) for a in answers if a.target]
    )


def _parts(answer: Answer) -> dict[str, Any]:
    weights, one = answer.weights, answer.map()
    assert weights is not None and one is not None
    source = answer.source
    images = len(source) == 1 and one.size(1) > 1
    caption = "the weights"
    if weights.dim() == 4:
        caption = f"mean of the heads of layer {len(weights)}, the last one"
    elif one.size(1) == 1 and len(source) > 1:
        source = ["the memory's only slot"]
    return {
        "name": answer.line.name,
        "text": answer.text,
        "warnings": answer.warnings,
        "source": source,
        "target": answer.target,
        "images": images,
        "picture": _picture(answer.line.source) if images else None,
        "side": round(one.size(1) ** 0.5),
        "caption": caption,
        "map": one.tolist(),
        "heads": weights.tolist() if weights.dim() == 4 else None,
    }


def _picture(image: Tensor) -> str:
    """Return an image (1, height, width), 0 for black, as the address of a PNG."""
    pixels = (image[0].clamp(0, 1) * 255).byte().numpy()
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _shown(token: str) -> str:
    return "␣" if token == " " else token
