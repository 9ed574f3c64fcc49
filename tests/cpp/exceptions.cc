// Exceptions of code of the user's that is no handler's function: decoders, constructors, destructors. See operands.cc for
// the RUN lines.
#include "common.h"

#if OURS
#if defined(__GLIBCXX__)
#include <pthread.h>
#endif
// What a test has its decoders throw, by the attribute.
static void Throw(int64_t what) {
  if (what == 1) throw std::invalid_argument("thrown here");
  if (what == 2) throw std::string("thrown here");
  if (what == 3) throw 3;
}

// A decoder of the user's.
struct Hex {
  int64_t n;
};
template <>
struct xla::ffi::AttrDecoding<Hex> {
  using Type = Hex;
  static std::optional<Hex> Decode(XLA_FFI_AttrType type, void* attr, DiagnosticEngine& diagnostic) {
    auto n = AttrDecoding<int64_t>::Decode(type, attr, diagnostic);
    if (!n.has_value()) return std::nullopt;
    Throw(*n);
    return Hex{*n};
  }
};
// RUN-OURS thrown_decoder {h = 0 : i64} -> s64[1] == 0
// RUN-OURS thrown_decoder {h = 1 : i64} -> s64[1] !! INTERNAL thrown_decoder: a C++ exception: thrown here
// RUN-OURS thrown_decoder {h = 2 : i64} -> s64[1] !! INTERNAL thrown_decoder: a C++ exception: thrown here
// RUN-OURS thrown_decoder {h = 3 : i64} -> s64[1] !! INTERNAL thrown_decoder: a C++ exception of a type that is not std::exception
static ffi::Error ThrownDecoder(Hex h, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {h.n});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_decoder, ThrownDecoder,
                              ffi::Ffi::Bind().Attr<Hex>("h").Ret<ffi::BufferR1<ffi::S64>>());

// While another attribute is told to be wrong, this one throws
// RUN-OURS thrown_beside {h = 2 : i64, n = 0.5 : f32} -> s64[1] !! INTERNAL thrown_beside: a C++ exception: thrown here
static ffi::Error ThrownBeside(int64_t, Hex h, ffi::ResultBufferR1<ffi::S64> y) { return ThrownDecoder(h, y); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_beside, ThrownBeside,
                              ffi::Ffi::Bind().Attr<int64_t>("n").Attr<Hex>("h").Ret<ffi::BufferR1<ffi::S64>>());

// Within a dictionary and a variant, and as one that may be absent
// RUN-OURS thrown_optional {h = 1 : i64} -> s64[1] !! INTERNAL thrown_optional: a C++ exception: thrown here
// RUN-OURS thrown_optional {} -> s64[1] == -1
static ffi::Error ThrownOptional(std::optional<Hex> h, ffi::ResultBufferR1<ffi::S64> y) {
  return ThrownDecoder(h.value_or(Hex{-1}), y);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_optional, ThrownOptional,
                              ffi::Ffi::Bind().Attr<std::optional<Hex>>("h").Ret<ffi::BufferR1<ffi::S64>>());
// RUN-OURS thrown_in_dictionary {h = 1 : i64} -> s64[1] !! INTERNAL thrown_in_dictionary: a C++ exception: thrown here
static ffi::Error ThrownInDictionary(ffi::Dictionary d, ffi::ResultBufferR1<ffi::S64> y) {
  auto h = d.get<Hex>("h");
  return h.has_error() ? h.error() : ThrownDecoder(*h, y);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_in_dictionary, ThrownInDictionary,
                              ffi::Ffi::Bind().Attrs().Ret<ffi::BufferR1<ffi::S64>>());

// Constructors of structs: of one whose fields lie ready, and of one whose fields are decoded first
struct Ordered {
  Ordered(int64_t l, int64_t h) : lo(l), hi(h) {
    if (hi < lo) Throw(1);
  }
  int64_t lo, hi;
};
struct Named {
  Named(std::string s, std::optional<int64_t> h) : text(std::move(s)), hi(h.value_or(0)) { Throw(hi); }
  std::string text;
  int64_t hi;
};
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Ordered, xla::ffi::StructMember<int64_t>("lo"), xla::ffi::StructMember<int64_t>("hi"));
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Named, xla::ffi::StructMember<std::string>("text"),
                                      xla::ffi::StructMember<std::optional<int64_t>>("hi"));
// RUN-OURS thrown_ordered {hi = 1 : i64, lo = 2 : i64} -> s64[1] !! INTERNAL thrown_ordered: a C++ exception: thrown here
static ffi::Error ThrownOrdered(Ordered r, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {r.hi - r.lo});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_ordered, ThrownOrdered,
                              ffi::Ffi::Bind().Attrs<Ordered>().Ret<ffi::BufferR1<ffi::S64>>());
// RUN-OURS thrown_named {r = {hi = 0 : i64, text = "a"}} -> s64[1] == 1
// RUN-OURS thrown_named {r = {hi = 2 : i64, text = "a"}} -> s64[1] !! INTERNAL thrown_named: a C++ exception: thrown here
static ffi::Error ThrownNamed(const Named& r, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {Int(r.text.size())});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_named, ThrownNamed,
                              ffi::Ffi::Bind().Attr<Named>("r").Ret<ffi::BufferR1<ffi::S64>>());

// Operands and parts of the context that the user decodes
struct Odd {};
struct Thrower {};
template <>
struct xla::ffi::ArgDecoding<Odd> {
  static std::optional<Odd> Decode(XLA_FFI_ArgType, void*, DiagnosticEngine&) {
    Throw(2);
    return Odd{};
  }
};
template <>
struct xla::ffi::CtxDecoding<Thrower> {
  using Type = int64_t;
  static std::optional<int64_t> Decode(const XLA_FFI_Api*, XLA_FFI_ExecutionContext*, DiagnosticEngine&) {
    Throw(3);
    return 0;
  }
};
// RUN-OURS thrown_argument {} f32[1]=1 -> !! INTERNAL thrown_argument: a C++ exception: thrown here
static ffi::Error ThrownArgument(Odd) { return {}; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_argument, ThrownArgument, ffi::Ffi::Bind().Arg<Odd>());
// RUN-OURS thrown_context {} -> !! INTERNAL thrown_context: a C++ exception of a type that is not std::exception
static ffi::Error ThrownContext(int64_t) { return {}; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_context, ThrownContext, ffi::Ffi::Bind().Ctx<Thrower>());

// State whose destructor throws, on hosts that do not take it: they have no state, no number for its type, or it is set
struct Bomb {
  static ffi::TypeId id;
  ~Bomb() noexcept(false) {
    ++ended;
    throw std::runtime_error("thrown by a destructor");
  }
  static inline int ended = 0;
};
ffi::TypeId Bomb::id{};
static XLA_FFI_Error* Refuse() { return reinterpret_cast<XLA_FFI_Error*>(0x10); }
static XLA_FFI_Error* Create(XLA_FFI_Error_Create_Args*) { return Refuse(); }
static XLA_FFI_Error* Set(XLA_FFI_State_Set_Args*) { return Refuse(); }
static XLA_FFI_Error* Register(XLA_FFI_Type_Register_Args* args) {
  args->type_id->type_id = 1;
  return nullptr;
}
static XLA_FFI_Error* DoNotRegister(XLA_FFI_Type_Register_Args*) { return Refuse(); }
template <typename T>
static bool IsRefused(const XLA_FFI_Api* api) {
  using Encoding = ffi::ResultEncoding<ffi::ExecutionStage::kInstantiate, ffi::ErrorOr<std::unique_ptr<T>>>;
  Bomb::ended = 0;
  ffi::ErrorOr<std::unique_ptr<T>> state(std::unique_ptr<T>(new T()));
  return Encoding::Encode(api, nullptr, std::move(state)) == Refuse() && Bomb::ended == 1;
}
// RUN-OURS thrown_by_state {} -> ==
SELF_TEST(thrown_by_state) {
  static XLA_FFI_Api set, unregistered, old;
  set.struct_size = unregistered.struct_size = XLA_FFI_Api_STRUCT_SIZE;
  set.api_version.minor_version = unregistered.api_version.minor_version = 5;
  set.XLA_FFI_Error_Create = unregistered.XLA_FFI_Error_Create = Create;
  set.XLA_FFI_State_Set = Set;
  set.XLA_FFI_Type_Register = Register;
  unregistered.XLA_FFI_Type_Register = DoNotRegister;
  old = unregistered;
  old.struct_size = XLA_FFI_SDK_SIZE_R0;
  old.api_version.minor_version = 0;
  EXPECT(IsRefused<Bomb>(&set) && IsRefused<const Bomb>(&set));
  EXPECT(IsRefused<Bomb>(&unregistered));
  EXPECT(IsRefused<Bomb>(&old));
  return {};
}

// The end of a thread in a range of a loop: the loop is left, and no task touches its stack any more. Where it was a thread
// of the pool its range is not done, which whoever runs the loop is told
#if defined(__GLIBCXX__)
struct Ending {
  using Task = std::pair<XLA_FFI_Task*, void*>;
  std::vector<Task> late;
  std::vector<pthread_t> threads;
  pthread_t caller = pthread_self();
  bool left = false, told = false;

  static void* Begin(void* data) {
    const std::unique_ptr<Task> task(static_cast<Task*>(data));
    task->first(task->second);
    return nullptr;
  }
  void Join() {
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
    threads.clear();
  }
  // A thread whose range 3 ends it. Tasks of the pool run when it has ended.
  static void* Caller(void* data) {
    auto* const ending = static_cast<Ending*>(data);
    struct Guard {
      bool& left;
      ~Guard() { left = true; }
    } guard{ending->left};
    const auto body = [](void*, int64_t begin, int64_t) {
      if (begin == 3) pthread_exit(nullptr);
    };
    ffi::internal::Loop::Run(100, 1, 2, body, nullptr, [ending](XLA_FFI_Task* task, void* argument) {
      ending->late.emplace_back(task, argument);
      return true;
    });
    return data;
  }
};
#endif
// RUN-OURS thread_ends {} -> ==
SELF_TEST(thread_ends) {
#if defined(__GLIBCXX__)
  Ending ending;
  pthread_t thread;
  EXPECT(pthread_create(&thread, nullptr, &Ending::Caller, &ending) == 0);
  void* returned = &ending;
  EXPECT(pthread_join(thread, &returned) == 0 && returned == nullptr && ending.left);
  EXPECT(ending.late.size() == 2);
  for (const Ending::Task& task : ending.late) task.first(task.second);
#endif
  return {};
}
// RUN-OURS pool_thread_ends {} -> ==
SELF_TEST(pool_thread_ends) {
#if defined(__GLIBCXX__)
  Ending ending;
  const auto body = [](void* data, int64_t, int64_t) {
    auto* const at = static_cast<Ending*>(data);
    if (pthread_equal(pthread_self(), at->caller) == 0) pthread_exit(nullptr);
    at->Join();
  };
  const auto schedule = [&](XLA_FFI_Task* task, void* argument) {
    pthread_t thread;
    auto made = std::make_unique<Ending::Task>(task, argument);
    if (pthread_create(&thread, nullptr, &Ending::Begin, made.get()) != 0) return false;
    static_cast<void>(made.release());
    ending.threads.push_back(thread);
    return true;
  };
  // Until a thread of the pool had a range.
  for (int i = 0; i < 1000 && !ending.told; ++i) {
    try {
      ffi::internal::Loop::Run(100, 1, 2, body, &ending, schedule);
    } catch (const std::runtime_error&) {
      ending.told = true;
    }
    ending.Join();
  }
  EXPECT(ending.told);
#endif
  return {};
}
#endif
