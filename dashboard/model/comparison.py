"""The comparison of two sides: the one schema of `warpwatch check` and `compare`, the API, the gate artefact and pages.

Base and head are two commits, two machines or two implementations. Every relative change is head against base, and a
fraction: 0.04 is 4 % more.
"""

import math
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Protocol

from pydantic import computed_field, field_validator

from .metric import Better
from .result_file import storable, storable_name
from .schema import CommitSchema, Schema, SeriesSchema
from .verdict import NoiseSource, Verdict


class Estimate(Schema):
    """The change of one series, the drift of its machine taken off, with its uncertainty."""

    change: float
    """Relative change of the median over runs."""
    ci_low: float
    """Lower end of the 95 % confidence interval of `change`."""
    ci_high: float
    p_value: float
    """Two-sided, of the hypothesis that nothing changed."""
    noise: float
    """Relative standard deviation of one run; 0 of an exact quantity."""
    noise_source: NoiseSource
    degrees_of_freedom: int | None
    """Of `noise`; null where it is as good as known."""
    base_runs: int
    """Runs with a number at base."""
    head_runs: int
    runs_needed: int
    """Further runs of each side until a change that matters would be detected; 0 unless the verdict is inconclusive."""
    equivalence_bound: float | None
    """Largest relative change, without sign, that two one-sided tests at 5 % leave possible; null where exact."""

    @property
    def times_noise(self) -> float | None:
        """|log(1 + change)| over `noise`, so in standard deviations of one run; None without noise or a ratio."""
        return abs(math.log1p(self.change)) / self.noise if self.noise and self.change > -1 else None


class AcrossGpus(Schema):
    """What references say of a series that only different GPUs of one model measured. Its estimate has their effect
    taken off.
    """

    expected: float
    """Relative change of unchanged code between the two sessions, by GPU, run and software."""
    spread: float
    """95 % of unchanged series of this kind deviate from `expected` by no more, relative."""
    references: int
    """Series that both GPUs measured and no commit changed: canaries, baselines, equal machine code."""
    q_value: float
    """False discovery rate among all series of ours that the two GPUs measured."""


class Acceptance(Schema):
    """A person's statement that a regression is intended."""

    pattern: str
    """Glob of kernels, benchmarks, titles or keys of series."""
    reason: str
    by: str
    at: datetime
    source: str
    """Where it was stated: "commit 1234abcd", "comment 123456", an address."""
    at_most: float | None = None
    """Largest relative change that is accepted; null: any."""

    # The messages do not quote the text: it may come from an untrusted artefact.
    @field_validator("pattern", "reason", "by", "source")
    @classmethod
    def _is_storable(cls, text: str) -> str:
        if not text.strip() or not storable(text):
            raise ValueError("must not be blank, nor contain NUL or half a character")
        return text

    @field_validator("pattern", "source")
    @classmethod
    def _is_short(cls, text: str) -> str:
        if not storable_name(text):
            raise ValueError("is too long")
        return text


class ComparisonRow(Schema):
    """One series compared."""

    series: SeriesSchema
    """Head's series."""
    base_series: SeriesSchema | None
    """Base's series where machines or implementations are compared; null where it is `series`."""
    kernel: str
    """The operator; the benchmark's module where no operator is known."""
    dtype: str | None
    verdict: Verdict
    reason: str | None
    """Why there is no number, or why the verdict is inconclusive."""
    fails: bool
    """Base has a number, and head was measured and has none."""
    base: float | None
    """Median over runs, in `series.unit`."""
    head: float | None
    estimate: Estimate | None
    """Null where a side has no number, no ratio exists, or different GPUs measured the two and too few references."""
    control_change: float | None
    """Median relative change of the baselines of the same workload, which the project's commits do not change."""
    min_relative_change: float | None
    """Smallest relative change that matters: the policy's threshold, or its absolute floor over `base` where that is
    more. Null where no change would matter: base is 0 and head below the floor."""
    blocks: bool
    """Whether the policy lets a regression of this series block a merge."""
    owners: tuple[str, ...]
    """Owners named by the policy."""
    accepted: Acceptance | None
    across_gpus: AcrossGpus | None
    """Null where one GPU measured both."""

    @property
    def is_worse(self) -> bool:
        """Whether the estimate is a change for the worse, however small."""
        change = self.estimate.change if self.estimate is not None else 0.0
        return change > 0 if self.series.better is Better.LOWER else change < 0

    @property
    def times_noise(self) -> float | None:
        """The change in standard deviations of one run; None without noise or a ratio."""
        return self.estimate.times_noise if self.estimate is not None else None

    @property
    def speed(self) -> float | None:
        """Head's speed as a multiple of base's; None for what is no time."""
        return self.base / self.head if self.base and self.head and self.series.metric_record.is_time else None

    def own_limit(self, general: float) -> float | None:
        """`min_relative_change` where it differs from the general threshold and the change reaches one of both."""
        least, change = self.min_relative_change, self.estimate.change if self.estimate is not None else None
        if least is None or change is None or least == general or abs(change) < min(least, general):
            return None
        return least

    @property
    def is_accepted(self) -> bool:
        """Whether a person accepted the regression."""
        return self.accepted is not None

    @property
    def decides(self) -> bool:
        """Whether the outcome depends on this row."""
        return self.blocks and self.accepted is None

    @property
    def may_be_accepted(self) -> bool:
        """Regressed, inconclusive or gone. A wrong result or a crash cannot be accepted."""
        is_gone = self.fails and self.verdict is Verdict.MISSING
        return is_gone or self.verdict in {Verdict.REGRESSED, Verdict.INCONCLUSIVE}

    @property
    def is_blocking(self) -> bool:
        """Whether this row alone keeps the change from being merged."""
        return is_blocking(self)


class CanaryChange(Schema):
    """A canary that moved by more than its noise."""

    workload: str
    change: float
    """Relative change."""


class MachineDrift(Schema):
    """A machine that itself changed between the two commits, by its controls: canaries and baselines."""

    machine: str
    change: float
    """Relative change shared by the controls, taken off every time measured there; 0 where they disagree."""
    controls: int
    canaries: tuple[CanaryChange, ...]
    """Canaries that moved."""


class Outcome(StrEnum):
    """Result of all rows together, the worst first."""

    REGRESSED = "regressed"  # a regression without an acceptance; `is_blocking` says whether it blocks
    FAILED = "failed"  # a series that decides has a number at base and none at head
    INCONCLUSIVE = "inconclusive"  # a series that decides is inconclusive, or nothing was compared
    ACCEPTED = "accepted"  # every regression was accepted
    IMPROVED = "improved"
    UNCHANGED = "unchanged"


class ComparedBy(StrEnum):
    """Kind of the two sides."""

    COMMIT = "commit"
    MACHINE = "machine"
    IMPLEMENTATION = "implementation"


class RowResult(Protocol):
    """A row, or rows that an artefact only counts."""

    @property
    def verdict(self) -> Verdict: ...
    @property
    def fails(self) -> bool: ...
    @property
    def decides(self) -> bool: ...
    @property
    def is_accepted(self) -> bool: ...


def is_blocking(row: RowResult) -> bool:
    """Whether the row alone keeps the change from being merged."""
    return row.decides and (row.fails or row.verdict is Verdict.REGRESSED)


def is_inconclusive(rows: Iterable[RowResult]) -> bool:
    """Whether a row that decides is inconclusive, or nothing was compared."""
    rows = tuple(rows)
    deciding = {row.verdict for row in rows if row.decides}
    compared = (deciding or {row.verdict for row in rows}) - {Verdict.MISSING}
    return Verdict.INCONCLUSIVE in deciding or not (compared or any(row.is_accepted for row in rows))


def outcome_of(rows: Iterable[RowResult]) -> Outcome:
    rows = tuple(rows)
    verdicts = {row.verdict for row in rows if not row.is_accepted}
    if Verdict.REGRESSED in verdicts:
        return Outcome.REGRESSED
    if any(row.fails and row.decides for row in rows):
        return Outcome.FAILED
    if is_inconclusive(rows):
        return Outcome.INCONCLUSIVE
    if any(row.is_accepted for row in rows):
        return Outcome.ACCEPTED
    return Outcome.IMPROVED if Verdict.IMPROVED in verdicts else Outcome.UNCHANGED


class Comparison(Schema):
    """Two sides compared. Rows: regressions first, then inconclusive ones, the largest change first."""

    csv_rows: ClassVar[str] = "rows"

    project: str
    by: ComparedBy
    base: CommitSchema
    """The same commit as `head` unless commits are compared."""
    head: CommitSchema
    base_name: str | None
    """The machine or implementation; null where commits are compared. Empty: every baseline."""
    head_name: str | None
    """As `base_name`; empty: every implementation of the project's own."""
    threshold: float
    """Smallest relative change that matters where the policy states no other for a series (`min_relative_change`)."""
    policy: str | None
    """The file with the rules that were applied, such as "warpwatch.toml of 1234abcd"; null: the threshold alone."""
    drifts: tuple[MachineDrift, ...]
    notes: tuple[str, ...]
    """Remarks on the comparison as a whole."""
    fault: str | None
    """Why head must not be merged whatever its numbers are."""
    rows: tuple[ComparisonRow, ...]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def outcome(self) -> Outcome:
        """Result of all rows together."""
        return outcome_of(self.rows)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_blocking(self) -> bool:
        """Whether head must not be merged: a fault, or a regression or failure that the policy lets block."""
        return self.fault is not None or any(row.is_blocking for row in self.rows)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def counts(self) -> dict[Verdict, int]:
        """Rows by verdict."""
        return {verdict: self.count(verdict) for verdict in Verdict}

    @property
    def is_inconclusive(self) -> bool:
        """Whether a row that decides is inconclusive, or nothing was compared."""
        return is_inconclusive(self.rows)

    @property
    def failing(self) -> tuple[ComparisonRow, ...]:
        """Rows that fail at head and decide."""
        return tuple(row for row in self.rows if row.fails and row.decides)

    def count(self, verdict: Verdict) -> int:
        return sum(row.verdict is verdict for row in self.rows)
