// int8_weight_linear on Ampere and newer: fp16 and bf16, m16n8k16.
#include "int8_weight_linear/int8_weight_linear_kernel.cuh"

namespace warpwatch {

cudaError_t int8_weight_linear_sm80(const Int8WeightLinearParams& p, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_int8_weight_linear<FloatMmaSm80<__half>, __half>(p, stream);
    case Dtype::kBFloat16: return launch_int8_weight_linear<FloatMmaSm80<__nv_bfloat16>, __nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
