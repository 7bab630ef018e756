"""What each GPU can do at best by its data sheet (dense, boost clock). No torch here.

Figures as NVIDIA publishes them in its data sheets and architecture whitepapers; a row whose figure is less
sure says so in its note, which travels into the records. fp16 means fp32 accumulation.
"""

from dataclasses import dataclass

from .records import Ceilings

_TERA = 1e12
_GIGA = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One GPU model. `names` are NVML's; throughputs in FLOP/s (OP/s for int8), bandwidth in bytes/s."""

    names: tuple[str, ...]
    bandwidth_bps: float
    fp32: float
    fp16: float
    bf16: float | None  # None: not in hardware
    int8: float
    note: str | None = None


def _machine(
    *names: str,
    gbps: float,
    fp32: float,
    fp16: float,
    int8: float,
    bf16: bool = True,
    note: str | None = None,
) -> Machine:
    return Machine(
        names=names,
        bandwidth_bps=gbps * _GIGA,
        fp32=fp32 * _TERA,
        fp16=fp16 * _TERA,
        bf16=fp16 * _TERA if bf16 else None,
        int8=int8 * _TERA,
        note=note,
    )


_UNCHECKED = "not checked against the vendor's whitepaper"
MACHINES = (
    _machine(
        "NVIDIA GeForce GTX 1650 Ti",
        gbps=192,
        fp32=3.0,
        fp16=6.1,
        int8=12,
        bf16=False,
        note=f"{_UNCHECKED}; no tensor cores",
    ),
    _machine(
        "Tesla T4",
        "NVIDIA T4",
        gbps=320,
        fp32=8.1,
        fp16=65,
        int8=130,
        bf16=False,
        note="about 300 GB/s achieved",
    ),
    _machine("NVIDIA GeForce RTX 3090", gbps=936, fp32=35.6, fp16=71, int8=284),
    _machine("NVIDIA A10", gbps=600, fp32=31.2, fp16=125, int8=250),
    _machine("NVIDIA GeForce RTX 4090", gbps=1008, fp32=82.6, fp16=165, int8=661),
    _machine("NVIDIA L4", gbps=300, fp32=30.3, fp16=121, int8=242),
    _machine("NVIDIA GeForce RTX 5090", gbps=1792, fp32=105, fp16=209, int8=838, note=_UNCHECKED),
    _machine("NVIDIA A100-SXM4-80GB", gbps=2039, fp32=19.5, fp16=312, int8=624),
    _machine("NVIDIA A100 80GB PCIe", gbps=1935, fp32=19.5, fp16=312, int8=624),
    _machine("NVIDIA H100 80GB HBM3", gbps=3350, fp32=67, fp16=989, int8=1979),
    _machine("NVIDIA H200", gbps=4800, fp32=67, fp16=989, int8=1979),
)  # fmt: skip


def ceilings_of(gpu_name: str) -> Ceilings | None:
    """The data sheet's ceilings of a GPU by NVML's name for it; None if the table does not know it."""
    for machine in MACHINES:
        if gpu_name in machine.names:
            flops = {"fp32": machine.fp32, "fp16": machine.fp16, "bf16": machine.bf16, "int8": machine.int8}
            return Ceilings(
                name=gpu_name,
                source="datasheet",
                bandwidth_bps=machine.bandwidth_bps,
                flops={dtype: peak for dtype, peak in flops.items() if peak is not None},
                note=machine.note,
            )
    return None
