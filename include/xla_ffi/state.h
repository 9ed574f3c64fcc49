/* State that one stage stores for later stages, and the types of state and user data. Part of <xla_ffi/handler.h>.
 *
 * The library registers a type once per copy of XLA in the process, at the metadata query or at the first use. The
 * program need not register the type.
 */
#ifndef XLA_FFI_STATE_H_
#define XLA_FFI_STATE_H_

#include "xla_ffi/context.h"

/* The id of a type in one copy of XLA. */
typedef struct xffi_type_entry_ {
  const XLA_FFI_Api* api;
  XLA_FFI_TypeId id;
  struct xffi_type_entry_* next;
} xffi_type_entry_;

/* A state type of a library: a static object, initialised with XFFI_TYPE("library.type", deleter). The deleter may be
 * null for objects that the host must not destroy. Hosts receive the name with a unique suffix, so that it does not
 * clash with other libraries, or with this library if it is loaded again. */
typedef struct xffi_type {
  const char* name;
  void (*deleter)(void* object);
  xffi_type_entry_* entries; /* one per copy of XLA, newest first; never removed */
  int shared;               /* 1 for XFFI_SHARED_TYPE, otherwise 0 */
} xffi_type;

#define XFFI_TYPE(name, deleter) {(name), (deleter), NULL, 0}

/* A type of user data that the program and libraries share: hosts receive exactly this name. All users of the name must
 * use the same layout, in every language and version, so include a version number in the name. */
#define XFFI_SHARED_TYPE(name, deleter) {(name), (deleter), NULL, 1}

/* A deleter that does nothing. Hosts from jaxlib 0.8.1 on refuse state of a type without a deleter, and older hosts
 * call a null deleter. */
XFFI_COLD_ void xffi_keep_(void* object) { (void)object; }

/* Returns the deleter to register with hosts, which is never null. */
XFFI_INLINE_ void (*xffi_type_deleter_(const xffi_type* type))(void* object) {
  return type->deleter != NULL ? type->deleter : xffi_keep_;
}

/* Returns the entry for a copy of XLA in the list that starts at `entry`; null if there is none. */
XFFI_INLINE_ const xffi_type_entry_* xffi_type_entry_of_(const xffi_type_entry_* entry, const XLA_FFI_Api* api) {
  while (entry != NULL && entry->api != api) entry = entry->next;
  return entry;
}

/* Registers a type. If several threads register the type at the same time, all use the id of the first. */
XFFI_COLD_ XLA_FFI_Error* xffi_type_register_(const XLA_FFI_Api* api, xffi_type* type,
                                            XLA_FFI_TypeId* id) {
  XLA_FFI_Error* error;
  xffi_type_entry_* entry;
  const xffi_type_entry_* first;
  XLA_FFI_TypeInfo info;
  char name[256];
  if (!type->shared && xffi_host_minor_(api) < 1) {
    return xffi_missing_feature_(api, XFFI_FEATURE_(STATE));
  }
  entry = (xffi_type_entry_*)malloc(sizeof(*entry));
  if (entry == NULL) {
    return xffi_error_new(api, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory to register a type");
  }
  entry->api = api;
  entry->id.type_id = 0;
  memset(&info, 0, sizeof(info));
  info.struct_size = XLA_FFI_TypeInfo_STRUCT_SIZE;
  info.deleter = xffi_type_deleter_(type);
  if (type->shared) {
    error = xffi_type_share_(api, type->name, &info, &entry->id);
  } else {
    /* The address of the entry makes the name unique. The entry is never freed, even if a different thread was first. A
     * library that is later loaded at the same address therefore gets a different name. */
    xffi_snprintf_(name, sizeof(name), "%.200s@%llx", type->name, (unsigned long long)(uintptr_t)entry);
    error = xffi_type_ask_(api, name, &info, &entry->id);
  }
  if (error != NULL) {
    XLA_FFI_Error_Code code;
    const char* cause = xffi_error_details(api, error, &code);
    XLA_FFI_Error* told =
        xffi_error_format_(api, code, "this XLA does not take the type '%s': %s", type->name, cause);
    xffi_error_free(api, error);
    free(entry);
    return told;
  }
  *id = entry->id;
  entry->next = (xffi_type_entry_*)XFFI_LOAD_POINTER_(&type->entries);
  do {
    first = xffi_type_entry_of_(entry->next, api);
    if (first != NULL) {
      *id = first->id;
      break;
    }
  } while (!XFFI_SWAP_POINTER_IF_(&type->entries, &entry->next, entry));
  return NULL;
}

/* Gets the id of a type in the host's copy of XLA, and registers the type if necessary. Available from r1 on; for
 * shared types, in every revision. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_type_id_(const XLA_FFI_Api* api, xffi_type* type,
                                        XLA_FFI_TypeId* id) {
  const xffi_type_entry_* entry = xffi_type_entry_of_((const xffi_type_entry_*)XFFI_LOAD_POINTER_(&type->entries), api);
  if (entry == NULL) return xffi_type_register_(api, type, id);
  *id = entry->id;
  return NULL;
}

/* Gets the user data of a shared type that the program attached to this execution; null if there is none. Any other
 * failure is an error. Types that are not shared are an error, because the program does not know their names or ids. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_find_user_data(const xffi_call* call, xffi_type* type, void** data) {
  const XLA_FFI_Api* api = call->api;
  XLA_FFI_TypeId id = {0};
  XLA_FFI_Error_Code code;
  int said;
  XLA_FFI_Error* error;
  *data = NULL;
  if (!type->shared) {
    return xffi_error(call, XLA_FFI_Error_Code_INTERNAL,
                      "no program can attach user data of the type '%s', which is its library's alone: make it an "
                             "XFFI_SHARED_TYPE",
                      type->name);
  }
  error = xffi_type_id_(api, type, &id);
  if (error != NULL) return error;
  error = xffi_user_data(call, id, data);
  if (error == NULL) return NULL;
  /* Hosts before r9 do not report the error code, so the message is checked. */
  said = strstr(xffi_error_details(api, error, &code), "not found in execution context") != NULL;
  if (code != XLA_FFI_Error_Code_NOT_FOUND && !(said && xffi_host_minor_(api) < 4)) return error;
  xffi_error_free(api, error);
  return NULL;
}

XFFI_COLD_ XLA_FFI_Error* xffi_missing_state_(const XLA_FFI_Api* api, XLA_FFI_ExecutionStage stage) {
  return stage == XLA_FFI_ExecutionStage_INSTANTIATE ? xffi_missing_feature_(api, XFFI_FEATURE_(STATE))
                                                     : xffi_missing_feature_(api, XFFI_FEATURE_(STAGE_STATE));
}

/* Stores `state` for later stages and passes its ownership to the host. On failure, the type's deleter destroys
 * `state`. Available in the instantiate stage from r1 on, in prepare and initialize from r8 on. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_set_state(const xffi_call* call, xffi_type* type, void* state) {
  const XLA_FFI_Api* api = call->api;
  const XLA_FFI_ExecutionStage stage = call->frame->stage;
  const int minor = xffi_host_minor_(api);
  XLA_FFI_TypeId id = {0};
  XLA_FFI_Error* error;
  if (state == NULL) {
    return xffi_error_new(api, XLA_FFI_Error_Code_INTERNAL, "the handler left a null pointer as its state");
  }
  if (stage == XLA_FFI_ExecutionStage_EXECUTE) {
    error = xffi_error_new(api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                           "the execute stage cannot leave state");
  } else if (minor < 1 || (minor < 3 && stage != XLA_FFI_ExecutionStage_INSTANTIATE)) {
    error = xffi_missing_state_(api, stage);
  } else {
    error = xffi_type_id_(api, type, &id);
  }
  if (error == NULL) error = xffi_state_set_(api, call->ctx, stage, id, state, xffi_type_deleter_(type));
  if (error != NULL && type->deleter != NULL) type->deleter(state);
  return error;
}

/* Gets the state that `stage` stored. The host still owns the state. Available for the instantiate stage from r1 on,
 * for other stages from r8 on. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_get_state(const xffi_call* call, xffi_type* type,
                                          XLA_FFI_ExecutionStage stage, void** state) {
  const XLA_FFI_Api* api = call->api;
  const int minor = xffi_host_minor_(api);
  XLA_FFI_TypeId id = {0};
  XLA_FFI_Error* error;
  *state = NULL;
  if (minor < 1 || (minor < 3 && stage != XLA_FFI_ExecutionStage_INSTANTIATE)) {
    return xffi_missing_state_(api, stage);
  }
  error = xffi_type_id_(api, type, &id);
  if (error != NULL) return error;
  return xffi_state_get_(api, call->ctx, stage, id, state);
}

#endif  /* XLA_FFI_STATE_H_ */
