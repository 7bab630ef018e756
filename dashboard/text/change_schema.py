"""The schema of a changepoint or an episode: of the API and of alerts."""

from typing import Any

from ..analysis.next_measurement import measure_again
from ..model.changepoint import SeriesChange
from ..model.schema import Schema
from ..model.series import Series
from ..model.verdict import ChangeKind, Control, DeclineCause


class ControlShareSchema(Schema):
    """Share of a change that the machine's controls show too: 1 is all of it."""

    control: Control
    share: float | None
    ci_low: float | None
    """95 % interval of the share."""
    ci_high: float | None


class MagnitudeSchema(Schema):
    """A relative change."""

    magnitude: float | None
    ci_low: float | None
    """Its 95 % interval."""
    ci_high: float | None


class MeasureAgainSchema(Schema):
    """The next measurement that would settle a change."""

    reason: str
    commits: tuple[str, ...]
    """Empty where they have not been measured yet."""
    machine: str
    command: str | None
    """Null where another tool than asv measured the series."""


class ChangeSchema(Schema):
    """A change of level, or an episode: values that strayed from their level and returned."""

    kind: ChangeKind
    commit: str
    """The first of the new level, or of the episode."""
    previous_commit: str
    range_start: str
    """With 95 % probability the change came after this commit; of an episode, the one before it."""
    range_end: str
    """And by this one; of an episode, its last."""
    posterior: dict[str, float]
    """Posterior probability of each commit of the range to be the first of the new level."""
    before: float | None
    """Levels, in the series' unit."""
    after: float | None
    magnitude: float | None
    """after / before - 1"""
    ci_low: float | None
    """Its 95 % interval."""
    ci_high: float | None
    p_value: float | None
    """Of a change at this commit."""
    p_adjusted: float | None
    """Of as large a change anywhere in a series without one; null of an episode."""
    q_value: float | None
    """False discovery rate among the changes of all series of its run; null where not determined."""
    is_worse: bool
    is_confirmed: bool
    """Further runs of both commits in turns, in one session on one GPU, differ significantly."""
    causes: dict[DeclineCause, float] | None
    """Of a slow decline: relative change by cause; null where no canaries or baselines show the machine's part."""
    is_across_gpus: bool
    """No GPU measured both the commit and the previous one: levels and change are GPU-adjusted."""
    gpus: int | None
    """Number of GPUs that measured the new level, of GPU-adjusted values; null of values of one GPU."""
    below_limit: float | None
    """Of a step too small to count by what the project states: the smallest relative change that would."""
    control_share: ControlShareSchema | None
    """Null where no control is decisive."""
    without_machine: MagnitudeSchema | None
    """The change without the machine's part, where its controls moved significantly."""
    measure_again: MeasureAgainSchema | None
    """Null where nothing is left to settle."""


def change_schema(series: Series, change: SeriesChange) -> ChangeSchema:
    rest, wanted = change.without_machine, measure_again(series, change)
    return ChangeSchema.of(
        change,
        commit=change.commit.hash,
        previous_commit=change.previous_commit.hash,
        range_start=change.range_start.hash,
        range_end=change.range_end.hash,
        posterior={commit.hash: probability for commit, probability in change.posterior},
        is_worse=bool(change.is_worse),
        causes=dict(change.causes) or None,
        control_share=ControlShareSchema.of(change.share, share=change.share.value) if change.share else None,
        without_machine=MagnitudeSchema.of(rest, magnitude=rest.value) if rest else None,
        measure_again=MeasureAgainSchema.of(wanted, commits=tuple(commit.hash for commit in wanted.commits))
        if wanted
        else None,
    )


def classification_json(series: Series, change: SeriesChange) -> dict[str, Any]:
    """The part of the schema that all findings of a machine together determine, for an alert."""
    parts = {"kind", "q_value", "is_across_gpus", "gpus", "control_share", "without_machine", "measure_again"}
    return change_schema(series, change).model_dump(mode="json", include=parts)
