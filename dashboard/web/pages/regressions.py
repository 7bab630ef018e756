"""Regressions as triage items by commit range and machine, newest or worst first."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from flask import Blueprint, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from ...analysis.causes import cause_sentence
from ...analysis.explanation import TriageDetails, triage_details
from ...analysis.next_measurement import gate_command
from ...analysis.slow_decline import slow_declines
from ...model.alert import LIVE, WAITING, HealthAlert, TriageFilter, TriageItem, TriageOrder, TriageState
from ...model.changepoint import Regression, RegressionGroup
from ...model.series import Commit, Project
from ...model.verdict import ChangeKind
from ...store import queries
from ...store.cache import ROW_BYTES
from ...store.notes import Annotation, annotations
from ...store.policy import stated_limits
from ...store.queries.alerts import health_alerts
from ...text.change_words import certainty, direction, levels
from ...text.labels import count, day
from ...text.markdown import code_span, inert
from .. import clock
from ..figures.inline_charts import StepChart, step_chart
from ..request_context import external_url, page_number, pagination, project_or_404, search_query, store

bp = Blueprint("regressions", __name__)

_KINDS = tuple(kind for kind in ChangeKind if kind is not ChangeKind.UNJUDGED)
_ITEMS_OF_A_PAGE = 15
_ROWS_OF_AN_ITEM = 5
_ROWS_OF_A_GROUP = 10
PERIODS = {"7": "last 7 days", "30": "last 30 days", "90": "last 90 days", "365": "last 365 days"}
# Values of `state` in the URL: not triaged (the default), one state, or all.
STATES: dict[str, tuple[TriageState, ...]] = {
    "": WAITING,
    **{state.value.replace(" ", "-"): (state,) for state in TriageState},
    "all": tuple(TriageState),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChoice:
    """A link to the items of a state."""

    name: str  # in the URL
    label: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The explanation of a triage item, and the chart of its worst series."""

    details: TriageDetails
    chart: StepChart | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem:
    """A triage item with its explanation, and the notes on its commit."""

    item: TriageItem
    story: TriageDetails
    notes: tuple[Annotation, ...]
    chart: StepChart | None  # of the item's worst series
    markdown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGroup:
    """Changes without triage at one commit, with the chart and cause of the largest."""

    group: RegressionGroup
    chart: StepChart | None
    cause: str  # empty if no commit is the cause
    measure_again: str | None  # command


@bp.get("/<project:project>/regressions")
def show(project: str) -> str:
    """Triage items, filtered by state, machine, words and period.

    Changes of other kinds than steps, and improvements (`direction=better`), are listed without triage.
    """
    current = project_or_404(project)
    value = request.args.get("kind", "")
    kind = ChangeKind(value) if value in set(_KINDS) else ChangeKind.STEP
    is_worse = request.args.get("direction", "") != "better"
    if kind is not ChangeKind.STEP or not is_worse:
        return _other_kind(current, kind, is_worse=is_worse)
    filters = _filter()
    listed = queries.triage_items(
        store(),
        current.name,
        filters,
        limit=_ITEMS_OF_A_PAGE,
        offset=(page_number() - 1) * _ITEMS_OF_A_PAGE,
        rows=_ROWS_OF_AN_ITEM,
    )
    health = [alert for alert in _health_alerts(current) if filters.machine in {None, alert.machine}]
    shown = _shown(current, listed.items)
    return render_template(
        "regressions.html",
        shown=shown,
        markdown="\n".join(one.markdown for one in shown),
        listed=listed,
        stated=stated_limits(store(), current.name),
        choices=[
            StateChoice(
                name=name,
                label=(name or "to do").replace("-", " ").capitalize(),
                count=sum(listed.counts.get(state, 0) for state in states),
            )
            for name, states in STATES.items()
        ],
        state=_state(),
        order=filters.order,
        pagination=pagination(_ITEMS_OF_A_PAGE, listed.total),
        live_health=[alert for alert in health if alert.state in LIVE],
        silenced_health=[alert for alert in health if alert.state not in LIVE],
        **_frame(current, kind, is_worse=True),
    )


@bp.get("/<project:project>/regressions/<item>")
def one(project: str, item: str) -> ResponseReturnValue:
    """One regression with all its series, for links in issues. A health alert redirects to the list."""
    current = project_or_404(project)
    triage_item = queries.triage_item(store(), current.name, item)
    if triage_item is None and item in {f"alert-{alert.id}" for alert in _health_alerts(current)}:
        return redirect(url_for(".show", project=project, _anchor=item))
    if triage_item is None:
        abort(
            404,
            "This regression no longer exists: it was triaged or analysed again. "
            "The list of regressions has its current state.",
        )
    return render_template("regression.html", one=_shown(current, [triage_item])[0])


def _health_alerts(project: Project) -> tuple[HealthAlert, ...]:
    return store().cached(
        project.name,
        "health alerts",
        lambda: health_alerts(store(), project.name),
        size=lambda alerts: ROW_BYTES * sum(1 + len(alert.events) for alert in alerts),
    )


def _stories(project: Project, items: Sequence[TriageItem]) -> list[Story]:
    """Cached, unless a reader's words chose among the series of an item."""

    def key(item: TriageItem) -> Hashable | None:
        return ("triage story", item.seen.key, len(item.regressions)) if item.matching == item.total else None

    def read(chosen: Sequence[TriageItem]) -> list[Story]:
        between = queries.code_between(store(), project.name, chosen)
        details = [triage_details(item, code) for item, code in zip(chosen, between, strict=True)]
        charts = _charts(project, [each.worst for each in details])
        return [Story(details=each, chart=chart) for each, chart in zip(details, charts, strict=True)]

    return store().cached_each(project.name, items, key, read, size=_bytes)


def _bytes(story: Story) -> int:
    texts = len(story.details.cause) + len(story.details.log) + len(story.details.reproduce or "")
    code = len(story.details.code.differences) if story.details.code is not None else 0
    return texts + _chart_bytes(story.chart) + ROW_BYTES * (code + len(story.details.suspects))


def _shown(project: Project, items: Sequence[TriageItem]) -> tuple[ShownItem, ...]:
    stories = _stories(project, items)
    notes: dict[str, list[Annotation]] = {}
    for note in annotations(store(), project.name, commits=[item.commit.hash for item in items]):
        notes.setdefault(note.commit, []).append(note)
    return tuple(
        ShownItem(
            item=item,
            story=story.details,
            notes=tuple(notes.get(item.commit.hash, ())),
            chart=story.chart,
            markdown=_markdown(
                story.details.worst,
                item.total,
                item.commit,
                story.details.cause,
                external_url("regressions.one", project=project.name, item=item.seen.key),
            ),
        )
        for item, story in zip(items, stories, strict=True)
    )


def _charts(project: Project, changes: Sequence[Regression | None]) -> Sequence[StepChart | None]:
    """The cached chart of each change."""

    def key(one: Regression | None) -> Hashable | None:
        return ("step chart", one.series.key, one.change.kind, one.change.commit.hash) if one is not None else None

    def read(changes: Sequence[Regression | None]) -> list[StepChart | None]:
        known = [change for change in changes if change is not None]
        lines = iter(queries.step_lines(store(), project.name, known))
        found = [next(lines) if change is not None else None for change in changes]
        return [
            step_chart(line, one.change) if line is not None and one is not None else None
            for line, one in zip(found, changes, strict=True)
        ]

    return store().cached_each(project.name, changes, key, read, size=_chart_bytes)


def _chart_bytes(chart: StepChart | None) -> int:
    return len(chart.line) + len(chart.baseline) + 100 * len(chart.dots) if chart is not None else 0


def _markdown(worst: Regression | None, total: int, commit: Commit, cause: str, address: str | None) -> str:
    """One line for a pull request or a chat: the largest change, its commit and cause."""
    subject = f" {inert(commit.subject)}" if commit.subject else ""
    at = f"at {code_span(commit.hash[:8])}{subject} ({day(commit.date)})"
    if worst is None:
        return f"- {count(total, 'series', 'series')} {at}{f' {address}' if address else ''}"
    metric = worst.series.metric
    more = f" and {count(total - 1, 'more series', 'more series')}" if total > 1 else ""
    said = f"**{direction(worst.change, metric)}** {inert(levels(worst.change, metric))}"
    parts = [
        f"- {said}: {code_span(worst.series.title)}{more} on {code_span(worst.series.machine)} {at}",
        f"; {certainty(worst.change, metric)}. {cause}",
        f" {address}" if address else "",
    ]
    return "".join(parts)


def _filter() -> TriageFilter:
    order = request.args.get("order", "")
    return TriageFilter(
        states=STATES[_state()],
        machine=request.args.get("machine") or None,
        words=search_query(),
        since=_since(),
        order=TriageOrder(order) if order in set(TriageOrder) else TriageOrder.NEWEST,
    )


def _state() -> str:
    state = request.args.get("state", "")
    return state if state in STATES else ""


def _period() -> str:
    period = request.args.get("period", "")
    return period if period in PERIODS else ""


def _since() -> datetime | None:
    return clock.now() - timedelta(days=int(_period())) if _period() else None


def _frame(project: Project, kind: ChangeKind, *, is_worse: bool) -> dict[str, object]:
    """Template variables of the filter form of both lists."""
    return {
        "machine": request.args.get("machine", ""),
        "words": search_query(),
        "period": _period(),
        "periods": PERIODS,
        "kind": kind,
        "is_worse": is_worse,
        "kinds": _KINDS,
        "machines": queries.machines(store(), project.name),
    }


def _other_kind(project: Project, kind: ChangeKind, *, is_worse: bool) -> str:
    """Changes without triage: of other kinds than steps, or improvements."""
    frame = _frame(project, kind, is_worse=is_worse)
    machine = request.args.get("machine") or None
    listed = queries.unattributed_changes(
        store(),
        project.name,
        kind,
        machine=machine,
        words=search_query(),
        since=_since(),
        is_worse=is_worse,
        limit=_ITEMS_OF_A_PAGE,
        offset=(page_number() - 1) * _ITEMS_OF_A_PAGE,
    )
    if kind is ChangeKind.SLOW_DECLINE:
        listed = replace(listed, groups=tuple(map(_with_causes, listed.groups)))
    pager = pagination(_ITEMS_OF_A_PAGE, listed.total)
    shown = _shown_groups(project, kind, listed.groups)
    return render_template(
        "regressions_of_a_kind.html",
        listed=listed,
        pagination=pager,
        shown=shown,
        markdown="\n".join(
            _markdown(one.group.regressions[0], len(one.group.regressions), one.group.commit, one.cause, None)
            for one in shown
        ),
        rows=_ROWS_OF_A_GROUP,
        state="",
        order=None,
        **frame,
    )


def _with_causes(group: RegressionGroup) -> RegressionGroup:
    declines = slow_declines(store(), group.project)
    return replace(group, regressions=tuple(declines.get(each.series.key, each) for each in group.regressions))


def _shown_groups(project: Project, kind: ChangeKind, groups: Sequence[RegressionGroup]) -> tuple[ShownGroup, ...]:
    is_step = kind in {ChangeKind.STEP, ChangeKind.NOT_SIGNIFICANT}
    largest = [group.regressions[0] for group in groups]
    return tuple(
        ShownGroup(
            group=group,
            chart=chart,
            cause=cause_sentence(one.change, one.series.metric) if is_step else "",
            measure_again=gate_command(one.series, group.previous_commit, group.commit) if is_step else None,
        )
        for group, one, chart in zip(groups, largest, _charts(project, largest), strict=True)
    )
