// Bindings of torch.ops.warpwatch.paged_kv_append and paged_kv_gather: check their tensors, fill PagedKvParams and call the CPU
// or the CUDA version.
#include "paged_kv/paged_kv.h"

#include <tuple>

#include "paged_kv/operands.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr PagedKvOperands kAppend{"paged_kv_append"};
constexpr PagedKvOperands kGather{"paged_kv_gather"};

void append_on_cpu(const Tensor& k, const Tensor& v, Tensor k_pages, Tensor v_pages, const Tensor& block_table,
                   const Tensor& lengths) {
  kAppend.check_pages(k_pages, v_pages, block_table, lengths);
  kAppend.check_rows(k, v, k_pages, v_pages, block_table);
  const PagedKvParams p = kAppend.parameters(k, v, k_pages, v_pages, block_table, lengths);
  kAppend.check_table(p, true, k_pages.size(0));
  paged_kv_append_cpu(p);
}

Tensor empty_rows(const Tensor& pages, const Tensor& block_table, int64_t seq) {
  return torch::stable::new_empty(pages, {block_table.size(0), pages.size(1), seq, pages.size(3)});
}

void check_seq(const Tensor& k_pages, const Tensor& block_table, int64_t seq) {
  const int64_t capacity = k_pages.size(2) * block_table.size(1);
  WARPWATCH_CHECK(seq >= 0 && seq <= capacity, kGather.op, "seq must be 0 to ", capacity,
                  ", the keys that block_table has room for, got ", seq);
}

std::tuple<Tensor, Tensor> gather_on_cpu(const Tensor& k_pages, const Tensor& v_pages, const Tensor& block_table,
                                         const Tensor& lengths, int64_t seq) {
  kGather.check_pages(k_pages, v_pages, block_table, lengths);
  check_seq(k_pages, block_table, seq);
  Tensor k = empty_rows(k_pages, block_table, seq);
  Tensor v = empty_rows(v_pages, block_table, seq);
  const PagedKvParams p = kGather.parameters(k, v, k_pages, v_pages, block_table, lengths);
  kGather.check_table(p, false, k_pages.size(0));
  paged_kv_gather_cpu(p);
  return {k, v};
}

#if WARPWATCH_WITH_CUDA

void append_on_cuda(const Tensor& k, const Tensor& v, Tensor k_pages, Tensor v_pages, const Tensor& block_table,
                    const Tensor& lengths) {
  kAppend.check_pages(k_pages, v_pages, block_table, lengths);
  kAppend.check_rows(k, v, k_pages, v_pages, block_table);
  if (k.numel() == 0) return;
  for (const Argument& each :
       {Argument{"k", k}, Argument{"v", v}, Argument{"k_pages", k_pages}, Argument{"v_pages", v_pages}}) {
    kAppend.check_aligned(each);
  }
  const OnDeviceOf gpu(k);
  const PagedKvParams p = kAppend.parameters(k, v, k_pages, v_pages, block_table, lengths);
  check_launch(kAppend.op, paged_kv_append_cuda(p, gpu.stream()));
}

std::tuple<Tensor, Tensor> gather_on_cuda(const Tensor& k_pages, const Tensor& v_pages, const Tensor& block_table,
                                          const Tensor& lengths, int64_t seq) {
  kGather.check_pages(k_pages, v_pages, block_table, lengths);
  check_seq(k_pages, block_table, seq);
  const OnDeviceOf gpu(k_pages);
  Tensor k = empty_rows(k_pages, block_table, seq);
  Tensor v = empty_rows(v_pages, block_table, seq);
  if (k.numel() == 0) return {k, v};
  for (const Argument& each : {Argument{"k_pages", k_pages}, Argument{"v_pages", v_pages}}) kGather.check_aligned(each);
  const PagedKvParams p = kGather.parameters(k, v, k_pages, v_pages, block_table, lengths);
  check_launch(kGather.op, paged_kv_gather_cuda(p, gpu.stream()));
  return {k, v};
}

#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(append_on_cpu, append_on_cuda,
                   "paged_kv_append(Tensor k, Tensor v, Tensor(a!) k_pages, Tensor(b!) v_pages, Tensor block_table, "
                   "Tensor lengths) -> ()");
WARPWATCH_OPERATOR(gather_on_cpu, gather_on_cuda,
                   "paged_kv_gather(Tensor k_pages, Tensor v_pages, Tensor block_table, Tensor lengths, int seq) "
                   "-> (Tensor, Tensor)");
