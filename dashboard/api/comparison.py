"""`/api/projects/<project>/comparison`: two commits judged, as `warpwatch check` does it."""

from typing import ClassVar, Literal

from flask import Blueprint, abort, current_app
from pydantic import Field

from warpwatch.dashboard.api.limits import LimitsSource, limits_source
from warpwatch.dashboard.api.operation import operation
from warpwatch.dashboard.api.questions import CommitPrefix, Table, Text
from warpwatch.dashboard.api.shapes import CommitShape, SeriesShape, Shape, commit_shape, series_shape
from warpwatch.dashboard.check import Check, CheckRow, Outcome, check
from warpwatch.dashboard.judged_by import judged_by
from warpwatch.dashboard.limit_rules.stated import StatedLimits
from warpwatch.dashboard.pages.compared import compared_commits
from warpwatch.dashboard.pages.shared import project_or_404, store
from warpwatch.dashboard.statistics import other_card
from warpwatch.dashboard.statistics.noise import NoiseSource
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.records import Commit, Project
from warpwatch.dashboard.verdict import Verdict

bp = Blueprint("api_comparison", __name__, url_prefix="/api/projects/<project:project>")


class ComparisonQuestion(Table):
    """Which two commits, and what of them."""

    base: CommitPrefix
    """A hash or its beginning."""
    head: CommitPrefix
    machine: Text = ""
    metrics: Literal["judged", "all"] = "judged"
    threshold: float | None = Field(None, gt=0, lt=1, allow_inf_nan=False)
    """Smallest relative change that matters, of every series; as the project states where none is given, else the
    server's own."""


class AcrossCards(Shape):
    """A latency that only different cards measured, beside what these differ by. It is no verdict."""

    change: float | None
    """Relative, as measured."""
    low: float | None
    """What of it is the kernel's, 95 %: the change without what baselines did between the two cards."""
    high: float | None
    cards_low: float | None
    """What baselines did between the two cards, 95 % of them."""
    cards_high: float | None
    controls: int
    """Baselines that both cards measured."""
    q_value: float | None
    """False discovery rate among all latencies of the two cards."""


class Compared(Shape):
    """One series, judged."""

    series: SeriesShape
    verdict: Verdict
    reason: str | None
    """Why there is no number, or why it could not be told."""
    base: float | None
    """Medians over runs, in `series.unit`."""
    head: float | None
    change: float | None
    """Relative, what the machine did taken off."""
    low: float | None
    """Its interval, 95 %."""
    high: float | None
    p_value: float | None
    noise: float | None
    """Relative scale of one run."""
    noise_source: str | None
    base_runs: int | None
    head_runs: int | None
    runs_needed: int | None
    """More runs of each commit until a change that matters could be told."""
    control_change: float | None
    """Median change of the rivals of the same workload."""
    counts_from: float | None
    """The smallest relative change that counts, a floor made a share of `base`; null where none would."""
    blocks: bool
    """Whether it decides the outcome."""
    across_cards: AcrossCards | None
    """Where no card measured both commits, and enough baselines tell what cards differ by."""


class MachineDrift(Shape):
    """How a machine itself moved between the two commits."""

    machine: str
    change: float | None
    """Taken off every time measured there; 0 where its controls do not agree."""
    controls: int


class Comparison(Shape):
    """Two commits, series by series: regressions first, then what could not be told, the largest first."""

    csv_rows: ClassVar[str] = "rows"

    outcome: Literal["unchanged_or_better", "regressed", "could_not_tell"]
    base: CommitShape
    head: CommitShape
    threshold: float
    """Where a row's `counts_from` does not say otherwise."""
    limits: LimitsSource | None
    """Whose rules it was judged by; null: the threshold alone."""
    counts: dict[Verdict, int]
    drifts: list[MachineDrift]
    rows: list[Compared]


@operation(bp, "/comparison", question=ComparisonQuestion, answer=Comparison, tag="Commits")
def show(project: str, asked: ComparisonQuestion) -> Comparison:
    """Two commits compared: the verdict of every series, its change with an interval, and how the machine drifted.

    The same judgement as `warpwatch check BASE HEAD`; all series are one family, so that false alarms stay rare.
    """
    found = project_or_404(project)
    base, head = (_commit_or_404(found, prefix) for prefix in (asked.base, asked.head))
    result, stated = _check(found.name, base, head, asked)
    return Comparison(
        outcome=_OUTCOMES[result.outcome],
        base=commit_shape(base),
        head=commit_shape(head),
        threshold=result.threshold,
        limits=limits_source(stated),
        counts={verdict: result.count(verdict) for verdict in Verdict},
        drifts=[
            MachineDrift(machine=each.machine, change=each.change, controls=each.controls) for each in result.drifts
        ],
        rows=[_row(row) for row in result.rows],
    )


def _check(project: str, base: Commit, head: Commit, asked: ComparisonQuestion) -> tuple[Check, StatedLimits | None]:
    """What the compare page caches, where that is asked: any threshold, or the names of machines, could be a
    stranger's invention, and each would be cached.
    """
    is_whole = asked.metrics == "all"
    if asked.machine or asked.threshold is not None:
        limits = judged_by(
            store(), project, threshold=current_app.config["THRESHOLD"], threshold_of_all=asked.threshold
        )
        told = check(
            store(), project, base, head, threshold=limits.threshold, limits=limits.limits,
            machine=asked.machine or None, all_metrics=is_whole,
        )  # fmt: skip
        return told, limits.stated
    known = compared_commits(project, base, head, all_metrics=is_whole)
    rows = tuple(row.judged for row in known.rows)
    whole = Check(project=project, base=base, head=head, threshold=known.threshold, rows=rows, drifts=known.drifts)
    return whole, known.stated


_OUTCOMES: dict[Outcome, Literal["unchanged_or_better", "regressed", "could_not_tell"]] = {
    Outcome.UNCHANGED_OR_BETTER: "unchanged_or_better",
    Outcome.REGRESSED: "regressed",
    Outcome.COULD_NOT_TELL: "could_not_tell",
}
_NOISE_WORDS = {source: source.name.lower() for source in NoiseSource}


def _row(row: CheckRow) -> Compared:
    told = row.comparison
    return Compared(
        series=series_shape(row.series), verdict=row.verdict, reason=row.reason, base=row.base,
        head=row.head, change=told.change if told else None, low=told.low if told else None,
        high=told.high if told else None, p_value=told.p_value if told else None,
        noise=told.noise if told else None, noise_source=_NOISE_WORDS[told.noise_source] if told else None,
        base_runs=told.base_runs if told else None, head_runs=told.head_runs if told else None,
        runs_needed=told.runs_needed if told else None, control_change=row.control_change,
        counts_from=row.counts_from, blocks=row.limits.blocks,
        across_cards=_across(row.across) if row.across is not None else None,
    )  # fmt: skip


def _across(told: other_card.AcrossCards) -> AcrossCards:
    return AcrossCards(
        change=told.change, low=told.low, high=told.high, cards_low=told.cards_low,
        cards_high=told.cards_high, controls=told.controls, q_value=told.q_value,
    )  # fmt: skip


def _commit_or_404(project: Project, prefix: str) -> Commit:
    try:
        commit = queries.find_commit(store(), project.name, prefix)
    except queries.AmbiguousCommitError as error:
        abort(404, f"{str(error)[:1].upper()}{str(error)[1:]}.")
    if commit is None:
        abort(404, f"No commit of {project.name} that starts with “{prefix}” has results.")
    return commit
