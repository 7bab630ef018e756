// Attributes of devices and kernels, queried or set once per thread: repeating the query would cost a launch of a few
// microseconds a noticeable share of its time. A failed call is repeated at the next launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace warpwatch {

cudaError_t device_attribute(cudaDeviceAttr attribute, int device, int& value);
cudaError_t device_attribute(cudaDeviceAttr attribute, int& value);  // of the current device

// Whether `bytes` are more than half of the current device's L2. Such weights are read with evict_first (TmaRing::copy_once,
// BlockOperand::read_once), since they would not survive in L2 until the next call. 16.8 MB of weights, read again and again
// out of an H200's 60 MB, are 9 % slower with evict_first.
inline cudaError_t exceeds_half_l2(bool& exceeds, int64_t bytes) {
  int l2_bytes = 0;
  const cudaError_t status = device_attribute(cudaDevAttrL2CacheSize, l2_bytes);
  exceeds = 2 * bytes > l2_bytes;
  return status;
}

// Lets the blocks of `kernel` have `bytes` of dynamic shared memory on the current device.
cudaError_t allow_dynamic_shared_bytes(const void* kernel, int bytes);

template <typename... Parameters>
cudaError_t allow_dynamic_shared_bytes(void (*kernel)(Parameters...), int bytes) {
  return allow_dynamic_shared_bytes(reinterpret_cast<const void*>(kernel), bytes);
}

// The architecture whose code the current device runs, 80 or 90: it may be older than the device.
cudaError_t architecture_of_code(const void* kernel, int& architecture);

}  // namespace warpwatch
