// int4_linear on Hopper for many rows of x, up to kInt4HopperRows; fp16 and bf16. Weights are scaled before the product and so
// rounded once more, as in int4_linear_dequantize: separate sums per group would leave registers for only half the rows.
#include "int4_linear/int4_linear.h"
#include "int4_linear/int4_linear_formats.cuh"
#include "int4_linear/int4_linear_fragments.cuh"
#include "primitives/piece.cuh"
#include "primitives/tall_product_sm90a.cuh"

namespace warpwatch {
namespace {

// Weight policy of the tall product. A stage has 512 bytes for each 16 outputs, as they lie in memory.
template <typename Element, int kGroup, bool kZeroPoints>
struct Int4Tall {
  using Params = Int4LinearParams;
  using Pair = typename PairOf<Element>::Type;
  static constexpr int kBytes = kTallOutputs * 32;

  Int4StepRows<Element, kGroup, kZeroPoints> rows;
  Int4Steps<Element, kZeroPoints> next;
  Int4Zeros<Element> zeros;
  Pair scales[2];
  uint32_t words[4];
  int last;

  static cudaError_t map(CUtensorMap& weight, const Params& p) {
    return map_plain_rows(weight, p.packed_weight, (p.n - 1) / 16 + 1, int64_t{8} * p.k, kTallOutputs / 16, 512);
  }

  template <typename Ring>
  static __device__ __forceinline__ void copy(const Ring& ring, int use, const CUtensorMap& weight, int slab, int n) {
    ring.copy(use, 0, weight, slab * 128, n / 16);
  }

  __device__ __forceinline__ Int4Tall(const Params& p, int first_n)
      : rows(p, first_n, threadIdx.x % 32), last(p.k / kGroup - 1) {
    rows.load(0, next);
  }

  __device__ __forceinline__ void load(uint32_t stage, int slab) {
    constexpr int kSlabs = kGroup / 64;
    if (slab % kSlabs == 0) {
      zeros = next.zeros();
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) scales[upper] = Pair{next.scales[upper], next.scales[upper]};
      rows.load(min(slab / kSlabs + 1, last), next);
    }
    const uint4 four = load_shared_16(stage + threadIdx.x / 32 * 512 + threadIdx.x % 32 * 16);
    words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
  }

  __device__ __forceinline__ void numbers(int step, uint32_t (&a)[4]) const {
    dequantize<Element>(words[step], a, zeros);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Pair scaled = __hmul2(*reinterpret_cast<const Pair*>(&a[i]), scales[i % 2]);
      a[i] = *reinterpret_cast<const uint32_t*>(&scaled);
    }
  }

  __device__ __forceinline__ float finish(float sum, int) const { return sum; }
};

template <typename Element, int kGroup, bool kZeroPoints, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    int4_linear_tall(const Int4LinearParams p, const int tiles, const __grid_constant__ CUtensorMap weight,
                     const __grid_constant__ CUtensorMap x) {
  TallProduct<Element, Int4Tall<Element, kGroup, kZeroPoints>>::run(p, tiles, weight, x);
}

struct Tall {
  template <typename Element, int kGroup, bool kZeroPoints>
  static cudaError_t run(const Int4LinearParams& p, cudaStream_t stream) {
    using Product = TallProduct<Element, Int4Tall<Element, kGroup, kZeroPoints>>;
    return Product::launch(int4_linear_tall<Element, kGroup, kZeroPoints, typename Product::Shape>, p, stream);
  }
};

}  // namespace

cudaError_t int4_linear_tall_sm90a(const Int4LinearParams& p, cudaStream_t stream) {
  if (!int4_tma_takes(p)) return cudaErrorInvalidValue;
  return launch_int4_format<Tall, __half, __nv_bfloat16>(p, stream);
}

}  // namespace warpwatch
