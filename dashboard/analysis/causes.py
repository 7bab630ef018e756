"""Likely causes of a change, by what was recorded at both of its ends, and one sentence on machine or code."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any

from ..model import quantities
from ..model.changepoint import SeriesChange
from ..model.compiled_code import CodeChange, compiled_difference
from ..model.kernel_line import KernelLine
from ..model.metric import Metric
from ..model.naming import SOFTWARE_NAMES, software_version
from ..model.series import Origin, Series
from ..model.verdict import Control
from ..store import Store, queries
from ..store.queries.change_evidence import ChangeEvidence, LaunchesAt, ReferenceValues

_MOST = 5
_LEAST = 0.01  # relative difference of cycles, clock or a baseline, below which it is not mentioned as a cause
_STILL = 0.03  # change of a baseline, below which the suite measures as before
_CODE = 0.6  # weight of other machine code with the same launched kernels
_SOFTWARE = 0.5
_LEAST_SHARE = 0.05  # of a change, below which a clock is not mentioned
_COUNTER = 0.05  # of evidence against a cause: mentioned last
_UNCHANGED_SHARE = 0.25  # of a change, in the controls: they did not change
_MOSTLY = 0.5  # likewise: the machine is the likelier cause


class CauseKind(StrEnum):
    KERNEL = "launched kernel"
    CYCLES = "SM cycles"
    CODE = "machine code"
    CLOCK = "clock"
    SOFTWARE = "driver and software"
    HARNESS = "harness"
    BASELINE = "baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One piece of evidence on a change's cause."""

    kind: CauseKind
    text: str
    weight: float  # about the share of the change that it explains; 1 is all


def likely_causes(
    change: SeriesChange, metric: Metric, evidence: ChangeEvidence, label: Callable[[str], str] = str
) -> tuple[Cause, ...]:
    """Up to five causes, strongest first. Evidence against the machine (a baseline that did not change) is last.

    `label`: the displayed name of an implementation.
    """
    whole = _log(change.before, change.after)
    before, after = (_measuring(origin) for origin in (evidence.origin_before, evidence.origin_after))
    found = [
        *_launched(before, after),
        *_compiled(evidence),
        *_software(evidence.origin_before, evidence.origin_after),
        *_harness(evidence, before, after),
    ]
    if metric.is_time:
        found += [*_cycles(before, after, whole), *_clock(before, after, whole), *_references(evidence, whole, label)]
    found.sort(key=lambda cause: -cause.weight)
    return tuple(found[:_MOST])


def _measuring(origin: Origin | None) -> Mapping[str, Any]:
    return origin.measuring if origin is not None else {}


def _log(before: float | None, after: float | None) -> float | None:
    return math.log(after / before) if before and after and before > 0 and after > 0 else None


def _explained(part: float | None, whole: float | None) -> float:
    """Share of a change in the same direction, 0 to 1."""
    return min(max(part / whole, 0.0), 1.0) if part is not None and whole else 0.0


def _launched(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Cause]:
    old, new = before.get("launched"), after.get("launched")
    if not isinstance(old, Mapping) or not isinstance(new, Mapping) or not old or not new or old == new:
        return []
    if old.keys() == new.keys():
        text = f"number of launches changed: {_launches(old)} → {_launches(new)} per call"
        return [Cause(kind=CauseKind.KERNEL, text=text, weight=1.0)]
    gone, came = ({name: n for name, n in one.items() if name not in other} for one, other in ((old, new), (new, old)))
    if gone and came:
        text = f"different kernel launched: {_names(gone)} → {_names(came)}"
    else:
        text = f"{'further' if came else 'fewer'} kernels launched: {_names(came or gone)}"
    return [Cause(kind=CauseKind.KERNEL, text=text, weight=1.0)]


def _launches(launched: Mapping[str, Any]) -> int:
    return sum(launched.values())


def _names(launched: Mapping[str, Any]) -> str:
    names = sorted(launched)
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _cycles(before: Mapping[str, Any], after: Mapping[str, Any], whole: float | None) -> list[Cause]:
    part = _log(before.get("sm_cycles"), after.get("sm_cycles"))
    if part is None or abs(part) < _LEAST:
        return []
    text = f"SM cycles {quantities.change(quantities.relative_change(part))}"
    return [Cause(kind=CauseKind.CYCLES, text=text, weight=0.95 * _explained(part, whole))]


def _clock(before: Mapping[str, Any], after: Mapping[str, Any], whole: float | None) -> list[Cause]:
    old, new = (_median(one.get("sm_clock_hz")) for one in (before, after))
    part = _log(old, new)
    explained = _explained(-part, whole) if part is not None else 0.0
    if part is None or abs(part) < _LEAST or explained < _LEAST_SHARE:
        return []
    text = f"SM clock {quantities.quantity(old, 'Hz')} → {quantities.quantity(new, 'Hz')}"
    return [Cause(kind=CauseKind.CLOCK, text=text, weight=0.9 * explained)]


def _median(values: object) -> float | None:
    if isinstance(values, Sequence) and values and all(isinstance(each, int | float) for each in values):
        return float(median(values))
    return None


def _compiled(evidence: ChangeEvidence) -> list[Cause]:
    hashes = [_measuring(origin).get("code_sha256") for origin in (evidence.origin_before, evidence.origin_after)]
    difference = compiled_difference(evidence.compiled_before, evidence.compiled_after)
    ran = {name for end in (evidence.origin_before, evidence.origin_after) for name in _ran(end)}
    of_launched = [each for each in difference.changes if each.kernel in ran]
    if None not in hashes and hashes[0] == hashes[1] and not of_launched:
        return [Cause(kind=CauseKind.CODE, text="machine code identical at both commits", weight=_COUNTER)]
    changes = of_launched or difference.changes
    details = next((words for each in changes if (words := _code_words(each))), "")
    if None not in hashes or changes:
        return [Cause(kind=CauseKind.CODE, text=f"machine code changed{details}", weight=_CODE)]
    return []


def _ran(origin: Origin | None) -> Sequence[str]:
    launched = _measuring(origin).get("launched")
    return list(launched) if isinstance(launched, Mapping) else []


def _code_words(each: CodeChange) -> str:
    facts = [fact for fact in each.facts if fact.name != "code"][:3] or list(each.instructions[:1])
    words = ", ".join(
        f"{'instructions' if fact.name == 'total' else fact.name} {quantities.quantity(fact.before, fact.unit)} → "
        f"{quantities.quantity(fact.after, fact.unit)}"
        for fact in facts
    )
    return f": {words}" if words else ""


def _software(before: Origin | None, after: Origin | None) -> list[Cause]:
    """Another driver, or another version of a library that both ends state."""
    if before is None or after is None:
        return []
    old, new = (
        {"driver": origin.gpu.get("driver"), **{k: v for k, v in origin.software.items() if k in _SOFTWARE_FACTS}}
        for origin in (before, after)
    )
    words = [
        SOFTWARE_NAMES.get(name, name)
        + " "
        + " → ".join(software_version(name, str(each[name])) for each in (old, new))
        for name in _SOFTWARE_FACTS
        if old.get(name) and new.get(name) and old[name] != new[name]
    ]
    return [Cause(kind=CauseKind.SOFTWARE, text=", ".join(words), weight=_SOFTWARE)] if words else []


_SOFTWARE_FACTS = ("driver", "torch", "cuda", "cudnn", "triton", "python")


def _harness(evidence: ChangeEvidence, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Cause]:
    words = [
        f"{name} {before[name]} → {after[name]}"
        for name in ("timer", "cache", "backend")
        if before.get(name) and after.get(name) and before[name] != after[name]
    ]
    if words:
        return [Cause(kind=CauseKind.HARNESS, text=f"measured differently: {', '.join(words)}", weight=_SOFTWARE)]
    suites = evidence.suite_before, evidence.suite_after
    if None in suites or suites[0] == suites[1] or any(_is_still(each) for each in evidence.baselines):
        return []
    return [Cause(kind=CauseKind.HARNESS, text="files of the benchmark suite changed", weight=0.2)]


def _is_still(reference: ReferenceValues) -> bool:
    """Whether it hardly changed: then the suite measures as before."""
    part = _log(reference.before, reference.after)
    return part is not None and abs(part) < _STILL


def _references(evidence: ChangeEvidence, whole: float | None, label: Callable[[str], str]) -> list[Cause]:
    """The fastest baseline in the runs of both ends."""
    baseline = min(evidence.baselines, key=lambda each: each.before, default=None)
    if baseline is None:
        return []
    part = _log(baseline.before, baseline.after)
    moved = quantities.change(quantities.relative_change(part)) if part is not None else None
    if part is None or moved is None:
        return []
    text = f"{label(baseline.series.implementation or '')} on the same GPUs {moved}"
    is_cause = abs(part) >= _LEAST and _explained(part, whole) >= _UNCHANGED_SHARE
    return [
        Cause(kind=CauseKind.BASELINE, text=text, weight=0.9 * _explained(part, whole) if is_cause else _COUNTER / 2)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """How far ahead of the fastest baseline a series is: baseline over own value at the head, and at the base."""

    baseline: ReferenceValues
    now: float
    before: float


def lead_over_baseline(evidence: ChangeEvidence) -> Lead | None:
    """The lead over the baseline that is fastest at the head commit; None without one."""
    own = evidence.own
    fastest = min(evidence.baselines, key=lambda each: each.after, default=None)
    if own is None or fastest is None or own.before <= 0 or own.after <= 0:
        return None
    return Lead(baseline=fastest, now=fastest.after / own.after, before=fastest.before / own.before)


def cause_sentence(change: SeriesChange, metric: Metric) -> str:
    """Whether the machine or the code is the likely cause, in one sentence."""
    share = change.share
    if metric.is_exact:
        return "Exact value: the code caused it."
    if change.is_confirmed:
        return "Both commits were measured again in turns and differ, so the code is the cause."
    if share is None and change.gpus is not None:
        return "The difference between GPUs is subtracted, so the code is the likely cause."
    if share is None:
        return "No reference benchmark ran, so machine and code cannot be distinguished."
    controls = _CONTROLS[share.control]
    if share.ci_high < 0:
        return f"{controls} changed in the opposite direction, so the machine is not the cause."
    if share.ci_low <= 0 and share.ci_high < _UNCHANGED_SHARE:
        return f"{controls} did not change, so the code is the likely cause."
    upper = "the whole change" if share.ci_high >= 1 else f"up to {quantities.share(share.ci_high)} of the change"
    if share.ci_low <= 0:
        return (
            f"Unclear: {_lower(controls)} may have moved too; {upper} may be the machine. Measure both commits again."
        )
    part = quantities.share(min(share.value, 1.0))
    if share.ci_high < _MOSTLY:
        return f"{controls} moved too, but by less: about {part} of the change is the machine’s, the rest the code’s."
    if share.ci_low > _MOSTLY:
        return f"{controls} moved too: about {part} of the change is the machine’s, so the machine is the likely cause."
    return f"Unclear: {_lower(controls)} moved too; about {part} of the change is the machine’s. Measure both again."


_CONTROLS = {
    Control.CANARIES: "The canaries on this machine",
    Control.BASELINES: "The baselines on this machine",
    Control.OTHERS: "Other benchmarks on this machine",
}


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


_COMMITS = 24  # newest changes with evidence
_HARNESS = "suite"  # as `queries.commit_software` calls it


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareChange:
    """A driver, library or the harness that differs between two commits' runs."""

    name: str  # "suite" is the harness
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCause:
    """What differs between a commit and the one before it on the same machine, of the series that changed."""

    launched: str | None  # a kernel that only the commit launches, in place of another one
    with_code: int  # changed series whose machine code is known at both commits
    code_changed: int  # of them
    software: tuple[SoftwareChange, ...]


def change_causes(store: Store, project: str, lines: Iterable[KernelLine]) -> dict[str, ChangeCause]:
    """The evidence by key of the line, for lines with a change; without a commit before it there is none."""
    changed = [(line, line.change_commit) for line in lines if line.change_commit is not None]
    changed.sort(key=lambda pair: -pair[1].position)
    newest = {(line.machine, commit.hash): None for line, commit in changed}
    launches = queries.launches_at(store, project, list(newest)[:_COMMITS])
    software = {name: queries.commit_software(store, project, name) for name, _ in launches}
    return {
        line.key: _cause(line.changed_at(commit), at, software[line.machine])
        for line, commit in changed
        if (at := launches.get((line.machine, commit.hash))) is not None
    }


def software_changes(before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]) -> tuple[SoftwareChange, ...]:
    """The facts that both runs recorded and that differ."""
    known = dict(before)
    return tuple(
        SoftwareChange(name=name, before=known[name], after=value)
        for name, value in after
        if value and known.get(name) and known[name] != value
    )


def _cause(series: Iterable[Series], at: LaunchesAt, software: Mapping[int, Sequence[tuple[str, str]]]) -> ChangeCause:
    keys = dict.fromkeys((each.suite, each.workload or "", each.implementation or "") for each in series)
    pairs = [(at.before_of[key], at.after_of[key]) for key in keys if key in at.before_of and key in at.after_of]
    codes = [(old.code_sha256, new.code_sha256) for old, new in pairs if old.code_sha256 and new.code_sha256]
    swapped = (
        new.kernels[0] if len(new.kernels) == 1 else next(name for name in new.kernels if name not in old.kernels)
        for old, new in pairs
        if old.kernels and set(new.kernels) - set(old.kernels) and set(old.kernels) - set(new.kernels)
    )
    return ChangeCause(
        launched=next(swapped, None),
        with_code=len(codes),
        code_changed=sum(old != new for old, new in codes),
        software=software_changes(software.get(at.before, ()), software.get(at.commit, ())),
    )
