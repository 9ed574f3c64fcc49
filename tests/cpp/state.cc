// Tests of state, stages and metadata. Comments name the corresponding upstream tests. See operands.cc for the RUN
// lines.
#include "common.h"

// Upstream's StatefulHandler. The library exports the type, so that callers can register it.
struct Counter {
  static ffi::TypeId id;
  explicit Counter(int64_t start) : value(start) { ++made; }
  ~Counter() { ++dropped; }
  int64_t value;
  static inline std::atomic<int64_t> made{0}, dropped{0};
};
ffi::TypeId Counter::id = {};
XLA_FFI_DECLARE_TYPE_ID_SYMBOL(counter_type_id);
XLA_FFI_TypeId* counter_type_id() { return &Counter::id; }
XLA_FFI_DECLARE_TYPE_INFO_SYMBOL(counter_type_info);
const XLA_FFI_TypeInfo* counter_type_info() {
  static constexpr auto kInfo = ffi::MakeTypeInfo<Counter>();
  return &kInfo;
}

static ffi::ErrorOr<std::unique_ptr<Counter>> NewCounter(int64_t start) {
  if (start < 0) return ffi::Unexpected(ffi::Error::InvalidArgument("start is negative"));
  return std::make_unique<Counter>(start);
}
static ffi::Error Count(Counter* counter, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {counter->value++});
  return ffi::Error::Success();
}
// RUN counter,instantiate=counter_instantiate from=r1 type=counter calls=3 {start = 5 : i64} -> s64[1] == 7
// RUN counter,instantiate=counter_instantiate from=r1 type=counter {start = -1 : i64} -> s64[1] !! INVALID_ARGUMENT start is negative
// RUN counter from=r1 type=counter {start = 5 : i64} -> s64[1] !! INVALID_ARGUMENT failed to get state
XLA_FFI_DEFINE_HANDLER_SYMBOL(counter_instantiate, NewCounter,
                              ffi::Ffi::BindInstantiate().Attr<int64_t>("start"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    counter, Count,
    ffi::Ffi::Bind().Ctx<ffi::State<Counter>>().Ret<ffi::BufferR1<ffi::S64>>());

// A pointer to const state
// RUN counter_peek,instantiate=counter_instantiate from=r1 type=counter calls=3 {start = 5 : i64} -> s64[1] == 5
static ffi::Error Peek(const Counter* counter, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {counter->value});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    counter_peek, Peek,
    ffi::Ffi::Bind().Ctx<ffi::State<const Counter>>().Ret<ffi::BufferR1<ffi::S64>>());

// Every state is destroyed. This case runs after the other cases of this file.
// LAST counter_balance {} -> s64[1] == 0
static ffi::Error Balance(ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {Counter::made - Counter::dropped});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(counter_balance, Balance,
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>());

// Upstream's Prepared and Initialized: stages as template arguments
static ffi::ErrorOr<std::unique_ptr<Counter>> PrepareTen() { return std::make_unique<Counter>(10); }
static ffi::ErrorOr<std::unique_ptr<Counter>> InitializeTwenty(Counter* prepared) {
  return std::make_unique<Counter>(prepared->value + 10);
}
static ffi::Error Stages(Counter* instantiated, Counter* prepared, Counter* initialized,
                         ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {instantiated->value, prepared->value, initialized->value});
  return ffi::Error::Success();
}
// RUN stages,instantiate=counter_instantiate,prepare=stages_prepare,initialize=stages_initialize from=r8 type=counter {start = 5 : i64} -> s64[3] == 5,10,20
XLA_FFI_DEFINE_HANDLER_SYMBOL(stages_prepare, PrepareTen,
                              ffi::Ffi::Bind<ffi::ExecutionStage::kPrepare>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(stages_initialize, InitializeTwenty,
                              ffi::Ffi::BindInitialize().Ctx<ffi::Prepared<Counter>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(stages, Stages,
                              ffi::Ffi::BindExecute()
                                  .Ctx<ffi::State<Counter>>()
                                  .Ctx<ffi::Prepared<Counter>>()
                                  .Ctx<ffi::Initialized<Counter>>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());

// A handler that is called in a wrong stage
// RUN counter_instantiate type=counter {start = 5 : i64} -> s64[1] !! INVALID_ARGUMENT counter_instantiate (instantiate): called in stage execute; register each function

// Upstream's MetadataTraits and DefineAutoSymbol: traits as a macro argument
// TRAITS with_traits 1
// TRAITS without_traits 0
// RUN with_traits {} f32[1]=1 -> f32[0] ==
static ffi::Error Nothing(ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>) { return {}; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(with_traits, Nothing,
                              ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>(),
                              {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_DEFINE_HANDLER_SYMBOL(without_traits, Nothing);
