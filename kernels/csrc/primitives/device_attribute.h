// Attributes of the current device, asked for once: a launch of a few microseconds has no time to ask again.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>

namespace warpwatch {

template <cudaDeviceAttr kAttribute>
cudaError_t device_attribute(int& value) {
  static std::array<std::atomic<int>, 64> known{};  // 0: not asked for, or nothing worth keeping
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  const bool keeps = device < static_cast<int>(known.size());
  value = keeps ? known[device].load(std::memory_order_relaxed) : 0;
  if (value != 0) return cudaSuccess;
  const cudaError_t status = cudaDeviceGetAttribute(&value, kAttribute, device);
  if (status == cudaSuccess && keeps) known[device].store(value, std::memory_order_relaxed);
  return status;
}

}  // namespace warpwatch
