"""What a machine's runs noted of their GPU and software, run by run."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from sqlalchemy import Connection, select

from warpwatch.dashboard.naming import card_name, cudnn_version
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.choosing import is_among
from warpwatch.dashboard.store.machine_history import RunConditions, Software
from warpwatch.dashboard.store.reading import moment, project_id
from warpwatch.dashboard.store.store import Store

_RUNS = 100  # with measurements, the newest
_SOFTWARE = ("cuda", "torch", "cudnn", "triton", "nvbench", "python")
# NVML's bits under which the clock is lower than asked for; idle and clocks that somebody set are not among them.
_THROTTLING = 0x04 | 0x08 | 0x10 | 0x20 | 0x40 | 0x80


def conditions(store: Store, project: str, machine: str) -> tuple[RunConditions, ...]:
    """The newest runs that measured something and left a context, in the order of time."""
    run, detail = tables.run, tables.detail
    with store.read() as connection:
        rows = connection.execute(
            _of_machine(connection, project, machine)
            .where(run.c.id.in_(select(detail.c.run_id)))
            .order_by(run.c.started_ms.desc(), run.c.id.desc())
            .limit(_RUNS)
        ).all()
        noted: dict[int, list[Mapping[str, Any]]] = {}
        chosen = select(detail.c.run_id, detail.c.data).where(
            is_among(connection, detail.c.run_id, [row.id for row in rows])
        )
        for number, data in connection.execute(chosen):
            noted.setdefault(number, []).append(data)
    return tuple(_conditions(row, noted.get(row.id, ())) for row in reversed(rows))


def software(store: Store, project: str, machine: str) -> tuple[Software, ...]:
    """Stretches of runs with equal facts, the newest first; runs that say nothing of themselves are left out."""
    run = tables.run
    with store.read() as connection:
        rows = connection.execute(
            _of_machine(connection, project, machine)
            .where(run.c.context.is_not(None))
            .order_by(run.c.started_ms, run.c.id)
        ).all()
    told = [(row, facts) for row in rows if (facts := _facts(row)) is not None]
    found: list[Software] = []
    for facts, group in itertools.groupby(told, key=lambda pair: pair[1]):
        its = [row for row, _ in group]
        before = dict(found[-1].facts) if found else dict(facts)
        found.append(
            Software(
                since=moment(its[0].started_ms), until=moment(its[-1].started_ms), runs=len(its), facts=facts,
                changed=tuple(name for name, value in facts if before.get(name) != value),
            )
        )  # fmt: skip
    return tuple(reversed(found))


def _of_machine(connection: Connection, project: str, machine: str) -> Any:
    run = tables.run
    return (
        select(run.c.id, run.c.name, run.c.started_ms, run.c.card, run.c.context)
        .join(tables.machine, tables.machine.c.id == run.c.machine_id)
        .where(run.c.project_id == project_id(connection, project), tables.machine.c.name == machine)
    )


def _facts(row: Any) -> tuple[tuple[str, str], ...] | None:
    gpu, said = row.context.get("gpu") or {}, row.context.get("software") or {}
    if not gpu:
        return None  # it only compiled
    limit = gpu.get("power_limit_w")
    return (
        ("card", card_name(row.card) if row.card else ""),
        ("driver", str(gpu.get("driver") or "")),
        *((name, _version(name, str(said.get(name) or ""))) for name in _SOFTWARE),
        ("power limit", f"{limit:g} W" if limit else ""),
    )


def _version(name: str, said: str) -> str:
    return cudnn_version(said) if name == "cudnn" else said


def _conditions(row: Any, noted: Sequence[Mapping[str, Any]]) -> RunConditions:
    clocks = [median(clock) for data in noted if (clock := data.get("sm_clock_hz"))]
    temperatures = [heat for data in noted if (heat := data.get("temperature_c")) is not None]
    throttled: Counter[str] = Counter()
    for data in noted:
        throttled.update(data.get("throttled_s") or {})
    return RunConditions(
        run=row.name, started_at=moment(row.started_ms), card=row.card, measurements=len(noted),
        clock_hz=median(clocks) if clocks else None, clock_low_hz=min(clocks, default=None),
        clock_high_hz=max(clocks, default=None), temperature_c=median(temperatures) if temperatures else None,
        temperature_high_c=max(temperatures, default=None),
        power_limit_w=((row.context or {}).get("gpu") or {}).get("power_limit_w"),
        throttled_s=dict(throttled), throttled=sum(map(_was_throttled, noted)),
        knows_throttling=any(data.get("clock_event_reasons") or data.get("throttled_s") for data in noted),
    )  # fmt: skip


def _was_throttled(data: Mapping[str, Any]) -> bool:
    bits = data.get("clock_event_reasons") or {}
    seen = int(bits.get("before") or 0) | int(bits.get("after") or 0)
    return bool(seen & _THROTTLING) or any(seconds > 0 for seconds in (data.get("throttled_s") or {}).values())
