// layer_norm on every GPU; the kernel's body is in row_norm/row_norm.cuh.
#include "layer_norm/layer_norm.h"
#include "row_norm/row_norm.cuh"

namespace warpwatch {
namespace {

template <class Element, bool kResidual, int kThreads, int kPieces, int kRows>
__global__ __launch_bounds__(kThreads* kRows, row_norm_resident(kThreads* kRows, sizeof(Element), kResidual)) void
layer_norm_in_registers(const RowNormParams p) {
  norm_row_in_registers<Element, LayerNorm, kResidual, kThreads, kPieces, kRows>(p);
}

template <class Element>
__global__ __launch_bounds__(kRowNormAnyThreads) void layer_norm_any(const RowNormParams p) {
  norm_any_row<Element, LayerNorm>(p);
}

template <class Element, bool kResidual>
struct LayerNormKernels {
  template <int kThreads, int kPieces, int kRows>
  static constexpr auto in_registers() {
    return &layer_norm_in_registers<Element, kResidual, kThreads, kPieces, kRows>;
  }
  static constexpr auto any() { return &layer_norm_any<Element>; }
};

}  // namespace

cudaError_t layer_norm_cuda(const RowNormParams& p, cudaStream_t stream) {
  return launch_row_norm<LayerNormKernels>(p, stream);
}

}  // namespace warpwatch
