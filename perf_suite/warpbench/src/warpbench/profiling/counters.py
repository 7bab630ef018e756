"""Nsight Compute's counters that explain a kernel, and how each GPU generation calls them. No torch here.

Names and generations are those of `ncu --query-metrics --chips tu104,ad102,gh100,gb202` of Nsight Compute 2025.3.
A counter that the GPU does not have is left out of the result without a word, so all spellings are asked for.
"""

# A quantity is the sum of the first set of counters that the GPU has all of.
Spellings = tuple[tuple[str, ...], ...]

DURATION: Spellings = (("gpu__time_duration.sum",),)
DRAM_BYTES: Spellings = (
    ("dram__bytes_read.sum", "dram__bytes_write.sum"),
    ("dram__bytes_op_read.sum", "dram__bytes_op_write.sum"),  # Blackwell's RTX cards
)
L2_BYTES: Spellings = (("lts__t_bytes.sum",),)
L1_BYTES: Spellings = (("l1tex__t_bytes.sum",),)
OCCUPANCY: Spellings = (("sm__warps_active.avg.pct_of_peak_sustained_active",),)
TENSOR_PIPE: Spellings = (
    ("sm__pipe_tensor_cycles_active_v2.avg.pct_of_peak_sustained_active",),  # Ada, which deprecates the plain name
    ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",),
)
QUANTITIES = (DURATION, DRAM_BYTES, L2_BYTES, L1_BYTES, OCCUPANCY, TENSOR_PIPE)

DRAM_SHARE = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
L2_SHARE = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
L1_SHARE = "l1tex__throughput.avg.pct_of_peak_sustained_active"
SM_SHARE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
OCCUPANCY_LIMIT = "sm__maximum_warps_per_active_cycle_pct"
_OTHERS = (
    DRAM_SHARE,
    L2_SHARE,
    L1_SHARE,
    SM_SHARE,
    OCCUPANCY_LIMIT,
    "gpc__cycles_elapsed.avg.per_second",  # the clock while profiled
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sector_hit_rate.pct",
    "l1tex__t_sector_hit_rate.pct",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "sm__inst_executed_pipe_tensor.sum",
    "smsp__inst_executed.sum",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_static",
    "launch__shared_mem_per_block_dynamic",
    "launch__block_size",
    "launch__grid_size",
    "launch__waves_per_multiprocessor",
)

STALL_PREFIX, STALL_SUFFIX = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
SELECTED = "selected"  # not stalled: the warp that issues. One an issue, by definition.
_STALLS = (
    *("barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle", "long_scoreboard"),
    *("math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "short_scoreboard"),
    *("sleeping", "tex_throttle", "wait", SELECTED),
)

ASKED = (
    *(name for quantity in QUANTITIES for spelling in quantity for name in spelling),
    *_OTHERS,
    *(f"{STALL_PREFIX}{reason}{STALL_SUFFIX}" for reason in _STALLS),
)
