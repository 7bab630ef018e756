"""Sample sets that are no numbers: throttled, contended, clock-shifted; and recorded ones that are."""

import json
from pathlib import Path

import pytest

from warpbench import validity
from warpbench.records import ClockEventReasons

RECORDED = Path(__file__).resolve().parents[2] / "perf_suite" / "results"


def bits(before, after=0):
    return ClockEventReasons(before=before, after=after)


@pytest.mark.parametrize(
    ("bit", "name"),
    [(0x08, "hardware slowdown"), (0x20, "software thermal"), (0x40, "hardware thermal"), (0x80, "power brake")],
)
def test_a_thermal_or_hardware_bit_on_either_side_is_named(bit, name):
    assert name in validity.throttled(bits(bit), {})
    assert name in validity.throttled(bits(0, bit), {})


@pytest.mark.parametrize("bit", [0x0, 0x1, 0x2, 0x4, 0x10, 0x100])
def test_idling_the_power_cap_and_the_users_own_clocks_are_no_reason(bit):
    assert validity.throttled(bits(bit, bit), {"power cap": 0.3, "sync boost": 0.1}) is None


def test_throttling_between_the_two_readings_is_seen_in_the_counters():
    reason = validity.throttled(bits(0, 0), {"power cap": 0.05, "hardware thermal slowdown": 0.0123})
    assert reason == "the GPU throttled: hardware thermal slowdown for 12.3 ms"


def test_without_nvml_nothing_is_claimed():
    assert validity.throttled(None, {}) is None
    assert validity.contended(0) is None
    assert validity.clock_shifted(()) is None


def test_others_at_work_are_counted():
    assert validity.contended(1) == "another process computed on the GPU"
    assert validity.contended(3) == "another process and 2 more computed on the GPU"


def test_a_clock_that_falls_on_the_way_is_reported_in_megahertz():
    falling = [1.98e9] * 60 + [1.755e9] * 40
    assert validity.clock_shifted(falling) == "the SM clock moved from 1980 to 1755 MHz while it was measured"
    assert validity.clock_shifted(falling[::-1]) is not None


def test_a_clock_that_wavers_or_slips_for_a_moment_is_no_shift():
    wavering = [1.98e9, 1.95e9] * 100
    slip = [1.98e9] * 100 + [1.2e9] * 10 + [1.98e9] * 90
    assert validity.clock_shifted(wavering) is None
    assert validity.clock_shifted(slip) is None


def falling(share, count=100):
    return [1.5e9 - 1.5e9 * share * at / (count - 1) for at in range(count)]


def test_without_a_canary_or_with_a_steady_one_the_clock_may_move_by_3_percent():
    tolerance = validity.ClockTolerance()
    assert tolerance.largest == 0.03
    for _ in range(5):
        tolerance.visited("triad", falling(0.005))
    assert tolerance.largest == 0.03
    tolerance.visited("triad", ())
    assert tolerance.largest == 0.03


def test_on_a_card_whose_canary_slows_down_the_clock_may_move_further():
    """As under a power cap of 70 W: what moves for the matmul canary moves for others too."""
    tolerance = validity.ClockTolerance()
    for canary, share in (("triad", 0.01), ("matmul", 0.08), ("matmul", 0.08), ("matmul", 0.5)):
        tolerance.visited(canary, falling(share))
    assert 0.08 < tolerance.largest < 0.12
    assert validity.clock_shifted(falling(0.08), tolerance.largest) is None
    assert validity.clock_shifted(falling(0.08)) is not None
    assert validity.clock_shifted(falling(0.3), tolerance.largest) is not None


def test_no_canary_makes_every_clock_a_steady_one():
    tolerance = validity.ClockTolerance()
    tolerance.visited("matmul", falling(0.6))
    assert tolerance.largest == validity.LARGEST_SHIFT_OF_A_CANARY


def test_no_recorded_run_of_ours_was_clock_shifted():
    """The instrument judges by every call. A record has the samples: of fewer than 20 the ends are three each, whose
    medians differ by chance now and then."""
    few = seen = 0
    shifted_by_chance = []
    for path in RECORDED.rglob("*.context.jsonl"):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["record"] == "measurement" and record["status"] == "ok" and record.get("sm_clock_hz"):
                is_canary = record["implementation"] == "canary"  # whose clock shows what the card does
                largest = validity.LARGEST_SHIFT_OF_A_CANARY if is_canary else validity.LARGEST_SHIFT
                shifted = validity.clock_shifted(record["sm_clock_hz"], largest)
                if len(record["sm_clock_hz"]) < 20:
                    few += 1
                    shifted_by_chance += [record["workload"]] if shifted else []
                else:
                    assert shifted is None, (path.name, record["workload"])
                seen += 1
    assert seen > 500
    assert len(shifted_by_chance) <= few / 1000, shifted_by_chance
