// int8_weight_linear (W8A16): out[m, n] = weight_scales[n] * sum over k of x[m, k] * weight[n, k] + bias[n], in fp32
//   x: (m, k), k contiguous, rows x_stride elements apart, any alignment
//   weight: (n, padded_k) int8, contiguous, 16-byte aligned; padded_k is k rounded up to 16;  weight_scales: (n) fp32
//   bias: (n) of x's type, or null;  out: (m, n), contiguous, of x's type
//   n k + 2 m (k + n) bytes in 16 bits, 2 m n k FLOP: memory-bound while m is small, on an H200 below about 90 rows
//
// Up to 64 rows, on Hopper up to 1024, the weight is converted to fp16 or bf16 in registers, exactly: every int8 value is
// representable in both. For more rows it is first dequantized to a matrix for cuBLAS, which rounds each scaled weight once, to
// x's type. A weight beyond fp16's range (65504; possible with scales from 512 on) then becomes an infinity, and the outputs
// that use it infinite or NaN.
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

constexpr int kInt8WeightDirectRows = 64;
constexpr int kInt8WeightWgmmaRows = 4096;

struct Int8WeightLinearParams {
  const void* x;
  const int8_t* weight;
  const float* weight_scales;
  const void* bias;  // may be null
  void* out;
  int64_t x_stride;  // in elements
  int m, n, k, padded_k;
  int tile;     // from int8_weight_wgmma_tile, for Hopper's kernel
  Dtype dtype;  // of x, bias and out
};

// Whether Hopper's kernel supports these operands: TMA needs rows of x on 16-byte boundaries.
inline bool int8_weight_wgmma_takes(const Int8WeightLinearParams& p) {
  return p.m > 0 && p.m <= kInt8WeightWgmmaRows && p.n > 0 && p.k > 0 && p.dtype != Dtype::kFloat32 &&
         reinterpret_cast<uintptr_t>(p.x) % 16 == 0 && p.x_stride % 8 == 0 && p.x_stride >= p.k &&
         reinterpret_cast<uintptr_t>(p.weight) % 16 == 0;
}

// Any number of rows, any dtype.
void int8_weight_linear_cpu(const Int8WeightLinearParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueue on `stream`; no allocation, no synchronisation. m, n and k are positive.
// The first two take up to kInt8WeightDirectRows rows; sm_75 fp16, sm_80 fp16 and bf16.
cudaError_t int8_weight_linear_sm75(const Int8WeightLinearParams& p, cudaStream_t stream);
cudaError_t int8_weight_linear_sm80(const Int8WeightLinearParams& p, cudaStream_t stream);
// Hopper, if int8_weight_wgmma_takes; the second is for many rows (tall_product.h).
cudaError_t int8_weight_linear_sm90a(const Int8WeightLinearParams& p, cudaStream_t stream);
cudaError_t int8_weight_linear_tall_sm90a(const Int8WeightLinearParams& p, cudaStream_t stream);
// p.out[n, k] = weight[n, k] * weight_scales[n], contiguous (n, k), of p.dtype; p.x and p.bias are not used.
cudaError_t int8_weight_dequantize_cuda(const Int8WeightLinearParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
