"""Judges the findings of each machine together: which changes are the machine's, and how surely the rest are real.

Each series was analysed alone (analysis.py). What its machine did meanwhile, its controls tell; how many alarms so many
series raise by chance, the false discovery rate. All of a machine is judged at once, from what is stored alone, so that
neither the order in which series were analysed nor a process that was killed makes a difference.
"""

import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from warpwatch.dashboard.faults import located
from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.statistics.detection import SMALLEST_CHANGE
from warpwatch.dashboard.statistics.false_discovery import LIMIT, q_values
from warpwatch.dashboard.statistics.machine_state import (
    FEWEST,
    Control,
    Ints,
    Shift,
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

_log = logging.getLogger(__name__)

_MOST_IN_VAIN = 3  # times that others changed the findings meanwhile; they will judge them too
_NORMAL_95 = 1.96


def judge(store: Store, *, only: str | None = None) -> None:
    """Judges every machine whose findings have changed. `only` names a project, if not all are meant."""
    for machine in unjudged_machines(store, only):
        for _ in range(_MOST_IN_VAIN):
            findings = read_findings(store, machine)
            if findings is None:
                break
            try:
                judgements = judged(findings)
            except Exception as error:  # a fault of ours: the other machines are well
                _log.error("machine %d of %s could not be judged (%s); what was said of its changes stands, and it is"
                           " tried again with the next import. Please report this",
                           machine.id, machine.project, located(error))  # fmt: skip
                break
            if write_judgement(store, findings, judgements):
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
    return _with_q(explained, findings.families)


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
    if control is Control.OTHERS:  # they may share what the commit changed: a person decides
        return ChangeKind.STEP, control, its_share, change.chance
    if is_machines(its_share, rest, SMALLEST_CHANGE):
        return ChangeKind.MACHINE_STATE, control, its_share, change.chance
    chance = change.chance
    if its_share.low > 0 and rest.half > 0:  # surely some of it is the machine's: what counts is the rest
        chance = max(chance, 2 * NormalDist().cdf(-abs(rest.value) / (rest.half / _NORMAL_95)))
    return ChangeKind.STEP, control, its_share, chance


def _with_q(explained: Sequence[_Explained], families: Mapping[int, int]) -> tuple[Judgement, ...]:
    """With the q of each step among all series of its run: the machine, in an environment, at the commit.

    A step whose q is above the limit may be chance: no commit is accused of it, and none praised.
    """
    runs: dict[tuple[int, int], list[int]] = defaultdict(list)
    q: dict[int, float] = {}
    for number, (change, kind, *_) in enumerate(explained):
        if kind is ChangeKind.STEP and change.series.is_ours:
            if change.series.is_exact:
                q[number] = 0.0
            else:
                runs[change.series.environment, change.commit_id].append(number)
    for (environment, _), members in runs.items():
        family = max(families.get(environment, 0), len(members))  # series that nobody lists any more count no longer
        q.update(zip(members, q_values([explained[number][4] for number in members], family), strict=True))
    return tuple(
        Judgement(
            change=change, kind=ChangeKind.MAY_BE_CHANCE if q.get(number, 0.0) > LIMIT else kind, control=control,
            share=its_share, q_value=q.get(number),
        )
        for number, (change, kind, control, its_share, _) in enumerate(explained)
    )  # fmt: skip


def _machines_part(
    changes: Sequence[FoundChange], cards: Sequence[ControlLevels]
) -> dict[int, tuple[Control, Shift]]:  # fmt: skip
    """What the machine did across each change, by the change's id, where enough controls tell.

    Of several cards that measured the commit of the change the first speaks.
    """
    found: dict[int, tuple[Control, Shift]] = {}
    ranges = sorted({(change.range_start, change.range_end) for change in changes})
    column = {each: number for number, each in enumerate(ranges)}
    starts, ends = (np.array(each, dtype=np.int64) for each in zip(*ranges, strict=True))
    heard = [_Heard(card, starts, ends) for card in cards]
    for change in changes:
        for card in heard:
            if change.place in card.places:
                part = card.part(change.series, column[change.range_start, change.range_end])
                if part is not None:
                    found[id(change)] = part
                    break
    return found


_Key = tuple[str | None, bool | None, int | None]  # what makes a series ask others than the next one does


class _Heard:
    """What the controls of one card did across ranges."""

    def __init__(self, card: ControlLevels, starts: Ints, ends: Ints) -> None:
        before, after = np.searchsorted(card.places, starts, "right"), np.searchsorted(card.places, ends, "left")
        shifts = control_shifts(card.levels, before, after)
        self.places = frozenset(card.places.tolist())  # where it ran
        self._controls = card.controls
        self._values: list[list[float]] = shifts.value.T.tolist()  # by range and control; NaN: not known
        self._errors: list[list[float]] = shifts.error.T.tolist()
        self._ids, self._suites = {one.id for one in card.controls}, {one.suite for one in card.controls}
        self._asked: dict[_Key, list[tuple[Control, list[int]]]] = {}
        self._told: dict[tuple[_Key, int], tuple[Control, Shift] | None] = {}

    def part(self, series: FoundSeries, at: int) -> tuple[Control, Shift] | None:
        """The machine's part in a range by the first who can tell."""
        own_suite, itself = series.suite in self._suites, series.id in self._ids
        key = (series.suite if own_suite else None, series.memory_bound, series.id if itself else None)
        if (key, at) not in self._told:
            self._told[key, at] = self._first_told(series, key, at)
        told = self._told[key, at]
        if told is None or series.sign > 0:
            return told
        control, part = told
        return control, Shift(value=-part.value, low=-part.high, high=-part.low)

    def _first_told(self, series: FoundSeries, key: _Key, at: int) -> tuple[Control, Shift] | None:
        values, errors = self._values[at], self._errors[at]
        for control, speakers in self._speakers(series, key):
            chosen = [number for number in speakers if values[number] == values[number]]
            if self._enough(control, chosen):
                return control, machine_shift([values[n] for n in chosen], [errors[n] for n in chosen])
        return None

    def _speakers(self, series: FoundSeries, key: _Key) -> list[tuple[Control, list[int]]]:
        """Who may speak for the machine to a series, the first first: those of its own bound before all of a kind.

        A kernel that memory bounds does not follow the clock of the math units, so that controls with the same bound
        are more alike. Other series that share a suite with it may share the code that changed.
        """
        if key not in self._asked:
            told = []
            for control in Control:
                mine = [
                    number
                    for number, one in enumerate(self._controls)
                    if one.control is control and one.id != series.id
                    and (control is not Control.OTHERS or one.suite != series.suite)
                ]  # fmt: skip
                alike = [number for number in mine if self._controls[number].memory_bound == series.memory_bound]
                told += [(control, alike), (control, mine)] if series.memory_bound is not None else [(control, mine)]
            self._asked[key] = told
        return self._asked[key]

    def _enough(self, control: Control, chosen: Sequence[int]) -> bool:
        if len(chosen) < FEWEST[control]:
            return False
        if control is not Control.OTHERS:
            return True
        suites = set()
        for number in chosen:  # mostly the first few are of enough
            suites.add(self._controls[number].suite)
            if len(suites) == _FEWEST_SUITES:
                return True
        return False


_FEWEST_SUITES = 4  # that other series must come from
