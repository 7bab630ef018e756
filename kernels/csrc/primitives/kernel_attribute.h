// Attributes of a kernel, set and asked for once by each thread for each device: both take longer than a launch has time for.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <utility>

namespace warpwatch {

using KernelOnDevice = std::pair<const void*, int>;

inline cudaError_t on_current_device(const void* kernel, KernelOnDevice& key) {
  key.first = kernel;
  return cudaGetDevice(&key.second);
}

// Lets the blocks of `kernel` have `bytes` of dynamic shared memory on the current device.
inline cudaError_t allow_dynamic_shared_bytes(const void* kernel, int bytes) {
  thread_local std::map<KernelOnDevice, int> allowed;  // a map of the thread's own needs no lock
  KernelOnDevice key;
  if (const cudaError_t error = on_current_device(kernel, key); error != cudaSuccess) return error;
  if (const auto found = allowed.find(key); found != allowed.end() && found->second >= bytes) return cudaSuccess;
  const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (status == cudaSuccess) allowed[key] = bytes;
  return status;
}

template <typename... Parameters>
cudaError_t allow_dynamic_shared_bytes(void (*kernel)(Parameters...), int bytes) {
  return allow_dynamic_shared_bytes(reinterpret_cast<const void*>(kernel), bytes);
}

// The architecture whose code the current device runs, 80 or 90: it may be older than the device.
inline cudaError_t architecture_of_code(const void* kernel, int& architecture) {
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
