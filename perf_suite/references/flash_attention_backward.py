"""Reference of the gradients of scaled dot-product attention."""

import torch


def flash_attention_backward(
    d_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    causal: bool = False,
    window: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk and dv in float64, one head at a time, as functions of all six tensors; scale 1 / sqrt(head_dim).

    p = exp(scale q k^T - lse), 0 where hidden; ds = p (d_out v^T - delta), delta the sum of d_out out over head_dim;
    dq = scale ds k, dk = scale ds^T q, dv = p^T d_out, summed over the query heads of a key head. Shapes and masks as
    for the reference of flash_attention; lse (batch, heads_q, seq_q).
    """
    dq, dk, dv = (torch.zeros(x.shape, dtype=torch.float64, device=x.device) for x in (q, k, v))
    scale, group = q.shape[-1] ** -0.5, q.shape[1] // k.shape[1]
    unseen = _unseen(q, k, causal, window)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            d, queries, output = (x[b, h].double() for x in (d_out, q, out))
            keys, values = (x[b, h // group].double() for x in (k, v))
            weights = torch.exp(scale * (queries @ keys.T) - lse[b, h].double()[:, None]).masked_fill(unseen, 0.0)
            d_scores = weights * (d @ values.T - (d * output).sum(-1, keepdim=True))
            dq[b, h] = scale * (d_scores @ keys)
            dk[b, h // group] += scale * (d_scores.T @ queries)
            dv[b, h // group] += weights.T @ d
    return dq, dk, dv


def output_and_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, window: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The forward pass's output, and the logarithm of each query's sum of exp(scale q k^T), in float64."""
    out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    lse = torch.empty(q.shape[:-1], dtype=torch.float64, device=q.device)
    scale, group = q.shape[-1] ** -0.5, q.shape[1] // k.shape[1]
    unseen = _unseen(q, k, causal, window)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            keys, values = (x[b, h // group].double() for x in (k, v))
            scores = (scale * (q[b, h].double() @ keys.T)).masked_fill(unseen, -torch.inf)
            lse[b, h] = torch.logsumexp(scores, dim=-1)
            out[b, h] = torch.softmax(scores, dim=-1).masked_fill(unseen, 0.0) @ values
    return out, lse


def _unseen(q: torch.Tensor, k: torch.Tensor, causal: bool, window: int | None) -> torch.Tensor:
    row = torch.arange(q.shape[2], device=q.device)[:, None]
    behind = row + (k.shape[2] - q.shape[2]) - torch.arange(k.shape[2], device=q.device)[None, :]
    if not causal:
        return torch.zeros_like(behind, dtype=torch.bool)
    return (behind < 0) if window is None else (behind < 0) | (behind >= window)
