// What scores are multiplied by before the softmax, in all that is called attention.
#pragma once

#include <cstdint>
#include <optional>

namespace warpwatch {

// Refuses what float32, in which kernels hold it times log2(e), has no place for.
void check_attention_scale(const char* op, std::optional<double> scale);

// The one given, or 1 / sqrt(head_dim).
float attention_scale(std::optional<double> scale, int64_t head_dim);

}  // namespace warpwatch
