// Tests of errors, ErrorOr, element types and matching. Comments name the corresponding upstream tests. See operands.cc
// for the RUN lines.
#include "common.h"

// Upstream's ReturnError
// RUN return_error {code = 1 : i32} -> !! CANCELLED message 1
// RUN return_error {code = 5 : i32} -> !! NOT_FOUND message 5
// RUN return_error {code = 12 : i32} -> !! UNIMPLEMENTED message 12
// RUN return_error {code = 16 : i32} -> !! UNAUTHENTICATED message 16
// RUN return_error {code = 0 : i32} -> ==
static ffi::Error ReturnError(int32_t code) {
  return ffi::Error(static_cast<ffi::ErrorCode>(code), "message " + std::to_string(code));
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(return_error, ReturnError,
                              ffi::Ffi::Bind().Attr<int32_t>("code"));

// Upstream's ErrorEnumValue
static_assert(static_cast<int>(ffi::ErrorCode::kOk) == 0);
static_assert(static_cast<int>(ffi::ErrorCode::kCancelled) == 1);
static_assert(static_cast<int>(ffi::ErrorCode::kUnknown) == 2);
static_assert(static_cast<int>(ffi::ErrorCode::kInvalidArgument) == 3);
static_assert(static_cast<int>(ffi::ErrorCode::kDeadlineExceeded) == 4);
static_assert(static_cast<int>(ffi::ErrorCode::kNotFound) == 5);
static_assert(static_cast<int>(ffi::ErrorCode::kAlreadyExists) == 6);
static_assert(static_cast<int>(ffi::ErrorCode::kPermissionDenied) == 7);
static_assert(static_cast<int>(ffi::ErrorCode::kResourceExhausted) == 8);
static_assert(static_cast<int>(ffi::ErrorCode::kFailedPrecondition) == 9);
static_assert(static_cast<int>(ffi::ErrorCode::kAborted) == 10);
static_assert(static_cast<int>(ffi::ErrorCode::kOutOfRange) == 11);
static_assert(static_cast<int>(ffi::ErrorCode::kUnimplemented) == 12);
static_assert(static_cast<int>(ffi::ErrorCode::kInternal) == 13);
static_assert(static_cast<int>(ffi::ErrorCode::kUnavailable) == 14);
static_assert(static_cast<int>(ffi::ErrorCode::kDataLoss) == 15);
static_assert(static_cast<int>(ffi::ErrorCode::kUnauthenticated) == 16);

// Upstream's DataTypeEnumValue
static_assert(static_cast<int>(ffi::DataType::INVALID) == 0);
static_assert(static_cast<int>(ffi::PRED) == 1);
static_assert(static_cast<int>(ffi::S1) == 30);
static_assert(static_cast<int>(ffi::S2) == 26);
static_assert(static_cast<int>(ffi::S4) == 21);
static_assert(static_cast<int>(ffi::S8) == 2);
static_assert(static_cast<int>(ffi::S16) == 3);
static_assert(static_cast<int>(ffi::S32) == 4);
static_assert(static_cast<int>(ffi::S64) == 5);
static_assert(static_cast<int>(ffi::U1) == 31);
static_assert(static_cast<int>(ffi::U2) == 27);
static_assert(static_cast<int>(ffi::U4) == 22);
static_assert(static_cast<int>(ffi::U8) == 6);
static_assert(static_cast<int>(ffi::U16) == 7);
static_assert(static_cast<int>(ffi::U32) == 8);
static_assert(static_cast<int>(ffi::U64) == 9);
static_assert(static_cast<int>(ffi::F16) == 10);
static_assert(static_cast<int>(ffi::F32) == 11);
static_assert(static_cast<int>(ffi::F64) == 12);
static_assert(static_cast<int>(ffi::BF16) == 16);
static_assert(static_cast<int>(ffi::C64) == 15);
static_assert(static_cast<int>(ffi::C128) == 18);
static_assert(static_cast<int>(ffi::TOKEN) == 17);
static_assert(static_cast<int>(ffi::F8E5M2) == 19);
static_assert(static_cast<int>(ffi::F8E3M4) == 29);
static_assert(static_cast<int>(ffi::F8E4M3) == 28);
static_assert(static_cast<int>(ffi::F8E4M3FN) == 20);
static_assert(static_cast<int>(ffi::F8E4M3B11FNUZ) == 23);
static_assert(static_cast<int>(ffi::F8E5M2FNUZ) == 24);
static_assert(static_cast<int>(ffi::F8E4M3FNUZ) == 25);
static_assert(static_cast<int>(ffi::F4E2M1FN) == 32);
static_assert(static_cast<int>(ffi::F8E8M0FNU) == 33);

// Upstream's DataTypeByteWidth
static_assert(ffi::ByteWidth(ffi::DataType::INVALID) == 0);
static_assert(ffi::ByteWidth(ffi::PRED) == 1);
static_assert(ffi::ByteWidth(ffi::S1) == 1);
static_assert(ffi::ByteWidth(ffi::S2) == 1);
static_assert(ffi::ByteWidth(ffi::S4) == 1);
static_assert(ffi::ByteWidth(ffi::S8) == 1);
static_assert(ffi::ByteWidth(ffi::S16) == 2);
static_assert(ffi::ByteWidth(ffi::S32) == 4);
static_assert(ffi::ByteWidth(ffi::S64) == 8);
static_assert(ffi::ByteWidth(ffi::U1) == 1);
static_assert(ffi::ByteWidth(ffi::U2) == 1);
static_assert(ffi::ByteWidth(ffi::U4) == 1);
static_assert(ffi::ByteWidth(ffi::U8) == 1);
static_assert(ffi::ByteWidth(ffi::U16) == 2);
static_assert(ffi::ByteWidth(ffi::U32) == 4);
static_assert(ffi::ByteWidth(ffi::U64) == 8);
static_assert(ffi::ByteWidth(ffi::F16) == 2);
static_assert(ffi::ByteWidth(ffi::F32) == 4);
static_assert(ffi::ByteWidth(ffi::F64) == 8);
static_assert(ffi::ByteWidth(ffi::BF16) == 2);
static_assert(ffi::ByteWidth(ffi::C64) == 8);
static_assert(ffi::ByteWidth(ffi::C128) == 16);
static_assert(ffi::ByteWidth(ffi::TOKEN) == 0);
static_assert(ffi::ByteWidth(ffi::F8E5M2) == 1);
static_assert(ffi::ByteWidth(ffi::F8E3M4) == 1);
static_assert(ffi::ByteWidth(ffi::F8E4M3) == 1);
static_assert(ffi::ByteWidth(ffi::F8E4M3FN) == 1);
static_assert(ffi::ByteWidth(ffi::F8E4M3B11FNUZ) == 1);
static_assert(ffi::ByteWidth(ffi::F8E5M2FNUZ) == 1);
static_assert(ffi::ByteWidth(ffi::F8E4M3FNUZ) == 1);
static_assert(ffi::ByteWidth(ffi::F4E2M1FN) == 1);
static_assert(ffi::ByteWidth(ffi::F8E8M0FNU) == 1);

// Complex element types and native C++ types
static_assert(ffi::ToComplex(ffi::F32) == ffi::C64 && ffi::ToReal(ffi::C128) == ffi::F64);
static_assert(ffi::ToImag(ffi::C64) == ffi::F32 && ffi::IsComplexType<ffi::C64>());
static_assert(std::is_same_v<ffi::NativeType<ffi::BF16>, uint16_t>);
static_assert(std::is_same_v<ffi::NativeType<ffi::C64>, std::complex<float>>);

// Output of element types and errors to a stream
// RUN printing {} -> ==
SELF_TEST(printing) {
  std::ostringstream os;
  os << ffi::F32 << ' ' << ffi::S4 << ' ' << XLA_FFI_DataType_BF16 << ' '
     << XLA_FFI_AttrType_STRING << ' ' << XLA_FFI_ExecutionStage_PREPARE;
  EXPECT(os.str() == "F32 S4 BF16 string prepare");
  return ffi::Error::Success();
}

// Error messages of every length, from literals and strings, that are copied, moved and read by two threads
// RUN messages {} -> ==
SELF_TEST(messages) {
  for (size_t length : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{300}}) {
    const std::string text(length, 'e');
    for (const ffi::Error& made : {ffi::Error::Internal(text), ffi::Error::Internal(text.c_str()),
                                   ffi::Error(ffi::ErrorCode::kInternal, text.c_str())}) {
      ffi::Error error = made, copy = error, moved = std::move(error);
      EXPECT(copy.failure() && copy.message() == text && &copy.message() == &copy.message());
      EXPECT(moved.errc() == ffi::ErrorCode::kInternal && moved.message() == text);
      copy = ffi::Error::InvalidArgument("another");
      EXPECT(copy.errc() == ffi::ErrorCode::kInvalidArgument && copy.message() == "another");
      copy = moved;
      EXPECT(copy.message() == text && moved.message() == text);
      copy = ffi::Error::Success();
      EXPECT(copy.success() && copy.message().empty());
    }
  }
  EXPECT(ffi::Error(ffi::ErrorCode::kOk, "").success());
  const ffi::Error shared = ffi::Error::Internal("shared");
  const std::string* there = nullptr;
  std::thread other([&] { there = &shared.message(); });
  const std::string* const here = &shared.message();
  other.join();
  EXPECT(*here == "shared" && here == there);
  return ffi::Error::Success();
}

// Upstream's Expected
// RUN expected {} -> ==
SELF_TEST(expected) {
  ffi::Expected<int32_t, std::string> value(42);
  EXPECT(value.has_value() && !value.has_error() && *value == 42 && value);
  ffi::Expected<int32_t, std::string> error = ffi::Unexpected("no");
  EXPECT(!error.has_value() && error.has_error() && error.error() == "no");
  struct Point {
    int x;
  };
  ffi::Expected<Point, std::string> point(Point{3});
  EXPECT(point->x == 3 && point.value().x == 3);
  ffi::ErrorOr<std::unique_ptr<int>> owned(std::make_unique<int>(7));
  std::unique_ptr<int> taken = std::move(owned).value();
  EXPECT(*taken == 7);
  const ffi::ErrorOr<int> failed = ffi::Error(ffi::ErrorCode::kNotFound, "gone");
  EXPECT(failed.error().errc() == ffi::ErrorCode::kNotFound && failed.error().message() == "gone");
  return ffi::Error::Success();
}

// Upstream's Span
// RUN span {} -> ==
SELF_TEST(span) {
  std::vector<int64_t> numbers = {1, 2, 3};
  ffi::Span<const int64_t> a(numbers), b(numbers.data(), 3), none;
  EXPECT(a == b && a.size() == 3 && a[1] == 2 && none.size() == 0);
  int64_t sum = 0;
  for (int64_t n : a) sum += n;
  EXPECT(sum == 6);
  return ffi::Error::Success();
}

namespace match = ffi::match;

// Match and Verify: element types, ranks, dimensions, captures
// RUN matching {} f32[2,3]=iota f32[3,4]=iota -> s64[3] == 2,3,4
// RUN matching {} f32[2,3]=iota f32[2,4]=iota -> s64[3] !! INVALID_ARGUMENT buffer `b` is not a buffer
// RUN matching {} f64[2,3]=iota f32[3,4]=iota -> s64[3] !! INVALID_ARGUMENT buffer `a` is not a buffer with dtype F32 with rank 2
// RUN matching {} f32[2]=iota f32[3,4]=iota -> s64[3] !! INVALID_ARGUMENT expected rank 2, got 1
static ffi::Error Matching(ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::ResultBufferR1<ffi::S64> y) {
  int64_t rows = 0, inner = 0, columns = 0;
  auto x = ffi::Match("a", a, match::Buffer<ffi::F32, 2>().WithDims(&rows, &inner));
  if (x.has_error()) return x.error();
  ffi::BufferR2<ffi::F32> typed = *x;
  auto z = ffi::Match("b", b, match::Buffer<ffi::F32>().WithDims(match::Dim(inner), &columns));
  if (z.has_error()) return z.error();
  EXPECT(typed.dimensions()[0] == rows);
  Put(y, {rows, inner, columns});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(matching, Matching,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());
// RUN verifying {n = 0 : i64} f32[2,2]=iota f32[2,2]=iota -> ==
// RUN verifying {n = 1 : i64} f32[2,2]=iota f32[2,3]=iota -> !! INVALID_ARGUMENT buffer `b`
// RUN verifying {n = 2 : i64} f32[2,2]=iota f32[2,3]=iota -> !! INVALID_ARGUMENT expected dimension 1 to be 2, got 3
// RUN verifying {n = 3 : i64} f32[2,2]=iota s32[2,2]=iota -> !! INVALID_ARGUMENT expected dtype one of [F32, F64], got S32
// RUN verifying {n = 4 : i64} f32[2,2]=iota f32[2]=iota -> !! INVALID_ARGUMENT expected rank one of [2, 3], got 1
// RUN verifying {n = 5 : i64} f32[2,2]=iota f64[2,2]=iota -> !! INVALID_ARGUMENT expected dtype F32, got F64
// RUN verifying {n = 6 : i64} f32[2,2]=iota f32[2,3]=iota -> !! INVALID_ARGUMENT expected dimension 1 to be 2, got 3
static ffi::Error Verifying(ffi::AnyBuffer a, ffi::AnyBuffer b, int64_t n) {
  int64_t size = 0;
  switch (n) {
    case 0:
      return ffi::Verify("b", b, match::Buffer().Like(a));
    case 1:
      return ffi::Verify("b", b, match::Buffer().WithShapeOf(a));
    case 2:
      return ffi::Verify("b", b, match::Buffer().WithDims(&size, &size));
    case 3:
      return ffi::Verify("b", b, match::Buffer().WithDType<ffi::F32, ffi::F64>());
    case 4:
      return ffi::Verify("b", b, match::Buffer().WithRank<2, 3>());
    case 5:
      return ffi::Verify("b", b, match::Buffer().Like(a));
    default:
      return ffi::Verify("b", b, match::Buffer().WithDim<1>(2).WithDim(0, match::Dim()));
  }
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(verifying, Verifying,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Attr<int64_t>("n"));

// Match on a result
// RUN matching_result {} -> f32[4] == 1,1,1,1
// RUN matching_result {} -> f32[4,1] !! INVALID_ARGUMENT buffer `y`
static ffi::Error MatchingResult(ffi::Result<ffi::AnyBuffer> y) {
  int64_t n = 0;
  auto typed = ffi::Match("y", y, match::Buffer<ffi::F32, 1>().WithDims(&n));
  if (typed.has_error()) return typed.error();
  ffi::ResultBufferR1<ffi::F32> result = *typed;
  std::fill_n(result->typed_data(), n, 1.0f);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(matching_result, MatchingResult,
                              ffi::Ffi::Bind().Ret<ffi::AnyBuffer>());
