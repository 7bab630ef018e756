"""The data sheets' figures agree with the chips' own arithmetic."""

import pytest

from warpbench.machines import MACHINES, ceilings_of, machine_named

# Per SM and clock, by compute capability, of NVIDIA's architecture whitepapers: fp32 units, and the operations of the
# tensor cores on fp16 at full rate.
FP32_UNITS = {"7.5": 64, "8.0": 64, "8.6": 128, "8.9": 128, "9.0": 128, "10.0": 128, "12.0": 128}
TENSOR_FP16 = {"7.5": 1024, "8.0": 2048, "8.6": 1024, "8.9": 1024, "9.0": 4096, "10.0": 8192, "12.0": 1024}
# Data-centre cards that NVIDIA sells at half the tensor rate of their chip, for every dtype.
HALVED = {"NVIDIA A10G", "NVIDIA L40"}

rows = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.names[0])


def has_tensor_cores(machine):
    return "GTX" not in machine.names[0]


def is_geforce_rtx(machine):
    return "GeForce RTX" in machine.names[0]


@rows
def test_fp32_is_units_times_clock(machine):
    units = machine.sm_count * FP32_UNITS[machine.compute_capability]
    assert machine.flops["fp32"] == pytest.approx(2 * units * machine.boost_clock_hz, rel=0.01)


@rows
def test_fp16_is_the_tensor_cores_rate_with_fp32_sums(machine):
    full = machine.sm_count * TENSOR_FP16[machine.compute_capability] * machine.tensor_clock_hz
    if not has_tensor_cores(machine):
        expected = 2 * machine.flops["fp32"]
    elif is_geforce_rtx(machine) or machine.names[0] in HALVED:
        expected = full / 2
    else:
        expected = full
    assert machine.flops["fp16"] == pytest.approx(expected, rel=0.015)


@rows
def test_the_other_dtypes_keep_their_ratio_to_fp16(machine):
    flops = machine.flops
    before_ampere = machine.compute_capability == "7.5"
    assert ("bf16" in flops) == ("tf32" in flops) == (not before_ampere)
    if not before_ampere:
        assert flops["bf16"] == flops["fp16"]
        assert flops["tf32"] == pytest.approx(flops["fp16"] / 2, rel=0.015)
    # A GeForce RTX is halved where sums are fp32, not where they are integers.
    assert flops["int8"] == pytest.approx(flops["fp16"] * (4 if is_geforce_rtx(machine) else 2), rel=0.015)


@rows
def test_int4_is_where_the_tensor_cores_have_it(machine):
    native = machine.compute_capability in ("7.5", "8.0", "8.6", "8.9") and has_tensor_cores(machine)
    assert ("int4" in machine.flops) == native
    if native and machine.names[0] != "NVIDIA L40S":  # whose data sheet gives int4 no more than int8
        assert machine.flops["int4"] == pytest.approx(2 * machine.flops["int8"], rel=0.01)


@rows
def test_bandwidth_is_bus_width_times_data_rate(machine):
    assert machine.bandwidth_bps == pytest.approx(machine.bus_bits * machine.pin_rate_bps / 8, rel=0.005)


def test_every_name_is_one_rows_and_every_row_names_its_source():
    names = [name for machine in MACHINES for name in machine.names]
    assert len(set(names)) == len(names)
    for machine in MACHINES:
        assert machine.source
        assert machine.source in ceilings_of(machine.names[0]).note


def test_a_gpu_the_table_does_not_know_has_no_ceilings():
    assert ceilings_of("NVIDIA H200").bandwidth_bps == 4.8e12
    assert ceilings_of("NVIDIA Imaginary 9000") is None


def test_another_card_of_the_same_name_is_not_taken_for_the_one_in_the_table():
    assert machine_named("NVIDIA GeForce RTX 3080", sm_count=68).bandwidth_bps == 760e9
    assert machine_named("NVIDIA GeForce RTX 3080", sm_count=70) is None  # the 12 GB card
    assert machine_named("NVIDIA H200", sm_count=16) is None  # a slice
