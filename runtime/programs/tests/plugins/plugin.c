/* A test plugin for PJRT. It can create a client, and has one defect, which a macro selects. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef MAJOR
#define MAJOR 0
#endif
#ifndef MINOR
#define MINOR 81
#endif
#ifndef TABLE_SIZE
#define TABLE_SIZE sizeof(struct table)
#endif
#ifndef EXTENSION_SIZE
#define EXTENSION_SIZE 48
#endif
#ifndef REGISTER_SIZE
#define REGISTER_SIZE 52
#endif

struct error {
  int code;
  char text[128];
};

/* The arguments of a function as an array of words. The first word is the size of the arguments. */
typedef size_t* words;
typedef void* (*function)(words);

static void* fail(int code, const char* text) {
  struct error* error = malloc(sizeof *error);
  error->code = code;
  strncpy(error->text, text, sizeof error->text - 1);
  error->text[sizeof error->text - 1] = 0;
  return error;
}

static void* error_destroy(words args) {
  free((void*)args[2]);
  return NULL;
}

static void* error_message(words args) {
  struct error* error = (void*)args[2];
  args[3] = (size_t)error->text;
  args[4] = strlen(error->text);
  return NULL;
}

static void* error_code(words args) {
  struct error* error = (void*)args[2];
  memcpy(&args[3], &error->code, sizeof error->code);
  return NULL;
}

static void* initialize(words args) {
  (void)args;
#ifdef FAILING_INITIALIZE
  return fail(8, "no room today");
#endif
  return NULL;
}

static int a_client, a_device;
static void* devices[1] = {&a_device};

static void* client_create(words args) {
#ifdef FAILING_CLIENT
  return fail(8, "no room today");
#endif
  args[8] = (size_t)&a_client;
  return NULL;
}

static void* nothing(words args) {
  (void)args;
  return NULL;
}

static void* platform_name(words args) {
  args[3] = (size_t) "Host";
  args[4] = 4;
  return NULL;
}

static void* addressable_devices(words args) {
  args[3] = (size_t)devices;
#ifdef NO_DEVICES
  args[4] = 0;
#else
  args[4] = 1;
#endif
  return NULL;
}

static void* compile(words args) {
  (void)args;
  return fail(12, "cannot compile here");
}

static void* type_register(words args) {
  if (args[0] < 40) return fail(3, "type: too small");
  args[4] = 7;
  return NULL;
}

static void* user_data_add(words args) {
  (void)args;
  return NULL;
}

#ifdef ASKS
#include "xla/ffi/api/c_api.h"

#define PUBLIC __attribute__((visibility("default")))

/* The numbers of metadata answers and type registrations by handlers during their registration. */
static int answers, types;

PUBLIC int answers_inside(void) { return answers; }
PUBLIC int types_inside(void) { return types; }

static XLA_FFI_Error* register_type(XLA_FFI_Type_Register_Args* args) {
  args->type_id->type_id = 9;
  ++types;
  return NULL;
}

/* Makes a metadata query to a handler during its registration, as XLA does. */
static void* ask(size_t address) {
  static XLA_FFI_Api api;
  XLA_FFI_Handler* handler;
  XLA_FFI_Metadata metadata;
  XLA_FFI_Metadata_Extension extension;
  XLA_FFI_CallFrame frame;
  char text[128];
  memcpy(&handler, &address, sizeof handler);
  api.struct_size = 192; /* r7 */
  api.api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
  api.api_version.minor_version = 2;
  api.XLA_FFI_Type_Register = register_type;
  memset(&metadata, 0, sizeof metadata);
  metadata.struct_size = XLA_FFI_Metadata_STRUCT_SIZE;
  memset(&extension, 0, sizeof extension);
  extension.extension_base.struct_size = XLA_FFI_Metadata_Extension_STRUCT_SIZE;
  extension.extension_base.type = XLA_FFI_Extension_Metadata;
  extension.metadata = &metadata;
  memset(&frame, 0, sizeof frame);
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.extension_start = &extension.extension_base;
  frame.api = &api;
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  if (handler(&frame) != NULL) return fail(13, "the handler answered with an error");
  if (metadata.api_version.minor_version != 2) {
    snprintf(text, sizeof text, "API version 0.%d of the handler is not 0.2", metadata.api_version.minor_version);
    return fail(3, text);
  }
  ++answers;
  return NULL;
}
#else
static void* ask(size_t address) {
  (void)address;
  return NULL;
}
#endif

static int is_cpu(size_t name, size_t size) { return size == 3 && memcmp((void*)name, "cpu", 3) == 0; }

static void* register_handler(words args) {
  char text[128];
  if (args[0] < REGISTER_SIZE) {
    snprintf(text, sizeof text, "Unexpected PJRT_FFI_Register_Handler_Args size: expected %d, got %zu.",
             REGISTER_SIZE, args[0]);
    return fail(3, text);
  }
  if (REGISTER_SIZE == 60) {
    int version;
    memcpy(&version, &args[3], sizeof version);
    if (version != 1 || args[4] == 0 || !is_cpu(args[5], args[6])) return fail(13, "wrong long arguments");
  } else if (args[3] == 0 || !is_cpu(args[4], args[5])) {
    return fail(13, "wrong short arguments");
  }
  return ask(args[REGISTER_SIZE == 60 ? 4 : 3]);
}

struct extension {
  size_t size;
  int type;
  void* next;
  function functions[3];
};

static struct extension ffi = {EXTENSION_SIZE, 5, NULL, {type_register, user_data_add, register_handler}};
static struct extension other = {24, 4, &ffi, {NULL, NULL, NULL}};

struct table {
  size_t size;
  void* extensions;
  size_t version_size;
  void* version_extensions;
  int major, minor;
  function functions[118];
};

static struct table table = {
    .extensions = &other,
    .version_size = 24,
    .major = MAJOR,
    .minor = MINOR,
    .functions =
        {
            [0] = error_destroy,
            [1] = error_message,
            [2] = error_code,
            [3] = initialize,
            [10] = client_create,
            [11] = nothing,
            [12] = platform_name,
            [16] = addressable_devices,
            [20] = compile,
        },
};

#ifndef NO_ENTRY
__attribute__((visibility("default"))) const void* GetPjrtApi(void) {
#ifdef NULL_TABLE
  return NULL;
#endif
#ifdef NO_EXTENSION
  other.next = NULL;
#endif
  table.size = TABLE_SIZE;
  return &table;
}
#endif
