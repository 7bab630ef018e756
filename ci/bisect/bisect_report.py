"""Reports of a bisect: plain text, JSON, and the sentence for the note."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from warpwatch.dashboard.model.quantities import change, relative_change
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.text.tables import text_table

from .bisect_loop import Conclusion, Search, Suspects
from .commit_range import RangeCommit

_SHOWN = 0.001  # least probability of an unmeasured commit with its own row
_SEVERAL = 0.9  # probability of several changes above which they are reported
_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectReport:
    """A search with its series and commits."""

    series: Series
    commits: tuple[RangeCommit, ...]  # the good end first
    search: Search
    asv_output: str  # of the last failed run

    @property
    def culprit(self) -> RangeCommit | None:
        """The commit that caused the change, if one is found."""
        suspects = self.search.suspects
        return (
            self.commits[suspects.first]
            if self.search.conclusion is Conclusion.FOUND and suspects is not None
            else None
        )

    @property
    def last_good(self) -> RangeCommit | None:
        """The newest measured commit before the suspects."""
        suspects = self.search.suspects
        if suspects is None:
            return None
        return self.commits[max(run.index for run in self.search.runs if run.index < suspects.first)]

    @property
    def first_bad(self) -> RangeCommit | None:
        """The last of the suspects."""
        return self.commits[self.search.suspects.last] if self.search.suspects is not None else None

    @property
    def is_named(self) -> bool:
        """Whether a commit, or commits that no run can distinguish, reached the required confidence."""
        return self.search.conclusion in (Conclusion.FOUND, Conclusion.RANGE)


def headline(report: BisectReport) -> str:
    """The result in a sentence."""
    search, suspects = report.search, report.search.suspects
    good, bad = report.commits[0], report.commits[-1]
    probability = percent(suspects.probability) if suspects is not None else ""
    match search.conclusion:
        case Conclusion.FOUND if suspects is not None:
            culprit = _commit_text(report.commits[suspects.first])
            return f"{culprit} caused {change_text(report)}, probability {probability}"
        case Conclusion.RANGE if suspects is not None:
            commits = _range_text(report, suspects)
            return f"{commits} caused {change_text(report)}, probability {probability}; the others do not build"
        case Conclusion.UNINFORMATIVE if suspects is not None:
            commits = _range_text(report, suspects)
            return f"no further run has information: {commits} is the likeliest cause, probability {probability}"
        case Conclusion.NOT_REPRODUCED:
            return (
                f"the change does not reproduce here: {bad.hash[:8]} against {good.hash[:8]} is {change_text(report)}, "
                f"{_end_runs(report)} runs"
            )
        case Conclusion.INCONCLUSIVE_ENDS:
            return (
                f"too noisy to detect a change: {bad.hash[:8]} against {good.hash[:8]} is "
                f"{change_text(report)}, {_end_runs(report)} runs"
            )
        case Conclusion.END_FAILED:
            end = bad if len(report.commits) - 1 in search.skipped else good
            return f"{end.hash[:8]}, an end of the range, cannot be measured: {_asv_line(report)}"
    if suspects is None:
        return f"the budget is spent, and whether {bad.hash[:8]} differs from {good.hash[:8]} is still inconclusive"
    likeliest = _commit_text(report.commits[suspects.last])
    return f"the budget is spent: {likeliest} is the likeliest cause, probability {probability}"


def remarks(report: BisectReport) -> tuple[str, ...]:
    sentences, posterior, search = [], report.search.posterior, report.search
    if search.suspects is not None and posterior is not None and sum(posterior.steps[1:]) > _SEVERAL:
        gap = int(np.argmax(posterior.other_gaps))
        low, high = (report.commits[index].hash[:8] for index in posterior.measured[gap - 1 : gap + 1])
        sentences.append(f"This is the largest change of several: another came after {low} and by {high}.")
    culprit = report.culprit
    if culprit is not None and culprit.is_merge:
        side = f"{culprit.hash[:12]}^2"
        sentences.append(
            f"It is a merge. If the change came with its branch, `warpwatch bisect {report.series.key} "
            f"$(git merge-base {culprit.hash[:12]}^1 {side}) {side}` bisects the branch."
        )
    if search.skipped and search.conclusion is not Conclusion.END_FAILED:
        sentences.append(
            f"{len(search.skipped)} commits could not be built or measured; of the last: {_asv_line(report)}"
        )
    if search.conclusion is Conclusion.BUDGET:
        sentences.append("The same command continues with these runs.")
    return tuple(sentences)


def as_table(report: BisectReport) -> str:
    """Plain text of 100 columns."""
    header = ("commit", "", "runs", "to good", "probability")
    table = text_table(header, _rows(report), align="llrrr", width=_WIDTH, shrink=1)
    return "\n".join([f"{report.series.title}: {headline(report)}", "", table, "", *remarks(report), effort(report)])


def as_json(report: BisectReport) -> str:
    """JSON with every commit. Relative changes are fractions, times are in seconds."""
    search, posterior, suspects = report.search, report.search.posterior, report.search.suspects
    counts, levels = _counts(report), _levels(report)
    commits: list[dict[str, Any]] = [
        {
            "hash": commit.hash,
            "subject": commit.subject,
            "author": commit.author,
            "runs": counts[index],
            "measurable": index not in search.skipped,
            "change_to_good": levels.get(index),
            "probability": float(posterior.probability[index - 1])
            if posterior is not None and suspects is not None and index
            else None,
        }
        for index, commit in enumerate(report.commits)
    ]
    data = {
        "schema": 1,
        "series": report.series.key,
        "benchmark": report.series.benchmark,
        "parameters": dict(report.series.parameters),
        "metric": report.series.metric.name,
        "project": report.series.project,
        "machine": report.series.machine,
        "conclusion": search.conclusion.value,
        "culprit": report.culprit.hash if report.culprit is not None else None,
        "suspects": [commit.hash for commit in report.commits[suspects.first : suspects.last + 1]]
        if suspects is not None
        else [],
        "confidence": suspects.probability if suspects is not None else None,
        "change": relative_change(posterior.change) if posterior is not None else None,
        "interval_95": _interval(report),
        "probability_of_several_changes": sum(posterior.steps[1:])
        if posterior is not None and suspects is not None
        else None,
        "runs": len(search.runs),
        "seconds": round(search.seconds, 1),
        "headline": headline(report),
        "remarks": remarks(report),
        "commits": commits,
    }
    return json.dumps(data, indent=1)


def change_text(report: BisectReport) -> str:
    """The change with its interval: "+3.1 % (+2.8 % to +3.4 %)"."""
    posterior, ends = report.search.posterior, _interval(report)
    if posterior is None or ends is None:
        return "an unknown change"
    return f"{change(relative_change(posterior.change))} ({change(ends[0])} to {change(ends[1])})"


def percent(probability: float) -> str:
    """A probability as "99.4 %", never rounded up to 100 %."""
    return f"{min(math.floor(probability * 1000) / 10, 99.9):.1f} %"


def effort(report: BisectReport) -> str:
    """Numbers of runs and commits, and minutes."""
    search = report.search
    measured = len(_counts(report))
    return (
        f"{len(search.runs)} runs of {measured} of {len(report.commits)} commits; this call took "
        f"{search.seconds / 60:.1f} min."
    )


_Row = tuple[str, str, str, str, str]


def _rows(report: BisectReport) -> Sequence[_Row]:
    """A row for each end and each measured, failed or likely commit; the other commits are counted."""
    search, suspects = report.search, report.search.suspects
    counts, levels = _counts(report), _levels(report)
    probabilities = (
        [0.0, *search.posterior.probability.tolist()] if search.posterior is not None and suspects is not None else None
    )
    rows: list[_Row] = []
    left_out: list[int] = []

    def count_left_out() -> None:
        if left_out:
            probability = percent(sum(probabilities[index] for index in left_out)) if probabilities else ""
            rows.append(("…", f"{len(left_out)} not measured", "", "", probability))
            left_out.clear()

    for index, commit in enumerate(report.commits):
        probability = probabilities[index] if probabilities else 0.0
        if not counts[index] and index not in search.skipped and probability < _SHOWN:
            left_out.append(index)
            continue
        count_left_out()
        level = change(levels[index]) if index in levels else "no build" if index in search.skipped else ""
        shown = percent(probability) if probabilities and index else ""
        rows.append((commit.hash[:8], commit.subject, str(counts[index] or ""), level, shown))
    count_left_out()
    return rows


def _counts(report: BisectReport) -> Counter[int]:
    return Counter(run.index for run in report.search.runs)


def _levels(report: BisectReport) -> dict[int, float]:
    """Relative change of each measured commit to the good end."""
    values: dict[int, list[float]] = {}
    for run in report.search.runs:
        values.setdefault(run.index, []).append(run.value)
    if 0 not in values:
        return {}
    good = median(values[0])
    return {index: relative_change(median(own) - good) for index, own in values.items()}


def _interval(report: BisectReport) -> tuple[float, float] | None:
    posterior = report.search.posterior
    if posterior is None:
        return None
    return relative_change(posterior.change - 1.96 * posterior.spread), relative_change(
        posterior.change + 1.96 * posterior.spread
    )


def _end_runs(report: BisectReport) -> str:
    counts = _counts(report)
    return f"{counts[0]} and {counts[len(report.commits) - 1]}"


def _range_text(report: BisectReport, suspects: Suspects) -> str:
    first, last = (report.commits[index].hash[:8] for index in (suspects.first, suspects.last))
    count = suspects.last - suspects.first + 1
    return f"one of {count} commits, {first} to {last}," if count > 1 else last


def _commit_text(commit: RangeCommit) -> str:
    return f"{commit.hash[:8]} “{commit.subject}” by {commit.author}"


def _asv_line(report: BisectReport) -> str:
    return " ".join(report.asv_output.split())
