#if WARPWATCH_WITH_CUDA

#include "primitives/attributes.h"

#include <map>
#include <utility>

namespace warpwatch {
namespace {

// Caches are thread_local, so they need no lock.
using KernelOnDevice = std::pair<const void*, int>;

cudaError_t on_current_device(const void* kernel, KernelOnDevice& key) {
  key.first = kernel;
  return cudaGetDevice(&key.second);
}

}  // namespace

cudaError_t device_attribute(cudaDeviceAttr attribute, int device, int& value) {
  thread_local std::map<std::pair<cudaDeviceAttr, int>, int> known;
  if (const auto found = known.find({attribute, device}); found != known.end()) {
    value = found->second;
    return cudaSuccess;
  }
  const cudaError_t status = cudaDeviceGetAttribute(&value, attribute, device);
  if (status == cudaSuccess) known[{attribute, device}] = value;
  return status;
}

cudaError_t device_attribute(cudaDeviceAttr attribute, int& value) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  return device_attribute(attribute, device, value);
}

cudaError_t allow_dynamic_shared_bytes(const void* kernel, int bytes) {
  thread_local std::map<KernelOnDevice, int> allowed;
  KernelOnDevice key;
  if (const cudaError_t error = on_current_device(kernel, key); error != cudaSuccess) return error;
  if (const auto found = allowed.find(key); found != allowed.end() && found->second >= bytes) return cudaSuccess;
  const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (status == cudaSuccess) allowed[key] = bytes;
  return status;
}

cudaError_t architecture_of_code(const void* kernel, int& architecture) {
  thread_local std::map<KernelOnDevice, int> known;
  KernelOnDevice key;
  if (const cudaError_t error = on_current_device(kernel, key); error != cudaSuccess) return error;
  if (const auto found = known.find(key); found != known.end()) {
    architecture = found->second;
    return cudaSuccess;
  }
  cudaFuncAttributes code;
  if (const cudaError_t error = cudaFuncGetAttributes(&code, kernel); error != cudaSuccess) return error;
  architecture = known[key] = code.ptxVersion;
  return cudaSuccess;
}

}  // namespace warpwatch

#endif
