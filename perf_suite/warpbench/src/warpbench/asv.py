"""asv's side of warpbench, named in asv.conf.json: shares packages, hands on what was asked, keeps the context files.

asv imports this in its own process and calls `setup`. Discovery also imports it inside benchmark environments,
where asv is missing, so asv is imported only in there.
"""

import functools
import importlib
import os
import tempfile
from pathlib import Path
from typing import Any

from . import asv_values, jobs, spool, unchanged

_SPOOLS = Path(".asv/context")
_SELECTION = "selection.json"
_TOLD = (jobs.QUICK_VARIABLE, unchanged.RESULTS_VARIABLE)


def setup() -> None:
    """Wrap asv's `run`, its running of benchmarks, its asking for one value, and its saving of results."""
    from asv import runner
    from asv.commands import asv_profiling, find
    from asv.commands import run as run_command
    from asv.results import Results

    importlib.import_module(f"{__package__}.environment")  # asv finds its environments among the classes there are
    run_command.Run.run = classmethod(_with_spool(run_command.Run.run.__func__))
    for command in (run_command, find, asv_profiling):
        command.run_benchmarks = _with_selection(command.run_benchmarks)
    runner.ForkServer.run = _without_a_process(runner.ForkServer.run)
    runner.Spawner.run = _without_a_process(runner.Spawner.run)
    Results.save = _with_context(Results.save)


def _with_spool(run: Any) -> Any:
    @functools.wraps(run)
    def wrapped(cls: type, conf: Any, *arguments: Any, **keywords: Any) -> Any:
        """asv's run, with a spool folder of its own for the processes it starts; gone afterwards."""
        _SPOOLS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_SPOOLS) as folder:
            os.environ[spool.FOLDER_VARIABLE] = str(Path(folder).resolve())
            os.environ[jobs.QUICK_VARIABLE] = "1" if keywords.get("quick") else "0"
            os.environ[unchanged.RESULTS_VARIABLE] = str(Path(conf.results_dir).resolve())
            try:
                return run(cls, conf, *arguments, **keywords)
            finally:
                for name in (spool.FOLDER_VARIABLE, *_TOLD):
                    os.environ.pop(name, None)

    return wrapped


def _with_selection(run_benchmarks: Any) -> Any:
    @functools.wraps(run_benchmarks)
    def wrapped(benchmarks: Any, *arguments: Any, **keywords: Any) -> Any:
        """asv's run of some benchmarks; passes the selection to the session, so that it measures no others."""
        asv_values.use_benchmarks(Path(benchmarks.benchmark_dir))
        selected = {name: benchmarks.benchmark_selection.get(name) for name in benchmarks}
        with tempfile.TemporaryDirectory(prefix="warpbench_selection_") as folder:
            path = Path(folder) / _SELECTION
            asv_values.selection(selected, benchmarks._all_benchmarks).write(path)
            os.environ[jobs.SELECTION_VARIABLE] = str(path)
            try:
                return run_benchmarks(benchmarks, *arguments, **keywords)
            finally:
                del os.environ[jobs.SELECTION_VARIABLE]

    return wrapped


def _without_a_process(run: Any) -> Any:
    @functools.wraps(run)
    def wrapped(spawner: Any, name: str, params_str: str, profile_path: str, result_file_name: str, **rest: Any) -> Any:
        """One value: looked up here where a session has measured it, else by the process that asv starts for it.

        A process takes asv 20 ms, which for ten metrics of 200 combinations is more than measuring them. A profile
        needs one, but of what is n/a there is none: asv's process takes a method that says so for one that failed.
        """
        value = asv_values.look_up(name, rest.get("cwd"))
        if value is None or (profile_path != "None" and value.is_available):
            return run(
                spawner,
                name=name,
                params_str=params_str,
                profile_path=profile_path,
                result_file_name=result_file_name,
                **rest,
            )
        if value.failure is not None:
            return value.failure, 1
        Path(result_file_name).write_text(value.json)
        return "", 0

    return wrapped


def _with_context(save: Any) -> Any:
    @functools.wraps(save)
    def wrapped(results: Any, result_dir: str) -> None:
        """Writes the waiting context lines before asv's file, so that it is never read without them."""
        folder = os.environ.get(spool.FOLDER_VARIABLE)
        if folder:
            saved = Path(result_dir) / results._filename
            saved.parent.mkdir(parents=True, exist_ok=True)
            spool.move(
                Path(folder),
                saved.with_suffix(".context.jsonl"),
                commit=results.commit_hash,
                environment=results.env_name,
            )
        save(results, result_dir)

    return wrapped
