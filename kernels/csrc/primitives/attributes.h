// Attributes of devices and kernels, queried or set once per thread: repeating the query would cost a launch of a few
// microseconds a noticeable share of its time. A failed call is repeated at the next launch.
#pragma once

#include <cuda_runtime_api.h>

namespace warpwatch {

cudaError_t device_attribute(cudaDeviceAttr attribute, int device, int& value);
cudaError_t device_attribute(cudaDeviceAttr attribute, int& value);  // of the current device

// Lets the blocks of `kernel` have `bytes` of dynamic shared memory on the current device.
cudaError_t allow_dynamic_shared_bytes(const void* kernel, int bytes);

template <typename... Parameters>
cudaError_t allow_dynamic_shared_bytes(void (*kernel)(Parameters...), int bytes) {
  return allow_dynamic_shared_bytes(reinterpret_cast<const void*>(kernel), bytes);
}

// The architecture whose code the current device runs, 80 or 90: it may be older than the device.
cudaError_t architecture_of_code(const void* kernel, int& architecture);

}  // namespace warpwatch
