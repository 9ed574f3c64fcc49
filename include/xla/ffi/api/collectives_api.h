// The collectives extension of a host: communicators (version 0.1), collective memory windows (0.2) and device
// communicators (0.3). Available from r9 on.
//
//   ffi::Ffi::BindPrepare().Ctx<ffi::Extension<ffi::CollectivesExtension>>()...
//       .To([](ffi::CommunicatorContext collectives, ...) -> ffi::Error { ... });
#if defined(XLA_FFI_API_COLLECTIVES_API_H_) && !defined(XLA_FFI_SDK_COLLECTIVES_API_H_)
#error "XLA's own collectives_api.h came before this SDK's: keep one of the two include directories"
#endif

#ifndef XLA_FFI_API_COLLECTIVES_API_H_
#define XLA_FFI_API_COLLECTIVES_API_H_
#define XLA_FFI_SDK_COLLECTIVES_API_H_

#include "xla/ffi/api/collectives_c_api.h"
#include "xla/ffi/api/ffi.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

// The kind of ids in a group of a communicator.
enum class GroupMode {
  kCrossReplica = XLA_FFI_GROUP_CROSS_REPLICA,
  kCrossPartition = XLA_FFI_GROUP_CROSS_PARTITION,
  kCrossReplicaAndPartition = XLA_FFI_GROUP_CROSS_REPLICA_AND_PARTITION,
  kFlattenedId = XLA_FFI_GROUP_FLATTENED_ID,
};

// A region of device memory to register with a communicator.
struct XLA_FFI_SDK_TYPE CollectiveMemoryRegion {
  const void* buffer;
  size_t byte_size;
  uint64_t flags = 0;
};

// The result of GetWindow: the window that contains a buffer, and the buffer's offset in the window in bytes.
struct XLA_FFI_SDK_TYPE WindowLookup {
  XLA_FFI_Window* window;
  size_t offset;
};

// The resources to request for a device communicator. All ranks must request the same resources.
struct XLA_FFI_SDK_TYPE DeviceCommunicatorRequirements {
  int32_t lsa_barrier_count = 0;
};

// The result of GetDeviceCommunicator: a description in host memory (an ncclDevComm on CUDA). The host owns the
// description: read or copy it during the call. Compare size and version (with NCCL, the host's NCCL_VERSION_CODE) with
// those of your device code.
struct XLA_FFI_SDK_TYPE DeviceCommunicatorLookup {
  const XLA_FFI_DeviceCommunicator* device_communicator;
  size_t byte_size;
  int32_t version;
};

namespace internal {

// The context through which a handler requests communicators in the prepare stage and gets them in later stages.
template <typename ErrorPolicy>
class XLA_FFI_SDK_TYPE CommunicatorContextBase {
 public:
  using Status = typename ErrorPolicy::Status;
  template <typename T>
  using StatusOr = typename ErrorPolicy::template StatusOr<T>;
  using Groups = std::vector<std::vector<int64_t>>;

  XLA_FFI_SDK_FN CommunicatorContextBase(const XLA_FFI_Api* api,
                                         const XLA_FFI_Collectives_Extension* ext)
      : api_(api), ext_(ext) {}

  // Requests the communicator of `groups`. Call this in the prepare stage.
  XLA_FFI_SDK_FN Status RequestCommunicator(GroupMode group_mode, const Groups& groups,
                                            int64_t communication_id) {
    const RawGroups raw(groups);
    XLA_FFI_Communicator_Request_Args args{};
    args.struct_size = XLA_FFI_Communicator_Request_Args_STRUCT_SIZE;
    raw.Fill(args, group_mode, communication_id);
    return Done(ext_->request_communicator(ext_, &args));
  }

  // Gets a requested communicator, which the host owns (an ncclComm_t on CUDA). Call this in later stages.
  XLA_FFI_SDK_FN StatusOr<XLA_FFI_Communicator*> GetCommunicator(GroupMode group_mode,
                                                                 const Groups& groups,
                                                                 int64_t communication_id) {
    const RawGroups raw(groups);
    XLA_FFI_Communicator_Get_Args args{};
    args.struct_size = XLA_FFI_Communicator_Get_Args_STRUCT_SIZE;
    raw.Fill(args, group_mode, communication_id);
    XLA_FFI_Error* error = ext_->get_communicator(ext_, &args);
    if (error != nullptr) return ErrorPolicy::TakeError(api_, error);
    return args.communicator;
  }

  // Requests that device memory be registered with a communicator. Call this in the prepare stage, after
  // RequestCommunicator or RequestDeviceCommunicator of the same groups and id. From version 0.2.
  XLA_FFI_SDK_FN Status RequestWindow(GroupMode group_mode, const Groups& groups,
                                      int64_t communication_id,
                                      const std::vector<CollectiveMemoryRegion>& regions) {
    if (!Has(&XLA_FFI_Collectives_Extension::request_window)) return NoWindows();
    const RawGroups raw(groups);
    std::vector<XLA_FFI_CollectiveMemoryRegion> raw_regions;
    raw_regions.reserve(regions.size());
    for (const CollectiveMemoryRegion& region : regions) {
      raw_regions.push_back({region.buffer, region.byte_size, region.flags});
    }
    XLA_FFI_Window_Request_Args args{};
    args.struct_size = XLA_FFI_Window_Request_Args_STRUCT_SIZE;
    raw.Fill(args, group_mode, communication_id);
    args.regions = raw_regions.data();
    args.num_regions = raw_regions.size();
    return Done(ext_->request_window(ext_, &args));
  }

  // Gets the window of a registered buffer (an ncclWindow_t on CUDA). Call this in later stages. From version 0.2.
  XLA_FFI_SDK_FN StatusOr<WindowLookup> GetWindow(GroupMode group_mode, const Groups& groups,
                                                  int64_t communication_id, const void* buffer) {
    if (!Has(&XLA_FFI_Collectives_Extension::get_window)) return NoWindows();
    const RawGroups raw(groups);
    XLA_FFI_Window_Get_Args args{};
    args.struct_size = XLA_FFI_Window_Get_Args_STRUCT_SIZE;
    raw.Fill(args, group_mode, communication_id);
    args.buffer = buffer;
    XLA_FFI_Error* error = ext_->get_window(ext_, &args);
    if (error != nullptr) return ErrorPolicy::TakeError(api_, error);
    return WindowLookup{args.window, args.window_offset};
  }

  // Requests a device communicator, and the communicator of the same groups and id. Call this in the prepare stage.
  // Equal requests share barriers, so kernels with the same request must run in order. From version 0.3.
  XLA_FFI_SDK_FN Status RequestDeviceCommunicator(GroupMode group_mode, const Groups& groups, int64_t communication_id,
                                                  DeviceCommunicatorRequirements requirements) {
    if (!HasForDevice(&XLA_FFI_Collectives_Extension::request_device_communicator)) return NoDeviceCommunicators();
    const RawGroups raw(groups);
    const XLA_FFI_DeviceCommunicator_Requirements raw_requirements = Raw(requirements);
    XLA_FFI_DeviceCommunicator_Request_Args args{};
    args.struct_size = XLA_FFI_DeviceCommunicator_Request_Args_STRUCT_SIZE;
    raw.Fill(args, group_mode, communication_id);
    args.requirements = &raw_requirements;
    return Done(ext_->request_device_communicator(ext_, &args));
  }

  // Gets the device communicator that was requested with equal requirements. Call this in later stages. From version
  // 0.3.
  XLA_FFI_SDK_FN StatusOr<DeviceCommunicatorLookup> GetDeviceCommunicator(GroupMode group_mode, const Groups& groups,
                                                                          int64_t communication_id,
                                                                          DeviceCommunicatorRequirements requirements) {
    if (!HasForDevice(&XLA_FFI_Collectives_Extension::get_device_communicator)) return NoDeviceCommunicators();
    const RawGroups raw(groups);
    const XLA_FFI_DeviceCommunicator_Requirements raw_requirements = Raw(requirements);
    XLA_FFI_DeviceCommunicator_Get_Args args{};
    args.struct_size = XLA_FFI_DeviceCommunicator_Get_Args_STRUCT_SIZE;
    raw.Fill(args, group_mode, communication_id);
    args.requirements = &raw_requirements;
    XLA_FFI_Error* error = ext_->get_device_communicator(ext_, &args);
    if (error != nullptr) return ErrorPolicy::TakeError(api_, error);
    return DeviceCommunicatorLookup{args.device_communicator, args.byte_size, args.version};
  }

 private:
  // Groups as structs of the C API, which point to the ids of the C++ groups.
  class RawGroups {
   public:
    explicit RawGroups(const Groups& groups) {
      groups_.reserve(groups.size());
      for (const std::vector<int64_t>& group : groups) {
        groups_.push_back({group.data(), group.size()});
      }
    }
    template <typename Args>
    void Fill(Args& args, GroupMode group_mode, int64_t communication_id) const {
      args.group_mode = static_cast<XLA_FFI_CollectiveGroupMode>(group_mode);
      args.groups = groups_.data();
      args.num_groups = groups_.size();
      args.communication_id = communication_id;
    }

   private:
    std::vector<XLA_FFI_ReplicaGroup> groups_;
  };

  // Returns true if the host's extension struct includes a function pointer and the pointer is not null.
  template <typename Function>
  bool Has(Function XLA_FFI_Collectives_Extension::* slot) const {
    const auto* const end = reinterpret_cast<const char*>(&(ext_->*slot) + 1);
    return end <= reinterpret_cast<const char*>(ext_) + ext_->extension_base.struct_size && ext_->*slot != nullptr;
  }

  // Returns true if the host has version 0.3 of the extension and this function of it.
  template <typename Function>
  bool HasForDevice(Function XLA_FFI_Collectives_Extension::* slot) const {
    return ext_->extension_base.id.minor_version >= 3 && Has(slot);
  }

  static XLA_FFI_DeviceCommunicator_Requirements Raw(DeviceCommunicatorRequirements requirements) {
    return {XLA_FFI_DeviceCommunicator_Requirements_STRUCT_SIZE, nullptr, requirements.lsa_barrier_count};
  }
  Status NoDeviceCommunicators() const {
    return ErrorPolicy::FromErrorCode(XLA_FFI_Error_Code_UNIMPLEMENTED,
                                      "Device communicators are not supported by this collectives extension");
  }
  Status NoWindows() const {
    return ErrorPolicy::FromErrorCode(
        XLA_FFI_Error_Code_UNIMPLEMENTED,
        XLA_FFI_SDK_NAME_COLLECTIVE_WINDOWS XLA_FFI_SDK_TEXT_THIS_EXTENSION +
            std::to_string(ext_->extension_base.id.minor_version) +
            " of the collectives" XLA_FFI_SDK_TEXT_NEWER_EXTENSION +
            internal::FirstJaxlib(XLA_FFI_SDK_SINCE(COLLECTIVE_WINDOWS)));
  }
  Status Done(XLA_FFI_Error* error) const {
    return error == nullptr ? ErrorPolicy::Ok() : ErrorPolicy::TakeError(api_, error);
  }

  const XLA_FFI_Api* api_;
  const XLA_FFI_Collectives_Extension* ext_;
};

// The traits that Ctx<Extension<T>> needs, for a given context type.
template <typename CommunicatorContextT>
struct XLA_FFI_SDK_TYPE CollectivesExtensionBase {
  using Type = CommunicatorContextT;
  using CExtension = XLA_FFI_Collectives_Extension;
  static constexpr auto kName = "CollectivesExtension";
  static constexpr int32_t kExtensionType = XLA_FFI_Extension_Collectives;
  static constexpr int32_t kMajorVersion = XLA_FFI_Extension_Collectives_MajorVersion;
  static constexpr int32_t kMinorVersion = XLA_FFI_Extension_Collectives_MinorVersion;

  XLA_FFI_SDK_FN static bool Support(int32_t major, int32_t minor) {
    return major == kMajorVersion && minor >= 1;
  }
  template <typename T = CommunicatorContextT>
  XLA_FFI_SDK_FN static T Create(const XLA_FFI_Api* api, const CExtension* ext) {
    return T(api, ext);
  }
};

}  // namespace internal

// The context and the tag for handlers of a shared library.
using CommunicatorContext = internal::CommunicatorContextBase<internal::ErrorPolicy>;
struct XLA_FFI_SDK_TYPE CollectivesExtension
    : internal::CollectivesExtensionBase<CommunicatorContext> {};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_API_COLLECTIVES_API_H_
