"""Builds the gate artefact from a gate's result."""

import ast
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from warpwatch.dashboard.model.comparison import Comparison, ComparisonRow, MachineDrift, is_blocking, outcome_of
from warpwatch.dashboard.model.compiled_code import CodeChange, CompiledCode, compiled_difference
from warpwatch.dashboard.model.schema import CommitSchema
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import Store, queries

from ..policy.policy_model import Inconclusive
from .artefact import (
    LARGEST_FILE,
    MOST_CANARIES,
    MOST_FACTS,
    MOST_KERNELS,
    MOST_NOTES,
    MOST_ROWS,
    ArtefactCommit,
    ArtefactRow,
    CodeDifference,
    Cost,
    GateArtefact,
    LeftOut,
    Source,
)
from .gate_loop import Gate


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
    return GateArtefact.bounded(
        {
            "project": comparison.project,
            "base": _commit(comparison.base),
            "head": _commit(comparison.head),
            "machine": machine,
            "gpu": gpu,
            "outcome": outcome_of((*rows, *left_out)),
            "threshold": comparison.threshold,
            "family_error": family_error,
            "rows": rows,
            "rows_left_out": len(all_rows) - len(rows),
            "left_out": left_out,
            "drift": _drift(drift) if drift is not None else None,
            "code": code[:MOST_KERNELS],
            "code_left_out": max(len(code) - MOST_KERNELS, 0),
            "inconclusive": inconclusive,
            "fault": comparison.fault,
            "notes": comparison.notes[:MOST_NOTES],
            "cost": Cost(runs=done.runs, minutes=done.seconds / 60, stopped=done.stopped),
        }
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
    """The row without what every row of a gate has in common, and without owners, which may be mail addresses."""
    common = {"base_series": True, "across_gpus": True, "owners": True}
    fields = row.model_dump(exclude={**common, "series": {"role", "is_judged", "is_listed"}})
    return ArtefactRow.bounded({**fields, "source": source})


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
    return CodeDifference.bounded(
        {
            "operator": change.operator,
            "implementation": code.implementation if code is not None else None,
            "kernel": change.kernel,
            "architecture": change.architecture,
            "state": "new" if change.before is None else "gone" if change.after is None else "changed",
            "facts": tuple(map(asdict, change.facts[:MOST_FACTS])),
            "instructions": tuple(map(asdict, change.instructions[:MOST_FACTS])),
        }
    )


def _drift(drift: MachineDrift) -> dict[str, Any]:
    return drift.model_copy(update={"canaries": drift.canaries[:MOST_CANARIES]}).model_dump()


def _commit(commit: CommitSchema) -> ArtefactCommit:
    return ArtefactCommit.bounded({"hash": commit.hash, "subject": commit.subject})


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
