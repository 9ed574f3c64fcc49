// Handlers for RMS normalisation on a GPU, forward and backward, in f32 and bf16.
#include "rms_norm.cu"
#include "launch.h"

namespace ffi = xla::ffi;

// The distribution of the rows over threads and blocks; see rms_norm.cu.
struct Plan {
  size_t per_thread, threads, blocks, block;
};

// Computes the plan for `rows` rows of `n` elements of `element` bytes. At most `most` vectors of 16 bytes of
// a row are in a thread's registers. Returns false if the rows are not whole, aligned vectors.
static bool MakePlan(size_t rows, size_t n, size_t element, size_t most, bool aligned, Plan* plan) {
  const size_t vectors = n * element / 16;
  if (!aligned || n * element % 16 != 0) return false;
  plan->threads = 32;
  while (plan->threads < 1024 && plan->threads * most < vectors) plan->threads *= 2;
  plan->per_thread = vectors > 4 * plan->threads ? 8 : 4;
  const size_t rows_per_block = plan->threads < 128 ? 128 / plan->threads : 1;
  plan->blocks = (rows + rows_per_block - 1) / rows_per_block;
  plan->block = plan->threads * rows_per_block;
  return true;
}

static bool Aligned(const void* p) { return reinterpret_cast<size_t>(p) % 16 == 0; }

// Gets the number of rows of `x` and their length. Returns an error if `other` differs from `x` in type or
// shape.
static ffi::Error Look(const ffi::AnyBuffer& x, const ffi::AnyBuffer& other, size_t* rows, size_t* n) {
  if (x.dimensions() != other.dimensions() || x.element_type() != other.element_type()) {
    return ffi::Error::InvalidArgument("the operands differ in shape or element type");
  }
  if (x.dimensions().size() == 0) return ffi::Error::InvalidArgument("x has no dimension");
  *n = x.dimensions().back();
  *rows = *n == 0 ? 0 : x.element_count() / *n;
  return ffi::Error::Success();
}

// Defines the functions that launch the kernels for one element type.
#define LAUNCHES(T, NAME)                                                                           \
  static ffi::Error Forward_##NAME(cudaStream_t stream, const void* x, void* y, size_t rows,        \
                                   size_t n, float eps) {                                           \
    Plan plan;                                                                                      \
    if (MakePlan(rows, n, sizeof(T), 8, Aligned(x) && Aligned(y), &plan)) {                         \
      const auto kernel = plan.per_thread == 4 ? rms_norm_##NAME##_4 : rms_norm_##NAME##_8;         \
      return Launch(kernel, plan.blocks, plan.block, stream, x, y, rows, n, plan.threads, eps);     \
    }                                                                                               \
    return Launch(rms_norm_##NAME##_any, rows, 256, stream, x, y, n, eps);                          \
  }                                                                                                 \
  static ffi::Error Backward_##NAME(cudaStream_t stream, const void* x, const void* dy, void* dx,   \
                                    size_t rows, size_t n, float eps) {                             \
    Plan plan;                                                                                      \
    if (MakePlan(rows, n, sizeof(T), 4, Aligned(x) && Aligned(dy) && Aligned(dx), &plan)) {         \
      return Launch(rms_norm_grad_##NAME##_4, plan.blocks, plan.block, stream, x, dy, dx, rows, n,  \
                    plan.threads, eps);                                                             \
    }                                                                                               \
    return Launch(rms_norm_grad_##NAME##_any, rows, 256, stream, x, dy, dx, n, eps);                \
  }

LAUNCHES(float, f32)
LAUNCHES(bf16, bf16)

// Computes y = x / sqrt(mean(x^2) + eps), over the last dimension.
static ffi::Error RmsNorm(cudaStream_t stream, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y,
                          float eps) {
  size_t rows = 0, n = 0;
  if (ffi::Error error = Look(x, *y, &rows, &n); error.failure()) return error;
  switch (x.element_type()) {
    case ffi::F32: return Forward_f32(stream, x.untyped_data(), y->untyped_data(), rows, n, eps);
    case ffi::BF16: return Forward_bf16(stream, x.untyped_data(), y->untyped_data(), rows, n, eps);
    default: return ffi::Error::InvalidArgument("x is neither f32 nor bf16");
  }
}

// Computes the gradient dx = r dy - x r^3 mean(x dy), with r = 1 / sqrt(mean(x^2) + eps).
static ffi::Error RmsNormGrad(cudaStream_t stream, ffi::AnyBuffer x, ffi::AnyBuffer dy,
                              ffi::Result<ffi::AnyBuffer> dx, float eps) {
  size_t rows = 0, n = 0;
  if (ffi::Error error = Look(x, dy, &rows, &n); error.failure()) return error;
  if (ffi::Error error = Look(x, *dx, &rows, &n); error.failure()) return error;
  switch (x.element_type()) {
    case ffi::F32:
      return Backward_f32(stream, x.untyped_data(), dy.untyped_data(), dx->untyped_data(), rows, n,
                          eps);
    case ffi::BF16:
      return Backward_bf16(stream, x.untyped_data(), dy.untyped_data(), dx->untyped_data(), rows, n,
                           eps);
    default: return ffi::Error::InvalidArgument("x is neither f32 nor bf16");
  }
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpp_rms_norm, RmsNorm,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<float>("eps"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(cpp_rms_norm_grad, RmsNormGrad,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<float>("eps"));
