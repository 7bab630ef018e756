"""A unit tells the direction; a benchmark's name tells the metric."""

import pytest

from warpwatch.dashboard.metrics import Better, is_primary, metric, metric_name, unit_of


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
def test_the_unit_tells_which_way_is_better(unit: str, better: Better) -> None:
    assert metric("m", unit).better is better


def test_worse_follows_the_direction() -> None:
    assert metric("latency", "seconds").is_worse(0.1)
    assert metric("bandwidth", "GB/s").is_worse(-0.1)
    assert not metric("bandwidth", "GB/s").is_worse(0.1)


@pytest.mark.parametrize(
    ("benchmark", "kind", "name"),
    [
        ("benchmarks.rope.Rope.track_latency", "track", "latency"),
        ("benchmarks.x.track_local_memory_instructions", "track", "local_memory_instructions"),
        ("m.Suite.time_parse", "time", "time"),
        ("m.Suite.time_parse", None, "time"),
        ("m.Suite.peakmem_map", None, "peak memory"),
        ("m.Suite.mem_map", "memory", "memory"),
    ],
)
def test_the_method_names_the_metric(benchmark: str, kind: str | None, name: str) -> None:
    assert metric_name(benchmark, kind) == name


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
def test_a_parameter_may_tell_the_unit_that_asv_does_not(declared: str | None, parameter: str, unit: str) -> None:
    assert unit_of("benchmark.Aloha.track_metric", declared, [parameter]) == unit


def test_a_benchmark_listed_no_longer_has_its_prefixs_unit() -> None:
    assert unit_of("m.Suite.time_parse", None, ()) == "seconds"
    assert unit_of("m.Suite.peakmem_map", None, ()) == "bytes"


def test_times_and_the_unnamed_are_judged_but_not_rates() -> None:
    assert [is_primary(unit) for unit in ("seconds", "unit", "GB/s", "TFLOP/s", "bytes", "count")] == [
        True, True, False, False, False, False,
    ]  # fmt: skip
