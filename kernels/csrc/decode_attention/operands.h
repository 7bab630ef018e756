// Shared by the bindings of decode_attention over any cache: checks of q, lengths and the cache, the
// params, and the workspace for split keys.
#pragma once

#include <optional>

#include "decode_attention/decode_attention.h"
#include "decode_attention/decode_attention_tiles.h"
#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {

struct DecodeAttentionOperands {
  static constexpr int64_t kLongest = int64_t{1} << 30;  // sums of two lengths fit an int

  const char* op;

  void check_queries(const Tensor& q, std::optional<double> scale) const;
  // Checks `cache` (any, heads_kv, any, head_dim) against q; called for keys and for values.
  void check_cache(const Tensor& q, const Argument& cache, int64_t heads_kv) const;
  void check_heads(const Tensor& q, int64_t heads_kv) const;
  void check_lengths(const Tensor& q, const Tensor& lengths) const;
  // Checks max_length, the caller's upper bound of lengths; the cache has room for `capacity` keys per sequence.
  void check_max_length(std::optional<int64_t> max_length, bool has_lengths, int64_t capacity) const;
  void check_cpu_head_dim(const Tensor& q) const;

  // The params with splits = 1.
  DecodeAttentionParams parameters(const Tensor& q, Tensor& out, const std::optional<Tensor>& lengths, int64_t heads_kv,
                                   int64_t capacity, std::optional<double> scale) const;

#if WARPWATCH_WITH_CUDA
  void check_gpu_head_dim(const Tensor& q) const;
  void check_gpu_dtype(const Tensor& q, int compute_capability) const;
  void check_aligned(const Argument& cache) const;  // no silent copy: it would cost more than the operator

  // Chooses p.splits for this GPU and sequences of max_length keys (without it, p.capacity). Returns the workspace that p then
  // points to; keep it alive until the launch. PyTorch's allocator reuses it in stream order.
  std::optional<Tensor> divide(DecodeAttentionParams& p, const Tensor& q, const OnDeviceOf& gpu,
                               std::optional<int64_t> max_length) const;
  // The same for a kernel with block_rows packed queries per block and the given cost model.
  std::optional<Tensor> divide(DecodeAttentionParams& p, const Tensor& q, const OnDeviceOf& gpu,
                               std::optional<int64_t> max_length, int block_rows, DecodeAttentionDivision division) const;
#endif
};

ContiguousCache contiguous_cache(const Tensor& k, const Tensor& v);

#if WARPWATCH_WITH_CUDA

// Calls the kernel for this GPU. flash_attention uses it too, for one query per sequence; `op` names the operator in errors.
cudaError_t dispatch_decode_attention(const char* op, const DecodeAttentionParams& p, const ContiguousCache& cache,
                                      const OnDeviceOf& gpu);

#endif

}  // namespace warpwatch
