"""How close each kernel comes to what its machine can do."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flask import Blueprint, abort, render_template, request

from ...model.machine import RooflinePoint
from ...store import queries
from ..figures.roofline import roofline_figure
from ..request_context import project_or_404, store, words_asked

bp = Blueprint("roofline", __name__)

_READABLE = 60  # points that can be told apart without a choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What of a machine's points the URL asks for; what it leaves open is chosen so that the figure can be read."""

    kernels: tuple[str, ...]  # none: all of them
    dtype: str  # empty: all
    one_shape: bool  # of each kernel its longest-running shape, with the fastest rival alone
    words: str  # all of which stand in a workload's name

    def of(self, points: Sequence[RooflinePoint]) -> tuple[RooflinePoint, ...]:
        """The points to show, the nearest to its limit first."""
        wanted = self.words.lower().split()
        kept = [
            point
            for point in points
            if (not self.kernels or point.workload.operator in self.kernels)
            and (not self.dtype or point.workload.dtype == self.dtype)
            and all(word in point.workload.name.lower() for word in wanted)
        ]
        kept = _one_shape(kept) if self.one_shape else kept
        return tuple(sorted(kept, key=lambda point: point.speed_of_light.share or 0.0, reverse=True))


@bp.get("/<project:project>/roofline")
def show(project: str) -> str:
    """One machine's roofline and the list beside it; the machine with the newest data where the URL names none."""
    found = project_or_404(project)
    rooflines = queries.rooflines(store(), found.name)
    machine = request.args.get("machine", "")
    chosen = next((each for each in rooflines if each.machine.name == machine), None)
    if machine and chosen is None:
        abort(404, f"There is no roofline for a machine named “{machine}”: it has recorded no ceilings or workloads.")
    if chosen is None and rooflines:
        chosen = rooflines[0]
    everything = chosen.points if chosen else ()
    choice = _choice(everything)
    points = choice.of(everything)
    shown = replace(chosen, points=points) if chosen else None
    return render_template(
        "roofline.html",
        rooflines=rooflines,
        chosen=chosen,
        choice=choice,
        kernels=sorted({point.workload.operator for point in everything}),
        dtypes=sorted({point.workload.dtype for point in everything}),
        points=points,
        total=len(everything),
        ceilings=shown.measured if shown else (),
        unplaced=sum(not point.flop_rate for point in points),
        figure=roofline_figure(shown) if shown else None,
    )


def _choice(points: Sequence[RooflinePoint]) -> Choice:
    args = request.args
    there = {point.workload.operator for point in points}
    kernels = tuple(name for name in args.getlist("kernel") if name in there)
    dtypes = {point.workload.dtype for point in points}
    asked = args.get("dtype")
    few = len(points) <= _READABLE
    if asked is None:
        dtype = "" if few or kernels or not dtypes else max(sorted(dtypes), key=lambda one: _kernels_of(points, one))
    else:
        dtype = asked if asked in dtypes else ""
    shapes = args.get("shapes")
    one_shape = shapes == "one" if shapes in {"one", "all"} else not few and not kernels
    return Choice(kernels=kernels, dtype=dtype, one_shape=one_shape, words=words_asked())


def _kernels_of(points: Sequence[RooflinePoint], dtype: str) -> int:
    return len({point.workload.operator for point in points if point.workload.dtype == dtype})


def _one_shape(points: Sequence[RooflinePoint]) -> list[RooflinePoint]:
    """Of each kernel the shape that takes ours longest, by our implementations and the fastest rival."""
    longest: dict[str, RooflinePoint] = {}
    for point in points:
        known = longest.get(point.workload.operator)
        if not point.series.is_baseline and (known is None or known.latency_s < point.latency_s):
            longest[point.workload.operator] = point
    kept: list[RooflinePoint] = []
    for chosen in longest.values():
        same = [point for point in points if point.workload == chosen.workload]
        ours = [point for point in same if not point.series.is_baseline]
        rivals = [point for point in same if point.series.is_baseline]
        first = [point for point in ours if point.implementation == "warpwatch"]
        kept += [*(first or ours), *sorted(rivals, key=lambda point: point.latency_s)[:1]]
    return kept
