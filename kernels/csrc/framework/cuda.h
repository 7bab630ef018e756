// The GPU as a binding sees it: device, stream, compute capability, and errors as sentences.
//   kernels/building/ninja_file.py defines the macros that say what a build contains.
#pragma once

#include <string>

#include "framework/sentence.h"
#include "framework/torch_stable.h"

namespace warpwatch {

// "rope" of "rope(Tensor x) -> Tensor".
inline std::string operator_name(const std::string& schema) { return schema.substr(0, schema.find('(')); }

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA

#include <cuda_runtime_api.h>
#include <torch/csrc/stable/accelerator.h>

namespace warpwatch {

// Makes the tensor's GPU the current one while it lives, for PyTorch's runtime and for ours
// (the extension carries its own, statically linked).
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

// Asked of each device once. WARPWATCH_COMPUTE_CAPABILITY=75 (read once) makes dispatch behave as on that older GPU,
// so that its kernels can be proven on a newer one.
int compute_capability(int device);

// Throws what a launcher returned, unless it is cudaSuccess.
void check_launch(const char* op, cudaError_t status);

// Dispatch found no launcher for this GPU in this build.
[[noreturn]] void fail_without_kernel(const char* op, int compute_capability);

}  // namespace warpwatch

#else

namespace warpwatch {

// What is registered for CUDA tensors when no CUDA compiler was there.
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

// Defines torch.ops.warpwatch.<operator> by its schema. Two functions of namespace warpwatch compute it: the first on the
// CPU, the second, which exists only in builds with CUDA, on a GPU.
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
