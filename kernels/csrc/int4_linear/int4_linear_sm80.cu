// Ampere and newer: fp16 and bf16, m16n8k16.
#include "int4_linear/int4_linear_launch.cuh"

namespace warpwatch {

cudaError_t int4_linear_sm80(const Int4LinearParams& p, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_int4_linear<MmaSm80, __half>(p, stream);
    case Dtype::kBFloat16: return launch_int4_linear<MmaSm80, __nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
