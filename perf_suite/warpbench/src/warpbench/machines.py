"""What each GPU can do at best by its data sheet: dense, at boost clock. No torch here.

fp16 and bf16 mean products summed in fp32: GeForce RTX cards do that at half their fp16-accumulate rate, which is the
figure that is advertised. fp32 is without tensor cores; a figure printed "with sparsity" is halved here. The source is
named by title and table, and the row was compared with what it is quoted to say, unless its note says otherwise. A test
compares every row with SM count x clock and with bus width x data rate.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .records import Ceilings

_UNCHECKED = "peaks not compared with NVIDIA's own document"
_NO_TENSOR_CORES = "no tensor cores: fp16 is the packed units' rate, which sum in fp16; int8 is dp4a's"

_TURING = "NVIDIA Turing GPU Architecture whitepaper (WP-09183-001), table 1"
_TURING_GTX = "nvidia.com/geforce, GTX 16 series specifications"
_T4 = "NVIDIA T4 Tensor Core GPU data sheet"
_A100 = "NVIDIA A100 Tensor Core GPU data sheet, and NVIDIA A100 Tensor Core GPU Architecture whitepaper, table 4"
_A30 = "NVIDIA A30 Tensor Core GPU data sheet"
_A10 = "NVIDIA A10 Tensor Core GPU data sheet"
_A10G = "NVIDIA A10G Tensor Core GPU data sheet for AWS (2022-02-17)"
_A40 = "NVIDIA A40 data sheet"
_GA102 = "NVIDIA Ampere GA102 GPU Architecture whitepaper v2"
_GEFORCE_30 = "nvidia.com/geforce, RTX 30 series specifications"
_ADA = "NVIDIA Ada GPU Architecture whitepaper v2.1, appendix A"
_L4 = "NVIDIA L4 Tensor Core GPU data sheet"
_L40 = "NVIDIA L40 data sheet"
_L40S = "NVIDIA L40S data sheet (2907810)"
_BLACKWELL_RTX = "NVIDIA RTX Blackwell GPU Architecture whitepaper v1.1, appendix A, table 3"
_GEFORCE_50 = "nvidia.com/geforce, RTX 50 series specifications"
_H100 = "NVIDIA H100 Tensor Core GPU Architecture whitepaper v1.04, tables 1 and 3"
_H100_NVL = "NVIDIA H100 Tensor Core GPU data sheet, H100 NVL column"
_H200 = "NVIDIA H200 Tensor Core GPU data sheet"
_B200 = "NVIDIA Blackwell data sheet, individual GPU specifications (HGX B200)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One GPU model. Throughputs in FLOP/s (OP/s for integers) by dtype; a dtype not in hardware has no entry."""

    names: tuple[str, ...]  # as NVML and torch say them
    compute_capability: str
    sm_count: int
    boost_clock_hz: float
    tensor_clock_hz: float  # the clock that the tensor cores' peaks are stated at
    l2_bytes: int
    memory_bytes: int
    bus_bits: int
    pin_rate_bps: float  # bits per second and pin of the memory bus
    bandwidth_bps: float  # bytes per second
    flops: Mapping[str, float]
    source: str
    note: str | None


def _gpu(
    *names: str,
    sm: str,
    sms: int,
    mhz: int,
    tensor_mhz: int | None = None,
    l2: float,
    gb: int,
    bus: tuple[int, float],
    gbps: float,
    fp32: float,
    tf32: float | None = None,
    fp16: float,
    bf16: bool = True,
    int8: float,
    int4: float | None = None,
    source: str,
    note: str | None = None,
) -> Machine:
    """A row in the data sheets' units: MHz, MiB, GB, (bits, Gbit/s a pin), GB/s, tera-operations."""
    tera = {"fp32": fp32, "tf32": tf32, "fp16": fp16, "bf16": fp16 if bf16 else None, "int8": int8, "int4": int4}
    return Machine(
        names=names,
        compute_capability=sm,
        sm_count=sms,
        boost_clock_hz=mhz * 1e6,
        tensor_clock_hz=(tensor_mhz or mhz) * 1e6,
        l2_bytes=int(l2 * (1 << 20)),
        memory_bytes=gb << 30,
        bus_bits=bus[0],
        pin_rate_bps=bus[1] * 1e9,
        bandwidth_bps=gbps * 1e9,
        flops={dtype: peak * 1e12 for dtype, peak in tera.items() if peak is not None},
        source=source,
        note=note,
    )


# fmt: off
MACHINES = (
    # Turing
    _gpu("NVIDIA GeForce GTX 1650", sm="7.5", sms=14, mhz=1665, l2=1, gb=4, bus=(128, 8), gbps=128,
         fp32=2.98, fp16=5.97, bf16=False, int8=11.9, source=_TURING_GTX,
         note=f"{_UNCHECKED}; {_NO_TENSOR_CORES}; the GDDR6 card of this name has 192 GB/s and 1590 MHz"),
    _gpu("NVIDIA GeForce GTX 1650 Ti", sm="7.5", sms=16, mhz=1485, l2=1, gb=4, bus=(128, 12), gbps=192,
         fp32=3.04, fp16=6.08, bf16=False, int8=12.2, source=_TURING_GTX, note=f"{_UNCHECKED}; {_NO_TENSOR_CORES}"),
    _gpu("NVIDIA GeForce GTX 1660", sm="7.5", sms=22, mhz=1785, l2=1.5, gb=6, bus=(192, 8), gbps=192,
         fp32=5.03, fp16=10.1, bf16=False, int8=20.1, source=_TURING_GTX, note=f"{_UNCHECKED}; {_NO_TENSOR_CORES}"),
    _gpu("NVIDIA GeForce GTX 1660 SUPER", sm="7.5", sms=22, mhz=1785, l2=1.5, gb=6, bus=(192, 14), gbps=336,
         fp32=5.03, fp16=10.1, bf16=False, int8=20.1, source=_TURING_GTX, note=f"{_UNCHECKED}; {_NO_TENSOR_CORES}"),
    _gpu("NVIDIA GeForce GTX 1660 Ti", sm="7.5", sms=24, mhz=1770, l2=1.5, gb=6, bus=(192, 12), gbps=288,
         fp32=5.44, fp16=10.9, bf16=False, int8=21.7, source=_TURING_GTX, note=f"{_UNCHECKED}; {_NO_TENSOR_CORES}"),
    _gpu("NVIDIA GeForce RTX 2080 Ti", sm="7.5", sms=68, mhz=1545, l2=5.5, gb=11, bus=(352, 14), gbps=616,
         fp32=13.4, fp16=53.8, bf16=False, int8=215.2, int4=430.3, source=_TURING,
         note="reference clock; a Founders Edition boosts to 1635 MHz (fp16 56.9 TFLOP/s)"),
    _gpu("Quadro RTX 6000", sm="7.5", sms=72, mhz=1770, l2=6, gb=24, bus=(384, 14), gbps=672,
         fp32=16.3, fp16=130.5, bf16=False, int8=261.0, int4=522.0, source=_TURING),
    _gpu("Tesla T4", "NVIDIA T4", sm="7.5", sms=40, mhz=1590, l2=4, gb=16, bus=(256, 10), gbps=320,
         fp32=8.1, fp16=65, bf16=False, int8=130, int4=260, source=_T4,
         note="70 W hold sustained tensor work below the peak; about 300 GB/s are achieved"),
    # Ampere
    _gpu("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB", sm="8.0", sms=108, mhz=1410, l2=40, gb=40,
         bus=(5120, 2.43), gbps=1555, fp32=19.5, tf32=156, fp16=312, int8=624, int4=1248, source=_A100),
    _gpu("NVIDIA A100-SXM4-80GB", sm="8.0", sms=108, mhz=1410, l2=40, gb=80,
         bus=(5120, 3.186), gbps=2039, fp32=19.5, tf32=156, fp16=312, int8=624, int4=1248, source=_A100),
    _gpu("NVIDIA A100 80GB PCIe", sm="8.0", sms=108, mhz=1410, l2=40, gb=80,
         bus=(5120, 3.024), gbps=1935, fp32=19.5, tf32=156, fp16=312, int8=624, int4=1248, source=_A100),
    _gpu("NVIDIA A30", sm="8.0", sms=56, mhz=1440, l2=24, gb=24, bus=(3072, 2.43), gbps=933,
         fp32=10.3, tf32=82, fp16=165, int8=330, int4=661, source=_A30, note=_UNCHECKED),
    _gpu("NVIDIA GeForce RTX 3060", sm="8.6", sms=28, mhz=1777, l2=3, gb=12, bus=(192, 15), gbps=360,
         fp32=12.7, tf32=12.7, fp16=25.5, int8=101.9, int4=203.8, source=_GEFORCE_30,
         note=f"{_UNCHECKED}; the 8 GB card of this name has 240 GB/s"),
    _gpu("NVIDIA GeForce RTX 3070", sm="8.6", sms=46, mhz=1725, l2=4, gb=8, bus=(256, 14), gbps=448,
         fp32=20.3, tf32=20.3, fp16=40.6, int8=162.6, int4=325.2, source=_GA102, note=_UNCHECKED),
    _gpu("NVIDIA GeForce RTX 3080", sm="8.6", sms=68, mhz=1710, l2=5, gb=10, bus=(320, 19), gbps=760,
         fp32=29.8, tf32=29.8, fp16=59.5, int8=238, int4=476, source=_GA102,
         note=f"{_UNCHECKED}; the 12 GB card of this name has 70 SMs and 912 GB/s"),
    _gpu("NVIDIA GeForce RTX 3090", sm="8.6", sms=82, mhz=1695, l2=6, gb=24, bus=(384, 19.5), gbps=936,
         fp32=35.6, tf32=35.6, fp16=71, int8=284, int4=568, source=f"{_GA102}, table 9"),
    _gpu("NVIDIA RTX A6000", sm="8.6", sms=84, mhz=1800, l2=6, gb=48, bus=(384, 16), gbps=768,
         fp32=38.7, tf32=77.4, fp16=154.8, int8=309.7, int4=619.3, source=f"{_GA102}, table 3"),
    _gpu("NVIDIA A10", sm="8.6", sms=72, mhz=1695, l2=6, gb=24, bus=(384, 12.5), gbps=600,
         fp32=31.2, tf32=62.5, fp16=125, int8=250, int4=500, source=_A10),
    _gpu("NVIDIA A10G", sm="8.6", sms=80, mhz=1710, l2=6, gb=24, bus=(384, 12.5), gbps=600,
         fp32=35, tf32=35, fp16=70, int8=140, int4=280, source=_A10G),
    _gpu("NVIDIA A40", sm="8.6", sms=84, mhz=1740, l2=6, gb=48, bus=(384, 14.5), gbps=696,
         fp32=37.4, tf32=74.8, fp16=149.7, int8=299.3, int4=598.7, source=_A40),
    # Ada
    _gpu("NVIDIA GeForce RTX 4070", sm="8.9", sms=46, mhz=2475, l2=36, gb=12, bus=(192, 21), gbps=504,
         fp32=29.1, tf32=29.1, fp16=58.3, int8=233.2, int4=466.4, source=_ADA, note=_UNCHECKED),
    _gpu("NVIDIA GeForce RTX 4080", sm="8.9", sms=76, mhz=2505, l2=64, gb=16, bus=(256, 22.4), gbps=717,
         fp32=48.7, tf32=48.7, fp16=97.5, int8=389.9, int4=779.8, source=_ADA, note=_UNCHECKED),
    _gpu("NVIDIA GeForce RTX 4090", sm="8.9", sms=128, mhz=2520, l2=72, gb=24, bus=(384, 21), gbps=1008,
         fp32=82.6, tf32=82.6, fp16=165.2, int8=660.6, int4=1321.2, source=f"{_ADA}, table 2"),
    _gpu("NVIDIA L4", sm="8.9", sms=58, mhz=2040, l2=48, gb=24, bus=(192, 12.5), gbps=300,
         fp32=30.3, tf32=60, fp16=121, int8=242.5, int4=485, source=_L4,
         note="72 W hold sustained tensor work below the peak; int4 is twice int8, the data sheet names none"),
    _gpu("NVIDIA L40", sm="8.9", sms=142, mhz=2490, l2=96, gb=48, bus=(384, 18), gbps=864,
         fp32=90.5, tf32=90.5, fp16=181, int8=362, int4=724, source=_L40, note=_UNCHECKED),
    _gpu("NVIDIA L40S", sm="8.9", sms=142, mhz=2520, l2=96, gb=48, bus=(384, 18), gbps=864,
         fp32=91.6, tf32=183, fp16=362, int8=733, int4=733, source=_L40S,
         note="the data sheet gives int4 no more than int8; fp16 is 366 by SM count x clock"),
    # Hopper; the whitepaper's clock for tensor work is lower than the one for the rest
    _gpu("NVIDIA H100 80GB HBM3", sm="9.0", sms=132, mhz=1980, tensor_mhz=1830, l2=50, gb=80,
         bus=(5120, 5.24), gbps=3352, fp32=66.9, tf32=494.7, fp16=989.4, int8=1978.9, source=_H100),
    _gpu("NVIDIA H100 PCIe", sm="9.0", sms=114, mhz=1755, tensor_mhz=1620, l2=50, gb=80,
         bus=(5120, 3.19), gbps=2039, fp32=51.2, tf32=378, fp16=756, int8=1513, source=_H100),
    _gpu("NVIDIA H100 NVL", sm="9.0", sms=132, mhz=1785, tensor_mhz=1545, l2=50, gb=94,
         bus=(6016, 5.238), gbps=3938, fp32=60, tf32=417.5, fp16=835.5, int8=1670.5, source=_H100_NVL,
         note="the clock for tensor work is derived from the peaks"),
    _gpu("NVIDIA H200", sm="9.0", sms=132, mhz=1980, tensor_mhz=1830, l2=60, gb=141,
         bus=(6144, 6.25), gbps=4800, fp32=67, tf32=494.5, fp16=989.5, int8=1979, source=_H200,
         note="the data sheet rounds 4.8 TB/s; the data rate is derived from it"),
    _gpu("NVIDIA H200 NVL", sm="9.0", sms=132, mhz=1785, tensor_mhz=1545, l2=60, gb=141,
         bus=(6144, 6.25), gbps=4800, fp32=60, tf32=417.5, fp16=835.5, int8=1670.5, source=_H200, note=_UNCHECKED),
    # Blackwell; the tensor cores of both families have fp4 instead of int4
    _gpu("NVIDIA B200", sm="10.0", sms=148, mhz=1965, tensor_mhz=1856, l2=126, gb=180,
         bus=(8192, 7.52), gbps=7700, fp32=75, tf32=1125, fp16=2250, int8=4500, source=_B200,
         note="the clock for tensor work and the data rate are derived from the peaks; 8 TB/s as part of a GB200"),
    _gpu("NVIDIA GeForce RTX 5070", sm="12.0", sms=48, mhz=2512, l2=48, gb=12, bus=(192, 28), gbps=672,
         fp32=30.9, tf32=30.9, fp16=61.7, int8=246.9, source=_GEFORCE_50, note=_UNCHECKED),
    _gpu("NVIDIA GeForce RTX 5070 Ti", sm="12.0", sms=70, mhz=2452, l2=48, gb=16, bus=(256, 28), gbps=896,
         fp32=43.9, tf32=43.9, fp16=87.9, int8=351.5, source=_GEFORCE_50, note=_UNCHECKED),
    _gpu("NVIDIA GeForce RTX 5080", sm="12.0", sms=84, mhz=2617, l2=64, gb=16, bus=(256, 30), gbps=960,
         fp32=56.3, tf32=56.3, fp16=112.6, int8=450.2, source=_GEFORCE_50, note=_UNCHECKED),
    _gpu("NVIDIA GeForce RTX 5090", sm="12.0", sms=170, mhz=2407, l2=96, gb=32, bus=(512, 28), gbps=1792,
         fp32=104.8, tf32=104.8, fp16=209.5, int8=838, source=_BLACKWELL_RTX),
)
# fmt: on


def machine_named(gpu_name: str, *, sm_count: int | None = None) -> Machine | None:
    """The row of a GPU by NVML's name for it, None if the table has none.

    NVIDIA sells different cards under one name; where `sm_count` is given and is not the row's, the row is not theirs.
    """
    for machine in MACHINES:
        if gpu_name in machine.names and sm_count in (None, machine.sm_count):
            return machine
    return None


def ceilings_of(gpu_name: str, *, sm_count: int | None = None) -> Ceilings | None:
    """The data sheet's ceilings of a GPU, as `machine_named` finds it; None for a GPU the table does not know."""
    machine = machine_named(gpu_name, sm_count=sm_count)
    if machine is None:
        return None
    return Ceilings(
        name=gpu_name,
        source="datasheet",
        bandwidth_bps=machine.bandwidth_bps,
        flops=machine.flops,
        note="; ".join(filter(None, (machine.source, machine.note))),
    )
