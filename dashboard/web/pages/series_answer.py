"""The answer of a series' page: its last change, how certain it is, its likely causes, and its standing."""

from dataclasses import dataclass

from ...analysis.causes import Lead, cause_sentence, lead_over_baseline, likely_causes
from ...model import quantities
from ...model.changepoint import SeriesChange
from ...model.history import ShownHistory
from ...model.naming import series_name
from ...model.overview import OverviewRow
from ...model.series import Series
from ...model.verdict import ChangeKind
from ...store import queries
from ...text.change_words import certainty, direction, later_sentence, levels
from ...text.labels import count, day
from ...text.markdown import code_span, inert
from ..figures.style import look
from ..request_context import external_url, store


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesAnswer:
    """The summary at the top of the page."""

    change: SeriesChange | None  # the newest step, else the newest change that is not significant
    look: str  # class of the mark: regressed, improved, unchanged or inconclusive
    word: str  # "Faster"
    levels: str  # "114 µs → 69.4 µs, −39.4 %"
    certainty: str
    standing: tuple[str, ...]  # "1.32× as fast as SDPA (was 0.78×)", "50 % of peak"
    causes: tuple[str, ...]  # strongest first
    cause: str  # machine or code, in a sentence
    later: SeriesChange | None  # a newer change, which is not significant


def last_change(series: Series, shown: ShownHistory) -> SeriesChange | None:
    """The newest change that counts: a step of ours, else one that is not significant; any of a reference."""
    newest_first = sorted(shown.history.changes, key=lambda change: change.index, reverse=True)
    if not series.is_ours:
        return next(iter(newest_first), None)
    counting = [change for change in newest_first if change.below_limit is None]
    for kind in (ChangeKind.STEP, ChangeKind.NOT_SIGNIFICANT, ChangeKind.UNJUDGED):
        for change in counting:
            if change.kind is kind:
                return change
    return None


def series_answer(shown: ShownHistory, change: SeriesChange | None, standing: OverviewRow | None) -> SeriesAnswer:
    """The answer; without a change, that there is none."""
    series, metric = shown.history.series, shown.history.series.metric
    if change is None:
        numbers = shown.extent.points - shown.points_without_number
        return SeriesAnswer(
            change=None,
            look="unchanged",
            word="No change" if numbers > 1 else "One value so far" if numbers else "No valid value yet",
            levels=f"in {count(numbers, 'point')}" if numbers > 1 else "",
            certainty="",
            standing=_standing(standing, None),
            causes=(),
            cause="",
            later=None,
        )
    evidence = queries.change_evidence(store(), series.key, change.previous_commit.hash, change.commit.hash)
    lead = lead_over_baseline(evidence) if evidence is not None and series.is_ours and metric.is_time else None
    is_significant = series.is_ours and metric.is_judged and change.kind is ChangeKind.STEP
    causes = likely_causes(change, metric, evidence, lambda name: look(name).label) if evidence is not None else ()
    return SeriesAnswer(
        change=change,
        look=("regressed" if change.is_worse else "improved") if is_significant else "inconclusive",
        word=direction(change, metric, is_ours=series.is_ours),
        levels=levels(change, metric),
        certainty=certainty(change, metric) if series.is_ours else "no commit of the project changes it",
        standing=_standing(standing, lead),
        causes=tuple(cause.text for cause in causes),
        cause=cause_sentence(change, metric) if is_significant else "",
        later=_later(shown, change),
    )


def _later(shown: ShownHistory, change: SeriesChange) -> SeriesChange | None:
    later = [
        each
        for each in shown.history.changes
        if each.index > change.index and each.kind is ChangeKind.NOT_SIGNIFICANT and each.below_limit is None
    ]
    return max(later, key=lambda each: each.index, default=None)


def _standing(row: OverviewRow | None, lead: Lead | None) -> tuple[str, ...]:
    """Speedup over the fastest baseline, and before the change if known, and the share of peak at the newest commit."""
    words = []
    if row is not None and row.baseline is not None:
        name = row.baseline.implementation
        is_same = lead is not None and lead.baseline.series.implementation == name
        was = f" ({quantities.ratio(lead.before)} before the change)" if lead is not None and is_same else ""
        words.append(f"{quantities.ratio(row.baseline.ratio)} as fast as {look(name).label} now{was}")
    if row is not None and row.speed_of_light is not None and row.speed_of_light.share is not None:
        words.append(f"{quantities.share(row.speed_of_light.share)} {row.speed_of_light.of}")
    return tuple(words)


def answer_markdown(shown: ShownHistory, answer: SeriesAnswer, kernel: str) -> str:
    """The answer as Markdown for a pull request or a chat."""
    series, change = shown.history.series, answer.change
    name = f"{series_name(series, kernel)}, {series.metric.label} on {series.machine}"
    said = " ".join(part for part in (answer.word, answer.levels) if part)
    lines = [f"{code_span(name)}: **{said}**"]
    if change is not None:
        subject = f" {inert(change.commit.subject)}" if change.commit.subject else ""
        lines[0] += f" at {code_span(change.commit.hash[:8])}{subject} ({day(change.commit.date)}); {answer.certainty}"
    later = later_sentence(answer.later, series.metric) if answer.later is not None else ""
    for part in (" · ".join(map(inert, answer.standing)), answer.cause, later):
        if part:
            lines.append(f"- {part}")
    lines += [f"- {inert(cause)}" for cause in answer.causes]
    if (address := external_url("short.series", key=series.key)) is not None:
        lines += ["", address]
    return "\n".join(lines)
