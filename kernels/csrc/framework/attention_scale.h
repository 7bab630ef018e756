// The scale of scores before the softmax, for all attention operators.
#pragma once

#include <cfloat>
#include <cmath>
#include <optional>

#include "framework/checks.h"

namespace warpwatch {

// Rejects a scale that float32 cannot represent; kernels hold it times log2(e).
inline void check_attention_scale(const char* op, std::optional<double> scale) {
  WARPWATCH_CHECK(!scale || (std::isfinite(*scale) && *scale > 0), op, "scale must be positive and finite, got ",
                  *scale);
  WARPWATCH_CHECK(!scale || (*scale >= FLT_MIN && *scale <= FLT_MAX / 2), op, "scale must lie between ", FLT_MIN, " and ",
                  FLT_MAX / 2, ", got ", *scale);
}

// The given scale, or 1 / sqrt(head_dim).
inline float attention_scale(std::optional<double> scale, int64_t head_dim) {
  return static_cast<float>(scale ? *scale : 1.0 / std::sqrt(static_cast<double>(head_dim)));
}

}  // namespace warpwatch
