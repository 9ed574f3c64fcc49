/* The device conventions in C and C++ (this file is compiled as both), on a stream that runs functions instead of
 * kernels and copies. The test provides the function that enqueues work. */
#include <time.h>

#include "xla_ffi/legacy/adapt.h"
#include "xla_ffi/legacy/device.h"

typedef struct CUstream_st* CUstream;
typedef void enqueue_function(void* stream, void (*task)(void*), void* data);

static enqueue_function* enqueue;
XFFI_EXPORT void use_enqueue(enqueue_function* function);
XFFI_EXPORT void use_enqueue(enqueue_function* function) { enqueue = function; }

/* A "kernel": A[i] = B[i % 128] + C[i] + more, and A + 1 if there is room for it. `root` contains B and C; `table` and
 * `inner` are the tuples of (A, (A + 1)). */
typedef struct job {
  const float *b, *c;
  float *a, *next, more;
  const float* const* root;
  void **table, **inner;
} job;

static void work(void* data) {
  job* j = (job*)data;
  struct timespec pause = {0, 5000000};
  int i;
  nanosleep(&pause, NULL);
  if (j->root != NULL) {
    j->b = j->root[0];
    j->c = j->root[1];
  }
  for (i = 0; i < 2048; ++i) j->a[i] = j->b[i % 128] + j->c[i] + j->more;
  for (i = 0; j->next != NULL && i < 2048; ++i) j->next[i] = j->a[i] + 1;
  if (j->table != NULL) {
    j->table[0] = j->a;
    j->table[1] = j->inner;
    j->inner[0] = j->next;
  }
  free(j);
}

static job* new_job(void) { return (job*)calloc(1, sizeof(job)); }

/* A target of API_VERSION_ORIGINAL, whose opaque bytes are one digit. */
static void add_gpu(CUstream stream, void** buffers, const char* opaque, size_t opaque_len) {
  job* j = new_job();
  j->b = (const float*)buffers[0];
  j->c = (const float*)buffers[1];
  j->a = (float*)buffers[2];
  j->more = opaque_len == 0 ? 0 : (float)(opaque[0] - '0');
  enqueue(stream, work, j);
}
XLA_REGISTER_CUSTOM_CALL_TARGET(add_gpu, "CUDA");
XFFI_ADAPT_GPU(add_gpu_ffi, add_gpu, "opaque");

/* A target of API_VERSION_STATUS_RETURNING, which fails unless its opaque bytes are one digit. */
static void add_gpu_status(CUstream stream, void** buffers, const char* opaque, size_t opaque_len,
                           XlaCustomCallStatus* status) {
  if (opaque_len != 1) {
    XlaCustomCallStatusSetFailure(status, "one digit, please", 17);
    return;
  }
  add_gpu(stream, buffers, opaque, opaque_len);
}
XLA_REGISTER_CUSTOM_CALL_TARGET(add_gpu_status, "CUDA");
XFFI_ADAPT_GPU_STATUS(add_gpu_status_ffi, add_gpu_status, "opaque");

/* A target that uses every node of ((B, C)) -> (A, (A + 1)): reads the operand's tuple and writes the result's tuples.
 */
static void add_nodes(CUstream stream, void** buffers, const char* opaque, size_t opaque_len,
                      XlaCustomCallStatus* status) {
  job* j = new_job();
  (void)opaque;
  (void)opaque_len;
  (void)status;
  j->root = (const float* const*)buffers[0];
  j->table = (void**)buffers[3];
  j->a = (float*)buffers[4];
  j->inner = (void**)buffers[5];
  j->next = (float*)buffers[6];
  enqueue(stream, work, j);
}
XLA_REGISTER_CUSTOM_CALL_TARGET(add_nodes, "CUDA");

/* A copy to the device. It captures the bytes immediately and writes them when the stream reaches the copy. */
typedef struct copy_job {
  void* to;
  size_t size;
  void* bytes;
} copy_job;

static void copy_work(void* data) {
  copy_job* j = (copy_job*)data;
  memcpy(j->to, j->bytes, j->size);
  free(j->bytes);
  free(j);
}

static int copy(void* stream, void* to, const void* from, size_t size) {
  copy_job* j = (copy_job*)malloc(sizeof(copy_job));
  j->to = to;
  j->size = size;
  j->bytes = malloc(size);
  memcpy(j->bytes, from, size);
  enqueue(stream, copy_work, j);
  return 0;
}

static const xffi_legacy_adapter nodes = {
    XFFI_LEGACY_GPU_STATUS, (void (*)(void))add_nodes, NULL, "(_, _) -> (_, (_))", NULL, copy};
XFFI_ADAPT(add_nodes_ffi, nodes);
static const xffi_legacy_adapter no_copy = {
    XFFI_LEGACY_GPU_STATUS, (void (*)(void))add_nodes, NULL, "(_, _) -> (_, (_))", NULL, NULL};
XFFI_ADAPT(add_no_copy_ffi, no_copy);

/* Counts of events for targets like `add_nodes`. These targets find leaves through their roots, and the pool writes the
 * result's tuples. Events are flags that the stream sets. */
static int made, recorded;
XFFI_EXPORT int events_made(void);
XFFI_EXPORT int events_made(void) { return __atomic_load_n(&made, __ATOMIC_SEQ_CST); }
XFFI_EXPORT int events_recorded(void);
XFFI_EXPORT int events_recorded(void) { return __atomic_load_n(&recorded, __ATOMIC_SEQ_CST); }

static int device_of(void* stream, int* device) {
  (void)stream;
  *device = 0;
  return 0;
}
static int create_event(void* stream, void** event) {
  (void)stream;
  *event = calloc(1, sizeof(int));
  __atomic_add_fetch(&made, 1, __ATOMIC_SEQ_CST);
  return *event != NULL ? 0 : 1;
}
static void set_event(void* event) { __atomic_store_n((int*)event, 1, __ATOMIC_SEQ_CST); }
static int record_event(void* event, void* stream) {
  __atomic_store_n((int*)event, 0, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&recorded, 1, __ATOMIC_SEQ_CST);
  enqueue(stream, set_event, event);
  return 0;
}
static int is_complete(void* event, int* complete) {
  *complete = __atomic_load_n((int*)event, __ATOMIC_SEQ_CST);
  return 0;
}

/* A copy that reads its source when the stream reaches the copy, as a device does. */
static void late_copy_work(void* data) {
  copy_job* j = (copy_job*)data;
  memcpy(j->to, j->bytes, j->size);
  free(j);
}
static int late_copy(void* stream, void* to, const void* from, size_t size) {
  copy_job* j = (copy_job*)malloc(sizeof(copy_job));
  j->to = to;
  j->size = size;
  j->bytes = (void*)(uintptr_t)from;
  enqueue(stream, late_copy_work, j);
  return 0;
}

static const xffi_events events = {device_of, create_event, record_event, is_complete, late_copy};
static xffi_staging pool = XFFI_STAGING(&events, 3);

typedef struct list_job {
  xffi_buffers buffers;
} list_job;

static void list_work(void* data) {
  list_job* j = (list_job*)data;
  job* as_job = new_job();
  as_job->b = (const float*)xffi_leaf_resolve(&j->buffers.args[0]);
  as_job->c = (const float*)xffi_leaf_resolve(&j->buffers.args[1]);
  as_job->a = (float*)j->buffers.rets[0];
  as_job->next = (float*)j->buffers.rets[1];
  work(as_job);
  xffi_buffers_free(&j->buffers);
  free(j);
}

static void add_list(void* stream, void** buffers, XlaCustomCallStatus* status, xffi_form form) {
  list_job* j = (list_job*)calloc(1, sizeof(list_job));
  if (xffi_buffers_read(&j->buffers, buffers, "(_, _) -> (_, (_))", form) != 0 ||
      xffi_staging_write(&pool, stream, j->buffers.tables, j->buffers.num_tables) != 0) {
    XlaCustomCallStatusSetFailure(status, "no list", 7);
    free(j);
    return;
  }
  enqueue(stream, list_work, j);
}
static void add_list_nodes(CUstream stream, void** buffers, const char* opaque, size_t opaque_len,
                           XlaCustomCallStatus* status) {
  (void)opaque;
  (void)opaque_len;
  add_list(stream, buffers, status, XFFI_FORM_NODES);
}
XLA_REGISTER_CUSTOM_CALL_TARGET(add_list_nodes, "CUDA");
static void add_list_leaves(CUstream stream, void** buffers, const char* opaque, size_t opaque_len,
                            XlaCustomCallStatus* status) {
  (void)opaque;
  (void)opaque_len;
  add_list(stream, buffers, status, XFFI_FORM_LEAVES);
}
XLA_REGISTER_CUSTOM_CALL_TARGET(add_list_leaves, "CUDA");

/* Enqueues work on a stream that writes the pair of addresses to the table. */
XFFI_EXPORT int write_pair(void* stream, void** table, void* first, void* second);
XFFI_EXPORT int write_pair(void* stream, void** table, void* first, void* second) {
  void* elements[2];
  xffi_table one;
  elements[0] = first;
  elements[1] = second;
  one.table = table;
  one.elements = elements;
  one.size = 2;
  return xffi_staging_write(&pool, stream, &one, 1);
}

/* Parses the text of a structure. Returns 0 on success, and sets the numbers of leaves, results and tables. */
XFFI_EXPORT int read_structure(const char* structure, int nodes, size_t counts[3]);
XFFI_EXPORT int read_structure(const char* structure, int nodes, size_t counts[3]) {
  static void* const list[64] = {NULL};
  xffi_buffers buffers;
  const int answer =
      xffi_buffers_read(&buffers, list, structure, nodes ? XFFI_FORM_NODES : XFFI_FORM_LEAVES);
  if (answer == 0) {
    counts[0] = buffers.num_args;
    counts[1] = buffers.num_rets;
    counts[2] = buffers.num_tables;
    xffi_buffers_free(&buffers);
  }
  return answer;
}

/* Derives the digit from the sizes: the number of hundreds of elements in B. */
static XLA_FFI_Error* describe(xffi_call* call, const xffi_legacy_operands* operands,
                               xffi_legacy_opaque* opaque) {
  if (operands->num_args != 2) {
    xffi_problem(call, "expected two operands");
    return NULL;
  }
  opaque->local[0] = (unsigned char)('0' + operands->args[0].count / 100);
  opaque->size = 1;
  return NULL;
}
static const xffi_legacy_adapter described = {
    XFFI_LEGACY_GPU_STATUS, (void (*)(void))add_gpu_status, NULL, NULL, describe, NULL};
XFFI_ADAPT(add_described_ffi, described);
