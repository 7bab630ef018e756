"""The roofline of a machine, and its kernels' fractions of speed of light."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flask import Blueprint, abort, render_template, request

from ...analysis.thresholds import step_thresholds
from ...model.machine import RooflinePoint
from ...model.series_query import SeriesQuery
from ...store import queries
from ..figures.roofline import roofline_figure
from ..request_context import project_or_404, search_query, store

bp = Blueprint("roofline", __name__)

_MAX_READABLE = 60  # points without a default filter
_MOST_TO_GAIN = 3  # named above the figure


@dataclass(frozen=True, slots=True, kw_only=True)
class PointFilter:
    """Filters from the URL; the defaults keep the figure readable."""

    kernels: tuple[str, ...]  # empty: all
    dtype: str  # empty: all
    one_shape: bool  # only the longest-running shape of each kernel, and its fastest baseline
    words: str  # a query of series

    def apply(
        self, points: Sequence[RooflinePoint], is_in_means: Callable[[RooflinePoint], bool]
    ) -> tuple[RooflinePoint, ...]:
        """Matching points: ours by the time to gain, then those that no mean counts, then the baselines."""
        query = SeriesQuery.parse(self.words)
        matching = [
            point
            for point in points
            if (not self.kernels or point.workload.operator in self.kernels)
            and (not self.dtype or point.workload.dtype == self.dtype)
            and query.matches(point.series, point.workload)
        ]
        matching = _one_shape(matching) if self.one_shape else matching
        return tuple(
            sorted(matching, key=lambda point: (point.series.is_baseline, not is_in_means(point), -point.gain_s))
        )


@bp.get("/<project:project>/roofline")
def show(project: str) -> str:
    """Roofline and list of one machine; by default the one with the newest data."""
    current = project_or_404(project)
    rooflines = queries.rooflines(store(), current.name)
    machine = request.args.get("machine", "")
    chosen = next((roofline for roofline in rooflines if roofline.machine.name == machine), None)
    if machine and chosen is None:
        abort(404, f"There is no roofline of a machine “{machine}”: it has recorded no ceilings or workloads.")
    if chosen is None and rooflines:
        chosen = rooflines[0]
    all_points = chosen.points if chosen else ()
    choice = _choice(all_points)
    limits = step_thresholds(store(), current.name).limits
    points = choice.apply(all_points, lambda point: limits(point.series).in_means)
    ours = [point for point in points if not point.series.is_baseline]
    not_in_means = {point.series.key for point in ours if not limits(point.series).in_means}
    shown = replace(chosen, points=points) if chosen else None
    return render_template(
        "roofline.html",
        rooflines=rooflines,
        chosen=chosen,
        choice=choice,
        kernels=sorted({point.workload.operator for point in all_points}),
        dtypes=sorted({point.workload.dtype for point in all_points}),
        points=points,
        not_in_means=not_in_means,
        to_gain=[point for point in ours if point.gain_s and point.series.key not in not_in_means][:_MOST_TO_GAIN],
        has_energy=any(point.energy_j is not None for point in points),
        total=len(all_points),
        ceilings=shown.measured if shown else (),
        unplaced=sum(not point.flop_rate for point in points),
        figure=roofline_figure(shown) if shown else None,
    )


def _choice(points: Sequence[RooflinePoint]) -> PointFilter:
    args = request.args
    operators = {point.workload.operator for point in points}
    kernels = tuple(name for name in args.getlist("kernel") if name in operators)
    dtypes = {point.workload.dtype for point in points}
    requested = args.get("dtype")
    few = len(points) <= _MAX_READABLE
    if requested is None:
        dtype = (
            "" if few or kernels or not dtypes else max(sorted(dtypes), key=lambda name: _kernel_count(points, name))
        )
    else:
        dtype = requested if requested in dtypes else ""
    shapes = args.get("shapes")
    one_shape = shapes == "one" if shapes in {"one", "all"} else not few and not kernels
    return PointFilter(kernels=kernels, dtype=dtype, one_shape=one_shape, words=search_query())


def _kernel_count(points: Sequence[RooflinePoint], dtype: str) -> int:
    return len({point.workload.operator for point in points if point.workload.dtype == dtype})


def _one_shape(points: Sequence[RooflinePoint]) -> list[RooflinePoint]:
    """Points of each kernel's longest-running shape: our implementations and the fastest baseline."""
    longest: dict[str, RooflinePoint] = {}
    for point in points:
        current = longest.get(point.workload.operator)
        if not point.series.is_baseline and (current is None or current.latency_s < point.latency_s):
            longest[point.workload.operator] = point
    kept: list[RooflinePoint] = []
    for chosen in longest.values():
        same = [point for point in points if point.workload == chosen.workload]
        ours = [point for point in same if not point.series.is_baseline]
        baselines = [point for point in same if point.series.is_baseline]
        first = [point for point in ours if point.implementation == "warpwatch"]
        kept += [*(first or ours), *sorted(baselines, key=lambda point: point.latency_s)[:1]]
    return kept
