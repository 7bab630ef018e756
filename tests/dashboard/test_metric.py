"""The unit determines the direction; a benchmark's name determines the metric."""

import pytest

from warpwatch.dashboard.model.metric import Better, MetricRole, metric, metric_name, unit_of


@pytest.mark.parametrize(
    ("unit", "better"),
    [
        ("seconds", Better.LOWER),
        ("bytes", Better.LOWER),
        ("count", Better.LOWER),
        ("unit", Better.LOWER),
        ("GB/s", Better.HIGHER),
        ("TFLOP/s", Better.HIGHER),
        ("TFLOPS", Better.HIGHER),
        ("fps", Better.HIGHER),
    ],
)
def test_the_unit_determines_which_direction_is_better(unit: str, better: Better) -> None:
    assert metric("m", unit).better is better


def test_worse_follows_the_direction() -> None:
    assert metric("latency", "seconds").is_worse(0.1)
    assert metric("bandwidth", "GB/s").is_worse(-0.1)
    assert not metric("bandwidth", "GB/s").is_worse(0.1)


@pytest.mark.parametrize(
    ("method", "kind", "name"),
    [
        ("benchmarks.rope.Rope.track_latency", "track", "latency"),
        ("benchmarks.x.track_local_memory_instructions", "track", "local_memory_instructions"),
        ("m.Suite.time_parse", "time", "time"),
        ("m.Suite.time_parse", None, "time"),
        ("m.Suite.peakmem_map", None, "peak memory"),
        ("m.Suite.mem_map", "memory", "memory"),
    ],
)
def test_the_method_names_the_metric(method: str, kind: str | None, name: str) -> None:
    assert metric_name(method, kind) == name


@pytest.mark.parametrize(
    ("declared", "parameter", "unit"),
    [
        ("seconds", "'device_memory_allocated'", "seconds"),
        ("unit", "'device_memory_allocated'", "bytes"),
        ("unit", "'jit_duration'", "seconds"),
        ("unit", "'solver_niter_p95'", "count"),
        ("unit", "'step.forward'", "unit"),
        (None, "'step.forward'", "unit"),
    ],
)
def test_a_parameter_may_state_the_unit_that_asv_does_not(declared: str | None, parameter: str, unit: str) -> None:
    assert unit_of("benchmark.Aloha.track_metric", declared, [parameter]) == unit


def test_a_benchmark_listed_no_longer_has_its_prefixs_unit() -> None:
    assert unit_of("m.Suite.time_parse", None, ()) == "seconds"
    assert unit_of("m.Suite.peakmem_map", None, ()) == "bytes"


def test_of_other_projects_times_and_the_unnamed_are_judged_but_not_rates() -> None:
    assert [metric("m", unit).is_judged for unit in ("seconds", "unit", "GB/s", "TFLOP/s", "bytes", "count")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("name", "unit", "role", "better"),
    [
        ("latency", "seconds", MetricRole.JUDGED, Better.LOWER),
        ("warm_latency", "seconds", MetricRole.JUDGED, Better.LOWER),
        ("steady_latency", "seconds", MetricRole.JUDGED, Better.LOWER),
        ("host_overhead", "seconds", MetricRole.JUDGED, Better.LOWER),
        ("peak_memory", "bytes", MetricRole.JUDGED, Better.LOWER),
        ("kernels_launched", "launches", MetricRole.JUDGED, Better.LOWER),
        ("cycles", "cycles", MetricRole.RESTATED, Better.LOWER),
        ("bandwidth", "GB/s", MetricRole.RESTATED, Better.HIGHER),
        ("tflops", "TFLOP/s", MetricRole.RESTATED, Better.HIGHER),
        ("sol_peak", "share of peak", MetricRole.RESTATED, Better.HIGHER),
        ("sol_ceiling", "share of ceiling", MetricRole.RESTATED, Better.HIGHER),
        ("energy", "joules", MetricRole.EXPLAINS, Better.LOWER),
        ("compile_time", "seconds", MetricRole.EXPLAINS, Better.LOWER),
        ("build_time", "seconds", MetricRole.EXPLAINS, Better.LOWER),
        ("library_size", "bytes", MetricRole.EXPLAINS, Better.LOWER),
        ("occupancy", "share", MetricRole.EXPLAINS, Better.HIGHER),
        ("registers", "registers", MetricRole.EXPLAINS, Better.LOWER),
    ],
)
def test_a_metric_of_the_suite_has_its_role_and_direction(
    name: str, unit: str, role: MetricRole, better: Better
) -> None:
    found = metric(name, unit)
    assert (found.role, found.better) == (role, better)


def test_what_is_counted_is_exact_and_what_is_timed_is_not() -> None:
    exact = [
        ("kernels_launched", "launches"),
        ("registers", "registers"),
        ("barriers", "barriers"),
        ("peak_memory", "bytes"),
        ("occupancy", "share"),
    ]
    measured = [("latency", "seconds"), ("energy", "joules"), ("cycles", "cycles"), ("memory", "bytes")]
    assert all(metric(name, unit).is_exact for name, unit in exact)
    assert not any(metric(name, unit).is_exact for name, unit in measured)


def test_only_the_cold_latency_has_a_speed_of_light_and_each_way_of_timing_scatters_in_its_own_way() -> None:
    names = ("latency", "warm_latency", "host_overhead", "compile_time", "time")
    assert [metric(name, "seconds").is_latency for name in names] == [True, False, False, False, False]
    assert [metric(name, "seconds").noise_family for name in names] == [
        "latency",
        "warm_latency",
        "host_overhead",
        "compile_time",
        "latency",
    ]
    assert [metric(name, "seconds").follows_machine for name in names] == [True, True, False, False, True]
    assert metric("registers", "registers").noise_family is None
