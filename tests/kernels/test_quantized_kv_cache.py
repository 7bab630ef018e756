"""Int8KVCache and Int4KVCache: KVCache's interface, and attention over the codes as over what `filled` gives."""

from __future__ import annotations

import pytest
import torch

from warpwatch.kernels import flash_attention
from warpwatch.kernels.modules import Int4KVCache, Int8KVCache

from .bfloat16 import skip_without_bfloat16

CACHES = [Int8KVCache, Int4KVCache]


def tokens(device: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    k, v = torch.randn(2, 2, 2, count, 64, device=device).half()
    return k, v


@pytest.mark.parametrize("new", [1, 8, 30])  # a step, several tokens, and a prompt
@pytest.mark.parametrize("kind", CACHES)
def test_attends_over_what_it_gives(kind: type[Int8KVCache], new: int, device: str) -> None:
    cache = kind(2, 2, 110, 64, device=device)
    for count in (33, 1, 30, 9):
        k, v = cache.append(*tokens(device, count))
    assert cache.length == k.shape[2] == v.shape[2] == 73
    q = torch.randn(2, 4, new, 64, device=device).half()
    out = cache.attend(q, *tokens(device, new))
    assert cache.length == 73 + new
    expected = flash_attention(q, *cache.filled(), causal=True)
    torch.testing.assert_close(out, expected, rtol=0, atol=5e-3)


@pytest.mark.parametrize(("kind", "error"), [(Int8KVCache, 0.02), (Int4KVCache, 0.15)])
def test_gives_what_came_but_for_its_bits(kind: type[Int8KVCache], error: float, device: str) -> None:
    cache = kind(2, 2, 70, 64, device=device)
    came = tokens(device, 70)
    for given, exact in zip(cache.append(*came), came, strict=True):
        assert given.dtype == exact.dtype
        assert (given - exact).float().norm() < error * exact.float().norm()


@pytest.mark.parametrize("kind", CACHES)
def test_forgets(kind: type[Int8KVCache], device: str) -> None:
    cache, fresh = (kind(2, 2, 70, 64, device=device) for _ in range(2))
    k, v = tokens(device, 70)
    cache.append(k, v)
    cache.truncate(64)
    cache.append(k[:, :, :3], v[:, :, :3])
    fresh.append(k[:, :, :64], v[:, :, :64])
    for given, expected in zip(cache.filled(), fresh.append(k[:, :, :3], v[:, :, :3]), strict=True):
        assert torch.equal(given, expected)
    cache.reset()
    assert cache.filled()[0].shape[2] == 0
    out = cache.attend(k[:, :, :1], k[:, :, :1], v[:, :, :1])  # of one token alone its own value comes back
    torch.testing.assert_close(out, cache.filled()[1], rtol=0, atol=5e-3)


@pytest.mark.parametrize("kind", CACHES)
def test_refuses_as_kv_cache_does(kind: type[Int8KVCache], device: str) -> None:
    cache = kind(2, 2, 70, 64, device=device)
    k, v = tokens(device, 71)
    with pytest.raises(RuntimeError, match="71 more positions do not fit: 0 of 70 are filled"):
        cache.append(k, v)
    with pytest.raises(ValueError, match=r"k is torch.float32 on .*, the cache torch.float16"):
        cache.append(k.float(), v)
    assert cache.length == 0
    assert "length=0 of 70, head_dim=64" in repr(cache)
    assert not cache.state_dict()


def test_four_bits_cannot_be_divided_again(device: str) -> None:
    cache = Int4KVCache(2, 2, 70, 64, device=device)
    cache.append(*tokens(device, 70))
    cache.truncate(66)
    with pytest.raises(ValueError, match="those up to 64 are quantized in groups of 32; take a multiple of 32"):
        cache.truncate(63)
    with pytest.raises(ValueError, match="head_dim must be a multiple of 32, got 40"):
        Int4KVCache(1, 1, 8, 40)


@pytest.mark.parametrize("kind", CACHES)
def test_a_cast_of_the_module_leaves_scales_alone(kind: type[Int8KVCache], device: str) -> None:
    dtype = torch.float32 if device == "cpu" else torch.bfloat16  # attends over codes there, as float16 does
    skip_without_bfloat16(device, dtype)
    cache = kind(2, 2, 70, 64, device=device)
    before = cache.key_scales.dtype
    holder = torch.nn.ModuleList([cache]).to(dtype)
    assert holder[0] is cache
    assert (cache.key_scales.dtype, cache.dtype) == (before, dtype)
    k, v = (t.to(dtype) for t in tokens(device, 40))
    given, _ = cache.append(k, v)
    assert given.dtype == dtype
    out = cache.attend(k[:, :, :1], k[:, :, :1], v[:, :, :1])
    expected = flash_attention(k[:, :, :1], *cache.filled(), causal=True)
    rounding = torch.finfo(torch.bfloat16).eps if dtype == torch.bfloat16 else 0
    torch.testing.assert_close(out, expected, rtol=rounding, atol=5e-3)


@pytest.mark.parametrize("kind", CACHES)
def test_a_gradient_through_its_attention_is_refused(kind: type[Int8KVCache], device: str) -> None:
    k, v = tokens(device, 1)
    q = k.clone().requires_grad_()
    out = kind(2, 2, 70, 64, device=device).attend(q, k, v)
    with pytest.raises(RuntimeError, match=r"has no gradient; attend under torch.no_grad\(\)"):
        out.sum().backward()
