// triad.cu: a[i] = b[i] + s * c[i], McCalpin's STREAM triad in fp32
//   a, b, c: 4 * gridDim.x * kThreads elements each, on 16-byte boundaries
//   12 bytes an element (two reads, one write), 2 FLOP: bound by DRAM once the arrays are beyond the L2
//
// Compiled once, into triad.ptx; see __init__.py before changing anything here.

constexpr int kThreads = 256;

extern "C" __global__ void __launch_bounds__(kThreads)
    canary_triad(const float4* __restrict__ b, const float4* __restrict__ c, float4* __restrict__ a, float s) {
  const size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x;
  const float4 left = b[i];
  const float4 right = c[i];
  a[i] = make_float4(fmaf(s, right.x, left.x), fmaf(s, right.y, left.y), fmaf(s, right.z, left.z),
                     fmaf(s, right.w, left.w));
}
