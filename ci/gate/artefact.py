"""The gate artefact: the one file that leaves the job which ran a pull request's code.

Its readers hold secrets and must not trust it. Its schema is that of every comparison (dashboard/model/comparison.py)
with bounds: lengths, counts and numbers are limited, texts have no hidden characters, hashes are hexadecimal, unknown
keys are refused, and the outcome must follow from the rows. It has no commands or links; readers build them.
"""

import functools
import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from warpwatch.dashboard.model.comparison import (
    Acceptance,
    CanaryChange,
    ComparisonRow,
    Estimate,
    MachineDrift,
    Outcome,
    is_blocking,
    is_inconclusive,
    outcome_of,
)
from warpwatch.dashboard.model.schema import SeriesSchema
from warpwatch.dashboard.model.verdict import Verdict

from ..policy.policy_model import Inconclusive
from .gate_loop import StopReason

LARGEST_FILE = 8 * 2**20  # bytes
LONGEST_NAME, LONGEST_TEXT, LONGEST_UNIT = 200, 1000, 40  # characters
MOST_PARAMETERS, MOST_CANARIES, MOST_FACTS, MOST_KERNELS, MOST_NOTES = 32, 32, 32, 500, 50
MOST_ROWS = 5000
CUT = "…"  # end of a shortened text
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}  # Unicode categories: control, format (bidi), private use
_MARKS = re.compile(r"m{5,}")  # more combining marks than any script has; they cover other lines


class ArtefactError(Exception):
    """A file is not a valid gate artefact; the message names the field and the reason, and quotes nothing."""


@functools.lru_cache(1000)  # rows share most of their texts
def has_hidden(text: str) -> bool:
    """Whether the text has invisible or bidi characters, or stacks of combining marks."""
    kinds = [_kind(sign) for sign in text]
    return any(kind in _HIDDEN for kind in kinds) or bool(
        _MARKS.search("".join("m" if kind[0] == "M" else " " for kind in kinds))
    )


def plain(text: str, most: int) -> str:
    """The text as the schema accepts it: hidden characters replaced by U+FFFD, cut at `most` characters."""
    shown, marks = [], 0
    for sign in text[: most + 1]:
        kind = _kind(sign)
        marks = marks + 1 if kind[0] == "M" else 0
        if marks <= 4:
            shown.append("\N{REPLACEMENT CHARACTER}" if kind in _HIDDEN else sign)
    cleaned = "".join(shown)
    return cleaned if len(cleaned) <= most else cleaned[: most - 1] + CUT


def _kind(sign: str) -> str:
    """The Unicode category; noncharacters, which XML forbids, count as control characters."""
    is_none = ord(sign) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(sign) <= 0xFDEF
    return "Cc" if is_none else unicodedata.category(sign)


def _visible(text: str) -> str:
    if has_hidden(text):
        raise ValueError("has control, bidi or other hidden characters")
    return text


_WRITING = object()  # context of `ArtefactPart.bounded`


def _bound(shorten: Callable[[Any], Any]) -> BeforeValidator:
    """Applies `shorten` to a value that a gate writes. A value that is read is never changed, but refused."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        return shorten(value) if info.context is _WRITING and value is not None else value

    return BeforeValidator(validate)


def _cut(most: int) -> BeforeValidator:
    return _bound(lambda text: plain(text, most))


Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=LONGEST_NAME),
    AfterValidator(_visible),
    _bound(lambda text: plain(text, LONGEST_NAME) or CUT),
]
Words = Annotated[str, StringConstraints(max_length=LONGEST_TEXT), AfterValidator(_visible), _cut(LONGEST_TEXT)]
OptionalName = Annotated[Name | None, _bound(lambda text: text or None)]
CommitHash = Annotated[str, StringConstraints(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
SeriesKey = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
SourcePath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$", max_length=300)
]
_LARGEST = 1e30
_clip = _bound(lambda number: max(-_LARGEST, min(number, _LARGEST)))
Number = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST), _clip]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
Size = Annotated[float, Field(ge=0, le=_LARGEST), _clip]
Share = Annotated[float, Field(ge=0, le=1)]
Fault = Annotated[Words, Field(min_length=1)]


class ArtefactPart(BaseModel):
    """A part of the artefact: unknown keys are refused, and no value is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def bounded(cls, fields: Mapping[str, Any]) -> Self:
        """The part with these fields, texts shortened and numbers clipped to what the schema accepts."""
        return cls.model_validate(fields, context=_WRITING)


class ArtefactCommit(ArtefactPart):
    """One of the two commits."""

    hash: CommitHash
    subject: OptionalName = None


class ArtefactSeries(ArtefactPart, SeriesSchema):
    """A series with bounded texts."""

    key: SeriesKey
    benchmark: Name
    parameters: Annotated[
        dict[Name, Words], _bound(lambda parameters: dict(list(parameters.items())[:MOST_PARAMETERS]))
    ] = Field(default={}, max_length=MOST_PARAMETERS)
    workload: Words | None = None
    implementation: OptionalName = None
    metric: Name
    unit: Annotated[str, StringConstraints(max_length=LONGEST_UNIT), AfterValidator(_visible), _cut(LONGEST_UNIT)]
    machine: Name
    environment: Words = ""
    role: Literal["ours"] = "ours"
    is_judged: bool = True
    is_listed: bool = True
    measured_by_asv: bool = True


class ArtefactEstimate(ArtefactPart, Estimate):
    """An estimate with bounded numbers."""

    change: Number
    ci_low: Number
    ci_high: Number
    p_value: Share
    noise: Size
    degrees_of_freedom: Count | None = None
    base_runs: Count
    head_runs: Count
    runs_needed: Count = 0
    equivalence_bound: Size | None = None


class ArtefactAcceptance(ArtefactPart, Acceptance):
    """The acceptance of a regression or of a missing benchmark."""

    pattern: Words
    reason: Words
    by: Name
    source: Name
    at_most: Size | None = None


class Source(ArtefactPart):
    """Location of a benchmark in the repository."""

    path: SourcePath
    line: Annotated[int, Field(ge=1, le=10_000_000)]


class ArtefactRow(ArtefactPart, ComparisonRow):
    """A compared series with bounded texts and numbers, and the benchmark's location."""

    series: ArtefactSeries
    base_series: None = None
    kernel: Name
    dtype: OptionalName = None
    reason: Annotated[Words | None, _bound(lambda text: text or None)] = None
    fails: bool = False
    base: Number | None = None
    head: Number | None = None
    estimate: ArtefactEstimate | None = None
    control_change: Number | None = None
    min_relative_change: Size | None = None
    blocks: bool = True
    owners: tuple[Name, ...] = Field(default=(), max_length=0)  # stay on the runner: they may be mail addresses
    accepted: ArtefactAcceptance | None = None
    across_gpus: None = None
    source: Source | None = None

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.accepted is not None and not self.may_be_accepted:
            raise ValueError(f"a row that is {self.verdict.value} cannot be accepted")
        if self.fails and (self.head is not None or self.verdict not in {Verdict.MISSING, Verdict.INVALID}):
            raise ValueError(f"a row that is {self.verdict.value} does not fail at head")
        if self.verdict is Verdict.INVALID and not self.fails:
            raise ValueError("a row that is invalid fails at head")
        return self


class LeftOut(ArtefactPart):
    """Number of rows of one kind that do not fit into the file. They are not shown and cannot be accepted."""

    verdict: Verdict
    decides: bool
    fails: bool
    count: Annotated[int, Field(ge=1, le=1_000_000_000)]
    accepted: bool = False

    @property
    def is_accepted(self) -> bool:
        """As `ComparisonRow.is_accepted`."""
        return self.accepted


class ArtefactCanary(ArtefactPart, CanaryChange):
    """A canary that changed."""

    workload: Name
    change: Number


class ArtefactDrift(ArtefactPart, MachineDrift):
    """The drift of the machine, with bounded texts and numbers."""

    machine: Name
    change: Number
    controls: Count
    canaries: tuple[ArtefactCanary, ...] = Field(default=(), max_length=MOST_CANARIES)


class CodeFact(ArtefactPart):
    """One quantity of compiled code before and after."""

    name: Name
    unit: Literal["", "bytes", "share"] = ""
    before: Number
    after: Number


class CodeDifference(ArtefactPart):
    """One kernel whose machine code differs, for the machine's architecture."""

    operator: Name
    implementation: OptionalName = None  # None: unknown
    kernel: Words
    architecture: Name
    state: Literal["changed", "new", "gone"]
    facts: tuple[CodeFact, ...] = Field(default=(), max_length=MOST_FACTS)
    instructions: tuple[CodeFact, ...] = Field(default=(), max_length=MOST_FACTS)  # the total first, then the largest


class Cost(ArtefactPart):
    """Runs and time of the gate."""

    runs: Count  # of each commit, at most
    minutes: Annotated[float, Field(ge=0, le=1e6)]
    stopped: StopReason


class GateArtefact(ArtefactPart):
    """The result of a gate on one machine. Rows: regressions first, then inconclusive ones, the largest first."""

    schema_version: Literal[1] = 1
    project: Name
    base: ArtefactCommit
    head: ArtefactCommit
    machine: OptionalName = None  # None: nothing was measured
    gpu: OptionalName = None
    outcome: Outcome
    threshold: Share  # the smallest relative change that matters
    family_error: Share  # family-wise error rate of the whole gate
    rows: tuple[ArtefactRow, ...] = Field(max_length=MOST_ROWS)
    rows_left_out: Count = 0  # rows that do not fit, unchanged ones first
    left_out: tuple[LeftOut, ...] = Field(default=(), max_length=64)  # of these, those that are not unchanged
    drift: ArtefactDrift | None = None
    code: tuple[CodeDifference, ...] = Field(default=(), max_length=MOST_KERNELS)
    code_left_out: Count = 0
    notes: tuple[Words, ...] = Field(default=(), max_length=MOST_NOTES)  # remarks on the comparison as a whole
    inconclusive: Inconclusive = "neutral"  # how the policy treats an inconclusive outcome
    fault: Fault | None = None  # why head cannot be merged, whatever its measurements
    cost: Cost

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.base.hash == self.head.hash:
            raise ValueError("base and head are one commit")
        if sum(each.count for each in self.left_out) > self.rows_left_out:
            raise ValueError("left_out counts more rows than rows_left_out")
        if len({row.series.key for row in self.rows}) != len(self.rows):
            raise ValueError("two rows of one series")
        if self.outcome is not (expected := outcome_of(self.judged)):
            raise ValueError(f"the outcome is {self.outcome.value}, but that of the rows is {expected.value}")
        return self

    @property
    def judged(self) -> tuple[ArtefactRow | LeftOut, ...]:
        """The rows, and those that are only counted."""
        return (*self.rows, *self.left_out)

    @property
    def is_blocking(self) -> bool:
        """Whether the change must not be merged as it is."""
        is_open = self.inconclusive == "failure" and is_inconclusive(self.judged)
        return self.fault is not None or is_open or any(map(is_blocking, self.judged))

    def count(self, verdict: Verdict) -> int:
        """Number of series with that verdict, including those left out."""
        hidden = sum(each.count for each in self.left_out if each.verdict is verdict)
        if verdict is Verdict.UNCHANGED:
            hidden = self.rows_left_out - sum(each.count for each in self.left_out)
        return hidden + sum(row.verdict is verdict for row in self.rows)

    def code_of(self, row: ArtefactRow) -> tuple[CodeDifference, ...]:
        """Differences of compiled code of a row's kernel."""
        return tuple(
            each
            for each in self.code
            if each.operator == row.kernel and each.implementation in {None, row.series.implementation}
        )


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
        raise ArtefactError(f"{path} is not an artefact of `warpwatch gate --artefact`: {_fault(error)}") from error


def _fault(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    known = [str(part) if isinstance(part, int) or part in _FIELDS else "?" for part in first["loc"]]
    where = ".".join(known) or "the file"
    if first["type"] == "extra_forbidden":
        return f"{where}: unknown key"
    return f"{where}: {plain(first['msg'], 200)}"


_FIELDS = frozenset(name for part in ArtefactPart.__subclasses__() for name in part.model_fields)
