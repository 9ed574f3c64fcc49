// The services of a call's context: stream, scratch memory, ids, options. For other services, see thread_pool.h and
// extension.h. Part of <xla/ffi/api/ffi.h>. All values are invalid after the call.
//
// If the host lacks a service, the error is UNIMPLEMENTED and names the service, the host and the first jaxlib with
// the service. With `Ctx<std::optional<T>>`, the value is absent instead.
#ifndef XLA_FFI_SDK_CPP_CONTEXT_H_
#define XLA_FFI_SDK_CPP_CONTEXT_H_

#include "xla_ffi/cpp/dictionary.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

// The context itself, from which a handler can get context values with get<Tag>().
class XLA_FFI_SDK_TYPE Context {
 public:
  XLA_FFI_SDK_HOT Context(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx)
      : api_(api), ctx_(ctx) {}
  XLA_FFI_SDK_HOT const XLA_FFI_Api* api() const { return api_; }
  XLA_FFI_SDK_HOT XLA_FFI_InvokeContext* ctx() const { return ctx_; }

  template <typename T>
  XLA_FFI_SDK_FN ErrorOr<typename CtxDecoding<T>::Type> get() const {
    DiagnosticEngine diagnostic;
    auto value = CtxDecoding<T>::Decode(api_, ctx_, diagnostic);
    if (XLA_FFI_PREDICT_FALSE(!value.has_value())) return internal::ErrorOf(diagnostic);
    return std::move(*value);
  }

 private:
  const XLA_FFI_Api* api_;
  XLA_FFI_InvokeContext* ctx_;
};

template <>
struct CtxDecoding<Context> {
  using Type = Context;
  template <typename Decoded = Context>
  XLA_FFI_SDK_HOT static std::optional<Decoded> Decode(const XLA_FFI_Api* api,
                                                       XLA_FFI_InvokeContext* ctx,
                                                       DiagnosticEngine&) {
    return Context(api, ctx);
  }
};

XLA_FFI_SDK_INTERNAL_BEGIN

template <typename Args>
XLA_FFI_SDK_HOT inline Args ContextArgs(XLA_FFI_InvokeContext* ctx, size_t struct_size) {
  Args args{};
  args.struct_size = struct_size;
  args.ctx = ctx;
  return args;
}

// Calls a function of the host. If the function is missing or returns an error, reports the problem and returns false.
template <typename Args>
XLA_FFI_SDK_HOT inline bool CallHost(const XLA_FFI_Api* api, XLA_FFI_Error* (*function)(Args*),
                                    Args* args, const char* what, Revision since,
                                    DiagnosticEngine& diagnostic) {
  if (XLA_FFI_PREDICT_FALSE(function == nullptr)) {
    DiagnoseMissingFeature(diagnostic, api, what, since);
    return false;
  }
  XLA_FFI_Error* error = function(args);
  if (XLA_FFI_PREDICT_TRUE(error == nullptr)) return true;
  DiagnoseError(diagnostic, api, what, xffi_with_version_(api, what, error));
  return false;
}

XLA_FFI_SDK_INTERNAL_END

// Context tag: binds the platform's stream as a T, a pointer type such as CUstream.
template <typename T>
struct PlatformStream {};

template <typename T>
struct CtxDecoding<PlatformStream<T>> {
  static_assert(std::is_pointer_v<T>, "a stream is a pointer");
  using Type = T;
  XLA_FFI_SDK_HOT static std::optional<T> Decode(const XLA_FFI_Api* api,
                                                 XLA_FFI_InvokeContext* ctx,
                                                 DiagnosticEngine& diagnostic) {
    auto args = internal::ContextArgs<XLA_FFI_Stream_Get_Args>(
        ctx, XLA_FFI_Stream_Get_Args_STRUCT_SIZE);
    if (!internal::CallHost(api, api->XLA_FFI_Stream_Get, &args, XLA_FFI_SDK_FEATURE(STREAM), diagnostic)) {
      return std::nullopt;
    }
    return reinterpret_cast<T>(args.stream);
  }
};

// An allocator of scratch memory on the device. The destructor frees the memory. The allocator must not outlive the
// handler's call.
class XLA_FFI_SDK_TYPE ScratchAllocator {
 public:
  XLA_FFI_SDK_HOT ScratchAllocator(ScratchAllocator&& other) noexcept
      : api_(other.api_), ctx_(other.ctx_), first_(std::exchange(other.first_, nullptr)) {}
  ScratchAllocator& operator=(ScratchAllocator&&) = delete;
  XLA_FFI_SDK_HOT ~ScratchAllocator() {
    if (first_ != nullptr) Free();
  }

  // Returns scratch memory, or nullopt if the host has none. `alignment` is a power of two up to 256, the alignment of
  // XLA's GPU memory (XLA itself accepts at most 16). For any other alignment, returns nullopt.
  template <typename Memory = void*>
  XLA_FFI_SDK_FN std::optional<Memory> Allocate(size_t size, size_t alignment = 1) {
    if (alignment == 0 || alignment > 256 || (alignment & (alignment - 1)) != 0) return std::nullopt;
    auto args = internal::ContextArgs<XLA_FFI_DeviceMemory_Allocate_Args>(
        ctx_, XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE);
    args.size = size;
    args.alignment = alignment < 16 ? alignment : 16;
    // The Allocation object is created before the memory, because an exception afterwards would leak the memory.
    auto* const kept = new Allocation{size, nullptr, first_};
    XLA_FFI_Error* error = XLA_FFI_SDK_ASK(api_, XLA_FFI_DeviceMemory_Allocate, &args);
    if (XLA_FFI_PREDICT_FALSE(error != nullptr)) {
      delete kept;
      internal::DestroyError(api_, error);
      return std::nullopt;
    }
    kept->data = args.data;
    first_ = kept;
    if (reinterpret_cast<uintptr_t>(args.data) % alignment != 0) return std::nullopt;  // freed by the destructor
    return args.data;
  }

 private:
  friend struct CtxDecoding<ScratchAllocator>;
  struct Allocation {
    size_t size;
    void* data;
    Allocation* next;
  };

  XLA_FFI_SDK_HOT ScratchAllocator(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx)
      : api_(api), ctx_(ctx) {}

  XLA_FFI_SDK_FN XLA_FFI_ATTRIBUTE_NEVER_INLINE void Free() {
    while (first_ != nullptr) {
      auto args = internal::ContextArgs<XLA_FFI_DeviceMemory_Free_Args>(
          ctx_, XLA_FFI_DeviceMemory_Free_Args_STRUCT_SIZE);
      args.size = first_->size;
      args.data = first_->data;
      XLA_FFI_Error* error = XLA_FFI_SDK_ASK(api_, XLA_FFI_DeviceMemory_Free, &args);
      if (error != nullptr) internal::DestroyError(api_, error);  // a destructor cannot report the error
      delete std::exchange(first_, first_->next);
    }
  }

  const XLA_FFI_Api* api_;
  XLA_FFI_InvokeContext* ctx_;
  Allocation* first_ = nullptr;
};

template <>
struct CtxDecoding<ScratchAllocator> {
  using Type = ScratchAllocator;
  template <typename Decoded = Type>
  XLA_FFI_SDK_HOT static std::optional<Decoded> Decode(const XLA_FFI_Api* api,
                                                       XLA_FFI_InvokeContext* ctx,
                                                       DiagnosticEngine&) {
    return ScratchAllocator(api, ctx);
  }
};

// The run id of this execution, which is the same on all devices. Available from r4 on.
struct XLA_FFI_SDK_TYPE RunId {
  int64_t run_id;
};

template <>
struct CtxDecoding<RunId> {
  using Type = RunId;
  template <typename Decoded = RunId>
  XLA_FFI_SDK_HOT static std::optional<Decoded> Decode(const XLA_FFI_Api* api,
                                                       XLA_FFI_InvokeContext* ctx,
                                                       DiagnosticEngine& diagnostic) {
    auto args = internal::ContextArgs<XLA_FFI_RunId_Get_Args>(
        ctx, XLA_FFI_RunId_Get_Args_STRUCT_SIZE);
    if (!internal::CallHost(api, XLA_FFI_SDK_HOST_FUNCTION(api, XLA_FFI_RunId_Get), &args,
                           XLA_FFI_SDK_FEATURE(RUN_ID), diagnostic)) {
      return std::nullopt;
    }
    return RunId{args.run_id};
  }
};

// Context tag: binds the global ordinal of the device, an int32_t. Available from r5 on.
struct DeviceOrdinal {};

template <>
struct CtxDecoding<DeviceOrdinal> {
  using Type = int32_t;
  template <typename Decoded = int32_t>
  XLA_FFI_SDK_HOT static std::optional<Decoded> Decode(const XLA_FFI_Api* api,
                                                       XLA_FFI_InvokeContext* ctx,
                                                       DiagnosticEngine& diagnostic) {
    auto args = internal::ContextArgs<XLA_FFI_DeviceOrdinal_Get_Args>(
        ctx, XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE);
    if (!internal::CallHost(api, XLA_FFI_SDK_HOST_FUNCTION(api, XLA_FFI_DeviceOrdinal_Get), &args,
                           XLA_FFI_SDK_FEATURE(DEVICE_ORDINAL), diagnostic)) {
      return std::nullopt;
    }
    return args.device_ordinal;
  }
};

template <>
struct CtxDecoding<CustomOptions> {
  using Type = Dictionary;
  template <typename Decoded = Dictionary>
  XLA_FFI_SDK_HOT static std::optional<Decoded> Decode(const XLA_FFI_Api* api,
                                                       XLA_FFI_InvokeContext* ctx,
                                                       DiagnosticEngine& diagnostic) {
    auto args = internal::ContextArgs<XLA_FFI_CustomOptions_Get_Args>(
        ctx, XLA_FFI_CustomOptions_Get_Args_STRUCT_SIZE);
    if (!internal::CallHost(api, XLA_FFI_SDK_HOST_FUNCTION(api, XLA_FFI_CustomOptions_Get), &args,
                           XLA_FFI_SDK_FEATURE(CUSTOM_OPTIONS), diagnostic)) {
      return std::nullopt;
    }
    return Dictionary(args.attrs);
  }
};

XLA_FFI_SDK_INTERNAL_BEGIN
template <>
inline constexpr Revision ctx_floor_v<RunId> = XLA_FFI_SDK_SINCE(RUN_ID);
template <>
inline constexpr Revision ctx_floor_v<DeviceOrdinal> = XLA_FFI_SDK_SINCE(DEVICE_ORDINAL);
template <>
inline constexpr Revision ctx_floor_v<CustomOptions> = XLA_FFI_SDK_SINCE(CUSTOM_OPTIONS);
XLA_FFI_SDK_INTERNAL_END

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_CONTEXT_H_
