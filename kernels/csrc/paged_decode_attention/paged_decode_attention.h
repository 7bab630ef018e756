// paged_decode_attention.h: decode_attention over a paged cache.
//   k_pages, v_pages: (pages, heads_kv, page_size, head_dim), head_dim contiguous; page_size a power of two, 16 to 256
//   block_table: (batch, pages per sequence) int32: key j of sequence b is row j % page_size of page block_table[b, j /
//   page_size].
//   Entries past a sequence's last key are not read.
// Formula, FLOP and bytes as in decode_attention, plus 4 bytes per page.
#pragma once

#include "decode_attention/decode_attention.h"
#include "decode_attention/decode_attention_cache.h"

namespace warpwatch {

struct PagedCache {
  const void* k;
  const void* v;
  const int32_t* block_table;
  int64_t k_page_stride, k_head_stride, k_row_stride;
  int64_t v_page_stride, v_head_stride, v_row_stride;
  int64_t table_stride;
  int page_shift;  // log2(page_size)
};

template <typename Element>
struct PagedHead {
  const Element* keys;
  const Element* values;
  const int32_t* pages;
  int64_t k_page_stride, v_page_stride, key_stride, value_stride;
  int shift;

  WARPWATCH_HOST_DEVICE PagedHead(const PagedCache& cache, int batch, int head)
      : keys(static_cast<const Element*>(cache.k) + head * cache.k_head_stride),
        values(static_cast<const Element*>(cache.v) + head * cache.v_head_stride),
        pages(cache.block_table + batch * cache.table_stride),
        k_page_stride(cache.k_page_stride),
        v_page_stride(cache.v_page_stride),
        key_stride(cache.k_row_stride),
        value_stride(cache.v_row_stride),
        shift(cache.page_shift) {}

  WARPWATCH_HOST_DEVICE int page_of(int key) const { return pages[key >> shift]; }
  WARPWATCH_HOST_DEVICE const Element* key_row(int page, int key) const {
    return keys + page * k_page_stride + (key & ((1 << shift) - 1)) * key_stride;
  }
  WARPWATCH_HOST_DEVICE const Element* value_row(int page, int key) const {
    return values + page * v_page_stride + (key & ((1 << shift) - 1)) * value_stride;
  }
};

template <typename Element>
struct HeadOf<PagedCache, Element> {
  using Type = PagedHead<Element>;
};

// Any dtype, head_dim up to kDecodeAttentionCpuHeadDim.
void paged_decode_attention_cpu(const DecodeAttentionParams& p, const PagedCache& cache);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA

namespace warpwatch {

// Same requirements as decode_attention's launchers.
cudaError_t paged_decode_attention_sm75(const DecodeAttentionParams& p, const PagedCache& cache, cudaStream_t stream);
cudaError_t paged_decode_attention_sm80(const DecodeAttentionParams& p, const PagedCache& cache, cudaStream_t stream);
cudaError_t paged_decode_attention_fp32(const DecodeAttentionParams& p, const PagedCache& cache, cudaStream_t stream);

}  // namespace warpwatch
#endif
