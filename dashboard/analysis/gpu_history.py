"""The sessions of each series that several GPUs of one machine measured, as a chain (statistics/gpu_history.py).

The effects of a pair of sessions come from all series of the machine, so that the findings in one of them depend on the
others: after each import of such a machine, all of its series are analysed again.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..model.quantities import in_seconds
from ..statistics.distributions import q_values, t_p_value
from ..statistics.gpu_effects import Floats
from ..statistics.gpu_history import SessionChain
from ..store import queries
from ..store.column_records import MachineHistory, SeriesRuns
from ..store.engine import Store
from .gpu_sessions import (
    SESSION_PAIRS,
    Rooflines,
    SeriesOfPair,
    Session,
    SessionPair,
    neighbours,
    project_rooflines,
    scatters_of_others,
    session_pair,
    sessions,
)

_EVERY = 10**9  # commits


def session_chains(store: Store, project: str, machine: str) -> Mapping[str, SessionChain]:
    """The chains of the machine's listed, judged times that several GPUs measured, by the key of the series."""
    history = queries.machine_history(store, project, machine, commits=_EVERY)
    if history is None:
        return {}
    rooflines = project_rooflines(store, project, queries.project_workloads(store, project))
    software = queries.commit_software(store, project, machine)
    found: dict[str, dict[tuple[Session, Session], _Against]] = defaultdict(dict)
    for measured in neighbours(history, software).values():
        for against, key, pair in _against(measured, rooflines):
            found[key][pair] = against
    return {
        runs.series.key: _chain(runs, history, found[runs.series.key])
        for runs in history.series
        if (runs.gpu != runs.gpu[0]).any()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Against:
    """A session of a series against the one before."""

    deviation: float = math.nan
    variance: float = math.nan
    scatter: float = math.nan
    df: int = 0
    q_value: float = math.nan
    family: int = 0
    references: int = 0


def _against(
    measured: Mapping[tuple[Session, Session], Sequence[SeriesOfPair]], rooflines: Rooflines
) -> list[tuple[_Against, str, tuple[Session, Session]]]:
    """Each series of each pair of sessions, of one environment and noise family."""
    pairs: list[SessionPair] = []
    found: list[tuple[_Against, str, tuple[Session, Session]]] = []
    for both, series in measured.items():
        pair = session_pair(both, series, rooflines)
        if pair is not None:
            pairs.append(pair)
        else:
            few = _Against(references=sum(each.is_reference for each in series))
            found += [(few, each.series.key, both) for each in series]
    newest = pairs[-SESSION_PAIRS:]
    for pair in pairs:
        found += [
            (against, each.series.key, pair.sessions)
            for against, each in zip(_compared(pair, newest, rooflines), pair.measured, strict=True)
        ]
    return found


def _compared(pair: SessionPair, newest: Sequence[SessionPair], rooflines: Rooflines) -> list[_Against]:
    """The series of a pair of sessions; ours and the others are a family each."""
    deviations = pair.deviations(rooflines)
    known = scatters_of_others(pair, newest)
    scatters = [known.of(each.series.key, each.base_s, is_ours=each.series.is_ours) for each in pair.measured]
    scatter: Floats = pair.effects.scatter * np.array([each.scale for each in scatters])
    error = np.sqrt(scatter**2 + deviations.variance)
    p_values = [
        t_p_value(size, each.df)
        for size, each in zip((np.abs(deviations.deviation) / error).tolist(), scatters, strict=True)
    ]
    q: dict[int, float] = {}
    families: dict[bool, int] = {}
    for is_ours in (True, False):
        places = [place for place, each in enumerate(pair.measured) if each.series.is_ours == is_ours]
        families[is_ours] = len(places)
        q.update(zip(places, q_values([p_values[place] for place in places], len(places)), strict=True))
    return [
        _Against(
            deviation=float(deviations.deviation[place]),
            variance=float(deviations.variance[place]),
            scatter=float(scatter[place]),
            df=scatters[place].df,
            q_value=q[place],
            family=families[each.series.is_ours],
            references=len(pair.effects.references),
        )
        for place, each in enumerate(pair.measured)
    ]


def _chain(
    runs: SeriesRuns, history: MachineHistory, against: Mapping[tuple[Session, Session], _Against]
) -> SessionChain:
    own, unit_s = sessions(runs, history.index), in_seconds(1.0, runs.series.metric.unit) or 1.0
    steps = [_Against(), *(against[before, after] for (before, _), (after, _) in itertools.pairwise(own))]
    return SessionChain(
        commits=np.array([commit for (commit, _), _ in own], dtype=np.int64),
        gpus=tuple(history.index.gpu_names[gpu] for (_, gpu), _ in own),
        levels=np.array([level / unit_s for _, level in own]),
        **{
            name: np.array([getattr(each, name) for each in steps])
            for name in ("deviation", "variance", "scatter", "df", "q_value", "family", "references")
        },
    )
