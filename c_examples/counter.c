/* State: made when a program is compiled, kept between its executions, destroyed with it. Counts
 * the executions of one call site: start, start + 1, start + 2 … y: s32[]; start: i32. */
#include "xla_ffi/handler.h"

/* The type registers itself with each XLA in the process. */
static xffi_type counter_type = XFFI_TYPE("counter_c.Counter", free);

/* Runs once for each call site of a compiled program. */
static XLA_FFI_Error* instantiate_impl(xffi_call* call) {
  const int32_t start = xffi_attr_i32(call, "start");
  int32_t* next;
  XLA_FFI_Error* error;
  if (start < 0) xffi_problem(call, "'start' is %d", (int)start);
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((next = (int32_t*)malloc(sizeof(*next))) == NULL) {
    return xffi_error(call, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory");
  }
  *next = start;
  return xffi_set_state(call, &counter_type, next);
}

/* Runs with each execution, perhaps on several threads at once; every stage gets all attributes. */
static XLA_FFI_Error* counter_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  void* next;
  XLA_FFI_Error* error;
  xffi_attr_i32(call, "start");
  if ((error = xffi_decoded(call)) != NULL) return error;
  error = xffi_get_state(call, &counter_type, XLA_FFI_ExecutionStage_INSTANTIATE, &next);
  if (error != NULL) return error;
  *(int32_t*)y.data = __atomic_fetch_add((int32_t*)next, 1, __ATOMIC_RELAXED);
  return NULL;
}

XFFI_HOST_HANDLER_WITH(counter_instantiate, instantiate_impl, XLA_FFI_ExecutionStage_INSTANTIATE,
                  XFFI_R1, 0, &counter_type);
XFFI_HOST_HANDLER_WITH(counter, counter_impl, XLA_FFI_ExecutionStage_EXECUTE, XFFI_R1, 0, NULL);
