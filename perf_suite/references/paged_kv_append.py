"""Reference of paged_kv_append."""

import torch


def paged_kv_append(
    pages: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_table: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """pages (2, pages, heads, page_size, head_dim) with k's and v's rows as the last of each sequence, in float64.

    k, v (batch, heads, tokens, head_dim); position j of sequence b is row j % page_size of page
    block_table[b, j // page_size].
    """
    out = pages.double()
    page_size, tokens = pages.shape[3], k.shape[2]
    for b, length in enumerate(lengths.tolist()):
        places = torch.arange(length - tokens, length, device=pages.device)
        page = block_table[b].long()[places // page_size]
        out[0, page, :, places % page_size] = k[b].double().transpose(0, 1)
        out[1, page, :, places % page_size] = v[b].double().transpose(0, 1)
    return out
