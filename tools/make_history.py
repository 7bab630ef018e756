"""Write an asv results folder of the largest intended size: 2.6 million points in 7,600 series.

`python -m tools.make_history FOLDER` writes 1,430 files, 260 MB; `--scale 0.1` a tenth of the
commits and of the benchmarks. The same seed gives the same bytes. It has what real folders have: full-precision
results next to statistics of five digits, samples for a part, several parameters, failed points, bare NaN, rows without
their empty columns, benchmarks that came later or are listed no more, steps, outliers, and noise that hangs together.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]

COMMITS = 358
FILES = 1430
PLACES = (("gpu-box", "py3.11"), ("gpu-box", "py3.12"), ("old runner (T4)", "py3.11"), ("old runner (T4)", "py3.12"))
SHAPES = ((100, ()), (60, (2, 2)), (40, (3, 4)), (54, (4, 5)))  # of benchmarks: how many, choices of each parameter

_COLUMNS = (
    "result",
    "params",
    "version",
    "started_at",
    "duration",
    "stats_ci_99_a",
    "stats_ci_99_b",
    "stats_q_25",
    "stats_q_75",
    "stats_number",
    "stats_repeat",
    "samples",
    "profile",
)
_START_MS = 1_700_000_000_000
_COMMIT_MS = 5 * 3600 * 1000
_SAMPLES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Benchmark:
    """One benchmark at one place, with its values over all commits."""

    name: str
    params: list[list[str]]
    values: _Array  # commits x combinations; NaN where it does not apply
    failed: NDArray[np.bool_]  # of the same shape
    has_samples: bool
    has_statistics: bool
    first: int  # commit


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--scale", type=click.FloatRange(0.01, 10), default=1.0, help="Share of the commits and the benchmarks.")
@click.option("--seed", type=int, default=1, show_default=True)
def main(folder: Path, scale: float, seed: int) -> None:
    """Write the results to FOLDER, which must be new or empty."""
    if folder.is_dir() and any(folder.iterdir()):
        raise click.ClickException(f"{folder} is not empty")
    points = size = files = 0
    for path, text, count in _result_files(folder, scale, seed):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
        files, points, size = files + 1, points + count, size + len(text)
    click.echo(f"{files} files, {points} points, {size / 1e6:.0f} MB in {folder}")


def _result_files(folder: Path, scale: float, seed: int) -> Iterator[tuple[Path, str, int]]:
    """Path, text and number of points of each file."""
    commits = max(round(COMMITS * scale), 2)
    every = list(itertools.product(range(commits), range(len(PLACES))))[: max(round(FILES * scale), len(PLACES))]
    shapes = [(max(round(count * scale), 1), shape) for count, shape in SHAPES]
    places = [list(_benchmarks(np.random.default_rng([seed, place]), shapes, commits)) for place in range(len(PLACES))]
    listed = {b.name: _description(b) for b in places[0] if not b.name.endswith("_gone")}
    yield folder / "benchmarks.json", json.dumps({**listed, "version": 2}), 0
    for machine in dict.fromkeys(machine for machine, _ in PLACES):
        details = {"arch": "x86_64", "cpu": "a CPU", "machine": machine, "num_cpu": "16", "ram": "64GB", "version": 1}
        yield folder / machine / "machine.json", json.dumps(details), 0
    for commit, place in every:
        machine, environment = PLACES[place]
        rng = np.random.default_rng([seed, place, commit])
        yield _result_file(folder, commit, machine, environment, places[place], rng)


def _benchmarks(
    rng: np.random.Generator, shapes: Sequence[tuple[int, tuple[int, ...]]], commits: int
) -> Iterator[_Benchmark]:
    for number, shape in enumerate(shape for count, shape in shapes for _ in range(count)):
        late, gone = number % 11 == 3, number % 29 == 5
        name = f"suite_{number % 23}.Bench{number}.time_it_{len(shape)}" + ("_gone" if gone else "")
        params = [[repr(f"option_{n}") if axis else str(2**n) for n in range(size)] for axis, size in enumerate(shape)]
        combinations = int(np.prod(shape))
        values = np.stack([_history(rng, commits) for _ in range(combinations)], axis=1)
        values[:, rng.random(combinations) < 0.02] = np.nan
        yield _Benchmark(
            name=name,
            params=params,
            values=values,
            failed=rng.random(values.shape) < 0.003,
            has_samples=number % 20 == 7,
            has_statistics=number % 8 != 4,
            first=commits // 2 if late else 0,
        )


def _history(rng: np.random.Generator, commits: int) -> _Array:
    """Seconds: a level, up to three steps, noise of which a part hangs together, and outliers."""
    logs = np.full(commits, rng.uniform(np.log(2e-6), np.log(2e-1)))
    for _ in range(rng.integers(0, 4)):
        logs[rng.integers(0, commits) :] += rng.normal(0, 0.1)
    noise = rng.normal(0, 10 ** rng.uniform(-2.7, -1.5), commits)
    noise[1:] += 0.3 * noise[:-1]
    return np.exp(logs + noise + (rng.random(commits) < 0.01) * rng.exponential(0.2, commits))


def _result_file(
    folder: Path,
    commit: int,
    machine: str,
    environment: str,
    benchmarks: Sequence[_Benchmark],
    rng: np.random.Generator,
) -> tuple[Path, str, int]:
    name = hashlib.sha1(str(commit).encode(), usedforsecurity=False).hexdigest()
    date = _START_MS + commit * _COMMIT_MS
    rows, points = {}, 0
    for number, benchmark in enumerate(benchmarks):
        if commit >= benchmark.first:
            rows[benchmark.name] = _row(benchmark, commit, date + 600_000 + number * 2_000, rng)
            points += benchmark.values.shape[1]
    data = {
        "commit_hash": name,
        "env_name": environment,
        "date": date,
        "params": {"arch": "x86_64", "cpu": "a CPU", "machine": machine, "num_cpu": "16", "ram": "64GB"},
        "python": environment[2:],
        "requirements": {},
        "env_vars": {},
        "result_columns": list(_COLUMNS),
        "results": rows,
        "durations": {},
        "version": 2,
    }
    return folder / machine / f"{name[:8]}-{environment}.json", json.dumps(data), points


def _row(benchmark: _Benchmark, commit: int, started: int, rng: np.random.Generator) -> list[Any]:
    values = benchmark.values[commit]
    failed = benchmark.failed[commit]
    absent = failed | np.isnan(values)
    result = [None if bad else float(value) for bad, value in zip(failed, values, strict=True)]
    version = hashlib.sha256(benchmark.name.encode()).hexdigest()
    row: list[Any] = [None if failed.all() else result, benchmark.params, version, started, 1.25]
    if benchmark.has_statistics:
        spread = np.abs(rng.normal(0.01, 0.004, len(values)))
        for factor in (-2.6, 2.6, -0.7, 0.7):
            row.append(_column(absent, values * (1 + factor * spread)))
        row += [[None if bad else 1 for bad in absent], [None if bad else _SAMPLES for bad in absent]]
    if benchmark.has_samples:
        row += [None] * (11 - len(row))
        taken = values[:, None] * (1 + rng.normal(0, 0.01, (len(values), _SAMPLES)))
        row.append([None if bad else value for bad, value in zip(absent, taken.tolist(), strict=True)])
    return row


def _column(absent: NDArray[np.bool_], values: _Array) -> list[float | None]:
    """Five significant digits, as asv keeps its statistics."""
    return [None if bad else float(f"{value:.5g}") for bad, value in zip(absent, values, strict=True)]


def _description(benchmark: _Benchmark) -> dict[str, Any]:
    names = [("size", "option")[axis] for axis in range(len(benchmark.params))]
    return {
        "name": benchmark.name,
        "unit": "seconds",
        "type": "time",
        "version": "1",
        "param_names": names,
        "params": benchmark.params,
    }


if __name__ == "__main__":
    main()
