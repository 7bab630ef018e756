// The element types kernels know, without torch: what a params struct carries.
#pragma once

namespace warpwatch {

enum class Dtype { kFloat16, kBFloat16, kFloat32 };

}  // namespace warpwatch
