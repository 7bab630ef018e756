#include "paged_kv/operands.h"

#include <algorithm>
#include <bit>

namespace warpwatch {

static constexpr int64_t kLongest = int64_t{1} << 30;

void PagedKvOperands::check_pages(const Tensor& k_pages, const Tensor& v_pages, const Tensor& block_table,
                                  const Tensor& lengths) const {
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

PagedKvParams PagedKvOperands::parameters(const Tensor& k, const Tensor& v, const Tensor& k_pages,
                                          const Tensor& v_pages, const Tensor& block_table,
                                          const Tensor& lengths) const {
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

void PagedKvOperands::check_table(const PagedKvParams& p, bool append, int64_t pages) const {
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

void PagedKvOperands::check_rows(const Tensor& k, const Tensor& v, const Tensor& k_pages,
                                 const Tensor& v_pages, const Tensor& block_table) const {
  const Checks checks{op};
  checks.rank({"k", k}, 4, "(batch, heads_kv, seq, head_dim)");
  checks.same_shape({"k", k}, {"v", v});
  for (const Argument& each : {Argument{"k", k}, Argument{"v", v}}) {
    checks.same_dtype({"k_pages", k_pages}, each);
    checks.same_device({"k_pages", k_pages}, each);
    checks.last_dimension_contiguous(each);
  }
  checks.own_places({"k_pages", k_pages});
  checks.own_places({"v_pages", v_pages});
  WARPWATCH_CHECK(k.size(1) == k_pages.size(1) && k.size(3) == k_pages.size(3), op,
                  "k and k_pages differ in heads_kv or head_dim: ", shape_text(k), " against ", shape_text(k_pages));
  WARPWATCH_CHECK(k.size(0) == block_table.size(0), op, "k and block_table differ in batch: ", shape_text(k),
                  " against ", shape_text(block_table));
  checks.apart({{"k_pages", k_pages}, {"v_pages", v_pages}}, {{"k", k}, {"v", v}});
}

void PagedKvOperands::check_aligned(const Argument& argument) const {
  const Tensor& tensor = argument.tensor;
  const bool whole = rows_start_on(16, tensor) && tensor.size(3) * static_cast<int64_t>(tensor.element_size()) % 16 == 0;
  WARPWATCH_CHECK(whole, op, "each row of ", argument.name,
                  " must be whole 16-byte pieces on 16-byte boundaries, for it is moved 16 bytes at a time; got shape ",
                  shape_text(tensor), ", strides ", stride_text(tensor), " and a start ",
                  bytes_past(16, tensor), " bytes past one");
}

}  // namespace warpwatch
