// Fused kernel before Hopper's wgmma: the product and its activation in one launch; operands through shared memory.
#pragma once

#include <limits>

#include "linear_activation/activation.cuh"
#include "linear_activation/linear_activation_tiles.h"
#include "primitives/attributes.h"
#include "primitives/block_product.cuh"
#include "primitives/element.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {

template <Activation kActivation, typename Element, typename Block>
__device__ __forceinline__ void activate(Block& block) {
  block.each_pair([](int, int, float& even, float& odd) {
    even = activated<kActivation, Element>(even);
    odd = activated<kActivation, Element>(odd);
  });
}

// Block: a BlockProduct of primitives/. The activation is a run-time argument, so product, bias and stores are compiled once.
template <typename Block, typename Element, int kBlocksPerSm, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, kBlocksPerSm)
    linear_activation_fused(const LinearActivationParams p) {
  extern __shared__ __align__(128) unsigned char shared[];
  const TileCoord place = TileCoord::of(blockIdx.x, (p.m - 1) / Block::kM + 1, (p.n - 1) / Block::kN + 1);
  const int first_m = place.m * Block::kM, first_n = place.n * Block::kN;
  const auto rows_from = [&](const void* matrix, int64_t stride, int first, int rows) {
    const int64_t stride_bytes = stride * static_cast<int64_t>(sizeof(Element));
    return BlockOperand{static_cast<const char*>(matrix) + first * stride_bytes, stride_bytes, rows - first};
  };
  const int64_t k_bytes = static_cast<int64_t>(p.k) * sizeof(Element);
  const int slabs = static_cast<int>((k_bytes - 1) / kSlabBytes + 1);

  Block block;
  BlockOperand weight = rows_from(p.weight, p.weight_stride, first_n, p.n);
  weight.read_once = p.weight_once;
  block.run(rows_from(p.x, p.x_stride, first_m, p.m), weight, k_bytes, 0, slabs, shared);
  if (const Element* const bias = static_cast<const Element*>(p.bias); bias != nullptr) {
    block.each_pair([&](int, int n, float& even, float& odd) {
      n += first_n;
      if (n < p.n) even += as_float(bias[n]);
      if (n + 1 < p.n) odd += as_float(bias[n + 1]);
    });
  }
  switch (p.activation) {
    case Activation::kNone: break;
    case Activation::kGelu: activate<Activation::kGelu, Element>(block); break;
    case Activation::kGeluTanh: activate<Activation::kGeluTanh, Element>(block); break;
    case Activation::kSilu: activate<Activation::kSilu, Element>(block); break;
  }
  block.each_pair([&](int m, int n, float even, float odd) {
    m += first_m, n += first_n;
    if (m >= p.m || n >= p.n) return;
    Element* const out = static_cast<Element*>(p.out) + static_cast<int64_t>(m) * p.n + n;
    if (p.n % 2 == 0) {  // then pairs are aligned, and n + 1 is inside if n is
      store_pair(out, even, odd);
    } else {
      out[0] = rounded<Element>(even);
      if (n + 1 < p.n) out[1] = rounded<Element>(odd);
    }
  });
}

template <typename Block, typename Element, int kBlocksPerSm>
cudaError_t launch_fused(const LinearActivationParams& p, cudaStream_t stream) {
  constexpr int kEach = 16 / sizeof(Element);
  const bool aligned = reinterpret_cast<uintptr_t>(p.x) % 16 == 0 && reinterpret_cast<uintptr_t>(p.weight) % 16 == 0 &&
                       p.x_stride % kEach == 0 && p.weight_stride % kEach == 0 && p.k % kEach == 0;
  if (!aligned || p.m < 1 || p.n < 1 || p.k < 1) return cudaErrorInvalidValue;
  const int64_t tiles =
      (static_cast<int64_t>(p.m - 1) / Block::kM + 1) * (static_cast<int64_t>(p.n - 1) / Block::kN + 1);
  if (tiles > std::numeric_limits<int>::max()) return cudaErrorInvalidValue;
  using Shape = LaunchShape<Block::kThreads, Block::kSharedBytes>;
  const auto kernel = linear_activation_fused<Block, Element, kBlocksPerSm, Shape>;
  cudaError_t status = allow_dynamic_shared_bytes(kernel, Shape::kDynamicSharedBytes);
  if (status != cudaSuccess) return status;
  LinearActivationParams launched = p;
  status = exceeds_half_l2(launched.weight_once, static_cast<int64_t>(p.n) * p.k * static_cast<int64_t>(sizeof(Element)));
  if (status != cudaSuccess) return status;
  launched.weight_once = launched.weight_once && p.m <= Block::kM;
  kernel<<<static_cast<unsigned>(tiles), Shape::kThreads, Shape::kDynamicSharedBytes, stream>>>(launched);
  return cudaGetLastError();
}

}  // namespace warpwatch
