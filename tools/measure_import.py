"""Measure an import with its analysis into an empty store, and of single files: time, memory, size on disk.

`python -m tools.measure_import FOLDER [--database URL]` runs `warpwatch import` as it is
installed, compiled by the first run if not before, in processes of their own. Memory is the sum over all of them of
what each has alone and of its share of the rest (PSS), at its most; CPU time is theirs too.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import click
from sqlalchemy import func, select, text

from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.store import Store, schema
from warpwatch.dashboard.store.chunks import decode_samples
from warpwatch.dashboard.store.points import batches

_COMMAND = [sys.executable, "-m", "warpwatch.ci.cli"]
_LOOK_EVERY_S = 0.05
BYTES_OF_A_POINT = 3 * 8 + 4 + 1 + 3 * 4  # value and quartiles, samples taken, status; ids of series, commit and run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Took:
    wall_s: float
    cpu_s: float
    memory_bytes: int
    output: str


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--database", metavar="URL", help="An empty one; by default SQLite next to the folder's copy.")
@click.option("--later", type=int, default=5, show_default=True, help="Newest files, imported one by one at the end.")
def main(folder: Path, database: str | None, later: int) -> None:
    """Import FOLDER, an asv results folder without other writers: first all but the newest files, then these."""
    with tempfile.TemporaryDirectory(prefix="measure-", dir=folder.parent) as where:
        copy = Path(where) / "results"
        shutil.copytree(folder, copy, copy_function=shutil.copyfile)
        newest = _newest(copy, later)
        for number, path in enumerate(newest):
            path.rename(Path(where) / str(number))
        time.sleep(2.1)  # the copies' times are too fresh to be trusted before
        url = database or f"sqlite:///{where}/history.db"
        _report("from nothing", _import(copy, url))
        _report("nothing new", _import(copy, url))
        for number, path in enumerate(newest):
            (Path(where) / str(number)).rename(path)
            _report("one file more", _import(copy, url))
        _report_size(url)


def _import(folder: Path, url: str) -> _Took:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [*_COMMAND, "import", str(folder), "--project", "measured", "--database", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_compiled())
    most = [0]
    watch = threading.Thread(target=_watch, args=(process, most))
    watch.start()
    output = process.communicate()[0]
    wall = time.monotonic() - begun
    watch.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise click.ClickException(output)
    return _Took(
        wall_s=wall,
        cpu_s=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        memory_bytes=most[0],
        output=output.strip(),
    )


def _compiled() -> dict[str, str]:
    """Environment in which Python writes bytecode, as pip does at installation."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _watch(process: "subprocess.Popen[str]", most: list[int]) -> None:
    while process.poll() is None:
        most[0] = max(most[0], sum(_memory_bytes(pid) for pid in _family(process.pid)))
        time.sleep(_LOOK_EVERY_S)


def _family(pid: int) -> list[int]:
    tree = [pid]
    for process in tree:
        try:
            tasks = list(Path(f"/proc/{process}/task").iterdir())
            tree += [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    return tree


def _memory_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _newest(folder: Path, count: int) -> list[Path]:
    """Newest result files by commit date, the oldest first."""
    files = [path for machine in open_folder(folder).machines() for path in machine.files]
    dates = {path: int(json.loads(path.read_bytes())["date"]) for path in files}
    return sorted(files, key=lambda path: (dates[path], path))[len(files) - count :]


def _report(what: str, took: _Took) -> None:
    memory = took.memory_bytes / 1e6
    click.echo(f"{what}: {took.wall_s:.2f} s, {took.cpu_s:.2f} s of CPU, {memory:.0f} MB at most\n    {took.output}")


def _report_size(url: str) -> None:
    store = Store(url)
    chunk, samples = schema.chunk, schema.sample_chunk
    with store.read() as connection:
        points = connection.execute(select(func.sum(chunk.c.points))).scalar_one()
        stretches = connection.execute(select(func.sum(func.length(chunk.c.data)))).scalar_one()
        kept = connection.execute(select(func.coalesce(func.sum(func.length(samples.c.data)), 0))).scalar_one()
        ids = connection.execute(select(samples.c.id)).scalars().all()
        taken = 0
        for some in batches(ids, 500):
            rows = connection.execute(select(samples.c.data).where(samples.c.id.in_(some))).scalars()
            taken += sum(len(decode_samples(data).samples) for data in rows)
        is_sqlite = connection.dialect.name == "sqlite"
        asked = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
        size = connection.execute(
            text(asked if is_sqlite else "SELECT pg_database_size(current_database())")
        ).scalar_one()
    store.close()
    held = points * BYTES_OF_A_POINT + kept
    click.echo(
        f"{points} points of {BYTES_OF_A_POINT} bytes and {taken} samples, compressed {kept / 1e6:.1f} MB:"
        f" {held / 1e6:.1f} MB of information; points are stored in {stretches / 1e6:.1f} MB;"
        f" the database has {size / 1e6:.1f} MB, {size / held:.2f} of the information"
    )


if __name__ == "__main__":
    main()
