// Bindings of torch.ops.warpwatch.flash_attention_varlen, for packed sequences of different lengths, and
// flash_attention_varlen_with_lse. They check the tensors, fill the params struct and call
// the CPU version or the kernel for this GPU.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include "framework/attention_scale.h"
#include "flash_attention/operands.h"
#include "flash_attention/flash_attention.h"
#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr const char* kOp = "flash_attention_varlen";
constexpr Checks kChecks{kOp};

struct Lengths {
  const Tensor& cu_seqlens_q;
  const Tensor& cu_seqlens_kv;
  int64_t max_seqlen_q, max_seqlen_kv;
};

struct Options {
  bool causal;
  std::optional<double> scale;
  std::optional<int64_t> window;
};

void check(const Tensor& q, const Tensor& k, const Tensor& v, const Lengths& lengths, const Options& options) {
  kChecks.rank({"q", q}, 3, "(total_q, heads_q, head_dim)");
  kChecks.rank({"k", k}, 3, "(total_kv, heads_kv, head_dim)");
  check_attention_tensors(kOp, q, k, v);
  WARPWATCH_CHECK(q.size(2) == k.size(2), kOp, "q and k differ in head_dim: ", shape_text(q), " against ",
                  shape_text(k));
  WARPWATCH_CHECK(q.size(1) > 0 && k.size(1) > 0 && q.size(1) % k.size(1) == 0, kOp,
                  "heads_q must be a positive multiple of heads_kv, got ", q.size(1), " and ", k.size(1));
  for (const Argument& each :
       {Argument{"cu_seqlens_q", lengths.cu_seqlens_q}, Argument{"cu_seqlens_kv", lengths.cu_seqlens_kv}}) {
    kChecks.rank(each, 1, "(batch + 1)");
    kChecks.dtype(each, {ScalarType::Int});
    kChecks.same_device({"q", q}, each);
    kChecks.contiguous(each);
    WARPWATCH_CHECK(each.tensor.size(0) > 0, kOp, each.name, " must have batch + 1 values, got none");
  }
  kChecks.same_shape({"cu_seqlens_q", lengths.cu_seqlens_q}, {"cu_seqlens_kv", lengths.cu_seqlens_kv});
  WARPWATCH_CHECK(lengths.max_seqlen_q >= 0 && lengths.max_seqlen_kv >= 0, kOp,
                  "max_seqlen_q and max_seqlen_kv must not be negative, got ", lengths.max_seqlen_q, " and ",
                  lengths.max_seqlen_kv);
  check_attention_options(kOp, options.causal, options.scale, options.window);
}

FlashAttentionStrides packed_strides(const Tensor& tensor) {
  return {.batch = 0, .head = tensor.stride(1), .row = tensor.size(0) > 1 ? tensor.stride(0) : 0};
}

// next_tile: one int32 on the device, the tile counter of Hopper's dynamic scheduler.
FlashAttentionPackedParams parameters(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out, Tensor* lse,
                                      Tensor* next_tile, const Lengths& lengths, const Options& options) {
  // No sequence is longer than total_q; that bounds the grid.
  const int64_t seq_q = std::min(lengths.max_seqlen_q, q.size(0));
  const int64_t seq_kv = std::min(lengths.max_seqlen_kv, k.size(0));
  const FlashAttentionParams attention{
      .q = q.data_ptr(),
      .k = k.data_ptr(),
      .v = v.data_ptr(),
      .out = out.data_ptr(),
      .lse = lse == nullptr ? nullptr : static_cast<double*>(lse->data_ptr()),
      .q_strides = packed_strides(q),
      .k_strides = packed_strides(k),
      .v_strides = packed_strides(v),
      .out_strides = packed_strides(out),
      .batch = static_cast<int>(lengths.cu_seqlens_q.size(0) - 1),
      .heads_q = static_cast<int>(q.size(1)),
      .heads_kv = static_cast<int>(k.size(1)),
      .seq_q = static_cast<int>(seq_q),
      .seq_kv = static_cast<int>(seq_kv),
      .head_dim = static_cast<int>(q.size(2)),
      .scale = attention_scale(options.scale, q.size(2)),
      .dtype = kernel_dtype(q),
      .causal = options.causal,
      // Compared with the total of all keys, not with max_seqlen_kv: on a GPU that value is unchecked and may be too small.
      .window = options.window && *options.window < k.size(0) ? static_cast<int>(*options.window) : 0,
  };
  return {attention, static_cast<const int32_t*>(lengths.cu_seqlens_q.data_ptr()),
          static_cast<const int32_t*>(lengths.cu_seqlens_kv.data_ptr()), static_cast<int>(q.size(0)),
          static_cast<int>(k.size(0)), next_tile == nullptr ? nullptr : static_cast<int*>(next_tile->data_ptr())};
}

// The CPU reads the sequence ends and checks them. On a GPU that would need a device synchronisation, so they stay unchecked.
void check_ends(const char* name, const Tensor& cu_seqlens, int64_t total, const char* longest_name, int64_t longest) {
  const int32_t* ends = static_cast<const int32_t*>(cu_seqlens.data_ptr());
  const int64_t batch = cu_seqlens.size(0) - 1;
  WARPWATCH_CHECK(ends[0] == 0 && ends[batch] == total, kOp, name, " must run from 0 to the ", total,
                  " rows that there are, got ", ends[0], " to ", ends[batch]);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = int64_t{ends[b + 1]} - ends[b];
    WARPWATCH_CHECK(length >= 0 && length <= longest, kOp, name, " gives sequence ", b, " a length of ", length,
                    "; lengths go from 0 to ", longest_name, ", which is ", longest);
  }
}

Tensor run_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, Tensor* lse, const Lengths& lengths,
                  const Options& options) {
  check_head_dim_on_cpu(kOp, q.size(2));
  check_ends("cu_seqlens_q", lengths.cu_seqlens_q, q.size(0), "max_seqlen_q", lengths.max_seqlen_q);
  check_ends("cu_seqlens_kv", lengths.cu_seqlens_kv, k.size(0), "max_seqlen_kv", lengths.max_seqlen_kv);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  flash_attention_cpu(parameters(q, k, v, out, lse, nullptr, lengths, options));
  return out;
}

#if WARPWATCH_WITH_CUDA
Tensor run_on_cuda(const Tensor& q, const Tensor& k, const Tensor& v, Tensor* lse, const Lengths& lengths,
                   const Options& options) {
  check_head_dim_on_cuda(kOp, q.size(2));
  const OnDeviceOf gpu(q);
  const Tensor q_aligned = with_rows_on(16, q);
  const Tensor k_aligned = with_rows_on(16, k);
  const Tensor v_aligned = with_rows_on(16, v);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  std::optional<Tensor> next_tile;
  if (WARPWATCH_HAS_SM90A && gpu.compute_capability() == 90) next_tile = torch::stable::new_empty(q, {1}, ScalarType::Int);
  const FlashAttentionPackedParams p = parameters(q_aligned, k_aligned, v_aligned, out, lse,
                                                  next_tile ? &*next_tile : nullptr, lengths, options);
  if (p.batch == 0 || p.seq_q == 0) {  // the grid is empty: no block writes the rows, and none belongs to a sequence
    torch::stable::zero_(out);
    if (lse != nullptr) torch::stable::fill_(*lse, -std::numeric_limits<double>::infinity());
    return out;
  }
  check_launch(kOp, launch_attention(kOp, p, gpu.compute_capability(), gpu.stream()));
  return out;
}
#endif

// Run: run_on_cpu or run_on_cuda.
template <auto& Run>
Tensor flash_attention_varlen(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& cu_seqlens_q,
                              const Tensor& cu_seqlens_kv, int64_t max_seqlen_q, int64_t max_seqlen_kv, bool causal,
                              std::optional<double> scale, std::optional<int64_t> window) {
  const Lengths lengths{cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv};
  const Options options{causal, scale, window};
  check(q, k, v, lengths, options);
  return Run(q, k, v, nullptr, lengths, options);
}

template <auto& Run>
std::tuple<Tensor, Tensor> flash_attention_varlen_with_lse(const Tensor& q, const Tensor& k, const Tensor& v,
                                                           const Tensor& cu_seqlens_q, const Tensor& cu_seqlens_kv,
                                                           int64_t max_seqlen_q, int64_t max_seqlen_kv, bool causal,
                                                           std::optional<double> scale, std::optional<int64_t> window) {
  const Lengths lengths{cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv};
  const Options options{causal, scale, window};
  check(q, k, v, lengths, options);
  Tensor lse = torch::stable::new_empty(q, {q.size(1), q.size(0)}, ScalarType::Double);
  Tensor out = Run(q, k, v, &lse, lengths, options);
  return {out, lse};
}

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(flash_attention_varlen<warpwatch::run_on_cpu>, flash_attention_varlen<warpwatch::run_on_cuda>,
                   "flash_attention_varlen(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_kv, "
                   "int max_seqlen_q, int max_seqlen_kv, bool causal=False, float? scale=None, int? window=None) "
                   "-> Tensor");
WARPWATCH_OPERATOR(flash_attention_varlen_with_lse<warpwatch::run_on_cpu>,
                   flash_attention_varlen_with_lse<warpwatch::run_on_cuda>,
                   "flash_attention_varlen_with_lse(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, "
                   "Tensor cu_seqlens_kv, int max_seqlen_q, int max_seqlen_kv, bool causal=False, "
                   "float? scale=None, int? window=None) -> (Tensor, Tensor)");
