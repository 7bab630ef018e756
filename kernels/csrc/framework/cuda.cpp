#include "framework/cuda.h"

#if WARPWATCH_WITH_CUDA

#include <cstdlib>
#include <string>

#include "primitives/attributes.h"

// Defined in a PyTorch with CUDA; null (weak) in a CPU build, where no CUDA tensor can reach us.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index,
                                                                                   void** ret_stream);

namespace warpwatch {
namespace {

cudaStream_t current_stream(int device) {
  WARPWATCH_CHECK(aoti_torch_get_current_cuda_stream != nullptr, "warpwatch",
                  "a CUDA tensor came, but this PyTorch was built without CUDA");
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  return static_cast<cudaStream_t>(stream);
}

int attribute(int device, cudaDeviceAttr attribute) {
  int value = 0;
  check_launch("warpwatch", device_attribute(attribute, device, value));
  return value;
}

std::string wanted_compute_capability() {
  const char* wanted = std::getenv("WARPWATCH_COMPUTE_CAPABILITY");
  return wanted == nullptr ? "" : wanted;
}

}  // namespace

int compute_capability(int device) {
  const int real = 10 * attribute(device, cudaDevAttrComputeCapabilityMajor) +
                   attribute(device, cudaDevAttrComputeCapabilityMinor);
  static const std::string wanted = wanted_compute_capability();
  if (wanted.empty()) return real;
  char* end = nullptr;
  const long number = std::strtol(wanted.c_str(), &end, 10);
  WARPWATCH_CHECK(*end == '\0' && number >= 10 && number <= real, "warpwatch", "WARPWATCH_COMPUTE_CAPABILITY=",
                  wanted, " must be a number such as 75 or 80, and no more than the GPU's own ", real);
  return static_cast<int>(number);
}

OnDeviceOf::OnDeviceOf(const Tensor& tensor)
    : device_(tensor.get_device_index()), guard_(device_), stream_(current_stream(device_)) {
  // PyTorch's guard has set the device in PyTorch's runtime; ours follows. Both use the same primary context, so undoing the
  // first undoes the second.
  check_launch("warpwatch", cudaSetDevice(device_));
}

int OnDeviceOf::compute_capability() const { return warpwatch::compute_capability(device_); }

int OnDeviceOf::multiprocessors() const { return attribute(device_, cudaDevAttrMultiProcessorCount); }

void check_launch(const char* op, cudaError_t status) {
  if (status == cudaSuccess) return;
  const char* hint = "";
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction) {
    hint = "; this build has kernels for " WARPWATCH_BUILT_FOR " (WARPWATCH_CUDA_ARCHS)";
  }
  fail(op, "CUDA refused the launch: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ')', hint);
}

void fail_without_kernel(const char* op, int compute_capability) {
  fail(op, "no kernel for a GPU of compute capability ", compute_capability / 10, '.', compute_capability % 10,
       "; this build has kernels for " WARPWATCH_BUILT_FOR ". Build it again with WARPWATCH_CUDA_ARCHS=",
       compute_capability == 90 ? "90a" : std::to_string(compute_capability));
}

}  // namespace warpwatch

#endif
