// How kernels address the keys and values of one head of one sequence: the interface of a cache, and the contiguous cache.
//
// A kernel takes the cache's struct and constructs a Head from it, with
//   int page = head.page_of(key);                        may read memory, so callers issue it early
//   const Element* row = head.key_row(page, key);        address arithmetic only; value_row likewise
// Sixteen consecutive keys that start at a multiple of 16 lie on one page, key_stride and value_stride elements apart.
#pragma once

#include <cstdint>

#include "decode_attention/decode_attention.h"
#include "primitives/host_device.h"

namespace warpwatch {

template <typename Element>
struct ContiguousHead {
  const Element* keys;
  const Element* values;
  int64_t key_stride, value_stride;

  WARPWATCH_HOST_DEVICE ContiguousHead(const ContiguousCache& cache, int batch, int head)
      : keys(static_cast<const Element*>(cache.k) + batch * cache.k_batch_stride + head * cache.k_head_stride),
        values(static_cast<const Element*>(cache.v) + batch * cache.v_batch_stride + head * cache.v_head_stride),
        key_stride(cache.k_row_stride),
        value_stride(cache.v_row_stride) {}

  WARPWATCH_HOST_DEVICE int page_of(int) const { return 0; }
  WARPWATCH_HOST_DEVICE const Element* key_row(int, int key) const { return keys + key * key_stride; }
  WARPWATCH_HOST_DEVICE const Element* value_row(int, int key) const { return values + key * value_stride; }
};

// HeadOf<Cache, Element>::Type: the Head of a cache.
template <typename Cache, typename Element>
struct HeadOf;

template <typename Element>
struct HeadOf<ContiguousCache, Element> {
  using Type = ContiguousHead<Element>;
};

}  // namespace warpwatch
