// torch.ops.warpwatch.paged_kv_append and paged_kv_gather: check their tensors, fill PagedKvParams, and call the version of
// the CPU or of the GPU.
#include "paged_kv/paged_kv.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr const char* kAppend = "paged_kv_append";
constexpr const char* kGather = "paged_kv_gather";
constexpr int64_t kLongest = int64_t{1} << 30;

// The pages, the table and the lengths of both operators.
void check_pages(const char* op, const Tensor& k_pages, const Tensor& v_pages, const Tensor& block_table,
                 const Tensor& lengths) {
  const Checks checks{op};
  checks.rank({"k_pages", k_pages}, 4, "(pages, heads_kv, page_size, head_dim)");
  checks.same_shape({"k_pages", k_pages}, {"v_pages", v_pages});
  checks.dtype({"k_pages", k_pages}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  checks.same_dtype({"k_pages", k_pages}, {"v_pages", v_pages});
  const int64_t page_size = k_pages.size(2);
  WARPWATCH_CHECK(page_size >= 16 && page_size <= 256 && (page_size & (page_size - 1)) == 0, op,
                  "page_size must be 16, 32, 64, 128 or 256, got k_pages of shape ", shape_text(k_pages));
  checks.rank({"block_table", block_table}, 2, "(batch, pages of a sequence)");
  checks.dtype({"block_table", block_table}, {ScalarType::Int});
  checks.rank({"lengths", lengths}, 1, "(batch)");
  checks.dtype({"lengths", lengths}, {ScalarType::Int});
  checks.shape({"lengths", lengths}, {block_table.size(0)}, "(batch)");
  checks.contiguous({"lengths", lengths});
  for (const Argument& each : {Argument{"v_pages", v_pages}, Argument{"block_table", block_table}}) {
    checks.same_device({"k_pages", k_pages}, each);
    checks.last_dimension_contiguous(each);
  }
  checks.same_device({"k_pages", k_pages}, {"lengths", lengths});
  checks.last_dimension_contiguous({"k_pages", k_pages});
  WARPWATCH_CHECK(block_table.size(1) * page_size <= kLongest, op, "block_table of shape ", shape_text(block_table),
                  " has room for more than ", kLongest, " keys of a sequence");
  WARPWATCH_CHECK(k_pages.size(3) <= kLongest / 4, op, "head_dim goes up to ", kLongest / 4, ", got ", k_pages.size(3));
}

PagedKvParams parameters(const Tensor& k, const Tensor& v, const Tensor& k_pages, const Tensor& v_pages,
                         const Tensor& block_table, const Tensor& lengths) {
  const int64_t element = static_cast<int64_t>(k.element_size());
  const auto bytes = [&](const Tensor& tensor, int d) { return element * tensor.stride(d); };
  return {
      .pages = {k_pages.data_ptr(), v_pages.data_ptr()},
      .rows = {k.data_ptr(), v.data_ptr()},
      .block_table = static_cast<const int32_t*>(block_table.data_ptr()),
      .lengths = static_cast<const int32_t*>(lengths.data_ptr()),
      .page_strides = {{bytes(k_pages, 0), bytes(k_pages, 1), bytes(k_pages, 2)},
                       {bytes(v_pages, 0), bytes(v_pages, 1), bytes(v_pages, 2)}},
      .row_strides = {{bytes(k, 0), bytes(k, 1), bytes(k, 2)}, {bytes(v, 0), bytes(v, 1), bytes(v, 2)}},
      .table_stride = block_table.stride(0),
      .batch = k.size(0),
      .heads = k.size(1),
      .seq = k.size(2),
      .table_pages = static_cast<int>(block_table.size(1)),
      .page_shift = std::countr_zero(static_cast<unsigned>(k_pages.size(2))),
      .row_bytes = static_cast<int>(element * k.size(3)),
  };
}

// Only where the table can be read: on the CPU. Of each sequence the positions first .. last - 1 are wanted.
void check_table(const char* op, const PagedKvParams& p, bool append, int64_t pages) {
  const int64_t capacity = static_cast<int64_t>(p.table_pages) << p.page_shift;
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t first = append ? std::max<int64_t>(p.lengths[b] - p.seq, 0) : 0;
    const int64_t last = std::min<int64_t>({p.lengths[b], capacity, append ? capacity : p.seq});
    if (first >= last) continue;
    for (int64_t i = first >> p.page_shift; i <= (last - 1) >> p.page_shift; ++i) {
      const int32_t page = p.block_table[b * p.table_stride + i];
      WARPWATCH_CHECK(page >= 0 && page < pages, op, "block_table[", b, ", ", i, "] is ", page, ", but of ", pages,
                      " pages the last is ", pages - 1);
    }
  }
}

void check_rows(const Tensor& k, const Tensor& v, const Tensor& k_pages, const Tensor& block_table) {
  const Checks checks{kAppend};
  checks.rank({"k", k}, 4, "(batch, heads_kv, seq, head_dim)");
  checks.same_shape({"k", k}, {"v", v});
  for (const Argument& each : {Argument{"k", k}, Argument{"v", v}}) {
    checks.same_dtype({"k_pages", k_pages}, each);
    checks.same_device({"k_pages", k_pages}, each);
    checks.last_dimension_contiguous(each);
  }
  WARPWATCH_CHECK(k.size(1) == k_pages.size(1) && k.size(3) == k_pages.size(3), kAppend,
                  "k and k_pages differ in heads_kv or head_dim: ", shape_text(k), " against ", shape_text(k_pages));
  WARPWATCH_CHECK(k.size(0) == block_table.size(0), kAppend, "k and block_table differ in batch: ", shape_text(k),
                  " against ", shape_text(block_table));
}

void append_on_cpu(const Tensor& k, const Tensor& v, Tensor k_pages, Tensor v_pages, const Tensor& block_table,
                   const Tensor& lengths) {
  check_pages(kAppend, k_pages, v_pages, block_table, lengths);
  check_rows(k, v, k_pages, block_table);
  const PagedKvParams p = parameters(k, v, k_pages, v_pages, block_table, lengths);
  check_table(kAppend, p, true, k_pages.size(0));
  paged_kv_append_cpu(p);
}

Tensor empty_rows(const Tensor& pages, const Tensor& block_table, int64_t seq) {
  return torch::stable::new_empty(pages, {block_table.size(0), pages.size(1), seq, pages.size(3)});
}

void check_seq(const Tensor& k_pages, const Tensor& block_table, int64_t seq) {
  const int64_t capacity = k_pages.size(2) * block_table.size(1);
  WARPWATCH_CHECK(seq >= 0 && seq <= capacity, kGather, "seq must be 0 to ", capacity,
                  ", the keys that block_table has room for, got ", seq);
}

std::tuple<Tensor, Tensor> gather_on_cpu(const Tensor& k_pages, const Tensor& v_pages, const Tensor& block_table,
                                         const Tensor& lengths, int64_t seq) {
  check_pages(kGather, k_pages, v_pages, block_table, lengths);
  check_seq(k_pages, block_table, seq);
  Tensor k = empty_rows(k_pages, block_table, seq);
  Tensor v = empty_rows(v_pages, block_table, seq);
  const PagedKvParams p = parameters(k, v, k_pages, v_pages, block_table, lengths);
  check_table(kGather, p, false, k_pages.size(0));
  paged_kv_gather_cpu(p);
  return {k, v};
}

#if WARPWATCH_WITH_CUDA

void check_aligned(const char* op, const Argument& argument) {
  const Tensor& tensor = argument.tensor;
  const int64_t element = static_cast<int64_t>(tensor.element_size());
  bool whole = reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 16 == 0 && tensor.size(3) * element % 16 == 0;
  for (int d = 0; d < 3; ++d) whole = whole && (tensor.size(d) <= 1 || tensor.stride(d) * element % 16 == 0);
  WARPWATCH_CHECK(whole, op, "each row of ", argument.name,
                  " must be whole 16-byte pieces on 16-byte boundaries, for it is moved 16 bytes at a time; got shape ",
                  shape_text(tensor), ", strides ", stride_text(tensor), " and a start ",
                  reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 16, " bytes past one");
}

void append_on_cuda(const Tensor& k, const Tensor& v, Tensor k_pages, Tensor v_pages, const Tensor& block_table,
                    const Tensor& lengths) {
  check_pages(kAppend, k_pages, v_pages, block_table, lengths);
  check_rows(k, v, k_pages, block_table);
  if (k.numel() == 0) return;
  for (const Argument& each :
       {Argument{"k", k}, Argument{"v", v}, Argument{"k_pages", k_pages}, Argument{"v_pages", v_pages}}) {
    check_aligned(kAppend, each);
  }
  const OnDeviceOf gpu(k);
  check_launch(kAppend, paged_kv_append_cuda(parameters(k, v, k_pages, v_pages, block_table, lengths), gpu.stream()));
}

std::tuple<Tensor, Tensor> gather_on_cuda(const Tensor& k_pages, const Tensor& v_pages, const Tensor& block_table,
                                          const Tensor& lengths, int64_t seq) {
  check_pages(kGather, k_pages, v_pages, block_table, lengths);
  check_seq(k_pages, block_table, seq);
  const OnDeviceOf gpu(k_pages);
  Tensor k = empty_rows(k_pages, block_table, seq);
  Tensor v = empty_rows(v_pages, block_table, seq);
  if (k.numel() == 0) return {k, v};
  for (const Argument& each : {Argument{"k_pages", k_pages}, Argument{"v_pages", v_pages}}) check_aligned(kGather, each);
  check_launch(kGather, paged_kv_gather_cuda(parameters(k, v, k_pages, v_pages, block_table, lengths), gpu.stream()));
  return {k, v};
}

#else
constexpr auto& append_on_cuda = WithoutCuda<decltype(append_on_cpu)>::refuse;
constexpr auto& gather_on_cuda = WithoutCuda<decltype(gather_on_cpu)>::refuse;
#endif

}  // namespace
}  // namespace warpwatch

STABLE_TORCH_LIBRARY_FRAGMENT(warpwatch, m) {
  m.def(
      "paged_kv_append(Tensor k, Tensor v, Tensor(a!) k_pages, Tensor(b!) v_pages, Tensor block_table, Tensor lengths) "
      "-> ()");
  m.def(
      "paged_kv_gather(Tensor k_pages, Tensor v_pages, Tensor block_table, Tensor lengths, int seq) "
      "-> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CPU, m) {
  m.impl("paged_kv_append", TORCH_BOX(&warpwatch::append_on_cpu));
  m.impl("paged_kv_gather", TORCH_BOX(&warpwatch::gather_on_cpu));
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CUDA, m) {
  m.impl("paged_kv_append", TORCH_BOX(&warpwatch::append_on_cuda));
  m.impl("paged_kv_gather", TORCH_BOX(&warpwatch::gather_on_cuda));
}
