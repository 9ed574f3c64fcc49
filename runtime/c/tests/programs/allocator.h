/* Replaces the allocation functions of glibc. The allocation with the number `failing`, from 0, fails. */
#ifndef XLA_FFI_RUNTIME_TESTS_ALLOCATOR_H_
#define XLA_FFI_RUNTIME_TESTS_ALLOCATOR_H_

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

static atomic_long count, failing = -1;
static int fails(void) { return atomic_fetch_add(&count, 1) == atomic_load(&failing); }

void* malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void* calloc(size_t n, size_t size) { return fails() ? NULL : __libc_calloc(n, size); }
void* realloc(void* memory, size_t size) { return fails() ? NULL : __libc_realloc(memory, size); }
void* aligned_alloc(size_t alignment, size_t size) { return fails() ? NULL : __libc_memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  void* memory = aligned_alloc(alignment, size);
  if (memory != NULL) *out = memory;
  return memory != NULL ? 0 : ENOMEM;
}

#endif /* XLA_FFI_RUNTIME_TESTS_ALLOCATOR_H_ */
