/* A mirror of the ABI in C and C++, with only the items that one program needs. */
#include <stddef.h>
#include <stdint.h>

typedef enum { STAGE_EXECUTE = 3, STAGE_RECORD = 4 } Stage;

typedef struct Buffer {
  size_t struct_size;
  void* extensions;
  uint32_t kind;
  void* data;
  int64_t rank;
  int64_t* dims;
} Buffer;

typedef struct Args {
  size_t struct_size;
  void* extensions;
  int64_t size;
  uint32_t* types;
  void** args;
} Args;
