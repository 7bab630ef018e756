"""One workload × implementation: gate, stopwatch, gate again, and what else there is to know of a call."""

import functools
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch

from . import energy, validity
from .context import Conditions, GpuMonitor
from .gate import Gate, check_rotated_replay
from .inputs import Inputs
from .launches import NotCapturableError, capture
from .operators import prepare
from .prepared import Prepared, UnavailableError
from .protocol import Job, Outcome
from .records import ClockEventReasons, MeasurementRecord, Status
from .setting import Setting
from .timing import Stopwatch
from .timing.replays import sample_steady_latency, sample_warm_latency
from .timing.timing import TimedCall, Timing

# NVML looks at one process at a time, some five times a second: where there are others, wait for it to look again.
_LOOKS = 3
_LOOK_S = 0.2
_ABOUT_S = 100e-6  # a call that was not measured yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What measures: one of each a process."""

    stopwatch: Stopwatch
    monitor: GpuMonitor | None  # None on the CPU
    stream: torch.cuda.Stream | None  # ours on the GPU: a kernel that works elsewhere is found out
    begun: float  # time.time() at the start of the run
    clock_tolerance: validity.ClockTolerance = field(default_factory=validity.ClockTolerance)


def measure(bench: Bench, setting: Setting, job: Job, blank: MeasurementRecord) -> Outcome:
    """Measure a job on its workload's setting; `blank` is completed.

    Raises what the implementation raises, UnavailableError, WrongResultError, NotCapturableError, TimingError.
    """
    with _on(bench.stream):
        return _measure(bench, setting, job, replace(blank, at_s=round(time.time() - bench.begun, 3)))


def _measure(bench: Bench, setting: Setting, job: Job, blank: MeasurementRecord) -> Outcome:
    workload = setting.workload
    prepared, *others = (prepare(workload, job.implementation, inputs) for inputs in setting.copies)
    gates = [_gate(one, inputs, setting, job) for one, inputs in zip((prepared, *others), setting.copies, strict=True)]
    gate = gates[0]
    error = gate.check()
    peak = _peak_memory_bytes(prepared) if bench.monitor else None
    captured = capture(prepared.run) if bench.monitor and prepared.capturable else None
    if captured:
        gate.check_replay(captured.replay)

    began_us = time.time_ns() // 1000  # NVML's clock
    before = bench.monitor.conditions() if bench.monitor else Conditions()
    for each in gates:
        each.begin_timing()
    launches = sum(captured.launched.values()) if captured and captured.launched else None
    calls = [
        TimedCall(
            run=one.run,
            after=each.after_timed_call,
            capturable=one.capturable,
            launches=launches or 1,
            peak_memory_bytes=peak or 0,
        )
        for one, each in zip((prepared, *others), gates, strict=True)
    ]
    timing = bench.stopwatch.sample_latency(calls, visit=job.visit, visits=job.visits)
    after = bench.monitor.conditions() if bench.monitor else Conditions()
    for each in gates:
        each.check_timed()

    contenders = _contenders(bench.monitor, began_us)
    events, throttled_s = _clock_events(before, after), _throttled_s(before, after)
    record = replace(
        blank,
        status=Status.OK,
        sample_count=len(timing.samples_s) * timing.calls_per_sample,
        sm_clock_hz=timing.sm_clock_hz,
        temperature_c=after.temperature_c,
        clock_event_reasons=events,
        throttled_s=throttled_s or None,
        contenders=contenders,
        quick=job.quick,
        metrics=job.metrics,
        cache=timing.cache,
        backend=prepared.backend,
        timer=timing.timer,
        relative_error=error,
        peak_memory_bytes=peak,
        launched=captured.launched if captured else None,
        kernels_launched=launches,
    )
    reason = (
        validity.throttled(events, throttled_s)
        or validity.contended(contenders or 0)
        or validity.clock_shifted(timing.clock_over_time_hz, _largest_shift(bench, job, timing))
    )
    if reason:
        return Outcome(measurement=replace(record, status=Status.INVALID, reason=reason))
    latency_s = statistics.median(timing.samples_s)
    warm = _warm(bench, setting, job, gate, calls[0], latency_s) if captured else ()
    steady = _steady(bench, setting, job, gates, calls, latency_s)
    gate.check()
    inaccuracy = max((each.inaccuracy for each in gates if each.inaccuracy), default=None)
    return Outcome(
        measurement=replace(
            record,
            reason=_remark(inaccuracy, is_gated=error is not None),
            inaccuracy=inaccuracy,
            latency_s=latency_s,
            sm_cycles=timing.sm_cycles,
            warm_latency_s=statistics.median(warm) if warm else None,
            steady_latency_s=statistics.median(steady.samples_s) if steady.samples_s else None,
            steady_copies=len(calls) if steady.samples_s else None,
            steady_reason=steady.reason,
        ),
        samples_s=timing.samples_s,
        calls_per_sample=timing.calls_per_sample,
        warm_samples_s=warm,
        steady_samples_s=steady.samples_s,
    )


def measure_energy(bench: Bench, setting: Setting, job: Job, blank: MeasurementRecord) -> Outcome:
    """The energy of a job's call, and nothing else.

    Raises as `measure` does; UnavailableError where the GPU has no meter.
    """
    assert bench.monitor is not None, "there is a meter on GPUs alone"
    with _on(bench.stream):
        prepared = prepare(setting.workload, job.implementation, setting.inputs)
        gate = _gate(prepared, setting.inputs, setting, job)
        gate.check()
        call = TimedCall(run=prepared.run, after=gate.after_timed_call)
        warm_s = statistics.median(sample_warm_latency(call, _ABOUT_S, quick=True, check=gate.check_replay))
        joules = energy.measure_energy(call, warm_s, bench.monitor.energy_j)
        gate.check()
    if joules is None:
        raise UnavailableError("the GPU's energy counter did not step under load")
    return Outcome(measurement=replace(blank, status=Status.OK, energy=joules))


def _remark(inaccuracy: float | None, *, is_gated: bool) -> str | None:
    """What a reader has to know of a number."""
    if not is_gated:
        return "no correctness gate: no reference is known"
    return None if inaccuracy is None else f"inaccurate: its error is {inaccuracy:.2g}x the allowed one"


def _largest_shift(bench: Bench, job: Job, timing: Timing) -> float:
    """How far the clock may have moved, by the canaries so far; a canary's own clock sets it for what follows."""
    if job.implementation not in job.workload.controls:
        return bench.clock_tolerance.largest
    bench.clock_tolerance.visited(job.workload.name, timing.clock_over_time_hz)
    return validity.LARGEST_SHIFT_OF_A_CANARY


def _gate(prepared: Prepared, inputs: Inputs, setting: Setting, job: Job) -> Gate:
    workload = setting.workload
    is_baseline = job.implementation in workload.baselines
    return Gate(prepared.run, inputs, setting.vectors, workload.tolerance, is_baseline=is_baseline)


def _warm(bench: Bench, setting: Setting, job: Job, gate: Gate, call: TimedCall, latency_s: float) -> tuple[float, ...]:
    """Warm samples, where they were asked for and the data fits the L2, or where a call is meant to be replayed."""
    assert bench.monitor is not None
    fits = 0 < setting.workload.cost.bytes <= bench.monitor.l2_bytes  # 0: not known
    if "warm_latency" not in job.metrics or not job.is_last_visit or not (fits or setting.workload.replayed):
        return ()
    return sample_warm_latency(call, latency_s, quick=job.quick, check=gate.check_replay)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steady:
    """Steady samples, or why there are none; neither where they were not requested."""

    samples_s: tuple[float, ...] = ()
    reason: str | None = None


def _steady(
    bench: Bench, setting: Setting, job: Job, gates: list[Gate], calls: list[TimedCall], latency_s: float
) -> _Steady:
    if "steady_latency" not in job.metrics or not job.is_last_visit:
        return _Steady()
    if bench.monitor is None:
        return _Steady(reason="not available: a CPU has no CUDA graphs, and its latency is that of calls back to back")
    if not setting.workload.cost.bytes and len(calls) == 1:  # one copy would be found in the L2
        return _Steady(reason="not measured: how much memory a copy of the inputs takes is not known")
    if any(not call.capturable for call in calls):
        return _Steady(reason="not captured: the call synchronises with the host")
    began_us = time.time_ns() // 1000
    before = bench.monitor.conditions()
    try:
        samples_s = sample_steady_latency(
            calls, latency_s, quick=job.quick, check=functools.partial(check_rotated_replay, gates)
        )
    except NotCapturableError as error:
        return _Steady(reason=f"not captured: {error}")
    after = bench.monitor.conditions()
    reason = validity.throttled(_clock_events(before, after), _throttled_s(before, after))
    reason = reason or validity.contended(_contenders(bench.monitor, began_us) or 0)
    return _Steady(reason=f"invalid: {reason}") if reason else _Steady(samples_s=samples_s)


def _peak_memory_bytes(prepared: Prepared) -> int:
    """Bytes that PyTorch's allocator held at the worst moment of a call, over inputs and output."""
    torch.cuda.reset_peak_memory_stats()
    out = prepared.run()
    extra = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
    del out
    return extra


def _contenders(monitor: GpuMonitor | None, since_us: int) -> int | None:
    """How many other processes computed on the GPU since; free of cost where there are no others.

    None where it is unknown: on the CPU, or without NVML.
    """
    if monitor is None or not monitor.sees_processes:
        return None
    if not monitor.others():
        return 0
    seen: set[int] = set()
    for _ in range(_LOOKS):
        seen |= monitor.at_work(since_us)
        if seen:
            break
        time.sleep(_LOOK_S)
    return len(seen)


def _clock_events(before: Conditions, after: Conditions) -> ClockEventReasons | None:
    if before.clock_event_reasons is None or after.clock_event_reasons is None:
        return None
    return ClockEventReasons(before=before.clock_event_reasons, after=after.clock_event_reasons)


def _throttled_s(before: Conditions, after: Conditions) -> dict[str, float]:
    """Seconds throttled in between, by reason."""
    return {
        name: seconds - before.throttled_s[name]
        for name, seconds in after.throttled_s.items()
        if name in before.throttled_s and seconds > before.throttled_s[name]
    }


@contextmanager
def _on(stream: torch.cuda.Stream | None) -> Iterator[None]:
    if stream is None:
        yield
        return
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        yield
    torch.cuda.synchronize()
