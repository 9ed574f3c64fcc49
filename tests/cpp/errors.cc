// Errors as values, and what ends a handler that returns none: `operands.cc` says how to read the cases.
#include "common.h"

#include <functional>

// An error that was moved from is still one: a function that logs it and then returns it has failed.
static ffi::Error Failed(bool is_long) {
  return is_long ? ffi::Error(ffi::ErrorCode::kDataLoss, std::string(100, 'x'))
                 : ffi::Error(ffi::ErrorCode::kDataLoss, "launch failed");
}
// RUN moved_into {} -> ==
SELF_TEST(moved_into) {
  for (const bool is_long : {false, true}) {
    ffi::Error e = Failed(is_long), f = std::move(e), g = ffi::Error::Success();
    g = std::move(f);
    EXPECT(e.failure() && f.failure() && g.failure());
    EXPECT(e.errc() == ffi::ErrorCode::kDataLoss && f.errc() == g.errc() && g.message() == Failed(is_long).message());
    e = std::move(g);
    EXPECT(e.message() == Failed(is_long).message() && g.failure());
    ffi::Error& same = e;
    e = std::move(same);
    EXPECT(e.failure());
    ffi::ErrorOr<int> a = Failed(is_long), b = std::move(a);
    EXPECT(a.has_error() && a.error().failure() && b.error().failure());
    ffi::Error taken = std::move(b).error();
    EXPECT(taken.failure() && b.has_error() && b.error().failure());
    ffi::Expected<int, ffi::Error> c = ffi::Unexpected<ffi::Error>(taken), d = std::move(c);
    EXPECT(c.has_error() && c.error().failure() && d.error().failure());
    std::vector<ffi::Error> kept;
    kept.push_back(std::move(taken));
    EXPECT(taken.failure() && kept[0].message() == Failed(is_long).message());
    taken = ffi::Error::Success();
    EXPECT(taken.success() && taken.message().empty());
  }
  return ffi::Error::Success();
}

// An empty std::function
// RUN-OURS empty_function {} -> !! INTERNAL bad_function_call
static std::function<ffi::Error()> empty_std_function;
XLA_FFI_DEFINE_HANDLER_SYMBOL(empty_function, empty_std_function, ffi::Ffi::Bind());
