// y = c[0] + c[1] x + c[2] x^2 + …, element by element: the kernel.

// At most eight coefficients travel as an argument by value.
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
