// Handlers that launch small kernels. Compile this file with nvcc: nvcc -x cu -shared -Xcompiler -fPIC -I SDK/include
#include "kernels.cu"
#include "launch.h"

namespace ffi = xla::ffi;

// The example of XLA's custom-call documents on a GPU: A[i] = B[i % 128] + C[i], for operands of any size.
static ffi::Error TiledAdd(cudaStream_t stream, ffi::BufferR1<ffi::F32> b, ffi::BufferR1<ffi::F32> c,
                           ffi::ResultBufferR1<ffi::F32> a) {
  const size_t m = b.element_count(), n = c.element_count();
  if (a->element_count() != n) return ffi::Error::InvalidArgument("a and c differ in size");
  if (m == 0 && n > 0) {
    return ffi::Error::InvalidArgument("b is empty: there is nothing to repeat");
  }
  return Launch(tiled_add, BlocksFor(n, 256), 256, stream, b.typed_data(), m, c.typed_data(),
                a->typed_data(), n);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpp_tiled_add, TiledAdd,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::BufferR1<ffi::F32>>()
                                  .Arg<ffi::BufferR1<ffi::F32>>()
                                  .Ret<ffi::BufferR1<ffi::F32>>());

// A stateful handler: the compiled program keeps the coefficients. The CUDA runtime loads the kernels once per device.

// The state of the polynomial y = c[0] + c[1] x + c[2] x^2 + …
struct Polynomial {
  static ffi::TypeId id;
  Coefficients coefficients;
  int degree;
};
ffi::TypeId Polynomial::id = {};

// Python registers the type with JAX, under a name, before the first program is compiled.
XLA_FFI_DECLARE_TYPE_ID_SYMBOL(cpp_polynomial_type_id);
XLA_FFI_TypeId* cpp_polynomial_type_id() { return &Polynomial::id; }
XLA_FFI_DECLARE_TYPE_INFO_SYMBOL(cpp_polynomial_type_info);
const XLA_FFI_TypeInfo* cpp_polynomial_type_info() {
  static constexpr auto kInfo = ffi::MakeTypeInfo<Polynomial>();
  return &kInfo;
}

static ffi::ErrorOr<std::unique_ptr<Polynomial>> NewPolynomial(ffi::Span<const float> coefficients) {
  const size_t count = coefficients.size();
  if (count < 1 || count > 8) {
    return ffi::Unexpected(ffi::Error::InvalidArgument("1 to 8 coefficients are possible, not " +
                                                       std::to_string(count)));
  }
  auto polynomial = std::make_unique<Polynomial>();
  polynomial->coefficients = {};
  for (size_t i = 0; i < count; ++i) polynomial->coefficients.values[i] = coefficients[i];
  polynomial->degree = static_cast<int>(count) - 1;
  return std::move(polynomial);  // nvcc does not implicitly move into a result of a different type
}

static ffi::Error Evaluate(cudaStream_t stream, Polynomial* polynomial, ffi::Buffer<ffi::F32> x,
                           ffi::ResultBuffer<ffi::F32> y) {
  const size_t n = x.element_count();
  if (x.dimensions() != y->dimensions()) return ffi::Error::InvalidArgument("x and y differ in shape");
  return Launch(::polynomial, BlocksFor(n, 256), 256, stream, x.typed_data(), y->typed_data(), n,
                polynomial->coefficients, polynomial->degree);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpp_polynomial_instantiate, NewPolynomial,
                              ffi::Ffi::BindInstantiate().Attr<ffi::Span<const float>>("coefficients"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(cpp_polynomial, Evaluate,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<ffi::State<Polynomial>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

// A handler with scratch memory: a sum in two kernels. The first kernel writes partial sums to memory from XLA.
static ffi::Error Sum(cudaStream_t stream, ffi::ScratchAllocator scratch, ffi::Buffer<ffi::F32> x,
                      ffi::ResultBufferR0<ffi::F32> y) {
  const size_t n = x.element_count();
  size_t blocks = BlocksFor(n, 256);
  if (blocks > 1024) blocks = 1024;
  if (blocks == 0) blocks = 1;  // without elements, one block writes a partial sum of 0
  const std::optional<void*> memory = scratch.Allocate(blocks * sizeof(float), 256);
  if (!memory.has_value()) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted, "scratch memory is not available");
  }
  float* partial = static_cast<float*>(*memory);
  ffi::Error error = Launch(partial_sums, blocks, 256, stream, x.typed_data(), n, partial);
  if (error.failure()) return error;
  return Launch(total, 1, 256, stream, partial, blocks, y->typed_data());
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpp_sum, Sum,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::BufferR0<ffi::F32>>());

// A handler that XLA may capture into a command buffer: each call launches the same kernel, without allocations or
// waits.
static ffi::Error Axpy(cudaStream_t stream, ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> y,
                       ffi::ResultBuffer<ffi::F32> z, float a) {
  const size_t n = x.element_count();
  if (x.dimensions() != y.dimensions() || x.dimensions() != z->dimensions()) {
    return ffi::Error::InvalidArgument("x, y and z differ in shape");
  }
  return Launch(axpy, BlocksFor(n, 256), 256, stream, a, x.typed_data(), y.typed_data(),
                z->typed_data(), n);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpp_axpy, Axpy,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<float>("a"),
                              {ffi::Traits::kCmdBufferCompatible});
