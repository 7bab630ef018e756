"""Operators that write into several of their arguments: they refuse those that share memory, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from warpwatch import kernels

Tensors = tuple[torch.Tensor, ...]


def positions(device: str) -> torch.Tensor:
    return torch.zeros(2, dtype=torch.int64, device=device)


def lengths(device: str) -> torch.Tensor:
    return torch.ones(2, dtype=torch.int32, device=device)


def rows(device: str, head_dim: int = 64) -> Tensors:
    k, v = torch.randn(2, 2, 3, 1, head_dim, device=device).half()
    return k, v


def int8_cache(device: str) -> Tensors:
    """Codes of keys and values, scales of both."""
    codes = torch.zeros(2, 2, 3, 64, 64, dtype=torch.int8, device=device)
    scales = torch.zeros(2, 2, 3, 64, device=device)
    return *codes, *scales


def int4_cache(device: str) -> Tensors:
    """Codes of keys and values, scales of both, windows of both."""
    codes = torch.zeros(2, 2, 3, 64, 32, dtype=torch.uint8, device=device)
    k_scales = torch.zeros(2, 3, 2, 2, 64, device=device).half()
    v_scales = torch.zeros(2, 3, 64, 2, 2, device=device).half()
    windows = torch.zeros(2, 2, 3, 32, 64, device=device).half()
    return *codes, k_scales, v_scales, *windows


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(RuntimeError) as refused:
        call()
    return str(refused.value).splitlines()[0]


def test_one_tensor_for_two_is_refused(device: str) -> None:
    k, v = rows(device)
    cache = torch.zeros(2, 3, 16, 64, device=device).half()
    table = torch.zeros(2, 1, dtype=torch.int32, device=device)
    cos, sin = torch.ones(2, 16, 32, device=device)
    refused = "must not share memory, for both are written to"
    assert refusal(lambda: kernels.kv_append(cache, cache, k, v, positions(device))) == (
        f"kv_append: k_cache and v_cache {refused}"
    )
    of_pages = (k, v, cache, cache, table, lengths(device))
    for call, name in (
        (lambda: kernels.paged_kv_append(*of_pages), "paged_kv_append"),
        (lambda: kernels.rope_paged_kv_append(*of_pages, cos, sin), "rope_paged_kv_append"),
        (lambda: kernels.rope_computed_paged_kv_append(*of_pages), "rope_computed_paged_kv_append"),
    ):
        assert refusal(call) == f"{name}: k_pages and v_pages {refused}"

    names = ("k_codes", "v_codes", "k_scales", "v_scales", "k_window", "v_window")
    pairs_of = {"int8": [(0, 1), (2, 3)], "int4": [(0, 1), (4, 5)]}
    for kind, (append, cache_of) in {
        "int8": (kernels.int8_kv_append, int8_cache),
        "int4": (kernels.int4_kv_append, int4_cache),
    }.items():
        for first, second in pairs_of[kind]:
            parts = list(cache_of(device))
            parts[second] = parts[first]
            expected = f"{kind}_kv_append: {names[first]} and {names[second]} {refused}"
            assert refusal(lambda append=append, parts=parts: append(k, v, *parts, lengths(device))) == expected


def test_new_rows_in_what_they_are_written_to_are_refused_and_other_rows_of_it_are_not(device: str) -> None:
    cache = torch.randn(4, 3, 16, 64, device=device).half()
    k_cache, v_cache, rows_in_it = cache[:2], torch.zeros_like(cache[:2]), cache[:2, :, 3:4]
    call = (k_cache, v_cache, rows_in_it, rows_in_it, positions(device))
    assert refusal(lambda: kernels.kv_append(*call)) == (
        "kv_append: k_cache and k must not share memory, for k_cache is written to"
    )
    kernels.kv_append(k_cache, v_cache, cache[2:, :, 3:4], rows_in_it.clone(), positions(device))
    assert torch.equal(cache[:2, :, :1], cache[2:, :, 3:4])
    pages, table = torch.zeros(2, 3, 16, 64, device=device).half(), torch.zeros(2, 1, dtype=torch.int32, device=device)
    of_pages = (rows_in_it, pages[:, :, :1], cache[:2], pages, table, lengths(device))
    assert refusal(lambda: kernels.paged_kv_append(*of_pages)) == (
        "paged_kv_append: k_pages and k must not share memory, for k_pages is written to"
    )
    parts = int4_cache(device)
    assert refusal(lambda: kernels.int4_kv_append(rows(device)[0], parts[5][:, :, :1], *parts, lengths(device))) == (
        "int4_kv_append: v_window and v must not share memory, for v_window is written to"
    )


def test_tensors_of_two_dtypes_that_share_a_byte_are_refused(device: str) -> None:
    k, v = rows(device)
    k_codes, v_codes, k_scales, _ = int8_cache(device)
    in_the_codes = v_codes.view(torch.float32)[..., 0]
    in_its_last_byte = v_codes.flatten()[-4:].view(torch.float32).as_strided((1, 1, 1), (1, 1, 1))
    said = "v_codes and v_scales must not share memory"
    assert said in refusal(
        lambda: kernels.int8_kv_append(
            k, v, k_codes, v_codes, k_scales, in_the_codes.as_strided((2, 3, 64), (192, 64, 1)), lengths(device)
        )
    )
    small = (k[:1, :1], v[:1, :1], k_codes[1:, 2:, 63:], v_codes[1:, 2:, 63:], k_scales[1:, 2:, 63:], in_its_last_byte)
    assert said in refusal(lambda: kernels.int8_kv_append(*small, lengths(device)[:1]))


def test_scales_behind_the_codes_of_their_row_are_apart(device: str) -> None:
    """A row of codes with its scale in the four bytes behind it: one buffer, no byte in common."""
    k, v = rows(device)
    k_codes, v_codes, k_scales, v_scales = int8_cache(device)
    expected = [part.clone() for part in (k_codes, v_codes, k_scales, v_scales)]
    kernels.int8_kv_append(k, v, *expected, lengths(device))
    buffer = torch.zeros(2, 2, 1, 3, 68, dtype=torch.int8, device=device)
    taken = buffer.view(torch.float32)
    codes = [half[..., :64].transpose(1, 2) for half in buffer]
    scales = [half[..., 16].transpose(1, 2) for half in taken]
    kernels.int8_kv_append(k, v, *codes, *scales, lengths(device))
    for part, other in zip((*codes, *scales), expected, strict=True):
        assert torch.equal(part, other[:, :, :1])


IN_ONE_BUFFER: dict[str, Callable[[torch.device | str], torch.Tensor]] = {
    "one behind the other": lambda device: torch.zeros(2, 2, 3, 16, 64, device=device),
    "in turn by sequence": lambda device: torch.zeros(2, 2, 3, 16, 64, device=device).transpose(0, 1),
    "in turn by head": lambda device: torch.zeros(2, 3, 2, 16, 64, device=device).permute(2, 0, 1, 3, 4),
    "in turn by token": lambda device: torch.zeros(2, 3, 16, 2, 64, device=device).permute(3, 0, 1, 2, 4),
    "in turn by token, heads last": lambda device: torch.zeros(2, 16, 2, 3, 64, device=device).permute(2, 0, 3, 1, 4),
}


@pytest.mark.parametrize("layout", IN_ONE_BUFFER)
def test_caches_in_one_buffer_are_taken_where_they_are_apart(layout: str, device: str) -> None:
    k_cache, v_cache = IN_ONE_BUFFER[layout](device).half()
    k, v = rows(device)
    kernels.kv_append(k_cache, v_cache, k, v, positions(device) + 5)
    assert torch.equal(k_cache[:, :, 5:6], k)
    assert torch.equal(v_cache[:, :, 5:6], v)
    assert k_cache.count_nonzero() == k.count_nonzero()


def test_a_compiled_call_refuses_too(device: str) -> None:
    k, v = rows(device)
    cache = torch.zeros(2, 3, 16, 64, device=device).half()
    appends = torch.compile(lambda *call: kernels.kv_append(*call), fullgraph=True)
    with pytest.raises(RuntimeError, match="k_cache and v_cache must not share memory"):
        appends(cache, cache, k, v, positions(device))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[int], list[list[int]], list[int]]:
    """A shape, the strides of two tensors of it, and where they begin; the last dimension is contiguous."""
    shape = [draw(st.integers(1, 4)) for _ in range(3)] + [draw(st.integers(1, 5))]
    strides = []
    for _ in range(2):
        order = draw(st.permutations(range(3)))
        of = [0, 0, 0, 1]
        reached = shape[3]
        for d in order:
            of[d] = reached + draw(st.integers(0, 6))
            reached = of[d] * (shape[d] - 1) + reached
        strides.append(of)
    if draw(st.booleans()):
        strides[1] = strides[0]
    return shape, strides, [draw(st.integers(0, 60)) for _ in range(2)]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(layouts())
def test_refused_is_what_shares_an_element(layout: tuple[list[int], list[list[int]], list[int]]) -> None:
    shape, strides, begins = layout
    reached = [
        begin + sum(s * (n - 1) for s, n in zip(of, shape, strict=True))
        for begin, of in zip(begins, strides, strict=True)
    ]
    assume(max(reached) < 4000)
    memory, places = torch.zeros(4000), torch.arange(4000)
    caches = [memory.as_strided(shape, of, begin) for of, begin in zip(strides, begins, strict=True)]
    of_each = [
        set(places.as_strided(shape, of, begin).flatten().tolist()) for of, begin in zip(strides, begins, strict=True)
    ]
    nothing = torch.empty(shape[0], shape[1], 0, shape[3])
    call = (*caches, nothing, nothing, torch.zeros(shape[0], dtype=torch.int64))
    if of_each[0] & of_each[1]:
        assert "must not share memory" in refusal(lambda: kernels.kv_append(*call))
    else:
        kernels.kv_append(*call)
