// Binding of torch.ops.warpwatch.paged_decode_attention: checks its tensors, fills DecodeAttentionParams and calls the CPU
// version or the kernel for this GPU.
#include "paged_decode_attention/paged_decode_attention.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "decode_attention/decode_attention_cpu.h"
#include "decode_attention/operands.h"
#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {

void paged_decode_attention_cpu(const DecodeAttentionParams& p, const PagedCache& cache) {
  decode_any_dtype_on_cpu(p, cache);
}

namespace {

constexpr DecodeAttentionOperands kOperands{"paged_decode_attention"};
constexpr Checks kChecks{"paged_decode_attention"};

// Most keys per sequence.
int64_t capacity(const Tensor& k_pages, const Tensor& block_table) { return k_pages.size(2) * block_table.size(1); }

void check(const Tensor& q, const Tensor& k_pages, const Tensor& v_pages, const Tensor& block_table,
           const Tensor& lengths, std::optional<double> scale, std::optional<int64_t> max_length) {
  kOperands.check_queries(q, scale);
  kChecks.rank({"k_pages", k_pages}, 4, "(pages, heads_kv, page_size, head_dim)");
  kChecks.same_shape({"k_pages", k_pages}, {"v_pages", v_pages});
  for (const Argument& cache : {Argument{"k_pages", k_pages}, Argument{"v_pages", v_pages}}) {
    kOperands.check_cache(q, cache, k_pages.size(1));
  }
  const int64_t page_size = k_pages.size(2);
  WARPWATCH_CHECK(page_size >= 16 && page_size <= 256 && (page_size & (page_size - 1)) == 0, kChecks.op,
                  "page_size must be 16, 32, 64, 128 or 256, got k_pages of shape ", shape_text(k_pages));
  kChecks.rank({"block_table", block_table}, 2, "(batch, pages of a sequence)");
  kChecks.dtype({"block_table", block_table}, {ScalarType::Int});
  kChecks.same_device({"q", q}, {"block_table", block_table});
  kChecks.last_dimension_contiguous({"block_table", block_table});
  WARPWATCH_CHECK(block_table.size(0) == q.size(0), kChecks.op, "q and block_table differ in batch: ", shape_text(q),
                  " against ", shape_text(block_table));
  WARPWATCH_CHECK(capacity(k_pages, block_table) <= DecodeAttentionOperands::kLongest, kChecks.op,
                  "block_table of shape ", shape_text(block_table), " has room for more than ",
                  DecodeAttentionOperands::kLongest, " keys of a sequence");
  kOperands.check_lengths(q, lengths);
  kOperands.check_max_length(max_length, true, capacity(k_pages, block_table));
}

PagedCache cache_of(const Tensor& k_pages, const Tensor& v_pages, const Tensor& block_table) {
  return {
      .k = k_pages.data_ptr(),
      .v = v_pages.data_ptr(),
      .block_table = static_cast<const int32_t*>(block_table.data_ptr()),
      .k_page_stride = k_pages.stride(0),
      .k_head_stride = k_pages.stride(1),
      .k_row_stride = k_pages.stride(2),
      .v_page_stride = v_pages.stride(0),
      .v_head_stride = v_pages.stride(1),
      .v_row_stride = v_pages.stride(2),
      .table_stride = block_table.stride(0),
      .page_shift = std::countr_zero(static_cast<unsigned>(k_pages.size(2))),
  };
}

// Checks the block table's entries; on the CPU only, where they can be read.
void check_pages(const DecodeAttentionParams& p, const PagedCache& cache, int64_t pages) {
  for (int64_t b = 0; b < p.batch; ++b) {
    const int length = std::clamp(p.lengths[b], 0, p.capacity);
    for (int64_t i = 0; i << cache.page_shift < length; ++i) {
      const int32_t page = cache.block_table[b * cache.table_stride + i];
      WARPWATCH_CHECK(page >= 0 && page < pages, kChecks.op, "block_table[", b, ", ", i, "] is ", page, ", but of ",
                      pages, " pages the last is ", pages - 1);
    }
  }
}

Tensor paged_decode_attention_on_cpu(const Tensor& q, const Tensor& k_pages, const Tensor& v_pages,
                                     const Tensor& block_table, const Tensor& lengths,
                                     std::optional<double> scale, std::optional<int64_t> max_length) {
  check(q, k_pages, v_pages, block_table, lengths, scale, max_length);
  kOperands.check_cpu_head_dim(q);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  const DecodeAttentionParams p =
      kOperands.parameters(q, out, lengths, k_pages.size(1), capacity(k_pages, block_table), scale);
  const PagedCache cache = cache_of(k_pages, v_pages, block_table);
  check_pages(p, cache, k_pages.size(0));
  paged_decode_attention_cpu(p, cache);
  return out;
}

#if WARPWATCH_WITH_CUDA

cudaError_t launch(const DecodeAttentionParams& p, const PagedCache& cache, const OnDeviceOf& gpu) {
  if (p.dtype == Dtype::kFloat32) return paged_decode_attention_fp32(p, cache, gpu.stream());
#if WARPWATCH_HAS_SM80
  if (gpu.compute_capability() >= 80) return paged_decode_attention_sm80(p, cache, gpu.stream());
#endif
#if WARPWATCH_HAS_SM75
  if (gpu.compute_capability() >= 75 && p.dtype == Dtype::kFloat16) {
    return paged_decode_attention_sm75(p, cache, gpu.stream());
  }
#endif
  fail_without_kernel(kChecks.op, gpu.compute_capability());
}

Tensor paged_decode_attention_on_cuda(const Tensor& q, const Tensor& k_pages, const Tensor& v_pages,
                                      const Tensor& block_table, const Tensor& lengths,
                                      std::optional<double> scale, std::optional<int64_t> max_length) {
  check(q, k_pages, v_pages, block_table, lengths, scale, max_length);
  kOperands.check_gpu_head_dim(q);
  kOperands.check_aligned({"k_pages", k_pages});
  kOperands.check_aligned({"v_pages", v_pages});
  const OnDeviceOf gpu(q);
  kOperands.check_gpu_dtype(q, gpu.compute_capability());
  const Tensor queries = with_rows_on(16, q);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  if (out.numel() == 0) return out;
  DecodeAttentionParams p =
      kOperands.parameters(queries, out, lengths, k_pages.size(1), capacity(k_pages, block_table), scale);
  const std::optional<Tensor> parts = kOperands.divide(p, q, gpu, max_length);
  check_launch(kChecks.op, launch(p, cache_of(k_pages, v_pages, block_table), gpu));
  return out;
}

#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(paged_decode_attention_on_cpu, paged_decode_attention_on_cuda,
                   "paged_decode_attention(Tensor q, Tensor k_pages, Tensor v_pages, Tensor block_table, "
                   "Tensor lengths, float? scale=None, SymInt? max_length=None) -> Tensor");
