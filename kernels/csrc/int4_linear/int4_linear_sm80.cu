// int4_linear on Ampere and newer: fp16 and bf16, m16n8k16.
#include "int4_linear/int4_linear_launch.cuh"

namespace warpwatch {

cudaError_t int4_linear_sm80(const Int4LinearParams& p, cudaStream_t stream) {
  return launch_int4_format<Int4Mma<MmaSm80>, __half, __nv_bfloat16>(p, stream);
}

}  // namespace warpwatch
