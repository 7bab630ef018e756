// Bindings of torch.ops.warpwatch.flash_attention, flash_attention_with_lse (also returns each query's log-sum-exp) and
// flash_attention_backward (takes out and the log-sum-exp). Each checks its tensors, fills the params struct and calls the CPU
// version or the kernel for this GPU. With one query per sequence, the forward pass calls decode_attention instead.
#include "flash_attention/flash_attention.h"
#include "flash_attention/flash_attention_backward.h"

#include <cstdint>
#include <optional>
#include <tuple>

#include "decode_attention/operands.h"
#include "flash_attention/operands.h"
#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr const char* kOp = "flash_attention";
constexpr const char* kBackward = "flash_attention_backward";
constexpr Checks kBackwardChecks{kBackward};
// An uninitialised (batch, heads_q, seq_q) tensor.
Tensor empty_rows(const Tensor& q, ScalarType dtype) {
  return torch::stable::new_empty(q, {q.size(0), q.size(1), q.size(2)}, dtype);
}

void check_backward(const Tensor& d_out, const Tensor& q, const Tensor& out, const Tensor& lse) {
  for (const Argument& each : {Argument{"d_out", d_out}, Argument{"out", out}}) {
    kBackwardChecks.same_shape({"q", q}, each);
    kBackwardChecks.same_dtype({"q", q}, each);
    kBackwardChecks.same_device({"q", q}, each);
  }
  kBackwardChecks.same_device({"q", q}, {"lse", lse});
  kBackwardChecks.dtype({"lse", lse}, {ScalarType::Double});
  kBackwardChecks.shape({"lse", lse}, {q.size(0), q.size(1), q.size(2)}, "(batch, heads_q, seq_q)");
  kBackwardChecks.contiguous({"lse", lse});
}

struct Gradients {
  Tensor dq, dk, dv;
};

Gradients empty_gradients(const Tensor& q, const Tensor& k, const Tensor& v) {
  return {torch::stable::new_empty(q, q.sizes()), torch::stable::new_empty(k, k.sizes()),
          torch::stable::new_empty(v, v.sizes())};
}

FlashAttentionBackwardParams backward_parameters(const FlashAttentionParams& forward, const Tensor& d_out,
                                                 const Gradients& to, float* delta) {
  return {
      .forward = forward,
      .d_out = d_out.data_ptr(),
      .dq = to.dq.data_ptr(),
      .dk = to.dk.data_ptr(),
      .dv = to.dv.data_ptr(),
      .d_out_strides = attention_strides(d_out),
      .dq_strides = attention_strides(to.dq),
      .dk_strides = attention_strides(to.dk),
      .dv_strides = attention_strides(to.dv),
      .delta = delta,
  };
}

// Returns the tensor, or a copy if its last dimension is not contiguous: autograd may pass gradients with any strides,
// expanded ones included.
Tensor with_rows(const Tensor& tensor) {
  if (tensor.size(3) <= 1 || tensor.stride(3) == 1) return tensor;
  Tensor copy = torch::stable::new_empty(tensor, tensor.sizes());
  torch::stable::copy_(copy, tensor);
  return copy;
}

Gradients backward_on_cpu(const Tensor& d_out, const Tensor& q, const Tensor& k, const Tensor& v, Tensor out, Tensor lse,
                          bool causal, std::optional<double> scale, std::optional<int64_t> window) {
  check_head_dim_on_cpu(kOp, q.size(3));
  const Gradients to = empty_gradients(q, k, v);
  const FlashAttentionParams forward = attention_parameters(q, k, v, out, &lse, causal, scale, window);
  flash_attention_backward_cpu(backward_parameters(forward, d_out, to, nullptr));
  return to;
}

Tensor run_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, Tensor* lse, bool causal,
                  std::optional<double> scale, std::optional<int64_t> window) {
  check_head_dim_on_cpu(kOp, q.size(3));
  Tensor out = empty_like_queries(q);
  flash_attention_cpu(attention_parameters(q, k, v, out, lse, causal, scale, window));
  return out;
}

#if WARPWATCH_WITH_CUDA

// Bytes of workspace that launch_backward() needs.
int64_t backward_room([[maybe_unused]] const FlashAttentionBackwardParams& p, [[maybe_unused]] int compute_capability) {
#if WARPWATCH_HAS_SM90A
  if (compute_capability == 90) return flash_attention_backward_sm90a_room(p);
#endif
  return 0;
}

cudaError_t launch_backward(const FlashAttentionBackwardParams& p, [[maybe_unused]] void* room, int compute_capability,
                            cudaStream_t stream) {
  const bool fp32 = p.forward.dtype == Dtype::kFloat32;
#if WARPWATCH_HAS_HBM
  // The same rule as in launch_attention. Gradients of head_dim 256 do not fit in the registers of one warp.
  const bool in_registers = p.forward.head_dim <= 128;
  bool tf32 = false;
  if (cudaError_t status = takes_tf32(compute_capability, tf32); status != cudaSuccess) return status;
  if (fp32 && in_registers && tf32) return flash_attention_backward_tf32_hbm(p, stream);
#endif
#if WARPWATCH_HAS_SM90A
  if (compute_capability == 90 && fp32) return flash_attention_backward_fp32_sm90a(p, stream);
  if (compute_capability == 90 && flash_attention_backward_sm90a_takes(p)) {
    return flash_attention_backward_sm90a(p, room, stream);
  }
#endif
#if WARPWATCH_HAS_SM80
  if (compute_capability >= 80) {
    return fp32 ? flash_attention_backward_fp32_sm80(p, stream) : flash_attention_backward_sm80(p, stream);
  }
#endif
#if WARPWATCH_HAS_SM75
  if (compute_capability >= 75) {
    if (fp32) return flash_attention_backward_fp32_sm75(p, stream);
    WARPWATCH_CHECK(p.forward.dtype == Dtype::kFloat16, kBackward,
                    "bfloat16 needs a GPU of compute capability 8.0 or newer, this is ", compute_capability / 10, '.',
                    compute_capability % 10, "; use float16");
    return flash_attention_backward_sm75(p, stream);
  }
#endif
  fail_without_kernel(kBackward, compute_capability);
}

Gradients backward_on_cuda(const Tensor& d_out, const Tensor& q, const Tensor& k, const Tensor& v, Tensor out,
                           Tensor lse, bool causal, std::optional<double> scale, std::optional<int64_t> window) {
  check_head_dim_on_cuda(kOp, q.size(3));
  const OnDeviceOf gpu(q);
  const Tensor q_aligned = with_rows_on(16, q);
  const Tensor k_aligned = with_rows_on(16, k);
  const Tensor v_aligned = with_rows_on(16, v);
  const Tensor d_out_aligned = with_rows_on(16, d_out);
  Tensor out_aligned = with_rows_on(16, out);
  const Gradients to = empty_gradients(q, k, v);
  const Tensor delta = torch::stable::new_empty(q, {flash_attention_backward_room(q.size(0) * q.size(1), q.size(2))},
                                                ScalarType::Float);
  const FlashAttentionParams forward =
      attention_parameters(q_aligned, k_aligned, v_aligned, out_aligned, &lse, causal, scale, window);
  const FlashAttentionBackwardParams p =
      backward_parameters(forward, d_out_aligned, to, static_cast<float*>(delta.data_ptr()));
  std::optional<Tensor> room;
  if (const int64_t bytes = backward_room(p, gpu.compute_capability()); bytes > 0) {
    room = torch::stable::new_empty(q, {bytes}, ScalarType::Byte);
  }
  check_launch(kBackward, launch_backward(p, room ? room->data_ptr() : nullptr, gpu.compute_capability(), gpu.stream()));
  return to;
}

// One query per sequence, as in decoding. The work is then bound by reading each key once, with every SM; decode_attention
// splits the keys to do that. It supports neither the log-sum-exp nor a window. fp32 has not been measured.
bool is_decode_step(const FlashAttentionParams& p) {
  return p.seq_q == 1 && p.lse == nullptr && p.window == 0 && p.dtype != Dtype::kFloat32;
}

void decode_on_cuda(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out, std::optional<double> scale,
                    const OnDeviceOf& gpu) {
  constexpr DecodeAttentionOperands kDecode{kOp};
  kDecode.check_gpu_dtype(q, gpu.compute_capability());
  if (out.numel() == 0) return;
  DecodeAttentionParams p = kDecode.parameters(q, out, std::nullopt, k.size(1), k.size(2), scale);
  const std::optional<Tensor> parts = kDecode.divide(p, q, gpu, std::nullopt);
  check_launch(kOp, dispatch_decode_attention(kOp, p, contiguous_cache(k, v), gpu));
}

Tensor run_on_cuda(const Tensor& q, const Tensor& k, const Tensor& v, Tensor* lse, bool causal,
                   std::optional<double> scale, std::optional<int64_t> window) {
  check_head_dim_on_cuda(kOp, q.size(3));
  const OnDeviceOf gpu(q);
  const Tensor q_aligned = with_rows_on(16, q);
  const Tensor k_aligned = with_rows_on(16, k);
  const Tensor v_aligned = with_rows_on(16, v);
  Tensor out = empty_like_queries(q);
  const FlashAttentionParams p = attention_parameters(q_aligned, k_aligned, v_aligned, out, lse, causal, scale, window);
  if (is_decode_step(p)) {
    decode_on_cuda(q_aligned, k_aligned, v_aligned, out, scale, gpu);
    return out;
  }
  check_launch(kOp, launch_attention(kOp, p, gpu.compute_capability(), gpu.stream()));
  return out;
}

#endif

// Run: run_on_cpu or run_on_cuda.
template <auto& Run>
Tensor flash_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, std::optional<double> scale,
                       std::optional<int64_t> window) {
  check_attention(kOp, q, k, v, causal, scale, window);
  return Run(q, k, v, nullptr, causal, scale, window);
}

template <auto& Run>
std::tuple<Tensor, Tensor> flash_attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                                                    std::optional<double> scale, std::optional<int64_t> window) {
  check_attention(kOp, q, k, v, causal, scale, window);
  Tensor lse = empty_rows(q, ScalarType::Double);
  Tensor out = Run(q, k, v, &lse, causal, scale, window);
  return {out, lse};
}

template <auto& Backward>
std::tuple<Tensor, Tensor, Tensor> flash_attention_backward(const Tensor& d_out, const Tensor& q, const Tensor& k,
                                                            const Tensor& v, const Tensor& out, const Tensor& lse,
                                                            bool causal, std::optional<double> scale,
                                                            std::optional<int64_t> window) {
  check_attention(kOp, q, k, v, causal, scale, window);
  check_backward(d_out, q, out, lse);
  const Gradients to = Backward(with_rows(d_out), q, k, v, with_rows(out), lse, causal, scale, window);
  return {to.dq, to.dk, to.dv};
}

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(flash_attention<warpwatch::run_on_cpu>, flash_attention<warpwatch::run_on_cuda>,
                   "flash_attention(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None, "
                   "int? window=None) -> Tensor");
WARPWATCH_OPERATOR(flash_attention_with_lse<warpwatch::run_on_cpu>, flash_attention_with_lse<warpwatch::run_on_cuda>,
                   "flash_attention_with_lse(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None, "
                   "int? window=None) -> (Tensor, Tensor)");
WARPWATCH_OPERATOR(flash_attention_backward<warpwatch::backward_on_cpu>,
                   flash_attention_backward<warpwatch::backward_on_cuda>,
                   "flash_attention_backward(Tensor d_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
                   "bool causal=False, float? scale=None, int? window=None) -> (Tensor, Tensor, Tensor)");
