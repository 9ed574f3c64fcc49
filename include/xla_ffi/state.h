/* State that one stage leaves for later ones, and the types that carry it. Part of
 * <xla_ffi/handler.h>.
 *
 * A type is registered from inside the library, once per XLA copy (one process may hold several),
 * when the host asks for metadata or when it is first used. No host-side registration is needed.
 */
#ifndef XLA_FFI_STATE_H_
#define XLA_FFI_STATE_H_

#include "xla_ffi/context.h"

#if defined(__GNUC__)
#define XFFI_LOAD_(place) __atomic_load_n((place), __ATOMIC_ACQUIRE)
#define XFFI_STORE_(place, value) __atomic_store_n((place), (value), __ATOMIC_RELEASE)
#define XFFI_SWAP_(place, value) __atomic_exchange_n((place), (value), __ATOMIC_ACQ_REL)
#elif defined(_MSC_VER)
#include <intrin.h>
#define XFFI_LOAD_(place) (*(place))
#define XFFI_STORE_(place, value) ((void)(*(place) = (value)))
#define XFFI_SWAP_(place, value) _InterlockedExchange((volatile long*)(place), (value))
#else
#error "xla_ffi/state.h needs the atomic operations of GCC, Clang or MSVC"
#endif

#if defined(_WIN32)
#define XFFI_YIELD_() ((void)0)
#else
#include <sched.h>
#define XFFI_YIELD_() ((void)sched_yield())
#endif

/* The number of a type in one XLA copy. */
typedef struct xffi_type_entry {
  const XLA_FFI_Api* api;
  XLA_FFI_TypeId id;
  struct xffi_type_entry* next;
} xffi_type_entry;

/* A type of yours: static, `{"library.type", deleter}`. The deleter may be null for objects that
 * the host is not to destroy. Start the name with the library's: names are shared by a process. */
typedef struct xffi_type {
  const char* name;
  void (*deleter)(void* object);
  xffi_type_entry* entries; /* one per XLA copy, newest first; never shortened */
  long busy;                /* 1 while a registration runs */
} xffi_type;

#define XFFI_TYPE(name, deleter) {(name), (deleter), NULL, 0}

XFFI_COLD XLA_FFI_Error* xffi_type_register(const XLA_FFI_Api* api, xffi_type* type,
                                            XLA_FFI_TypeId* id) {
  XLA_FFI_TypeInfo info;
  XLA_FFI_Type_Register_Args args;
  XLA_FFI_Error* error = NULL;
  xffi_type_entry* entry;
  char name[256];
  int again;
  memset(&info, 0, sizeof(info));
  info.struct_size = XLA_FFI_TypeInfo_STRUCT_SIZE;
  info.deleter = type->deleter;
  if (xffi_host_minor(api) < 1) return xffi_lacks(api, "state", XFFI_R1);
  while (XFFI_SWAP_(&type->busy, 1) != 0) XFFI_YIELD_();
  for (entry = XFFI_LOAD_(&type->entries); entry != NULL; entry = entry->next) {
    if (entry->api == api) break;
  }
  if (entry == NULL) {
    entry = (xffi_type_entry*)malloc(sizeof(*entry));
    if (entry == NULL) {
      error = xffi_error_new(api, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED,
                             "no memory to register a type");
    } else {
      /* The object's address tells two copies of one library apart; a number, a library that was
       * unloaded from one that was loaded in its place. */
      for (again = 0; again < 16; ++again) {
        snprintf(name, sizeof(name), again == 0 ? "%.200s@%llx" : "%.200s@%llx#%d", type->name,
                 (unsigned long long)(uintptr_t)type, again);
        if (error != NULL) xffi_error_free(api, error);
        entry->id.type_id = 0;
        memset(&args, 0, sizeof(args));
        args.struct_size = XLA_FFI_Type_Register_Args_STRUCT_SIZE;
        args.name.ptr = name;
        args.name.len = strlen(name);
        args.type_id = &entry->id;
        args.type_info = &info;
        error = api->XLA_FFI_Type_Register(&args);
        if (error == NULL) break;
      }
      if (error == NULL) {
        entry->api = api;
        entry->next = XFFI_LOAD_(&type->entries);
        XFFI_STORE_(&type->entries, entry);
      } else {
        free(entry);
        entry = NULL;
      }
    }
  }
  XFFI_STORE_(&type->busy, 0);
  if (entry != NULL) *id = entry->id;
  return error;
}

/* The number of a type in the host's copy of XLA, registered where it was not yet. From r1. */
XFFI_INLINE XLA_FFI_Error* xffi_type_id(const XLA_FFI_Api* api, xffi_type* type,
                                        XLA_FFI_TypeId* id) {
  const xffi_type_entry* entry = XFFI_LOAD_(&type->entries);
  for (; entry != NULL; entry = entry->next) {
    if (entry->api == api) {
      *id = entry->id;
      return NULL;
    }
  }
  return xffi_type_register(api, type, id);
}

/* The arguments of State_Set up to r6 and on r7, and of State_Get up to r7. */
typedef struct xffi_state_set_r0 {
  size_t struct_size;
  void* extension_start;
  XLA_FFI_InvokeContext* ctx;
  XLA_FFI_TypeId* type_id;
  void* state;
  void (*deleter)(void* state);
} xffi_state_set_r0;
typedef struct xffi_state_set_r7 {
  size_t struct_size;
  void* extension_start;
  XLA_FFI_InvokeContext* ctx;
  XLA_FFI_TypeId* type_id;
  void* state; /* in for State_Set, out for State_Get */
} xffi_state_set_r7;

XFFI_COLD XLA_FFI_Error* xffi_state_lacks(const XLA_FFI_Api* api, XLA_FFI_ExecutionStage stage) {
  return xffi_host_minor(api) < 1 ? xffi_lacks(api, "state", XFFI_R1)
         : stage == XLA_FFI_ExecutionStage_PREPARE
             ? xffi_lacks(api, "state of the prepare stage", XFFI_R8)
             : xffi_lacks(api, "state of the initialize stage", XFFI_R8);
}

/* Leaves `state` for later stages. The host owns it from here; where that fails it is destroyed by
 * the type's deleter before the error is returned. Instantiate: from r1; prepare, initialize: r8. */
XFFI_INLINE XLA_FFI_Error* xffi_set_state(const xffi_call* call, xffi_type* type, void* state) {
  const XLA_FFI_Api* api = call->api;
  const XLA_FFI_ExecutionStage stage = call->frame->stage;
  const int minor = xffi_host_minor(api);
  XLA_FFI_TypeId id = {0};
  XLA_FFI_Error* error;
  if (stage == XLA_FFI_ExecutionStage_EXECUTE) {
    error = xffi_error_new(api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                           "the execute stage cannot leave state");
  } else if (minor < 1 || (minor < 3 && stage != XLA_FFI_ExecutionStage_INSTANTIATE)) {
    error = xffi_state_lacks(api, stage);
  } else {
    error = xffi_type_id(api, type, &id);
  }
  if (error == NULL) {
    if (minor >= 3) {
      XLA_FFI_State_Set_Args args;
      memset(&args, 0, sizeof(args));
      args.struct_size = XLA_FFI_State_Set_Args_STRUCT_SIZE;
      args.ctx = call->ctx;
      args.stage = stage;
      args.type_id = &id;
      args.state = state;
      error = api->XLA_FFI_State_Set(&args);
    } else if (minor == 2) {
      xffi_state_set_r7 args = {sizeof(args), NULL, call->ctx, &id, state};
      error = api->XLA_FFI_State_Set((XLA_FFI_State_Set_Args*)(void*)&args);
    } else {
      xffi_state_set_r0 args = {sizeof(args), NULL, call->ctx, &id, state, type->deleter};
      error = api->XLA_FFI_State_Set((XLA_FFI_State_Set_Args*)(void*)&args);
    }
  }
  if (error != NULL && type->deleter != NULL) type->deleter(state);
  return error;
}

/* The state that `stage` left; the host keeps it. Of instantiate: from r1; of others: r8. */
XFFI_INLINE XLA_FFI_Error* xffi_get_state(const xffi_call* call, xffi_type* type,
                                          XLA_FFI_ExecutionStage stage, void** state) {
  const XLA_FFI_Api* api = call->api;
  const int minor = xffi_host_minor(api);
  XLA_FFI_TypeId id = {0};
  XLA_FFI_Error* error;
  *state = NULL;
  if (minor < 1 || (minor < 3 && stage != XLA_FFI_ExecutionStage_INSTANTIATE)) {
    return xffi_state_lacks(api, stage);
  }
  error = xffi_type_id(api, type, &id);
  if (error != NULL) return error;
  if (minor >= 3) {
    XLA_FFI_State_Get_Args args;
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_State_Get_Args_STRUCT_SIZE;
    args.ctx = call->ctx;
    args.stage = stage;
    args.type_id = &id;
    error = api->XLA_FFI_State_Get(&args);
    *state = error == NULL ? args.state : NULL;
  } else {
    xffi_state_set_r7 args = {sizeof(args), NULL, call->ctx, &id, NULL};
    error = api->XLA_FFI_State_Get((XLA_FFI_State_Get_Args*)(void*)&args);
    *state = error == NULL ? args.state : NULL;
  }
  return error;
}

#endif  /* XLA_FFI_STATE_H_ */
