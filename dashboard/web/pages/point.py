"""Details of one point: a panel of the series page, also as a fragment."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from flask import Blueprint, abort, render_template, request

from ...analysis.next_measurement import asv_command
from ...model import quantities
from ...model.compiled_code import compiled_difference
from ...model.history import PointFacts
from ...model.naming import SOFTWARE_NAMES, software_version
from ...model.series import Origin
from ...store import queries
from ...store.queries.compiled_code import code_of_machine
from ...text.labels import count, moment
from ..figures.samples import samples_of
from ..request_context import project_or_404, store
from ..urls import compare_address


def origin_facts(origin: Origin) -> tuple[tuple[str, str], ...]:
    """Name and text of every recorded fact: GPU, software, measurement."""
    return (
        *_machine(origin),
        *_software(origin.software),
        *_measuring(origin.measuring),
        *([("Run began", moment(origin.started_at))] if origin.started_at else []),
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
        if gpu.get("uuid"):
            yield "GPU UUID", str(gpu["uuid"])
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
            yield SOFTWARE_NAMES.get(name, name), software_version(name, str(version))


def _measuring(measuring: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _conditions(measuring)
    yield from _quantities(measuring)
    if measuring.get("cache"):
        yield "L2 cache", str(measuring["cache"])
    if measuring.get("backend"):
        yield "Backend", str(measuring["backend"])
    if measuring.get("timer"):
        yield "Timed by", str(measuring["timer"])
    if _is_number(measuring.get("relative_error")) and _is_number(measuring.get("tolerance")):
        yield "Relative error", f"{measuring['relative_error']:.2g} (at most {measuring['tolerance']:.2g})"
    if _is_number(measuring.get("inaccuracy")):
        yield "Inaccuracy", f"{measuring['inaccuracy']:.2g} times the allowed error"
    if measuring.get("seed") is not None:
        yield "Seed", str(measuring["seed"])
    if measuring.get("code_sha256"):
        yield "Machine code", f"SHA-256 {str(measuring['code_sha256'])[:12]}"


def _conditions(measuring: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """State of the machine during the measurement."""
    clocks = measuring.get("sm_clock_hz")
    if isinstance(clocks, Sequence) and clocks and all(map(_is_number, clocks)):
        low, high = quantities.quantity(min(clocks), "Hz"), quantities.quantity(max(clocks), "Hz")
        spread = f" ({low} to {high})" if low != high else ""
        yield "SM clock", quantities.quantity(median(clocks), "Hz") + spread
    if _is_number(measuring.get("temperature_c")):
        yield "Temperature", f"{measuring['temperature_c']:.0f} °C"
    throttled = measuring.get("throttled_s")
    if isinstance(throttled, Mapping):
        reasons = [f"{reason} for {quantities.latency(time)}" for reason, time in throttled.items() if time]
        yield "Throttled", ", ".join(reasons) or "no"
    if _is_number(measuring.get("contenders")):
        others = measuring["contenders"]
        yield "Other GPU processes", count(others, "process", "processes") if others else "none"
    if _is_number(measuring.get("tries")) and measuring["tries"] > 1:
        yield "Tries", f"{measuring['tries']}, the earlier ones invalid"
    if _is_number(measuring.get("at_s")):
        yield "Measured", f"{measuring['at_s']:.0f} s into the run"


def _quantities(measuring: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if measuring.get("sample_count"):
        yield "Calls timed", str(measuring["sample_count"])
    for name, field, unit in (
        ("Warm latency", "warm_latency_s", "s"),
        ("Steady latency", "steady_latency_s", "s"),
        ("SM cycles", "sm_cycles", "cycles"),
        ("Peak memory over inputs and outputs", "peak_memory_bytes", "bytes"),
    ):
        if _is_number(measuring.get(field)):
            yield name, quantities.quantity(measuring[field], unit)
    if measuring.get("steady_reason"):
        yield "Steady latency", str(measuring["steady_reason"])
    energy = measuring.get("energy")
    if isinstance(energy, Mapping) and energy.get("per_call_j"):
        per_call = median(energy["per_call_j"])
        yield (
            "Energy per call",
            (
                f"{quantities.quantity(per_call, 'J')}, {quantities.quantity(energy.get('power_w'), 'W')} over"
                f" {count(len(energy['per_call_j']), 'window')} of {quantities.quantity(energy.get('window_s'), 's')}"
            ),
        )
        if energy.get("method"):
            yield "Energy method", str(energy["method"])
    launched = measuring.get("launched")
    if isinstance(launched, Mapping) and launched:
        yield "Kernels launched per call", ", ".join(f"{times}× {name}" for name, times in launched.items())
    elif _is_number(measuring.get("kernels_launched")):
        yield "Kernels launched per call", quantities.quantity(measuring["kernels_launched"], "launches")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


bp = Blueprint("point", __name__, url_prefix="/<project:project>/series")

# Facts that always differ between runs.
_PER_RUN = frozenset({"Run", "Run began", "Measured", "Seed", "Calls timed"})


@bp.get("/<key>/point")
def show(project: str, key: str) -> str:
    """The panel of `run`; by default the newest."""
    facts = queries.point_facts(store(), key, request.args.get("run") or None)
    if facts is None or facts.series.project != project:
        project_or_404(project)
        abort(404, "This series has no such point.")
    return render_template("point.html", point=panel(facts))


def panel(facts: PointFacts) -> dict[str, Any]:
    """Variables of templates/point.html."""
    point, before = facts.point, facts.before
    now = dict(origin_facts(facts.origin)) if facts.origin else {}
    then = dict(origin_facts(facts.origin_before)) if facts.origin_before else {}
    sides = [(f"at {before.commit.hash[:8]}", facts.samples_before)] if before is not None else []
    has_both = before is not None and before.value and point.value is not None
    gpu = facts.origin.gpu if facts.origin else {}
    ran, ran_before = (code_of_machine(codes, {"gpu": gpu}) for codes in (facts.compiled, facts.compiled_before))
    others, others_before = (
        [code for code in codes if code not in mine]
        for codes, mine in ((facts.compiled, ran), (facts.compiled_before, ran_before))
    )
    return {
        "facts": facts,
        "before": before,
        "compare": compare_address(facts.series.project, before.commit.hash, point.commit.hash) if before else None,
        "change": point.value / before.value - 1 if has_both and before and before.value and point.value else None,
        "is_other_gpu": before is not None and None not in (point.gpu, before.gpu) and point.gpu != before.gpu,
        "context": [
            (name, text, then[name] if name in then and then[name] != text and name not in _PER_RUN else None)
            for name, text in now.items()
        ],
        "samples": samples_of([*sides, ("this point", facts.samples)], facts.series.metric.unit),
        "ran_on": ", ".join(sorted({code.architecture for code in ran})) if others else "all architectures",
        "compiled": ran,
        "code": compiled_difference(ran_before, ran),
        "other_compiled": others,
        "other_code": compiled_difference(others_before, others),
        "command": asv_command(facts.series, point.commit),
    }
