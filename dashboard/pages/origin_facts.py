"""A value's origin as pairs of words: the GPU and its state, the software, and how the value was taken."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from warpwatch.dashboard import quantities
from warpwatch.dashboard.formatting import moment
from warpwatch.dashboard.store.records import Origin

_SOFTWARE = {"torch": "PyTorch", "cuda": "CUDA", "cudnn": "cuDNN", "triton": "Triton", "nvbench": "NVBench",
             "python": "Python"}  # fmt: skip


def origin_facts(origin: Origin) -> tuple[tuple[str, str], ...]:
    """Name and text of everything that was recorded; what was not is left out."""
    return (
        *_machine(origin),
        *_software(origin.software),
        *_measuring(origin.measuring),
        *([("Measured", moment(origin.started_at))] if origin.started_at else []),
        ("Run", origin.run),
    )


def _machine(origin: Origin) -> Iterator[tuple[str, str]]:
    gpu = origin.gpu
    if gpu:
        capability = f", sm_{str(gpu['compute_capability']).replace('.', '')}" if gpu.get("compute_capability") else ""
        yield "GPU", f"{gpu.get('name', 'unknown')}{capability}"
        if gpu.get("driver"):
            yield "Driver", str(gpu["driver"])
        if _is_number(gpu.get("power_limit_w")):
            yield "Power limit", quantities.quantity(gpu["power_limit_w"], "W")
        sharing = [word for word, on in (("ECC on", gpu.get("ecc")), ("MIG on", gpu.get("mig"))) if on]
        if gpu.get("other_processes"):
            sharing.append(f"{gpu['other_processes']} other processes")
        if sharing:
            yield "GPU state", ", ".join(sharing)
    if origin.cpu.get("model"):
        cores = f", {origin.cpu['cores']} cores" if origin.cpu.get("cores") else ""
        yield "CPU", f"{origin.cpu['model']}{cores}"


def _software(software: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, version in software.items():
        if version:
            yield _SOFTWARE.get(name, name), str(version)


def _measuring(measuring: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    clocks = measuring.get("sm_clock_hz")
    if isinstance(clocks, Sequence) and clocks and all(map(_is_number, clocks)):
        low, high = quantities.quantity(min(clocks), "Hz"), quantities.quantity(max(clocks), "Hz")
        spread = f" ({low} to {high})" if low != high else ""
        yield "SM clock", quantities.quantity(median(clocks), "Hz") + spread
    if _is_number(measuring.get("temperature_c")):
        yield "Temperature", f"{measuring['temperature_c']:.0f} °C"
    if measuring.get("sample_count"):
        yield "Samples", str(measuring["sample_count"])
    if measuring.get("cache"):
        yield "L2 cache", str(measuring["cache"])
    if measuring.get("backend"):
        yield "Backend", str(measuring["backend"])
    if _is_number(measuring.get("relative_error")) and _is_number(measuring.get("tolerance")):
        yield "Relative error", f"{measuring['relative_error']:.2g} (at most {measuring['tolerance']:.2g})"
    if measuring.get("seed") is not None:
        yield "Seed", str(measuring["seed"])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
