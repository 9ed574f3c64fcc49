// Tests of defects in XLA's own headers, and of features that only our headers have. See operands.cc for the syntax of
// cases. RUN-UPSTREAM cases show the results with upstream's headers.
#include "common.h"

using MaybeF32 = std::optional<ffi::BufferR1<ffi::F32>>;

// With optional operands, upstream checks no upper bound and reports a wrong lower bound.
// RUN-OURS optional_bounds {} f32[1]=1 f32[1]=1 f32[1]=1 f32[1]=1 -> !! INVALID_ARGUMENT expected 3 arguments, got 4
// RUN-UPSTREAM optional_bounds {} f32[1]=1 f32[1]=1 f32[1]=1 f32[1]=1 -> ==
// RUN-OURS optional_bounds {} -> !! INVALID_ARGUMENT missing argument 0
// RUN-UPSTREAM optional_bounds {} -> !! INVALID_ARGUMENT at least -1
static ffi::Error OptionalBounds(ffi::BufferR1<ffi::F32>, MaybeF32, MaybeF32) { return {}; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(optional_bounds, OptionalBounds,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR1<ffi::F32>>()
                                  .OptionalArg<ffi::BufferR1<ffi::F32>>()
                                  .OptionalArg<ffi::BufferR1<ffi::F32>>());

// With upstream, reading a dictionary's value through an iterator truncates the value.
// RUN-OURS iterated {x = 0.5} -> f64[1] == 0.5
// RUN-UPSTREAM iterated {x = 0.5} -> f64[1] == 0
static ffi::Error Iterated(ffi::ResultBufferR1<ffi::F64> y, ffi::Dictionary dict) {
  for (auto it = dict.begin(); it != dict.end(); ++it) {
    auto value = dict.get<double>(it);
    if (value.has_error()) return value.error();
    *y->typed_data() = static_cast<double>(*value);
  }
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(iterated, Iterated,
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::F64>>().Attrs());

// With upstream, binding one attribute twice always fails.
// RUN-OURS bound_twice {n = 2 : i64} -> s64[2] == 2,2
// RUN-UPSTREAM bound_twice {n = 2 : i64} -> s64[2] !! INVALID_ARGUMENT expected 2 but got 1
static ffi::Error BoundTwice(ffi::ResultBufferR1<ffi::S64> y, int64_t a, int64_t b) {
  Put(y, {a, b});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(bound_twice, BoundTwice,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .Attr<int64_t>("n")
                                  .Attr<int64_t>("n"));

// A minimal host that records calls of its functions.
struct Host {
  static inline size_t run_id_size = 0;
  static XLA_FFI_Error* RunId(XLA_FFI_RunId_Get_Args* args) {
    run_id_size = args->struct_size;
    args->run_id = 7;
    return nullptr;
  }
  static XLA_FFI_Error* Fail(XLA_FFI_State_Set_Args*) {
    return reinterpret_cast<XLA_FFI_Error*>(0x10);
  }
  static XLA_FFI_Error* Register(XLA_FFI_Type_Register_Args* args) {
    args->type_id->type_id = 1;
    return nullptr;
  }
  static const XLA_FFI_Api* Api() {
    static XLA_FFI_Api api;
    api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    api.api_version.minor_version = 5;
    api.XLA_FFI_RunId_Get = RunId;
    api.XLA_FFI_State_Set = Fail;
    api.XLA_FFI_Type_Register = Register;
    return &api;
  }
};

// Upstream's RunId passes the wrong struct size.
// RUN-OURS run_id_size {} -> ==
// RUN-UPSTREAM run_id_size {} -> !! INTERNAL expectation failed: Host::run_id_size == XLA_FFI_RunId_Get_Args_STRUCT_SIZE
SELF_TEST(run_id_size) {
  ffi::DiagnosticEngine diagnostic;
  auto id = ffi::CtxDecoding<ffi::RunId>::Decode(Host::Api(), nullptr, diagnostic);
  EXPECT(id.has_value() && id->run_id == 7);
  EXPECT(Host::run_id_size == XLA_FFI_RunId_Get_Args_STRUCT_SIZE);
  return {};
}

// Upstream calls functions that the host's table does not have.
// RUN-OURS absent_slot {} -> ==
// RUN-UPSTREAM absent_slot {} -> !! INTERNAL expectation failed: Host::run_id_size == 0
SELF_TEST(absent_slot) {
  // A table of jaxlib 0.4.38, which ends before RunId_Get. The memory after the table does not belong to the host.
  struct {
    XLA_FFI_Api api;
  } host{*Host::Api()};
  host.api.struct_size = 88;
  host.api.api_version.minor_version = 1;
  host.api.internal_api = reinterpret_cast<const XLA_FFI_InternalApi*>(
      reinterpret_cast<const char*>(&host.api) + 176);
  Host::run_id_size = 0;
  ffi::DiagnosticEngine diagnostic;
  auto id = ffi::CtxDecoding<ffi::RunId>::Decode(&host.api, nullptr, diagnostic);
  EXPECT(Host::run_id_size == 0);
  EXPECT(!id.has_value());
  return {};
}

// With upstream, waiters of a dropped promise are never notified.
// RUN-OURS broken_promise_notifies {} -> ==
// RUN-UPSTREAM broken_promise_notifies {} -> !! INTERNAL expectation failed: notified == 1
SELF_TEST(broken_promise_notifies) {
  int notified = 0;
  auto promise = std::make_unique<ffi::Promise>();
  ffi::Future future(*promise);
  future.OnReady([&](const std::optional<ffi::Error>& e) { notified += e.has_value() ? 1 : 10; });
  promise.reset();
  EXPECT(notified == 1);
  return {};
}

// With upstream, state leaks if setting it fails.
struct Lost {
  static ffi::TypeId id;
  ~Lost() { ++dropped; }
  static inline int dropped = 0;
};
ffi::TypeId Lost::id = {1};
// RUN-OURS lost_state {} -> ==
// RUN-UPSTREAM lost_state {} -> !! INTERNAL expectation failed: Lost::dropped == 1
SELF_TEST(lost_state) {
  Lost::dropped = 0;
  using Encoding = ffi::ResultEncoding<ffi::ExecutionStage::kInstantiate,
                                       ffi::ErrorOr<std::unique_ptr<Lost>>>;
  ffi::ErrorOr<std::unique_ptr<Lost>> state(std::make_unique<Lost>());
  EXPECT(Encoding::Encode(Host::Api(), nullptr, std::move(state)) != nullptr);
  EXPECT(Lost::dropped == 1);
  return {};
}

// With upstream, element counts overflow silently, and packed elements count as one byte each.
// RUN-OURS overflow {} -> ==
// RUN-UPSTREAM overflow {} -> !! INTERNAL expectation failed: any.element_count()
SELF_TEST(overflow) {
  int64_t dims[] = {int64_t{1} << 40, int64_t{1} << 40};
  XLA_FFI_Buffer raw{};
  raw.struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
  raw.dtype = XLA_FFI_DataType_F32;
  raw.rank = 2;
  raw.dims = dims;
  const ffi::AnyBuffer any(&raw);
  EXPECT(any.element_count() == std::numeric_limits<size_t>::max());
  EXPECT(any.size_bytes() == std::numeric_limits<size_t>::max());
  dims[0] = 0;
  EXPECT(any.element_count() == 0 && any.size_bytes() == 0);
  dims[0] = -1;
  EXPECT(any.element_count() == std::numeric_limits<size_t>::max());
  return {};
}
// RUN-OURS packed from=r5 {} s4[3]=1,-2,3 -> s64[2] == 3,2
// RUN-UPSTREAM packed {} s4[3]=1,-2,3 -> s64[2] == 3,3
static ffi::Error Packed(ffi::AnyBuffer x, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {Int(x.element_count()), Int(x.size_bytes())});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(packed, Packed);

// Upstream concatenates diagnostics and identifies operands only by index.
// RUN-OURS two_problems {b = 1 : i64} s32[1]=1 -> f32[1] !! INVALID_ARGUMENT two_problems (execute): 2 problems\n  argument `x`: expected F32, got S32[1]; cast it: x.astype(np.float32)\n  attribute `b`: expected F32, got S64; pass np.float32(value)
// RUN-UPSTREAM two_problems {b = 1 : i64} s32[1]=1 -> f32[1] !! INVALID_ARGUMENT got S32Wrong
static ffi::Error TwoProblems(ffi::Buffer<ffi::F32>, ffi::ResultBuffer<ffi::F32>, float) {
  return {};
}
#if OURS
XLA_FFI_DEFINE_HANDLER_SYMBOL(two_problems, TwoProblems,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>("x")
                                  .Ret<ffi::Buffer<ffi::F32>>("y")
                                  .Attr<float>("b"));
#else
XLA_FFI_DEFINE_HANDLER_SYMBOL(two_problems, TwoProblems,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<float>("b"));
#endif

// If a handler binds no operands of a kind, operands of that kind are not counted
// RUN uncounted {} f32[1]=1 -> f32[0] ==
// RUN uncounted {n = 1 : i64} -> ==
static ffi::Error Uncounted() { return {}; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(uncounted, Uncounted, ffi::Ffi::Bind());

#if OURS
// `contains<T>`, `isa<T>` and variants of spans, pointers, dictionaries, enums and structs do not compile with
// upstream's headers.
enum class Mode : int32_t { kFast = 0, kExact = 1 };
enum class Strict : int32_t { kOff = 0, kOn = 1 };
struct Range {
  int64_t lo, hi;
};
struct Loose {
  int64_t n;
  std::optional<double> x;
};
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(Mode);
XLA_FFI_REGISTER_ENUM_RANGE_ATTR_DECODING(Strict, Strict::kOff, Strict::kOn);
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Range, xla::ffi::StructMember<int64_t>("lo"),
                                      xla::ffi::StructMember<int64_t>("hi"));
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Loose, xla::ffi::StructMember<int64_t>("n"),
                                      xla::ffi::StructMember<std::optional<double>>("x"));
// RUN-OURS contains {d = {a = 1 : i64}, m = 1 : i32, p = 8 : i64, r = {hi = 2 : i64, lo = 1 : i64}, v = array<i64: 1>} -> s64[8] == 1,1,1,1,1,0,0,0
static ffi::Error Contains(ffi::ResultBufferR1<ffi::S64> y, ffi::Dictionary dict) {
  Put(y, {dict.contains<ffi::Dictionary>("d"), dict.contains<Mode>("m"),
          dict.contains<ffi::Pointer<int>>("p"), dict.contains<Range>("r"),
          dict.contains<ffi::Span<const int64_t>>("v"), dict.contains<Range>("d"),
          dict.contains<Mode>("p"), dict.contains<ffi::Span<const float>>("v")});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(contains, Contains,
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attrs());
using Any = std::variant<Mode, Range, ffi::Span<const int64_t>, ffi::Dictionary>;
// RUN-OURS variant_of_all {v = 1 : i32} -> s64[1] == 0
// RUN-OURS variant_of_all {v = {hi = 2 : i64, lo = 1 : i64}} -> s64[1] == 1
// RUN-OURS variant_of_all {v = array<i64: 1>} -> s64[1] == 2
// RUN-OURS variant_of_all {v = {}} -> s64[1] == 3
static ffi::Error VariantOfAll(ffi::ResultBufferR1<ffi::S64> y, Any v) {
  Put(y, {Int(v.index())});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(variant_of_all, VariantOfAll,
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<Any>("v"));

// Enums with a range of values
// RUN-OURS strict_enum {e = 1 : i32} -> s64[1] == 1
// RUN-OURS strict_enum {e = 7 : i32} -> s64[1] !! INVALID_ARGUMENT attribute `e`: expected a value from 0 to 1, got 7
static ffi::Error StrictEnum(ffi::ResultBufferR1<ffi::S64> y, Strict e) {
  Put(y, {static_cast<int64_t>(e)});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(strict_enum, StrictEnum,
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<Strict>("e"));

// Optional attributes, and optional fields of structs
// RUN-OURS optional_attrs {n = 2 : i64} -> f64[2] == 2,-1
// RUN-OURS optional_attrs {n = 2 : i64, x = 0.5} -> f64[2] == 2,0.5
// RUN-OURS optional_attrs {x = 0.5} -> f64[2] !! INVALID_ARGUMENT missing attribute `n`
// RUN-OURS optional_attrs {n = 2 : i64, z = 0.5} -> f64[2] !! INVALID_ARGUMENT unknown attribute `z`; remove it
// RUN-OURS optional_attrs {n = 2 : i64, x = 1 : i64} -> f64[2] !! INVALID_ARGUMENT attribute `x`: expected F64, got S64
static ffi::Error OptionalAttrs(ffi::ResultBufferR1<ffi::F64> y, int64_t n,
                                std::optional<double> x) {
  y->typed_data()[0] = static_cast<double>(n);
  y->typed_data()[1] = x.value_or(-1);
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(optional_attrs, OptionalAttrs,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::F64>>()
                                  .Attr<int64_t>("n")
                                  .Attr<std::optional<double>>("x"));
// RUN-OURS optional_fields {n = 2 : i64} -> f64[2] == 2,-1
// RUN-OURS optional_fields {n = 2 : i64, x = 0.5} -> f64[2] == 2,0.5
// RUN-OURS optional_fields {n = 2 : i64, z = 0.5} -> f64[2] !! INVALID_ARGUMENT unknown entry `z`; remove it
static ffi::Error OptionalFields(ffi::ResultBufferR1<ffi::F64> y, Loose loose) {
  return OptionalAttrs(y, loose.n, loose.x);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(optional_fields, OptionalFields);

// Optional context values do not increase the handler's minimum version
// RUN-OURS optional_context run-id=3 {} -> s64[1] == 1
static ffi::Error OptionalContext(std::optional<ffi::RunId> id, std::optional<int32_t> ordinal,
                                  ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {!id.has_value() || id->run_id == 3 || ordinal.has_value()});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(optional_context, OptionalContext,
                              ffi::Ffi::Bind()
                                  .Ctx<std::optional<ffi::RunId>>()
                                  .Ctx<std::optional<ffi::DeviceOrdinal>>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());

// A task that is passed to the thread pool as an lvalue
// RUN-OURS named_task from=r1 {} -> s64[1] == 2
static ffi::Error NamedTask(ffi::ThreadPool pool, ffi::ResultBufferR1<ffi::S64> y) {
  std::atomic<int64_t> done{0};
  auto task = [&done] { ++done; };
  pool.Schedule(task);
  pool.Schedule(std::as_const(task));
  while (done < 2) std::this_thread::yield();
  Put(y, {done});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    named_task, NamedTask,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Ret<ffi::BufferR1<ffi::S64>>());

// A promise that is dropped, or owned by a task that throws, is an error instead of an endless wait
// RUN-OURS dropped_promise {} -> !! INTERNAL a promise was dropped before it was completed
static ffi::Future DroppedPromise() {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([promise] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(dropped_promise, DroppedPromise, ffi::Ffi::Bind());
// RUN-OURS throwing_task from=r1 {} -> !! INTERNAL a promise was dropped before it was completed
static ffi::Future ThrowingTask(ffi::ThreadPool pool) {
  ffi::Promise promise;
  ffi::Future future(promise);
  pool.Schedule([promise] { throw 1; });
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(throwing_task, ThrowingTask,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>());

// If a callback of a future throws, the other callbacks still run, and completing or dropping the promise succeeds
// RUN-OURS throwing_waiter_later {} -> !! INTERNAL a promise was dropped before it was completed
static ffi::Future ThrowingWaiterLater() {
  ffi::Promise promise;
  ffi::Future future(promise);
  ffi::Future(promise).OnReady([](const std::optional<ffi::Error>&) { throw 1; });
  std::thread([promise = std::move(promise)]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ffi::Promise dropped = std::move(promise);
  }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(throwing_waiter_later, ThrowingWaiterLater, ffi::Ffi::Bind());

// Destructors that throw: the destructor of a task, and that of an object that the host destroys
struct Bomb {
  Bomb() = default;
  Bomb(Bomb&& other) : armed(std::exchange(other.armed, false)) {}
  ~Bomb() noexcept(false) {
    if (armed) throw std::runtime_error("a destructor");
  }
  bool armed = true;
};
// RUN-OURS throwing_destructors from=r1 {} -> s64[1] == 2
static ffi::Error ThrowingDestructors(ffi::ThreadPool pool, ffi::ResultBufferR1<ffi::S64> y) {
  std::atomic<int64_t> done{0};
  pool.Schedule([bomb = Bomb(), &done] { ++done; });
  pool.Schedule([bomb = Bomb(), &done] { throw ++done; });
  while (done < 2) std::this_thread::yield();
  ffi::MakeTypeInfo<Bomb>().deleter(new Bomb);
  Put(y, {done});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(throwing_destructors, ThrowingDestructors,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Ret<ffi::BufferR1<ffi::S64>>());

// Exceptions of any type become errors
// RUN-OURS throws {n = 0 : i64} -> !! INTERNAL throws (execute): C++ exception: boom
// RUN-OURS throws {n = 1 : i64} -> !! INTERNAL throws (execute): C++ exception: of a type that is not std::exception
// RUN-OURS throws {n = 2 : i64} -> !! INTERNAL throws (execute): C++ exception: text
// RUN-OURS throws {n = 3 : i64} -> !! RESOURCE_EXHAUSTED throws (execute): out of memory
static ffi::Error Throws(int64_t n) {
  if (n == 0) throw std::runtime_error("boom");
  if (n == 1) throw 42;
  if (n == 2) throw "text";
  throw std::bad_alloc();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(throws, Throws, ffi::Ffi::Bind().Attr<int64_t>("n"));

// An error message with bytes that Python cannot display
// RUN-OURS bad_bytes {} -> !! INTERNAL a\x00b\xff
static ffi::Error BadBytes() { return ffi::Error::Internal(std::string("a\0b\xff", 4)); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(bad_bytes, BadBytes);

// Promises and futures used by several threads: each waiter is called once, even if futures are completed or created
// concurrently.
// RUN-OURS many_threads {} -> ==
SELF_TEST(many_threads) {
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> called{0};
    const auto count = [&called](const std::optional<ffi::Error>&) { ++called; };
    {
      ffi::Promise promise;
      ffi::Future future(promise);
      std::thread complete([&] { promise.SetAvailable(); });
      std::thread wait([&] { future.OnReady(count); });
      complete.join();
      wait.join();
      EXPECT(called == 1);
    }
    {
      const auto promise = std::make_shared<ffi::Promise>();
      const auto wait = [&count, promise] { ffi::Future(*promise).OnReady(count); };
      std::thread one(wait), two(wait);
      wait();
      std::thread complete([promise] { promise->SetAvailable(); });
      one.join();
      two.join();
      complete.join();
      EXPECT(called == 4);
    }
  }
  return {};
}

// Element types that upstream cannot bind
// RUN-OURS typed_f8 {} f8e5m2[2]=1,2 -> s64[2] == 2,2
static ffi::Error TypedF8(ffi::BufferR1<ffi::F8E5M2> x, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {Int(x.element_count()), Int(x.size_bytes())});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(typed_f8, TypedF8);
// RUN-OURS typed_s4 from=r5 {} s4[3]=1,-2,3 -> s64[2] == 3,2
static ffi::Error TypedS4(ffi::BufferR1<ffi::S4> x, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {Int(x.element_count()), Int(x.packed_data().size())});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(typed_s4, TypedS4);

// Attributes that are arrays of bool, or std::string
// RUN-OURS more_attributes {s = "abc", v = dense<[true, false]> : tensor<2xi1>} -> s64[2] == 3,2
static ffi::Error MoreAttributes(ffi::ResultBufferR1<ffi::S64> y, std::string s,
                                 ffi::Span<const bool> v) {
  Put(y, {Int(s.size()), Int(v.size())});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(more_attributes, MoreAttributes,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .Attr<std::string>("s")
                                  .Attr<ffi::Span<const bool>>("v"));

// The library registers a state type that its caller does not register
struct Own {
  static ffi::TypeId id;
  int64_t value;
};
ffi::TypeId Own::id = {};
static ffi::ErrorOr<std::unique_ptr<Own>> NewOwn(int64_t n) {
  return std::make_unique<Own>(Own{n});
}
static ffi::Error UseOwn(Own* own, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {own->value++});
  return {};
}
// RUN-OURS own_state,instantiate=own_state_instantiate from=r1 calls=2 {n = 4 : i64} -> s64[1] == 5
XLA_FFI_DEFINE_HANDLER_SYMBOL(own_state_instantiate, NewOwn,
                              ffi::Ffi::BindInstantiate().Attr<int64_t>("n"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    own_state, UseOwn, ffi::Ffi::Bind().Ctx<ffi::State<Own>>().Ret<ffi::BufferR1<ffi::S64>>());
// RUN-OURS own_prepared,prepare=own_prepare from=r8 {n = 4 : i64} -> s64[1] == 4
XLA_FFI_DEFINE_HANDLER_SYMBOL(own_prepare, NewOwn,
                              ffi::Ffi::BindPrepare().Attr<int64_t>("n"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    own_prepared, UseOwn,
    ffi::Ffi::Bind().Ctx<ffi::Prepared<Own>>().Ret<ffi::BufferR1<ffi::S64>>());

// Optional state is empty if no state was set. State of a different type is an error
struct Counted {
  static ffi::TypeId id;
};
ffi::TypeId Counted::id = {};
static ffi::ErrorOr<std::unique_ptr<Counted>> NewCounted() { return std::make_unique<Counted>(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(counted_instantiate, NewCounted, ffi::Ffi::BindInstantiate());
// RUN-OURS maybe_state only=r1 {} -> s64[1] == -1
// RUN-OURS maybe_state,instantiate=own_state_open only=r1 {} -> s64[1] == 4
// RUN-OURS maybe_state,instantiate=counted_instantiate only=r1 {} -> s64[1] !! INVALID_ARGUMENT type id
static ffi::ErrorOr<std::unique_ptr<Own>> OpenOwn() { return NewOwn(4); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(own_state_open, OpenOwn, ffi::Ffi::BindInstantiate());
static ffi::Error MaybeState(std::optional<Own*> own, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {own.has_value() ? (*own)->value : -1});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(maybe_state, MaybeState,
                              ffi::Ffi::Bind()
                                  .Ctx<std::optional<ffi::State<Own>>>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());

// All operands of a declared handler are counted
// RUN-OURS counted {} -> ==
// RUN-OURS counted {} f32[1]=1 -> !! INVALID_ARGUMENT expected 0 arguments, got 1
// RUN-OURS counted {} -> f32[1] !! INVALID_ARGUMENT expected 0 results, got 1
// RUN-OURS counted {n = 1 : i64} -> !! INVALID_ARGUMENT attribute
XLA_FFI_DEFINE_HANDLER_SYMBOL(counted, Uncounted, ffi::Ffi::Bind().HostOnly());

// A future that is ready when the handler returns needs no host functions
// RUN-OURS ready_future {} -> ==
SELF_TEST(ready_future) {
  using Encoding = ffi::ResultEncoding<ffi::ExecutionStage::kExecute, ffi::Future>;
  ffi::Promise promise;
  ffi::Future future(promise);
  promise.SetAvailable();
  // The table has no functions for futures, so creating one would fail.
  auto told = Encoding::Encode(Host::Api(), nullptr, std::move(future));
  EXPECT(told.index() == 0 && std::get<0>(told) == nullptr);
  return {};
}

// Complex scalars and arrays, and bit widths of packed elements
static_assert(ffi::BitWidth(ffi::DataType::S4) == 4 && ffi::BitWidth(ffi::DataType::F32) == 32);
// RUN-OURS complex_attrs {s = (1.0, 2.0) : complex<f64>, v = dense<[(3.0, 4.0)]> : tensor<1xcomplex<f32>>} -> f64[4] == 1,2,3,4
static ffi::Error ComplexAttrs(ffi::ResultBufferR1<ffi::F64> y, std::complex<double> s,
                               ffi::Span<const std::complex<float>> v) {
  const double values[] = {s.real(), s.imag(), v[0].real(), v[0].imag()};
  std::copy(std::begin(values), std::end(values), y->typed_data());
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(complex_attrs, ComplexAttrs,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::F64>>()
                                  .Attr<std::complex<double>>("s")
                                  .Attr<ffi::Span<const std::complex<float>>>("v"));

// Automatic binding of every parameter type that can be bound without a declaration
// RUN-OURS all_automatic {} f32[1]=1 -> s64[3] == 1,0,1
// RUN-OURS all_automatic {} f32[1]=1 f32[1]=1 s32[1]=1 -> s64[3] == 2,1,1
static ffi::Error AllAutomatic(ffi::Context context, ffi::AnyBuffer, std::optional<ffi::BufferR1<ffi::F32>> m,
                               ffi::RemainingArgs rest, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {m.has_value() ? 2 : 1, Int(rest.size()), context.api() != nullptr});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(all_automatic, AllAutomatic);
#endif  // OURS
