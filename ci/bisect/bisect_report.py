"""Reports of a bisect: plain text, Markdown, JSON, and the sentence for the note."""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from warpwatch.dashboard.model.quantities import change, relative_change
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.text.markdown import code_span
from warpwatch.dashboard.text.tables import text_table

from .bisect_loop import End, Search, Suspects
from .commit_range import RangeCommit

_SHOWN = 0.001  # least probability of an unmeasured commit with its own row
_SEVERAL = 0.9  # probability of several changes above which they are reported
_WIDTH = 100
_REST = "…"
Quote = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectReport:
    """A search with its series and commits."""

    series: Series
    commits: tuple[RangeCommit, ...]  # the good end first
    search: Search
    asv_output: str  # of what could not be measured last

    @property
    def culprit(self) -> RangeCommit | None:
        """The culprit."""
        its = self.search.suspects
        return self.commits[its.first] if self.search.end is End.FOUND and its is not None else None

    @property
    def last_good(self) -> RangeCommit | None:
        """The newest commit before the suspects that was measured."""
        its = self.search.suspects
        if its is None:
            return None
        return self.commits[max(run.place for run in self.search.runs if run.place < its.first)]

    @property
    def first_bad(self) -> RangeCommit | None:
        """The last of the suspects: that one, or one that cannot be told from it, brought the change."""
        return self.commits[self.search.suspects.last] if self.search.suspects is not None else None

    @property
    def is_named(self) -> bool:
        """Whether a commit is named with the confidence wanted, or some that cannot be told apart."""
        return self.search.end in (End.FOUND, End.RANGE)


def headline(report: BisectReport, quote: Quote = str) -> str:
    """The answer in a sentence. `quote` gets what others wrote: subjects, authors, asv's words."""
    search, its = report.search, report.search.suspects
    good, bad = report.commits[0], report.commits[-1]
    match search.end:
        case End.FOUND if its is not None:
            return f"{_named(report.commits[its.first], quote)} brought {size(report)}, {sure(its.chance)} sure"
        case End.RANGE if its is not None:
            return f"{_range(report, its)} brought {size(report)}, {sure(its.chance)} sure; the others do not build"
        case End.BLOCKED if its is not None:
            return f"no run tells more: {_range(report, its)} is the likeliest to have brought it, {sure(its.chance)}"
        case End.NOT_REPRODUCED:
            return (
                f"the change does not reproduce here: {bad.hash[:8]} against {good.hash[:8]} is {size(report)}, "
                f"{_end_runs(report)} runs"
            )
        case End.UNSURE_ENDS:
            return (
                f"too noisy to tell whether there is a change: {bad.hash[:8]} against {good.hash[:8]} is "
                f"{size(report)}, {_end_runs(report)} runs"
            )
        case End.NO_END:
            end = bad if len(report.commits) - 1 in search.skipped else good
            return f"{end.hash[:8]}, an end of the range, cannot be measured: {quote(_words(report))}"
    if its is None:
        return f"the budget is spent, and it is not sure yet that {bad.hash[:8]} differs from {good.hash[:8]}"
    likeliest = report.commits[its.last]
    return f"not sure yet, and the budget is spent: {_named(likeliest, quote)} is the likeliest, {sure(its.chance)}"


def remarks(report: BisectReport, quote: Quote = str) -> tuple[str, ...]:
    """Remarks to the answer."""
    found, now, search = [], report.search.now, report.search
    if search.suspects is not None and now is not None and sum(now.steps[1:]) > _SEVERAL:
        gap = int(np.argmax(now.other_gaps))
        low, high = (report.commits[place].hash[:8] for place in now.measured[gap - 1 : gap + 1])
        found.append(f"This is the largest change of several: another came after {low} and by {high}.")
    culprit = report.culprit
    if culprit is not None and culprit.is_merge:
        side = f"{culprit.hash[:12]}^2"
        found.append(
            f"It is a merge. If the change came with its branch, `warpwatch bisect {report.series.key} "
            f"$(git merge-base {culprit.hash[:12]}^1 {side}) {side}` looks into it."
        )
    if search.skipped and search.end is not End.NO_END:
        found.append(
            f"{len(search.skipped)} commits could not be built or measured; of the last: {quote(_words(report))}"
        )
    if search.end is End.SPENT:
        found.append("The same command goes on with what was measured.")
    return tuple(found)


def as_table(report: BisectReport) -> str:
    """Plain text of 100 columns."""
    rows = [(row.hash, row.subject, row.runs, row.level, row.chance) for row in _rows(report)]
    header = ("commit", "", "runs", "to good", "chance")
    table = text_table(header, rows, align="llrrr", width=_WIDTH, shrink=1)
    return "\n".join([f"{report.series.title}: {headline(report)}", "", table, "", *remarks(report), cost(report)])


def as_markdown(report: BisectReport) -> str:
    """Markdown for an issue or a chat."""
    place = f"{code_span(report.series.title)} on {code_span(report.series.machine)}"
    lines = [f"### warpwatch bisect: {headline(report, code_span)}", "", place, ""]
    lines += ["| commit | | runs | against good | chance |", "|---|---|--:|--:|--:|"]
    for row in _rows(report):
        subject = code_span(row.subject) if row.is_commit else row.subject
        cells = (row.hash, subject, row.runs, row.level, f"**{row.chance}**" if row.is_likeliest else row.chance)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, "", *remarks(report, code_span), cost(report)])


def as_json(report: BisectReport) -> str:
    """All commits. Relative changes are fractions, times seconds."""
    search, now, its = report.search, report.search.now, report.search.suspects
    counts, levels = _counts(report), _levels(report)
    commits: list[dict[str, Any]] = [
        {
            "hash": commit.hash,
            "subject": commit.subject,
            "author": commit.author,
            "runs": counts[place],
            "measurable": place not in search.skipped,
            "change_to_good": levels.get(place),
            "chance": float(now.chance[place - 1]) if now is not None and its is not None and place else None,
        }
        for place, commit in enumerate(report.commits)
    ]
    data = {
        "schema": 1,
        "series": report.series.key,
        "benchmark": report.series.benchmark,
        "parameters": dict(report.series.parameters),
        "metric": report.series.metric.name,
        "project": report.series.project,
        "machine": report.series.machine,
        "end": search.end.value,
        "culprit": report.culprit.hash if report.culprit is not None else None,
        "suspects": [commit.hash for commit in report.commits[its.first : its.last + 1]] if its is not None else [],
        "confidence": its.chance if its is not None else None,
        "change": relative_change(now.change) if now is not None else None,
        "interval_95": _interval(report),
        "chance_of_several_changes": sum(now.steps[1:]) if now is not None and its is not None else None,
        "runs": len(search.runs),
        "seconds": round(search.seconds, 1),
        "says": headline(report),
        "remarks": remarks(report),
        "commits": commits,
    }
    return json.dumps(data, indent=1)


def size(report: BisectReport) -> str:
    """The change with its interval: "+3.1 % (+2.8 % to +3.4 %)"."""
    now, ends = report.search.now, _interval(report)
    if now is None or ends is None:
        return "an unknown change"
    return f"{change(relative_change(now.change))} ({change(ends[0])} to {change(ends[1])})"


def sure(chance: float) -> str:
    """A probability as "99.4 %", never rounded up to 100 %."""
    return f"{min(math.floor(chance * 1000) / 10, 99.9):.1f} %"


def cost(report: BisectReport) -> str:
    """Number of runs and minutes."""
    search = report.search
    measured = len(_counts(report))
    return (
        f"{len(search.runs)} runs of {measured} of {len(report.commits)} commits; this call took "
        f"{search.seconds / 60:.1f} min."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    hash: str
    subject: str
    runs: str
    level: str
    chance: str
    is_likeliest: bool = False

    @property
    def is_commit(self) -> bool:
        """Or it counts those that were not measured."""
        return self.hash != _REST


def _rows(report: BisectReport) -> Sequence[_Row]:
    """Ends, what was measured or could not be, and what is likely; the rest is counted."""
    search, its = report.search, report.search.suspects
    counts, levels = _counts(report), _levels(report)
    chances = [0.0, *search.now.chance.tolist()] if search.now is not None and its is not None else None
    rows: list[_Row] = []
    left_out: list[int] = []

    def count_left_out() -> None:
        if left_out:
            chance = sure(sum(chances[place] for place in left_out)) if chances else ""
            rows.append(_Row(hash=_REST, subject=f"{len(left_out)} not measured", runs="", level="", chance=chance))
            left_out.clear()

    for place, commit in enumerate(report.commits):
        chance = chances[place] if chances else 0.0
        if not counts[place] and place not in search.skipped and chance < _SHOWN:
            left_out.append(place)
            continue
        count_left_out()
        level = change(levels[place]) if place in levels else "no build" if place in search.skipped else ""
        rows.append(
            _Row(
                hash=commit.hash[:8],
                subject=commit.subject,
                runs=str(counts[place] or ""),
                level=level,
                chance=sure(chance) if chances and place else "",
                is_likeliest=its is not None and its.first <= place <= its.last,
            )
        )
    count_left_out()
    return rows


def _counts(report: BisectReport) -> Counter[int]:
    return Counter(run.place for run in report.search.runs)


def _levels(report: BisectReport) -> dict[int, float]:
    """Of each measured commit against the good end, as a fraction."""
    values: dict[int, list[float]] = {}
    for run in report.search.runs:
        values.setdefault(run.place, []).append(run.value)
    if 0 not in values:
        return {}
    good = median(values[0])
    return {place: relative_change(median(its) - good) for place, its in values.items()}


def _interval(report: BisectReport) -> tuple[float, float] | None:
    now = report.search.now
    if now is None:
        return None
    return relative_change(now.change - 1.96 * now.spread), relative_change(now.change + 1.96 * now.spread)


def _end_runs(report: BisectReport) -> str:
    counts = _counts(report)
    return f"{counts[0]} and {counts[len(report.commits) - 1]}"


def _range(report: BisectReport, its: Suspects) -> str:
    first, last = (report.commits[place].hash[:8] for place in (its.first, its.last))
    return f"one of {its.last - its.first + 1} commits, {first} to {last}," if its.last > its.first else last


def _named(commit: RangeCommit, quote: Quote) -> str:
    return f"{commit.hash[:8]} “{quote(commit.subject)}” by {quote(commit.author)}"


def _words(report: BisectReport) -> str:
    return " ".join(report.asv_output.split())
