// rms_norm on every GPU; the kernel's body is in row_norm/row_norm.cuh.
#include "rms_norm/rms_norm.h"
#include "row_norm/row_norm.cuh"

namespace warpwatch {
namespace {

template <class Element, bool kResidual, int kThreads, int kPieces, int kRows>
__global__ __launch_bounds__(kThreads* kRows, row_norm_resident(kThreads* kRows, sizeof(Element), kResidual)) void
rms_norm_in_registers(const RowNormParams p) {
  norm_row_in_registers<Element, RmsNorm, kResidual, kThreads, kPieces, kRows>(p);
}

template <class Element>
__global__ __launch_bounds__(kRowNormAnyThreads) void rms_norm_any(const RowNormParams p) {
  norm_any_row<Element, RmsNorm>(p);
}

template <class Element, bool kResidual>
struct RmsNormKernels {
  template <int kThreads, int kPieces, int kRows>
  static constexpr auto in_registers() {
    return &rms_norm_in_registers<Element, kResidual, kThreads, kPieces, kRows>;
  }
  static constexpr auto any() { return &rms_norm_any<Element>; }
};

}  // namespace

cudaError_t rms_norm_cuda(const RowNormParams& p, cudaStream_t stream) {
  return launch_row_norm<RmsNormKernels>(p, stream);
}

}  // namespace warpwatch
