// A[i] = B[i % m] + C[i]: the kernel. Compiled by nvcc for both languages, or by NVRTC at run time:
// it includes nothing.

// b: f32[m], c and a: f32[n]; any grid.
extern "C" __global__ void tiled_add(const float* __restrict__ b, unsigned long long m,
                                     const float* __restrict__ c, float* __restrict__ a,
                                     unsigned long long n) {
  const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    a[i] = b[i % m] + c[i];
  }
}
