// s = x + y and d = x - y, element by element: the kernel.
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
