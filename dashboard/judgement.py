"""Judges the findings of each machine together: which changes are the machine's, and how surely the rest are real.

Each series was analysed alone (analysis.py). What its machine did meanwhile, its controls tell; how many alarms so many
series raise by chance, the false discovery rate. All of a machine is judged at once, from what is stored alone, so that
neither the order in which series were analysed nor a process that was killed makes a difference.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import NormalDist

import numpy as np

from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.statistics.detection import SMALLEST_CHANGE
from warpwatch.dashboard.statistics.false_discovery import q_values
from warpwatch.dashboard.statistics.machine_state import (
    FEWEST,
    Control,
    Shift,
    Shifts,
    control_shifts,
    is_machines,
    machine_shift,
    remainder,
    share,
)
from warpwatch.dashboard.store.judged import (
    ControlLevels,
    FoundChange,
    FoundSeries,
    Judgement,
    MachineFindings,
    read_findings,
    unjudged_machines,
    write_judgement,
)
from warpwatch.dashboard.store.store import Store

_MOST_IN_VAIN = 3  # times that others changed the findings meanwhile; they will judge them too
_NORMAL_95 = 1.96


def judge(store: Store, *, only: str | None = None) -> None:
    """Judges every machine whose findings have changed. `only` names a project, if not all are meant."""
    for machine in unjudged_machines(store, only):
        for _ in range(_MOST_IN_VAIN):
            findings = read_findings(store, machine)
            if findings is None or write_judgement(store, findings, judged(findings)):
                break


def judged(findings: MachineFindings) -> tuple[Judgement, ...]:
    """What is said of each change."""
    followed: dict[tuple[int, str], list[FoundChange]] = defaultdict(list)
    for change in findings.changes:
        if change.series.family is not None and change.low < change.high and change.low > -1:
            followed[change.series.environment, change.series.family].append(change)
    told: dict[int, tuple[Control, Shift]] = {}
    for place, changes in followed.items():
        told |= _machines_part(changes, findings.controls.get(place, ()))
    explained = [(change, *_explained(change, told.get(id(change)))) for change in findings.changes]
    return _with_q(explained, findings.family)


_Explained = tuple[FoundChange, ChangeKind, Control | None, Shift | None, float]


def _explained(
    change: FoundChange, told: tuple[Control, Shift] | None
) -> tuple[ChangeKind, Control | None, Shift | None, float]:
    """Kind, who spoke for the machine, its share, and the chance of what remains."""
    if change.series.is_canary:
        return ChangeKind.MACHINE_STATE, None, None, change.chance
    if told is None:
        return ChangeKind.STEP, None, None, change.chance
    control, machine = told
    own = Shift(value=math.log1p(change.magnitude), low=math.log1p(change.low), high=math.log1p(change.high))
    if own.value == 0:
        return ChangeKind.STEP, None, None, change.chance
    its_share, rest = share(own, machine), remainder(own, machine)
    if is_machines(its_share, rest, SMALLEST_CHANGE):
        return ChangeKind.MACHINE_STATE, control, its_share, change.chance
    chance = change.chance
    if its_share.low > 0 and rest.half > 0:  # surely some of it is the machine's: what counts is the rest
        chance = max(chance, 2 * NormalDist().cdf(-abs(rest.value) / (rest.half / _NORMAL_95)))
    return ChangeKind.STEP, control, its_share, chance


def _with_q(explained: Sequence[_Explained], family: int) -> tuple[Judgement, ...]:
    """With the q of each step among all series of its run: the machine at the commit."""
    runs: dict[int, list[int]] = defaultdict(list)
    for number, (change, kind, *_) in enumerate(explained):
        if kind is ChangeKind.STEP and change.series.in_family:
            runs[change.commit_id].append(number)
    q: dict[int, float] = {}
    for members in runs.values():
        q.update(zip(members, q_values([explained[number][4] for number in members], family), strict=True))
    return tuple(
        Judgement(change=change, kind=kind, control=control, share=its_share, q_value=q.get(number))
        for number, (change, kind, control, its_share, _) in enumerate(explained)
    )


def _machines_part(
    changes: Sequence[FoundChange], cards: Sequence[ControlLevels]
) -> dict[int, tuple[Control, Shift]]:  # fmt: skip
    """What the machine did across each change, by the change's id, where enough controls of its card tell."""
    found: dict[int, tuple[Control, Shift]] = {}
    ranges = sorted({(change.range_start, change.range_end) for change in changes})
    column = {each: number for number, each in enumerate(ranges)}
    starts, ends = (np.array(each, dtype=np.int64) for each in zip(*ranges, strict=True))
    heard = [
        control_shifts(
            card.levels, np.searchsorted(card.places, starts, "right"), np.searchsorted(card.places, ends, "left")
        )
        for card in cards
    ]
    for change in changes:
        at = column[change.range_start, change.range_end]
        for card, shifts in _measured_there(change, cards, heard):
            part = _part(change.series, card.controls, shifts, at)
            if part is not None:
                found[id(change)] = part
                break
    return found


def _measured_there(
    change: FoundChange, cards: Sequence[ControlLevels], heard: Sequence[Shifts]
) -> Iterable[tuple[ControlLevels, Shifts]]:  # fmt: skip
    """The cards that ran at the change's commit; a machine's name may be several cards'."""
    for card, shifts in zip(cards, heard, strict=True):
        place = int(np.searchsorted(card.places, change.place))
        if place < len(card.places) and card.places[place] == change.place:
            yield card, shifts


def _part(
    series: FoundSeries, controls: Sequence[FoundSeries], shifts: Shifts, at: int
) -> tuple[Control, Shift] | None:  # fmt: skip
    """The machine's part by the first who can tell; by those of the series' own bound, memory or math, where known."""
    known = ~np.isnan(shifts.value[:, at])
    for control in Control:
        mine = [
            number
            for number, one in enumerate(controls)
            if known[number] and one.control is control and one.id != series.id
            and (control is not Control.OTHERS or one.suite != series.suite)
        ]  # fmt: skip
        alike = [number for number in mine if controls[number].memory_bound == series.memory_bound]
        chosen = alike if series.memory_bound is not None and len(alike) >= FEWEST[control] else mine
        if len(chosen) < FEWEST[control] or (control is Control.OTHERS and _suites(controls, chosen) < _FEWEST_SUITES):
            continue
        part = machine_shift(shifts.value[chosen, at].tolist(), shifts.error[chosen, at].tolist())
        return control, part if series.sign > 0 else Shift(value=-part.value, low=-part.high, high=-part.low)
    return None


_FEWEST_SUITES = 4  # that other series must come from: those of one share the code under test


def _suites(controls: Sequence[FoundSeries], chosen: Iterable[int]) -> int:
    return len({controls[number].suite for number in chosen})
