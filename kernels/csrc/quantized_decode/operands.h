// What the bindings of quantized caches share: the dtypes and shapes of their tensors, and alignment where a GPU wants it.
#pragma once

#include <cstdint>

#include "framework/checks.h"

namespace warpwatch {

// The parts of a 4-bit cache (int4_kv.h).
struct Int4CacheTensors {
  const Tensor& k_codes;
  const Tensor& v_codes;
  const Tensor& k_scales;
  const Tensor& v_scales;
  const Tensor& k_window;
  const Tensor& v_window;
};

struct QuantizedKvOperands {
  static constexpr int64_t kLongest = int64_t{1} << 30;

  const char* op;

  // k and v (batch, heads_kv, seq, head_dim): alike, in fp16, bf16 or fp32, the last dimension contiguous.
  void check_new(const Tensor& k, const Tensor& v) const;
  // `argument` on the device of `first`, of this dtype and shape, its last dimension contiguous.
  void check_part(const Argument& first, const Argument& argument, ScalarType dtype,
                  std::initializer_list<int64_t> shape, const char* meaning) const;
  void check_lengths(const Argument& first, const Tensor& lengths, int64_t batch) const;

  // All parts contiguous and of the shapes that int4_kv.h states; the windows in the dtype of `first`.
  void check_int4_cache(const Argument& first, const Int4CacheTensors& cache, int64_t batch, int64_t heads_kv,
                        int64_t head_dim) const;
  void check_int4_boundaries(const Int4CacheTensors& cache) const;  // of 16 bytes, where a GPU reads such pieces

  // Rows along the last dimension start on boundaries of `bytes`, and so do rows of rows.
  void check_boundaries(const Argument& argument, int64_t bytes) const;
  // What the GPU kernels of attention take: fp16 or bf16, head_dim 64, 128 or 256.
  void check_queries_on_gpu(const Tensor& q) const;
  // A GPU reads 16 bytes of k and v at a time.
  void check_new_on_gpu(const Tensor& k, const Tensor& v) const;
};

}  // namespace warpwatch
