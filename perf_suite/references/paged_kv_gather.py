"""Reference of paged_kv_gather."""

import torch


def paged_kv_gather(
    k_pages: torch.Tensor, v_pages: torch.Tensor, block_table: torch.Tensor, lengths: torch.Tensor, seq: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions 0 .. seq - 1 of each sequence as (batch, heads, seq, head_dim) in float64, zeros from its length on.

    k_pages, v_pages (pages, heads, page_size, head_dim); position j of sequence b is row j % page_size of page
    block_table[b, j // page_size].
    """
    page_size = k_pages.shape[2]
    gathered = []
    for pages in (k_pages, v_pages):
        out = torch.zeros(
            len(block_table), pages.shape[1], seq, pages.shape[3], dtype=torch.float64, device=pages.device
        )
        for b, length in enumerate(lengths.tolist()):
            places = torch.arange(min(length, seq), device=pages.device)
            page = block_table[b].long()[places // page_size]
            out[b, :, : len(places)] = pages[page, :, places % page_size].transpose(0, 1).double()
        gathered.append(out)
    return gathered[0], gathered[1]
