"""Comparison of two commits that different GPUs of one model measured, by what unchanged code shows on both.

References are series that no commit changed: canaries, baselines, and ours where both commits ran the same machine
code. A baseline is none between two versions of the libraries that it comes with; canaries and equal machine code
remain.
"""

import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from ..model.comparison import AcrossGpus, Estimate
from ..model.machine import HardwareLimits, roofline_shares
from ..model.naming import gpu_name
from ..model.quantities import change as change_text
from ..model.quantities import in_seconds, latency, relative_change
from ..model.series import Series, Workloads, workload_of
from ..statistics.comparison import level
from ..statistics.gpu_effects import FEWEST, Deviations, Latencies, SessionEffects, session_effects
from ..statistics.gpu_spread import ReferenceSeries, Scatters, across_gpus, standardised
from ..store import queries
from ..store.column_records import MachineHistory, SeriesRuns
from ..store.commit_index import CommitIndex
from ..store.engine import Store
from ..store.queries.comparison_pairs import Pair
from .noise import level_ratio

SESSION_PAIRS = 8  # newest pairs of sessions that a series' scatter is taken from
_MOST_SHARE = 1.2  # of a latency: more means that the bytes did not come from memory
_LAUNCH_SHARE = 0.01  # of a short call, from which on a longer launch is noted
_LIBRARIES = frozenset({"cuda", "torch", "cudnn", "triton"})

Software = Mapping[int, tuple[tuple[str, str], ...]]  # by commit's id
Place = tuple[str, str]  # environment and noise family: whose series share effects
Session = tuple[int, int]  # commit's id, and the GPU's number


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesOfPair:
    """One series in two sessions."""

    series: Series
    base_s: float
    head_s: float
    is_reference: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionPair:
    """Two sessions that follow each other, the series that both measured, and their effects."""

    sessions: tuple[Session, Session]
    measured: tuple[SeriesOfPair, ...]
    effects: SessionEffects

    @property
    def references(self) -> list[ReferenceSeries]:
        """What each reference did."""
        series = [each for each in self.measured if each.is_reference]
        return [
            ReferenceSeries(
                key=each.series.key, is_ours=each.series.is_ours, level_s=each.base_s, deviation=float(deviation)
            )
            for each, deviation in zip(series, standardised(self.effects), strict=True)
        ]

    def deviations(self, rooflines: "Rooflines") -> Deviations:
        """Of all series; a reference's from what the others predict."""
        is_reference = np.array([each.is_reference for each in self.measured])
        found = self.effects.of(rooflines.latencies(self.measured))
        columns = []
        for name in ("expected", "deviation", "variance"):
            column = getattr(found, name).copy()
            column[is_reference] = getattr(self.effects.left_out, name)
            columns.append(column)
        return Deviations(expected=columns[0], deviation=columns[1], variance=columns[2])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rooflines:
    """What a workload's shares of memory and compute time are taken from."""

    workloads: Workloads
    limits: Mapping[str, HardwareLimits]  # by machine

    def latencies(self, measured: Sequence[SeriesOfPair]) -> Latencies:
        """The columns of the model."""
        shares = np.array([self._shares(each) for each in measured]).reshape(-1, 2)
        return Latencies(
            base_s=np.array([each.base_s for each in measured]),
            head_s=np.array([each.head_s for each in measured]),
            memory_share=np.minimum(shares[:, 0], _MOST_SHARE),
            compute_share=np.minimum(shares[:, 1], _MOST_SHARE),
            group=tuple(f"{each.series.suite} {each.series.implementation}" for each in measured),
        )

    def _shares(self, measured: SeriesOfPair) -> tuple[float, float]:
        workload = workload_of(measured.series, self.workloads)
        limits = self.limits.get(measured.series.machine)
        return roofline_shares(workload, limits, measured.base_s) if workload and limits else (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AcrossGpuComparison:
    """Changes across GPUs, and notes on the comparison as a whole."""

    changes: Mapping[str, tuple[Estimate, AcrossGpus]] = field(default_factory=dict)  # by the key of the series
    references: Mapping[str, int] = field(default_factory=dict)  # by the key of the series, where they are too few
    notes: tuple[str, ...] = ()


def compare_across_gpus(store: Store, project: str, found: Sequence[Pair], workloads: Workloads) -> AcrossGpuComparison:
    """Compare the times of the pairs that no GPU measured on both sides."""
    groups: dict[tuple[str, Place, tuple[str, str]], list[Pair]] = defaultdict(list)
    for pair in found:
        family = pair.series.metric.noise_family
        if pair.other_gpus is not None and family is not None and level_ratio(pair) is not None:
            groups[pair.series.machine, (pair.series.environment, family), pair.other_gpus].append(pair)
    if not groups:
        return AcrossGpuComparison()
    rooflines = project_rooflines(store, project, workloads)
    changes: dict[str, tuple[Estimate, AcrossGpus]] = {}
    too_few: dict[str, int] = {}
    notes: list[str] = []
    for (machine, place, gpus), pairs in groups.items():
        software = queries.commit_software(store, project, machine)
        measured = tuple(_measured(pair, software) for pair in pairs)
        now = session_pair(((pairs[0].sides[0], -1), (pairs[0].sides[1], -1)), measured, rooflines)
        if now is None:
            known = sum(each.is_reference for each in measured)
            too_few |= {pair.series.key: known for pair in pairs if pair.series.is_ours}
            continue
        before = machine_sessions(store, project, machine, rooflines).get(place, ())
        found_changes = changes_across(
            now, before, rooflines, [(len(pair.base.runs), len(pair.head.runs)) for pair in pairs]
        )
        changes |= found_changes
        if place[1] == "latency":
            notes.append(_note(machine, gpus, now, changed(software, *pairs[0].sides)))
    return AcrossGpuComparison(changes=changes, references=too_few, notes=tuple(notes))


def changes_across(
    now: SessionPair, before: Iterable[SessionPair], rooflines: Rooflines, runs: Sequence[tuple[int, int]]
) -> dict[str, tuple[Estimate, AcrossGpus]]:
    """The changes of our series, by key."""
    scatters = scatters_of_others(now, before)
    found = now.deviations(rooflines)
    ours = [place for place, each in enumerate(now.measured) if each.series.is_ours]
    series = [now.measured[place] for place in ours]
    compared = across_gpus(
        now.effects,
        found.take(ours),
        [scatters.of(each.series.key, each.base_s, is_ours=True) for each in series],
        runs=[runs[place] for place in ours],
    )
    return {each.series.key: change for each, change in zip(series, compared, strict=True)}


def scatters_of_others(now: SessionPair, pairs: Iterable[SessionPair]) -> Scatters:
    """How series scatter, by the newest of the machine's `pairs` of sessions.

    Those at head's commit are left out: a deviation of head's own session would judge the series by itself.
    """
    head = now.sessions[1][0]
    others = [pair for pair in pairs if head not in {pair.sessions[0][0], pair.sessions[1][0]}]
    return Scatters([each for pair in others for each in pair.references], now.references)


def session_pair(
    sessions: tuple[Session, Session], measured: Sequence[SeriesOfPair], rooflines: Rooflines
) -> SessionPair | None:
    """None with too few references."""
    effects = session_effects(rooflines.latencies([each for each in measured if each.is_reference]))
    return SessionPair(sessions=sessions, measured=tuple(measured), effects=effects) if effects is not None else None


def machine_sessions(
    store: Store, project: str, machine: str, rooflines: Rooflines, *, sample: int | None = None
) -> Mapping[Place, Sequence[SessionPair]]:
    """The machine's newest pairs of neighbouring sessions with enough references, by environment and noise family.

    `sample`: of so many of its series (`queries.machine_history`).
    """

    def read() -> Mapping[Place, Sequence[SessionPair]]:
        history = queries.machine_history(store, project, machine, sample=sample)
        software = queries.commit_software(store, project, machine)
        found: dict[Place, list[SessionPair]] = {}
        comparable = _with_references(history) if history is not None else None
        for place, measured in neighbours(comparable, software).items() if comparable is not None else ():
            for sessions, series in reversed([*measured.items()]):
                if len(found.get(place, ())) == SESSION_PAIRS:
                    break
                if (pair := session_pair(sessions, series, rooflines)) is not None:
                    found.setdefault(place, []).append(pair)
        return found

    return store.cached(project, ("machine sessions", machine, sample), read)


def _with_references(history: MachineHistory) -> MachineHistory:
    """The series of environments and noise families in which enough series can be references."""

    def place(runs: SeriesRuns) -> Place:
        return runs.series.environment, runs.series.metric.noise_family or ""

    able = Counter(
        place(runs)
        for runs in history.series
        if not runs.series.is_ours or runs.code or len(set(runs.gpu.tolist())) > 1
    )
    return replace(history, series=tuple(runs for runs in history.series if able[place(runs)] >= FEWEST))


def pooled_noise(
    store: Store, project: str, machine: str, workloads: Workloads | None = None, *, sample: int | None = None
) -> Mapping[str, float]:
    """The noise of one run of each of the machine's listed times, or of a sample of them, relative, by key.

    By its deviations in neighbouring sessions and those of series like it; a machine without references has none.
    """
    workloads = workloads if workloads is not None else queries.project_workloads(store, project)
    sessions = machine_sessions(store, project, machine, project_rooflines(store, project, workloads), sample=sample)
    history = queries.machine_history(store, project, machine, sample=sample) if sessions else None
    known = {
        place: Scatters([each for pair in pairs for each in pair.references], ()) for place, pairs in sessions.items()
    }
    typical = {place: median(pair.effects.scatter for pair in pairs) for place, pairs in sessions.items()}
    found = {}
    for runs in history.series if history is not None else ():
        place = (runs.series.environment, runs.series.metric.noise_family or "")
        if place in known:
            level_s = in_seconds(level(runs.value.tolist()), runs.series.metric.unit) or 0.0
            scatter = known[place].of(runs.series.key, level_s, is_ours=runs.series.is_ours)
            found[runs.series.key] = typical[place] * scatter.scale / math.sqrt(2)
    return found


def project_rooflines(store: Store, project: str, workloads: Workloads) -> Rooflines:
    """Of a project's machines, by their newest limits."""
    return Rooflines(workloads=workloads, limits={each.name: each.limits for each in queries.machines(store, project)})


def neighbours(
    history: MachineHistory, software: Software
) -> Mapping[Place, Mapping[tuple[Session, Session], Sequence[SeriesOfPair]]]:
    """What each two sessions measured that follow each other in a series; in the order of commits."""
    found: dict[Place, dict[tuple[Session, Session], list[SeriesOfPair]]] = defaultdict(lambda: defaultdict(list))
    started: dict[Session, int] = {}

    @functools.cache
    def libraries_differ(base: int, head: int) -> bool:
        return bool(changed(software, base, head) & _LIBRARIES)

    for runs in sorted(history.series, key=lambda each: each.series.key):  # the order of ids is that of imports
        family = runs.series.metric.noise_family
        if family is None:
            continue
        of_place = found[runs.series.environment, family]
        for commit, gpu, at in zip(runs.commit.tolist(), runs.gpu.tolist(), runs.started_ms.tolist(), strict=True):
            if at > started.get((commit, gpu), -2):
                started[commit, gpu] = at
        for (before, base_s), (after, head_s) in itertools.pairwise(sessions(runs, history.index)):
            is_reference = before[0] == after[0] or _is_reference(
                runs.series,
                is_same_code=before[0] in runs.code and runs.code[before[0]] == runs.code.get(after[0]),
                libraries_differ=libraries_differ(before[0], after[0]),
            )
            of_place[before, after].append(
                SeriesOfPair(series=runs.series, base_s=base_s, head_s=head_s, is_reference=is_reference)
            )
    index = history.index

    def order(pair: tuple[Session, Session]) -> tuple[object, ...]:
        before, after = (
            (int(index.position[np.searchsorted(index.commits, commit)]), index.gpu_names[gpu] or "")
            for commit, gpu in pair
        )
        return (started[pair[1]], after, before)

    return {place: {pair: pairs[pair] for pair in sorted(pairs, key=order)} for place, pairs in found.items()}


def changed(software: Software, base: int, head: int) -> frozenset[str]:
    """Names of the software that is known at both commits and differs."""
    before, after = (dict(software.get(commit, ())) for commit in (base, head))
    return frozenset(name for name, value in after.items() if value and before.get(name) not in {None, "", value})


def sessions(runs: SeriesRuns, index: CommitIndex) -> list[tuple[Session, float]]:
    """The median latency of each commit on each GPU, in seconds, in order."""
    commits, gpus, recorded = runs.commit.tolist(), runs.gpu.tolist(), runs.value.tolist()
    unit = runs.series.metric.unit
    if len(set(commits)) == len(commits):  # one run of each commit: already in order
        factor = in_seconds(1.0, unit) or 0.0
        return [((commit, gpu), value * factor) for commit, gpu, value in zip(commits, gpus, recorded, strict=True)]
    values: dict[Session, list[float]] = {}
    started: dict[Session, int] = {}
    for commit, gpu, value, at in zip(commits, gpus, recorded, runs.started_ms.tolist(), strict=True):
        values.setdefault((commit, gpu), []).append(value)
        started.setdefault((commit, gpu), at)
    place = {commit: number for number, commit in enumerate(dict.fromkeys(commits))}
    order = sorted(values, key=lambda each: (place[each[0]], started[each], index.gpu_names[each[1]] or ""))
    return [(session, in_seconds(level(values[session]), unit) or 0.0) for session in order]


def _is_reference(series: Series, *, is_same_code: bool, libraries_differ: bool) -> bool:
    if series.is_ours:
        return is_same_code
    return series.is_control or not libraries_differ


def _measured(pair: Pair, software: Software) -> SeriesOfPair:
    before, after = (
        in_seconds(level([run.value for run in side.runs]), pair.series.metric.unit) or 0.0
        for side in (pair.base, pair.head)
    )
    libraries_differ = bool(changed(software, *pair.sides) & _LIBRARIES)
    return SeriesOfPair(
        series=pair.series,
        base_s=before,
        head_s=after,
        is_reference=_is_reference(pair.series, is_same_code=pair.is_same_code, libraries_differ=libraries_differ),
    )


def _note(machine: str, gpus: tuple[str, str], now: SessionPair, differing: frozenset[str]) -> str:
    """What GPU, run and software did, for the comparison as a whole."""
    effects = now.effects
    moved = float(np.median(effects.left_out.expected))
    parts = [
        f"{machine}: base ran on {gpu_name(gpus[0])}, head on {gpu_name(gpus[1])}",
        f"{len(effects.references)} references changed by {change_text(relative_change(moved))} (median, subtracted)",
    ]
    if abs(effects.launch_s) >= _LAUNCH_SHARE * float(np.quantile(effects.references.base_s, 0.1)):
        sign = "+" if effects.launch_s > 0 else "−"
        parts.append(f"of it {sign}{latency(abs(effects.launch_s))} in every call")
    if differing:
        names = sorted("harness" if name == "suite" else name for name in differing)
        parts.append(f"{', '.join(names)} changed too")
    return "; ".join(parts)
