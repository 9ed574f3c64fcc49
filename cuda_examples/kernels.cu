// Small kernels for the Rust and C++ examples, compiled by nvcc or, at run time, by NVRTC. This
// file includes no headers, so that NVRTC needs none.

// Computes a[i] = b[i % m] + c[i]. b: f32[m], c and a: f32[n]; any grid.
extern "C" __global__ void tiled_add(const float* __restrict__ b, unsigned long long m,
                                     const float* __restrict__ c, float* __restrict__ a,
                                     unsigned long long n) {
  const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    a[i] = b[i % m] + c[i];
  }
}

// The argument of `polynomial`, passed by value: y = c[0] + c[1] x + c[2] x^2 + … for at most eight
// coefficients.
struct Coefficients {
  float values[8];
};

extern "C" __global__ void polynomial(const float* __restrict__ x, float* __restrict__ y,
                                      unsigned long long n, Coefficients coefficients,
                                      int degree) {
  const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    float sum = 0;
    for (int k = degree; k >= 0; --k) sum = sum * x[i] + coefficients.values[k];
    y[i] = sum;
  }
}

// Returns the sum of the `value`s of a block's 256 threads.
static __device__ __forceinline__ float sum_of_block(float value) {
  __shared__ float warps[8];
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffffu, value, lane);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += warps[i];
  return sum;
}

// Writes one partial sum per block. Block k adds the elements k * 256 to k * 256 + 255, and continues
// gridDim.x * 256 elements later. partial: f32[gridDim.x]
extern "C" __global__ void partial_sums(const float* __restrict__ x, unsigned long long n,
                                        float* __restrict__ partial) {
  const unsigned long long stride = (unsigned long long)gridDim.x * 256;
  float sum = 0;
  for (unsigned long long i = (unsigned long long)blockIdx.x * 256 + threadIdx.x; i < n;
       i += stride) {
    sum += x[i];
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// Adds the partial sums of all blocks, in one block. y: f32[]
extern "C" __global__ void total(const float* __restrict__ partial, unsigned count,
                                 float* __restrict__ y) {
  float sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += 256) sum += partial[i];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) *y = sum;
}

// Computes z = a x + y, element by element.
extern "C" __global__ void axpy(float a, const float* __restrict__ x, const float* y, float* z,
                                unsigned long long n) {
  const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    z[i] = a * x[i] + y[i];
  }
}

// Computes s = x + y and d = x - y, element by element.
extern "C" __global__ void sum_and_difference(const float* __restrict__ x,
                                              const float* __restrict__ y, float* s, float* d,
                                              unsigned long long n) {
  const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    const float sum = x[i] + y[i];
    d[i] = x[i] - y[i];
    s[i] = sum;
  }
}
