// What the bindings of flash_attention share, of sequences of one length, packed or with a bias: checks, params, dispatch.
#pragma once

#include <optional>

#include "flash_attention/flash_attention.h"
#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {

constexpr int64_t kLongestAttention = int64_t{1} << 30;  // sums of two lengths stay within an int

// q, k and v of four dimensions. `op` begins the sentences.
void check_attention(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                     std::optional<double> scale, std::optional<int64_t> window);
void check_attention_options(const char* op, bool causal, std::optional<double> scale, std::optional<int64_t> window);
void check_attention_tensors(const char* op, const Tensor& q, const Tensor& k, const Tensor& v);  // dtype, device, rows
void check_head_dim_on_cpu(const char* op, int64_t head_dim);

// Of a tensor (batch, heads, rows, head_dim).
FlashAttentionStrides attention_strides(const Tensor& tensor);
FlashAttentionParams attention_parameters(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out, Tensor* lse,
                                          bool causal, std::optional<double> scale, std::optional<int64_t> window);
float attention_scale(std::optional<double> scale, int64_t head_dim);

#if WARPWATCH_WITH_CUDA

void check_head_dim_on_cuda(const char* op, int64_t head_dim);

// The kernels copy 16 bytes at a time. What does not start its rows on such boundaries is copied to where they do.
Tensor aligned(const Tensor& tensor);

// Params is FlashAttentionParams or what is derived of it.
template <typename Params>
cudaError_t launch_attention(const char* op, const Params& p, int compute_capability, cudaStream_t stream) {
  const bool fp32 = p.dtype == Dtype::kFloat32;
#if WARPWATCH_HAS_SM90A
  if (compute_capability == 90 && fp32) return flash_attention_fp32_sm90a(p, stream);
#endif
#if WARPWATCH_HAS_SM80
  if (compute_capability >= 80) return fp32 ? flash_attention_fp32_sm80(p, stream) : flash_attention_sm80(p, stream);
#endif
#if WARPWATCH_HAS_SM75
  if (compute_capability >= 75) {
    if (fp32) return flash_attention_fp32_sm75(p, stream);
    WARPWATCH_CHECK(p.dtype == Dtype::kFloat16, op, "bfloat16 needs a GPU of compute capability 8.0 or newer, this is ",
                    compute_capability / 10, '.', compute_capability % 10, "; use float16");
    return flash_attention_sm75(p, stream);
  }
#endif
  fail_without_kernel(op, compute_capability);
}

#endif

}  // namespace warpwatch
