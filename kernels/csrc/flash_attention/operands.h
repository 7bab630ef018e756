// Shared by the bindings of flash_attention (equal lengths, packed, biased): checks, params, dispatch.
#pragma once

#include <optional>
#include <type_traits>

#include "flash_attention/flash_attention.h"
#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {

constexpr int64_t kLongestAttention = int64_t{1} << 30;  // sums of two lengths fit an int

// Checks q, k and v of four dimensions. `op` is the operator's name in error messages.
void check_attention(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                     std::optional<double> scale, std::optional<int64_t> window);
void check_attention_options(const char* op, bool causal, std::optional<double> scale, std::optional<int64_t> window);
void check_attention_tensors(const char* op, const Tensor& q, const Tensor& k, const Tensor& v);  // dtype, device, rows
void check_head_dim_on_cpu(const char* op, int64_t head_dim);

// Strides of a tensor (batch, heads, rows, head_dim).
FlashAttentionStrides attention_strides(const Tensor& tensor);
FlashAttentionParams attention_parameters(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out, Tensor* lse,
                                          bool causal, std::optional<double> scale, std::optional<int64_t> window);

// An uninitialised output of q's shape. If q lies in memory as (batch, seq, heads, head_dim), so does the output, as SDPA's
// does: the next layer reads a token's heads contiguously.
Tensor empty_like_queries(const Tensor& q);

#if WARPWATCH_WITH_CUDA

void check_head_dim_on_cuda(const char* op, int64_t head_dim);

// Whether fp32 runs on the tensor cores: on GPUs where three TF32 products are faster than one fp32 product on the CUDA cores,
// with enough shared memory. (A GPU that is set to run as 8.0 may have less than an A100.)
constexpr int kTf32SharedBytes = 163 * 1024;
cudaError_t takes_tf32(int compute_capability, bool& takes);

// Params: FlashAttentionParams or a struct derived from it.
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
