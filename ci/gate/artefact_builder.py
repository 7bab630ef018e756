"""Builds the gate artefact from a gate's result."""

import ast
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from warpwatch.dashboard.model.comparison import (
    Acceptance,
    Comparison,
    ComparisonRow,
    Estimate,
    MachineDrift,
    is_blocking,
    outcome_of,
)
from warpwatch.dashboard.model.compiled_code import CodeChange, CompiledCode, Fact, compiled_difference
from warpwatch.dashboard.model.schema import CommitSchema
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import Store, queries

from ..policy.policy_model import Inconclusive
from .artefact import (
    CUT,
    LARGEST_FILE,
    LONGEST_NAME,
    LONGEST_TEXT,
    LONGEST_UNIT,
    MOST_CANARIES,
    MOST_FACTS,
    MOST_KERNELS,
    MOST_NOTES,
    MOST_PARAMETERS,
    MOST_ROWS,
    ArtefactAcceptance,
    ArtefactCanary,
    ArtefactCommit,
    ArtefactDrift,
    ArtefactEstimate,
    ArtefactRow,
    ArtefactSeries,
    CodeDifference,
    CodeFact,
    Cost,
    GateArtefact,
    LeftOut,
    Source,
    plain,
)
from .gate_loop import Gate

_LARGEST = 1e30


def gate_artefact(
    store: Store,
    done: Gate,
    *,
    machine: str | None,
    family_error: float,
    inconclusive: Inconclusive = "neutral",
    source_of: Callable[[str], Source | None] = lambda benchmark: None,
) -> GateArtefact:
    """The artefact of a gate. `inconclusive` is the policy's; `source_of` locates a benchmark in the repository."""
    comparison = done.comparison
    all_rows = [_row(row, source_of(row.series.benchmark)) for row in comparison.rows]
    rows, left_out = _cut(all_rows, len(all_rows) - MOST_ROWS)
    code = _code(store, comparison, machine, rows) if machine is not None else ()
    gpu = next((each.gpu for each in queries.machines(store, comparison.project) if each.name == machine), None)
    drift = next((drift for drift in comparison.drifts if drift.machine == machine), None)
    return GateArtefact(
        project=plain(comparison.project, LONGEST_NAME),
        base=_commit(comparison.base),
        head=_commit(comparison.head),
        machine=_optional(machine),
        gpu=_optional(gpu),
        outcome=outcome_of((*rows, *left_out)),
        threshold=comparison.threshold,
        family_error=family_error,
        rows=rows,
        rows_left_out=len(all_rows) - len(rows),
        left_out=left_out,
        drift=_drift(drift) if drift is not None else None,
        code=code[:MOST_KERNELS],
        code_left_out=max(len(code) - MOST_KERNELS, 0),
        inconclusive=inconclusive,
        fault=plain(comparison.fault, LONGEST_TEXT) if comparison.fault is not None else None,
        notes=tuple(plain(note, LONGEST_TEXT) for note in comparison.notes[:MOST_NOTES]),
        cost=Cost(runs=done.runs, minutes=done.seconds / 60, stopped=done.stopped),
    )


def write_artefact(artefact: GateArtefact, path: Path) -> None:
    """Writes the artefact. If it is too large, it loses quiet rows, then compiled code, then the least important rows.

    Counts and outcome stay the same.
    """
    while (text := artefact.model_dump_json(exclude_defaults=True)) and len(text.encode()) >= LARGEST_FILE:
        artefact = _smaller(artefact)
    path.write_text(text + "\n", encoding="utf-8")


def _smaller(artefact: GateArtefact) -> GateArtefact:
    quiet = sum(map(_is_quiet, artefact.rows)) - 1
    if quiet <= 0 and artefact.code:
        code = artefact.code[: len(artefact.code) // 2]
        left = artefact.code_left_out + len(artefact.code) - len(code)
        return artefact.model_copy(update={"code": code, "code_left_out": left})
    rows, dropped = _cut(artefact.rows, math.ceil((quiet if quiet > 0 else len(artefact.rows)) / 4))
    return artefact.model_copy(
        update={
            "rows": rows,
            "rows_left_out": artefact.rows_left_out + len(artefact.rows) - len(rows),
            "left_out": _merged(artefact.left_out, dropped),
        }
    )


def _is_quiet(row: ArtefactRow) -> bool:
    return row.verdict in {Verdict.UNCHANGED, Verdict.MISSING} and not row.fails


def _cut(rows: Sequence[ArtefactRow], count: int) -> tuple[tuple[ArtefactRow, ...], tuple[LeftOut, ...]]:
    """The rows without the `count` least important ones, and counts of those, except the unchanged."""
    if count <= 0:
        return tuple(rows), ()
    order = sorted(range(len(rows)), key=lambda index: (_importance(rows[index]), -index))
    unchanged = [index for index in order if rows[index].verdict is Verdict.UNCHANGED]
    # One unchanged row stays, so that readers see that something was compared.
    dropped = set([index for index in order if index not in unchanged[-1:]][:count])
    kinds = [
        LeftOut(verdict=row.verdict, decides=row.decides, fails=row.fails, accepted=row.accepted is not None, count=1)
        for index, row in enumerate(rows)
        if index in dropped and row.verdict is not Verdict.UNCHANGED
    ]
    return tuple(row for index, row in enumerate(rows) if index not in dropped), _merged((), kinds)


def _importance(row: ArtefactRow) -> int:
    """Rank of a row: blocking, then deciding, then others, then quiet ones."""
    if _is_quiet(row):
        return 0
    return 1 + 2 * is_blocking(row) + row.decides


def _merged(left_out: Iterable[LeftOut], more: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    counts: Counter[tuple[Verdict, bool, bool, bool]] = Counter()
    for each in (*left_out, *more):
        counts[each.verdict, each.decides, each.fails, each.accepted] += each.count
    return tuple(
        LeftOut(verdict=verdict, decides=decides, fails=fails, accepted=accepted, count=count)
        for (verdict, decides, fails, accepted), count in counts.items()
    )


def _row(row: ComparisonRow, source: Source | None) -> ArtefactRow:
    series = row.series
    return ArtefactRow(
        series=ArtefactSeries(
            key=series.key,
            benchmark=plain(series.benchmark, LONGEST_NAME),
            parameters={
                plain(name, LONGEST_NAME) or CUT: plain(value, LONGEST_TEXT)
                for name, value in list(series.parameters.items())[:MOST_PARAMETERS]
            },
            workload=plain(series.workload, LONGEST_TEXT) if series.workload is not None else None,
            implementation=_optional(series.implementation),
            metric=plain(series.metric, LONGEST_NAME),
            unit=plain(series.unit, LONGEST_UNIT),
            better=series.better,
            machine=plain(series.machine, LONGEST_NAME),
            environment=plain(series.environment, LONGEST_TEXT),
            measured_by_asv=series.measured_by_asv,
        ),
        kernel=plain(row.kernel, LONGEST_NAME),
        dtype=_optional(row.dtype),
        verdict=row.verdict,
        reason=plain(row.reason, LONGEST_TEXT) if row.reason else None,
        fails=row.fails,
        base=None if row.base is None else _bounded(row.base),
        head=None if row.head is None else _bounded(row.head),
        estimate=_estimate(row.estimate) if row.estimate is not None else None,
        control_change=None if row.control_change is None else _bounded(row.control_change),
        min_relative_change=None if row.min_relative_change is None else _bounded(row.min_relative_change),
        blocks=row.blocks,
        accepted=bounded_acceptance(row.accepted) if row.accepted is not None else None,
        source=source,
    )


def bounded_acceptance(accepted: Acceptance) -> ArtefactAcceptance:
    """The acceptance with bounded texts."""
    return ArtefactAcceptance(
        pattern=plain(accepted.pattern, LONGEST_TEXT),
        reason=plain(accepted.reason, LONGEST_TEXT),
        by=plain(accepted.by, LONGEST_NAME),
        at=accepted.at,
        source=plain(accepted.source, LONGEST_NAME),
        at_most=None if accepted.at_most is None else _bounded(accepted.at_most),
    )


def _estimate(estimate: Estimate) -> ArtefactEstimate:
    values = {name: _bounded(value) if isinstance(value, float) else value for name, value in estimate}
    return ArtefactEstimate.model_validate(values)


def _bounded(value: float) -> float:
    return max(-_LARGEST, min(value, _LARGEST))


def _drift(drift: MachineDrift) -> ArtefactDrift:
    canaries = tuple(
        ArtefactCanary(workload=plain(each.workload, LONGEST_NAME), change=_bounded(each.change))
        for each in drift.canaries[:MOST_CANARIES]
    )
    return ArtefactDrift(
        machine=plain(drift.machine, LONGEST_NAME),
        change=_bounded(drift.change),
        controls=drift.controls,
        canaries=canaries,
    )


def _code(
    store: Store, comparison: Comparison, machine: str, rows: Iterable[ArtefactRow]
) -> tuple[CodeDifference, ...]:
    operators = {row.kernel for row in rows}
    commits = (comparison.base, comparison.head)
    sides = [queries.compiled_for(store, comparison.project, commit.hash, machine) for commit in commits]
    # Code that was compiled at one commit only is not new.
    compiled = {(code.operator, code.architecture) for code in sides[0]} & {
        (code.operator, code.architecture) for code in sides[1]
    }
    changes = compiled_difference(
        *(
            [code for code in side if code.operator in operators and (code.operator, code.architecture) in compiled]
            for side in sides
        )
    ).changes
    return tuple(_difference(change) for change in changes)


def _difference(change: CodeChange) -> CodeDifference:
    code: CompiledCode | None = change.after or change.before
    return CodeDifference(
        operator=plain(change.operator, LONGEST_NAME),
        implementation=_optional(code.implementation if code is not None else None),
        kernel=plain(change.kernel, LONGEST_TEXT),
        architecture=plain(change.architecture, LONGEST_NAME),
        state="new" if change.before is None else "gone" if change.after is None else "changed",
        facts=_facts(change.facts),
        instructions=_facts(change.instructions),
    )


def _facts(facts: Sequence[Fact]) -> tuple[CodeFact, ...]:
    return tuple(
        CodeFact.model_validate(
            {"name": plain(fact.name, LONGEST_NAME), "unit": fact.unit, "before": fact.before, "after": fact.after}
        )
        for fact in facts[:MOST_FACTS]
    )


def _commit(commit: CommitSchema) -> ArtefactCommit:
    return ArtefactCommit(hash=commit.hash, subject=_optional(commit.subject))


def _optional(text: str | None) -> str | None:
    return plain(text, LONGEST_NAME) if text else None


# Locations of benchmarks in a repository, for annotations.


class BenchmarkSources:
    """Finds benchmarks of one asv project by asv's names."""

    def __init__(self, repository: Path, benchmarks: Path) -> None:
        """`benchmarks` is asv's benchmark_dir."""
        self._repository, self._benchmarks = repository.resolve(), benchmarks.resolve()
        self.of = cache(self._of)

    def _of(self, benchmark: str) -> Source | None:
        """File and line of the function, else of its class, else of the file; None without a file."""
        names = benchmark.split(".")
        for length in range(len(names) - 1, 0, -1):
            module = self._benchmarks.joinpath(*names[:length])
            for path in (module.with_suffix(".py"), module / "__init__.py"):
                if path.is_file() and path.resolve().is_relative_to(self._repository):
                    relative = path.resolve().relative_to(self._repository).as_posix()
                    try:
                        return Source(path=relative, line=_line(path, names[length:]))
                    except ValidationError:
                        return None  # the artefact's schema refuses the path
        return None


def _line(path: Path, names: list[str]) -> int:
    try:
        body: list[ast.stmt] = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return 1
    line = 1
    for name in names:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                line, body = node.lineno, node.body
                break
        else:
            break
    return line
