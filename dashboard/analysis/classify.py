"""Classification of changepoints: attribution to the machine by its controls, and the false discovery rate of the rest.

Series are analysed one by one (series_analysis.py); here all findings of a machine are classified together. The input
is what is stored, so the order of analysis and killed processes make no difference.
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
from ..statistics.distributions import NORMAL_95, SIGNIFICANT_Q, q_values
from ..statistics.machine_attribution import (
    FEWEST,
    Ints,
    Shift,
    control_shifts,
    is_machine_state,
    machine_shifts,
    remainder,
    share,
)
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

_AT_ONCE = 5000  # changes, to limit memory
_MOST_ATTEMPTS = 3  # if other processes change the findings meanwhile; they classify them too


def classify_machines(store: Store, *, only: str | None = None) -> None:
    """Classify the changes of every machine whose findings have changed; `only` names a project, None means all."""
    for machine in unclassified_machines(store, only):
        for _ in range(_MOST_ATTEMPTS):
            findings = read_findings(store, machine)
            if findings is None:
                break
            try:
                read_classifications = classified(findings)
            except Exception as error:  # a bug must not stop the other machines
                _log.error(
                    "changes of machine %d of %s could not be classified (%s). The previous classification is kept, and"
                    " the next import tries again. Please report this",
                    machine.id,
                    machine.project,
                    located(error),
                )
                break
            if write_classifications(store, findings, read_classifications):
                break


def classified(findings: MachineFindings) -> tuple[Classification, ...]:
    """Kind, machine's share and q-value of each change."""
    attributable: dict[tuple[int, str], list[MachineChange]] = defaultdict(list)
    for change in findings.changes:
        if change.is_confirmed:  # the controls of the same session were taken into account
            continue
        is_adjusted = change.family is not None  # to what the machine's references show
        if change.series.family is not None and change.low < change.high and change.low > -1 and not is_adjusted:
            attributable[change.series.environment, change.series.family].append(change)
    shifts: dict[int, tuple[Control, Shift]] = {}
    for key, changes in attributable.items():
        shifts |= _machine_shifts(changes, findings.controls.get(key, ()))
    attributed = [(change, *_attributed(change, shifts.get(id(change)))) for change in findings.changes]
    return _with_q(attributed, findings.families)


_Attributed = tuple[MachineChange, ChangeKind, Control | None, Shift | None, float]


def _attributed(
    change: MachineChange, machine: tuple[Control, Shift] | None
) -> tuple[ChangeKind, Control | None, Shift | None, float]:
    """Kind, controls used, the machine's share, and the p-value of the rest."""
    p_value = change.chance
    if change.series.is_canary:
        return ChangeKind.MACHINE_STATE, None, None, p_value
    if machine is None:
        return ChangeKind.STEP, None, None, p_value
    control, shift = machine
    own = Shift(value=math.log1p(change.magnitude), ci_low=math.log1p(change.low), ci_high=math.log1p(change.high))
    if own.value == 0:
        return ChangeKind.STEP, None, None, p_value
    machine_share = share(own, shift)
    if control is Control.OTHERS:  # the commit may have changed them too: a person decides
        return ChangeKind.STEP, control, machine_share, p_value
    rest = remainder(own, shift)
    if is_machine_state(machine_share, rest, SMALLEST_CHANGE):
        return ChangeKind.MACHINE_STATE, control, machine_share, p_value
    if machine_share.ci_low > 0 and rest.half > 0:  # part of it is the machine's: test the rest
        p_value = max(p_value, 2 * NormalDist().cdf(-abs(rest.value) / (rest.half / NORMAL_95)))
    return ChangeKind.STEP, control, machine_share, p_value


def _with_q(attributed: Sequence[_Attributed], families: Mapping[int, int]) -> tuple[Classification, ...]:
    """Judgements with the q-value of each step among all series of its run: machine, environment and commit.

    The family of GPU-adjusted steps is that of a comparison across GPUs: what two sessions measured, by noise family.
    A step with a larger q-value than `SIGNIFICANT_Q` is not significant: neither a regression nor an improvement.
    """
    runs: dict[tuple[int, int, str | None], list[int]] = defaultdict(list)
    q: dict[int, float] = {}
    for number, (change, kind, *_) in enumerate(attributed):
        if kind is ChangeKind.STEP and change.series.is_ours:
            if change.series.is_exact:
                q[number] = 0.0
            elif change.is_confirmed:
                q[number] = change.chance  # its family are the series that were measured again
            else:
                family_name = change.series.family if change.family is not None else None
                runs[change.series.environment, change.commit_id, family_name].append(number)
    for (environment, _, family_name), members in runs.items():
        compared = [attributed[number][0].family or 0 for number in members]
        family = max(compared) if family_name is not None else families.get(environment, 0)
        family = max(family, len(members))  # unlisted series do not count
        q.update(zip(members, q_values([attributed[number][4] for number in members], family), strict=True))
    return tuple(
        Classification(
            change=change,
            kind=ChangeKind.NOT_SIGNIFICANT if q.get(number, 0.0) > SIGNIFICANT_Q else kind,
            control=control,
            share=machine_share,
            q_value=q.get(number),
        )
        for number, (change, kind, control, machine_share, _) in enumerate(attributed)
    )


def _machine_shifts(
    changes: Sequence[MachineChange], gpus: Sequence[ControlLevels]
) -> dict[int, tuple[Control, Shift]]:
    """The machine's shift across each change, by the change's id, where there are enough controls.

    If several GPUs measured the commit of the change, the first with enough controls is used.
    """
    result: dict[int, tuple[Control, Shift]] = {}
    for gpu in gpus:
        measured = frozenset(gpu.places.tolist())
        pending = [change for change in changes if change.place in measured and id(change) not in result]
        for batch in batches(pending, _AT_ONCE):
            result |= _shifts_on(gpu, batch)
    return result


def _shifts_on(gpu: ControlLevels, changes: Sequence[MachineChange]) -> dict[int, tuple[Control, Shift]]:
    """The shift of one GPU's controls across each change, by the first kind of control with enough of them."""
    starts, ends = np.array([(change.range_start, change.range_end) for change in changes]).T
    before, after = np.searchsorted(gpu.places, starts, "right"), np.searchsorted(gpu.places, ends, "left")
    shifts = control_shifts(gpu.levels, before, after)
    suites = {one.suite: number for number, one in enumerate(gpu.controls)}
    is_of_suite = np.equal.outer([suites[one.suite] for one in gpu.controls], list(suites.values())).astype(float)
    result: dict[int, tuple[Control, Shift]] = {}
    unresolved = np.ones(len(changes), dtype=bool)
    for control, eligible in _control_candidates(changes, gpu.controls):
        used = eligible & ~np.isnan(shifts.value)
        is_enough = unresolved & (used.sum(axis=1) >= FEWEST[control])
        if control is Control.OTHERS:
            is_enough &= (used @ is_of_suite > 0).sum(axis=1) >= _FEWEST_SUITES
        rows = is_enough.nonzero()[0]
        unresolved[rows] = False
        values, errors = (np.where(used[rows], table[rows], np.nan) for table in (shifts.value, shifts.error))
        for row, shift in zip(rows.tolist(), machine_shifts(values, errors), strict=True):
            is_rate = changes[row].series.sign < 0
            mirrored = Shift(value=-shift.value, ci_low=-shift.ci_high, ci_high=-shift.ci_low)
            result[id(changes[row])] = control, mirrored if is_rate else shift
    return result


def _control_candidates(
    changes: Sequence[MachineChange], controls: Sequence[MachineSeries]
) -> Iterator[tuple[Control, NDArray[np.bool_]]]:
    """Eligible controls, by change and control, in order of preference: of each kind, those of the same bound first.

    A memory-bound kernel does not follow the clock of the math units, so that controls with the same bound are more
    alike. Other series of the same suite may share the code that changed.
    """
    number = {suite: index for index, suite in enumerate(one.suite for one in controls)}
    code = {None: -1, False: 0, True: 1}

    def facts(series: Iterable[MachineSeries]) -> Ints:
        return np.array([(one.id, number.get(one.suite, -1), code[one.memory_bound]) for one in series]).T

    (own, own_suite, own_bound), (ids, suite, bound) = facts(change.series for change in changes), facts(controls)
    is_another = np.not_equal.outer(own, ids)
    is_same_bound = np.equal.outer(own_bound, bound) & (own_bound >= 0)[:, None]
    for control in Control:
        eligible = is_another & np.array([one.control is control for one in controls])
        if control is Control.OTHERS:
            eligible &= np.not_equal.outer(own_suite, suite)
        yield control, eligible & is_same_bound
        yield control, eligible


_FEWEST_SUITES = 4  # of other series
