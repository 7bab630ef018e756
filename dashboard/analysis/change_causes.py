"""Evidence for the cause of a kernel's newest change: what was launched, machine code, harness, driver, libraries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..model.kernel_line import KernelLine
from ..model.series import Series
from ..store import Store, queries
from ..store.queries.change_evidence import LaunchesAt

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
