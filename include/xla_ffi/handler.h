/* XLA custom calls in plain C (C99): inline helpers that let one library run on every XLA.
 *
 *   #include "xla_ffi/handler.h"
 *
 *   static XLA_FFI_Error* scale(xffi_call* call) {
 *     xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
 *     xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
 *     float by = xffi_attr_f32_or(call, "by", 2.0f);
 *     XLA_FFI_Error* error;
 *     xffi_same_shape(call, "x", &x, "y", &y);
 *     if ((error = xffi_decoded(call)) != NULL) return error;
 *     for (int64_t i = 0; i < x.count; ++i) ((float*)y.data)[i] = by * ((float*)x.data)[i];
 *     return NULL;
 *   }
 *   XFFI_HANDLER(scale_f32, scale);
 *
 * The handler answers the host's metadata query, runs only in its own stage, and refuses operands and attributes that
 * it did not request. An error lists every problem, one per line, with the names that were passed to the fetches.
 * The host owns returned errors and fetched values; fetched values are invalid after the call. The library exports
 * only the symbols that the macros define.
 */
#ifndef XLA_FFI_HANDLER_H_
#define XLA_FFI_HANDLER_H_

/* Sources may include this header inside `extern "C"`, which does not allow the templates of C++ headers. */
#if defined(__cplusplus)
extern "C++" {
#include <exception>
#include <new>
}
#endif

/* Silences the C++ warnings about the C-style casts in this header. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

#include "xla_ffi/attribute.h"
#include "xla_ffi/call.h"
#include "xla_ffi/cancellation.h"
#include "xla_ffi/context.h"
#include "xla_ffi/future.h"
#include "xla_ffi/host.h"
#include "xla_ffi/manifest.h"
#include "xla_ffi/on_load.h"
#include "xla_ffi/shape.h"
#include "xla_ffi/state.h"

/* The constant properties of a handler. */
typedef struct xffi_handler_info_ {
  const char* name;
  XLA_FFI_ExecutionStage stage;
  xffi_revision floor; /* the oldest revision on which the handler can work */
  XLA_FFI_Handler_Traits traits;
  xffi_type* state; /* for an instantiate handler, the type of its state; or null */
  int host_only; /* whether operands must be in host memory */
} xffi_handler_info_;

XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_refuse_(xffi_call* call) {
  char count[32] = "";
  if (call->problems != 1) xffi_snprintf_(count, sizeof(count), "%d problems\n  ", call->problems);
  return xffi_error(call, call->code, "%s%s", count, call->text + 3);
}

/* Records that the call has more operands than the handler fetched. */
XFFI_COLD_ void xffi_too_many_(xffi_call* call, const char* what, int64_t fetched, const char* const* names, int64_t got) {
  xla_ffi_sdk_line line;
  int64_t i;
  int named = fetched > 0 && fetched <= XFFI_NAMES_;
  for (i = 0; named && i < fetched; ++i) named = names[i] != NULL;
  line.size = 0;
  xla_ffi_sdk_put_count(&line, what, fetched);
  for (i = 0; named && i < fetched; ++i) xla_ffi_sdk_put_listed(&line, i == 0, names[i], strlen(names[i]));
  xla_ffi_sdk_put_words(&line, named ? "), got " : ", got ");
  xla_ffi_sdk_put_number(&line, got);
  xffi_problem(call, "%s", line.text);
}

XFFI_COLD_ void xffi_report_counts_(xffi_call* call) {
  if (xffi_args_left(call) > 0) xffi_too_many_(call, "argument", call->next_arg, call->args, call->frame->args.size);
  if (xffi_rets_left(call) > 0) xffi_too_many_(call, "result", call->next_ret, call->rets, call->frame->rets.size);
}

/* Writes an operand's name for messages. The names of the first XFFI_NAMES_ operands are known; others are shown by
 * index. */
XFFI_COLD_ void xffi_put_operand_(xla_ffi_sdk_line* line, const void* context, int is_arg,
                                int64_t index) {
  const xffi_call* call = (const xffi_call*)context;
  const int known = index < XFFI_NAMES_ && index < (is_arg ? call->next_arg : call->next_ret);
  xffi_put_name_(line, is_arg ? "argument" : "result", known ? (is_arg ? call->args : call->rets)[index] : NULL, index);
}

/* Reports results that start where another operand starts. */
XFFI_COLD_ void xffi_report_overlaps_(xffi_call* call) {
  xla_ffi_sdk_clash_of clash = {0, -1, 1};
  while (xla_ffi_sdk_next_clash(call->frame, call->next_arg, call->next_ret, &clash)) {
    xla_ffi_sdk_line line;
    line.size = 0;
    xffi_put_operand_(&line, call, 0, clash.ret);
    xla_ffi_sdk_put_words(&line, XLA_FFI_SDK_TEXT_OVERLAPS);
    xffi_put_operand_(&line, call, clash.with_arg, clash.other);
    if (clash.with_arg) xla_ffi_sdk_put_words(&line, XLA_FFI_SDK_TEXT_ALIASED);
    xffi_problem(call, "%s", line.text);
  }
}

XFFI_COLD_ void xffi_report_shapes_(xffi_call* call, xla_ffi_sdk_shapes* shapes) {
  do {
    xla_ffi_sdk_line line;
    line.size = 0;
    xla_ffi_sdk_put_misfit(&line, shapes, xffi_put_operand_, call);
    xffi_problem(call, "%s", line.text);
  } while (xla_ffi_sdk_next_misfit(shapes));
}

/* Records that a shape contract is invalid, or does not match the number of operands. */
XFFI_COLD_ void xffi_wrong_contract_(xffi_call* call, const xla_ffi_sdk_shapes* shapes) {
  const char* why = shapes->wrong == XLA_FFI_SDK_WRONG_SHORT  ? "has no entry for one of the operands"
                    : shapes->wrong == XLA_FFI_SDK_WRONG_LONG ? "has an entry more than there are operands"
                                                              : "is not a contract";
  xffi_problem(call, "the shape contract `%.200s` %s", shapes->contract, why);
}

/* Refuses the call unless the operands match a shape contract such as "... n, n k -> ... k". Call this function after
 * all operands are fetched and before xffi_decoded. Repeat the contract in the manifest with XFFI_SHAPE. */
XFFI_INLINE_ void xffi_shapes(xffi_call* call, const char* contract) {
  xla_ffi_sdk_shapes shapes;
  /* xffi_decoded reports these problems. */
  if (call->problems != 0 || xffi_args_left(call) > 0 || xffi_rets_left(call) > 0) return;
  xla_ffi_sdk_shapes_begin(&shapes, contract, call->frame);
  if (XFFI_UNLIKELY_(xla_ffi_sdk_next_misfit(&shapes))) {
    xffi_report_shapes_(call, &shapes);
  } else if (XFFI_UNLIKELY_(shapes.wrong != XLA_FFI_SDK_WRONG_NOTHING)) {
    xffi_wrong_contract_(call, &shapes);
  }
}

/* Ends decoding. Returns null if the call has exactly the requested operands and attributes and all are valid;
 * otherwise the error to return. In stages other than execute, a handler that fetches no operands accepts any. If
 * `call->open_attrs` is set, surplus attributes and dictionary fields are accepted. */
XFFI_MUST_USE_ XFFI_SLOW_ XLA_FFI_Error* xffi_decoded(xffi_call* call) {
  const int counts = call->frame->stage == XLA_FFI_ExecutionStage_EXECUTE;
  if (XFFI_UNLIKELY_((xffi_args_left(call) > 0 && (counts || call->next_arg > 0)) ||
                    (xffi_rets_left(call) > 0 && (counts || call->next_ret > 0)))) {
    xffi_report_counts_(call);
  }
  if (!call->open_attrs) {
    xffi_dict_done(call, &call->attrs);
    if (call->dict_count != 0) xffi_dicts_done_(call);
  }
  call->decoded = call->next_arg + call->next_ret;
  if (call->problems == 0 && xffi_has_memory_(call) &&
      XFFI_UNLIKELY_(xla_ffi_sdk_any_clash(call->frame, call->next_arg, call->next_ret))) {
    xffi_report_overlaps_(call);
  }
  return XFFI_UNLIKELY_(call->problems != 0) ? xffi_refuse_(call) : NULL;
}

/* Returns an error if the handler succeeded although the call should be refused: the handler did not call xffi_decoded
 * after all fetches, or ignored its error. A handler that fetched nothing reads the call frame itself and is not
 * checked. */
XFFI_COLD_ XLA_FFI_Error* xffi_not_decoded_(xffi_call* call) {
  if (xffi_is_decoded_(call)) return NULL;
  if (call->decoded != call->next_arg + call->next_ret) {
    XLA_FFI_Error* error = xffi_decoded(call);
    if (error == NULL) return NULL;
    xffi_error_free(call->api, error);
  }
  xffi_problem(call, "the handler ran although the call is refused: return what xffi_decoded returns");
  return xffi_refuse_(call);
}

XFFI_COLD_ XLA_FFI_Error* xffi_metadata_(const XLA_FFI_CallFrame* frame, const xffi_handler_info_* handler,
                                       const XLA_FFI_Metadata_Extension* extension) {
  XLA_FFI_Error* error =
      xffi_answer_metadata_(frame->api, extension, handler->name, handler->floor, handler->traits);
  if (error == NULL && frame->api != NULL && xffi_host_minor_(frame->api) >= 2) {
    extension->metadata->state_type_id.type_id = 0; /* before version 0.2, the struct has no such field */
  }
  return error;
}

/* Answers the metadata query to a handler that stores state. A separate function, so that libraries without state do
 * not contain it. */
XFFI_COLD_ XLA_FFI_Error* xffi_metadata_of_state_(const XLA_FFI_CallFrame* frame,
                                                 const xffi_handler_info_* handler,
                                                 const XLA_FFI_Metadata_Extension* extension) {
  XLA_FFI_Error* error = xffi_metadata_(frame, handler, extension);
  if (error != NULL || frame->api == NULL || xffi_host_minor_(frame->api) < 2) return error;
  if (XFFI_NEWEST_KNOWN_ < XFFI_R8 && xffi_is_newer_(frame->api)) return NULL; /* the execute call reports the reason */
  return xffi_type_id_(frame->api, handler->state, &extension->metadata->state_type_id);
}

XFFI_COLD_ XLA_FFI_Error* xffi_wrong_call_(const XLA_FFI_CallFrame* frame,
                                         const xffi_handler_info_* handler) {
  if (frame->struct_size < offsetof(XLA_FFI_CallFrame, ctx)) return NULL; /* the call frame is too short for an error */
  if (frame->api == NULL) return NULL;
  /* Before r0, the stages had different numbers, so every call from such a host is handled here. */
  if (xffi_is_before_r0_(frame->api)) {
    return xffi_refuse_before_r0_(frame->api, handler->name, strlen(handler->name));
  }
  if (frame->struct_size < XLA_FFI_CallFrame_STRUCT_SIZE || !xla_ffi_sdk_has_lists(frame)) {
    return xffi_error_format_(frame->api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                             "%s (%s): " XLA_FFI_SDK_TEXT_SHORT_FRAME " (%zu bytes, expected %zu)",
                             handler->name, xffi_stage_name_(handler->stage), frame->struct_size,
                             (size_t)XLA_FFI_CallFrame_STRUCT_SIZE);
  }
  return xffi_error_format_(frame->api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                           "%s (%s): " XLA_FFI_SDK_TEXT_CALLED_AT "%s" XLA_FFI_SDK_TEXT_OWN_STAGE, handler->name,
                           xffi_stage_name_(handler->stage), xffi_stage_name_(frame->stage));
}

XFFI_COLD_ XLA_FFI_Error* xffi_on_device_(const XLA_FFI_CallFrame* frame, const xffi_handler_info_* handler) {
  return xffi_error_format_(frame->api, XLA_FFI_Error_Code_FAILED_PRECONDITION,
                           "%s (%s): " XLA_FFI_SDK_TEXT_DEVICE, handler->name, xffi_stage_name_(handler->stage));
}

/* Calls the function of a handler. A C++ function may throw, but the exception must not reach the host, which is
 * written in C or built without exceptions. */
#if defined(__cplusplus) && (defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND))
XFFI_COLD_ XLA_FFI_Error* xffi_thrown_(const xffi_call* call) {
  XLA_FFI_Error_Code code = XLA_FFI_Error_Code_INTERNAL;
  const char* const what = "C++ exception: %s";
  try {
    throw;
  } catch (const std::bad_alloc& e) {
    code = XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
    return xffi_error(call, code, "out of memory: %s", e.what());
  } catch (const std::exception& e) {
    return xffi_error(call, code, what, e.what());
  } catch (const char* e) {
    return xffi_error(call, code, what, e);
  } catch (...) {
    return xffi_error(call, code, what, "of a type that is not std::exception");
  }
}
XFFI_HOT_ XLA_FFI_Error* xffi_called_(xffi_call* call, XLA_FFI_Error* (*function)(xffi_call*)) {
  try {
    return function(call);
  } catch (...) {
    return xffi_thrown_(call);
  }
}
#else
XFFI_HOT_ XLA_FFI_Error* xffi_called_(xffi_call* call, XLA_FFI_Error* (*function)(xffi_call*)) {
  return function(call);
}
#endif

/* Checks the call frame, and calls the handler's function or answers a metadata query. */
XFFI_HOT_ XLA_FFI_Error* xffi_dispatch_(XLA_FFI_CallFrame* frame, const xffi_handler_info_* handler,
                                         XLA_FFI_Error* (*function)(xffi_call*)) {
  xffi_call call;
  XLA_FFI_Error* error;
  if (XFFI_UNLIKELY_(frame->struct_size >= 24 && frame->extension_start != NULL)) {
    const XLA_FFI_Metadata_Extension* extension = xffi_find_metadata_(frame);
    if (extension != NULL) {
      return handler->state == NULL ? xffi_metadata_(frame, handler, extension)
                                    : xffi_metadata_of_state_(frame, handler, extension);
    }
  }
  if (XFFI_UNLIKELY_(frame->struct_size < XLA_FFI_CallFrame_STRUCT_SIZE || frame->api == NULL ||
                    xffi_is_before_r0_(frame->api) || !xla_ffi_sdk_has_lists(frame) || frame->stage != handler->stage)) {
    return xffi_wrong_call_(frame, handler);
  }
  if (handler->host_only && XFFI_UNLIKELY_(!xla_ffi_sdk_is_on_host(frame))) {
    return xffi_on_device_(frame, handler);
  }
  call.api = frame->api;
  call.ctx = frame->ctx;
  call.frame = frame;
  call.handler = handler->name;
  call.next_arg = call.next_ret = 0;
  call.attrs.attrs = &frame->attrs;
  call.attrs.path = "";
  call.attrs.seen[0] = call.attrs.seen[1] = call.attrs.seen[2] = call.attrs.seen[3] = 0;
  call.attrs.kept = NULL;
  call.attrs.asked = 0;
  call.dict_count = 0;
  call.open_attrs = 0;
  call.problems = 0;
  call.decoded = -1;
  call.code = XLA_FFI_Error_Code_INVALID_ARGUMENT;
  call.text_size = 0;
  error = xffi_called_(&call, function);
  if (XFFI_UNLIKELY_(error == NULL && (call.problems != 0 || call.decoded != call.next_arg + call.next_ret))) {
    error = xffi_not_decoded_(&call);
  }
  return error;
}

/* Defines the exported symbol of a handler of any stage. `floor` is an xffi_revision. `state` is NULL or, for an
 * instantiate handler, the address of the xffi_type of its state. */
#define XFFI_HANDLER_WITH(symbol, function, stage, floor, traits, state) \
  XFFI_HANDLER_OF_(symbol, function, stage, floor, traits, state, 0)
#define XFFI_HANDLER_OF_(symbol, function, stage, floor, traits, state, host_only) \
  XFFI_EXPORT XLA_FFI_Error* symbol(XLA_FFI_CallFrame* xffi_frame_);             \
  XFFI_EXPORT XLA_FFI_Error* symbol(XLA_FFI_CallFrame* xffi_frame_) {            \
    static const xffi_handler_info_ xffi_handler_ = {#symbol, stage, floor, traits, state, host_only}; \
    return xffi_dispatch_(xffi_frame_, &xffi_handler_, function);                 \
  }                                                                              \
  struct symbol##_needs_a_semicolon

/* Defines the exported symbol of an execute handler that works on r0 and later. */
#define XFFI_HANDLER(symbol, function) \
  XFFI_HANDLER_WITH(symbol, function, XLA_FFI_ExecutionStage_EXECUTE, XFFI_R0, 0, NULL)

/* Defines the exported symbol of an execute handler for host memory. The handler refuses calls with a device stream. */
#define XFFI_HOST_HANDLER(symbol, function) \
  XFFI_HOST_HANDLER_WITH(symbol, function, XLA_FFI_ExecutionStage_EXECUTE, XFFI_R0, 0, NULL)
#define XFFI_HOST_HANDLER_WITH(symbol, function, stage, floor, traits, state) \
  XFFI_HANDLER_OF_(symbol, function, stage, floor, traits, state, 1)

/* Registers the handlers of a bundle with a host under a name, for libraries that register themselves. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_register_handler(const XLA_FFI_Api* api, const char* name,
                                                 const char* platform,
                                                 const XLA_FFI_Handler_Bundle* bundle,
                                                 XLA_FFI_Handler_Traits traits) {
  XLA_FFI_ByteSpan name_span, platform_span;
  name_span.ptr = name;
  name_span.len = strlen(name);
  platform_span.ptr = platform;
  platform_span.len = strlen(platform);
  return xffi_register_(api, name_span, platform_span, bundle, traits);
}

#if defined(__GNUC__) && !defined(_WIN32)
/* A registration for XFFI_REGISTER_ON_LOAD: name, platform, handlers and traits. */
typedef struct xffi_target_ {
  const char* name;
  const char* platform;
  XLA_FFI_Handler_Bundle bundle;
  XLA_FFI_Handler_Traits traits;
} xffi_target_;

/* XFFI_TARGET describes a CPU handler with one stage, named like its symbol. XFFI_TARGET_WITH describes any other
 * handler. List the handler's stages after the traits, for example `.instantiate = counter_new, .execute = counter`. */
#define XFFI_TARGET(symbol) XFFI_TARGET_WITH(#symbol, "cpu", 0, NULL, NULL, NULL, symbol, NULL)
#define XFFI_TARGET_WITH(name, platform, traits, ...) {(name), (platform), {__VA_ARGS__}, (traits)}

XFFI_COLD_ void xffi_register_targets_(const XLA_FFI_Api* api, const char* library, const void* context) {
  const xffi_target_* target = (const xffi_target_*)context;
  for (; target->name != NULL; ++target) {
    /* Every host knows its CPU platform under XLA's name "Host". */
    const char* platform = strcmp(target->platform, "cpu") == 0 ? "Host" : target->platform;
    XLA_FFI_Error* error = xffi_register_handler(api, target->name, platform, &target->bundle, target->traits);
    if (error == NULL) continue;
    fprintf(stderr, "xla-ffi: %s, registered on load: %s: %s\n", library, target->name,
            xffi_error_details(api, error, NULL));
    xffi_error_free(api, error);
  }
}

/* Registers the listed XFFI_TARGETs with every host in the process when the library is loaded, for hosts that load a
 * file without registering its handlers. Does nothing if there is no host. Reports refused registrations on stderr. */
#define XFFI_REGISTER_ON_LOAD(library, ...)                                            \
  static __attribute__((constructor)) void library##__xla_ffi_on_load(void) {          \
    static const xffi_target_ xffi_targets_[] = {__VA_ARGS__, XFFI_TARGET_WITH(NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL)}; \
    xla_ffi_sdk_on_load(#library, xffi_register_targets_, xffi_targets_);                \
  }                                                                                    \
  struct library##__xla_ffi_on_load_needs_a_semicolon
#endif

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif  /* XLA_FFI_HANDLER_H_ */
