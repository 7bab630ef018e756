"""flash_attention_varlen against float64: packed sequences of any lengths, their gradients, what it refuses, graphs."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from perf_suite.benchmarks.flash_attention_varlen import flash_attention_varlen as reference
from warpwatch import kernels

from .test_flash_attention import DTYPES, assert_attends, inputs
from .test_flash_attention_window import _needs_an_interpreter_that_counts

Lengths = tuple[int, ...]

# Below, at and above tiles of 32, 64 and 128 queries and keys; empty sequences first, last and in the middle.
MIXES: dict[str, tuple[Lengths, Lengths]] = {
    "one": ((17,), (17,)),
    "edges of tiles": ((1, 64, 65, 128, 129, 31, 33), (1, 64, 65, 128, 129, 31, 33)),
    "empty ones": ((0, 70, 0, 5, 0), (0, 70, 0, 5, 0)),
    "unequal": ((5, 133, 1, 64, 200), (133, 5, 300, 65, 72)),
    "without keys": ((9, 3, 150), (0, 40, 0)),
    "without queries": ((0, 3, 0), (50, 40, 7)),
    "a long one": ((1000, 3), (1000, 3)),
}
MASKS: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"causal": True},
    "window of 1": {"causal": True, "window": 1},
    "window of 40": {"causal": True, "window": 40},
    "window of all": {"causal": True, "window": 5000},
    "scaled": {"causal": True, "scale": 0.3},
}


class Packed:
    """q, k, v and their lengths."""

    def __init__(
        self,
        device: str,
        dtype: torch.dtype,
        lengths: tuple[Lengths, Lengths],
        *,
        head_dim: int = 64,
        heads: tuple[int, int] = (2, 2),
    ) -> None:
        self.lengths = lengths
        totals = (sum(lengths[0]), sum(lengths[1]))
        q, k, v = inputs(device, dtype, totals, head_dim=head_dim, heads=heads, batch=1)
        self.tensors = tuple(x[0].transpose(0, 1).contiguous() for x in (q, k, v))
        self.ends = tuple(
            torch.tensor([0, *itertools.accumulate(each)], dtype=torch.int32, device=device) for each in lengths
        )
        self.longest = tuple(max(each, default=0) for each in lengths)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return (*self.tensors, *self.ends, *self.longest)

    def expected(self, **options: Any) -> torch.Tensor:
        return reference(*self.tensors, *self.lengths, **options)


@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("mask", ["full", "causal", "window of 40"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mix", MIXES)
def test_agrees_with_float64(mix: str, dtype: torch.dtype, mask: str, head_dim: int, device: str) -> None:
    packed = Packed(device, dtype, MIXES[mix], head_dim=head_dim)
    out = kernels.flash_attention_varlen(*packed.arguments, **MASKS[mask])
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert_attends(out, packed.expected(**MASKS[mask]))


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (6, 2), (5, 1)], ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_query_heads_share_key_heads(mask: str, heads: tuple[int, int], device: str) -> None:
    packed = Packed(device, torch.float16, MIXES["unequal"], heads=heads, head_dim=128)
    assert_attends(kernels.flash_attention_varlen(*packed.arguments, **MASKS[mask]), packed.expected(**MASKS[mask]))


@pytest.mark.parametrize("mask", ["full", "causal", "window of 40"])
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_sequence_has_the_bits_that_it_has_alone(
    dtype: torch.dtype, head_dim: int, mask: str, device: str
) -> None:
    packed = Packed(device, dtype, MIXES["unequal"], head_dim=head_dim, heads=(4, 2))
    out, lse = kernels.flash_attention_varlen_with_lse(*packed.arguments, **MASKS[mask])
    q, k, v = packed.tensors
    ends_q, ends_kv = (each.tolist() for each in packed.ends)
    assert lse.shape == (4, q.shape[0])
    for b in range(len(packed.lengths[0])):
        rows, keys = slice(*ends_q[b : b + 2]), slice(*ends_kv[b : b + 2])
        alone = (x.transpose(0, 1)[None] for x in (q[rows], k[keys], v[keys]))
        own_out, own_lse = kernels.flash_attention_with_lse(*alone, **MASKS[mask])
        assert_as_alone(out[rows], own_out[0].transpose(0, 1), dtype, head_dim)
        assert_as_alone(lse[:, rows], own_lse[0], dtype, head_dim)


def assert_as_alone(packed: torch.Tensor, alone: torch.Tensor, dtype: torch.dtype, head_dim: int) -> None:
    """To the bit where one kernel does both; on Hopper a batch may have another tile, which sums in another order."""
    on_hopper = packed.is_cuda and torch.cuda.get_device_capability() == (9, 0)
    if (
        on_hopper
        and (head_dim in (64, 128) or dtype != torch.float32)
        and "WARPWATCH_COMPUTE_CAPABILITY" not in os.environ
    ):
        # The log-sum-exp is a float64 of which the sum has the bits of a float32.
        eps = torch.finfo(packed.dtype).eps if packed.dtype.itemsize == 2 else 1e-6
        assert packed.shape == alone.shape
        empty = alone == -torch.inf  # log-sum-exp of no key
        assert torch.equal(packed == -torch.inf, empty)
        packed, alone = (x.double().masked_fill(empty, 0.0) for x in (packed, alone))
        assert (packed - alone).norm() <= 2 * eps * alone.norm()
    else:
        torch.testing.assert_close(packed, alone, rtol=0, atol=0)


def test_longest_lengths_may_be_more_than_they_are(device: str) -> None:
    packed = Packed(device, torch.float16, MIXES["unequal"])
    out = kernels.flash_attention_varlen(*packed.tensors, *packed.ends, 1 << 40, 4000, causal=True)
    assert torch.equal(out, kernels.flash_attention_varlen(*packed.arguments, causal=True))


def test_strides_other_than_the_last_are_free(device: str) -> None:
    packed = Packed(device, torch.float16, MIXES["unequal"], heads=(4, 2))
    expected = packed.expected(causal=True)
    together = [
        torch.cat((x, x, x), dim=1)[:, x.shape[1] : 2 * x.shape[1]] for x in packed.tensors
    ]  # as of a qkv layer
    odd = [torch.cat((x, x[..., :1]), dim=-1)[..., 1:] for x in packed.tensors]
    assert_attends(kernels.flash_attention_varlen(*together, *packed.ends, *packed.longest, causal=True), expected)
    packed.tensors = tuple(odd)
    assert_attends(kernels.flash_attention_varlen(*packed.arguments, causal=True), packed.expected(causal=True))


def test_nothing_at_all_gives_an_empty_tensor(device: str) -> None:
    packed = Packed(device, torch.float16, ((0, 0), (0, 0)))
    assert kernels.flash_attention_varlen(*packed.arguments).shape == (0, 2, 64)


def test_a_nan_stays_in_its_sequence(device: str) -> None:
    packed = Packed(device, torch.float16, ((70, 40, 90), (70, 40, 90)))
    expected = packed.expected()
    packed.tensors[1][70:110], packed.tensors[2][70:110] = torch.nan, torch.nan
    out = kernels.flash_attention_varlen(*packed.arguments)
    assert_attends(out[:70], expected[:70])
    assert_attends(out[110:], expected[110:])
    assert out[70:110].isnan().all()


@pytest.mark.parametrize("mask", ["full", "causal", "window of 40", "scaled"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mix", ["edges of tiles", "unequal", "empty ones", "without keys"])
def test_gradients_are_those_of_each_sequence(mix: str, dtype: torch.dtype, mask: str, device: str) -> None:
    packed = Packed(device, dtype, MIXES[mix], heads=(4, 2))
    d_out = torch.randn_like(packed.tensors[0])
    found = _gradients(kernels.flash_attention_varlen, packed, d_out, **MASKS[mask])
    expected = _gradients(_one_by_one, packed, d_out, **MASKS[mask])
    for one, other in zip(found, expected, strict=True):
        assert_as_alone(one, other, dtype, head_dim=64)


def _gradients(function: Callable[..., Any], packed: Packed, d_out: torch.Tensor, **options: Any) -> list[torch.Tensor]:
    leaves = [x.detach().requires_grad_() for x in packed.tensors]
    function(*leaves, *packed.ends, *packed.longest, **options).backward(d_out)
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]


def _one_by_one(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    ends_q: torch.Tensor,
    ends_kv: torch.Tensor,
    *_: int,
    **options: Any,
) -> torch.Tensor:
    parts = []
    for rows, keys in zip(itertools.pairwise(ends_q.tolist()), itertools.pairwise(ends_kv.tolist()), strict=True):
        batch = (x.transpose(0, 1)[None] for x in (q[slice(*rows)], k[slice(*keys)], v[slice(*keys)]))
        parts.append(kernels.flash_attention(*batch, **options)[0].transpose(0, 1))
    return torch.cat(parts)


REFUSED: dict[str, Callable[[list[Any]], None]] = {
    "flash_attention_varlen: q must have 3 dimensions (total_q, heads_q, head_dim), got shape [1, 10, 4, 64]": (
        lambda a: a.__setitem__(0, a[0][None])
    ),
    "flash_attention_varlen: heads_q must be a positive multiple of heads_kv, got 3 and 2": (
        lambda a: a.__setitem__(0, a[0][:, :3])
    ),
    "flash_attention_varlen: q and k differ in head_dim: [10, 4, 32] against [12, 2, 64]": (
        lambda a: a.__setitem__(0, a[0][..., :32])
    ),
    "flash_attention_varlen: cu_seqlens_q must be int32, got int64": lambda a: a.__setitem__(3, a[3].long()),
    "flash_attention_varlen: cu_seqlens_kv must have 1 dimensions (batch + 1), got shape [1, 3]": (
        lambda a: a.__setitem__(4, a[4][None])
    ),
    "flash_attention_varlen: cu_seqlens_q and cu_seqlens_kv differ in shape: [2] against [3]": (
        lambda a: a.__setitem__(3, a[3][:2].contiguous())
    ),
    "flash_attention_varlen: cu_seqlens_q must have batch + 1 values, got none": (lambda a: a.__setitem__(3, a[3][:0])),
    "flash_attention_varlen: max_seqlen_q and max_seqlen_kv must not be negative, got -1 and 7": (
        lambda a: a.__setitem__(5, -1)
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_state_what_was_passed_and_what_is_expected(sentence: str, device: str) -> None:
    arguments = list(Packed(device, torch.float16, ((4, 6), (7, 5)), heads=(4, 2)).arguments)
    REFUSED[sentence](arguments)
    assert refusal(*arguments) == sentence


def refusal(*arguments: Any, **options: Any) -> str:
    with pytest.raises(RuntimeError) as refused:
        kernels.flash_attention_varlen(*arguments, **options)
    return str(refused.value).splitlines()[0]


def test_says_what_is_wrong_with_lengths_on_the_cpu() -> None:
    packed = Packed("cpu", torch.float16, ((4, 6), (7, 5)))

    def with_ends(*ends: int) -> tuple[Any, ...]:
        return (*packed.tensors, torch.tensor(ends, dtype=torch.int32), packed.ends[1], *packed.longest)

    for ends, first, last in (((0, 4, 9), 0, 9), ((1, 4, 10), 1, 10)):
        assert refusal(*with_ends(*ends)) == (
            f"flash_attention_varlen: cu_seqlens_q must run from 0 to the 10 rows that there are, got {first} to {last}"
        )
    for middle, b, length in ((11, 0, 11), (-1, 0, -1), (3, 1, 7)):
        assert refusal(*with_ends(0, middle, 10)) == (
            f"flash_attention_varlen: cu_seqlens_q gives sequence {b} a length of {length}; lengths go from 0 to "
            "max_seqlen_q, which is 6"
        )


def test_says_what_a_window_needs(device: str) -> None:
    packed = Packed(device, torch.float16, ((4, 6), (7, 5)))
    assert refusal(*packed.arguments, window=2) == (
        "flash_attention_varlen: a window counts keys back from the query's own place, so it needs causal=True; got "
        "window 2 with causal=False"
    )


@pytest.mark.parametrize("causal", [False, True])
def test_is_a_well_behaved_operator(causal: bool, device: str) -> None:
    packed = Packed(device, torch.float16, ((4, 0, 6), (7, 2, 5)), heads=(4, 2))
    window = 4 if causal else None
    operators = torch.ops.warpwatch
    for operator in (operators.flash_attention_varlen, operators.flash_attention_varlen_with_lse):
        for scale in (None, 0.2):
            torch.library.opcheck(operator.default, (*packed.arguments, causal, scale, window), raise_exception=True)


def test_compiles_without_graph_breaks(device: str) -> None:
    @torch.compile(fullgraph=True)
    def doubled(*arguments: Any) -> torch.Tensor:
        return kernels.flash_attention_varlen(*arguments, causal=True) * 2

    packed = Packed(device, torch.float16, ((4, 6), (7, 5)))
    assert torch.equal(doubled(*packed.arguments), kernels.flash_attention_varlen(*packed.arguments, causal=True) * 2)


def test_replays_from_a_cuda_graph_with_other_lengths(cuda: str) -> None:
    packed = Packed(cuda, torch.float16, ((100, 40, 60), (100, 40, 60)), heads=(4, 2), head_dim=128)
    arguments = (*packed.tensors, *packed.ends, 200, 200)
    kernels.flash_attention_varlen(*arguments, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernels.flash_attention_varlen(*arguments, causal=True)
    packed.lengths = ((3, 130, 67), (3, 130, 67))
    for ends in packed.ends:
        ends.copy_(torch.tensor([0, 3, 133, 200], dtype=torch.int32))
    graph.replay()
    assert_attends(out, packed.expected(causal=True))


# Lengths, rows behind the last sequence, and max_seqlen_q, which may cut sequences off.
UNCOVERED: dict[str, tuple[Lengths, int, int]] = {
    "rows to spare": ((5,), 3, 5),
    "many rows to spare": ((70, 0, 65), 700, 70),
    "a short max_seqlen_q": ((300, 10, 131), 0, 100),
    "both": ((300, 10, 131), 77, 1),
    "an empty last sequence": ((64, 0), 130, 64),
    "no sequence has a row": ((0, 0), 40, 40),
    "no row may be asked for": ((9, 4), 5, 0),
    "no sequence at all": ((), 40, 40),
}


def spare_rows(device: str, dtype: torch.dtype, case: str, head_dim: int) -> tuple[Packed, list[Any], torch.Tensor]:
    """The sequences, arguments with rows to spare and dirty memory for the answer, and which rows have one."""
    lengths, spare, longest = UNCOVERED[case]
    packed = Packed(device, dtype, (lengths, lengths), heads=(4, 2), head_dim=head_dim)
    q, k, v = packed.tensors
    padded = torch.cat((q, torch.full((spare, *q.shape[1:]), torch.nan, dtype=dtype, device=device)))
    covered = torch.zeros(len(padded), dtype=torch.bool, device=device)
    start = 0
    for length in lengths:
        covered[start : start + min(length, longest)] = True
        start += length
    dirty = torch.full_like(padded, torch.nan)  # which the allocator hands out again
    del dirty
    return packed, [padded, k, v, *packed.ends, longest, max(lengths, default=0)], covered


def assert_zeros_elsewhere(out: torch.Tensor, lse: torch.Tensor, covered: torch.Tensor, expected: torch.Tensor) -> None:
    assert torch.equal(out[~covered], torch.zeros_like(out[~covered]))
    assert (lse[:, ~covered] == -torch.inf).all()
    assert_attends(out[: len(expected)][covered[: len(expected)]], expected[covered[: len(expected)]])
    assert lse[:, covered].isfinite().all()


@pytest.mark.parametrize("mask", ["full", "causal", "window of 40"])
@pytest.mark.parametrize(
    ("dtype", "head_dim"),
    [(torch.float16, 64), (torch.bfloat16, 128), (torch.float16, 96), (torch.float32, 64), (torch.float32, 256)],
    ids=str,
)
@pytest.mark.parametrize("case", UNCOVERED)
def test_rows_of_no_sequence_give_zeros(case: str, dtype: torch.dtype, head_dim: int, mask: str, cuda: str) -> None:
    packed, arguments, covered = spare_rows(cuda, dtype, case, head_dim)
    out, lse = kernels.flash_attention_varlen_with_lse(*arguments, **MASKS[mask])
    assert_zeros_elsewhere(out, lse, covered, packed.expected(**MASKS[mask]))
    assert torch.equal(kernels.flash_attention_varlen(*arguments, **MASKS[mask]), out)


@pytest.mark.parametrize("mask", ["full", "causal", "window of 40"])
@pytest.mark.parametrize("case", UNCOVERED)
def test_rows_of_no_sequence_give_zeros_in_the_triton_twin(
    case: str, mask: str, device: str, twin: Callable[..., Callable[..., Any]]
) -> None:
    _needs_an_interpreter_that_counts(device)
    packed, arguments, covered = spare_rows(device, torch.float16, case, 64)
    out, lse = twin("flash_attention_varlen", "flash_attention_varlen_with_lse")(*arguments, **MASKS[mask])
    assert_zeros_elsewhere(out, lse, covered, packed.expected(**MASKS[mask]))


def test_a_short_max_seqlen_kv_hides_no_window(cuda: str) -> None:
    packed = Packed(cuda, torch.float16, ((300,), (300,)))
    q, k, v = packed.tensors
    out = kernels.flash_attention_varlen(q, k, v, *packed.ends, 300, 30, causal=True, window=40)
    assert_attends(out, packed.expected(causal=True, window=40))


def test_a_cuda_graph_replays_with_fewer_rows(cuda: str) -> None:
    packed = Packed(cuda, torch.float16, ((100, 40, 60), (100, 40, 60)), heads=(4, 2), head_dim=128)
    arguments = (*packed.tensors, *packed.ends, 200, 200)
    kernels.flash_attention_varlen(*arguments, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernels.flash_attention_varlen(*arguments, causal=True)
    for ends in packed.ends:
        ends.copy_(torch.tensor([0, 3, 133, 133], dtype=torch.int32))
    out.fill_(torch.nan)
    graph.replay()
    assert torch.equal(out[133:], torch.zeros_like(out[133:]))
    assert out[:133].isfinite().all()


@pytest.mark.parametrize("head_dim", [64, 128])
def test_many_sequences_of_many_lengths(head_dim: int, cuda: str) -> None:
    generator = torch.Generator().manual_seed(3)
    lengths = tuple(torch.randint(0, 700, (60,), generator=generator).tolist())
    packed = Packed(cuda, torch.float16, (lengths, lengths), heads=(8, 2), head_dim=head_dim)
    for options in ({}, {"causal": True}, {"causal": True, "window": 100}):
        assert_attends(kernels.flash_attention_varlen(*packed.arguments, **options), packed.expected(**options))


@pytest.mark.parametrize("mask", ["full", "window of 40"])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.float16), (96, torch.float32)], ids=str)
@pytest.mark.parametrize("mix", ["unequal", "empty ones"])
def test_triton_twin_agrees(
    mix: str, head_dim: int, dtype: torch.dtype, mask: str, device: str, twin: Callable[..., Callable[..., Any]]
) -> None:
    _needs_an_interpreter_that_counts(device)
    packed = Packed(device, dtype, MIXES[mix], heads=(4, 2), head_dim=head_dim)
    out, lse = twin("flash_attention_varlen", "flash_attention_varlen_with_lse")(*packed.arguments, **MASKS[mask])
    assert_attends(out, packed.expected(**MASKS[mask]))
    _, expected = kernels.flash_attention_varlen_with_lse(*packed.arguments, **MASKS[mask])
    torch.testing.assert_close(lse, expected, rtol=1e-5, atol=1e-5)
