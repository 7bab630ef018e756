"""Which keys a query of attention sees, as a mask and as a count."""

from __future__ import annotations

from warpbench.lazy import torch


def hidden_pairs(q: torch.Tensor, k: torch.Tensor, window: int | None = None) -> torch.Tensor:
    """The pairs (seq_q, seq_kv) that the causal mask hides, and those of keys older than the window.

    q (…, seq_q, head_dim), k (…, seq_kv, head_dim). Aligned bottom-right, as in `causal_pairs`.
    """
    seq_q, seq_kv = q.shape[-2], k.shape[-2]
    everything = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=q.device)
    newer = everything.triu(seq_kv - seq_q + 1)
    return newer if window is None else newer | everything.tril(seq_kv - seq_q - window)


def causal_pairs(seq_q: int, seq_kv: int, window: int | None = None) -> int:
    """Pairs seen when query i sees the keys j <= i + (seq_kv - seq_q), in a window the newest of them."""
    hidden_rows = max(seq_q - seq_kv, 0)
    first = max(seq_kv - seq_q, 0) + 1
    rows = seq_q - hidden_rows
    all_seen = rows * (2 * first + rows - 1) // 2
    if window is None or window >= seq_kv:
        return all_seen
    # What the window hides is what the same queries would see if the newest keys were not there.
    return all_seen - causal_pairs(seq_q, seq_kv - window)
