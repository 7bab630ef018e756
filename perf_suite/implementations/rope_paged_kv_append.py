"""Implementations of rope_paged_kv_append; each works in place and returns all pages."""

from collections.abc import Callable

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.rope_paged_kv_append import RopePagedKvAppendInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator
from .paged_kv_append import assigned
from .rope import turned, turned_by_position


def warpwatch(inputs: RopePagedKvAppendInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit: one launch."""
    return _fused(warpwatch_operator(_name(inputs)), inputs)


def triton(inputs: RopePagedKvAppendInputs) -> Prepared:
    """Its Triton twin."""
    return _fused(triton_operator("rope_paged_kv_append", _name(inputs)), inputs)


def unfused(inputs: RopePagedKvAppendInputs) -> Prepared:
    """The commit's rope and then its paged_kv_append: two launches, positions and tables' rows ready."""
    rope, append = (warpwatch_operator(name) for name in ("rope", "paged_kv_append"))
    computed = warpwatch_operator("rope_computed")
    cos, sin = inputs.new_tables()

    def turn() -> torch.Tensor:
        if inputs.computed:
            return computed(inputs.k, inputs.positions, base=inputs.base, interleaved=inputs.interleaved)
        return rope(inputs.k, cos, sin, interleaved=inputs.interleaved)

    return _turned_first(turn, append, inputs)


def eager(inputs: RopePagedKvAppendInputs) -> Prepared:
    """The formula and an indexed assignment in plain PyTorch."""
    return _turned_first(_formula(inputs), assigned, inputs)


def torch_compile(inputs: RopePagedKvAppendInputs) -> Prepared:
    """The same through torch.compile, as one function."""
    k_pages, v_pages = inputs.pages
    cos, sin = inputs.new_tables()
    step: Callable[..., torch.Tensor] = _assigned_by_position if inputs.computed else _assigned_by_table
    step = compiled(step, inputs.pages, inputs.k)
    angles = (inputs.positions, inputs.base) if inputs.computed else (cos, sin)

    def run() -> torch.Tensor:
        step(inputs.k, inputs.v, k_pages, v_pages, inputs.block_table, inputs.lengths, *angles, inputs.interleaved)
        return inputs.pages

    return Prepared(run=run)


def _name(inputs: RopePagedKvAppendInputs) -> str:
    return "rope_computed_paged_kv_append" if inputs.computed else "rope_paged_kv_append"


def _fused(append: Callable[..., object], inputs: RopePagedKvAppendInputs) -> Prepared:
    k_pages, v_pages = inputs.pages
    rows = (inputs.k, inputs.v, k_pages, v_pages, inputs.block_table, inputs.lengths)

    def run() -> torch.Tensor:
        if inputs.computed:
            append(*rows, base=inputs.base, interleaved=inputs.interleaved)
        else:
            append(*rows, inputs.cos, inputs.sin, interleaved=inputs.interleaved)
        return inputs.pages

    return Prepared(run=run)


def _turned_first(
    turn: Callable[[], torch.Tensor], append: Callable[..., object], inputs: RopePagedKvAppendInputs
) -> Prepared:
    k_pages, v_pages = inputs.pages

    def run() -> torch.Tensor:
        append(turn(), inputs.v, k_pages, v_pages, inputs.block_table, inputs.lengths)
        return inputs.pages

    return Prepared(run=run)


def _formula(inputs: RopePagedKvAppendInputs) -> Callable[[], torch.Tensor]:
    if inputs.computed:
        return lambda: turned_by_position(inputs.k, inputs.positions, inputs.base, inputs.interleaved)
    cos, sin = inputs.new_tables()
    return lambda: turned(inputs.k, cos, sin, inputs.interleaved)


def _assigned_by_table(
    k: torch.Tensor,
    v: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    interleaved: bool,
) -> torch.Tensor:
    return assigned(turned(k, cos, sin, interleaved), v, k_pages, v_pages, block_table, lengths)


def _assigned_by_position(
    k: torch.Tensor,
    v: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    positions: torch.Tensor,
    base: float,
    interleaved: bool,
) -> torch.Tensor:
    return assigned(turned_by_position(k, positions, base, interleaved), v, k_pages, v_pages, block_table, lengths)
