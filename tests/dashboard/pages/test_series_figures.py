"""What the series page draws in addition to a history: marks, other series, samples, code; and a kernel's heat map."""

import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.pages.whole_history import as_page, history_figure, whole_history
from warpwatch.dashboard.model.changepoint import SeriesChange
from warpwatch.dashboard.model.history import Extent, History, Mark, MarkKind, OtherHistory
from warpwatch.dashboard.model.kernel_line import Cell, Kernel, ShapeRow
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.series import Commit, Point, Series, Status
from warpwatch.dashboard.model.verdict import ChangeKind, Verdict
from warpwatch.dashboard.web.figures.heat_map import Reference, by_gpu, heat_map_figure, heat_rows
from warpwatch.dashboard.web.figures.history_view import HistoryView, Spacing
from warpwatch.dashboard.web.figures.style import panes

HOSTILE = "<a href='javascript:alert(1)'>x</a>"


def _commit(index: int, gap: int = 0) -> Commit:
    return Commit(
        hash=f"{index:08x}" + "0" * 32,
        date=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=index),
        subject=HOSTILE,
        author="Ada",
        position=index,
        unmeasured_before=gap,
    )


def _point(index: int, value: float | None = 1.0, gap: int = 0) -> Point:
    return Point(
        commit=_commit(index, gap),
        value=value,
        q25=None,
        q75=None,
        sample_count=3,
        status=Status.INVALID if value is None else Status.OK,
        reason=HOSTILE,
        run=f"{index:032x}",
        run_time=None,
    )


def _series(name: str = "latency", unit: str = "seconds", **more: Any) -> Series:
    common: dict[str, Any] = {
        "key": "0" * 16,
        "project": "p",
        "benchmark": "b.S.track",
        "parameters": (),
        "metric": metric(name, unit),
        "machine": HOSTILE,
        "environment": "e",
        "workload": "w",
        "implementation": "warpwatch",
        "is_baseline": False,
        "listed": True,
    }
    return Series(**{**common, **more})


def _change(index: int, magnitude: float) -> SeriesChange:
    return SeriesChange(
        index=index,
        commit=_commit(index),
        previous_commit=_commit(index - 1),
        range_start=_commit(index - 1),
        range_end=_commit(index),
        before=1.0,
        after=1.0 + magnitude,
        magnitude=magnitude,
        ci_low=magnitude,
        ci_high=magnitude,
        p_value=0.001,
        is_worse=magnitude > 0,
        kind=ChangeKind.STEP,
    )


def _history(*points: Point, **more: Any) -> History:
    return History(series=_series(), points=points, **{"changes": (), "workload": None, "others": (), **more})


def _named(figure: dict[str, Any], name: str) -> dict[str, Any]:
    (trace,) = [trace for trace in figure["data"] if trace.get("name") == name]
    return trace


def test_by_commit_unmeasured_ones_are_gaps_and_evenly_they_are_not() -> None:
    history = _history(_point(0), _point(1, gap=3), _point(2))
    even = history_figure(history, HistoryView())
    by_commit = history_figure(history, HistoryView(spacing=Spacing.COMMIT))
    assert _named(even, "warpwatch")["x"] == [0, 1, 2]
    assert _named(by_commit, "warpwatch")["x"] == [0, 4, 5]
    assert by_commit["layout"]["meta"]["places"] == [0, 4, 5]


def test_marks_have_a_strip_with_a_sign_each_and_their_words() -> None:
    shown = whole_history(_history(*(_point(n) for n in range(4))), HistoryView())
    marks = [
        Mark(commit=_commit(1), kind=MarkKind.RELEASE, text="v1.2"),
        Mark(commit=_commit(2), kind=MarkKind.MACHINE, text="driver 550 → 580"),
        Mark(commit=_commit(3), kind=MarkKind.NOTE, text=HOSTILE + "\nsecond line " * 40, author="Bo"),
    ]
    figure = history_figure(replace(shown, marks=tuple(marks)), HistoryView())
    assert [_named(figure, name)["x"] for name in ("release", "machine changed", "note")] == [[1], [2], [3]]
    labels = [label["text"] for label in figure["layout"]["annotations"] if label["name"] == "mark"]
    assert labels[0] == "v1.2"
    assert "550 → 580" in _named(figure, "machine changed")["text"][0]
    assert "<a" not in json.dumps(figure)
    assert figure["layout"]["xaxis"]["anchor"] == "y4"
    assert len(figure["layout"]["shapes"]) == 2  # a note has no line of its own


def test_overlaid_series_have_a_small_plot_each_in_their_own_unit_on_the_same_axis() -> None:
    shown = whole_history(_history(*(_point(n) for n in range(4))), HistoryView())
    overlays = tuple(
        OtherHistory(
            series=_series(name, unit), points=tuple(_point(n, 96.0) for n in range(4)), changes=(_change(2, 0.1),)
        )
        for name, unit in (("registers", "registers"), ("peak_memory", "bytes"))
    )
    figure = history_figure(replace(shown, added=overlays), HistoryView())
    layout = figure["layout"]
    first, second, main = (layout[name]["domain"] for name in ("yaxis5", "yaxis6", "yaxis"))
    assert second[1] < first[0] < first[1] < main[0]
    assert layout["xaxis"]["anchor"] == "y6"
    mine = [trace for trace in figure["data"] if trace.get("yaxis") in {"y5", "y6"}]
    assert all(trace["showlegend"] is False for trace in mine)
    assert len([label for label in layout["annotations"] if label["name"] == "heading"]) == 2
    assert "<a" not in json.dumps(figure)


@given(st.booleans(), st.booleans(), st.booleans(), st.integers(0, 6), st.integers(0, 2))
def test_parts_of_a_figure_share_its_height_without_touching(
    no_numbers: bool, marks: bool, canaries: bool, overlays: int, lanes: int
) -> None:
    parts = panes(no_numbers=no_numbers, marks=marks, canaries=canaries, overlays=overlays, lanes=lanes)
    all_of_them = [parts.main, parts.no_numbers, parts.marks, parts.canaries, *parts.overlays]
    there = sorted(domain for domain in all_of_them if domain[1] > domain[0])
    assert there[0][0] == 0.0
    assert there[-1] == parts.main
    assert all(lower[1] < upper[0] for lower, upper in itertools.pairwise(there))
    assert parts.main[1] <= 1


def test_labels_of_changes_are_many_largest_first_so_that_a_zoom_finds_more() -> None:
    changes = tuple(_change(n, 0.01 * n) for n in range(1, 30))
    figure = history_figure(_history(*(_point(n) for n in range(31)), changes=changes), HistoryView())
    labels = [label for label in figure["layout"]["annotations"] if label["name"] == "change"]
    assert labels[0]["text"] == "+29.0 %"
    assert len(labels) == 29


def test_a_long_history_leaves_words_to_the_panel_and_says_that_more_is_there() -> None:
    shown = whole_history(_history(*(_point(n) for n in range(400))), HistoryView())
    extent = Extent(points=9000, drawn=400, points_inside=9000, drawn_inside=400)
    figure = history_figure(replace(shown, extent=extent), HistoryView())
    assert "Ada" not in _named(figure, "warpwatch")["text"][0]
    assert (figure["layout"]["meta"]["thinned"], figure["layout"]["meta"]["whole_inside"]) == (True, False)


def _heat_map(*data: Any) -> dict[str, Any]:
    return as_page(heat_map_figure(*data))


def _kernel(*rows: list[float | None], changes: tuple[SeriesChange, ...] = (), unit: str = "seconds") -> Kernel:
    name = "latency" if unit == "seconds" else "bandwidth"
    return Kernel(
        name="rope",
        machines=("m",),
        metrics=(name,),
        implementations=(),
        machine="m",
        metric=name,
        implementation=None,
        commits=tuple(_commit(n) for n in range(len(rows[0]))),
        software=(None,) * len(rows[0]),
        older=False,
        hidden=0,
        rows=tuple(
            ShapeRow(
                series=_series(name, unit, key=f"{n:016x}"),
                changes=changes,
                verdict=Verdict.UNCHANGED,
                cells=tuple(
                    Cell(value=v, status=Status.INVALID if v is None else Status.OK, reason=HOSTILE) for v in values
                ),
            )
            for n, values in enumerate(rows)
        ),
    )


def test_cells_show_the_change_from_the_first_or_the_newest_level() -> None:
    kernel = _kernel([1.0, 1.0, None, 2.0, 2.0], changes=(_change(3, 1.0),))
    (first,), (newest,) = heat_rows(kernel, Reference.FIRST), heat_rows(kernel, Reference.NEWEST)
    assert first.change == (0.0, 0.0, None, 1.0, 1.0)
    assert newest.change == (-0.5, -0.5, None, 0.0, 0.0)
    figure = _heat_map(kernel, (first,), [HOSTILE])
    assert "<a" not in json.dumps(figure)
    assert (_named(figure, "level rose")["y"], len(_named(figure, "no number")["x"])) == ([0], 1)
    assert _named(figure, "numbers")["text"] == ["0.0", "0.0", "2×", "2×"]


def _on_cards(kernel: Kernel, *cards: str) -> Kernel:
    (row,) = kernel.rows
    cells = [replace(cell, gpus=frozenset({card})) for cell, card in zip(row.cells, cards, strict=True) if cell]
    return replace(kernel, rows=(replace(row, cells=tuple(cells)),))


def test_what_another_card_measured_is_marked_so_and_no_level_is_of_two_cards() -> None:
    kernel = _on_cards(_kernel([1.0, 2.0, 1.0, 2.2, 0.9]), *"ABABA")
    (row,) = heat_rows(kernel, Reference.FIRST)
    assert row.level == 1.0  # by the second card it would be 2.0, as the median of both 1.0 or 2.0
    assert row.change == pytest.approx((0.0, 1.0, 0.0, 1.2, -0.1))
    assert row.is_other_gpu == (False, True, False, True, False)
    figure = _heat_map(kernel, (row,), ["w"])
    assert _named(figure, "cells")["z"][0][:2] == [0.0, None]
    assert _named(figure, "on another GPU")["z"][0][:2] == [None, 1.0]
    assert _named(figure, "numbers")["text"][:2] == ["0.0", "2×*"]
    assert "another GPU than the reference:<br>B" in _named(figure, "cells")["text"][0][1]
    assert [line["x0"] for line in figure["layout"]["shapes"]] == [0.5, 1.5, 2.5, 3.5]
    (newest,) = heat_rows(kernel, Reference.NEWEST)
    assert (newest.level, newest.is_other_gpu) == (1.0, row.is_other_gpu)
    (own,) = heat_rows(kernel, Reference.OWN_GPU)
    assert own.change == pytest.approx((0.0, -1 / 21, 0.0, 1 / 21, -0.1))
    assert not any(own.is_other_gpu)


def test_columns_of_one_gpu_lie_side_by_side_with_its_name_above_them() -> None:
    kernel = _on_cards(_kernel([1.0, 2.0, 1.0, 2.2, 0.9]), *"ABABA")
    shown, (row,) = by_gpu(kernel, heat_rows(kernel, Reference.FIRST))
    order = [0, 2, 4, 1, 3]
    assert [commit.hash for commit in shown.commits] == [kernel.commits[place].hash for place in order]
    assert [cell.value for cell in row.shape.cells if cell] == [1.0, 1.0, 0.9, 2.0, 2.2]
    layout = as_page(heat_map_figure(shown, (row,), ["w"], is_by_gpu=True))["layout"]
    assert [(each["text"], each["x"]) for each in layout["annotations"]] == [("A", -0.5), ("B", 2.5)]
    assert [line["x0"] for line in layout["shapes"]] == [2.5]


def test_columns_say_from_where_on_harness_or_driver_differ() -> None:
    facts = [(("driver", "580.1"), ("suite", suite)) for suite in ("a", "a", "b")]
    kernel = replace(_kernel([1.0, 1.0, 1.0]), software=tuple(facts))
    (mark,) = _heat_map(kernel, heat_rows(kernel, Reference.FIRST), ["w"])["layout"]["annotations"]
    assert (mark["text"], mark["x"], mark["hovertext"]) == ("harness", 1.5, "harness changed")


def test_what_is_exact_is_the_same_on_every_card() -> None:
    kernel = _on_cards(_kernel([40.0, 40.0, 48.0], unit="registers"), *"ABC")
    (row,) = heat_rows(kernel, Reference.FIRST)
    assert row.change[2] == pytest.approx(0.2)
    assert not any(row.is_other_gpu)
    assert _heat_map(kernel, (row,), ["w"])["layout"].get("shapes", []) == []


def test_worse_has_the_same_colour_whichever_way_a_metric_counts() -> None:
    for kernel in (_kernel([1.0, 1.0, 1.0, 1.2]), _kernel([1.0, 1.0, 1.0, 0.8], unit="GB/s")):
        figure = _heat_map(kernel, heat_rows(kernel, Reference.FIRST), ["w"])
        assert _named(figure, "cells")["z"][0][-1] == pytest.approx(0.2)
