// The handlers that accept any number of operands or attributes (the last handlers in ../src/handlers.rs), in C++ with
// this project's header.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

// A number derived from the values that the last call decoded.
std::atomic<size_t> sink;

ffi::Error Keep(size_t seen) {
  sink.store(seen, std::memory_order_relaxed);
  return ffi::Error::Success();
}

using Array = ffi::Buffer<ffi::F32, 2>;

size_t Seen(Array array) { return reinterpret_cast<size_t>(array.typed_data()) + array.element_count(); }

ffi::ErrorOr<size_t> SeenArgs(ffi::RemainingArgs xs) {
  size_t seen = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    auto x = xs.get<Array>(i);
    if (x.has_error()) return std::move(x).error();
    seen += Seen(*x);
  }
  return seen;
}
ffi::ErrorOr<size_t> SeenRets(ffi::RemainingRets ys) {
  size_t seen = 0;
  for (size_t i = 0; i < ys.size(); ++i) {
    auto y = ys.get<Array>(i);
    if (y.has_error()) return std::move(y).error();
    seen += Seen(**y);
  }
  return seen;
}

ffi::Error Args(ffi::RemainingArgs xs) {
  auto seen = SeenArgs(xs);
  return seen.has_error() ? std::move(seen).error() : Keep(*seen);
}

ffi::Error Rets(ffi::RemainingRets ys) {
  auto seen = SeenRets(ys);
  return seen.has_error() ? std::move(seen).error() : Keep(*seen);
}

ffi::Error ArgsRets(ffi::RemainingArgs xs, ffi::RemainingRets ys) {
  auto args = SeenArgs(xs);
  if (args.has_error()) return std::move(args).error();
  auto rets = SeenRets(ys);
  return rets.has_error() ? std::move(rets).error() : Keep(*args + *rets);
}

// The attribute names that the dictionary "options" may contain.
const std::vector<std::string>& Names() {
  static const auto* names = [] {
    auto* all = new std::vector<std::string>;
    char name[16];
    for (int i = 0; i < 4096; ++i) {
      std::snprintf(name, sizeof(name), "a%04d", i);
      all->emplace_back(name);
    }
    return all;
  }();
  return *names;
}

ffi::Error Attributes(ffi::Dictionary options) {
  size_t seen = 0;
  const std::vector<std::string>& names = Names();
  for (size_t i = 0; i < options.size(); ++i) {
    auto value = options.get<int32_t>(names[i]);
    if (value.has_error()) return std::move(value).error();
    seen += static_cast<size_t>(*value);
  }
  return Keep(seen);
}

ffi::Error Depth(ffi::Dictionary options) {
  size_t seen = 0;
  for (; options.contains("next"); ++seen) {
    auto next = options.get<ffi::Dictionary>("next");
    if (next.has_error()) return std::move(next).error();
    options = *next;
  }
  auto value = options.get<int32_t>("value");
  if (value.has_error()) return std::move(value).error();
  return Keep(seen + static_cast<size_t>(*value));
}

}  // namespace

extern "C" size_t bench_sink() { return sink.load(std::memory_order_relaxed); }

XLA_FFI_DEFINE_HANDLER_SYMBOL(args, Args, ffi::Ffi::Bind().RemainingArgs().HostOnly());
XLA_FFI_DEFINE_HANDLER_SYMBOL(rets, Rets, ffi::Ffi::Bind().RemainingRets().HostOnly());
XLA_FFI_DEFINE_HANDLER_SYMBOL(args_rets, ArgsRets,
                              ffi::Ffi::Bind().RemainingArgs().RemainingRets().HostOnly());
XLA_FFI_DEFINE_HANDLER_SYMBOL(attributes, Attributes,
                              ffi::Ffi::Bind().Attr<ffi::Dictionary>("options").HostOnly());
XLA_FFI_DEFINE_HANDLER_SYMBOL(depth, Depth,
                              ffi::Ffi::Bind().Attr<ffi::Dictionary>("options").HostOnly());
