// A stateful handler: the coefficients are kept by the compiled program. The CUDA runtime keeps the
// module, one for each device.
#include "polynomial.cu"
#include "launch.h"

namespace ffi = xla::ffi;

// y = c[0] + c[1] x + c[2] x^2 + …
struct Polynomial {
  static ffi::TypeId id;
  Coefficients coefficients;
  int degree;
};
ffi::TypeId Polynomial::id = {};

// Registered with JAX by name before the first program is compiled.
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
  return std::move(polynomial);  // nvcc does not move by itself into another type
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
