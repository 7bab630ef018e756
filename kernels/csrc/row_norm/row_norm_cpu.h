// Row normalisation on the CPU: rows are distributed over PyTorch's threads; sums in double.
#pragma once

#include <algorithm>
#include <cmath>

#include "framework/parallel.h"
#include "row_norm/row_norm.h"

namespace warpwatch {

template <bool kCentered, class Element>
void norm_row_on_cpu(const RowNormParams& p, int64_t row) {
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
  Element* out = static_cast<Element*>(p.out) + row * p.cols;
  if (p.residual != nullptr) {
    const Element* residual = static_cast<const Element*>(p.residual) + row * p.residual_stride;
    Element* total = static_cast<Element*>(p.total) + row * p.cols;
    for (int64_t i = 0; i < p.cols; ++i) {
      total[i] = static_cast<Element>(static_cast<float>(x[i]) + static_cast<float>(residual[i]));
    }
    x = total;
  }
  double mean = 0.0;
  if constexpr (kCentered) {
    for (int64_t i = 0; i < p.cols; ++i) mean += static_cast<float>(x[i]);
    mean /= static_cast<double>(p.cols);
  }
  double squares = 0.0;
  for (int64_t i = 0; i < p.cols; ++i) {
    const double away = static_cast<float>(x[i]) - mean;
    squares += away * away;
  }
  const auto scale = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(p.cols) + p.eps));
  const auto centre = static_cast<float>(mean);
  const Element* weight = static_cast<const Element*>(p.weight);
  const Element* bias = static_cast<const Element*>(p.bias);
  for (int64_t i = 0; i < p.cols; ++i) {
    const float shift = bias != nullptr ? static_cast<float>(bias[i]) : 0.0f;
    const float value = (static_cast<float>(x[i]) - centre) * scale;
    out[i] = static_cast<Element>(value * static_cast<float>(weight[i]) + shift);
  }
}

template <bool kCentered>
void row_norm_on_cpu(const RowNormParams& p) {
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, p.cols));  // about 10 us of work per task
  parallel_for(0, p.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      switch (p.dtype) {
        case Dtype::kFloat16: norm_row_on_cpu<kCentered, Half>(p, row); break;
        case Dtype::kBFloat16: norm_row_on_cpu<kCentered, BFloat16>(p, row); break;
        case Dtype::kFloat32: norm_row_on_cpu<kCentered, float>(p, row); break;
      }
    }
  });
}

}  // namespace warpwatch
