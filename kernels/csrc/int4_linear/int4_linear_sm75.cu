// int4_linear on Turing: fp16 only, m16n8k8.
#include "int4_linear/int4_linear_launch.cuh"

namespace warpwatch {

cudaError_t int4_linear_sm75(const Int4LinearParams& p, cudaStream_t stream) {
  return launch_int4_format<Int4Mma<MmaSm75>, __half>(p, stream);
}

}  // namespace warpwatch
