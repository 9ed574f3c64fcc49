/* What code of the program's that a call reaches before execute does with that call: its other stages, and the
 * deleters of what it had before. The library may use nothing of it afterwards that is not there. */
#include "xla_ffi/handler.h"
#include "xla_ffi/invocation.h"
#include "xla_ffi/runtime.h"

#include "checks.h"

static xffi_rt_call* own;
static xffi_rt* runtime;
static float x[2] = {1, 2}, y[2], z[2];

/* What is done, where: by a stage, or by a deleter. */
enum { NOTHING, ASKS, DESTROYS, CHANGES };
static int what, where, done, executed;

static void make(void) {
  const int64_t two = 2;
  right(xffi_rt_call_create(runtime, "around", "Host", NULL, &own));
  right(xffi_rt_call_arg(own, XLA_FFI_DataType_F32, 1, &two, x));
  right(xffi_rt_call_ret(own, XLA_FFI_DataType_F32, 1, &two, y));
  y[0] = y[1] = z[0] = z[1] = 0;
  done = executed = 0;
}

/* The memory that was the call's is somebody else's at once. */
static void destroy(void) {
  void* places[64];
  int i;
  xffi_rt_call_destroy(own);
  own = NULL;
  for (i = 0; i < 64; ++i) {
    places[i] = malloc(16 * (size_t)(i + 4));
    CHECK(places[i] != NULL);
    memset(places[i], 0x41, 16 * (size_t)(i + 4));
  }
  for (i = 0; i < 64; ++i) free(places[i]);
}

static void ask(void) {
  const char* words = "the call is running";
  const int64_t two = 2;
  xffi_rt_call* clone = NULL;
  CHECK(xffi_rt_call_is_open(own) == 1);
  wrong(xffi_rt_call_run(own), FAILED_PRECONDITION, words);
  wrong(xffi_rt_call_start(own), FAILED_PRECONDITION, words);
  wrong(xffi_rt_call_wait(own, 0), FAILED_PRECONDITION, words);
  wrong(xffi_rt_call_set_run_id(own, 77), FAILED_PRECONDITION, words);
  wrong(xffi_rt_call_clear_operands(own), FAILED_PRECONDITION, words);
  wrong(xffi_rt_call_set_ret_data(own, 0, z), FAILED_PRECONDITION, words);
  wrong(xffi_rt_call_ret(own, XLA_FFI_DataType_F32, 1, &two, z), FAILED_PRECONDITION, words);
  right(xffi_rt_call_clone(own, &clone));
  right(xffi_rt_call_set_ret_data(clone, 0, z));
  right(xffi_rt_call_run(clone));
  CHECK(z[0] == 2 && z[1] == 4);
  xffi_rt_call_destroy(clone);
}

/* Once, where it is asked for. */
static void reach(int here) {
  if (where != here || done) return;
  done = 1;
  if (what == ASKS) ask();
  if (what == DESTROYS) destroy();
  if (what == CHANGES) {
    /* Nobody is at work on the call: all is done, and holds. */
    CHECK(xffi_rt_call_is_open(own) == 0);
    right(xffi_rt_call_set_run_id(own, 77));
  }
}

static XLA_FFI_Error* stage(xffi_call* call, int here) {
  XLA_FFI_Error* error;
  xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  error = xffi_decoded(call);
  if (error == NULL) reach(here);
  return error;
}

static XLA_FFI_Error* prepare_impl(xffi_call* call) {
  return stage(call, XLA_FFI_ExecutionStage_PREPARE);
}
XFFI_HANDLER_WITH(prepare, prepare_impl, XLA_FFI_ExecutionStage_PREPARE, XFFI_R0, 0, NULL);
static XLA_FFI_Error* initialize_impl(xffi_call* call) {
  return stage(call, XLA_FFI_ExecutionStage_INITIALIZE);
}
XFFI_HANDLER_WITH(initialize, initialize_impl, XLA_FFI_ExecutionStage_INITIALIZE, XFFI_R0, 0, NULL);

static int64_t seen;
static XLA_FFI_Error* execute_impl(xffi_call* call) {
  xffi_buffer a = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer b = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error = xffi_decoded(call);
  int64_t i;
  if (error == NULL) error = xffi_run_id(call, &seen);
  if (error != NULL) return error;
  for (i = 0; i < a.count; ++i) ((float*)b.data)[i] = 2 * ((const float*)a.data)[i];
  ++executed;
  return NULL;
}
XFFI_HANDLER(execute, execute_impl);

enum { DELETER = 100 };
static void deleter(void* object) {
  CHECK(*(int*)object == 5);
  reach(DELETER);
}

/* A call is given user data that nobody else has. */
static void give(xffi_rt_call* call, int with_deleter) {
  static int object = 5;
  xffi_rt_user_data* data = NULL;
  right(xffi_rt_user_data_create(runtime, &data));
  right(xffi_rt_user_data_add(data, "around.v1", sizeof(object), &object,
                              with_deleter ? deleter : NULL));
  right(xffi_rt_call_set_user_data(call, data));
  xffi_rt_user_data_destroy(data);
}

/* The stages have seen where the operands are; a clone's have not. */
static void other_data(void) {
  const char* words = "which has seen the operands";
  static float other[2] = {10, 20};
  xffi_rt_call* clone = NULL;
  right(xffi_rt_call_clone(own, &clone));
  right(xffi_rt_call_set_arg_data(clone, 0, other));
  right(xffi_rt_call_set_ret_data(clone, 0, z));
  right(xffi_rt_call_run(clone));
  CHECK(z[0] == 20 && z[1] == 40);
  xffi_rt_call_destroy(clone);
  right(xffi_rt_call_set_arg_data(own, 0, other));
  wrong(xffi_rt_call_run(own), FAILED_PRECONDITION, words);
  right(xffi_rt_call_set_arg_data(own, 0, x));
  right(xffi_rt_call_run(own));
  right(xffi_rt_call_set_ret_data(own, 0, z));
  wrong(xffi_rt_call_run(own), FAILED_PRECONDITION, words);
  right(xffi_rt_call_set_ret_data(own, 0, y));
  right(xffi_rt_call_run(own));
}

int main(void) {
  const XLA_FFI_Handler_Bundle bundle = {NULL, prepare, initialize, execute, NULL};
  static int type, object = 5;
  int round;
  right(xffi_rt_create(-1, &runtime));
  right(xffi_rt_register(runtime, "around", "Host", &bundle, 0));

  /* Stages before execute. */
  for (where = XLA_FFI_ExecutionStage_PREPARE; where <= XLA_FFI_ExecutionStage_INITIALIZE; ++where) {
    for (what = ASKS; what <= DESTROYS; ++what) {
      make();
      right(what == ASKS ? xffi_rt_call_run(own) : xffi_rt_call_start(own));
      CHECK(done == 1 && y[0] == 2 && y[1] == 4 && seen == 0);
      CHECK(executed == (what == ASKS ? 2 : 1));
      if (what != ASKS) continue;
      /* It goes on as before. */
      CHECK(xffi_rt_call_is_open(own) == 0);
      right(xffi_rt_call_set_run_id(own, 7));
      right(xffi_rt_call_run(own));
      CHECK(seen == 7);
      other_data();
      xffi_rt_call_destroy(own);
    }
  }
  where = DELETER;

  /* The next run lets go of what the last one had. */
  for (what = ASKS; what <= DESTROYS; ++what) {
    make();
    give(own, 1);
    right(xffi_rt_call_run(own));
    CHECK(!done);
    give(own, 0);
    CHECK(!done);
    right(xffi_rt_call_run(own));
    CHECK(done == 1 && seen == 0);
    if (what == ASKS) xffi_rt_call_destroy(own);
  }

  /* What is set lets go of what was set before; the call is idle then. */
  for (what = DESTROYS; what <= CHANGES; ++what) {
    for (round = 0; round < 2; ++round) {
      make();
      if (round == 0) {
        give(own, 1);
        give(own, 0);
      } else {
        right(xffi_rt_call_set_called_computation(own, &type, &object, deleter));
        right(xffi_rt_call_set_called_computation(own, &type, &object, NULL));
      }
      CHECK(done == 1);
      if (what != CHANGES) continue;
      right(xffi_rt_call_run(own));
      CHECK(seen == 77 && y[0] == 2 && y[1] == 4);
      xffi_rt_call_destroy(own);
    }
  }
  xffi_rt_destroy(runtime);
  printf("done\n");
  return 0;
}
