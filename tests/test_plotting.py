import matplotlib.pyplot as plt
import pytest
import torch
from bs4 import BeautifulSoup
from torch.testing import assert_close

from attention_course.plotting import (
    decoder_step,
    heat_map,
    length_curves,
    report_table,
    weights_table,
)

WEIGHTS = [[0.7, 0.2, 0.1], [0.0, 0.25, 0.75]]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def drawn(ax):
    return torch.tensor(ax.images[0].get_array().tolist())


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_heat_map_draws_the_weights_with_targets_downwards():
    ax = heat_map(WEIGHTS, ["a", "b", "c"], ["x", "y"])

    assert_close(drawn(ax), torch.tensor(WEIGHTS))
    # the same colour means the same weight in every figure
    assert ax.images[0].get_clim() == pytest.approx((0, 1))
    assert (labels(ax.xaxis), labels(ax.yaxis)) == (["a", "b", "c"], ["x", "y"])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("source", "target")
    assert ax.yaxis_inverted()


def test_a_weight_of_zero_is_transparent_and_a_weight_of_one_is_not():
    colours = heat_map(WEIGHTS, ["a", "b", "c"], ["x", "y"]).images[0].get_cmap()
    assert (colours(0.0)[3], colours(1.0)[3]) == (0, 1)
    assert colours(0.0)[:3] == colours(1.0)[:3]


def test_heat_map_leaves_out_padding():
    padded = torch.tensor([[*row, 0.0, 0.0] for row in [*WEIGHTS, [0.3, 0.3, 0.4]]])
    ax = heat_map(padded.tolist(), ["a", "b", "c"], ["x", "y"])

    assert_close(drawn(ax), torch.tensor(WEIGHTS))


def test_heat_map_takes_weights_as_a_model_returns_them():
    weights = torch.tensor(WEIGHTS, dtype=torch.bfloat16, requires_grad=True)
    ax = heat_map(weights, ["a", "b", "c"], ["x", "y"])
    assert_close(torch.tensor(ax.images[0].get_array()), weights.detach().double())


def test_heat_map_shows_spaces():
    ax = heat_map(WEIGHTS, ["9", " ", "M"], [" ", "-"])

    assert (labels(ax.xaxis), labels(ax.yaxis)) == (["9", "␣", "M"], ["␣", "-"])


def test_heat_map_frames_gold_positions():
    ax = heat_map(WEIGHTS, ["a", "b", "c"], ["x", "y"], gold=[{0, 2}, set()])
    frames = sorted(
        (patch.get_x(), patch.get_y(), patch.get_width(), patch.get_height())
        for patch in ax.patches
    )

    # Cell (t, s) reaches from s - 0.5 to s + 0.5, and from t - 0.5 to t + 0.5.
    assert_close(
        torch.tensor(frames),
        torch.tensor([[-0.5, -0.5, 1.0, 1.0], [1.5, -0.5, 1.0, 1.0]]),
    )
    assert not any(patch.get_fill() for patch in ax.patches)

    (frame,) = heat_map(WEIGHTS, ["a", "b", "c"], ["x", "y"], gold=[set(), {1}]).patches
    assert frame.get_xy() == pytest.approx((0.5, 0.5))
    assert not heat_map(WEIGHTS, ["a", "b", "c"], ["x", "y"]).patches


def test_maps_of_one_figure_share_a_colour_bar():
    figure, panels = plt.subplots(1, 3)
    for ax in panels:
        heat_map(WEIGHTS, ["a", "b", "c"], ["x", "y"], ax=ax)

    assert len(figure.axes) == 4  # three maps and their bar


def test_no_weight_shows_the_page_and_more_weight_more_colour():
    (image,) = heat_map(WEIGHTS, ["a", "b", "c"], ["x", "y"]).images
    opacity = image.to_rgba([0.0, 0.5, 1.0])[:, 3]

    assert opacity == pytest.approx([0, 0.5, 1], abs=0.01)


def test_drawing_on_given_axes_makes_no_new_figure():
    figure, (left, right) = plt.subplots(1, 2)

    assert heat_map(WEIGHTS, ["a", "b", "c"], ["x", "y"], ax=left) is left
    assert length_curves({"luong": {1: 0.5}}, ax=right) is right
    assert plt.get_fignums() == [figure.number]


def test_figures_render_without_warnings():
    """Warnings are errors here: a character without a glyph, or a layout that does not
    fit, fails."""
    heat_map(WEIGHTS, ["é", " ", "ø"], ["ü", "-"], gold=[{0}, {1}]).figure.canvas.draw()
    length_curves({"final state": {1: 1.0, 20: 0.1}}).figure.canvas.draw()


@pytest.mark.parametrize(
    ("source", "target", "needed"),
    [("abcd", "xy", "2 target and 4 source"), ("abc", "xyz", "3 target and 3 source")],
)
def test_fewer_weights_than_tokens_are_refused(source, target, needed):
    with pytest.raises(ValueError, match=f"{needed} tokens.*got 2 and 3"):
        heat_map(WEIGHTS, list(source), list(target))


@pytest.mark.parametrize(("source", "target"), [("abc", ""), ("", "xy")])
def test_where_there_is_nothing_to_draw_it_is_said(source, target):
    with pytest.raises(ValueError, match="tokens leave nothing to draw"):
        heat_map(WEIGHTS, list(source), list(target))


def test_weights_table_holds_the_numbers_of_the_heat_map():
    padded = [[*row, 0.5] for row in WEIGHTS]
    table = BeautifulSoup(
        weights_table(padded, ["a", " ", "<"], ["x", "&"], "who & what"), "html.parser"
    )

    assert [th.get_text() for th in table.find_all("th", scope="col")] == [
        "a",
        "␣",
        "<",
    ]
    assert [th.get_text() for th in table.find_all("th", scope="row")] == ["x", "&"]
    assert table.caption.get_text() == "who & what"
    rows = [
        [td.get_text() for td in row.find_all("td")] for row in table.find_all("tr")[1:]
    ]
    assert rows == [["0.70", "0.20", "0.10"], ["0.00", "0.25", "0.75"]]


def test_length_curves_draw_one_line_per_model():
    curves = {"final state": {5: 1.0, 10: 0.5, 20: 0.0}, "luong": {5: 1.0, 20: 0.9}}
    ax = length_curves(curves)

    for line, (name, curve) in zip(ax.lines, curves.items(), strict=True):
        assert line.get_label() == name
        assert list(line.get_xdata()) == list(curve)
        assert list(line.get_ydata()) == pytest.approx(list(curve.values()))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(curves)
    low, high = ax.get_ylim()
    assert low < 0
    assert high > 1  # neither a score of 0 nor one of 1 lies on the frame
    assert ax.get_xlabel() == "source length (tokens)"


def test_no_curve_is_lost_however_many_there_are():
    ax = length_curves({f"model {i}": {1: 0.0, 2: 1.0} for i in range(11)})

    assert [line.get_label() for line in ax.lines] == [f"model {i}" for i in range(11)]


def test_a_report_as_a_table():
    rows = [
        {"what": "dates / slow / CPU time", "value": 12.345, "unit": "s"},
        {"what": "dates / slow / parameters", "value": 123456, "unit": ""},
        {"what": "dates / fast / CPU time", "value": 1, "unit": "s"},
        {"what": "dates / fast / exact match", "value": 0.98765, "unit": "share"},
        {"what": "reversal / fast / exact match", "value": 0.5, "unit": "share"},
        {"what": "dates", "value": 0.5, "unit": "share"},
    ]

    assert report_table(
        rows, "dates", "model", ["exact match", "CPU time"]
    ).splitlines() == [
        "| model | exact match | CPU time |",
        "| --- | --: | --: |",
        "| slow | – | 12.3 |",
        "| fast | 0.988 | 1.0 |",
    ]
    assert (
        report_table(rows, "dates", "model").splitlines()[0]
        == "| model | CPU time | parameters | exact match |"
    )
    assert "| slow | 123,456 |" in report_table(rows, "dates", "model", ["parameters"])
    for of, columns in (("numerals", []), ("dates", ["CPU time", "CPU tmie"])):
        with pytest.raises(ValueError, match=f"'{of}'"):
            report_table(rows, of, "model", columns)


@pytest.mark.parametrize(
    ("order", "asks"), [("Bahdanau", "$h_{t-1}$"), ("Luong", "$h_t$")]
)
def test_decoder_step_draws_the_query_at_the_state_that_asks(order, asks):
    ax = decoder_step(order)

    words = {text.get_text(): text.get_position() for text in ax.texts}
    arrows = [text for text in ax.texts if hasattr(text, "arrow_patch")]
    (query,) = [arrow for arrow in arrows if arrow.arrow_patch.get_linewidth() == 3]
    assert query.xyann[0] == words[asks][0]
    assert (r"$\tilde{h}_t$" in words) == (order == "Luong")


def test_decoder_step_knows_two_orders():
    with pytest.raises(ValueError, match="'Bahdanau' or 'Luong', got 'Cho'"):
        decoder_step("Cho")
