// Bindings of torch.ops.warpwatch.rope_paged_kv_append and rope_computed_paged_kv_append: check their tensors, fill
// RopePagedKvParams and call the CPU or the CUDA version.
#include "rope_paged_kv_append/rope_paged_kv_append.h"

#include <cmath>

#include "paged_kv/operands.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr PagedKvOperands kTables{"rope_paged_kv_append"};
constexpr PagedKvOperands kComputed{"rope_computed_paged_kv_append"};

struct Appended {
  const Tensor& k;
  const Tensor& v;
  const Tensor& k_pages;
  const Tensor& v_pages;
  const Tensor& block_table;
  const Tensor& lengths;
};

RopePagedKvParams prepare(const PagedKvOperands& operands, const Appended& of, bool interleaved) {
  operands.check_pages(of.k_pages, of.v_pages, of.block_table, of.lengths);
  operands.check_rows(of.k, of.v, of.k_pages, of.v_pages, of.block_table);
  WARPWATCH_CHECK(of.k.size(3) % 2 == 0, operands.op, "head_dim must be even, got k of shape ", shape_text(of.k));
  return {
      .rows = operands.parameters(of.k, of.v, of.k_pages, of.v_pages, of.block_table, of.lengths),
      .cos = nullptr,
      .sin = nullptr,
      .cos_stride = 0,
      .sin_stride = 0,
      .head_dim = static_cast<int>(of.k.size(3)),
      .dtype = kernel_dtype(of.k),
      .interleaved = interleaved,
  };
}

// A GPU cannot reject a position past the tables without a synchronisation, so the tables must
// cover every position that the pages hold.
void take_tables(const Appended& of, const Tensor& cos, const Tensor& sin, RopePagedKvParams& p) {
  const Checks checks{kTables.op};
  const int64_t capacity = of.k_pages.size(2) * of.block_table.size(1);
  for (const Argument& table : {Argument{"cos", cos}, Argument{"sin", sin}}) {
    checks.rank(table, 2, "(positions, head_dim / 2)");
    checks.shape(table, {table.tensor.size(0), of.k.size(3) / 2}, "(positions, head_dim / 2)");
    checks.dtype(table, {ScalarType::Float});
    checks.same_device({"k_pages", of.k_pages}, table);
    checks.last_dimension_contiguous(table);
    WARPWATCH_CHECK(table.tensor.size(0) >= capacity, kTables.op, table.name, " must have a row for each of the ",
                    capacity, " positions that block_table has room for, got shape ", shape_text(table.tensor));
  }
  p.cos = static_cast<const float*>(cos.data_ptr());
  p.sin = static_cast<const float*>(sin.data_ptr());
  p.cos_stride = cos.stride(0);
  p.sin_stride = sin.stride(0);
}

RopeTurns turns_of(const Appended& of, double base) {
  WARPWATCH_CHECK(of.k.size(3) / 2 <= kRopeMostFrequencies, kComputed.op, "head_dim may be ", 2 * kRopeMostFrequencies,
                  " at most, got k of shape ", shape_text(of.k));
  WARPWATCH_CHECK(base >= 1.0 && std::isfinite(base), kComputed.op, "base must be 1 or more, got ", base);
  return rope_turns(base, static_cast<int>(of.k.size(3)));
}

#if WARPWATCH_WITH_CUDA
void check_pieces(const PagedKvOperands& operands, const Appended& of, const RopePagedKvParams& p) {
  for (const Argument& each : {Argument{"k", of.k}, Argument{"v", of.v}, Argument{"k_pages", of.k_pages},
                               Argument{"v_pages", of.v_pages}}) {
    operands.check_aligned(each);
  }
  WARPWATCH_CHECK(p.rows.row_bytes % 32 == 0, operands.op, "half a row of k must be whole 16-byte pieces, got shape ",
                  shape_text(of.k));
  for (const float* table : {p.cos, p.sin}) {
    WARPWATCH_CHECK(reinterpret_cast<uintptr_t>(table) % 16 == 0 && p.cos_stride % 4 == 0 && p.sin_stride % 4 == 0,
                    operands.op, "each row of cos and sin must start on a 16-byte boundary");
  }
}
#endif

void run(const PagedKvOperands& operands, const Appended& of, const RopePagedKvParams& p, const RopeTurns* turns) {
  if (of.k.numel() == 0) return;
#if WARPWATCH_WITH_CUDA
  if (of.k.is_cuda()) {
    check_pieces(operands, of, p);
    const OnDeviceOf gpu(of.k);
    check_launch(operands.op, rope_paged_kv_append_cuda(p, turns, gpu.stream()));
    return;
  }
#endif
  operands.check_table(p.rows, true, of.k_pages.size(0));
  rope_paged_kv_append_cpu(p, turns);
}

void with_tables(const Tensor& k, const Tensor& v, Tensor k_pages, Tensor v_pages, const Tensor& block_table,
                 const Tensor& lengths, const Tensor& cos, const Tensor& sin, bool interleaved) {
  const Appended of{k, v, k_pages, v_pages, block_table, lengths};
  RopePagedKvParams p = prepare(kTables, of, interleaved);
  take_tables(of, cos, sin, p);
  run(kTables, of, p, nullptr);
}

void computed(const Tensor& k, const Tensor& v, Tensor k_pages, Tensor v_pages, const Tensor& block_table,
              const Tensor& lengths, double base, bool interleaved) {
  const Appended of{k, v, k_pages, v_pages, block_table, lengths};
  const RopePagedKvParams p = prepare(kComputed, of, interleaved);
  const RopeTurns turns = turns_of(of, base);
  run(kComputed, of, p, &turns);
}

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(with_tables, with_tables,
                   "rope_paged_kv_append(Tensor k, Tensor v, Tensor(a!) k_pages, Tensor(b!) v_pages, "
                   "Tensor block_table, Tensor lengths, Tensor cos, Tensor sin, bool interleaved=False) -> ()");
WARPWATCH_OPERATOR(computed, computed,
                   "rope_computed_paged_kv_append(Tensor k, Tensor v, Tensor(a!) k_pages, Tensor(b!) v_pages, "
                   "Tensor block_table, Tensor lengths, float base=10000.0, bool interleaved=False) -> ()");
