// The context types of the internal API: stream, device allocator, thread pool, execution context and called
// computations of the embedded runtime. Part of <xla/ffi/ffi.h>.
#ifndef XLA_FFI_SDK_CPP_INVOCATION_H_
#define XLA_FFI_SDK_CPP_INVOCATION_H_

#include "xla_ffi/cpp/context.h"
#include "xla_ffi/cpp/state.h"
#include "xla_ffi/cpp/status.h"
#include "xla_ffi/cpp/thread_pool.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

// Context tags, with the parameter type of the handler in a comment. Stream and Invocation have no separate tags.
struct Allocator {};          // DeviceAllocator
struct IntraOpThreadPool {};  // ThreadPool
struct CalledComputation {};  // Called
struct FfiApi {};             // const XLA_FFI_Api*, the runtime's function table

XLA_FFI_SDK_INTERNAL_BEGIN

// Returns the runtime's view of a call. On failure, reports the problem and returns null. The caller has checked that
// the host is the runtime.
XLA_FFI_SDK_COLD inline const xffi_rt_invocation* InvocationOf(const XLA_FFI_Api* api,
                                                               XLA_FFI_InvokeContext* ctx,
                                                               DiagnosticEngine& diagnostic) {
  const xffi_rt_invocation* invocation = nullptr;
  xffi_rt_status* status = xffi_rt_invocation_of(api, ctx, XFFI_RT_IMAGE, &invocation);
  if (XLA_FFI_PREDICT_TRUE(status == nullptr)) return invocation;
  DiagnosticAccess::Add(diagnostic, xffi_rt_status_code(status)) << xffi_rt_status_message(status);
  xffi_rt_status_destroy(status);
  return nullptr;
}

XLA_FFI_SDK_COLD inline std::nullopt_t DiagnoseNone(DiagnosticEngine& diagnostic,
                                                    const char* what) {
  DiagnosticAccess::Add(diagnostic, XLA_FFI_Error_Code_UNIMPLEMENTED)
      << "this call's context has no " << what;
  return std::nullopt;
}

// A closure that runs once and is then destroyed. An exception ends only the closure.
template <typename F>
struct Once {
  static void Run(void* data) {
    F* const task = static_cast<F*>(data);
    Contain("a task", *task);
    DestroyContained(task);
  }
};

// Passes a closure to a function of the runtime. If the function fails, destroys the closure.
template <typename Function, typename F>
XLA_FFI_SDK_FN Status PassClosure(Function function, F&& f) {
  using Task = std::decay_t<F>;
  auto task = std::make_unique<Task>(std::forward<F>(f));
  Status status = TakeStatus(function(&Once<Task>::Run, task.get()));
  if (status.ok()) static_cast<void>(task.release());
  return status;
}

XLA_FFI_SDK_INTERNAL_END

// A stream of a device, bound as `Ctx<Stream>`. Copies share the same stream, and may outlive the call.
class XLA_FFI_SDK_TYPE Stream {
 public:
  // Returns the platform's handle of the stream, for example a CUstream.
  XLA_FFI_SDK_FN void* platform_specific_handle() const {
    return xffi_rt_device_stream_handle(stream_.get());
  }
  // Runs `f()` on a thread of the stream, after all previous work. Returns FAILED_PRECONDITION if the runtime only
  // knows the platform's handle of the stream.
  template <typename F>
  XLA_FFI_SDK_FN Status Enqueue(F&& f) const {
    xffi_rt_device_stream* const stream = stream_.get();
    return internal::PassClosure(
        [stream](XLA_FFI_Task* task, void* data) {
          return xffi_rt_device_stream_enqueue(stream, task, data);
        },
        std::forward<F>(f));
  }
  // Waits until all work on the stream has run. Returns FAILED_PRECONDITION on the stream's own thread.
  XLA_FFI_SDK_FN Status BlockHostUntilDone() const {
    return TakeStatus(xffi_rt_device_stream_synchronize(stream_.get()));
  }

 private:
  friend struct CtxDecoding<Stream>;
  XLA_FFI_SDK_FN explicit Stream(xffi_rt_device_stream* stream)
      : stream_(stream, xffi_rt_device_stream_destroy) {}

  std::shared_ptr<xffi_rt_device_stream> stream_;
};

template <>
struct CtxDecoding<Stream> {
  using Type = Stream;
  XLA_FFI_SDK_FN static std::optional<Stream> Decode(const XLA_FFI_Api* api,
                                                     XLA_FFI_InvokeContext* ctx,
                                                     DiagnosticEngine& diagnostic) {
    const xffi_rt_invocation* call = internal::InvocationOf(api, ctx, diagnostic);
    if (call == nullptr) return std::nullopt;
    xffi_rt_device_stream* stream = xffi_rt_invocation_stream(call);
    if (stream == nullptr) return internal::DiagnoseNone(diagnostic, "stream");
    return Stream(stream);
  }
};

// An allocator of device memory. Copies share the same allocator, and may outlive the call. Memory is not freed
// automatically; use ScratchAllocator for memory that is freed when the handler returns.
class XLA_FFI_SDK_TYPE DeviceAllocator {
 public:
  XLA_FFI_SDK_FN StatusOr<void*> Allocate(size_t size, size_t alignment = 64) const {
    void* data = nullptr;
    Status status =
        TakeStatus(xffi_rt_allocator_allocate(allocator_.get(), size, alignment, &data));
    if (!status.ok()) return status;
    return data;
  }
  XLA_FFI_SDK_FN void Deallocate(void* data, size_t size) const {
    xffi_rt_allocator_free(allocator_.get(), data, size);
  }

 private:
  friend struct CtxDecoding<Allocator>;
  XLA_FFI_SDK_FN explicit DeviceAllocator(xffi_rt_allocator* allocator)
      : allocator_(allocator, xffi_rt_allocator_destroy) {}

  std::shared_ptr<xffi_rt_allocator> allocator_;
};

template <>
struct CtxDecoding<Allocator> {
  using Type = DeviceAllocator;
  XLA_FFI_SDK_FN static std::optional<Type> Decode(const XLA_FFI_Api* api,
                                                   XLA_FFI_InvokeContext* ctx,
                                                   DiagnosticEngine& diagnostic) {
    const xffi_rt_invocation* call = internal::InvocationOf(api, ctx, diagnostic);
    if (call == nullptr) return std::nullopt;
    xffi_rt_allocator* allocator = xffi_rt_invocation_allocator(call);
    if (allocator == nullptr) return internal::DiagnoseNone(diagnostic, "device allocator");
    return DeviceAllocator(allocator);
  }
};

template <>
struct CtxDecoding<IntraOpThreadPool> : CtxDecoding<ThreadPool> {};

template <>
struct CtxDecoding<FfiApi> {
  using Type = const XLA_FFI_Api*;
  XLA_FFI_SDK_HOT static std::optional<Type> Decode(const XLA_FFI_Api* api,
                                                    XLA_FFI_InvokeContext*, DiagnosticEngine&) {
    return api;
  }
};

// The called computations of a program's custom call and its literal, or an object that the program attached to the
// call. Valid until the handler returns.
class XLA_FFI_SDK_TYPE Called {
 public:
  // Returns the object that the caller attached with SetCalledComputation; null if there is none, or if it is not a T.
  template <typename T>
  XLA_FFI_SDK_FN const T* get() const {
    return static_cast<const T*>(xffi_rt_invocation_called(call_, &internal::type_tag<T>));
  }
  // Return the number of called computations, and the computation at an index.
  XLA_FFI_SDK_FN size_t size() const { return xffi_rt_invocation_called_count(call_); }
  XLA_FFI_SDK_FN StatusOr<::xla::XlaComputation> computation(size_t index) const {
    xffi_rt_program* program = nullptr;
    Status status = TakeStatus(xffi_rt_invocation_called_program(call_, index, &program));
    if (!status.ok()) return status;
    return ::xla::XlaComputation(program);
  }
  // Returns a copy of the custom call's literal; NOT_FOUND if the call has none.
  XLA_FFI_SDK_FN StatusOr<::xla::Literal> literal() const {
    xffi_rt_array array{};
    Status status = TakeStatus(xffi_rt_invocation_literal(call_, &array));
    if (!status.ok()) return status;
    ::xla::Literal literal(
        ::xla::Shape(static_cast<::xla::PrimitiveType>(array.dtype),
                     std::vector<int64_t>(array.dims, array.dims + array.rank)));
    if (literal.size_bytes() > 0) {
      std::memcpy(literal.untyped_data(), array.data, literal.size_bytes());
    }
    return literal;
  }

 private:
  friend struct CtxDecoding<CalledComputation>;
  friend class Invocation;
  XLA_FFI_SDK_FN explicit Called(const xffi_rt_invocation* call) : call_(call) {}

  const xffi_rt_invocation* call_;
};

template <>
struct CtxDecoding<CalledComputation> {
  using Type = Called;
  XLA_FFI_SDK_FN static std::optional<Called> Decode(const XLA_FFI_Api* api,
                                                     XLA_FFI_InvokeContext* ctx,
                                                     DiagnosticEngine& diagnostic) {
    const xffi_rt_invocation* call = internal::InvocationOf(api, ctx, diagnostic);
    if (call == nullptr) return std::nullopt;
    return Called(call);
  }
};

// The execution context of a call, bound as `Ctx<Invocation>`. Valid until the handler returns.
class XLA_FFI_SDK_TYPE Invocation {
 public:
  // Returns the runtime that makes the call, for use with its C functions.
  XLA_FFI_SDK_FN std::shared_ptr<xffi_rt> runtime() const {
    return {xffi_rt_invocation_runtime(call_), xffi_rt_destroy};
  }
  XLA_FFI_SDK_FN ExecutionStage stage() const {
    return static_cast<ExecutionStage>(xffi_rt_invocation_stage(call_));
  }
  XLA_FFI_SDK_FN int64_t run_id() const { return xffi_rt_invocation_run_id(call_); }
  XLA_FFI_SDK_FN int32_t device_ordinal() const {
    return xffi_rt_invocation_device_ordinal(call_);
  }
  XLA_FFI_SDK_FN Called called() const { return Called(call_); }
  // Returns the user data of type T that the caller attached to the execution with ExecutionContext; NOT_FOUND if there
  // is none.
  template <typename T>
  XLA_FFI_SDK_FN StatusOr<T*> Lookup() const {
    return Get<UserData<T>>();
  }
  // Returns the value of a context tag, as a binding would with Ctx<Tag>: Stream, Allocator, IntraOpThreadPool and so
  // on.
  template <typename Tag>
  XLA_FFI_SDK_FN StatusOr<typename CtxDecoding<Tag>::Type> Get() const {
    DiagnosticEngine diagnostic;
    auto value = CtxDecoding<Tag>::Decode(api_, ctx_, diagnostic);
    if (!value.has_value()) return Status(internal::ErrorOf(diagnostic));
    return *std::move(value);
  }
  // Return the number of threads in the thread pool, and run a task on the pool.
  XLA_FFI_SDK_FN StatusOr<size_t> num_threads() const {
    size_t threads = 0;
    Status status = TakeStatus(xffi_rt_invocation_num_threads(call_, &threads));
    if (!status.ok()) return status;
    return threads;
  }
  template <typename F>
  XLA_FFI_SDK_FN Status Schedule(F&& f) const {
    const xffi_rt_invocation* const call = call_;
    return internal::PassClosure(
        [call](XLA_FFI_Task* task, void* data) {
          return xffi_rt_invocation_spawn(call, task, data);
        },
        std::forward<F>(f));
  }

 private:
  friend struct CtxDecoding<Invocation>;
  XLA_FFI_SDK_FN Invocation(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx,
                            const xffi_rt_invocation* call)
      : api_(api), ctx_(ctx), call_(call) {}

  const XLA_FFI_Api* api_;
  XLA_FFI_InvokeContext* ctx_;
  const xffi_rt_invocation* call_;
};

template <>
struct CtxDecoding<Invocation> {
  using Type = Invocation;
  XLA_FFI_SDK_FN static std::optional<Invocation> Decode(const XLA_FFI_Api* api,
                                                         XLA_FFI_InvokeContext* ctx,
                                                         DiagnosticEngine& diagnostic) {
    const xffi_rt_invocation* call = internal::InvocationOf(api, ctx, diagnostic);
    if (call == nullptr) return std::nullopt;
    return Invocation(api, ctx, call);
  }
};

template <>
struct CtxBinding<Stream> {
  using Ctx = Stream;
};
template <>
struct CtxBinding<DeviceAllocator> {
  using Ctx = Allocator;
};
template <>
struct CtxBinding<ThreadPool> {
  using Ctx = IntraOpThreadPool;
};
template <>
struct CtxBinding<Called> {
  using Ctx = CalledComputation;
};
template <>
struct CtxBinding<Invocation> {
  using Ctx = Invocation;
};

// Stores the object as the state of the stage. Errors are passed to the caller unchanged.
template <typename T, ExecutionStage stage>
struct ResultEncoding<stage, StatusOr<std::unique_ptr<T>>> {
  using Plain = ResultEncoding<stage, ErrorOr<std::unique_ptr<T>>>;

  XLA_FFI_SDK_COLD static XLA_FFI_Error* RegisterState(const XLA_FFI_Api* api,
                                                       XLA_FFI_TypeId* id) {
    return Plain::RegisterState(api, id);
  }
  XLA_FFI_SDK_COLD static XLA_FFI_TypeId state_type_id(const XLA_FFI_Api* api) {
    return Plain::state_type_id(api);
  }
  XLA_FFI_SDK_FN static XLA_FFI_Error* Encode(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx,
                                              StatusOr<std::unique_ptr<T>> state) {
    if (XLA_FFI_PREDICT_FALSE(!state.ok())) return internal::ForwardError(state.status());
    return Plain::Encode(api, ctx, *std::move(state));
  }
};

// Attaches an object to all later runs of a call. Handlers get the object with Called::get<T>().
template <typename T>
XLA_FFI_SDK_FN Status SetCalledComputation(xffi_rt_call* call, std::unique_ptr<T> object) {
  using U = std::remove_const_t<T>;
  auto* const passed = const_cast<U*>(object.release());
  Status status = TakeStatus(
      xffi_rt_call_set_called_computation(call, &internal::type_tag<U>, passed, &internal::DeleteCarried<U>));
  if (!status.ok() && passed != nullptr) internal::DestroyContained(passed);
  return status;
}

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_INVOCATION_H_
