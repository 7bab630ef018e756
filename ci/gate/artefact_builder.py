"""What a gate found, put into the file that may leave its machine."""

import ast
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from warpwatch.dashboard.analysis.compare_commits import Check, CheckRow
from warpwatch.dashboard.analysis.machine_drift import Drift
from warpwatch.dashboard.model.compiled_code import CodeChange, CompiledCode, Fact, compiled_difference
from warpwatch.dashboard.model.series import Commit, Workload
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.comparison import Comparison
from warpwatch.dashboard.store import Store, policy, queries
from warpwatch.dashboard.text.comparison_labels import runs_needed

from ..policy.policy_model import Inconclusive
from .artefact import (
    CUT,
    LARGEST_FILE,
    MOST_ROWS,
    Acceptance,
    ArtefactCommit,
    ArtefactRow,
    Canary,
    Change,
    CodeDifference,
    CodeFact,
    Cost,
    GateArtefact,
    LeftOut,
    MachineDrift,
    Parameter,
    Source,
    plain,
    verdict_of,
)
from .gate_loop import Gate

_NAME, _WORDS, _UNIT = 200, 1000, 40  # as in artefact.py
_FACTS, _KERNELS, _NOTES = 32, 500, 50
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
    """The artefact of a gate; `inconclusive` is the policy's, `source_of` tells where a benchmark is written."""
    check = done.check
    known = queries.project_workloads(store, check.project)
    told = [
        _row(row, known.get((row.series.suite, row.series.workload or "")), check, source_of(row.series.benchmark))
        for row in check.rows
    ]
    rows, left_out = _cut(told, len(told) - MOST_ROWS)
    code = _code(store, check.project, check.base, check.head, machine, rows) if machine is not None else ()
    gpu = next((each.gpu for each in queries.machines(store, check.project) if each.name == machine), None)
    drift = next((drift for drift in check.drifts if drift.machine == machine), None)
    return GateArtefact(
        project=plain(check.project, _NAME),
        base=_commit(check.base),
        head=_commit(check.head),
        machine=_optional(machine),
        gpu=_optional(gpu),
        verdict=verdict_of(rows, left_out),
        threshold=check.threshold,
        family_error=family_error,
        rows=rows,
        rows_left_out=len(told) - len(rows),
        left_out=left_out,
        drift=_drift(drift) if drift is not None else None,
        code=code[:_KERNELS],
        code_left_out=max(len(code) - _KERNELS, 0),
        inconclusive=inconclusive,
        fault=plain(check.fault, _WORDS) if check.fault is not None else None,
        notes=tuple(plain(note, _WORDS) for note in check.notes[:_NOTES]),
        cost=Cost(runs=done.runs, minutes=done.seconds / 60, ended=done.end.value),
    )


def write_artefact(artefact: GateArtefact, path: Path) -> None:
    """Writes it, without some of its parts where it would be larger than readers take: quiet rows, then compiled code,
    then the last of the other rows. Its counts and its verdict stay what they are.
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
    rows, gone = _cut(artefact.rows, math.ceil((quiet if quiet > 0 else len(artefact.rows)) / 4))
    return artefact.model_copy(
        update={
            "rows": rows,
            "rows_left_out": artefact.rows_left_out + len(artefact.rows) - len(rows),
            "left_out": _added(artefact.left_out, gone),
        }
    )


def _is_quiet(row: ArtefactRow) -> bool:
    return row.verdict in {Verdict.UNCHANGED, Verdict.MISSING} and not row.fails


def _cut(rows: Sequence[ArtefactRow], many: int) -> tuple[tuple[ArtefactRow, ...], tuple[LeftOut, ...]]:
    """The rows without so many: of those that say least, the last go first. The kinds of what went, but unchanged."""
    if many <= 0:
        return tuple(rows), ()
    order = sorted(range(len(rows)), key=lambda place: (_weight(rows[place]), -place))
    unchanged = [place for place in order if rows[place].verdict is Verdict.UNCHANGED]
    # One that is unchanged stays, and says that something was compared.
    gone = set([place for place in order if place not in unchanged[-1:]][:many])
    kinds = [
        LeftOut(verdict=row.verdict, decides=row.decides, fails=row.fails, accepted=row.accepted is not None, count=1)
        for place, row in enumerate(rows)
        if place in gone and row.verdict is not Verdict.UNCHANGED
    ]
    return tuple(row for place, row in enumerate(rows) if place not in gone), _added((), kinds)


def _weight(row: ArtefactRow) -> int:
    """How much its reader needs it."""
    if _is_quiet(row):
        return 0
    return 1 + 2 * row.is_blocking + row.decides


def _added(left_out: Iterable[LeftOut], more: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    counts: Counter[tuple[Verdict, bool, bool, bool]] = Counter()
    for each in (*left_out, *more):
        counts[each.verdict, each.decides, each.fails, each.accepted] += each.count
    return tuple(
        LeftOut(verdict=verdict, decides=decides, fails=fails, accepted=accepted, count=count)
        for (verdict, decides, fails, accepted), count in counts.items()
    )


def _row(row: CheckRow, workload: Workload | None, check: Check, source: Source | None) -> ArtefactRow:
    series = row.series
    return ArtefactRow(
        key=series.key,
        benchmark=plain(series.benchmark, _NAME),
        parameters=tuple(
            Parameter(name=plain(name, _NAME) or CUT, value=plain(value, _WORDS)) for name, value in series.parameters
        )[:32],
        metric=plain(series.metric.name, _NAME),
        unit=plain(series.metric.unit, _UNIT),
        better=series.metric.better,
        environment=plain(series.environment, _WORDS),
        operator=_optional(workload.operator if workload is not None else None),
        implementation=_optional(series.implementation),
        measured_by_asv=series.is_asvs,
        source=source,
        verdict=row.verdict,
        reason=plain(row.reason, _WORDS) if row.reason else None,
        # What head was not to measure is no failure of head's, which a number of base alone would be.
        base=None if row.base is None or (row.verdict is Verdict.MISSING and not row.fails) else _bounded(row.base),
        head=None if row.head is None else _bounded(row.head),
        change=_change(row.comparison) if row.comparison is not None else None,
        control_change=None if row.control_change is None else _bounded(row.control_change),
        runs_needed=runs_needed(row),
        counts_from=None if row.counts_from == check.threshold else _bounded(row.counts_from),
        blocks=row.limits.blocks,
        accepted=_acceptance(row.accepted) if row.accepted is not None else None,
    )


def _acceptance(said: policy.Acceptance) -> Acceptance:
    return Acceptance(by=plain(said.by, _NAME), reason=plain(said.reason, _WORDS), source=plain(said.source, _NAME))


def _change(moved: Comparison) -> Change:
    return Change(
        value=_bounded(moved.change),
        low=_bounded(moved.low),
        high=_bounded(moved.high),
        p_value=moved.p_value,
        noise=_bounded(moved.noise),
        noise_source=moved.noise_source,
        base_runs=moved.base_runs,
        head_runs=moved.head_runs,
    )


def _bounded(value: float) -> float:
    return max(-_LARGEST, min(value, _LARGEST))


def _drift(drift: Drift) -> MachineDrift:
    canaries = tuple(
        Canary(workload=plain(each.workload, _NAME), change=_bounded(each.change)) for each in drift.canaries
    )
    return MachineDrift(change=_bounded(drift.change), controls=drift.controls, canaries=canaries[:32])


def _code(
    store: Store, project: str, base: Commit, head: Commit, machine: str, rows: Iterable[ArtefactRow]
) -> tuple[CodeDifference, ...]:
    operators = {row.operator for row in rows}
    sides = [queries.compiled_for(store, project, commit.hash, machine) for commit in (base, head)]
    # What nobody compiled at one end is not new at the other.
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
        operator=plain(change.operator, _NAME),
        implementation=_optional(code.implementation if code is not None else None),
        kernel=plain(change.kernel, _WORDS),
        architecture=plain(change.architecture, _NAME),
        state="new" if change.before is None else "gone" if change.after is None else "changed",
        facts=_facts(change.facts),
        instructions=_facts(change.instructions),
    )


def _facts(facts: Sequence[Fact]) -> tuple[CodeFact, ...]:
    return tuple(
        CodeFact.model_validate(
            {"name": plain(fact.name, _NAME), "unit": fact.unit, "before": fact.before, "after": fact.after}
        )
        for fact in facts[:_FACTS]
    )


def _commit(commit: Commit) -> ArtefactCommit:
    return ArtefactCommit(hash=commit.hash, subject=_optional(commit.subject))


def _optional(text: str | None) -> str | None:
    return plain(text, _NAME) if text else None


# Where in a repository a benchmark is written: the line that a remark about it stands at.


class BenchmarkSources:
    """Looks benchmarks of one asv project up, by the names that asv gives them."""

    def __init__(self, repository: Path, benchmarks: Path) -> None:
        """`benchmarks` is asv's benchmark_dir."""
        self._repository, self._benchmarks = repository.resolve(), benchmarks.resolve()
        self.of = cache(self._of)

    def _of(self, benchmark: str) -> Source | None:
        """File and line of the function, else of its class, else of the file; None where there is no such file."""
        names = benchmark.split(".")
        for length in range(len(names) - 1, 0, -1):
            module = self._benchmarks.joinpath(*names[:length])
            for path in (module.with_suffix(".py"), module / "__init__.py"):
                if path.is_file() and path.resolve().is_relative_to(self._repository):
                    where = path.resolve().relative_to(self._repository).as_posix()
                    try:
                        return Source(path=where, line=_line(path, names[length:]))
                    except ValidationError:
                        return None  # a name that the artefact does not take
        return None


def _line(path: Path, names: list[str]) -> int:
    try:
        inside: list[ast.stmt] = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return 1
    line = 1
    for name in names:
        for node in inside:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                line, inside = node.lineno, node.body
                break
        else:
            break
    return line
