// The collectives extension (number 129), version 0.3: communicators, windows, device communicators.
// Generated from ffi-sys by `cargo xtask headers`; do not edit.

#if defined(XLA_FFI_API_COLLECTIVES_C_API_H_) && !defined(XLA_FFI_SDK_COLLECTIVES_C_API_H_)
#error "XLA's own collectives_c_api.h came before this SDK's collectives_c_api.h: keep one of the two include directories"
#endif

#ifndef XLA_FFI_API_COLLECTIVES_C_API_H_
#define XLA_FFI_API_COLLECTIVES_C_API_H_
#define XLA_FFI_SDK_COLLECTIVES_C_API_H_

#include <stddef.h>
#include <stdint.h>

#include "xla/ffi/api/c_api.h"

// Number and version of the extension.
#define XLA_FFI_Extension_Collectives 129
#define XLA_FFI_Extension_Collectives_MajorVersion 0
#define XLA_FFI_Extension_Collectives_MinorVersion 3

#ifdef __cplusplus
extern "C" {
#endif

// The host's state of the collectives extension.
typedef struct XLA_FFI_CollectivesState XLA_FFI_CollectivesState;
// A communicator, for example of NCCL.
typedef struct XLA_FFI_Communicator XLA_FFI_Communicator;
// Memory registered with a communicator. From version 0.2.
typedef struct XLA_FFI_Window XLA_FFI_Window;
// The description of a device communicator in host memory, which the host owns. With NCCL, an ncclDevComm,
// which kernels accept by value. Read or copy the description only in the call that returns it, and do not
// change it. From version 0.3.
typedef struct XLA_FFI_DeviceCommunicator XLA_FFI_DeviceCommunicator;

typedef struct XLA_FFI_ReplicaGroup XLA_FFI_ReplicaGroup;
typedef struct XLA_FFI_Communicator_Request_Args XLA_FFI_Communicator_Request_Args;
typedef struct XLA_FFI_Communicator_Get_Args XLA_FFI_Communicator_Get_Args;
typedef struct XLA_FFI_CollectiveMemoryRegion XLA_FFI_CollectiveMemoryRegion;
typedef struct XLA_FFI_Window_Request_Args XLA_FFI_Window_Request_Args;
typedef struct XLA_FFI_Window_Get_Args XLA_FFI_Window_Get_Args;
typedef struct XLA_FFI_DeviceCommunicator_Requirements XLA_FFI_DeviceCommunicator_Requirements;
typedef struct XLA_FFI_DeviceCommunicator_Request_Args XLA_FFI_DeviceCommunicator_Request_Args;
typedef struct XLA_FFI_DeviceCommunicator_Get_Args XLA_FFI_DeviceCommunicator_Get_Args;
typedef struct XLA_FFI_Collectives_Extension XLA_FFI_Collectives_Extension;

// How a host interprets the ids in replica groups.
enum XLA_FFI_CollectiveGroupMode {
  // The ids are replica ids.
  XLA_FFI_GROUP_CROSS_REPLICA = 0,
  // The ids are partition ids.
  XLA_FFI_GROUP_CROSS_PARTITION = 1,
  // The ids are replica ids, and each group covers all partitions.
  XLA_FFI_GROUP_CROSS_REPLICA_AND_PARTITION = 2,
  // The ids are flattened ids of replica and partition.
  XLA_FFI_GROUP_FLATTENED_ID = 3,
};
typedef enum XLA_FFI_CollectiveGroupMode XLA_FFI_CollectiveGroupMode;

// Requests a communicator, in the prepare stage.
typedef XLA_FFI_Error* XLA_FFI_Communicator_Request(const XLA_FFI_Collectives_Extension* self,
    XLA_FFI_Communicator_Request_Args* args);
// Returns a communicator that the prepare stage requested.
typedef XLA_FFI_Error* XLA_FFI_Communicator_Get(const XLA_FFI_Collectives_Extension* self,
    XLA_FFI_Communicator_Get_Args* args);
// Requests a window, in the prepare stage. From version 0.2.
typedef XLA_FFI_Error* XLA_FFI_Window_Request(const XLA_FFI_Collectives_Extension* self,
    XLA_FFI_Window_Request_Args* args);
// Returns a window that the prepare stage requested. From version 0.2.
typedef XLA_FFI_Error* XLA_FFI_Window_Get(const XLA_FFI_Collectives_Extension* self,
    XLA_FFI_Window_Get_Args* args);
// Requests a device communicator and the communicator of the same group, in the prepare stage.
// From version 0.3.
typedef XLA_FFI_Error* XLA_FFI_DeviceCommunicator_Request(const XLA_FFI_Collectives_Extension* self,
    XLA_FFI_DeviceCommunicator_Request_Args* args);
// Returns a device communicator that the prepare stage requested. From version 0.3.
typedef XLA_FFI_Error* XLA_FFI_DeviceCommunicator_Get(const XLA_FFI_Collectives_Extension* self,
    XLA_FFI_DeviceCommunicator_Get_Args* args);

// A group of devices that work together, as a list of ids.
struct XLA_FFI_ReplicaGroup {
  // The ids of the group's devices; size entries.
  const int64_t* ids;
  // The number of ids.
  size_t size;
};

// Arguments of request_communicator, for the prepare stage.
struct XLA_FFI_Communicator_Request_Args {
  // The number of bytes of this struct that the caller filled.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // How the host interprets the ids of groups.
  XLA_FFI_CollectiveGroupMode group_mode;
  // The replica groups; num_groups entries.
  const XLA_FFI_ReplicaGroup* groups;
  // The number of replica groups.
  size_t num_groups;
  // A number that distinguishes communicators of the same groups.
  int64_t communication_id;
};

// Arguments of get_communicator, for the stages after prepare.
struct XLA_FFI_Communicator_Get_Args {
  // The number of bytes of this struct that the caller filled.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // How the host interprets the ids of groups.
  XLA_FFI_CollectiveGroupMode group_mode;
  // The replica groups; num_groups entries.
  const XLA_FFI_ReplicaGroup* groups;
  // The number of replica groups.
  size_t num_groups;
  // A number that distinguishes communicators of the same groups.
  int64_t communication_id;
  // Out: the communicator of the groups.
  XLA_FFI_Communicator* communicator;
};

// A region of memory to cover with a window. From version 0.2.
struct XLA_FFI_CollectiveMemoryRegion {
  // The address of the region's first byte.
  const void* buffer;
  // The size of the region in bytes.
  size_t byte_size;
  // Flags with a meaning that the platform defines.
  uint64_t flags;
};

// Arguments of request_window, for the prepare stage. From version 0.2.
struct XLA_FFI_Window_Request_Args {
  // The number of bytes of this struct that the caller filled.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // How the host interprets the ids of groups.
  XLA_FFI_CollectiveGroupMode group_mode;
  // The replica groups; num_groups entries.
  const XLA_FFI_ReplicaGroup* groups;
  // The number of replica groups.
  size_t num_groups;
  // A number that distinguishes communicators of the same groups.
  int64_t communication_id;
  // The memory regions; num_regions entries.
  const XLA_FFI_CollectiveMemoryRegion* regions;
  // The number of memory regions.
  size_t num_regions;
};

// Arguments of get_window, for the stages after prepare. From version 0.2.
struct XLA_FFI_Window_Get_Args {
  // The number of bytes of this struct that the caller filled.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // How the host interprets the ids of groups.
  XLA_FFI_CollectiveGroupMode group_mode;
  // The replica groups; num_groups entries.
  const XLA_FFI_ReplicaGroup* groups;
  // The number of replica groups.
  size_t num_groups;
  // A number that distinguishes communicators of the same groups.
  int64_t communication_id;
  // In: an address in a registered memory region.
  const void* buffer;
  // Out: the window that contains buffer.
  XLA_FFI_Window* window;
  // Out: the distance from the window's start to buffer, in bytes.
  size_t window_offset;
};

// The resources that a device communicator needs. From version 0.3.
struct XLA_FFI_DeviceCommunicator_Requirements {
  // The number of bytes of this struct that the caller filled.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The number of barriers between devices that access each other's memory with loads and
  // stores; at least 0.
  int32_t lsa_barrier_count;
};

// Arguments of request_device_communicator, for the prepare stage. From version 0.3.
struct XLA_FFI_DeviceCommunicator_Request_Args {
  // The number of bytes of this struct that the caller filled.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // How the host interprets the ids of groups.
  XLA_FFI_CollectiveGroupMode group_mode;
  // The replica groups; num_groups entries.
  const XLA_FFI_ReplicaGroup* groups;
  // The number of replica groups.
  size_t num_groups;
  // A number that distinguishes communicators of the same groups.
  int64_t communication_id;
  // The resources of the device communicator, which must be the same on all ranks.
  const XLA_FFI_DeviceCommunicator_Requirements* requirements;
};

// Arguments of get_device_communicator, for the stages after prepare. From version 0.3.
struct XLA_FFI_DeviceCommunicator_Get_Args {
  // The number of bytes of this struct that the caller filled.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // How the host interprets the ids of groups.
  XLA_FFI_CollectiveGroupMode group_mode;
  // The replica groups; num_groups entries.
  const XLA_FFI_ReplicaGroup* groups;
  // The number of replica groups.
  size_t num_groups;
  // A number that distinguishes communicators of the same groups.
  int64_t communication_id;
  // The resources of the device communicator, as requested.
  const XLA_FFI_DeviceCommunicator_Requirements* requirements;
  // Out: the description of the device communicator, in host memory.
  const XLA_FFI_DeviceCommunicator* device_communicator;
  // Out: the size of the device communicator's description in bytes.
  size_t byte_size;
  // Out: the version of the device communicator's description. With NCCL, the
  // NCCL_VERSION_CODE that the host was compiled with, which may differ from the version of
  // the NCCL library at run time.
  int32_t version;
};

// The collectives extension of an invocation context, in version 0.3.
struct XLA_FFI_Collectives_Extension {
  // The entry in the extension chain.
  XLA_FFI_Extension extension_base;
  // The host's state, to pass to the extension's functions.
  XLA_FFI_CollectivesState* state;
  // Requests a communicator, in the prepare stage.
  XLA_FFI_Error* (*request_communicator)(const XLA_FFI_Collectives_Extension* self,
      XLA_FFI_Communicator_Request_Args* args);
  // Returns a communicator that the prepare stage requested.
  XLA_FFI_Error* (*get_communicator)(const XLA_FFI_Collectives_Extension* self,
      XLA_FFI_Communicator_Get_Args* args);
  // Requests a window, in the prepare stage. From version 0.2.
  XLA_FFI_Error* (*request_window)(const XLA_FFI_Collectives_Extension* self,
      XLA_FFI_Window_Request_Args* args);
  // Returns a window that the prepare stage requested. From version 0.2.
  XLA_FFI_Error* (*get_window)(const XLA_FFI_Collectives_Extension* self,
      XLA_FFI_Window_Get_Args* args);
  // Requests a device communicator and the communicator of the same group, in the prepare stage.
  // From version 0.3.
  XLA_FFI_Error* (*request_device_communicator)(const XLA_FFI_Collectives_Extension* self,
      XLA_FFI_DeviceCommunicator_Request_Args* args);
  // Returns a device communicator that the prepare stage requested. From version 0.3.
  XLA_FFI_Error* (*get_device_communicator)(const XLA_FFI_Collectives_Extension* self,
      XLA_FFI_DeviceCommunicator_Get_Args* args);
};

// Packed structs, by a header that leaves `#pragma pack` open or by -fpack-struct (/Zp), have other layouts.
#if defined(__cplusplus)
static_assert(sizeof(XLA_FFI_Communicator_Request_Args) == 48, "XLA_FFI_Communicator_Request_Args is packed: by an open #pragma pack or by -fpack-struct");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(XLA_FFI_Communicator_Request_Args) == 48, "XLA_FFI_Communicator_Request_Args is packed: by an open #pragma pack or by -fpack-struct");
#else
typedef char XLA_FFI_Communicator_Request_Args_is_packed[sizeof(XLA_FFI_Communicator_Request_Args) == 48 ? 1 : -1];
#endif

// Bytes up to the end of the last field that upstream counts, which is not always the last
// one.
enum {
  XLA_FFI_Communicator_Request_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Communicator_Request_Args, communication_id),
  XLA_FFI_Communicator_Get_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Communicator_Get_Args, communicator),
  XLA_FFI_Window_Request_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Window_Request_Args, num_regions),
  XLA_FFI_Window_Get_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Window_Get_Args, window_offset),
  XLA_FFI_DeviceCommunicator_Requirements_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_DeviceCommunicator_Requirements, lsa_barrier_count),
  XLA_FFI_DeviceCommunicator_Request_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_DeviceCommunicator_Request_Args, requirements),
  XLA_FFI_DeviceCommunicator_Get_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_DeviceCommunicator_Get_Args, version),
  XLA_FFI_Collectives_Extension_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Collectives_Extension, get_device_communicator),
};

#ifdef __cplusplus
}
#endif

#endif // XLA_FFI_API_COLLECTIVES_C_API_H_
