// The GPU as bindings use it: device guard, stream, compute capability, and CUDA errors as messages.
//   kernels/building/ninja_file.py defines the macros that describe the build's contents.
#pragma once

#include <string>

#include "framework/sentence.h"
#include "framework/torch_stable.h"

namespace warpwatch {

// "rope" from "rope(Tensor x) -> Tensor".
inline std::string operator_name(const std::string& schema) { return schema.substr(0, schema.find('(')); }

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA

#include <cuda_runtime_api.h>
#include <torch/csrc/stable/accelerator.h>

namespace warpwatch {

// Device guard: makes the tensor's GPU current during its lifetime, in PyTorch's runtime and in ours (the extension links its
// own, statically).
class OnDeviceOf {
 public:
  explicit OnDeviceOf(const Tensor& tensor);

  cudaStream_t stream() const { return stream_; }  // PyTorch's current stream on that GPU
  int compute_capability() const;                  // 75, 86, 90, 120; see below
  int multiprocessors() const;

 private:
  int device_;
  torch::stable::accelerator::DeviceGuard guard_;
  cudaStream_t stream_;
};

// Queried once per device. WARPWATCH_COMPUTE_CAPABILITY=75 (read once) makes dispatch behave as on that older GPU, so that its
// kernels can be tested on a newer one.
int compute_capability(int device);

// Throws unless a launcher returned cudaSuccess.
void check_launch(const char* op, cudaError_t status);

// Throws: dispatch found no launcher for this GPU in this build.
[[noreturn]] void fail_without_kernel(const char* op, int compute_capability);

}  // namespace warpwatch

#else

namespace warpwatch {

// Registered for CUDA tensors if the build had no CUDA compiler; throws.
template <class Function>
struct WithoutCuda;

template <class Result, class... Arguments>
struct WithoutCuda<Result(Arguments...)> {
  static Result refuse(Arguments...) {
    fail("warpwatch",
         "a CUDA tensor came, but this build has CPU kernels only (no CUDA compiler was found, or "
         "WARPWATCH_CUDA_ARCHS=none); build it again as kernels/README.md says");
  }
};

}  // namespace warpwatch

#endif

// Defines torch.ops.warpwatch.<operator> by its schema, with two implementations from namespace warpwatch: for the CPU, and for
// the GPU, which exists only in builds with CUDA.
//   WARPWATCH_OPERATOR(rope_on_cpu, rope_on_cuda, "rope(Tensor x, Tensor cos, Tensor sin) -> Tensor");
#define WARPWATCH_OPERATOR(on_cpu, on_cuda, schema)                                                          \
  STABLE_TORCH_LIBRARY_FRAGMENT(warpwatch, m) { m.def(schema); }                                             \
  STABLE_TORCH_LIBRARY_IMPL(warpwatch, CPU, m) {                                                             \
    m.impl(::warpwatch::operator_name(schema).c_str(), TORCH_BOX(&::warpwatch::on_cpu));                     \
  }                                                                                                          \
  STABLE_TORCH_LIBRARY_IMPL(warpwatch, CUDA, m) {                                                            \
    m.impl(::warpwatch::operator_name(schema).c_str(), TORCH_BOX(WARPWATCH_FOR_CUDA(on_cpu, on_cuda)));      \
  }                                                                                                          \
  static_assert(true)

#if WARPWATCH_WITH_CUDA
#define WARPWATCH_FOR_CUDA(on_cpu, on_cuda) &::warpwatch::on_cuda
#else
#define WARPWATCH_FOR_CUDA(on_cpu, on_cuda) &::warpwatch::WithoutCuda<decltype(::warpwatch::on_cpu)>::refuse
#endif
