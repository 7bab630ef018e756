// What the bindings of flash_attention share, of sequences of one length, packed or with a bias: checks, params, dispatch.
#pragma once

#include <optional>
#include <type_traits>

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

// Room for an output like q. Where q is (batch, seq, heads, head_dim) in memory, so is that: what comes next takes a token's
// heads side by side, and SDPA's outputs lie so too.
Tensor empty_like_queries(const Tensor& q);

#if WARPWATCH_WITH_CUDA

void check_head_dim_on_cuda(const char* op, int64_t head_dim);

// Whether fp32 goes through the tensor cores: on GPUs that make three products of tf32 in less time than the CUDA cores
// one of fp32, and that have the shared memory (others, told to take the paths of 8.0, have less than an A100's).
constexpr int kTf32SharedBytes = 163 * 1024;
cudaError_t takes_tf32(int compute_capability, bool& takes);

// Params is FlashAttentionParams or what is derived of it.
template <typename Params>
cudaError_t launch_attention(const char* op, const Params& p, int compute_capability, cudaStream_t stream) {
  const bool fp32 = p.dtype == Dtype::kFloat32;
#if WARPWATCH_HAS_SM90A
  if (compute_capability == 90 && !fp32 && flash_attention_sm90a_takes(p)) return flash_attention_sm90a(p, stream);
#endif
#if WARPWATCH_HAS_HBM
  bool tf32 = false;
  if (cudaError_t status = takes_tf32(compute_capability, tf32); status != cudaSuccess) return status;
  if (fp32 && tf32) return flash_attention_tf32_hbm(p, stream);
  if constexpr (!std::is_same_v<Params, FlashAttentionBiasedParams>) {
    bool hbm = false;
    if (cudaError_t status = flash_attention_hbm_takes(p.head_dim, hbm); status != cudaSuccess) return status;
    if (compute_capability >= 80 && !fp32 && hbm) return flash_attention_hbm(p, stream);
  }
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
