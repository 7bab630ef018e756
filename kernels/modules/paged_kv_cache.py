"""Paged KV cache: sequences of any length share one pool of pages."""

from __future__ import annotations

import torch
from torch import nn

from ..operators.flash_attention import flash_attention
from ..operators.paged_decode_attention import paged_decode_attention
from ..operators.paged_kv import paged_kv_append, paged_kv_gather
from .causal_attention import DECODE_TOKENS
from .gradient import refuse_gradient
from .kv_cache import check_new


class PagedKVCache(nn.Module):
    """Keys and values of one attention layer in `pages` pages of `page_size` positions, shared by all sequences.

    k_pages, v_pages (pages, heads_kv, page_size, head_dim); block_table (batch, pages of max_length) and lengths
    (batch), int32, as paged_decode_attention takes them. A sequence allocates a page when it grows into it, up to
    max_length positions, and frees all of them with `release`. Buffers outside the state_dict. The host also counts
    positions, to allocate pages: with a CUDA graph, `reserve` the pages that its replays will fill, and `recount` after
    them.
    Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention" (SOSP 2023).
    """

    k_pages: torch.Tensor
    v_pages: torch.Tensor
    block_table: torch.Tensor
    lengths: torch.Tensor

    def __init__(
        self,
        batch: int,
        heads_kv: int,
        max_length: int,
        head_dim: int,
        *,
        pages: int | None = None,
        page_size: int = 64,
        dtype: torch.dtype = torch.float16,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if min(batch, heads_kv, max_length, head_dim) < 1:
            raise ValueError(
                "PagedKVCache: batch, heads_kv, max_length and head_dim must be positive, "
                f"got {[batch, heads_kv, max_length, head_dim]}"
            )
        if page_size not in (16, 32, 64, 128, 256):
            raise ValueError(f"PagedKVCache: page_size must be a power of two from 16 to 256, got {page_size}")
        most = -(-max_length // page_size)
        pages = batch * most if pages is None else pages
        if pages < 1:
            raise ValueError(f"PagedKVCache: pages must be positive, got {pages}")
        self.max_length = max_length
        shape = pages, heads_kv, page_size, head_dim
        # Unallocated entries point to page 0: a valid page that is never read through them.
        table, counts = torch.zeros(batch, most, dtype=torch.int32), torch.zeros(batch, dtype=torch.int32)
        self.register_buffer("k_pages", torch.zeros(shape, dtype=dtype, device=device), persistent=False)
        self.register_buffer("v_pages", torch.zeros(shape, dtype=dtype, device=device), persistent=False)
        self.register_buffer("block_table", table.to(device), persistent=False)
        self.register_buffer("lengths", counts.to(device), persistent=False)
        self._free = list(range(pages - 1, -1, -1))  # a stack: the next free page is last
        self._taken: list[list[int]] = [[] for _ in range(batch)]
        self._known = [0] * batch  # lengths as known to the host

    @property
    def page_size(self) -> int:
        """Positions per page."""
        return self.k_pages.shape[2]

    @property
    def free_pages(self) -> int:
        """Number of free pages."""
        return len(self._free)

    def reserve(self, length: int, sequence: int | None = None) -> None:
        """Allocate the pages of the first `length` positions, of one sequence or of all.

        Raises RuntimeError, with nothing allocated, if max_length or the free pages do not suffice.
        """
        sequences = range(len(self._taken)) if sequence is None else (sequence,)
        self._reserve(dict.fromkeys(sequences, length))

    def append(self, k: torch.Tensor, v: torch.Tensor) -> None:
        """Write k, v (batch, heads_kv, new, head_dim) after each sequence's positions, and increase lengths by new.

        Raises ValueError for another shape, dtype or device, RuntimeError, with nothing written, if the capacity does
        not suffice or if k or v require a gradient.
        """
        _, heads_kv, _, head_dim = self.k_pages.shape
        check_new("PagedKVCache", k, v, (len(self._taken), heads_kv, head_dim), self.k_pages.dtype, self.k_pages.device)
        new = k.shape[2]
        self._reserve({sequence: known + new for sequence, known in enumerate(self._known)})
        with torch.no_grad():
            self.lengths.add_(new)
            paged_kv_append(k, v, self.k_pages, self.v_pages, self.block_table, self.lengths)
        self._known = [known + new for known in self._known]

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        """Append k, v, then compute causal attention of q, the same new tokens, to all positions; shaped like q.

        Up to 8 new tokens read the pages in place; for more, each sequence's pages are gathered first.
        """
        self.append(k, v)
        if q.shape[2] <= DECODE_TOKENS:
            out = paged_decode_attention(
                q, self.k_pages, self.v_pages, self.block_table, self.lengths, scale=scale, max_length=self._room()
            )
            return refuse_gradient(out, "PagedKVCache", "attend under torch.no_grad()")
        keys, values = self.gathered()
        rows = [
            flash_attention(q[i : i + 1], keys[i : i + 1, :, :n], values[i : i + 1, :, :n], causal=True, scale=scale)
            for i, n in enumerate(self._known)
        ]
        return torch.cat(rows)

    def gathered(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values as (batch, heads_kv, longest, head_dim), with zeros after the end of shorter sequences."""
        return paged_kv_gather(self.k_pages, self.v_pages, self.block_table, self.lengths, max(self._known))

    def release(self, sequence: int) -> None:
        """Drop a sequence and free its pages; its row of the batch stays, empty."""
        self._free.extend(reversed(self._taken[sequence]))
        self._taken[sequence], self._known[sequence] = [], 0
        self.lengths[sequence] = 0

    def recount(self) -> None:
        """Read the lengths from the device, after replays of a CUDA graph."""
        self._known = self.lengths.tolist()

    def extra_repr(self) -> str:
        pages, heads_kv, page_size, head_dim = self.k_pages.shape
        return (
            f"batch={len(self._taken)}, heads_kv={heads_kv}, pages={pages} of {page_size}, {self.free_pages} free, "
            f"head_dim={head_dim}"
        )

    def _room(self) -> int:
        """Positions that the longest sequence's pages hold: an upper bound of lengths, also during graph replays."""
        return self.page_size * max(map(len, self._taken))

    def _reserve(self, lengths: dict[int, int]) -> None:
        longest = max(lengths.values())
        if longest > self.max_length:
            raise RuntimeError(f"PagedKVCache: {longest} positions do not fit, max_length is {self.max_length}")
        wanted = {
            sequence: max(-(-length // self.page_size) - len(self._taken[sequence]), 0)
            for sequence, length in lengths.items()
        }
        total = sum(wanted.values())
        if total > len(self._free):
            raise RuntimeError(
                f"PagedKVCache: {total} more pages are needed and {len(self._free)} are free; release a sequence or "
                "make it with more pages"
            )
        for sequence, count in wanted.items():
            if count:
                fresh = [self._free.pop() for _ in range(count)]
                taken = len(self._taken[sequence])
                self._taken[sequence] += fresh
                row = torch.tensor(fresh, dtype=torch.int32)
                self.block_table[sequence, taken : taken + count] = row.to(self.block_table.device)
