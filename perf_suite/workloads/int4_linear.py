"""Workloads of int4_linear (W4A16): decode, memory-bound until some tens of rows; and prefill, through cuBLAS."""

from dataclasses import replace

from warpbench.workload import Workload

from .. import costs
from ..language_models import LLAMA_2_7B, LLAMA_2_13B, LLAMA_2_70B, LLAMA_3_8B, LanguageModel

GROUP_SIZE = 128
# The cuBLAS baseline, and we where rows are many, round the weight itself to fp16 (3e-4; bf16: eight times that), and
# cuBLAS may add its split-K parts in fp16.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "cublas", "eager", "torch_compile"),
    "cpu": ("warpwatch", "eager"),
}


def workload(
    device: str,
    dtype: str,
    *,
    depth: int,
    outputs: int,
    rows: int = 1,
    group_size: int = GROUP_SIZE,
    zeros: bool = False,
) -> Workload:
    """x (rows, depth) by an INT4 weight (outputs, depth). Raises ValueError for a depth that is no whole groups."""
    if depth % group_size:
        raise ValueError(f"depth ({depth}) must be a multiple of the group size, {group_size}")
    group = "" if group_size == GROUP_SIZE else f"-g{group_size}"
    return Workload(
        operator="int4_linear",
        name=f"{device}-{dtype}-k{depth}-n{outputs}-m{rows}{group}{'-zeros' if zeros else ''}",
        device=device,
        dtype=dtype,
        parameters={
            "rows": rows,
            "outputs": outputs,
            "depth": depth,
            "group_size": group_size,
            "zeros": zeros,
        },
        cost=costs.int4_linear(
            rows=rows,
            outputs=outputs,
            depth=depth,
            group_size=group_size,
            element_bytes=costs.ELEMENT_BYTES[dtype],
            zero_points=zeros,
        ),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


def _layer(model: LanguageModel, name: str, *, rows: int, group_size: int = 128, zeros: bool = False) -> Workload:
    shape = model.linear(name)
    return workload(
        "cuda",
        "fp16",
        depth=shape.depth,
        outputs=shape.outputs,
        rows=rows,
        group_size=group_size,
        zeros=zeros,
    )


WORKLOADS = (
    _layer(LLAMA_3_8B, "attention_out", rows=1),
    _layer(LLAMA_3_8B, "attention_out", rows=16),
    _layer(LLAMA_3_8B, "qkv", rows=1),
    replace(_layer(LLAMA_3_8B, "up", rows=1), energy_of=("warpwatch", "cublas")),
    _layer(LLAMA_3_8B, "up", rows=8),
    _layer(LLAMA_3_8B, "up", rows=16),
    _layer(LLAMA_3_8B, "up", rows=64),
    _layer(LLAMA_3_8B, "up", rows=256),
    _layer(LLAMA_3_8B, "up", rows=2048),
    _layer(LLAMA_3_8B, "up", rows=1, zeros=True),
    _layer(LLAMA_3_8B, "up", rows=1, group_size=64),
    _layer(LLAMA_3_8B, "down", rows=1),
    _layer(LLAMA_3_8B, "down", rows=16),
    _layer(LLAMA_2_7B, "up", rows=1),
    _layer(LLAMA_2_7B, "up", rows=16),
    _layer(LLAMA_2_7B, "down", rows=1),
    _layer(LLAMA_2_7B, "down", rows=16),
    _layer(LLAMA_2_13B, "attention_out", rows=1),
    _layer(LLAMA_2_13B, "up", rows=1),
    _layer(LLAMA_2_13B, "up", rows=16),
    _layer(LLAMA_2_70B, "attention_out", rows=1),
    _layer(LLAMA_2_70B, "attention_out", rows=16),
    _layer(LLAMA_2_70B, "up", rows=1),
    workload("cpu", "fp32", depth=1024, outputs=1024, rows=1),
    workload("cpu", "fp32", depth=1024, outputs=1024, rows=8),
    workload("cpu", "fp32", depth=1024, outputs=1024, rows=8, group_size=64, zeros=True),
)
