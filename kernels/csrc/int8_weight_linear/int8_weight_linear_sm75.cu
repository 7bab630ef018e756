// int8_weight_linear on Turing: fp16 only, m16n8k8.
#include "int8_weight_linear/int8_weight_linear_kernel.cuh"

namespace warpwatch {

cudaError_t int8_weight_linear_sm75(const Int8WeightLinearParams& p, cudaStream_t stream) {
  if (p.dtype == Dtype::kFloat16) return launch_int8_weight_linear<HalfMmaSm75, __half>(p, stream);
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
