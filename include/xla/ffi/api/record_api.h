// The record extension of a host, through which a handler of the record stage records device commands (CUDA
// graphs). Supports versions 0.1 and 0.2. Available from r9 on.
//
//   ffi::Ffi::BindRecord().Ctx<ffi::Extension<ffi::RecordExtension>>()...
//       .To([](ffi::RecordContext record, ...) -> ffi::Error { ... });
#if defined(XLA_FFI_API_RECORD_API_H_) && !defined(XLA_FFI_SDK_RECORD_API_H_)
#error "XLA's own record_api.h came before this SDK's: keep one of the two include directories"
#endif

#ifndef XLA_FFI_API_RECORD_API_H_
#define XLA_FFI_API_RECORD_API_H_
#define XLA_FFI_SDK_RECORD_API_H_

#include "xla/ffi/api/ffi.h"
#include "xla/ffi/api/record_c_api.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

// A kernel argument that is the address of device memory.
struct XLA_FFI_SDK_TYPE DevicePointer {
  void* ptr;
};

// A kernel argument that is passed by value, with at least one byte.
struct XLA_FFI_SDK_TYPE HostValue {
  const void* ptr;
  size_t size;
};

using KernelArg = std::variant<DevicePointer, HostValue>;

enum class SourceFormat {
  kPtx = XLA_FFI_SourceFormat_PTX,
  kCubin = XLA_FFI_SourceFormat_CUBIN,
  kFunctionPtr = XLA_FFI_SourceFormat_FUNCTION_PTR,  // from version 0.2 of the extension on
};

enum class RecordAction {
  kCreate = XLA_FFI_RecordAction_Create,
  kUpdate = XLA_FFI_RecordAction_Update,
};

namespace internal {
template <typename ErrorPolicy>
class RecordContextBase;
}  // namespace internal

// The list of commands that this handler has recorded, in memory of the host with a fixed capacity.
class XLA_FFI_SDK_TYPE BoundedCommandVector {
 public:
  XLA_FFI_SDK_FN BoundedCommandVector(const XLA_FFI_Command** commands, int64_t* num_commands,
                                      int64_t max_commands)
      : commands_(commands), num_commands_(num_commands), max_commands_(max_commands) {}

  XLA_FFI_SDK_FN const XLA_FFI_Command* operator[](size_t index) const { return commands_[index]; }
  XLA_FFI_SDK_FN bool has_storage() const { return commands_ != nullptr; }
  XLA_FFI_SDK_FN int64_t size() const { return num_commands_ == nullptr ? 0 : *num_commands_; }
  XLA_FFI_SDK_FN int64_t capacity() const { return max_commands_; }

 private:
  template <typename ErrorPolicy>
  friend class internal::RecordContextBase;

  XLA_FFI_SDK_FN bool Full() const { return !has_storage() || size() >= max_commands_; }
  XLA_FFI_SDK_FN void Push(const XLA_FFI_Command* command) {
    commands_[(*num_commands_)++] = command;
  }

  const XLA_FFI_Command** commands_;
  int64_t* num_commands_;
  int64_t max_commands_;
};

namespace internal {

// The context through which a handler of the record stage records commands.
template <typename ErrorPolicy>
class XLA_FFI_SDK_TYPE RecordContextBase {
 public:
  using Status = typename ErrorPolicy::Status;
  template <typename T>
  using StatusOr = typename ErrorPolicy::template StatusOr<T>;
  using Command = const XLA_FFI_Command*;

  XLA_FFI_SDK_FN RecordContextBase(const XLA_FFI_Api* api, const XLA_FFI_RecordFrame* frame,
                                   int32_t minor = XLA_FFI_Extension_Record_MinorVersion)
      : api_(api), frame_(frame), minor_(minor) {}

  // Returns the requested action: to create commands or to update them.
  XLA_FFI_SDK_FN RecordAction action() const { return static_cast<RecordAction>(frame_->action); }

  XLA_FFI_SDK_FN BoundedCommandVector commands() const {
    return BoundedCommandVector(frame_->commands, frame_->num_commands, frame_->max_commands);
  }

  // Records a kernel launch that runs after `dependencies`. `args` is a range of KernelArg, or of void* for
  // device memory. The host copies all arguments that it needs.
  template <typename Args, typename Dependencies = std::initializer_list<Command>>
  XLA_FFI_SDK_FN StatusOr<Command> CreateLaunch(const char* kernel_name, const void* kernel_data,
                                                size_t kernel_size, SourceFormat format,
                                                XLA_FFI_LaunchDims launch_dims,
                                                uint32_t shared_mem_bytes, bool uses_pdl,
                                                const Args& args,
                                                const Dependencies& dependencies = {}) {
    if (kernel_data == nullptr) {
      return Failed(XLA_FFI_Error_Code_INVALID_ARGUMENT,
                    "a launch needs a kernel: its data or function pointer is null");
    }
    if (format == SourceFormat::kFunctionPtr && minor_ < 2) {
      return Failed(XLA_FFI_Error_Code_UNIMPLEMENTED,
                    XLA_FFI_SDK_NAME_KERNEL_POINTERS XLA_FFI_SDK_TEXT_THIS_EXTENSION +
                        std::to_string(minor_) + " of the record" XLA_FFI_SDK_TEXT_NEWER_EXTENSION +
                        internal::FirstJaxlib(XLA_FFI_SDK_SINCE(KERNEL_POINTERS)));
    }
    const std::vector<XLA_FFI_KernelArg> converted = Converted(args);
    const XLA_FFI_KernelArgs kernel_args{converted.data(),
                                         static_cast<int64_t>(converted.size())};
    return Create([&](Command* out) {
      return frame_->api->create_launch(
          frame_->record_ctx, kernel_name, kernel_data, static_cast<int64_t>(kernel_size),
          static_cast<XLA_FFI_SourceFormat>(format), launch_dims, shared_mem_bytes,
          static_cast<int32_t>(uses_pdl), &kernel_args, std::data(dependencies),
          static_cast<uint32_t>(std::size(dependencies)), out);
    });
  }

  template <typename Args>
  XLA_FFI_SDK_FN Status UpdateLaunch(Command command, const Args& args) {
    const std::vector<XLA_FFI_KernelArg> converted = Converted(args);
    const XLA_FFI_KernelArgs kernel_args{converted.data(),
                                         static_cast<int64_t>(converted.size())};
    return Done(frame_->api->update_launch(frame_->record_ctx, command, &kernel_args));
  }

  // Records a command that does nothing, for use as a single dependency in place of several.
  template <typename Dependencies = std::initializer_list<Command>>
  XLA_FFI_SDK_FN StatusOr<Command> CreateEmptyCommand(Dependencies dependencies = {}) {
    return Create([&](Command* out) {
      return frame_->api->create_empty_command(frame_->record_ctx, std::data(dependencies),
                                               static_cast<uint32_t>(std::size(dependencies)),
                                               out);
    });
  }

  // Requests that the host instead call the execute handler and capture its stream.
  XLA_FFI_SDK_FN Status RequestStreamCapture() {
    return Done(frame_->api->request_stream_capture(frame_->record_ctx));
  }

  // Records a copy of `size` bytes within device memory.
  template <typename Dependencies = std::initializer_list<Command>>
  XLA_FFI_SDK_FN StatusOr<Command> CreateMemcpyD2D(void* dst, void* src, size_t size,
                                                   Dependencies dependencies = {}) {
    return Create([&](Command* out) {
      return frame_->api->create_memcpy_d2d(
          frame_->record_ctx, dst, src, static_cast<int64_t>(size), std::data(dependencies),
          static_cast<uint32_t>(std::size(dependencies)), out);
    });
  }

  XLA_FFI_SDK_FN Status UpdateMemcpyD2D(Command command, void* dst, void* src, size_t size) {
    return Done(frame_->api->update_memcpy_d2d(frame_->record_ctx, command, dst, src,
                                               static_cast<int64_t>(size)));
  }

 private:
  static Status Failed(XLA_FFI_Error_Code code, std::string_view message) {
    return ErrorPolicy::FromErrorCode(code, message);
  }
  Status Done(XLA_FFI_Error* error) const {
    return error == nullptr ? ErrorPolicy::Ok() : ErrorPolicy::TakeError(api_, error);
  }

  // Creates a command with `make`, and adds the command to the host's list.
  template <typename Make>
  StatusOr<Command> Create(const Make& make) const {
    BoundedCommandVector list = commands();
    if (list.Full()) {
      return Failed(XLA_FFI_Error_Code_RESOURCE_EXHAUSTED,
                    "no more than " + std::to_string(list.capacity()) +
                        " commands can be recorded by one call");
    }
    Command command = nullptr;
    if (XLA_FFI_Error* error = make(&command)) return ErrorPolicy::TakeError(api_, error);
    if (command == nullptr) {
      return Failed(XLA_FFI_Error_Code_INTERNAL, "the host made a null command and no error");
    }
    list.Push(command);
    return command;
  }

  static XLA_FFI_KernelArg Raw(const KernelArg& arg) {
    if (const auto* device = std::get_if<DevicePointer>(&arg)) {
      return {device->ptr, 0, XLA_FFI_KernelArgType_DevicePtr};
    }
    const auto* value = std::get_if<HostValue>(&arg);
    return {value->ptr, static_cast<int64_t>(value->size), XLA_FFI_KernelArgType_HostValue};
  }
  static XLA_FFI_KernelArg Raw(const void* arg) {
    return {arg, 0, XLA_FFI_KernelArgType_DevicePtr};
  }
  template <typename Args>
  static std::vector<XLA_FFI_KernelArg> Converted(const Args& args) {
    std::vector<XLA_FFI_KernelArg> converted;
    converted.reserve(std::size(args));
    for (const auto& arg : args) converted.push_back(Raw(arg));
    return converted;
  }

  const XLA_FFI_Api* api_;
  const XLA_FFI_RecordFrame* frame_;
  int32_t minor_;
};

// The traits that Ctx<Extension<T>> needs, for a given context type.
template <typename RecordContextT>
struct XLA_FFI_SDK_TYPE RecordExtensionBase {
  using Type = RecordContextT;
  using CExtension = XLA_FFI_Record_Extension;
  static constexpr auto kName = "RecordExtension";
  static constexpr int32_t kExtensionType = XLA_FFI_Extension_Record;
  static constexpr int32_t kMajorVersion = XLA_FFI_Extension_Record_MajorVersion;
  static constexpr int32_t kMinorVersion = XLA_FFI_Extension_Record_MinorVersion;

  XLA_FFI_SDK_FN static bool Support(int32_t major, int32_t minor) {
    return major == kMajorVersion && minor >= 1;
  }
  template <typename T = RecordContextT>
  XLA_FFI_SDK_FN static T Create(const XLA_FFI_Api* api, const CExtension* ext) {
    if constexpr (std::is_constructible_v<T, const XLA_FFI_Api*, XLA_FFI_RecordFrame*, int32_t>) {
      return T(api, ext->record_frame, ext->extension_base.id.minor_version);
    } else {
      return T(api, ext->record_frame);
    }
  }
};

}  // namespace internal

// The context and the tag for handlers of a shared library.
using RecordContext = internal::RecordContextBase<internal::ErrorPolicy>;
struct XLA_FFI_SDK_TYPE RecordExtension : internal::RecordExtensionBase<RecordContext> {};

// Returns an extension struct for a record frame, for use by hosts and tests.
XLA_FFI_SDK_FN inline XLA_FFI_Record_Extension BuildRecordCExtension(XLA_FFI_RecordFrame* frame) {
  return XLA_FFI_Record_Extension{MakeExtensionHeader<RecordExtension>(), frame};
}

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_API_RECORD_API_H_
