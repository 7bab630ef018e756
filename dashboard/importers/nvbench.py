"""NVBench's JSON (--json, --jsonbin; version 1, which it writes since January 2022): a state is a series' value.

`latency` is the mean GPU time of isolated launches with a cold L2 (the CPU's time in CPU-only benchmarks), as every
version states it; the median that newer ones add is a metric beside it, so that an update of NVBench moves no series.
The file names neither the commit nor when it was measured. A file with several GPUs is that of several machines.
"""

import re
from array import array
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from ..model.result_file import BenchmarkSpec, ResultFile, Value
from ..model.series import Status
from .import_overrides import Beside, Given
from .input_files import BeyondLimitError, BrokenFileError
from .result_builder import Gathered, finite, measured, not_measured

_VERSION = 1
_MOST_DEVICES = 64
_METRICS = (  # metric, unit, tags of the summary that states it: the first that is there
    ("latency", "seconds", ("nv/cold/time/gpu/mean", "nv/cpu_only/time/cpu/mean")),
    ("median_latency", "seconds", ("nv/cold/time/gpu/median", "nv/cpu_only/time/cpu/median")),
    ("batch_latency", "seconds", ("nv/batch/time/gpu/mean",)),
    ("cpu_time", "seconds", ("nv/cold/time/cpu/mean",)),
    ("bandwidth", "B/s", ("nv/cold/bw/global/bytes_per_second", "nv/cpu_only/bw/global/bytes_per_second")),
    ("bandwidth_utilization", "share of peak", ("nv/cold/bw/global/utilization",)),
    ("item_rate", "items/s", ("nv/cold/bw/item_rate", "nv/cpu_only/bw/item_rate")),
    ("sm_clock", "Hz", ("nv/cold/sm_clock_rate/mean",)),
)
_UNIT_OF_HINT = {
    "duration": "seconds",
    "bytes": "bytes",
    "byte_rate": "B/s",
    "item_rate": "items/s",
    "frequency": "Hz",
    "percentage": "share",
}
_Summaries = Mapping[str, Mapping[str, Any]]  # by tag: the summary's fields and its data's


def recognises(data: Mapping[str, Any]) -> bool:
    """Whether the JSON has the shape of such a file."""
    benchmarks = data.get("benchmarks")
    return isinstance(benchmarks, list) and any(isinstance(b, dict) and "states" in b for b in benchmarks)


def read(data: Mapping[str, Any], given: Given, beside: Beside) -> tuple[ResultFile, ...]:
    """Reads a file, a record for each GPU. Raises BrokenFileError if it lacks what is not given, or another version.

    With --jsonbin the samples are in files of their own, which `beside` gives.
    """
    version = _version(data)
    if version != _VERSION:
        raise BrokenFileError(f"NVBench's JSON of version {version or 0}; this version reads {_VERSION}")
    if not given.commit or given.date_ms is None:
        missing, option = ("commit", "--commit") if not given.commit else ("date of the commit", "--date")
        raise BrokenFileError(
            f"no {missing}: NVBench does not record it; give it ({option}, or {option[2:]}= in a URL)"
            + ("" if not given.commit else "; with --repository git knows it")
        )
    devices = {device["id"]: device for device in data.get("devices") or () if isinstance(device, dict)}
    of_device: dict[Any, Gathered] = {}
    for benchmark in data["benchmarks"]:
        for state in benchmark.get("states") or ():
            gathered = of_device.setdefault(state.get("device"), Gathered())
            names, values = _axes(state)
            for metric, unit, value in _values(state, values, beside):
                gathered.add(f"{benchmark['name']}.{metric}", BenchmarkSpec(unit=unit, parameter_names=names), value)
    if len(of_device) > _MOST_DEVICES:
        raise BeyondLimitError(f"{len(of_device):,} devices; at most {_MOST_DEVICES} of one file are read")
    if not of_device:
        raise BrokenFileError("it holds no measured benchmark")
    machines = _machines({key: devices.get(key, {}) for key in of_device}, given)
    return tuple(
        gathered.result(
            commit=given.commit,
            date_ms=given.date_ms,
            environment="nvbench",
            machine=machines[key],
            details=_details(devices.get(key, {})),
            started_ms=None,
        )
        for key, gathered in of_device.items()
    )


def _version(data: Mapping[str, Any]) -> Any:
    found: Any = data
    for key in ("meta", "version", "json", "major"):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _machines(devices: Mapping[Any, Mapping[str, Any]], given: Given) -> dict[Any, str]:
    """What each device is called: as given, or like the GPU; several are told apart by both, and by number."""
    names = {key: str(device.get("name") or "") for key, device in devices.items()}
    if not given.machine and not all(names.values()):
        raise BrokenFileError("no GPU is named, as with CPU-only benchmarks; give the machine (--machine)")
    if len(names) == 1:
        return {key: given.machine or name for key, name in names.items()}
    many = list(names.values())
    told = {key: name if many.count(name) == 1 else f"{name} #{key}" for key, name in names.items()}
    return {key: f"{given.machine} {name}".strip() if given.machine else name for key, name in told.items()}


def _details(device: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("sm_version", "number_of_sms", "global_memory_size", "global_memory_bus_bandwidth", "l2_cache_size")
    return {"gpu": device.get("name"), **{key: device.get(key) for key in kept}}


def _axes(state: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    axes = state.get("axis_values") or ()
    names = tuple(str(axis["name"]) for axis in axes)
    return names, tuple(repr(axis["value"]) if axis.get("type") == "string" else str(axis["value"]) for axis in axes)


def _values(state: Mapping[str, Any], parameters: tuple[str, ...], beside: Beside) -> Iterator[tuple[str, str, Value]]:
    """The metrics of a state: name, unit, value."""
    if state.get("is_skipped"):
        reason = str(state.get("skip_reason") or "the benchmark skipped it")
        yield "latency", "seconds", not_measured(parameters, Status.UNAVAILABLE, reason)
        return
    summaries = _summaries(state)
    for metric, unit, tags in _METRICS:
        tag = next((tag for tag in tags if tag in summaries), None)
        if tag is None:
            continue
        kind = tag.rpartition("/")[0]
        quartiles = tuple(summaries.get(f"{kind}/{q}", {}).get("value") for q in ("q1", "q3"))
        is_cold = metric == "latency"
        count = finite(summaries.get("/".join(tag.split("/")[:2]) + "/sample_size", {}).get("value"))
        yield (
            metric,
            unit,
            measured(
                parameters,
                summaries[tag].get("value"),
                count=None if count is None else int(count),
                quartiles=(quartiles[0], quartiles[1]) if is_cold or metric == "median_latency" else (None, None),
                samples=_samples(summaries, beside) if is_cold else (),
            ),
        )
    for tag, summary in summaries.items():
        if not tag.startswith("nv/") and finite(summary.get("value")) is not None:
            name = re.sub(r"\W+", "_", tag).strip("_")
            yield name, _UNIT_OF_HINT.get(str(summary.get("hint")), "value"), measured(parameters, summary["value"])


def _summaries(state: Mapping[str, Any]) -> _Summaries:
    found = {}
    for summary in state.get("summaries") or ():
        data = {item["name"]: item.get("value") for item in summary.get("data") or ()}
        found[str(summary.get("tag"))] = {"hint": summary.get("hint"), **data}
    return found


def _samples(summaries: _Summaries, beside: Beside) -> tuple[float, ...]:
    """The times of isolated launches in seconds, from the file of little-endian float32 that --jsonbin wrote."""
    for kind in ("cold", "cpu_only"):
        name = summaries.get(f"nv/json/bin:nv/{kind}/sample_times", {}).get("filename")
        if isinstance(name, str):
            path = PurePath(name.replace("\\", "/"))
            data = beside(f"{path.parent.name}/{path.name}")
            if data is not None and len(data) % 4 == 0:
                values = array("f")
                values.frombytes(data)
                return tuple(values)
    return ()
