// What the bindings of decode_attention share, whatever cache it reads: checks of q, lengths and the cache, the params, and
// the workspace of divided keys.
#pragma once

#include <optional>

#include "decode_attention/decode_attention.h"
#include "decode_attention/decode_attention_tiles.h"
#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {

struct DecodeAttentionOperands {
  static constexpr int64_t kLongest = int64_t{1} << 30;  // sums of two lengths stay within an int

  const char* op;

  void check_queries(const Tensor& q, std::optional<double> scale) const;
  // `cache` (anything, heads_kv, anything, head_dim) beside q, in its dtype; called for keys and for values.
  void check_cache(const Tensor& q, const Argument& cache, int64_t heads_kv) const;
  void check_heads(const Tensor& q, int64_t heads_kv) const;
  void check_lengths(const Tensor& q, const Tensor& lengths) const;
  // max_length, a bound of lengths that the caller gives, of a cache with room for `capacity` keys of a sequence.
  void check_max_length(std::optional<int64_t> max_length, bool has_lengths, int64_t capacity) const;
  void check_cpu_head_dim(const Tensor& q) const;

  // With splits 1.
  DecodeAttentionParams parameters(const Tensor& q, Tensor& out, const std::optional<Tensor>& lengths, int64_t heads_kv,
                                   int64_t capacity, std::optional<double> scale) const;

#if WARPWATCH_WITH_CUDA
  void check_gpu_head_dim(const Tensor& q) const;
  void check_gpu_dtype(const Tensor& q, int compute_capability) const;
  void check_aligned(const Argument& cache) const;  // a copy of the cache would cost more than the operator

  // Chooses p.splits for this GPU and sequences of max_length keys (p.capacity without it). What it returns is the
  // workspace that p then points to: hold it until the launch. It goes back to PyTorch's allocator, which reuses it in
  // the order of the stream.
  std::optional<Tensor> divide(DecodeAttentionParams& p, const Tensor& q, const OnDeviceOf& gpu,
                               std::optional<int64_t> max_length) const;
  // The same for a kernel whose blocks take block_rows packed queries, and whose keys are divided so.
  std::optional<Tensor> divide(DecodeAttentionParams& p, const Tensor& q, const OnDeviceOf& gpu,
                               std::optional<int64_t> max_length, int block_rows, DecodeAttentionDivision division) const;
#endif
};

ContiguousCache contiguous_cache(const Tensor& k, const Tensor& v);

#if WARPWATCH_WITH_CUDA

// By the kernel for this GPU. flash_attention of a single query a sequence is this too; `op` begins the sentences.
cudaError_t dispatch_decode_attention(const char* op, const DecodeAttentionParams& p, const ContiguousCache& cache,
                                      const OnDeviceOf& gpu);

#endif

}  // namespace warpwatch
