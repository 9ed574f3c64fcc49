/* Calls the table functions of a host with all arguments that the host may reject without a
 * crash. Stores the error codes in the order of the table in tests/support/mod.rs. The handler
 * has version 0.5. */
#include <string.h>

#include "xla/ffi/api/c_api.h"

enum { ROOM = 64 };
static int64_t codes[ROOM];
static int64_t count;
static const XLA_FFI_Api* api;

static void keep(int64_t code) {
  if (count < ROOM) codes[count++] = code;
}

static void answer(XLA_FFI_Error* error) {
  XLA_FFI_Error_GetDetails_Args details = {XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE, NULL, error, NULL,
                                           XLA_FFI_Error_Code_OK};
  XLA_FFI_Error_Destroy_Args destroy = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, NULL, error};
  if (error != NULL) {
    api->XLA_FFI_Error_GetDetails(&details);
    api->XLA_FFI_Error_Destroy(&destroy);
  }
  keep(details.errc);
}

static int metadata(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Metadata* answered;
  if (frame->extension_start == NULL) return 0;
  answered = ((XLA_FFI_Metadata_Extension*)frame->extension_start)->metadata;
  answered->api_version.major_version = 0;
  answered->api_version.minor_version = 5;
  return 1;
}

static void nothing(void* object) { (void)object; }

static XLA_FFI_TypeId type(const char* name, int64_t wanted) {
  static const XLA_FFI_TypeInfo info = {sizeof(XLA_FFI_TypeInfo), NULL, nothing};
  XLA_FFI_TypeId id = {0};
  XLA_FFI_Type_Register_Args args = {XLA_FFI_Type_Register_Args_STRUCT_SIZE, NULL, {NULL, 0}, NULL, NULL};
  id.type_id = wanted;
  args.name.ptr = name;
  args.name.len = strlen(name);
  args.type_id = &id;
  args.type_info = &info;
  answer(api->XLA_FFI_Type_Register(&args));
  return id;
}

static XLA_FFI_Error* other(XLA_FFI_CallFrame* frame) {
  metadata(frame);
  return NULL;
}

static XLA_FFI_Error* silent(XLA_FFI_CallFrame* frame) {
  (void)frame;
  return NULL;
}

__attribute__((visibility("default"))) XLA_FFI_Error* rules_instantiate(XLA_FFI_CallFrame* frame) {
  static int state;
  XLA_FFI_TypeId a, b, zero = {0}, unknown = {777777};
  XLA_FFI_State_Get_Args get = {48, NULL, frame->ctx, XLA_FFI_ExecutionStage_INSTANTIATE, NULL, NULL};
  XLA_FFI_State_Set_Args set = {48, NULL, frame->ctx, XLA_FFI_ExecutionStage_INSTANTIATE, NULL, &state};
  XLA_FFI_RunId_Get_Args run_id = {32, NULL, frame->ctx, -7};
  XLA_FFI_DeviceOrdinal_Get_Args ordinal = {28, NULL, frame->ctx, -7};
  int64_t threads = 0;
  XLA_FFI_ThreadPool_NumThreads_Args pool = {32, NULL, frame->ctx, &threads};
  if (metadata(frame)) return NULL;
  api = frame->api;
  count = 0;
  a = type("rules.a", 0);
  get.type_id = &a;
  answer(api->XLA_FFI_State_Get(&get));
  set.type_id = &zero;
  answer(api->XLA_FFI_State_Set(&set));
  set.type_id = &unknown;
  answer(api->XLA_FFI_State_Set(&set));
  set.type_id = &a;
  set.struct_size = 47;
  answer(api->XLA_FFI_State_Set(&set));
  set.struct_size = 48;
  answer(api->XLA_FFI_State_Set(&set));
  answer(api->XLA_FFI_State_Set(&set));
  answer(api->XLA_FFI_State_Get(&get));
  get.stage = XLA_FFI_ExecutionStage_EXECUTE;
  answer(api->XLA_FFI_State_Get(&get));
  b = type("rules.b", 0);
  get.type_id = &b;
  answer(api->XLA_FFI_State_Get(&get));
  type("rules.a", 0);
  type("rules.a", a.type_id);
  type("rules.a", a.type_id + 1000);
  type("rules.c", a.type_id);
  answer(api->XLA_FFI_RunId_Get(&run_id));
  answer(api->XLA_FFI_DeviceOrdinal_Get(&ordinal));
  keep(ordinal.device_ordinal);
  answer(api->XLA_FFI_ThreadPool_NumThreads(&pool));
  return NULL;
}

__attribute__((visibility("default"))) XLA_FFI_Error* rules(XLA_FFI_CallFrame* frame) {
  static int state;
  XLA_FFI_TypeId user, zero = {0};
  XLA_FFI_Stream_Get_Args stream = {32, NULL, frame->ctx, NULL};
  XLA_FFI_DeviceMemory_Allocate_Args allocate = {48, NULL, frame->ctx, 64, 16, NULL};
  XLA_FFI_DeviceMemory_Free_Args release = {40, NULL, frame->ctx, 64, NULL};
  XLA_FFI_InvokeContext_Get_Args data = {40, NULL, frame->ctx, NULL, NULL};
  XLA_FFI_State_Set_Args set = {48, NULL, frame->ctx, XLA_FFI_ExecutionStage_INSTANTIATE, NULL, &state};
  XLA_FFI_InvokeContext_FindExtension_Args find = {40, NULL, frame->ctx, 4242, NULL};
  XLA_FFI_CustomOptions_Get_Args options = {32, NULL, frame->ctx, NULL};
  XLA_FFI_RunId_Get_Args run_id = {31, NULL, frame->ctx, 0};
  XLA_FFI_ThreadPool_Schedule_Args task = {40, NULL, frame->ctx, nothing, NULL};
  XLA_FFI_Future_Create_Args future = {XLA_FFI_Future_Create_Args_STRUCT_SIZE, NULL, NULL};
  XLA_FFI_Future_SetError_Args fail = {32, NULL, NULL, NULL};
  XLA_FFI_Future_SetAvailable_Args complete = {24, NULL, NULL};
  XLA_FFI_Error_Create_Args create = {28, NULL, "text", XLA_FFI_Error_Code_OK};
  XLA_FFI_Handler_Register_Args handler = {92, NULL, {"rules_inner", 11}, {"Host", 4}, {NULL, NULL, NULL, NULL, NULL}, 0};
  XLA_FFI_Buffer* out;
  int64_t i;
  if (metadata(frame)) return NULL;
  api = frame->api;
  keep(frame->args.size == 0 && frame->args.types == NULL && frame->attrs.types == NULL && frame->attrs.names == NULL);
  answer(api->XLA_FFI_Stream_Get(&stream));
  stream.struct_size = 31;
  answer(api->XLA_FFI_Stream_Get(&stream));
  answer(api->XLA_FFI_DeviceMemory_Allocate(&allocate));
  allocate.alignment = 3;
  answer(api->XLA_FFI_DeviceMemory_Allocate(&allocate));
  answer(api->XLA_FFI_DeviceMemory_Free(&release));
  user = type("rules.user", 0);
  data.type_id = &user;
  answer(api->XLA_FFI_InvokeContext_Get(&data));
  data.type_id = &zero;
  answer(api->XLA_FFI_InvokeContext_Get(&data));
  set.type_id = &user;
  answer(api->XLA_FFI_State_Set(&set));
  answer(api->XLA_FFI_InvokeContext_FindExtension(&find));
  keep(find.extension == NULL);
  answer(api->XLA_FFI_CustomOptions_Get(&options));
  keep(options.attrs == NULL ? -1 : options.attrs->size);
  answer(api->XLA_FFI_RunId_Get(&run_id));
  answer(api->XLA_FFI_ThreadPool_Schedule(&task));
  answer(api->XLA_FFI_Future_Create(&future));
  fail.future = complete.future = future.future;
  answer(api->XLA_FFI_Future_SetError(&fail));
  fail.error = api->XLA_FFI_Error_Create(&create);
  keep(fail.error != NULL);
  answer(api->XLA_FFI_Future_SetError(&fail));
  create.errc = (XLA_FFI_Error_Code)99;
  answer(api->XLA_FFI_Error_Create(&create));
  answer(api->XLA_FFI_Future_SetAvailable(&complete));
  answer(api->XLA_FFI_Handler_Register(&handler));
  handler.bundle.execute = other;
  answer(api->XLA_FFI_Handler_Register(&handler));
  answer(api->XLA_FFI_Handler_Register(&handler));
  handler.traits = 1;
  answer(api->XLA_FFI_Handler_Register(&handler));
  handler.traits = 0;
  handler.bundle.execute = rules;
  answer(api->XLA_FFI_Handler_Register(&handler));
  handler.platform.ptr = "cpu";
  handler.platform.len = 3;
  answer(api->XLA_FFI_Handler_Register(&handler));
  handler.name.ptr = "rules_other";
  handler.bundle.execute = silent;
  answer(api->XLA_FFI_Handler_Register(&handler));
  out = (XLA_FFI_Buffer*)frame->rets.rets[0];
  for (i = 0; i < ROOM && i < out->dims[0]; ++i) ((int64_t*)out->data)[i] = i < count ? codes[i] : -1;
  return NULL;
}
