"""Badges for READMEs: the state of a series or of a kernel as a small SVG."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from flask import Blueprint, Response, abort, request

from ...model.naming import kernel_name
from ...model.overview import OverviewRow
from ...model.quantities import quantity, ratio, share
from ...model.verdict import Verdict
from ...store import queries
from ...text.labels import verdict_word
from ..figures.svg import drawing, element, text_width, words
from ..request_context import project_or_404, store
from ..template_filters import implementation

# A badge for a README: what it is about on the left, what is so on the right. The word says what the colour does.

_SIZE, _HEIGHT, _ROOM, _MOST = 11.0, 20.0, 6.0, 60
_LABEL = "#3d4751"
QUIET, GOOD, BAD, NOTICE = "#4d5964", "#006b4e", "#a63f00", "#005a8f"  # white upon each is read at 4.5:1 and more


def badge(label: str, message: str, colour: str, title: str) -> str:
    """The badge as an SVG file."""
    left, right = (_part(text) for text in (label, message))
    whole = left + right
    return drawing(
        whole,
        _HEIGHT,
        title,
        element("clipPath", element("rect", width=whole, height=_HEIGHT, rx=3), id="r"),
        element(
            "g",
            element("rect", width=left, height=_HEIGHT, fill=_LABEL),
            element("rect", x=left, width=right, height=_HEIGHT, fill=colour),
            clip_path="url(#r)",
        ),
        element(
            "g",
            _text(label, left / 2, left),
            _text(message, left + right / 2, right),
            fill="#fff",
            font_size=_SIZE,
            text_anchor="middle",
        ),
    )


def _part(text: str) -> float:
    return round(text_width(_cut(text), _SIZE) + 2 * _ROOM, 1)


def _text(text: str, middle: float, width: float) -> str:
    """As wide as its half was made for, whatever font there is."""
    return element("text", words(_cut(text)), x=middle, y=14, textLength=width - 2 * _ROOM)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


bp = Blueprint("badges", __name__, url_prefix="/<project:project>/badge")

_FRESH_S = 300  # a README's images are asked for by caches of others, which need not come more often
_COLOURS = {Verdict.REGRESSED: BAD, Verdict.IMPROVED: GOOD, Verdict.UNCHANGED: GOOD}
# What a kernel as a whole is called after: the first that any of its workloads has.
_WORST_FIRST = (
    Verdict.REGRESSED,
    Verdict.INVALID,
    Verdict.IMPROVED,
    Verdict.UNCHANGED,
    Verdict.INCONCLUSIVE,
    Verdict.MISSING,
)


class Shown(StrEnum):
    """What a series' badge tells."""

    VERDICT = "verdict"
    LATENCY = "latency"
    RATIO = "ratio"
    LIGHT = "light"


@bp.get("/verdict.svg")
def of_kernel(project: str) -> Response:
    """The verdict of a kernel over its workloads, narrowed by `kernel` and `machine`."""
    found = project_or_404(project)
    kernel, machine = (request.args.get(name, "") for name in ("kernel", "machine"))
    rows = [
        row
        for row in queries.overview(store(), found.name, machine=machine or None)
        if kernel in ("", kernel_name(row.series.benchmark, row.operator)) and not row.was_never_there
    ]
    if not rows:
        abort(404, "There is no such kernel on such a machine.")
    label = " · ".join(filter(None, (kernel or found.name, machine)))
    verdict, told = _together(rows)
    return _answer(label, told, _COLOURS.get(verdict, QUIET), f"{label}: {told}")


@bp.get("/<any(verdict, latency, ratio, light):shown>/<key>.svg")
def of_series(project: str, shown: str, key: str) -> Response:
    """The verdict, latest value, ratio to the best baseline or speed of light of one series."""
    found = project_or_404(project)
    row = next((row for row in queries.siblings(store(), key) if row.series.key == key), None)
    if row is None or row.series.project != found.name:
        abort(404, f"There is no series “{key}” in {found.name}.")
    label, told, colour = _told(row, Shown(shown))
    series = row.series
    return _answer(label, told, colour, f"{series.title} on {series.machine}: {label} {told}")


def _together(rows: Sequence[OverviewRow]) -> tuple[Verdict, str]:
    """The verdict to call it after, and in words: "regressed 2 of 12"."""
    counted = Counter(row.verdict for row in rows)
    verdict = next(each for each in _WORST_FIRST if counted[each])
    of = f" {counted[verdict]} of {len(rows)}" if len(rows) > 1 else ""
    return verdict, verdict_word(verdict).lower() + of


def _told(row: OverviewRow, shown: Shown) -> tuple[str, str, str]:
    series = row.series
    if shown is Shown.VERDICT:
        return series.workload or series.title, verdict_word(row.verdict).lower(), _COLOURS.get(row.verdict, QUIET)
    if shown is Shown.LATENCY:
        return series.metric.label, quantity(row.value, series.metric.unit), NOTICE
    if shown is Shown.RATIO:
        best = row.baseline
        label = f"speed vs {implementation(best.implementation)}" if best else "speed vs baseline"
        return label, ratio(best.ratio) if best else "unknown", QUIET if best is None or best.ratio < 1 else GOOD
    light = row.speed_of_light
    return "speed of light", f"{share(light.share)} {light.of}" if light else "unknown", NOTICE if light else QUIET


def _answer(label: str, told: str, colour: str, title: str) -> Response:
    response = Response(badge(label, told, colour, title), content_type="image/svg+xml")
    response.cache_control.max_age = _FRESH_S
    return response
