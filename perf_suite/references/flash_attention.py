"""Reference of scaled dot-product attention."""

import torch


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """softmax(scale q k^T + bias) v in float64, one head at a time so that the scores of long sequences fit.

    q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim); query head h reads key head
    h // (heads_q / heads_kv). Causal is aligned bottom-right: query i sees keys j <= i + (seq_kv - seq_q); in a window
    (causal alone) only the newest `window` of them. bias broadcasts to (batch, heads_q, seq_q, seq_kv), -inf hiding
    a key. A query that sees no key gives zeros. scale defaults to 1 / sqrt(head_dim).
    """
    batch, heads_q, seq_q, head_dim = q.shape
    heads_kv, seq_kv = k.shape[1], k.shape[2]
    scale = head_dim**-0.5 if scale is None else scale
    unseen = torch.zeros(seq_q, seq_kv, dtype=torch.bool, device=q.device)
    if causal:
        row = torch.arange(seq_q, device=q.device)[:, None]
        column = torch.arange(seq_kv, device=q.device)[None, :]
        newest = row + (seq_kv - seq_q)
        unseen = column > newest
        if window is not None:
            unseen |= column <= newest - window
    out = torch.empty(q.shape[:-1] + v.shape[-1:], dtype=torch.float64, device=q.device)
    for b in range(batch):
        for h in range(heads_q):
            head_kv = h // (heads_q // heads_kv)
            scores = scale * (q[b, h].double() @ k[b, head_kv].double().T)
            if bias is not None:
                scores = scores + bias.expand(batch, heads_q, seq_q, seq_kv)[b, h].double()
            scores = scores.masked_fill(unseen, -torch.inf)
            weights = torch.softmax(scores, dim=-1).masked_fill((scores == -torch.inf).all(dim=-1, keepdim=True), 0.0)
            out[b, h] = weights @ v[b, head_kv].double()
    return out
