"""Badges for READMEs: the state of a series or a kernel as SVG."""

import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from flask import Blueprint, Response, abort, request
from markupsafe import Markup

from ...model.naming import kernel_name
from ...model.overview import OverviewRow
from ...model.quantities import change, quantity, ratio, share
from ...model.verdict import CHANGED, Verdict
from ...store import queries
from ...text.labels import shortened, verdict_word
from ..request_context import project_or_404, store
from ..template_filters import implementation

QUIET, GOOD, BAD, NOTICE = "#4d5964", "#006b4e", "#a63f00", "#005a8f"  # contrast with white ≥ 4.5:1
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
_PADDING, _MAX_LENGTH = 6.0, 60  # pixels; characters
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def badge(label: str, message: str, colour: str, title: str) -> str:
    """The badge as SVG: label on the left, message on the right; `textLength` fixes the width for any font."""
    label, message, title = (_NOT_XML.sub("\ufffd", text) for text in (label, message, title))
    label, message = (shortened(text, _MAX_LENGTH) for text in (label, message))
    left_text, right_text = _text_width(label), _text_width(message)
    left, right = left_text + 2 * _PADDING, right_text + 2 * _PADDING
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
    """Approximate width in Verdana, 11 pixels."""
    shares = (0.36 if sign in "ilIj.,:;'|!()[]/ tfr1" else 0.95 if sign in "mwMW%@" else 0.64 for sign in text)
    return round(11 * sum(shares), 1)


bp = Blueprint("badges", __name__, url_prefix="/<project:project>/badge")

_FRESH_S = 300  # for the image caches of README hosts
_COLOURS = {Verdict.REGRESSED: BAD, Verdict.IMPROVED: GOOD, Verdict.UNCHANGED: GOOD}
_ACROSS = " across GPUs"
# A kernel has the first of these that any of its workloads has.
_WORST_FIRST = (
    Verdict.REGRESSED,
    Verdict.INVALID,
    Verdict.IMPROVED,
    Verdict.UNCHANGED,
    Verdict.INCONCLUSIVE,
    Verdict.MISSING,
)


class BadgeKind(StrEnum):
    """Content of a series' badge."""

    VERDICT = "verdict"
    LATENCY = "latency"
    RATIO = "ratio"
    LIGHT = "light"


@bp.get("/verdict.svg")
def of_kernel(project: str) -> Response:
    """Verdict over the workloads of `kernel` on `machine`; both are optional."""
    current = project_or_404(project)
    kernel, machine = (request.args.get(name, "") for name in ("kernel", "machine"))
    rows = [
        row
        for row in queries.overview(store(), current.name, machine=machine or None)
        if kernel in ("", kernel_name(row.series.benchmark, row.operator)) and not row.was_never_there
    ]
    if not rows:
        abort(404, "There is no such kernel on this machine.")
    label = " · ".join(filter(None, (kernel or current.name, machine)))
    verdict, message = _summary(rows)
    return _badge_response(label, message, _COLOURS.get(verdict, QUIET), f"{label}: {message}")


@bp.get("/<any(verdict, latency, ratio, light):kind>/<key>.svg")
def of_series(project: str, kind: str, key: str) -> Response:
    """Verdict, latest value, speedup over the best baseline, or speed of light of one series."""
    current = project_or_404(project)
    row = next((row for row in queries.siblings(store(), key) if row.series.key == key), None)
    if row is None or row.series.project != current.name:
        abort(404, f"There is no series “{key}” in {current.name}.")
    label, message, colour = _text(row, BadgeKind(kind))
    series = row.series
    return _badge_response(label, message, colour, f"{series.title} on {series.machine}: {label} {message}")


def _summary(rows: Sequence[OverviewRow]) -> tuple[Verdict, str]:
    """The worst verdict, and the message "regressed 2 of 12"."""
    counts = Counter(row.verdict for row in rows)
    verdict = next(verdict for verdict in _WORST_FIRST if counts[verdict])
    share_of_rows = f" {counts[verdict]} of {len(rows)}" if len(rows) > 1 else ""
    is_across = verdict in CHANGED and all(row.is_across_gpus for row in rows if row.verdict is verdict)
    return verdict, verdict_word(verdict).lower() + share_of_rows + (_ACROSS if is_across else "")


def _text(row: OverviewRow, kind: BadgeKind) -> tuple[str, str, str]:
    series = row.series
    if kind is BadgeKind.VERDICT:
        message = verdict_word(row.verdict).lower()
        if row.verdict in CHANGED and row.is_across_gpus:
            message += f" {change(row.change)}{_ACROSS}"
        return series.workload or series.title, message, _COLOURS.get(row.verdict, QUIET)
    if kind is BadgeKind.LATENCY:
        return series.metric.label, quantity(row.value, series.metric.unit), NOTICE
    if kind is BadgeKind.RATIO:
        best = row.baseline
        label = f"speed vs {implementation(best.implementation)}" if best else "speed vs baseline"
        return label, ratio(best.ratio) if best else "unknown", QUIET if best is None or best.ratio < 1 else GOOD
    light = row.speed_of_light
    return "speed of light", f"{share(light.share)} {light.of}" if light else "unknown", NOTICE if light else QUIET


def _badge_response(label: str, message: str, colour: str, title: str) -> Response:
    response = Response(badge(label, message, colour, title), content_type="image/svg+xml")
    response.cache_control.max_age = _FRESH_S
    return response
