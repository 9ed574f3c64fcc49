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

// The host's state of the extension.
typedef struct XLA_FFI_CollectivesState XLA_FFI_CollectivesState;
// A communicator, for example of NCCL.
typedef struct XLA_FFI_Communicator XLA_FFI_Communicator;
// Memory registered with a communicator. From version 0.2.
typedef struct XLA_FFI_Window XLA_FFI_Window;
// Description of a device communicator in host memory; with NCCL an ncclDevComm, which kernels
// take by value. The host owns it. Read or copy it in the call that gets it, and do not change
// it. From version 0.3.
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

// The interpretation of a replica group's ids.
enum XLA_FFI_CollectiveGroupMode {
  // Replica ids.
  XLA_FFI_GROUP_CROSS_REPLICA = 0,
  // Partition ids.
  XLA_FFI_GROUP_CROSS_PARTITION = 1,
  // Replica ids, for all partitions.
  XLA_FFI_GROUP_CROSS_REPLICA_AND_PARTITION = 2,
  // Flattened ids of replica and partition.
  XLA_FFI_GROUP_FLATTENED_ID = 3,
};
typedef enum XLA_FFI_CollectiveGroupMode XLA_FFI_CollectiveGroupMode;

// Requests a communicator.
typedef XLA_FFI_Error* XLA_FFI_Communicator_Request(const XLA_FFI_Collectives_Extension* self,
    XLA_FFI_Communicator_Request_Args* args);
// Gets a communicator that was requested.
typedef XLA_FFI_Error* XLA_FFI_Communicator_Get(const XLA_FFI_Collectives_Extension* self,
    XLA_FFI_Communicator_Get_Args* args);
// Requests a window. From version 0.2.
typedef XLA_FFI_Error* XLA_FFI_Window_Request(const XLA_FFI_Collectives_Extension* self,
    XLA_FFI_Window_Request_Args* args);
// Gets a window that was requested. From version 0.2.
typedef XLA_FFI_Error* XLA_FFI_Window_Get(const XLA_FFI_Collectives_Extension* self,
    XLA_FFI_Window_Get_Args* args);
// Requests a device communicator, and the communicator of the same group. From version 0.3.
typedef XLA_FFI_Error* XLA_FFI_DeviceCommunicator_Request(const XLA_FFI_Collectives_Extension* self,
    XLA_FFI_DeviceCommunicator_Request_Args* args);
// Gets a device communicator that was requested. From version 0.3.
typedef XLA_FFI_Error* XLA_FFI_DeviceCommunicator_Get(const XLA_FFI_Collectives_Extension* self,
    XLA_FFI_DeviceCommunicator_Get_Args* args);

// A group of devices that work together.
struct XLA_FFI_ReplicaGroup {
  // First id.
  const int64_t* ids;
  // Number of ids.
  size_t size;
};

// Arguments of request_communicator, for the prepare stage.
struct XLA_FFI_Communicator_Request_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The interpretation of the ids.
  XLA_FFI_CollectiveGroupMode group_mode;
  // First group.
  const XLA_FFI_ReplicaGroup* groups;
  // Number of groups.
  size_t num_groups;
  // Distinguishes communicators of the same group.
  int64_t communication_id;
};

// Arguments of get_communicator, for the stages after prepare.
struct XLA_FFI_Communicator_Get_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The interpretation of the ids.
  XLA_FFI_CollectiveGroupMode group_mode;
  // First group.
  const XLA_FFI_ReplicaGroup* groups;
  // Number of groups.
  size_t num_groups;
  // Distinguishes communicators of the same group.
  int64_t communication_id;
  // Out: the communicator.
  XLA_FFI_Communicator* communicator;
};

// Memory to cover with a window. From version 0.2.
struct XLA_FFI_CollectiveMemoryRegion {
  // First byte.
  const void* buffer;
  // The size in bytes.
  size_t byte_size;
  // Flags of the platform.
  uint64_t flags;
};

// Arguments of request_window, for the prepare stage. From version 0.2.
struct XLA_FFI_Window_Request_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The interpretation of the ids.
  XLA_FFI_CollectiveGroupMode group_mode;
  // First group.
  const XLA_FFI_ReplicaGroup* groups;
  // Number of groups.
  size_t num_groups;
  // Distinguishes communicators of the same group.
  int64_t communication_id;
  // First region.
  const XLA_FFI_CollectiveMemoryRegion* regions;
  // Number of regions.
  size_t num_regions;
};

// Arguments of get_window, for the stages after prepare. From version 0.2.
struct XLA_FFI_Window_Get_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The interpretation of the ids.
  XLA_FFI_CollectiveGroupMode group_mode;
  // First group.
  const XLA_FFI_ReplicaGroup* groups;
  // Number of groups.
  size_t num_groups;
  // Distinguishes communicators of the same group.
  int64_t communication_id;
  // In: an address in a registered region.
  const void* buffer;
  // Out: the window.
  XLA_FFI_Window* window;
  // Out: the distance from the window's start to buffer, in bytes.
  size_t window_offset;
};

// Resources of a device communicator. From version 0.3.
struct XLA_FFI_DeviceCommunicator_Requirements {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // Number of barriers between devices that access each other's memory with loads and stores; at
  // least 0.
  int32_t lsa_barrier_count;
};

// Arguments of request_device_communicator, for the prepare stage. From version 0.3.
struct XLA_FFI_DeviceCommunicator_Request_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The interpretation of the ids.
  XLA_FFI_CollectiveGroupMode group_mode;
  // First group.
  const XLA_FFI_ReplicaGroup* groups;
  // Number of groups.
  size_t num_groups;
  // Distinguishes communicators of the same group.
  int64_t communication_id;
  // Its resources, which must be the same on all ranks.
  const XLA_FFI_DeviceCommunicator_Requirements* requirements;
};

// Arguments of get_device_communicator, for the stages after prepare. From version 0.3.
struct XLA_FFI_DeviceCommunicator_Get_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The interpretation of the ids.
  XLA_FFI_CollectiveGroupMode group_mode;
  // First group.
  const XLA_FFI_ReplicaGroup* groups;
  // Number of groups.
  size_t num_groups;
  // Distinguishes communicators of the same group.
  int64_t communication_id;
  // Its resources, as requested.
  const XLA_FFI_DeviceCommunicator_Requirements* requirements;
  // Out: the description, in host memory.
  const XLA_FFI_DeviceCommunicator* device_communicator;
  // Out: the size of the description in bytes.
  size_t byte_size;
  // Out: the version of the description. With NCCL, the NCCL_VERSION_CODE that the host was
  // compiled with, which may differ from the version of the NCCL library at run time.
  int32_t version;
};

// The extension in an invocation context, version 0.3.
struct XLA_FFI_Collectives_Extension {
  // The link of the chain.
  XLA_FFI_Extension extension_base;
  // The host's state.
  XLA_FFI_CollectivesState* state;
  // Requests a communicator.
  XLA_FFI_Error* (*request_communicator)(const XLA_FFI_Collectives_Extension* self,
      XLA_FFI_Communicator_Request_Args* args);
  // Gets a communicator that was requested.
  XLA_FFI_Error* (*get_communicator)(const XLA_FFI_Collectives_Extension* self,
      XLA_FFI_Communicator_Get_Args* args);
  // Requests a window. From version 0.2.
  XLA_FFI_Error* (*request_window)(const XLA_FFI_Collectives_Extension* self,
      XLA_FFI_Window_Request_Args* args);
  // Gets a window that was requested. From version 0.2.
  XLA_FFI_Error* (*get_window)(const XLA_FFI_Collectives_Extension* self,
      XLA_FFI_Window_Get_Args* args);
  // Requests a device communicator, and the communicator of the same group. From version 0.3.
  XLA_FFI_Error* (*request_device_communicator)(const XLA_FFI_Collectives_Extension* self,
      XLA_FFI_DeviceCommunicator_Request_Args* args);
  // Gets a device communicator that was requested. From version 0.3.
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
