// The activations in fp32, for results of type Element.
//
// Both gelus avoid 1 + erf and 1 + tanh, which cancel for negative v: erfc(-z) is 1 + erf(z),
// and (1 + tanh u) / 2 is 1 / (1 + e^-2u).
//
// Results that are rounded to 16 bits use the hardware's ex2.approx and rcp.approx without branches. The relative error stays
// below 5e-6 within fp16's range and 2e-5 within bf16's (half an ulp is 5e-4 and 4e-3). With many rows, erfcf alone took as
// long as reading and writing them.
#pragma once

#include <type_traits>

#include "linear_activation/linear_activation.h"

namespace warpwatch {

__device__ __forceinline__ float fast_exp2(float v) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(v));
  return result;
}

__device__ __forceinline__ float fast_reciprocal(float v) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(v));
  return result;
}

template <typename Element>
__device__ __forceinline__ float silu(float v) {
  if constexpr (std::is_same_v<Element, float>) return v / (1.0f + expf(-v));
  return v * fast_reciprocal(1.0f + fast_exp2(-1.4426950f * v));
}

template <typename Element>
__device__ __forceinline__ float gelu_tanh(float v) {
  // The constant is 2 sqrt(2 / pi); below, times log2 e.
  if constexpr (std::is_same_v<Element, float>) return v / (1.0f + expf(-1.5957691f * (v + 0.044715f * v * v * v)));
  return v * fast_reciprocal(1.0f + fast_exp2(v * fmaf(v * v, -0.10294324f, -2.3022082f)));
}

template <typename Element>
__device__ __forceinline__ float gelu(float v) {
  if constexpr (std::is_same_v<Element, float>) return 0.5f * v * erfcf(v * -0.70710678f);
  // The normal distribution's tail beyond a = |v| is e^(-a^2 / 2) times a polynomial in t = 1 / (1 + 0.27 a): the form of
  // Abramowitz and Stegun, "Handbook of mathematical functions" (1964), 7.1.26, refitted to within 1.3e-6 of the tail.
  const float a = fabsf(v);
  const float t = fast_reciprocal(fmaf(0.27f, a, 1.0f));
  float tail = fmaf(-0.0608799f, t, 0.15868931f);
  tail = fmaf(tail, t, -0.02455439f);
  tail = fmaf(tail, t, 0.11790812f);
  tail = fmaf(tail, t, 0.09266512f);
  tail = fmaf(tail, t, 0.1084884f);
  tail = fmaf(tail, t, 0.10768274f);
  tail *= t * fast_exp2(a * (-0.72134752f * a));
  return v * (v > 0.0f ? 1.0f - tail : tail);
}

template <Activation kActivation, typename Element>
__device__ __forceinline__ float activated(float v) {
  if constexpr (kActivation == Activation::kGelu) return gelu<Element>(v);
  if constexpr (kActivation == Activation::kGeluTanh) return gelu_tanh<Element>(v);
  if constexpr (kActivation == Activation::kSilu) return silu<Element>(v);
  return v;
}

}  // namespace warpwatch
