"""The one file that leaves the job which ran a pull request's code: what `warpwatch gate` found, and nothing to run.

Whoever reads it holds secrets and must take every word of it for a stranger's. So it has a schema without room for
more: lengths, counts and numbers are bounded, names hold no sign that cannot be seen, hashes are hashes, and what the
rows say decides the verdict. Commands and links are not in it; readers make them from what is.
"""

import re
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from warpwatch.dashboard.model.metric import Better
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.noise import NoiseSource, times_noise

from ..policy.policy_model import Inconclusive

SCHEMA_VERSION = 1
LARGEST_FILE = 8 * 2**20  # bytes
MOST_ROWS = 5000
CUT = "…"  # ends what was too long
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}  # Unicode's categories: controls, bidi and other formats, private use
_MARKS = re.compile(r"m{5,}")  # more marks on a letter than any script has, which paint over the lines around


class ArtefactError(Exception):
    """A file that is no artefact of a gate; the message says where and why."""


class GateVerdict(StrEnum):
    """What the gate ends in, all series together."""

    REGRESSED = "regressed"  # and not accepted; whether it blocks is the rows' to say
    FAILED = "failed"  # what has a number at base has none at head, and blocks
    INCONCLUSIVE = "inconclusive"
    ACCEPTED = "accepted"  # what regressed was accepted by someone who may
    IMPROVED = "improved"
    UNCHANGED = "unchanged"


def has_hidden(text: str) -> bool:
    """Whether there is a sign in it that cannot be seen, or turns others around, or heaps of marks."""
    kinds = [_kind(sign) for sign in text]
    return any(kind in _HIDDEN for kind in kinds) or bool(
        _MARKS.search("".join("m" if kind[0] == "M" else " " for kind in kinds))
    )


def plain(text: str, most: int) -> str:
    """The text as the schema wants it: hidden signs are shown as U+FFFD, and what is too long is cut."""
    shown, marks = [], 0
    for sign in text[: most + 1]:
        kind = _kind(sign)
        marks = marks + 1 if kind[0] == "M" else 0
        if marks <= 4:
            shown.append("\N{REPLACEMENT CHARACTER}" if kind in _HIDDEN else sign)
    told = "".join(shown)
    return told if len(told) <= most else told[: most - 1] + CUT


def _kind(sign: str) -> str:
    """Unicode's category; noncharacters, which XML forbids, count as controls."""
    is_none = ord(sign) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(sign) <= 0xFDEF
    return "Cc" if is_none else unicodedata.category(sign)


def _seen(text: str) -> str:
    if has_hidden(text):
        raise ValueError("has control, bidi or other signs that cannot be seen")
    return text


Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_seen)]
Words = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_seen)]
CommitHash = Annotated[str, StringConstraints(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
SeriesKey = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
SourcePath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$", max_length=300)
]
Number = Annotated[float, Field(ge=-1e30, le=1e30)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
Share = Annotated[float, Field(ge=0, le=1)]
Fault = Annotated[Words, Field(min_length=1)]


class Part(BaseModel):
    """A part of the artefact: what it does not name is refused, and nothing is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ArtefactCommit(Part):
    """One of the two commits."""

    hash: CommitHash
    subject: Name | None = None


class Change(Part):
    """Head against base, the machine's part taken off. Relative: 0.04 is 4 % more."""

    value: Number
    low: Number  # 95 % interval
    high: Number
    p_value: Share
    noise: Annotated[float, Field(ge=0, le=1e30)]  # of one run
    noise_source: NoiseSource
    base_runs: Count
    head_runs: Count


class Acceptance(Part):
    """Who took a regression, or that a benchmark is gone, for granted, and why."""

    by: Name
    reason: Words
    source: Name  # where it was said: "commit 1a2b3c4d", "comment 123456"


class Parameter(Part):
    """A benchmark's parameter."""

    name: Name
    value: Words


class Source(Part):
    """Where in the repository a benchmark is written."""

    path: SourcePath
    line: Annotated[int, Field(ge=1, le=10_000_000)]


class ArtefactRow(Part):
    """One series, judged."""

    key: SeriesKey
    benchmark: Name
    parameters: tuple[Parameter, ...] = Field(default=(), max_length=32)
    metric: Name
    unit: Annotated[str, StringConstraints(max_length=40), AfterValidator(_seen)]
    better: Better
    environment: Words = ""
    operator: Name | None = None
    implementation: Name | None = None
    measured_by_asv: bool = True
    source: Source | None = None
    verdict: Verdict
    reason: Words | None = None  # of INVALID and MISSING, and why it could not be told
    base: Number | None = None  # medians over runs, in `unit`
    head: Number | None = None
    change: Change | None = None
    control_change: Number | None = None  # what the rivals of the same workload did
    runs_needed: Count = 0  # more runs of each commit until it can be told
    counts_from: Annotated[float, Field(ge=0, le=1e30)] | None = None  # the policy's; None: the gate's threshold
    blocks: bool = True  # whether the policy has its regression keep a change from being merged
    accepted: Acceptance | None = None

    @model_validator(mode="after")
    def _may_be_accepted(self) -> Self:
        if self.accepted is not None and not self.may_be_accepted:
            raise ValueError(f"what is {self.verdict.value} is not accepted by anybody")
        return self

    @property
    def may_be_accepted(self) -> bool:
        """What is slower, looks it, or is gone. A wrong result or a crash is nobody's to accept."""
        is_gone = self.fails and self.verdict is Verdict.MISSING
        return is_gone or self.verdict in {Verdict.REGRESSED, Verdict.INCONCLUSIVE}

    @property
    def fails(self) -> bool:
        """Whether base has a number and head none: it crashes there, its result is wrong, or it is gone."""
        is_absent = self.verdict is Verdict.MISSING and self.base is not None and self.head is None
        return is_absent or self.verdict is Verdict.INVALID

    @property
    def title(self) -> str:
        """Benchmark and parameter values on one line."""
        values = ", ".join(each.value for each in self.parameters)
        return f"{self.benchmark}({values})" if values else self.benchmark

    @property
    def times_noise(self) -> float | None:
        """The change over the noise of one run; None where it is exact, or there is none."""
        return times_noise(self.change.value, self.change.noise) if self.change is not None else None

    @property
    def is_blocking(self) -> bool:
        """Whether this row alone keeps the change from being merged."""
        return self.decides and (self.fails or self.verdict is Verdict.REGRESSED)

    @property
    def decides(self) -> bool:
        """Whether the outcome of the gate hangs on it."""
        return self.blocks and self.accepted is None


class LeftOut(Part):
    """Series of one kind that the file has no room for; nobody sees them, so nobody can accept them any more."""

    verdict: Verdict
    decides: bool
    fails: bool
    count: Annotated[int, Field(ge=1, le=1_000_000_000)]
    accepted: bool = False

    @property
    def is_blocking(self) -> bool:
        """As of a row."""
        return self.decides and (self.fails or self.verdict is Verdict.REGRESSED)


class Canary(Part):
    """A control that moved by more than its noise."""

    workload: Name
    change: Number


class MachineDrift(Part):
    """What the machine itself did between the two; `change` is taken off, 0 where the controls do not agree."""

    change: Number
    controls: Count
    canaries: tuple[Canary, ...] = Field(default=(), max_length=32)


class CodeFact(Part):
    """One quantity of compiled code before and after."""

    name: Name
    unit: Literal["", "bytes", "share"] = ""
    before: Number
    after: Number


class CodeDifference(Part):
    """One kernel that was compiled to something else, for the architecture that the machine runs."""

    operator: Name
    implementation: Name | None = None  # None: not known whose it is
    kernel: Words
    architecture: Name
    state: Literal["changed", "new", "gone"]
    facts: tuple[CodeFact, ...] = Field(default=(), max_length=32)
    instructions: tuple[CodeFact, ...] = Field(default=(), max_length=32)  # the total first, then the largest


class Cost(Part):
    """What the verdict took."""

    runs: Count  # of each commit, where something stayed open to the end
    minutes: Annotated[float, Field(ge=0, le=1e6)]
    ended: Literal["told", "budget", "runs", "hopeless"]  # why it measured no further (sequence.End)


class GateArtefact(Part):
    """What a gate found on one machine. Rows: regressions first, then what could not be told, the largest first."""

    schema_version: Literal[1] = 1
    project: Name
    base: ArtefactCommit
    head: ArtefactCommit
    machine: Name | None = None  # None: nothing was measured
    gpu: Name | None = None
    verdict: GateVerdict
    threshold: Share  # the smallest relative change that matters
    family_error: Share  # chance that any unchanged series is called changed
    rows: tuple[ArtefactRow, ...] = Field(max_length=MOST_ROWS)
    rows_left_out: Count = 0  # rows beyond what the file takes, unchanged ones first
    left_out: tuple[LeftOut, ...] = Field(default=(), max_length=64)  # those of them that are not unchanged
    drift: MachineDrift | None = None
    code: tuple[CodeDifference, ...] = Field(default=(), max_length=500)
    code_left_out: Count = 0
    notes: tuple[Words, ...] = Field(default=(), max_length=50)  # what its reader has to know beside the rows
    inconclusive: Inconclusive = "neutral"  # what the policy makes of what could not be told
    fault: Fault | None = None  # why head cannot be merged whatever its numbers are
    cost: Cost

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.base.hash == self.head.hash:
            raise ValueError("base and head are one commit")
        if sum(each.count for each in self.left_out) > self.rows_left_out:
            raise ValueError("more rows of some kinds are left out than of all")
        if len({row.key for row in self.rows}) != len(self.rows):
            raise ValueError("two rows of one series")
        if self.verdict is not (told := verdict_of(self.rows, self.left_out)):
            raise ValueError(f"the verdict is {self.verdict.value}, the rows say {told.value}")
        return self

    @property
    def is_blocking(self) -> bool:
        """Whether the change must not be merged as it is."""
        is_open = self.inconclusive == "failure" and is_inconclusive(self.rows, self.left_out)
        every: tuple[ArtefactRow | LeftOut, ...] = (*self.rows, *self.left_out)
        return self.fault is not None or is_open or any(each.is_blocking for each in every)

    @property
    def failing(self) -> tuple[ArtefactRow, ...]:
        """The rows that fail at head and decide."""
        return tuple(row for row in self.rows if row.fails and row.decides)

    def count(self, verdict: Verdict) -> int:
        """How many series got that verdict, those left out too."""
        beyond = sum(each.count for each in self.left_out if each.verdict is verdict)
        if verdict is Verdict.UNCHANGED:
            beyond = self.rows_left_out - sum(each.count for each in self.left_out)
        return beyond + sum(row.verdict is verdict for row in self.rows)

    def code_of(self, row: ArtefactRow) -> tuple[CodeDifference, ...]:
        """What was compiled otherwise of the kernels behind a row."""
        return tuple(
            each
            for each in self.code
            if each.operator == row.operator and each.implementation in {None, row.implementation}
        )


def verdict_of(rows: Sequence[ArtefactRow], left_out: Sequence[LeftOut] = ()) -> GateVerdict:
    """The one word for all series, those left out too."""
    every: tuple[ArtefactRow | LeftOut, ...] = (*rows, *left_out)
    still = {each.verdict for each in every if not each.accepted}
    if Verdict.REGRESSED in still:
        return GateVerdict.REGRESSED
    if any(each.fails and each.decides for each in every):
        return GateVerdict.FAILED
    if is_inconclusive(rows, left_out):
        return GateVerdict.INCONCLUSIVE
    if any(each.accepted for each in every):
        return GateVerdict.ACCEPTED
    return GateVerdict.IMPROVED if Verdict.IMPROVED in still else GateVerdict.UNCHANGED


def is_inconclusive(rows: Sequence[ArtefactRow], left_out: Sequence[LeftOut] = ()) -> bool:
    """Whether something that decides could not be told, or nothing was compared."""
    every: tuple[ArtefactRow | LeftOut, ...] = (*rows, *left_out)
    deciding = {each.verdict for each in every if each.decides}
    compared = (deciding or {each.verdict for each in every}) - {Verdict.MISSING}
    return Verdict.INCONCLUSIVE in deciding or not (compared or any(each.accepted for each in every))


def read_artefact(path: Path) -> GateArtefact:
    """The artefact in a file. Raises ArtefactError, whose message quotes nothing of the file's text."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ArtefactError(f"{path}: {error.strerror}") from error
    if len(text) > LARGEST_FILE:
        raise ArtefactError(f"{path} is larger than {LARGEST_FILE // 2**20} MiB, which no gate writes")
    try:
        return GateArtefact.model_validate_json(text)
    except ValidationError as error:
        raise ArtefactError(f"{path} is no artefact of `warpwatch gate --artefact`: {_first(error)}") from error


def _first(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    known = [str(part) if isinstance(part, int) or part in _FIELDS else "?" for part in first["loc"]]
    where = ".".join(known) or "the whole"
    if first["type"] == "extra_forbidden":
        return f"{where}: a key that the schema does not have"
    return f"{where}: {plain(first['msg'], 200)}"


def _fields() -> frozenset[str]:
    parts = (
        GateArtefact,
        ArtefactRow,
        Change,
        Acceptance,
        Parameter,
        Source,
        MachineDrift,
        Canary,
        CodeDifference,
        CodeFact,
        Cost,
        ArtefactCommit,
        LeftOut,
    )
    return frozenset(name for part in parts for name in part.model_fields)


_FIELDS = _fields()
