"""What a figure shows: each value at its place, each implementation in its own look, nothing foreign as HTML."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.pages.whole_history import as_page, history_figure
from warpwatch.dashboard.model.changepoint import SeriesChange
from warpwatch.dashboard.model.history import History, OtherHistory
from warpwatch.dashboard.model.machine import Ceilings, HardwareLimits, Machine, Roofline, RooflinePoint
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.series import Commit, Point, Profile, Series, SpeedOfLight, Status, Workload
from warpwatch.dashboard.web.figures.history_markers import canary_summary
from warpwatch.dashboard.web.figures.history_view import HistoryView, Scale, Spacing
from warpwatch.dashboard.web.figures.inline_charts import SPARKLINE, sparkline
from warpwatch.dashboard.web.figures.roofline import roofline_figure
from warpwatch.dashboard.web.figures.style import COLOURS, Theme, look

START = datetime(2026, 1, 1, tzinfo=UTC)


def _commit(index: int, subject: str | None = "a subject") -> Commit:
    return Commit(
        hash=f"{index:08x}" + "0" * 32,
        date=START + timedelta(days=index),
        subject=subject,
        author="Ada",
        position=index,
        unmeasured_before=0,
    )


def _point(index: int, value: float | None, **more: Any) -> Point:
    status = Status.OK if value is not None else Status.INVALID
    common: dict[str, Any] = {
        "commit": _commit(index),
        "value": value,
        "q25": None,
        "q75": None,
        "sample_count": 3,
        "status": status,
        "reason": None if value is not None else "throttled",
        "run": f"{index}",
        "run_time": None,
    }
    return Point(**{**common, **more})


def _series(implementation: str | None = "warpwatch", *, is_baseline: bool = False) -> Series:
    return Series(
        key="0" * 16,
        project="p",
        benchmark="b.S.track_latency",
        parameters=(),
        metric=metric("latency", "seconds"),
        machine="m",
        environment="e",
        workload="w",
        implementation=implementation,
        is_baseline=is_baseline,
        listed=True,
    )


def _history(*points: Point, rivals: tuple[OtherHistory, ...] = (), **more: Any) -> History:
    common: dict[str, Any] = {"series": _series(), "changes": (), "workload": None, "others": rivals}
    return History(points=points, **{**common, **more})


def _named(figure: dict[str, Any], name: str) -> dict[str, Any]:
    (trace,) = [trace for trace in figure["data"] if trace.get("name") == name]
    return trace


def _change(index: int, before: float, after: float) -> SeriesChange:
    magnitude = after / before - 1
    return SeriesChange(
        index=index,
        commit=_commit(index),
        previous_commit=_commit(index - 1),
        range_start=_commit(index - 1),
        range_end=_commit(index),
        before=before,
        after=after,
        magnitude=magnitude,
        ci_low=magnitude - 0.01,
        ci_high=magnitude + 0.01,
        p_value=0.001,
        is_worse=magnitude > 0,
    )


def test_values_are_drawn_in_the_prefix_that_fits_them() -> None:
    figure = history_figure(_history(_point(0, 31.2e-6), _point(1, 31.5e-6)), HistoryView())
    assert _named(figure, "warpwatch")["y"] == pytest.approx([31.2, 31.5])
    assert figure["layout"]["yaxis"]["title"]["text"] == "latency (µs)"


def test_noise_of_a_thousandth_does_not_fill_the_height() -> None:
    low, high = history_figure(_history(_point(0, 1.0), _point(1, 1.001)), HistoryView())["layout"]["yaxis"][
        "autorangeoptions"
    ]["include"]
    assert high - low >= 0.05


def test_a_point_without_a_number_stands_in_the_strip_below_with_its_reason() -> None:
    figure = history_figure(_history(_point(0, 1.0), _point(1, None), _point(2, 1.0)), HistoryView())
    strip = _named(figure, "no number")
    assert strip["x"] == [1]
    assert strip["yaxis"] == "y2"
    assert "throttled" in strip["text"][0]
    assert len(_named(figure, "warpwatch")["y"]) == 2


def test_a_series_that_never_had_a_number_is_drawn_with_its_baseline() -> None:
    rival = OtherHistory(series=_series("sdpa", is_baseline=True), points=(_point(0, 2e-6),))
    figure = history_figure(_history(_point(0, None), rivals=(rival,)), HistoryView())
    assert _named(figure, "SDPA")["y"] == pytest.approx([2.0])
    assert _named(figure, "SDPA")["visible"] is True
    assert figure["layout"]["xaxis"]["anchor"] == "y2"


def test_two_runs_of_a_commit_are_two_points_and_the_line_goes_through_their_median() -> None:
    figure = history_figure(_history(_point(0, 1.0), _point(1, 2.0), _point(1, 4.0, run="again")), HistoryView())
    assert _named(figure, "warpwatch")["y"] == [1.0, 2.0, 4.0]
    assert _named(figure, "median of runs")["y"] == [1.0, 3.0]


def test_levels_span_their_segments_and_the_change_is_marked_where_it_begins() -> None:
    points = [_point(index, 1.0 if index < 3 else 1.1) for index in range(6)]
    figure = history_figure(_history(*points, changes=(_change(3, 1.0, 1.1),)), HistoryView())
    levels = _named(figure, "level")
    assert levels["x"] == [0, 2, None, 3, 5, None]
    assert levels["y"] == [1.0, 1.0, None, 1.1, 1.1, None]
    mark = _named(figure, "regression")
    assert mark["x"] == [3]
    assert [label["text"] for label in figure["layout"]["annotations"]] == ["+10.0 %", "axis does not start at 0"]
    assert "+9.0 % to +11.0 %" in mark["text"][0]


def test_levels_leave_out_commits_without_a_number() -> None:
    """A changepoint's index counts the commits that have one."""
    points = [_point(0, 1.0), _point(1, None), _point(2, 1.0), _point(3, 1.2), _point(4, 1.2)]
    change = _change(2, 1.0, 1.2)
    figure = history_figure(_history(*points, changes=(change,)), HistoryView())
    assert _named(figure, "level")["x"][3] == 3


def test_a_rival_is_hollow_and_dashed_and_hidden_if_it_would_squash_our_own() -> None:
    rivals = tuple(
        OtherHistory(series=_series(name, is_baseline=True), points=(_point(0, value),))
        for name, value in (("sdpa", 1.3), ("eager", 9.0))
    )
    figure = history_figure(_history(_point(0, 1.0), rivals=rivals), HistoryView())
    near, far = _named(figure, "SDPA"), _named(figure, "PyTorch eager")
    assert near["marker"]["symbol"] == "circle-open"
    assert near["line"]["dash"] != "solid"
    assert near["visible"] is True
    assert far["visible"] == "legendonly"


def test_a_window_of_commits_is_the_same_by_commit_and_by_date() -> None:
    history = _history(*(_point(index, 1.0) for index in range(10)))
    window = {"first": _commit(2).hash[:8], "last": _commit(5).hash[:8]}
    for spacing in (Spacing.EVEN, Spacing.COMMIT):
        low, high = history_figure(history, HistoryView(spacing=spacing, **window))["layout"]["xaxis"]["range"]
        assert (1 < low < 2, 5 < high < 6) == (True, True)
    by_date = history_figure(history, HistoryView(spacing=Spacing.DATE, **window))["layout"]["xaxis"]["range"]
    low, high = (datetime.fromisoformat(end) for end in by_date)
    assert _commit(1).date < low < _commit(2).date
    assert _commit(5).date < high < _commit(6).date


def test_an_unknown_window_shows_everything() -> None:
    history = _history(_point(0, 1.0), _point(1, 1.0))
    figure = history_figure(history, HistoryView(first="feedfeed", last="<script>"))
    assert figure["layout"]["xaxis"]["range"] == history_figure(history, HistoryView())["layout"]["xaxis"]["range"]


def test_what_comes_from_outside_is_no_html_in_a_figure() -> None:
    hostile = "<a href='javascript:alert(1)'>x</a>"
    point = _point(0, 1.0, commit=_commit(0, subject=hostile))
    bad = _point(1, None, reason=hostile)
    figure = history_figure(_history(point, bad), HistoryView(scale=Scale.LOG))
    assert "<a" not in json.dumps(figure)


@given(st.text(min_size=1))
def test_an_implementation_without_a_row_in_the_palette_looks_alike_every_time(name: str) -> None:
    assert look(name) == look(name)
    assert look(name).colour in COLOURS[Theme.LIGHT].values()


@given(st.lists(st.none() | st.floats(1e-9, 1e9), min_size=1, max_size=60))
def test_a_sparkline_stays_inside_its_box(values: list[float | None]) -> None:
    line = sparkline(values)
    numbers = [float(text) for text in line.path.replace("M", " ").replace("L", " ").split()]
    assert len(numbers) == 2 * sum(value is not None for value in values)
    assert all(0 <= x <= SPARKLINE.width for x in numbers[::2])
    assert all(0 <= y <= SPARKLINE.height for y in numbers[1::2])


def test_a_sparkline_is_flat_where_only_noise_is() -> None:
    heights = [float(part.split()[1]) for part in sparkline([1.0, 1.001, 0.999]).path[1:].split("L")]
    assert max(heights) - min(heights) < SPARKLINE.height / 8


def _roofline_point(
    operator: str, implementation: str, *, is_baseline: bool = False, dram_bytes: float | None = None
) -> RooflinePoint:
    workload = Workload(
        benchmark="b",
        operator=operator,
        name="w",
        dtype="fp16",
        flops=1e9,
        bytes=1e7,
        parameters={},
        kernels=("warpwatch",),
        baselines=("sdpa",),
    )
    profile = Profile(commit=_commit(0), run="r", profiler="Nsight Compute 2025.3", dram_bytes=dram_bytes, kernels=())
    return RooflinePoint(
        series=_series(implementation, is_baseline=is_baseline),
        workload=workload,
        implementation=implementation,
        latency_s=1e-5,
        intensity=100.0,
        flop_rate=1e14,
        bandwidth_bps=1e12,
        commit=_commit(0),
        speed_of_light=SpeedOfLight(of_peak=0.2, of_ceiling=None),
        profile=profile if dram_bytes else None,
    )


PEAKS = Ceilings(name="x", source="datasheet", bandwidth_bps=5e12, flops={"fp16": 1e15, "int8": 2e15})
MEASURED = Ceilings(name="x", source="measured", bandwidth_bps=4e12, flops={"fp16": 6e14, "int8": 9e14})


def _roofline(
    *points: RooflinePoint, peaks: Ceilings | None = None, measured: Ceilings | None = None
) -> dict[str, Any]:
    machine = Machine(
        name="m",
        gpu="g",
        cpu=None,
        details={},
        limits=HardwareLimits(peaks=peaks, measured=measured),
        gpus=(),
        runs=1,
        newest_run=None,
        newest_commit=None,
    )
    return as_page(roofline_figure(Roofline(machine=machine, points=points)))


def test_under_the_roof_rivals_are_hollow_and_a_shape_is_an_operator() -> None:
    figure = _roofline(
        _roofline_point("attention", "warpwatch"),
        _roofline_point("rope", "warpwatch"),
        _roofline_point("attention", "sdpa", is_baseline=True),
        measured=MEASURED,
    )
    ours, theirs = _named(figure, "warpwatch")["marker"]["symbol"], _named(figure, "SDPA")["marker"]["symbol"]
    assert theirs == [f"{ours[0]}-open"]
    assert ours[0] != ours[1]
    slope, flat = figure["data"][0], figure["data"][1]
    assert slope["x"][-1] == flat["x"][0] == pytest.approx(6e14 / 4e12)  # the ridge point
    assert slope["y"] == pytest.approx([x * 4e12 for x in slope["x"]])
    texts = [annotation["text"] for annotation in figure["layout"]["annotations"]]
    # int8 has no workload here
    assert texts == ["fp16 600 TFLOP/s (measured)", "4.00 TB/s (measured)"]


def test_more_operators_than_shapes_leave_the_figure_to_its_points() -> None:
    points = [_roofline_point(f"operator_{number}", "warpwatch") for number in range(10)]
    figure = _roofline(*points, measured=MEASURED)
    assert set(_named(figure, "warpwatch")["marker"]["symbol"]) == {"circle"}
    assert [trace["name"] for trace in figure["data"] if trace.get("name")] == ["warpwatch", "names"]


def test_labels_of_roofs_share_a_place_where_slow_points_take_the_room() -> None:
    peaks = replace(PEAKS, flops={"fp16": 1e15, "tf32": 4e14})
    fast = _roofline_point("rope", "warpwatch")
    points = [fast, replace(fast, workload=replace(fast.workload, dtype="tf32"))]
    assert len(_roofline(*points, peaks=peaks)["layout"]["annotations"]) == 3
    slow = replace(fast, flop_rate=1e3)
    assert len(_roofline(*points, slow, peaks=peaks)["layout"]["annotations"]) == 2


def test_what_computes_nothing_has_no_place_on_the_roofline_and_moves_nothing_there() -> None:
    copying = replace(_roofline_point("kv_append", "warpwatch"), intensity=0.0, flop_rate=0.0)
    rope = _roofline_point("rope", "warpwatch")
    assert _roofline(rope, copying, measured=MEASURED) == _roofline(rope, measured=MEASURED)
    assert _roofline(copying, measured=MEASURED) == _roofline(measured=MEASURED)


def test_the_datasheets_roof_is_thin_and_the_measured_one_solid_with_their_labels_above() -> None:
    figure = _roofline(_roofline_point("rope", "warpwatch"), peaks=PEAKS, measured=MEASURED)
    roofs = figure["data"][:4]
    assert [roof["line"]["width"] for roof in roofs] == [1, 1, 2, 2]
    assert [max(roof["y"]) for roof in roofs] == [1e15, 1e15, 6e14, 6e14]
    math, memory = figure["layout"]["annotations"]
    assert math["text"] == "fp16 1,000 TFLOP/s (datasheet)<br>fp16 600 TFLOP/s (measured)"
    assert memory["text"] == "5.00 TB/s (datasheet)<br>4.00 TB/s (measured)"
    assert (math["y"], math["yanchor"], memory["yanchor"]) == (pytest.approx(15), "bottom", "bottom")


def test_roofs_are_those_of_the_cards_that_measured_the_points_and_not_of_another_one() -> None:
    other = replace(MEASURED, bandwidth_bps=4.4e12, flops={"fp16": 6.6e14})
    newest = replace(MEASURED, bandwidth_bps=3e12, flops={"fp16": 5e14})
    point = _roofline_point("rope", "warpwatch")
    of_a = replace(
        point, gpu="GPU-aaaaaaaa-1", ceilings=MEASURED, speed_of_light=SpeedOfLight(of_peak=0.2, of_ceiling=0.3)
    )
    of_b = replace(of_a, gpu="GPU-bbbbbbbb-1", ceilings=other)
    figure = _roofline(of_a, of_b, measured=newest)
    assert [max(roof["y"]) for roof in figure["data"][:4]] == [6e14, 6e14, 6.6e14, 6.6e14]
    texts = [annotation["text"] for annotation in figure["layout"]["annotations"]]
    assert texts == ["fp16 600 to 660 TFLOP/s (measured)", "4.00 to 4.40 TB/s (measured)"]
    assert "30 % of ceiling of GPU-aaaaaaaa" in _named(figure, "warpwatch")["text"][0]
    assert [max(roof["y"]) for roof in _roofline(of_a, measured=newest)["data"][:2]] == [6e14, 6e14]


def test_roofs_too_near_for_two_labels_share_one() -> None:
    peaks = replace(PEAKS, flops={"bf16": 1e15, "fp16": 1e15, "fp32": 6e13})
    measured = replace(MEASURED, flops={"bf16": 6.73e14, "fp16": 6.5e14, "fp32": 5e13})
    points = [_roofline_point("rope", "warpwatch")]
    points += [replace(points[0], workload=replace(points[0].workload, dtype=dtype)) for dtype in ("bf16", "fp32")]
    texts = [label["text"] for label in _roofline(*points, peaks=peaks, measured=measured)["layout"]["annotations"]]
    assert texts == [
        "fp32 60.0 TFLOP/s (datasheet)<br>fp32 50.0 TFLOP/s (measured)",
        "bf16, fp16 1,000 TFLOP/s (datasheet)<br>bf16 673 TFLOP/s, fp16 650 TFLOP/s (measured)",
        "5.00 TB/s (datasheet)<br>4.00 TB/s (measured)",
    ]


def test_integers_are_operations_and_no_flop() -> None:
    point = _roofline_point("int8_linear", "warpwatch")
    point = replace(point, workload=replace(point.workload, dtype="int8"))
    math, _ = _roofline(point, peaks=PEAKS)["layout"]["annotations"]
    assert math["text"] == "int8 2,000 TOP/s (datasheet)"


def test_where_a_profiler_saw_the_bytes_the_point_is_faint_and_joined_to_the_measured_one() -> None:
    figure = _roofline(
        _roofline_point("rope", "warpwatch", dram_bytes=2e7), _roofline_point("attention", "warpwatch"), peaks=PEAKS
    )
    full, faint = (trace for trace in figure["data"] if trace.get("name") == "warpwatch")
    assert (full["x"], full["y"]) == ([100.0, 50.0], [1e14, 1e14])
    assert "opacity" not in full["marker"]
    assert "2.00× the least" in full["text"][1]
    assert (faint["x"], faint["marker"]["opacity"], faint["showlegend"]) == ([100.0], 0.35, False)
    (join,) = (trace for trace in figure["data"] if trace["mode"] == "lines" and trace["line"].get("dash") == "dot")
    assert join["x"] == [100.0, 50.0, None]


def test_a_twin_of_ours_is_solid_and_filled_among_the_baselines() -> None:
    twin = OtherHistory(series=_series("triton"), points=(_point(0, 1.2),))
    drawn = _named(history_figure(_history(_point(0, 1.0), rivals=(twin,)), HistoryView()), "Triton")
    assert (drawn["line"]["dash"], drawn["marker"]["symbol"]) == ("solid", "diamond")


def _canary(name: str, *values: float) -> OtherHistory:
    series = replace(_series("canary"), workload=name, is_control=True)
    return OtherHistory(series=series, points=tuple(_point(index, value) for index, value in enumerate(values)))


def test_the_machines_canaries_stand_in_a_strip_of_their_own_relative_to_themselves() -> None:
    canaries = (_canary("cuda-fp32-triad-128mib", 98e-6, 98e-6, 99.96e-6), _canary("cuda-fp16-matmul-m2048", 3e-5))
    points = [_point(index, 1.0) for index in range(3)]
    figure = history_figure(_history(*points, canaries=canaries), HistoryView())
    triad = _named(figure, "canary triad")
    assert triad["yaxis"] == "y3"
    assert triad["y"] == pytest.approx([0.0, 0.0, 2.0])
    assert "+2.0 %" in triad["text"][2]
    layout = figure["layout"]
    assert layout["yaxis3"]["ticktext"] == ["−2 %", "0 %", "+2 %"]
    assert layout["yaxis3"]["domain"][1] < layout["yaxis"]["domain"][0]
    assert layout["xaxis"]["anchor"] == "y3"
    assert canary_summary(canaries) == "canary triad from 0.0 % to +2.0 %; canary matmul from 0.0 % to 0.0 %"
    assert "yaxis3" not in history_figure(_history(*points), HistoryView())["layout"]


def test_another_card_is_marked_where_it_came_in_and_levels_do_not_cross_to_it() -> None:
    cards = ["GPU-aaaaaaaa-1"] * 4 + ["GPU-bbbbbbbb-2"] * 4
    values = [1.0, 1.0, 1.2, 1.2, 1.3, 1.3, 1.3, 1.3]
    points = [_point(index, value, gpu=card) for index, (value, card) in enumerate(zip(values, cards, strict=True))]
    figure = history_figure(_history(*points, changes=(_change(2, 1.0, 1.2),)), HistoryView())
    marks = [label for label in figure["layout"]["annotations"] if label.get("name") == "mark"]
    assert [(mark["x"], mark["text"]) for mark in marks] == [(4, "GPU-bbbb")]
    assert _named(figure, "machine changed")["text"][0].startswith("machine: card GPU-bbbbbbbb")
    lines = [line for line in figure["layout"]["shapes"] if line["type"] == "line"]
    assert sorted({line["x0"] for line in lines}) == [2, 4]
    assert _named(figure, "level")["y"] == [1.0, 1.0, None, 1.2, 1.2, None, 1.3, 1.3, None]
    unknown = history_figure(_history(*(replace(point, gpu=None) for point in points)), HistoryView())
    assert [label for label in unknown["layout"]["annotations"] if label.get("name") == "mark"] == []


def test_the_levels_of_a_card_go_on_where_another_measured_between() -> None:
    cards = ["GPU-a", "GPU-a", "GPU-b", "GPU-a", "GPU-a", "GPU-a"]
    values = [1.0, 1.0, 1.3, 1.0, 1.2, 1.2]
    points = [_point(index, value, gpu=card) for index, (value, card) in enumerate(zip(values, cards, strict=True))]
    levels = _named(history_figure(_history(*points, changes=(_change(4, 1.0, 1.2),)), HistoryView()), "level")
    assert levels["x"] == [0, 3, None, 2, 2, None, 4, 5, None]
    assert levels["y"] == [1.0, 1.0, None, 1.3, 1.3, None, 1.2, 1.2, None]


def test_a_run_without_a_number_on_another_card_leaves_the_level_as_it_is() -> None:
    points = [_point(index, 1.0 if index < 3 else 1.2, gpu="GPU-a") for index in range(6)]
    points.insert(2, _point(1, None, gpu="GPU-b", run="failed later"))
    levels = _named(history_figure(_history(*points, changes=(_change(3, 1.0, 1.2),)), HistoryView()), "level")
    assert (levels["x"], levels["y"]) == ([0, 2, None, 3, 5, None], [1.0, 1.0, None, 1.2, 1.2, None])


def test_a_commit_of_unchanged_code_is_distinguished_from_one_that_failed() -> None:
    skipped = _point(1, None, status=Status.UNCHANGED, reason="code unchanged since abc12345")
    figure = history_figure(_history(_point(0, 1.0), skipped, _point(2, None)), HistoryView())
    assert _named(figure, "code unchanged")["text"][0].startswith("not measured: code unchanged since abc12345")
    assert _named(figure, "no number")["x"] == [2]


def test_a_canary_that_moves_neither_regresses_nor_improves() -> None:
    points = [_point(index, 1.0 if index < 3 else 1.1) for index in range(6)]
    canary = replace(_series("canary"), is_control=True)
    figure = history_figure(_history(*points, series=canary, changes=(_change(3, 1.0, 1.1),)), HistoryView())
    names = {trace.get("name") for trace in figure["data"]}
    assert "machine drift" in names
    assert not names & {"regression", "improvement"}


def test_a_share_is_drawn_in_per_cent() -> None:
    share = replace(_series(), metric=metric("sol_peak", "share of peak"))
    figure = history_figure(_history(_point(0, 0.5), _point(1, 0.625), series=share), HistoryView())
    assert _named(figure, "warpwatch")["y"] == pytest.approx([50.0, 62.5])
    assert figure["layout"]["yaxis"]["title"]["text"].endswith("(% of peak)")


@pytest.mark.parametrize(("farthest", "end"), [(0.0, "1"), (0.9, "1"), (1.1, "2"), (7.0, "10"), (80.0, "80")])
def test_a_canary_strip_writes_its_scale(farthest: float, end: str) -> None:
    canary = _canary("cuda-fp32-triad-128mib", 1.0, 1.0, 1.0 + farthest / 100)
    figure = history_figure(_history(*(_point(n, 1.0) for n in range(3)), canaries=(canary,)), HistoryView())
    axis = figure["layout"]["yaxis3"]
    assert axis["ticktext"] == [f"−{end} %", "0 %", f"+{end} %"]
    assert axis["range"][0] < -farthest <= farthest < axis["range"][1]


def test_a_commit_is_named_with_its_day_and_dates_are_iso_in_utc() -> None:
    shown = _history(*(_point(index, 1.0) for index in range(3)))
    even = history_figure(shown, HistoryView())["layout"]
    assert even["xaxis"]["ticktext"] == [f"0000000{n}<br>2026-01-0{n + 1}" for n in range(3)]
    assert even["meta"]["days"] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    dates = history_figure(shown, HistoryView(spacing=Spacing.DATE))["layout"]["xaxis"]
    assert dates["title"]["text"] == "UTC"
    assert all("%b" not in stop["value"] for stop in dates["tickformatstops"])


def test_a_point_says_its_change_its_rival_and_its_gpu() -> None:
    rival = OtherHistory(series=_series("sdpa", is_baseline=True), points=(_point(0, 3e-6), _point(1, 3e-6)))
    points = (_point(0, 4e-6, gpu="GPU-aaaaaaaa-1"), _point(1, 2e-6, gpu="GPU-bbbbbbbb-2"))
    first, second = _named(history_figure(_history(*points, rivals=(rival,)), HistoryView()), "warpwatch")["text"]
    assert "against" not in first
    assert "0.750× as fast as SDPA 3.00 µs<br>on GPU-aaaaaaaa<br>" in first
    assert "−50.0 % against 00000000<br>1.50× as fast as SDPA 3.00 µs<br>on GPU-bbbbbbbb<br>" in second
    assert second.count("UTC") == 1


def test_the_key_names_the_band_and_an_axis_without_zero_says_so() -> None:
    points = [_point(index, 2.0, q25=1.9, q75=2.1) for index in range(3)]
    figure = history_figure(_history(*points), HistoryView())
    assert _named(figure, "quartiles of the samples").get("showlegend", True)
    feet = [label for label in figure["layout"]["annotations"] if label.get("name") == "foot"]
    assert [label["text"] for label in feet] == ["axis does not start at 0"]
    for shown, view in (
        (_history(*points), HistoryView(scale=Scale.LOG)),
        (_history(_point(0, 0.0), _point(1, 2.0)), HistoryView()),
        (_history(_point(0, None)), HistoryView()),
    ):
        assert "does not start" not in str(history_figure(shown, view)["layout"].get("annotations"))


def test_points_of_one_place_are_seen_through_each_other() -> None:
    rival = _roofline_point("rope", "eager", is_baseline=True)
    points = [_roofline_point("rope", "warpwatch"), _roofline_point("rope", "triton"), rival]
    figure = _roofline(*points, measured=MEASURED)
    sizes = {name: _named(figure, name)["marker"]["size"] for name in ("warpwatch", "Triton", "PyTorch eager")}
    assert sizes["Triton"] < sizes["warpwatch"] < sizes["PyTorch eager"]
    assert [text.strip("\xa0") for text in _named(figure, "names")["text"]] == ["rope"]


def test_a_lower_roof_is_named_where_no_point_can_be() -> None:
    peaks = replace(PEAKS, flops={"fp16": 1e15, "fp32": 5e13})
    fast = _roofline_point("rope", "warpwatch")
    points = [fast, replace(fast, workload=replace(fast.workload, dtype="fp32"))]
    labels = _roofline(*points, peaks=peaks)["layout"]["annotations"]
    (lower,) = [label for label in labels if label["text"].startswith("fp32")]
    assert lower["xanchor"] == "right"
    assert 10 ** lower["x"] == pytest.approx(5e13 / peaks.bandwidth_bps)  # it ends on the slope
    (slope,) = [label for label in labels if "B/s" in label["text"]]
    assert slope["x"] < lower["x"]
