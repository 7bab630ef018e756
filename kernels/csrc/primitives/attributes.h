// Attributes of devices and kernels, cached per thread: a query at each launch would take a noticeable share of a launch of a
// few microseconds. A failed query is not cached.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace warpwatch {

cudaError_t device_attribute(cudaDeviceAttr attribute, int device, int& value);
cudaError_t device_attribute(cudaDeviceAttr attribute, int& value);  // of the current device

// Whether `bytes` exceed half of the current device's L2. Such weights would not survive in L2 until the next call, so they are
// read with evict_first (TmaRing::copy_once, BlockOperand::read_once). Smaller ones are not: 16.8 MB of weights, re-read from
// an H200's 60 MB of L2, take 9 % longer with evict_first.
inline cudaError_t exceeds_half_l2(bool& exceeds, int64_t bytes) {
  int l2_bytes = 0;
  const cudaError_t status = device_attribute(cudaDevAttrL2CacheSize, l2_bytes);
  exceeds = 2 * bytes > l2_bytes;
  return status;
}

// Allows `kernel` to use `bytes` of dynamic shared memory per block on the current device.
cudaError_t allow_dynamic_shared_bytes(const void* kernel, int bytes);

template <typename... Parameters>
cudaError_t allow_dynamic_shared_bytes(void (*kernel)(Parameters...), int bytes) {
  return allow_dynamic_shared_bytes(reinterpret_cast<const void*>(kernel), bytes);
}

// The architecture of the code that the current device runs, 80 or 90, which may be older than the device.
cudaError_t architecture_of_code(const void* kernel, int& architecture);

}  // namespace warpwatch
