"""pytest-benchmark's JSON: of --benchmark-json, and of --benchmark-save below .benchmarks/.

A value is the median over rounds, in seconds, with the file's quartiles; --benchmark-save-data adds the rounds as
samples. The file omits tests that failed before they measured.
"""

import re
from collections.abc import Mapping
from typing import Any

from ..model.result_file import BenchmarkSpec, ResultFile
from ..model.series import Status
from .input_files import BrokenFileError, ImportOverrides, ReadSibling, milliseconds
from .result_builder import ResultBuilder, measured, not_measured

_NO_COMMIT = "unversioned"  # outside of a repository
_NO_JSON = "UNSERIALIZABLE["  # pytest-benchmark's prefix of an object's repr, which may contain its address


def recognises(data: Mapping[str, Any]) -> bool:
    """Whether the JSON has the shape of this format."""
    return isinstance(data.get("machine_info"), dict) and isinstance(data.get("benchmarks"), list)


def read(data: Mapping[str, Any], overrides: ImportOverrides, _read_sibling: ReadSibling) -> tuple[ResultFile, ...]:
    """Read a file. Raises BrokenFileError without a benchmark, or without a fact that `overrides` lacks too."""
    machine_info, commit_info = data["machine_info"], _mapping(data.get("commit_info"))
    named = None if commit_info.get("id") == _NO_COMMIT else commit_info.get("id")
    commit, machine = overrides.commit or named, overrides.machine or machine_info.get("node")
    if not commit:
        raise BrokenFileError("no commit: pytest-benchmark saw no repository; give it (--commit, or commit= in a URL)")
    if not machine:
        raise BrokenFileError("the file names no machine; give it (--machine, or machine= in a URL)")
    started_ms = milliseconds(str(data.get("datetime")))
    committed = commit_info.get("time") or commit_info.get("author_time")
    builder = ResultBuilder()
    if commit_info.get("dirty"):
        builder.note(f"{str(commit)[:8]} was measured with uncommitted changes")
    if overrides.commit and named not in (None, overrides.commit):
        builder.note(f"the file names commit {str(named)[:8]}; imported as {overrides.commit[:8]}, as given")
    for record in data["benchmarks"]:
        if isinstance(record, dict) and record.get("name"):
            _add(builder, record)
    return (
        builder.result(
            commit=str(commit),
            date_ms=overrides.date_ms or (milliseconds(str(committed)) if committed else started_ms),
            environment=f"pytest-benchmark, {_python(machine_info)}",
            machine=str(machine),
            details=_details(machine_info),
            started_ms=started_ms,
        ),
    )


def _add(builder: ResultBuilder, record: Mapping[str, Any]) -> None:
    names, values = _parameters(record)
    stats = record.get("stats")
    if isinstance(stats, dict) and "median" in stats:
        data = stats.get("data")
        rounds = stats.get("rounds")
        value = measured(
            values,
            stats["median"],
            quartiles=(stats.get("q1"), stats.get("q3")),
            count=rounds if isinstance(rounds, int) else None,
            samples=data if isinstance(data, list) else (),
        )
    else:
        value = not_measured(values, Status.FAILED, str(record.get("error") or "the benchmark failed"))
    builder.add(_benchmark(record), BenchmarkSpec(unit="seconds", kind="time", parameter_names=names), value)


def _benchmark(record: Mapping[str, Any]) -> str:
    """`bench/test_rope.py::TestRope::test_apply[fp16]` is bench.test_rope.TestRope.test_apply."""
    name, identity = str(record.get("fullname") or record["name"]), _id(record)
    if identity is not None:
        name = name.removesuffix(f"[{identity}]")
    path, colons, rest = name.partition("::")
    return (path.removesuffix(".py").replace("/", ".").replace("\\", ".") + colons + rest).replace("::", ".")


def _parameters(record: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names, sorted, and values as repr; the test's id if a value is not JSON."""
    params = record.get("params")
    is_plain = isinstance(params, dict) and not any(
        isinstance(value, str) and value.startswith(_NO_JSON) for value in params.values()
    )
    if params and is_plain:
        names = tuple(sorted(params))
        return names, tuple(repr(params[name]) for name in names)
    identity = _id(record)
    return (("parameters",), (repr(identity),)) if identity is not None else ((), ())


def _id(record: Mapping[str, Any]) -> str | None:
    """pytest's id of a test's parameters, which old versions state in the name only."""
    if "param" in record:
        return None if record["param"] is None else str(record["param"])
    match = re.fullmatch(r"[^\[]+\[(.*)\]", str(record["name"]), re.DOTALL)
    return match[1] if match else None


def _python(machine_info: Mapping[str, Any]) -> str:
    version = ".".join(str(machine_info.get("python_version") or "").split(".")[:2])
    return f"{machine_info.get('python_implementation') or 'Python'} {version}".strip()


def _details(machine_info: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of the machine under asv's names."""
    cpu = _mapping(machine_info.get("cpu"))
    system = f"{machine_info.get('system') or ''} {machine_info.get('release') or ''}".strip()
    return {
        "machine": machine_info.get("node"),
        "arch": machine_info.get("machine"),
        "os": system,
        "cpu": cpu.get("brand_raw") or cpu.get("brand") or machine_info.get("processor"),
        "num_cpu": cpu.get("count"),
        "python": machine_info.get("python_version"),
    }


def _mapping(raw: Any) -> Mapping[str, Any]:
    return raw if isinstance(raw, dict) else {}
