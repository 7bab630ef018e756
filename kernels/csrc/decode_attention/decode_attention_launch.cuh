// How a decode kernel is launched, and what follows it.
#pragma once

#include <cuda_runtime.h>

#include "decode_attention/decode_attention.h"
#include "decode_attention/decode_attention_work.cuh"
#include "primitives/attributes.h"

namespace warpwatch {

// `kernel` takes (DecodeAttentionParams, Cache). Its Kernel has the packed queries of a block (kRows), its Shape,
// and what turns its maxima into exponents of 2 (scale_log2).
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

}  // namespace warpwatch
