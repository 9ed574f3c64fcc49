// The kernels of RMS normalisation over the last dimension, forward and backward, for the Rust and C++ examples. nvcc
// compiles them, or NVRTC at run time. This file includes no headers, so that NVRTC needs none.
//
//   y  = r x                                 r = 1 / sqrt(mean(x^2) + eps), one per row
//   dx = r dy - x r^3 mean(x dy)
//
// A row is read once, in vectors of 16 bytes, and written once, so only x and y are transferred. The row stays in
// registers while the block computes the sum. `threads` threads (a power of two, 32 to 1024) share a row, and each
// holds up to PER_THREAD vectors of the row. With fewer than 128 threads per row, a block processes several rows.
//
// If a row exceeds the registers of 1024 threads, the rest is read twice; the second read hits the caches if the rest
// fits. Rows that are not whole, aligned vectors use the `_any` kernels, which read everything twice.

typedef unsigned short bf16;  // the upper half of the bits of an f32

static __device__ __forceinline__ float bf16_to_float(unsigned bits) {
  return __uint_as_float(bits << 16);
}

// Rounds a float to the nearest bf16; ties round to the even bf16.
static __device__ __forceinline__ unsigned float_to_bf16(float value) {
  const unsigned bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;  // a NaN stays a NaN
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

// Packs two numbers as bf16 into 32 bits, the first in the lower half.
static __device__ __forceinline__ unsigned two_bf16(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
#else
  return float_to_bf16(first) | (float_to_bf16(second) << 16);
#endif
}

// Unpacks and packs vectors of 16 bytes of an element type.
template <typename T>
struct Vector;

template <>
struct Vector<float> {
  static constexpr int kCount = 4;
  static __device__ __forceinline__ void Unpack(const uint4& v, float* out) {
    out[0] = __uint_as_float(v.x);
    out[1] = __uint_as_float(v.y);
    out[2] = __uint_as_float(v.z);
    out[3] = __uint_as_float(v.w);
  }
  static __device__ __forceinline__ uint4 Pack(const float* in) {
    uint4 v;
    v.x = __float_as_uint(in[0]);
    v.y = __float_as_uint(in[1]);
    v.z = __float_as_uint(in[2]);
    v.w = __float_as_uint(in[3]);
    return v;
  }
  static __device__ __forceinline__ float Load(const float* p) { return *p; }
  static __device__ __forceinline__ void Store(float* p, float value) { *p = value; }
};

template <>
struct Vector<bf16> {
  static constexpr int kCount = 8;
  static __device__ __forceinline__ void Two(unsigned word, float* out) {
    out[0] = bf16_to_float(word & 0xffffu);
    out[1] = __uint_as_float(word & 0xffff0000u);
  }
  static __device__ __forceinline__ void Unpack(const uint4& v, float* out) {
    Two(v.x, out);
    Two(v.y, out + 2);
    Two(v.z, out + 4);
    Two(v.w, out + 6);
  }
  static __device__ __forceinline__ uint4 Pack(const float* in) {
    uint4 v;
    v.x = two_bf16(in[0], in[1]);
    v.y = two_bf16(in[2], in[3]);
    v.z = two_bf16(in[4], in[5]);
    v.w = two_bf16(in[6], in[7]);
    return v;
  }
  static __device__ __forceinline__ float Load(const bf16* p) { return bf16_to_float(*p); }
  static __device__ __forceinline__ void Store(bf16* p, float value) {
    *p = (bf16)float_to_bf16(value);
  }
};

// Sums `a` and `b` over the `threads` threads that share a row. All threads of the block must call this function.
static __device__ __forceinline__ void sum_of_row(unsigned threads, float& a, float& b) {
  __shared__ float warps[2][32];
  for (int lane = 16; lane > 0; lane /= 2) {
    a += __shfl_xor_sync(0xffffffffu, a, lane);
    b += __shfl_xor_sync(0xffffffffu, b, lane);
  }
  if (threads == 32) return;
  const unsigned warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) {
    warps[0][warp] = a;
    warps[1][warp] = b;
  }
  __syncthreads();
  const unsigned count = threads / 32;
  const unsigned first = warp / count * count;
  a = 0;
  b = 0;
  for (unsigned i = 0; i < count; ++i) {
    a += warps[0][first + i];
    b += warps[1][first + i];
  }
}

// Adds the squares of a vector of x to a row's sum of squares. With GRAD, also adds the products of x and dy to the
// row's sum of products.
template <typename T, bool GRAD>
static __device__ __forceinline__ void add(const uint4& x, const uint4& dy, float& squares,
                                           float& products) {
  constexpr int kCount = Vector<T>::kCount;
  float values[kCount];
  float g[kCount];
  Vector<T>::Unpack(x, values);
  Vector<T>::Unpack(dy, g);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    squares += values[k] * values[k];
    if (GRAD) products += values[k] * g[k];
  }
}

template <typename T, bool GRAD>
static __device__ __forceinline__ uint4 result(const uint4& x, const uint4& dy, float scale,
                                               float pull) {
  constexpr int kCount = Vector<T>::kCount;
  float values[kCount];
  float g[kCount];
  Vector<T>::Unpack(x, values);
  Vector<T>::Unpack(dy, g);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    values[k] = GRAD ? scale * g[k] - pull * values[k] : scale * values[k];
  }
  return Vector<T>::Pack(values);
}

// Normalises rows, or computes their gradients with GRAD. x, dy, out: [rows, n] in vectors; without GRAD, dy is x and
// the values read from dy are not used.
// A thread works on row blockIdx.x * (blockDim.x / threads) + threadIdx.x / threads.
// LONG: rows may have more than PER_THREAD vectors per thread.
template <typename T, int PER_THREAD, bool LONG, bool GRAD>
static __device__ __forceinline__ void normalise(const T* __restrict__ x, const T* __restrict__ dy,
                                                 T* __restrict__ out, unsigned long long rows,
                                                 unsigned n, unsigned threads, float eps) {
  constexpr int kCount = Vector<T>::kCount;
  const unsigned vectors = n / kCount;
  const unsigned lane = threadIdx.x % threads;
  const unsigned long long row =
      (unsigned long long)blockIdx.x * (blockDim.x / threads) + threadIdx.x / threads;
  const uint4* from = (const uint4*)(x + row * n);
  const uint4* grads = (const uint4*)(dy + row * n);
  float squares = 0;
  float products = 0;
  const unsigned rest = lane + PER_THREAD * threads;
  const unsigned end = row < rows ? vectors : 0;
  uint4 held[PER_THREAD];
  uint4 grad[PER_THREAD];
#pragma unroll
  for (int i = 0; i < PER_THREAD; ++i) {
    const unsigned at = lane + i * threads;
    held[i].x = held[i].y = held[i].z = held[i].w = 0;
    grad[i] = held[i];
    if (at < end) {
      held[i] = from[at];
      grad[i] = grads[at];
    }
  }
#pragma unroll
  for (int i = 0; i < PER_THREAD; ++i) {
    add<T, GRAD>(held[i], grad[i], squares, products);
  }
#pragma unroll 4
  for (unsigned at = rest; LONG && at < end; at += threads) {
    add<T, GRAD>(from[at], grads[at], squares, products);
  }
  sum_of_row(threads, squares, products);
  const float scale = 1.0f / sqrtf(squares / (float)n + eps);
  const float pull = scale * scale * scale * (products / (float)n);
  if (row >= rows) return;
  uint4* to = (uint4*)(out + row * n);
#pragma unroll
  for (int i = 0; i < PER_THREAD; ++i) {
    const unsigned at = lane + i * threads;
    if (at >= vectors) break;
    to[at] = result<T, GRAD>(held[i], grad[i], scale, pull);
  }
#pragma unroll 4
  for (unsigned at = rest; LONG && at < end; at += threads) {
    to[at] = result<T, GRAD>(from[at], grads[at], scale, pull);
  }
}

// Normalises rows of any length and alignment, with one block of at least 64 threads per row.
template <typename T, bool GRAD>
static __device__ __forceinline__ void normalise_any(const T* __restrict__ x,
                                                     const T* __restrict__ dy,
                                                     T* __restrict__ out, unsigned long long n,
                                                     float eps) {
  const unsigned long long start = (unsigned long long)blockIdx.x * n;
  float squares = 0;
  float products = 0;
  for (unsigned long long i = threadIdx.x; i < n; i += blockDim.x) {
    const float value = Vector<T>::Load(x + start + i);
    squares += value * value;
    if (GRAD) products += value * Vector<T>::Load(dy + start + i);
  }
  sum_of_row(blockDim.x, squares, products);
  const float scale = 1.0f / sqrtf(squares / (float)n + eps);
  const float pull = scale * scale * scale * (products / (float)n);
  for (unsigned long long i = threadIdx.x; i < n; i += blockDim.x) {
    const float value = Vector<T>::Load(x + start + i);
    const float g = Vector<T>::Load(dy + start + i);
    Vector<T>::Store(out + start + i, GRAD ? scale * g - pull * value : scale * value);
  }
}

// Defines the kernels of an element type. The registers of 1024 threads hold 8 vectors of x per thread, or 4 of x and 4
// of dy.
#define RMS_NORM_KERNELS(T, NAME)                                                                   \
  extern "C" __global__ void __launch_bounds__(1024)                                                \
      rms_norm_##NAME##_4(const T* x, T* y, unsigned long long rows, unsigned n, unsigned threads,  \
                          float eps) {                                                              \
    normalise<T, 4, false, false>(x, x, y, rows, n, threads, eps);                                  \
  }                                                                                                 \
  extern "C" __global__ void __launch_bounds__(1024)                                                \
      rms_norm_##NAME##_8(const T* x, T* y, unsigned long long rows, unsigned n, unsigned threads,  \
                          float eps) {                                                              \
    normalise<T, 8, true, false>(x, x, y, rows, n, threads, eps);                                   \
  }                                                                                                 \
  extern "C" __global__ void rms_norm_##NAME##_any(const T* x, T* y, unsigned long long n,          \
                                                   float eps) {                                     \
    normalise_any<T, false>(x, x, y, n, eps);                                                       \
  }                                                                                                 \
  extern "C" __global__ void __launch_bounds__(1024)                                                \
      rms_norm_grad_##NAME##_4(const T* x, const T* dy, T* dx, unsigned long long rows, unsigned n, \
                               unsigned threads, float eps) {                                       \
    normalise<T, 4, true, true>(x, dy, dx, rows, n, threads, eps);                                  \
  }                                                                                                 \
  extern "C" __global__ void rms_norm_grad_##NAME##_any(const T* x, const T* dy, T* dx,             \
                                                        unsigned long long n, float eps) {          \
    normalise_any<T, true>(x, dy, dx, n, eps);                                                      \
  }

RMS_NORM_KERNELS(float, f32)
RMS_NORM_KERNELS(bf16, bf16)
