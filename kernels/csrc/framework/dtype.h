// Element types of the kernels' params structs, independent of torch.
#pragma once

namespace warpwatch {

enum class Dtype { kFloat16, kBFloat16, kFloat32 };

}  // namespace warpwatch
