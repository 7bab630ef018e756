"""Badges for READMEs: the state of a series or of a kernel as a small SVG."""

import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from flask import Blueprint, Response, abort, request
from markupsafe import Markup

from ...model.naming import kernel_name
from ...model.overview import OverviewRow
from ...model.quantities import quantity, ratio, share
from ...model.verdict import Verdict
from ...store import queries
from ...text.labels import verdict_word
from ..request_context import project_or_404, store
from ..template_filters import implementation

# A badge for a README: what it is about on the left, what is so on the right. The word says what the colour does.

QUIET, GOOD, BAD, NOTICE = "#4d5964", "#006b4e", "#a63f00", "#005a8f"  # white upon each is read at 4.5:1 and more
_BADGE = Markup("""\
<svg xmlns="http://www.w3.org/2000/svg" width="{whole:g}" height="20" viewBox="0 0 {whole:g} 20"
 role="img" aria-label="{title}">
<title>{title}</title>
<clipPath id="r"><rect width="{whole:g}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)">
<rect width="{left:g}" height="20" fill="#3d4751"/>
<rect x="{left:g}" width="{right:g}" height="20" fill="{colour}"/>
</g>
<g fill="#fff" font-family="Verdana, 'DejaVu Sans', Geneva, sans-serif" font-size="11" text-anchor="middle">
<text x="{left_middle:g}" y="14" textLength="{left_text:g}">{label}</text>
<text x="{right_middle:g}" y="14" textLength="{right_text:g}">{message}</text>
</g>
</svg>
""")
_ROOM, _MOST = 6.0, 60  # pixels beside a text, its characters at most
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def badge(label: str, message: str, colour: str, title: str) -> str:
    """The badge as an SVG file. `textLength` makes each text as wide as its half, whatever font there is."""
    label, message, title = (_NOT_XML.sub("\ufffd", text) for text in (label, message, title))
    label, message = (text if len(text) <= _MOST else text[: _MOST - 1] + "…" for text in (label, message))
    left_text, right_text = _text_width(label), _text_width(message)
    left, right = left_text + 2 * _ROOM, right_text + 2 * _ROOM
    return _BADGE.format(
        whole=left + right,
        left=left,
        right=right,
        left_middle=left / 2,
        right_middle=left + right / 2,
        left_text=left_text,
        right_text=right_text,
        label=label,
        message=message,
        title=title,
        colour=colour,
    )


def _text_width(text: str) -> float:
    """About how wide Verdana of 11 pixels is."""
    shares = (0.36 if sign in "ilIj.,:;'|!()[]/ tfr1" else 0.95 if sign in "mwMW%@" else 0.64 for sign in text)
    return round(11 * sum(shares), 1)


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
