// Work distribution and launch of the decode kernels, including the combine kernel behind them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

#include "decode_attention/decode_attention.h"
#include "decode_attention/decode_attention_tiles.h"
#include "primitives/attributes.h"

namespace warpwatch {

// The packed queries and keys that a thread block owns.
//
// Blocks that read the same keys and values (row blocks of one split) are neighbours in the grid, so they share them in L2.

struct DecodeAttentionWork {
  int batch, head_kv, split;
  int first_row, rows;     // among the packed queries of this key head
  int64_t out_row;         // first_row among all batch * heads_q * seq_q rows
  int length;              // keys of the sequence
  int first_key, end_key;  // first_key is a multiple of PartKeys; so is end_key unless it is `length`
};

__host__ __device__ constexpr int decode_attention_rows(const DecodeAttentionParams& p) {
  return p.group * p.seq_q;
}

// PartKeys, a multiple of 16: the split granularity. Every KV split starts at a multiple of it.
template <int BlockRows, int PartKeys = 16>
__device__ __forceinline__ DecodeAttentionWork decode_attention_work_of_block(const DecodeAttentionParams& p,
                                                                              int block) {
  const int rows = decode_attention_rows(p);
  const int row_blocks = (rows + BlockRows - 1) / BlockRows;
  const int part = block / row_blocks;
  const int kv = part / p.splits;
  DecodeAttentionWork work;
  work.split = part - kv * p.splits;
  work.batch = kv / p.heads_kv;
  work.head_kv = kv - work.batch * p.heads_kv;
  work.first_row = (block - part * row_blocks) * BlockRows;
  work.rows = min(rows - work.first_row, BlockRows);
  work.out_row = int64_t{kv} * rows + work.first_row;
  work.length = p.lengths == nullptr ? p.capacity : min(max(p.lengths[work.batch], 0), p.capacity);
  const int part_keys = ((work.length + p.splits - 1) / p.splits + PartKeys - 1) / PartKeys * PartKeys;
  work.first_key = work.split * part_keys;
  work.end_key = min(work.length, work.first_key + part_keys);  // <= first_key: the split is empty
  return work;
}

// Pointer to the query in row `row` of the block.
template <typename Element>
__device__ __forceinline__ const Element* query_row(const DecodeAttentionParams& p, const DecodeAttentionWork& work,
                                                    int row) {
  const int packed = work.first_row + row;
  const int head = work.head_kv * p.group + packed / p.seq_q;
  return static_cast<const Element*>(p.q) + work.batch * p.q_batch_stride + head * p.q_head_stride +
         packed % p.seq_q * p.q_row_stride;
}

// Row `row` of the block sees the keys below this bound, which may be negative. It never exceeds `length`, so it also masks the
// keys past the end.
__device__ __forceinline__ int keys_seen_by_row(const DecodeAttentionParams& p, const DecodeAttentionWork& work,
                                                int row) {
  return work.length - p.seq_q + 1 + (work.first_row + row) % p.seq_q;
}

// Grid size; cudaErrorInvalidValue if it exceeds 2**31 - 1 blocks.
inline cudaError_t decode_attention_blocks(const DecodeAttentionParams& p, int block_rows, int* blocks) {
  const int64_t row_blocks = (int64_t{decode_attention_rows(p)} + block_rows - 1) / block_rows;
  const int64_t key_heads = int64_t{p.batch} * p.heads_kv;
  if (key_heads > INT_MAX || key_heads * row_blocks > INT_MAX || key_heads * row_blocks * p.splits > INT_MAX) {
    return cudaErrorInvalidValue;
  }
  *blocks = static_cast<int>(key_heads * row_blocks * p.splits);
  return cudaSuccess;
}

// Launches `kernel`, whose parameters are (DecodeAttentionParams, Cache), and the combine kernel. Kernel provides kRows (packed
// queries per block), Shape, and scale_log2 (turns its maxima into exponents of 2).
template <typename Kernel, typename Cache>
cudaError_t launch_decode_attention(void (*kernel)(DecodeAttentionParams, Cache), const DecodeAttentionParams& p,
                                    const Cache& cache, cudaStream_t stream) {
  int blocks = 0;
  if (cudaError_t error = decode_attention_blocks(p, Kernel::kRows, &blocks); error != cudaSuccess) return error;
  if (blocks == 0) return cudaSuccess;
  if (cudaError_t error = allow_dynamic_shared_bytes(kernel, Kernel::Shape::kDynamicSharedBytes);
      error != cudaSuccess) {
    return error;
  }
  kernel<<<blocks, Kernel::Shape::kThreads, Kernel::Shape::kDynamicSharedBytes, stream>>>(p, cache);
  if (cudaError_t error = cudaGetLastError(); error != cudaSuccess || p.splits == 1) return error;
  return decode_attention_combine_parts(p, Kernel::scale_log2(p), stream);
}

// Calls `launch` with the template arguments <HeadDim, RowTiles> for this problem.
template <typename Launch>
cudaError_t with_head_dim(const DecodeAttentionParams& p, const Launch& launch) {
  const bool two = decode_attention_row_tiles(decode_attention_rows(p), p.head_dim) == 2;
  switch (p.head_dim) {
    case 64: return two ? launch.template operator()<64, 2>() : launch.template operator()<64, 1>();
    case 96: return two ? launch.template operator()<96, 2>() : launch.template operator()<96, 1>();
    case 128: return two ? launch.template operator()<128, 2>() : launch.template operator()<128, 1>();
    case 256: return launch.template operator()<256, 1>();
    default: return cudaErrorInvalidValue;
  }
}

// Calls `launch` with the template argument <Element> for a 16-bit dtype.
template <typename Launch>
cudaError_t with_16_bit_element(const DecodeAttentionParams& p, const Launch& launch) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch.template operator()<__half>();
    case Dtype::kBFloat16: return launch.template operator()<__nv_bfloat16>();
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
