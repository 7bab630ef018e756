"""From what Nsight Compute writes to the record that is kept: tables recorded on an H200."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from perf_suite.catalogue import workload_named
from warpbench.profiling import counters
from warpbench.profiling.nsight_compute import read_raw_page, refused_counters
from warpbench.profiling.profile_record import function_name, profile_record
from warpbench.profiling.table import kernel_table, traffic_table
from warpbench.records import from_line, to_line

RECORDED = Path(__file__).parent / "recorded_profiles"
ROPE = workload_named("rope", "cuda-fp16-b8-h32-s2048-d128")
ATTENTION = workload_named("flash_attention", "cuda-fp16-b1-h32-s2048-d128-causal")
INT4 = workload_named("int4_linear", "cuda-fp16-k4096-n14336-m16")


def text_of(name):
    return (RECORDED / name).read_text()


def record(workload, implementation, text, backend=None):
    profiler, rows = "Nsight Compute 2025.3.1", read_raw_page(text)
    return profile_record("f" * 32, "benchmarks.rope.Rope", workload, implementation, profiler, backend, rows)


def test_a_kernel_s_counters_arrive_in_si_units_and_shares_of_one():
    profile = record(ROPE, "warpwatch", text_of("rope-warpwatch.csv"))
    (kernel,) = profile.kernels
    assert (profile.benchmark, profile.cache) == ("benchmarks.rope.Rope", "cold")
    assert kernel.name == "rope_pieces"
    assert "rope_pieces<__half2, 0, 4>" in kernel.signature
    assert kernel.duration_s == pytest.approx(66.368e-6)
    assert kernel.dram_bytes == profile.dram_bytes == 135283200 + 109488128
    assert (kernel.l2_bytes, kernel.l1_bytes) == (465299200, 402653184)
    assert kernel.occupancy == pytest.approx(0.2946)
    assert kernel.tensor_pipe == pytest.approx(0.001)
    assert kernel.counters["launch__registers_per_thread"] == 76
    assert kernel.counters[counters.OCCUPANCY_LIMIT] == 37.5


def test_stalls_come_largest_first_without_zeros_and_without_the_warp_that_issues():
    (kernel,) = record(ROPE, "warpwatch", text_of("rope-warpwatch.csv")).kernels
    assert list(kernel.stalls)[:3] == ["long_scoreboard", "wait", "not_selected"]
    assert kernel.stalls["long_scoreboard"] == 14.99
    assert "selected" not in kernel.stalls
    assert "barrier" not in kernel.stalls  # this kernel has none


def test_a_call_of_nine_kernels_keeps_them_in_order_and_sums_their_bytes():
    profile = record(ROPE, "eager", text_of("rope-eager.csv"))
    names = [kernel.name for kernel in profile.kernels]
    assert names[0] == "unrolled_elementwise_kernel"
    assert names[-2:] == ["CatArrayBatchedCopy_vectorized", "vectorized_elementwise_kernel"]
    assert len(names) == 9
    assert profile.dram_bytes == sum(kernel.dram_bytes for kernel in profile.kernels) > 11 * ROPE.cost.bytes


def test_a_record_survives_its_line_of_json():
    for workload, implementation, file in (
        (ATTENTION, "sdpa", "flash_attention-sdpa.csv"),
        (INT4, "torch_compile", "int4_linear-torch_compile.csv"),
        (INT4, "cublas", "int4_linear-cublas-imported.csv"),
    ):
        profile = record(workload, implementation, text_of(file), backend="cudnn_attention")
        assert from_line(to_line(profile)) == profile


def test_the_page_of_a_report_reads_like_the_page_printed_at_once():
    (imported,) = record(INT4, "cublas", text_of("int4_linear-cublas-imported.csv")).kernels
    compiled = record(INT4, "torch_compile", text_of("int4_linear-torch_compile.csv")).kernels
    assert imported.name == compiled[1].name == "nvjet_sm90_hsh_128x16_64x11_4x1_v_bz_TNT"
    assert imported.dram_bytes == pytest.approx(compiled[1].dram_bytes, rel=0.02)
    assert imported.l1_bytes == 0  # TMA passes the L1 by


def test_words_and_nan_are_no_counters():
    (row,) = read_raw_page(text_of("int4_linear-cublas-imported.csv"))
    assert "nan" in text_of("int4_linear-cublas-imported.csv")
    assert "derived_tempMetric4" not in row.counters
    assert "launch__cluster_scheduling_policy" not in row.counters


def test_a_counter_that_the_gpu_lacks_is_none_and_not_zero():
    text = text_of("rope-warpwatch.csv").replace('"135283200"', '"n/a"').replace("l1tex__t_bytes.sum", "of_another_gpu")
    (kernel,) = record(ROPE, "warpwatch", text).kernels
    assert (kernel.dram_bytes, kernel.l1_bytes) == (None, None)
    assert kernel.l2_bytes == 465299200
    profile = record(ROPE, "warpwatch", text)
    assert profile.dram_bytes is None
    assert from_line(to_line(profile)) == profile


def test_one_kernel_without_dram_bytes_leaves_the_call_without_their_sum():
    lines = text_of("rope-eager.csv").splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith('"0"'))
    lines[first] = lines[first].replace('"134252544"', '"n/a"')
    profile = record(ROPE, "eager", "\n".join(lines))
    assert profile.kernels[0].dram_bytes is None
    assert profile.kernels[1].dram_bytes is not None
    assert profile.dram_bytes is None


def test_every_generation_s_spelling_means_the_same():
    plain = text_of("rope-warpwatch.csv")
    blackwell = plain.replace("dram__bytes_read.sum", "dram__bytes_op_read.sum")
    blackwell = blackwell.replace("dram__bytes_write.sum", "dram__bytes_op_write.sum").replace('"ns"', '"nsecond"')
    assert blackwell != plain
    (a,), (b,) = record(ROPE, "warpwatch", plain).kernels, record(ROPE, "warpwatch", blackwell).kernels
    assert (a.dram_bytes, a.duration_s) == (b.dram_bytes, b.duration_s)


@pytest.mark.parametrize("chip", ["tu104", "ad102", "gh100", "gb202"])
def test_each_chip_has_a_counter_for_every_quantity(chip):
    has = set(json.loads(text_of("counters_of_chips.json"))[chip])
    for quantity in counters.QUANTITIES:
        assert any(all(name.split(".")[0] in has for name in spelling) for spelling in quantity), quantity


def test_every_requested_stall_exists_on_some_chip_and_none_is_forgotten():
    chips = json.loads(text_of("counters_of_chips.json"))
    stalls = {name for names in chips.values() for name in names if name.startswith(counters.STALL_PREFIX)}
    asked = {name.removesuffix(".ratio") for name in counters.ASKED if name.startswith(counters.STALL_PREFIX)}
    assert asked <= stalls
    assert all("_pipe_" in name for name in stalls - asked)  # parts of others


def test_text_without_a_table_holds_no_kernels_and_another_page_is_refused():
    assert read_raw_page(text_of("no_range.txt")) == ()
    details = '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"\n"0","f","","a","",""\n'
    with pytest.raises(ValueError, match="--page raw"):
        read_raw_page(details)


def test_the_counter_that_stopped_nsight_compute_is_named():
    assert refused_counters(text_of("refused_counter.txt")) == {"regex:^dram__bytes_(read|write|nowhere)$"}
    assert refused_counters(text_of("rope-warpwatch.csv")) == set()


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("void unnamed>::rope_pieces<__half2, 0, 4>(RopeParams, unnamed>::Cover)", "rope_pieces"),
        ("void int4_linear_decode<MmaSm80, __half, 128, 2, 2, 8, 2, 1>(Int4LinearParams)", "int4_linear_decode"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>(float *)", "CatArrayBatchedCopy"),
        ("void unnamed>::CatArray_vectorized<unnamed>::OpaqueType<4>, unsigned int>(char *)", "CatArray_vectorized"),
        ("nvjet_sm90_hsh_128x16_64x11_4x1_v_bz_TNT", "nvjet_sm90_hsh_128x16_64x11_4x1_v_bz_TNT"),
    ],
)
def test_a_kernel_goes_by_its_own_name(signature, name):
    assert function_name(signature) == name


def printed(table):
    console = Console(width=140, file=io.StringIO())
    console.print(table)
    return console.file.getvalue()


def test_the_table_compares_measured_bytes_and_intensity_with_the_algorithm_s():
    profiles = [record(ATTENTION, "sdpa", text_of("flash_attention-sdpa.csv"), backend="cudnn_attention")]
    rows = [line.split() for line in printed(traffic_table(ATTENTION, profiles)).splitlines()]
    algorithm = next(row for row in rows if row[:2] == ["the", "algorithm"])
    assert algorithm[-1] == f"{ATTENTION.cost.flops / ATTENTION.cost.bytes:.0f}"
    measured = next(row for row in rows if row[:1] == ["sdpa"])
    assert measured[1] == "(cudnn_attention)"
    assert measured[-2] == f"{profiles[0].dram_bytes / ATTENTION.cost.bytes:.2f}×"
    assert measured[-1] == f"{ATTENTION.cost.flops / profiles[0].dram_bytes:.0f}"


def test_the_table_prints_what_is_not_known_as_a_dash():
    text = text_of("rope-warpwatch.csv")
    for name in counters.ASKED:
        text = text.replace(f'"{name}"', '"of_another_gpu"')
    profiles = [record(ROPE, "warpwatch", text)]
    assert "rope_pieces" in printed(kernel_table(profiles))
    assert "-" in printed(traffic_table(ROPE, profiles))
