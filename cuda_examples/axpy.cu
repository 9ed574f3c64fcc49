// z = a x + y, element by element: the kernel.
extern "C" __global__ void axpy(float a, const float* __restrict__ x, const float* y, float* z,
                                unsigned long long n) {
  const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    z[i] = a * x[i] + y[i];
  }
}
