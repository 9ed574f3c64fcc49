// Tests of the record and collectives extensions with a minimal host. See operands.cc for the RUN lines.
#include "common.h"
#include "xla/ffi/api/collectives_api.h"
#include "xla/ffi/api/record_api.h"

#ifdef XLA_FFI_SDK_FFI_H_
using ffi::CommunicatorContext;
using ffi::RecordContext;
#else  // upstream does not define this alias
using RecordContext = ffi::internal::RecordContextBase<ffi::internal::ErrorPolicy>;
using CommunicatorContext = ffi::internal::CommunicatorContextBase<ffi::internal::ErrorPolicy>;
#endif

struct Recorder {
  static inline int launches = 0, updates = 0, copies = 0, joins = 0, captures = 0;
  static inline int64_t arguments = 0, host_bytes = 0;
  static inline uint32_t dependencies = 0;
  static inline XLA_FFI_SourceFormat format{};

  static void Take(const XLA_FFI_KernelArgs* args) {
    arguments = args->num_args;
    host_bytes = 0;
    for (int64_t i = 0; i < args->num_args; ++i) {
      if (args->args[i].type == XLA_FFI_KernelArgType_HostValue) host_bytes += args->args[i].size;
    }
  }
  static const XLA_FFI_Command* Make() {
    static char commands[64];
    static int next = 0;
    return reinterpret_cast<const XLA_FFI_Command*>(&commands[next++ % 64]);
  }
  static const XLA_FFI_RecordApi* Api() {
    static XLA_FFI_RecordApi api{};
    api.create_launch = [](XLA_FFI_RecordContext*, const char*, const void*, int64_t,
                           XLA_FFI_SourceFormat f, XLA_FFI_LaunchDims, uint32_t, int32_t,
                           const XLA_FFI_KernelArgs* args, const XLA_FFI_Command* const*,
                           uint32_t n, const XLA_FFI_Command** out) -> XLA_FFI_Error* {
      ++launches;
      format = f;
      dependencies = n;
      Take(args);
      *out = Make();
      return nullptr;
    };
    api.update_launch = [](XLA_FFI_RecordContext*, const XLA_FFI_Command*,
                           const XLA_FFI_KernelArgs* args) -> XLA_FFI_Error* {
      ++updates;
      Take(args);
      return nullptr;
    };
    api.create_memcpy_d2d = [](XLA_FFI_RecordContext*, void*, void*, int64_t,
                               const XLA_FFI_Command* const*, uint32_t n,
                               const XLA_FFI_Command** out) -> XLA_FFI_Error* {
      ++copies;
      dependencies = n;
      *out = Make();
      return nullptr;
    };
    api.update_memcpy_d2d = [](XLA_FFI_RecordContext*, const XLA_FFI_Command*, void*, void*,
                               int64_t) -> XLA_FFI_Error* {
      ++updates;
      return nullptr;
    };
    api.request_stream_capture = [](XLA_FFI_RecordContext*) -> XLA_FFI_Error* {
      ++captures;
      return nullptr;
    };
    api.create_empty_command = [](XLA_FFI_RecordContext*, const XLA_FFI_Command* const*, uint32_t n,
                                  const XLA_FFI_Command** out) -> XLA_FFI_Error* {
      ++joins;
      dependencies = n;
      *out = Make();
      return nullptr;
    };
    return &api;
  }
};

// Commands are created and updated: launches by function pointer, dependencies, the maximum number of commands
// RUN record_commands {} -> ==
SELF_TEST(record_commands) {
  const XLA_FFI_Command* commands[3] = {};
  int64_t count = 0;
  XLA_FFI_RecordFrame frame{nullptr, Recorder::Api(), XLA_FFI_RecordAction_Create, commands,
                            &count, 3};
  RecordContext record(nullptr, &frame);
  EXPECT(record.action() == ffi::RecordAction::kCreate);
  EXPECT(record.commands().capacity() == 3 && record.commands().has_storage());

  int value = 5;
  std::vector<ffi::KernelArg> args = {ffi::DevicePointer{&value},
                                      ffi::HostValue{&value, sizeof(value)}};
  auto launch = record.CreateLaunch("kernel", &value, 0, ffi::SourceFormat::kFunctionPtr, {}, 0,
                                    false, args);
  EXPECT(launch.has_value() && Recorder::arguments == 2 && Recorder::host_bytes == 4);
  EXPECT(Recorder::format == XLA_FFI_SourceFormat_FUNCTION_PTR && Recorder::dependencies == 0);
  std::vector<void*> pointers = {&value};
  std::vector<const XLA_FFI_Command*> after = {*launch};
  auto second =
      record.CreateLaunch("kernel", "ptx", 3, ffi::SourceFormat::kPtx, {}, 0, true, pointers, after);
  EXPECT(second.has_value() && Recorder::arguments == 1 && Recorder::dependencies == 1);
  auto join = record.CreateEmptyCommand({*launch, *second});
  EXPECT(join.has_value() && Recorder::dependencies == 2);
  EXPECT(record.commands().size() == 3 && record.commands()[0] == *launch);
  auto full = record.CreateMemcpyD2D(&value, &value, 4);
  EXPECT(full.has_error() && full.error().errc() == ffi::ErrorCode::kResourceExhausted);
  auto null = record.CreateLaunch("kernel", nullptr, 0, ffi::SourceFormat::kPtx, {}, 0, false, args);
  EXPECT(null.has_error() && null.error().errc() == ffi::ErrorCode::kInvalidArgument);

  frame.action = XLA_FFI_RecordAction_Update;
  EXPECT(record.action() == ffi::RecordAction::kUpdate);
  EXPECT(record.UpdateLaunch(*launch, args).success());
  EXPECT(record.UpdateMemcpyD2D(*launch, &value, &value, 4).success());
  EXPECT(record.RequestStreamCapture().success() && Recorder::captures > 0);
  return ffi::Error::Success();
}

struct Collectives {
  static inline size_t groups = 0, ids = 0, regions = 0;
  static XLA_FFI_Collectives_Extension Make() {
    XLA_FFI_Collectives_Extension ext{};
    ext.extension_base.struct_size = sizeof(ext);
    ext.extension_base.id = {XLA_FFI_Extension_Collectives, 0, 2};
    ext.request_communicator = [](const XLA_FFI_Collectives_Extension*,
                                  XLA_FFI_Communicator_Request_Args* args) -> XLA_FFI_Error* {
      groups = args->num_groups;
      ids = args->groups[0].size;
      return nullptr;
    };
    ext.get_communicator = [](const XLA_FFI_Collectives_Extension*,
                              XLA_FFI_Communicator_Get_Args* args) -> XLA_FFI_Error* {
      args->communicator = reinterpret_cast<XLA_FFI_Communicator*>(args->communication_id);
      return nullptr;
    };
    ext.request_window = [](const XLA_FFI_Collectives_Extension*,
                            XLA_FFI_Window_Request_Args* args) -> XLA_FFI_Error* {
      regions = args->num_regions;
      return nullptr;
    };
    ext.get_window = [](const XLA_FFI_Collectives_Extension*,
                        XLA_FFI_Window_Get_Args* args) -> XLA_FFI_Error* {
      args->window_offset = 16;
      return nullptr;
    };
    return ext;
  }
};

// A communicator and a window are requested and used
// RUN collectives {} -> ==
SELF_TEST(collectives) {
  const XLA_FFI_Collectives_Extension ext = Collectives::Make();
  CommunicatorContext context(nullptr, &ext);
  const std::vector<std::vector<int64_t>> groups = {{0, 1, 2}, {3, 4, 5}};
  EXPECT(context.RequestCommunicator(ffi::GroupMode::kCrossReplica, groups, 9).success());
  EXPECT(Collectives::groups == 2 && Collectives::ids == 3);
  auto communicator = context.GetCommunicator(ffi::GroupMode::kFlattenedId, groups, 9);
  EXPECT(communicator.has_value() && reinterpret_cast<intptr_t>(*communicator) == 9);
  EXPECT(context.RequestWindow(ffi::GroupMode::kFlattenedId, groups, 9, {{nullptr, 4}}).success());
  auto window = context.GetWindow(ffi::GroupMode::kFlattenedId, groups, 9, nullptr);
  EXPECT(Collectives::regions == 1 && window.has_value() && window->offset == 16);
  return ffi::Error::Success();
}

#if OURS
// On a host with an older extension, missing functions are errors, and no call reads past the end of the function table
// RUN-OURS older_extensions {} -> ==
SELF_TEST(older_extensions) {
  XLA_FFI_Collectives_Extension ext = Collectives::Make();
  ext.extension_base.struct_size = offsetof(XLA_FFI_Collectives_Extension, request_window);
  ext.extension_base.id.minor_version = 1;
  CommunicatorContext context(nullptr, &ext);
  EXPECT(context.RequestCommunicator(ffi::GroupMode::kCrossReplica, {{0}}, 9).success());
  auto window = context.GetWindow(ffi::GroupMode::kFlattenedId, {{0}}, 9, nullptr);
  EXPECT(window.has_error() && window.error().errc() == ffi::ErrorCode::kUnimplemented);
  EXPECT(context.RequestWindow(ffi::GroupMode::kFlattenedId, {{0}}, 9, {}).failure());

  const XLA_FFI_Command* commands[1] = {};
  int64_t count = 0, value = 0;
  XLA_FFI_RecordFrame frame{nullptr, Recorder::Api(), XLA_FFI_RecordAction_Create, commands,
                            &count, 1};
  XLA_FFI_Record_Extension record = ffi::BuildRecordCExtension(&frame);
  record.extension_base.id.minor_version = 1;
  EXPECT(ffi::RecordExtension::Support(0, 3) && !ffi::RecordExtension::Support(1, 1));
  ffi::RecordContext old = ffi::RecordExtension::Create(nullptr, &record);
  std::vector<void*> args;
  auto launch =
      old.CreateLaunch("k", &value, 0, ffi::SourceFormat::kFunctionPtr, {}, 0, false, args);
  EXPECT(launch.has_error() && launch.error().errc() == ffi::ErrorCode::kUnimplemented);
  return ffi::Error::Success();
}
#endif
