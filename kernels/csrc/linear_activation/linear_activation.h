// linear_activation: out[m, n] = activation(sum over k of x[m, k] * weight[n, k] + bias[n]), fp32 inside
//   x: (m, k) and weight: (n, k), k contiguous, rows x_stride and weight_stride elements apart
//   bias: (n) of x's type, or null;  out: (m, n), contiguous, of x's type
//   gelu: v / 2 (1 + erf(v / sqrt 2));  gelu_tanh: v / 2 (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3)));  silu: v / (1 + e^-v)
//   2 (m k + n k + m n) bytes in 16 bits and 2 m n k FLOP: memory-bound below about 150 rows on an H200
//
// One fused launch where that is faster, else two: linear_activation_tiles.h has the rules. The two are cuBLAS's product and
// bias_activation, which reads and writes out once more: 4 m n bytes, mostly in L2.
//
// silu_mul: gate[m, n] = silu(gate[m, n] + gate_bias[n]) * (up[m, n] + up_bias[n]), the last launch of swiglu.
//
// Hendrycks and Gimpel, "Gaussian error linear units" (arXiv:1606.08415, 2016); Shazeer, "GLU variants improve Transformer"
// (arXiv:2002.05202, 2020).
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

enum class Activation { kNone, kGelu, kGeluTanh, kSilu };

struct LinearActivationParams {
  const void* x;
  const void* weight;
  const void* bias;  // may be null
  void* out;
  int64_t x_stride, weight_stride;  // in elements
  int m, n, k;
  int tile;  // index into a table of linear_activation_tiles.h
  Activation activation;
  Dtype dtype;
  bool weight_once = false;  // set by the launcher: each row is read by one block, and L2 would not keep the weight
  // swiglu only: the second layer's weight (n, k) and bias (n); sm_90a only.
  const void* up_weight = nullptr;
  const void* up_bias = nullptr;
  int64_t up_weight_stride = 0;
};

struct ActivationRowsParams {
  void* values;           // (m, n), contiguous: read and overwritten
  const void* bias;       // (n), may be null
  const void* up;         // (m, n), contiguous; null except for silu_mul
  const void* up_bias;    // (n), may be null
  int64_t m;
  int n;
  Activation activation;  // of bias_activation
  Dtype dtype;
  bool begins_early;  // programmatic dependent launch behind the product; sm_90a's code only
};

// Epilogue of a product, on the CPU; silu_mul if `up` is not null.
void activation_rows_cpu(const ActivationRowsParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueue on `stream`; no allocation, no synchronisation. m, n and k are positive.
cudaError_t activation_rows_cuda(const ActivationRowsParams& p, cudaStream_t stream);
// Rows of x and weight start on 16-byte boundaries, and k is a multiple of 8. sm_75 fp16, sm_80 fp16 and bf16.
cudaError_t linear_activation_sm75(const LinearActivationParams& p, cudaStream_t stream);
cudaError_t linear_activation_sm80(const LinearActivationParams& p, cudaStream_t stream);
// The same requirements; fp16 and bf16. The first takes at most kMostGemvRows rows, the second kMostFewRows. With up_weight,
// out = silu(x weight^T + bias) * (x up_weight^T + up_bias).
cudaError_t linear_activation_gemv_sm90a(const LinearActivationParams& p, cudaStream_t stream);
cudaError_t linear_activation_few_rows_sm90a(const LinearActivationParams& p, cudaStream_t stream);
cudaError_t linear_activation_sm90a(const LinearActivationParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
