// int8_weight_linear on Hopper for many rows of x, up to kInt8WeightWgmmaRows; fp16 and bf16.
#include "int8_weight_linear/int8_weight_linear.h"
#include "int8_weight_linear/int8_weight_linear_bytes.cuh"
#include "primitives/element.cuh"
#include "primitives/swizzle.cuh"
#include "primitives/tall_product_sm90a.cuh"

namespace warpwatch {
namespace {

// Weight policy of the tall product. A stage has swizzled rows of 64 bytes. The 16 of k of one wgmma are one 16-byte chunk of a
// row, of which thread t = lane % 4 needs bytes 2 t, 2 t + 1, 2 t + 8 and 2 t + 9.
template <typename Element>
struct Int8Tall {
  using Params = Int8WeightLinearParams;
  static constexpr int kBytes = kTallOutputs * 64;

  float scales[2], shifts[2];
  uint32_t stage;

  static cudaError_t map(CUtensorMap& weight, const Params& p) {
    return map_half_tiles(weight, p.weight, p.n, p.padded_k, p.padded_k, kTallOutputs);
  }

  template <typename Ring>
  static __device__ __forceinline__ void copy(const Ring& ring, int use, const CUtensorMap& weight, int slab, int n) {
    ring.copy(use, 0, weight, slab * 64, n);
  }

  __device__ __forceinline__ Int8Tall(const Params& p, int first_n) {
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const int n = min(first_n + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * upper, p.n - 1);
      scales[upper] = __ldg(p.weight_scales + n);
      shifts[upper] = p.bias == nullptr ? 0.0f : as_float(static_cast<const Element*>(p.bias)[n]);
    }
  }

  __device__ __forceinline__ void load(uint32_t arrived, int) { stage = arrived; }

  // A fragment: rows g and g + 8 of the warp's 16 outputs.
  __device__ __forceinline__ void numbers(int step, uint32_t (&a)[4]) const {
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const uint32_t at = stage + swizzled<64>(row + 8 * upper, step) + 2 * (lane % 4);
      widen_bytes<Element>(two_bytes(at) | two_bytes(at + 8) << 16, a[upper], a[upper + 2]);
    }
  }

  __device__ __forceinline__ float finish(float sum, int upper) const { return sum * scales[upper] + shifts[upper]; }

  static __device__ __forceinline__ uint32_t two_bytes(uint32_t address) {
    uint16_t value;
    asm volatile("ld.shared.u16 %0, [%1];\n" : "=h"(value) : "r"(address) : "memory");
    return value;
  }
};

template <typename Element, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    int8_weight_linear_tall(const Int8WeightLinearParams p, const int tiles, const __grid_constant__ CUtensorMap weight,
                            const __grid_constant__ CUtensorMap x) {
  TallProduct<Element, Int8Tall<Element>>::run(p, tiles, weight, x);
}

template <typename Element>
cudaError_t launch(const Int8WeightLinearParams& p, cudaStream_t stream) {
  using Product = TallProduct<Element, Int8Tall<Element>>;
  return Product::launch(int8_weight_linear_tall<Element, typename Product::Shape>, p, stream);
}

}  // namespace

cudaError_t int8_weight_linear_tall_sm90a(const Int8WeightLinearParams& p, cudaStream_t stream) {
  if (!int8_weight_wgmma_takes(p)) return cudaErrorInvalidValue;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
