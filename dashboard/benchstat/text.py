"""Compared result sets as a table for people, and as JSON or CSV for programs."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from warpwatch.dashboard.benchstat.compare_sets import ComparedSets, MetricTable, Row, Side
from warpwatch.dashboard.benchstat.result_set import UNKNOWN_COMMIT, ResultSet
from warpwatch.dashboard.csv_text import csv_text
from warpwatch.dashboard.metrics import Better
from warpwatch.dashboard.quantities import change, quantity
from warpwatch.dashboard.statistics.comparison import FAMILY_ERROR, UNKNOWN_BETWEEN_RUNS
from warpwatch.dashboard.text_table import text_table
from warpwatch.dashboard.verdict import Verdict

_HEADER = ("", "A", "", "B", "", "delta", "95 % interval", "p", "n")
_ALIGN = "lrlrlrlrr"
_UNSTATED = "unit"  # asv's word for it
_TOLD = {Verdict.REGRESSED, Verdict.IMPROVED}


def as_table(compared: ComparedSets, *, width: int) -> str:
    """A block a metric, a row a case, `~` for a change that cannot be told from noise; then what that rests on."""
    blocks = [f"A  {_described(compared.a)}\nB  {_described(compared.b)}"]
    for table in compared.tables:
        unit = table.metric.unit
        rows = [_cells(row, unit) for row in table.rows]
        if (mean := table.geometric_mean) is not None:
            rows.append(
                ("geometric mean", _value(mean.a, unit), "", _value(mean.b, unit), "", change(mean.change), "", "", "")
            )
        body = text_table(_HEADER, rows, align=_ALIGN, width=width, shrink=0)
        blocks.append(f"{_heading(table)}\n{body}")
    return "\n\n".join([*blocks, "\n".join(notes(compared))])


def _described(given: ResultSet) -> str:
    count = len(given.runs)
    return ", ".join(
        [
            f"{given.name}: {count} run{'s' * (count > 1)}",
            _few("commit", {"unknown" if run.commit == UNKNOWN_COMMIT else run.commit[:8] for run in given.runs}),
            _few("machine", {run.machine or "?" for run in given.runs}),
        ]
    )


def _few(word: str, values: set[str]) -> str:
    return f"{word} {next(iter(values))}" if len(values) == 1 else f"{len(values)} {word}s"


def _heading(table: MetricTable) -> str:
    metric = table.metric
    unit = f" ({metric.unit})" if metric.unit != _UNSTATED else ""
    return f"{metric.label}{unit}{', higher is better' if metric.better is Better.HIGHER else ''}"


def _cells(row: Row, unit: str) -> tuple[str, ...]:
    moved = row.comparison
    levels = (*_level(row.a, unit), *_level(row.b, unit))
    if moved is None:
        return row.case.title, *levels, "", "", "", _n(row)
    if moved.noise == 0:  # an exact quantity
        return row.case.title, *levels, change(moved.change, row.a.level) if moved.change else "same", "", "", _n(row)
    delta = change(moved.change) if row.verdict in _TOLD else "~"
    interval = f"{change(moved.low)} … {change(moved.high)}"
    return row.case.title, *levels, delta, interval, _p(moved.p_value), _n(row)


def _level(side: Side, unit: str) -> tuple[str, str]:
    if side.level is None:
        return side.missing or "–", ""
    return _value(side.level, unit), f"± {side.margin * 100:.1f} %" if side.margin else ""


def _value(value: float, unit: str) -> str:
    return f"{value:.3g}" if unit == _UNSTATED and abs(value) < 0.1 else quantity(value, unit)


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0005 else "<0.001"


def _n(row: Row) -> str:
    """Runs, and where they are known their samples: "5+5 (500)"."""
    counts = [side.samples for side in (row.a, row.b)]
    samples = sum(count for count in counts if count is not None)
    runs = f"{len(row.a.runs)}+{len(row.b.runs)}"
    return f"{runs} ({samples})" if samples and None not in counts else runs


def notes(compared: ComparedSets) -> tuple[str, ...]:
    """What the figures rest on, and what they cannot know."""
    judged = [row for row in compared.rows if row.comparison is not None and row.comparison.noise]
    found = []
    if judged:
        found.append(
            "± and interval: 95 %. n: runs of A + of B (samples of both). ~: cannot be told from noise, of "
            f"{len(judged)} comparisons together (Holm, {FAMILY_ERROR * 100:.0f} %)."
        )
    if guessed := sum(not row.runs_tell for row in judged):
        found.append(
            f"{guessed} of {len(judged)} have no repeated runs to tell how two processes differ, which samples of one "
            "do not know: taken for the noise of a run is the whole scatter of its samples, "
            f"{UNKNOWN_BETWEEN_RUNS * 100:.0f} % at least."
        )
    if len(judged) > guessed:
        found.append(
            "The noise is that of the runs inside the sets: what else differs between A and B is in the delta."
        )
    untold = [row.comparison for row in judged if row.comparison is not None and row.verdict is Verdict.INCONCLUSIVE]
    if needed := [moved.runs_needed for moved in untold if moved.runs_needed]:
        found.append(
            f"{len(needed)} of the ~ want {_range(needed)} more runs of each set to show a change of "
            f"{compared.threshold * 100:g} %."
        )
    for name, given in (("A", compared.a), ("B", compared.b)):
        commits = {run.commit for run in given.runs}
        if len(commits) > 1:
            found.append(
                f"{name} holds {len(commits)} commits, taken for runs of one: what they changed counts as noise."
                + (f" {given.name}@COMMIT takes one of them." if given.name != "-" else "")
            )
    if compared.without_number:
        found.append(f"{compared.without_number} cases have a number in neither set.")
    return (*found, *(f"left out: {problem}" for given in (compared.a, compared.b) for problem in given.problems))


def _range(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return str(least) if least == most else f"{least} to {most}"


def as_json(compared: ComparedSets) -> str:
    """Every row with its unscaled values. Relative changes are fractions."""
    data = {
        "schema": 1,
        "a": _set(compared.a),
        "b": _set(compared.b),
        "rows": [_record(row) for row in compared.rows],
        "geometric_means": [
            {"metric": table.metric.name, "unit": table.metric.unit, "a": mean.a, "b": mean.b, "change": mean.change,
             "cases": mean.cases}
            for table in compared.tables if (mean := table.geometric_mean) is not None
        ],
        "notes": notes(compared),
    }  # fmt: skip
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_csv(compared: ComparedSets) -> str:
    """A line a row, with the geometric means as rows of their own."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for table in compared.tables:
        for row in table.rows:
            record = _record(row)
            sides = {f"{name}_{key}": value for name in "ab" for key, value in record[name].items()}
            cells = record | sides | {"parameters": json.dumps(record["parameters"], ensure_ascii=False)}
            writer.writerow({name: csv_text(cell) for name, cell in cells.items()})
        if (mean := table.geometric_mean) is not None:
            metric = table.metric
            writer.writerow(
                {"benchmark": "geometric mean", "metric": metric.name, "unit": metric.unit,
                 "better": metric.better.value, "a_value": mean.a, "b_value": mean.b, "change": mean.change}
            )  # fmt: skip
    return out.getvalue().removesuffix("\n")


_COLUMNS = (
    "benchmark", "parameters", "machine", "environment", "metric", "unit", "better", "a_value", "a_margin", "a_runs",
    "a_samples", "a_missing", "b_value", "b_margin", "b_runs", "b_samples", "b_missing", "change", "low", "high",
    "p_value", "changed", "noise", "noise_source", "runs_needed",
)  # fmt: skip


def _set(given: ResultSet) -> dict[str, Any]:
    return {
        "name": given.name,
        "runs": len(given.runs),
        "commits": sorted({run.commit for run in given.runs} - {UNKNOWN_COMMIT}),
        "machines": sorted({run.machine for run in given.runs if run.machine}),
    }


def _record(row: Row) -> dict[str, Any]:
    moved = row.comparison
    machine, environment = row.case.place or (None, None)
    return {
        "benchmark": row.case.benchmark,
        "parameters": dict(row.case.parameters),
        "machine": machine,
        "environment": environment,
        "metric": row.case.metric.name,
        "unit": row.case.metric.unit,
        "better": row.case.metric.better.value,
        "a": _side(row.a),
        "b": _side(row.b),
        "change": moved.change if moved else None,
        "low": moved.low if moved else None,
        "high": moved.high if moved else None,
        "p_value": moved.p_value if moved else None,
        "changed": row.verdict in _TOLD if moved else None,
        "noise": moved.noise if moved else None,
        "noise_source": moved.noise_source.value if moved else None,
        "runs_needed": moved.runs_needed if moved else None,
    }


def _side(side: Side) -> dict[str, Any]:
    return {"value": side.level, "margin": side.margin, "runs": len(side.runs), "samples": side.samples,
            "missing": side.missing}  # fmt: skip
