"""Judges the findings of each machine together: which changes are the machine's, and how surely the rest are real.

Each series was analysed alone (series_analysis.py). What its machine did meanwhile, its controls tell; how many alarms
so many series raise by chance, the false discovery rate. All of a machine is judged at once, from what is stored alone,
so that neither the order in which series were analysed nor a process that was killed makes a difference.
"""

import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ..model.error_location import located
from ..model.verdict import ChangeKind, Control
from ..statistics.detection import SMALLEST_CHANGE
from ..statistics.machine_attribution import (
    FEWEST,
    Ints,
    Shift,
    control_shifts,
    is_machines,
    machine_shifts,
    remainder,
    share,
)
from ..statistics.multiplicity import LIMIT, q_values
from ..store.classification import (
    Classification,
    ControlLevels,
    MachineChange,
    MachineFindings,
    MachineSeries,
    read_findings,
    unclassified_machines,
    write_classifications,
)
from ..store.engine import Store
from ..store.points import batches

_log = logging.getLogger(__name__)

_AT_ONCE = 5000  # changes, by as many controls as there are
_MOST_IN_VAIN = 3  # times that others changed the findings meanwhile; they will judge them too
_NORMAL_95 = 1.96


def judge(store: Store, *, only: str | None = None) -> None:
    """Judges every machine whose findings have changed. `only` names a project, if not all are meant."""
    for machine in unclassified_machines(store, only):
        for _ in range(_MOST_IN_VAIN):
            findings = read_findings(store, machine)
            if findings is None:
                break
            try:
                read_classifications = judged(findings)
            except Exception as error:  # a fault of ours: the other machines are well
                _log.error(
                    "machine %d of %s could not be judged (%s); what was said of its changes stands, and it is"
                    " tried again with the next import. Please report this",
                    machine.id,
                    machine.project,
                    located(error),
                )
                break
            if write_classifications(store, findings, read_classifications):
                break


def judged(findings: MachineFindings) -> tuple[Classification, ...]:
    """What is said of each change."""
    followed: dict[tuple[int, str], list[MachineChange]] = defaultdict(list)
    for change in findings.changes:
        if change.series.family is not None and change.low < change.high and change.low > -1:
            followed[change.series.environment, change.series.family].append(change)
    told: dict[int, tuple[Control, Shift]] = {}
    for place, changes in followed.items():
        told |= _machines_part(changes, findings.controls.get(place, ()))
    explained = [(change, *_explained(change, told.get(id(change)))) for change in findings.changes]
    return _with_q(explained, findings.families)


_Explained = tuple[MachineChange, ChangeKind, Control | None, Shift | None, float]


def _explained(
    change: MachineChange, told: tuple[Control, Shift] | None
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
    its_share = share(own, machine)
    if control is Control.OTHERS:  # they may share what the commit changed: a person decides
        return ChangeKind.STEP, control, its_share, change.chance
    rest = remainder(own, machine)
    if is_machines(its_share, rest, SMALLEST_CHANGE):
        return ChangeKind.MACHINE_STATE, control, its_share, change.chance
    chance = change.chance
    if its_share.low > 0 and rest.half > 0:  # surely some of it is the machine's: what counts is the rest
        chance = max(chance, 2 * NormalDist().cdf(-abs(rest.value) / (rest.half / _NORMAL_95)))
    return ChangeKind.STEP, control, its_share, chance


def _with_q(explained: Sequence[_Explained], families: Mapping[int, int]) -> tuple[Classification, ...]:
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
        Classification(
            change=change,
            kind=ChangeKind.NOT_SIGNIFICANT if q.get(number, 0.0) > LIMIT else kind,
            control=control,
            share=its_share,
            q_value=q.get(number),
        )
        for number, (change, kind, control, its_share, _) in enumerate(explained)
    )


def _machines_part(
    changes: Sequence[MachineChange], cards: Sequence[ControlLevels]
) -> dict[int, tuple[Control, Shift]]:
    """What the machine did across each change, by the change's id, where enough controls tell.

    Of several cards that measured the commit of the change the first speaks.
    """
    found: dict[int, tuple[Control, Shift]] = {}
    for card in cards:
        ran = frozenset(card.places.tolist())
        asked = [change for change in changes if change.place in ran and id(change) not in found]
        for some in batches(asked, _AT_ONCE):
            found |= _heard(card, some)
    return found


def _heard(card: ControlLevels, changes: Sequence[MachineChange]) -> dict[int, tuple[Control, Shift]]:
    """What the controls of one card did across each change, as told by the first who can."""
    starts, ends = np.array([(change.range_start, change.range_end) for change in changes]).T
    before, after = np.searchsorted(card.places, starts, "right"), np.searchsorted(card.places, ends, "left")
    shifts = control_shifts(card.levels, before, after)
    suites = {one.suite: number for number, one in enumerate(card.controls)}
    is_of_suite = np.equal.outer([suites[one.suite] for one in card.controls], list(suites.values())).astype(float)
    found: dict[int, tuple[Control, Shift]] = {}
    silent = np.ones(len(changes), dtype=bool)
    for control, may_speak in _speakers(changes, card.controls):
        heard = may_speak & ~np.isnan(shifts.value)
        can_tell = silent & (heard.sum(axis=1) >= FEWEST[control])
        if control is Control.OTHERS:
            can_tell &= (heard @ is_of_suite > 0).sum(axis=1) >= _FEWEST_SUITES
        rows = can_tell.nonzero()[0]
        silent[rows] = False
        values, errors = (np.where(heard[rows], each[rows], np.nan) for each in (shifts.value, shifts.error))
        for row, part in zip(rows.tolist(), machine_shifts(values, errors), strict=True):
            is_rate = changes[row].series.sign < 0
            told = Shift(value=-part.value, low=-part.high, high=-part.low) if is_rate else part
            found[id(changes[row])] = control, told
    return found


def _speakers(
    changes: Sequence[MachineChange], controls: Sequence[MachineSeries]
) -> Iterator[tuple[Control, NDArray[np.bool_]]]:
    """Who may speak for the machine to each change, by change and control; the first first: those of the series' own
    bound before all of a kind.

    A kernel that memory bounds does not follow the clock of the math units, so that controls with the same bound
    are more alike. Other series that share a suite with it may share the code that changed.
    """
    number = {suite: place for place, suite in enumerate(one.suite for one in controls)}
    code = {None: -1, False: 0, True: 1}

    def facts(series: Iterable[MachineSeries]) -> Ints:
        return np.array([(one.id, number.get(one.suite, -1), code[one.memory_bound]) for one in series]).T

    (its, its_suite, its_bound), (ids, suite, bound) = facts(each.series for each in changes), facts(controls)
    another = np.not_equal.outer(its, ids)
    alike = np.equal.outer(its_bound, bound) & (its_bound >= 0)[:, None]
    for control in Control:
        mine = another & np.array([one.control is control for one in controls])
        if control is Control.OTHERS:
            mine &= np.not_equal.outer(its_suite, suite)
        yield control, mine & alike
        yield control, mine


_FEWEST_SUITES = 4  # that other series must come from
