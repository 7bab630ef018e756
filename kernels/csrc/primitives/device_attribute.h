// Attributes of a device, asked for once: a launch of a few microseconds has no time to ask again.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>

namespace warpwatch {

template <cudaDeviceAttr kAttribute>
cudaError_t device_attribute(int device, int& value) {
  static std::array<std::atomic<int>, 64> known{};  // 1 more than the value, 0 where it has not been asked for
  const bool keeps = device >= 0 && device < static_cast<int>(known.size());
  value = keeps ? known[device].load(std::memory_order_relaxed) - 1 : -1;
  if (value >= 0) return cudaSuccess;
  const cudaError_t status = cudaDeviceGetAttribute(&value, kAttribute, device);
  if (status == cudaSuccess && keeps) known[device].store(value + 1, std::memory_order_relaxed);
  return status;
}

// Of the current device.
template <cudaDeviceAttr kAttribute>
cudaError_t device_attribute(int& value) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  return device_attribute<kAttribute>(device, value);
}

}  // namespace warpwatch
