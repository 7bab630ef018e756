// Shared by the bindings of quantized caches: checks of dtypes and shapes, and of alignment on a GPU.
#pragma once

#include <cstdint>

#include "framework/checks.h"

namespace warpwatch {

// The tensors of a 4-bit cache (int4_kv.h).
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

  // Checks k and v (batch, heads_kv, seq, head_dim): equal shapes; fp16, bf16 or fp32; last dimension contiguous.
  void check_new(const Tensor& k, const Tensor& v) const;
  // Checks that `argument` is on the device of `first`, has this dtype and shape, and a contiguous last dimension.
  void check_part(const Argument& first, const Argument& argument, ScalarType dtype,
                  std::initializer_list<int64_t> shape, const char* meaning) const;
  void check_lengths(const Argument& first, const Tensor& lengths, int64_t batch) const;

  // Checks that all parts are contiguous and have the shapes in int4_kv.h, and that the windows have the dtype of `first`.
  void check_int4_cache(const Argument& first, const Int4CacheTensors& cache, int64_t batch, int64_t heads_kv,
                        int64_t head_dim) const;
  void check_int4_boundaries(const Int4CacheTensors& cache) const;  // 16-byte alignment, for vector loads on a GPU

  // Checks that rows along the last dimension, and all outer strides, are multiples of `bytes`.
  void check_boundaries(const Argument& argument, int64_t bytes) const;
  // Checks the queries for the GPU's attention kernels: fp16 or bf16, head_dim 64, 128 or 256.
  void check_queries_on_gpu(const Tensor& q) const;
  // Checks 16-byte alignment of k and v for vector loads on a GPU.
  void check_new_on_gpu(const Tensor& k, const Tensor& v) const;
};

}  // namespace warpwatch
