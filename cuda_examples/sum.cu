// The sum of all elements in two kernels, by way of scratch memory. Blocks of 256 threads.

static __device__ __forceinline__ float sum_of_block(float value) {
  __shared__ float warps[8];
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffffu, value, lane);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += warps[i];
  return sum;
}

// partial[block] = sum of every gridDim.x-th run of 256 elements. partial: f32[gridDim.x]
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

// One block. y: f32[]
extern "C" __global__ void total(const float* __restrict__ partial, unsigned count,
                                 float* __restrict__ y) {
  float sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += 256) sum += partial[i];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) *y = sum;
}
