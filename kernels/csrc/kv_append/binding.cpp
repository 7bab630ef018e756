// Binding of torch.ops.warpwatch.kv_append: checks its tensors, fills KvAppendParams and calls the CPU or the CUDA version.
#include "kv_append/kv_append.h"

#include <optional>

#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr Checks kChecks{"kv_append"};

KvAppendRows byte_strides(const Tensor& tensor, int64_t element_bytes) {
  // The stride of a dimension of size 1 does not affect alignment.
  const auto stride = [&](int64_t axis) { return tensor.size(axis) > 1 ? tensor.stride(axis) * element_bytes : 0; };
  return {stride(0), stride(1), stride(2)};
}

KvAppendParams prepare(const Tensor& k_cache, const Tensor& v_cache, const Tensor& k, const Tensor& v,
                       const std::optional<Tensor>& positions, int64_t position) {
  kChecks.rank({"k", k}, 4, "(batch, heads, tokens, head_dim)");
  kChecks.dtype({"k", k}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  kChecks.rank({"k_cache", k_cache}, 4, "(batch, heads, capacity, head_dim)");
  kChecks.same_shape({"k", k}, {"v", v});
  kChecks.same_shape({"k_cache", k_cache}, {"v_cache", v_cache});
  const int64_t capacity = k_cache.size(2);
  kChecks.shape({"k_cache", k_cache}, {k.size(0), k.size(1), capacity, k.size(3)}, "(batch, heads, capacity, head_dim)");
  for (const Argument& other : {Argument{"v", v}, Argument{"k_cache", k_cache}, Argument{"v_cache", v_cache}}) {
    kChecks.same_dtype({"k", k}, other);
    kChecks.same_device({"k", k}, other);
  }
  for (const Argument& each :
       {Argument{"k", k}, Argument{"v", v}, Argument{"k_cache", k_cache}, Argument{"v_cache", v_cache}}) {
    kChecks.last_dimension_contiguous(each);
  }
  kChecks.own_places({"k_cache", k_cache});
  kChecks.own_places({"v_cache", v_cache});
  kChecks.apart({{"k_cache", k_cache}, {"v_cache", v_cache}}, {{"k", k}, {"v", v}});
  if (positions) {
    kChecks.shape({"positions", *positions}, {k.size(0)}, "(batch)");
    kChecks.dtype({"positions", *positions}, {ScalarType::Long});
    kChecks.same_device({"k", k}, {"positions", *positions});
    kChecks.contiguous({"positions", *positions});
  } else {
    WARPWATCH_CHECK(position >= 0 && position <= capacity && k.size(2) <= capacity - position, "kv_append", "the ",
                    k.size(2), " tokens do not fit at position ", position, " of a cache of capacity ", capacity);
  }

  const int64_t element_bytes = k.scalar_type() == ScalarType::Float ? 4 : 2;
  return {
      .k = static_cast<const char*>(k.data_ptr()),
      .v = static_cast<const char*>(v.data_ptr()),
      .k_cache = static_cast<char*>(k_cache.data_ptr()),
      .v_cache = static_cast<char*>(v_cache.data_ptr()),
      .positions = positions ? static_cast<const int64_t*>(positions->data_ptr()) : nullptr,
      .position = position,
      .k_strides = byte_strides(k, element_bytes),
      .v_strides = byte_strides(v, element_bytes),
      .k_cache_strides = byte_strides(k_cache, element_bytes),
      .v_cache_strides = byte_strides(v_cache, element_bytes),
      .batch = k.size(0),
      .heads = k.size(1),
      .tokens = k.size(2),
      .capacity = capacity,
      .row_bytes = k.size(3) * element_bytes,
      .element_bytes = static_cast<int>(element_bytes),
  };
}

void kv_append_on_cpu(const Tensor& k_cache, const Tensor& v_cache, const Tensor& k, const Tensor& v,
                      const std::optional<Tensor>& positions, int64_t position) {
  const KvAppendParams p = prepare(k_cache, v_cache, k, v, positions, position);
  for (int64_t b = 0; p.positions != nullptr && b < p.batch; ++b) {
    const int64_t position = p.positions[b];
    WARPWATCH_CHECK(position >= 0 && position <= p.capacity && p.tokens <= p.capacity - position, "kv_append", "the ",
                    p.tokens, " tokens of sequence ", b, " do not fit at position ", position,
                    " of a cache of capacity ", p.capacity);
  }
  kv_append_cpu(p);
}

#if WARPWATCH_WITH_CUDA
void kv_append_on_cuda(const Tensor& k_cache, const Tensor& v_cache, const Tensor& k, const Tensor& v,
                       const std::optional<Tensor>& positions, int64_t position) {
  const KvAppendParams p = prepare(k_cache, v_cache, k, v, positions, position);
  const OnDeviceOf gpu(k);
  check_launch("kv_append", kv_append_cuda(p, gpu.stream()));
}
#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(kv_append_on_cpu, kv_append_on_cuda,
                   "kv_append(Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor k, Tensor v, Tensor? positions, "
                   "int position=0) -> ()");
