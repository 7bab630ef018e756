// Epilogue kernel behind cuBLAS's product, in place: bias and activation, or silu(gate) * up. 8 values per thread (16 bytes in
// 16 bits) if rows are 16-byte aligned, else one. On Hopper its blocks are launched before cuBLAS ends (programmatic dependent
// launch, dependent_launch.cuh).
#include <algorithm>
#include <cstdint>

#include "linear_activation/activation.cuh"
#include "primitives/dependent_launch.cuh"
#include "primitives/element.cuh"

namespace warpwatch {
namespace {

constexpr int kThreads = 256;
constexpr int kMostGridRows = 65535;  // limit of gridDim.y

template <typename Element, int kEach>
struct alignas(kEach * sizeof(Element)) Values {
  Element at[kEach];
};

// Loads values [n, n + kEach) of a row; a null row is zeros.
template <typename Element, int kEach>
__device__ __forceinline__ void load(const void* from, int64_t at, float (&values)[kEach]) {
  if (from == nullptr) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) values[i] = 0.0f;
    return;
  }
  const auto loaded = *reinterpret_cast<const Values<Element, kEach>*>(static_cast<const Element*>(from) + at);
#pragma unroll
  for (int i = 0; i < kEach; ++i) values[i] = as_float(loaded.at[i]);
}

template <typename Element, int kEach>
__device__ __forceinline__ void store(void* to, int64_t at, const float (&values)[kEach]) {
  Values<Element, kEach> stored;
#pragma unroll
  for (int i = 0; i < kEach; ++i) stored.at[i] = rounded<Element>(values[i]);
  *reinterpret_cast<Values<Element, kEach>*>(static_cast<Element*>(to) + at) = stored;
}

template <Activation kActivation, typename Element, int kEach>
__device__ __forceinline__ void activate(float (&values)[kEach]) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) values[i] = activated<kActivation, Element>(values[i]);
}

template <typename Element, int kEach>
__global__ void __launch_bounds__(kThreads) bias_activation_rows(const ActivationRowsParams p) {
  grid_dependency_wait();
  const int n = (blockIdx.x * kThreads + threadIdx.x) * kEach;
  if (n >= p.n) return;
  float bias[kEach], values[kEach];
  load<Element>(p.bias, n, bias);
  for (int64_t m = blockIdx.y; m < p.m; m += gridDim.y) {
    load<Element>(p.values, m * p.n + n, values);
#pragma unroll
    for (int i = 0; i < kEach; ++i) values[i] += bias[i];
    switch (p.activation) {
      case Activation::kNone: break;
      case Activation::kGelu: activate<Activation::kGelu, Element>(values); break;
      case Activation::kGeluTanh: activate<Activation::kGeluTanh, Element>(values); break;
      case Activation::kSilu: activate<Activation::kSilu, Element>(values); break;
    }
    store<Element>(p.values, m * p.n + n, values);
  }
}

template <typename Element, int kEach>
__global__ void __launch_bounds__(kThreads) silu_mul_rows(const ActivationRowsParams p) {
  grid_dependency_wait();
  const int n = (blockIdx.x * kThreads + threadIdx.x) * kEach;
  if (n >= p.n) return;
  float bias[kEach], up_bias[kEach], values[kEach], up[kEach];
  load<Element>(p.bias, n, bias);
  load<Element>(p.up_bias, n, up_bias);
  for (int64_t m = blockIdx.y; m < p.m; m += gridDim.y) {
    load<Element>(p.values, m * p.n + n, values);
    load<Element>(p.up, m * p.n + n, up);
#pragma unroll
    for (int i = 0; i < kEach; ++i) values[i] = silu<Element>(values[i] + bias[i]) * (up[i] + up_bias[i]);
    store<Element>(p.values, m * p.n + n, values);
  }
}

template <typename Element, int kEach>
cudaError_t launch(const ActivationRowsParams& p, cudaStream_t stream) {
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(((p.n - 1) / kEach) / kThreads + 1, static_cast<unsigned>(std::min<int64_t>(p.m, kMostGridRows)));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = p.begins_early ? 1 : 0;
  if (p.up != nullptr) return cudaLaunchKernelEx(&config, silu_mul_rows<Element, kEach>, p);
  return cudaLaunchKernelEx(&config, bias_activation_rows<Element, kEach>, p);
}

template <typename Element>
cudaError_t launch(const ActivationRowsParams& p, cudaStream_t stream) {
  constexpr int kEach = 16 / sizeof(Element);
  const auto aligned = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; };  // null: true
  if (p.n % kEach == 0 && aligned(p.values) && aligned(p.bias) && aligned(p.up) && aligned(p.up_bias)) {
    return launch<Element, kEach>(p, stream);
  }
  return launch<Element, 1>(p, stream);
}

}  // namespace

cudaError_t activation_rows_cuda(const ActivationRowsParams& p, cudaStream_t stream) {
  if (p.m < 1 || p.n < 1 || p.values == nullptr) return cudaErrorInvalidValue;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    case Dtype::kFloat32: return launch<float>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
