"""NVBench's JSON (--json, --jsonbin; version 1, written since January 2022). A state is one value of a series.

`latency` is the mean GPU time of isolated launches with a cold L2 (CPU time in CPU-only benchmarks), which every
version states. The median of newer versions is a metric of its own, so that an update of NVBench moves no series. The
file names neither commit nor time. A file with several GPUs makes a record for each.
"""

import re
from array import array
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from ..model.result_file import BenchmarkSpec, ResultFile, Value
from ..model.series import Status
from .input_files import BeyondLimitError, BrokenFileError, ImportOverrides, ReadSibling
from .result_builder import ResultBuilder, finite, measured, not_measured

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
    """Whether the JSON has the shape of this format."""
    benchmarks = data.get("benchmarks")
    return isinstance(benchmarks, list) and any(isinstance(b, dict) and "states" in b for b in benchmarks)


def read(data: Mapping[str, Any], overrides: ImportOverrides, read_sibling: ReadSibling) -> tuple[ResultFile, ...]:
    """Read a file; return a record for each GPU. The samples of --jsonbin come from `read_sibling`.

    Raises BrokenFileError for another version, and without a fact that `overrides` lacks too.
    """
    version = _version(data)
    if version != _VERSION:
        raise BrokenFileError(f"NVBench's JSON of version {version or 0}; this version reads {_VERSION}")
    if not overrides.commit or overrides.date_ms is None:
        missing, option = ("commit", "--commit") if not overrides.commit else ("date of the commit", "--date")
        raise BrokenFileError(
            f"no {missing}: NVBench does not record it; give it ({option}, or {option[2:]}= in a URL)"
            + ("" if not overrides.commit else "; with --repository it is read from git")
        )
    devices = {device["id"]: device for device in data.get("devices") or () if isinstance(device, dict)}
    of_device: dict[Any, ResultBuilder] = {}
    for benchmark in data["benchmarks"]:
        for state in benchmark.get("states") or ():
            builder = of_device.setdefault(state.get("device"), ResultBuilder())
            names, values = _axes(state)
            for metric, unit, value in _values(state, values, read_sibling):
                builder.add(f"{benchmark['name']}.{metric}", BenchmarkSpec(unit=unit, parameter_names=names), value)
    if len(of_device) > _MOST_DEVICES:
        raise BeyondLimitError(f"{len(of_device):,} devices; the limit of one file is {_MOST_DEVICES}")
    if not of_device:
        raise BrokenFileError("no measured benchmark")
    machines = _machines({key: devices.get(key, {}) for key in of_device}, overrides)
    return tuple(
        builder.result(
            commit=overrides.commit,
            date_ms=overrides.date_ms,
            environment="nvbench",
            machine=machines[key],
            details=_details(devices.get(key, {})),
            started_ms=None,
        )
        for key, builder in of_device.items()
    )


def _version(data: Mapping[str, Any]) -> Any:
    node: Any = data
    for key in ("meta", "version", "json", "major"):
        node = node.get(key) if isinstance(node, dict) else None
    return node


def _machines(devices: Mapping[Any, Mapping[str, Any]], overrides: ImportOverrides) -> dict[Any, str]:
    """Machine name of each device: the given name, or the GPU's; several devices get both, and a number."""
    names = {key: str(device.get("name") or "") for key, device in devices.items()}
    if not overrides.machine and not all(names.values()):
        raise BrokenFileError("the file names no GPU, as for CPU-only benchmarks; give the machine (--machine)")
    if len(names) == 1:
        return {key: overrides.machine or name for key, name in names.items()}
    gpus = list(names.values())
    unique = {key: name if gpus.count(name) == 1 else f"{name} #{key}" for key, name in names.items()}
    return {key: f"{overrides.machine} {name}".strip() if overrides.machine else name for key, name in unique.items()}


def _details(device: Mapping[str, Any]) -> dict[str, Any]:
    names = ("sm_version", "number_of_sms", "global_memory_size", "global_memory_bus_bandwidth", "l2_cache_size")
    return {"gpu": device.get("name"), **{name: device.get(name) for name in names}}


def _axes(state: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    axes = state.get("axis_values") or ()
    names = tuple(str(axis["name"]) for axis in axes)
    return names, tuple(repr(axis["value"]) if axis.get("type") == "string" else str(axis["value"]) for axis in axes)


def _values(
    state: Mapping[str, Any], parameters: tuple[str, ...], read_sibling: ReadSibling
) -> Iterator[tuple[str, str, Value]]:
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
                samples=_samples(summaries, read_sibling) if is_cold else (),
            ),
        )
    for tag, summary in summaries.items():
        if not tag.startswith("nv/") and finite(summary.get("value")) is not None:
            name = re.sub(r"\W+", "_", tag).strip("_")
            yield name, _UNIT_OF_HINT.get(str(summary.get("hint")), "value"), measured(parameters, summary["value"])


def _summaries(state: Mapping[str, Any]) -> _Summaries:
    summaries = {}
    for summary in state.get("summaries") or ():
        data = {item["name"]: item.get("value") for item in summary.get("data") or ()}
        summaries[str(summary.get("tag"))] = {"hint": summary.get("hint"), **data}
    return summaries


def _samples(summaries: _Summaries, read_sibling: ReadSibling) -> tuple[float, ...]:
    """Times of isolated launches in seconds, from the little-endian float32 file of --jsonbin."""
    for kind in ("cold", "cpu_only"):
        name = summaries.get(f"nv/json/bin:nv/{kind}/sample_times", {}).get("filename")
        if isinstance(name, str):
            path = PurePath(name.replace("\\", "/"))
            data = read_sibling(f"{path.parent.name}/{path.name}")
            if data is not None and len(data) % 4 == 0:
                values = array("f")
                values.frombytes(data)
                return tuple(values)
    return ()
