// primitives/attributes.cpp over a CUDA runtime that counts its calls: exits with 0 if each attribute is set or queried
// once per kernel, device and thread.
#include <cuda_runtime_api.h>

#include <thread>

static int device = 0;
static int asked = 0, set = 0;
static cudaError_t answer = cudaSuccess;

extern "C" cudaError_t CUDARTAPI cudaGetDevice(int* current) {
  *current = device;
  return cudaSuccess;
}
extern "C" cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int of) {
  ++asked;
  *value = of;  // 0 on the first device
  return answer;
}
extern "C" cudaError_t CUDARTAPI cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  ++set;
  return answer;
}
extern "C" cudaError_t CUDARTAPI cudaFuncGetAttributes(cudaFuncAttributes* code, const void*) {
  ++asked;
  code->ptxVersion = 90;
  return answer;
}

#include "primitives/attributes.h"

using namespace warpwatch;

static void one(int) {}
static void another(int) {}
static void allow(int bytes) { allow_dynamic_shared_bytes(one, bytes); }
static bool has(int devices_asked, int times_set) { return asked == devices_asked && set == times_set; }

int main() {
  int value = -1;
  constexpr auto kMinor = cudaDevAttrComputeCapabilityMinor;
  answer = cudaErrorInitializationError;
  if (device_attribute(kMinor, value) != answer || allow_dynamic_shared_bytes(one, 1) != answer) return 1;
  answer = cudaSuccess;  // failures are not remembered
  for (int i = 0; i < 3; ++i) {
    if (device_attribute(kMinor, value) != cudaSuccess || value != 0) return 2;
    allow(4096);
  }
  if (!has(2, 2)) return 3;
  allow(2048);  // allowed already
  if (!has(2, 2)) return 4;
  allow(8192);
  allow_dynamic_shared_bytes(another, 4096);
  if (!has(2, 4)) return 5;
  device = 1;
  for (int i = 0; i < 3; ++i) {
    if (device_attribute(kMinor, value) != cudaSuccess || value != 1) return 6;
    allow(4096);
  }
  if (!has(3, 5)) return 7;
  std::thread(allow, 4096).join();
  if (!has(3, 6)) return 8;
  const void* kernel = reinterpret_cast<const void*>(one);
  for (int i = 0; i < 3; ++i) {
    if (architecture_of_code(kernel, value) != cudaSuccess || value != 90) return 9;
  }
  return has(4, 6) ? 0 : 10;
}
