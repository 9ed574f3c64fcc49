/* Macros that adapt a function of the original custom calls to a handler of XLA FFI, with one line per function.
 *
 *   #include "xla_ffi/legacy/adapt.h"
 *
 *   static void solve(void* out, const void** in, XlaCustomCallStatus* status) { ... }
 *   XFFI_ADAPT_CPU_STATUS(solve_ffi, solve);
 *
 * exports the handler `solve_ffi`, which runs on every XLA. If the function sets its status to a failure, the handler
 * returns an error, even on jaxlib, which does not provide such statuses.
 *
 *   XFFI_ADAPT_CPU(symbol, function)                 void(void* out, const void** in)
 *   XFFI_ADAPT_CPU_STATUS(symbol, function)          as above, followed by an XlaCustomCallStatus*
 *   XFFI_ADAPT_CPU_UNIFIED(symbol, function, "attribute")
 *                                                    void(void* out, const void** in, opaque, length,
 *                                                         XlaCustomCallStatus*)
 *   XFFI_ADAPT_GPU(symbol, function, "attribute")    void(stream, void** buffers, opaque, length)
 *   XFFI_ADAPT_GPU_STATUS(symbol, function, "attribute")
 *                                                    as above, followed by an XlaCustomCallStatus*
 *   XFFI_ADAPT(symbol, adapter)                      with all options of an xffi_legacy_adapter
 *
 * `opaque` is the value of the attribute with the given name: a string or an array of any type, whose bytes are passed
 * unchanged. If the name is NULL, `opaque` is empty.
 *
 * XLA FFI passes tuples as separate operands. Without a `structure`, the function receives one pointer per leaf, as in
 * current XLA. If there is one result, `out` is its data; otherwise `out` is an array of pointers.
 *
 * With a `structure` such as "(_, (_)), _ -> (_, _)", the function receives tuples as in XLA's documents. In the
 * structure, `_` is a leaf, and brackets are a tuple. On the CPU, a tuple is an array of pointers. On devices, the list
 * of buffers has every node of the shapes in pre-order, and the function writes the arrays of the result's tuples.
 *
 * Successful calls allocate no memory if they need at most XFFI_LEGACY_INLINE_ pointers, including one per character of
 * the `structure`. In C++, exceptions become errors. Works from r0 on. */
#ifndef XLA_FFI_LEGACY_ADAPT_H_
#define XLA_FFI_LEGACY_ADAPT_H_

/* Silences the C++ warnings about the C-style casts in this header. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

#include "xla/service/custom_call_target_registry.h"
#include "xla_ffi/handler.h"


/* The largest number of pointers in a call for which no memory is allocated. */
#define XFFI_LEGACY_INLINE_ 64

/* The operands and results of a call, with their types and dimensions: the input of a `describe` function. */
typedef struct xffi_legacy_operands {
  const xffi_buffer* args;
  size_t num_args;
  const xffi_buffer* rets;
  size_t num_rets;
} xffi_legacy_operands;

/* The opaque bytes of a call, which `describe` can write into `local` or replace by setting `data`. If the adapter has
 * an attribute `opaque`, `data` and `size` are initially the attribute's bytes; to pass bytes in `local`, set both. */
typedef struct xffi_legacy_opaque {
  const void* data;
  size_t size;
  unsigned char local[512];
} xffi_legacy_opaque;

/* A function of the original custom calls, and how to call it. All fields except the first two are optional. The
 * function must have the type that `signature` specifies; only the one-line macros check this. */
typedef struct xffi_legacy_adapter {
  uint32_t signature; /* one of XFFI_LEGACY_CPU … XFFI_LEGACY_CPU_UNIFIED */
  void (*function)(void);
  const char* opaque;    /* name of the attribute with the opaque bytes, or null */
  const char* structure; /* tuple structure of operands and results, or null */
  /* Called before the function. Checks the operands and writes the function's `opaque` bytes, for example a descriptor
   * of sizes. Returns an error to refuse the call. May fetch attributes from `call`. */
  XLA_FFI_Error* (*describe)(xffi_call* call, const xffi_legacy_operands* operands,
                             xffi_legacy_opaque* opaque);
  /* Enqueues a copy from host to device memory on a stream, and returns 0 on success. `from` is only valid until the
   * function returns. Required for a `structure` on devices, where tuples are arrays in device memory. */
  int (*copy)(void* stream, void* to, const void* from, size_t size);
} xffi_legacy_adapter;

/* --- statuses ---------------------------------------------------------------------------------- */

/* A status that this library created. During a call, any thread may write the status. */
typedef struct xffi_status_object_ {
  xffi_status_head_ head;
  long lock;
  int live;
  int failed;
  char* message;
  size_t length;
} xffi_status_object_;

#ifdef __cplusplus
extern "C" {
#endif
/* Unused statuses, for reuse by later calls. */
XFFI_LEGACY_SHARED_ xffi_status_object_* xffi_status_idle_[256] = {NULL};
#ifdef __cplusplus
} /* extern "C" */
#endif

XFFI_INLINE_ void xffi_status_lock_(xffi_status_object_* object) {
  while (XFFI_SWAP_(&object->lock, 1) != 0) XFFI_YIELD_();
}
XFFI_INLINE_ void xffi_status_unlock_(xffi_status_object_* object) {
  XFFI_STORE_(&object->lock, 0);
}

XFFI_COLD_ void xffi_status_set_(xffi_status_head_* head, int failed, const char* message,
                               size_t length) {
  xffi_status_object_* object = (xffi_status_object_*)(void*)head;
  char* copy = failed && length != 0 ? (char*)malloc(length) : NULL;
  char* old;
  if (copy != NULL) memcpy(copy, message, length);
  xffi_status_lock_(object);
  old = copy;
  if (object->live) {
    old = object->message;
    object->failed = failed;
    object->message = copy;
    object->length = copy != NULL ? length : 0;
  } else {
    fputs("xla-ffi: a custom call wrote its status after it had ended; the write is ignored\n",
          stderr);
  }
  xffi_status_unlock_(object);
  free(old);
}

XFFI_COLD_ xffi_status_object_* xffi_status_make_(void) {
  /* Never freed, so that a pointer that a function keeps after its call still refers to a status. */
  char* memory = (char*)malloc(XFFI_STATUS_ALIGNMENT_ + sizeof(xffi_status_object_));
  xffi_status_object_* object;
  if (memory == NULL) return NULL;
  memory += XFFI_STATUS_ALIGNMENT_ - (uintptr_t)memory % XFFI_STATUS_ALIGNMENT_;
  object = (xffi_status_object_*)(void*)memory;
  memset(object, 0, sizeof(*object));
  memcpy(object->head.magic, XFFI_STATUS_MAGIC_, sizeof(object->head.magic));
  object->head.self = &object->head;
  object->head.set = xffi_status_set_;
  return object;
}

/* Takes an unused status or creates one, and sets it to success. Returns null if memory is exhausted. */
XFFI_INLINE_ xffi_status_object_* xffi_status_take_(void) {
  xffi_status_object_* object = NULL;
  size_t i;
  for (i = 0; i < 256 && object == NULL; ++i) {
    object = (xffi_status_object_*)XFFI_SWAP_POINTER_(&xffi_status_idle_[i], (xffi_status_object_*)NULL);
  }
  if (object == NULL) object = xffi_status_make_();
  if (object == NULL) return NULL;
  xffi_status_lock_(object);
  object->live = 1;
  object->failed = 0;
  xffi_status_unlock_(object);
  return object;
}

/* Returns a status to the list of unused ones. The result is 1 for a failure, with a message that the caller frees. */
XFFI_INLINE_ int xffi_status_give_(xffi_status_object_* object, char** message, size_t* length) {
  int failed;
  size_t i;
  xffi_status_lock_(object);
  failed = object->failed;
  *message = object->message;
  *length = object->length;
  object->live = 0;
  object->message = NULL;
  object->length = 0;
  xffi_status_unlock_(object);
  for (i = 0; i < 256; ++i) {
    xffi_status_object_* empty = NULL;
    if (XFFI_SWAP_POINTER_IF_(&xffi_status_idle_[i], &empty, object)) break;
  }
  return failed;
}

/* --- pointers in the form that the function expects -------------------------------------------- */

/* The state of reading a `structure`, which builds the lists of pointers for one call. */
typedef struct xffi_legacy_builder_ {
  const char* at;   /* current position in the `structure` */
  void** slots;     /* the elements of all tuples, with room for every pointer */
  size_t used;
  size_t list_used; /* number of used entries of `list`, which has the nodes in pre-order */
  void** list;
  const xffi_buffer* leaves;
  size_t next_leaf, num_leaves;
  int bad;
  size_t base;      /* for devices: size in bytes of the arrays before slot 0 */
  char* device;     /* for devices: address of slot 0 in device memory; null on the CPU */
} xffi_legacy_builder_;

XFFI_INLINE_ void xffi_legacy_blank_(const char** at) {
  while (**at == ' ') ++*at;
}

/* Moves past the required character `letter`. Any other character, or the end of the text, makes the structure
 * invalid. */
XFFI_INLINE_ void xffi_legacy_take_(xffi_legacy_builder_* b, char letter) {
  if (*b->at == letter) {
    ++b->at;
  } else {
    b->bad = 1;
  }
}

/* Returns the number of elements of the tuple whose opening bracket is before `at`. */
XFFI_INLINE_ size_t xffi_legacy_elements_(const char* at) {
  size_t count = 0, depth = 0;
  for (; *at != '\0' && !(depth == 0 && *at == ')'); ++at) {
    if (depth == 0 && (*at == '_' || *at == '(')) ++count;
    if (*at == '(') ++depth;
    if (*at == ')') --depth;
  }
  return count;
}

/* Reads one node and its elements, and lists them in pre-order. Returns the address of the node that the function
 * receives: a leaf's data or a tuple's array. */
static inline void* xffi_legacy_node_(xffi_legacy_builder_* b) {
  const size_t place = b->list_used++;
  void* address = NULL;
  xffi_legacy_blank_(&b->at);
  if (*b->at == '_') {
    ++b->at;
    if (b->next_leaf < b->num_leaves) {
      address = b->leaves[b->next_leaf].data;
    } else {
      b->bad = 1;
    }
    ++b->next_leaf;
  } else if (*b->at == '(') {
    const size_t count = xffi_legacy_elements_(b->at + 1);
    const size_t first = b->used;
    size_t i;
    ++b->at;
    b->used += count;
    for (i = 0; i < count && !b->bad; ++i) {
      void* element = xffi_legacy_node_(b);
      b->slots[first + i] = element;
      xffi_legacy_blank_(&b->at);
      if (i + 1 < count) xffi_legacy_take_(b, ',');
    }
    xffi_legacy_blank_(&b->at);
    xffi_legacy_take_(b, ')');
    address = b->device != NULL ? (void*)(b->device + first * sizeof(void*)) : &b->slots[first];
  } else {
    b->bad = 1;
  }
  b->list[place] = address;
  return address;
}

/* Returns the error for a structure that does not match the operands of the call. */
XFFI_COLD_ XLA_FFI_Error* xffi_legacy_mismatch_(const xffi_call* call, const char* structure,
                                              size_t args, size_t rets) {
  return xffi_error(call, XLA_FFI_Error_Code_INVALID_ARGUMENT, "the structure \"%s\" does not describe a call with %zu operands and "
                           "%zu results: it has '_' for each of them, tuples in brackets, commas "
                           "between, and '->' before the result", structure, args, rets);
}

/* --- the call ---------------------------------------------------------------------------------- */

typedef void xffi_legacy_cpu_(void* out, const void** in);
typedef void xffi_legacy_cpu_status_(void* out, const void** in, XlaCustomCallStatus* status);
typedef void xffi_legacy_gpu_(void* stream, void** buffers, const char* opaque, size_t length);
typedef void xffi_legacy_gpu_status_(void* stream, void** buffers, const char* opaque, size_t length,
                                    XlaCustomCallStatus* status);
typedef void xffi_legacy_cpu_unified_(void* out, const void** in, const char* opaque, size_t length,
                                     XlaCustomCallStatus* status);

/* The arguments of the function; each signature uses some of them. */
typedef struct xffi_legacy_pointers_ {
  void* stream;
  void* out;
  void** list;
  const char* opaque;
  size_t opaque_size;
} xffi_legacy_pointers_;

XFFI_INLINE_ void xffi_legacy_enter_(const xffi_legacy_adapter* adapter, xffi_legacy_pointers_* p,
                                   XlaCustomCallStatus* status) {
  switch (adapter->signature) {
    case XFFI_LEGACY_CPU:
      ((xffi_legacy_cpu_*)adapter->function)(p->out, (const void**)p->list);
      break;
    case XFFI_LEGACY_CPU_STATUS:
      ((xffi_legacy_cpu_status_*)adapter->function)(p->out, (const void**)p->list, status);
      break;
    case XFFI_LEGACY_GPU:
      ((xffi_legacy_gpu_*)adapter->function)(p->stream, p->list, p->opaque, p->opaque_size);
      break;
    case XFFI_LEGACY_CPU_UNIFIED:
      ((xffi_legacy_cpu_unified_*)adapter->function)(p->out, (const void**)p->list, p->opaque,
                                                    p->opaque_size, status);
      break;
    default: /* XFFI_LEGACY_GPU_STATUS, the only remaining signature */
      ((xffi_legacy_gpu_status_*)adapter->function)(p->stream, p->list, p->opaque, p->opaque_size,
                                                   status);
  }
}

/* Calls the function with a new status. Returns the failure in the status, or a C++ exception, as an error. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_legacy_call_(xffi_call* call, const xffi_legacy_adapter* adapter,
                                            xffi_legacy_pointers_* p) {
  xffi_status_object_* status = xffi_status_take_();
  XLA_FFI_Error* error = NULL;
  char* message;
  size_t length;
  int failed;
  if (status == NULL) {
    return xffi_error(call, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory for a status");
  }
#if defined(__cplusplus) && (defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND))
  try {
    xffi_legacy_enter_(adapter, p, (XlaCustomCallStatus*)(void*)status);
  } catch (...) {
    error = xffi_thrown_(call);
  }
#else
  xffi_legacy_enter_(adapter, p, (XlaCustomCallStatus*)(void*)status);
#endif
  failed = xffi_status_give_(status, &message, &length);
  if (XFFI_UNLIKELY_(failed)) {
    if (error == NULL) {
      error = xffi_error_bytes_(call->api, XLA_FFI_Error_Code_INTERNAL, message != NULL ? message : "",
                               length);
    }
    free(message);
  }
  return error;
}

/* Gets the bytes of the attribute `name`, a string or an array, as opaque bytes. */
XFFI_INLINE_ void xffi_legacy_fetch_opaque_(xffi_call* call, const char* name,
                                          xffi_legacy_opaque* opaque) {
  const int64_t i = xffi_find_(&call->frame->attrs, name);
  if (i >= 0 && call->frame->attrs.types[i] == XLA_FFI_AttrType_ARRAY) {
    const xffi_array_ array = xffi_attr_array_(call, name);
    const size_t bits = xffi_dtype_bits(array.dtype);
    opaque->data = array.data;
    opaque->size = bits >= 8 ? array.size * (bits / 8)
                             : array.size / 8 * bits + (array.size % 8 * bits + 7) / 8;
  } else {
    const XLA_FFI_ByteSpan text = xffi_attr_str(call, name);
    opaque->data = text.ptr;
    opaque->size = text.len;
  }
  if (opaque->size == 0) opaque->data = "";
}

/* Fetches the operands and calls the function. `buffers`, `slots` and `list` have room for all operands and
 * pointers. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_legacy_run_(xffi_call* call, const xffi_legacy_adapter* adapter,
                                           xffi_buffer* buffers, size_t num_args, size_t num_rets,
                                           void** slots, void** list, size_t room) {
  const int is_cpu =
      adapter->signature != XFFI_LEGACY_GPU && adapter->signature != XFFI_LEGACY_GPU_STATUS;
  xffi_legacy_opaque opaque;
  xffi_legacy_operands operands;
  xffi_legacy_pointers_ p;
  XLA_FFI_Error* error;
  size_t i;
  void* scratch = NULL;
  memset(&p, 0, sizeof(p));
  p.list = list;
  opaque.data = "";
  opaque.size = 0;
  for (i = 0; i < num_args; ++i) {
    buffers[i] = xffi_arg(call, "operand", XFFI_ANY_DTYPE, XFFI_ANY_RANK);
  }
  for (i = 0; i < num_rets; ++i) {
    buffers[num_args + i] = xffi_ret(call, "result", XFFI_ANY_DTYPE, XFFI_ANY_RANK);
  }
  if (adapter->opaque != NULL) xffi_legacy_fetch_opaque_(call, adapter->opaque, &opaque);
  operands.args = buffers;
  operands.num_args = num_args;
  operands.rets = buffers + num_args;
  operands.num_rets = num_rets;
  if (adapter->describe != NULL && call->problems == 0) {
    if (adapter->opaque == NULL) opaque.data = opaque.local;
    if ((error = adapter->describe(call, &operands, &opaque)) != NULL) return error;
  }
  if ((error = xffi_decoded(call)) != NULL) return error;
  if (!is_cpu && (error = xffi_stream(call, &p.stream)) != NULL) {
    xffi_error_free(call->api, error);
    return xffi_error(call, XLA_FFI_Error_Code_FAILED_PRECONDITION,
                      "the call has no stream, but the handler is for devices: register it for the device's platform");
  }
  p.opaque = (const char*)opaque.data;
  p.opaque_size = opaque.size;
  if (adapter->structure == NULL) {
    for (i = 0; i < num_args; ++i) list[i] = buffers[i].data;
    for (i = 0; i < num_rets; ++i) list[num_args + i] = buffers[num_args + i].data;
    p.out = num_rets == 1 ? list[num_args] : (void*)(list + num_args);
  } else {
    xffi_legacy_builder_ b;
    size_t operand_slots = 0;
    memset(&b, 0, sizeof(b));
    b.at = adapter->structure;
    b.slots = slots;
    b.list = list;
    b.leaves = buffers;
    b.num_leaves = num_args;
    if (!is_cpu) { /* on devices, tuples are arrays in device memory */
      if (adapter->copy == NULL) {
        return xffi_error(call, XLA_FFI_Error_Code_UNIMPLEMENTED, "tuples on a device lie in device memory: give the adapter a "
                                 "`copy` function");
      }
      if ((error = xffi_scratch(call, room * sizeof(void*), 64, &scratch)) != NULL) return error;
      b.device = (char*)scratch;
    }
    xffi_legacy_blank_(&b.at);
    for (i = 0; *b.at != '-' && !b.bad; ++i) {
      void* root = xffi_legacy_node_(&b);
      if (is_cpu) { /* on the CPU, the list only has the roots */
        b.list[i] = root;
        b.list_used = i + 1;
      }
      xffi_legacy_blank_(&b.at);
      if (*b.at == ',') {
        ++b.at;
        xffi_legacy_blank_(&b.at);
        if (*b.at == '-') b.bad = 1; /* after a comma, an operand must follow */
      } else if (*b.at != '-') {
        b.bad = 1;
      }
    }
    if (!b.bad && b.next_leaf != num_args) b.bad = 1;
    if (!b.bad && (b.at[0] != '-' || b.at[1] != '>')) b.bad = 1;
    if (!b.bad) {
      b.at += 2;
      operand_slots = b.used;
      b.num_leaves = num_args + num_rets;
      p.out = xffi_legacy_node_(&b);
      xffi_legacy_blank_(&b.at);
      if (*b.at != '\0' || b.next_leaf != b.num_leaves) b.bad = 1;
    }
    if (b.bad) {
      error = xffi_legacy_mismatch_(call, adapter->structure, num_args, num_rets);
    } else if (scratch != NULL && operand_slots != 0 &&
               adapter->copy(p.stream, scratch, slots, operand_slots * sizeof(void*)) != 0) {
      error = xffi_error(call, XLA_FFI_Error_Code_INTERNAL, "the arrays of its tuples cannot be copied to the device");
    }
  }
  if (error == NULL) error = xffi_legacy_call_(call, adapter, &p);
  if (scratch != NULL) { /* after the function's work on the stream */
    XLA_FFI_Error* freed = xffi_scratch_free(call, scratch, room * sizeof(void*));
    if (error == NULL) return freed;
    xffi_error_free(call->api, freed);
  }
  return error;
}

/* Runs an adapted call: provides memory for the pointers, on the stack if possible, and calls the function. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_legacy_adapt_(xffi_call* call, const xffi_legacy_adapter* adapter) {
  const size_t num_args = (size_t)(call->frame->args.size > 0 ? call->frame->args.size : 0);
  const size_t num_rets = (size_t)(call->frame->rets.size > 0 ? call->frame->rets.size : 0);
  /* Each node needs at least one character of the structure, and at most one slot. */
  const size_t nodes = adapter->structure != NULL ? strlen(adapter->structure) : 0;
  const size_t room = num_args + num_rets + nodes + 1;
  if (room <= XFFI_LEGACY_INLINE_) {
    xffi_buffer buffers[XFFI_LEGACY_INLINE_];
    void* pointers[2 * XFFI_LEGACY_INLINE_];
    return xffi_legacy_run_(call, adapter, buffers, num_args, num_rets, pointers,
                           pointers + XFFI_LEGACY_INLINE_, room);
  } else {
    xffi_buffer* buffers = (xffi_buffer*)malloc(room * sizeof(xffi_buffer));
    void** pointers = (void**)malloc(2 * room * sizeof(void*));
    XLA_FFI_Error* error;
    if (buffers == NULL || pointers == NULL) {
      error = xffi_error(call, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory for %zu pointers", room);
    } else {
      error = xffi_legacy_run_(call, adapter, buffers, num_args, num_rets, pointers,
                              pointers + room, room);
    }
    free(buffers);
    free(pointers);
    return error;
  }
}

/* Exports the handler of an adapter, which is an xffi_legacy_adapter with static storage. */
#define XFFI_ADAPT(symbol, adapter)                                        \
  static inline XLA_FFI_Error* symbol##_adapted(xffi_call* call) {         \
    return xffi_legacy_adapt_(call, &(adapter));                            \
  }                                                                        \
  XFFI_HANDLER(symbol, symbol##_adapted)

/* Checks at compile time that the function has the type of the signature. */
#if defined(__cplusplus)
#define XFFI_LEGACY_CHECK_(symbol, signature, function, ...)         \
  static_assert(::xla::xffi_legacy_::IsOfForm(function, signature), \
                "the function is not of the form that this adapter calls")
#else
#define XFFI_LEGACY_CHECK_(symbol, signature, function, ...) \
  XFFI_COLD_ void symbol##_check(void) { function(__VA_ARGS__); } \
  struct symbol##_checked
#endif

#define XFFI_ADAPT_AS_(symbol, signature, function, opaque, ...)                              \
  XFFI_LEGACY_CHECK_(symbol, signature, function, __VA_ARGS__);                               \
  static const xffi_legacy_adapter symbol##_adapter = {signature, XFFI_LEGACY_CAST_(function), \
                                                       opaque, NULL, NULL, NULL};             \
  XFFI_ADAPT(symbol, symbol##_adapter)
#ifdef __cplusplus
#define XFFI_LEGACY_CAST_(function) reinterpret_cast<void (*)()>(function)
#else
#define XFFI_LEGACY_CAST_(function) (void (*)(void))(function)
#endif

#define XFFI_ADAPT_CPU(symbol, function) \
  XFFI_ADAPT_AS_(symbol, XFFI_LEGACY_CPU, function, NULL, NULL, NULL)
#define XFFI_ADAPT_CPU_STATUS(symbol, function) \
  XFFI_ADAPT_AS_(symbol, XFFI_LEGACY_CPU_STATUS, function, NULL, NULL, NULL, NULL)
#define XFFI_ADAPT_GPU(symbol, function, opaque) \
  XFFI_ADAPT_AS_(symbol, XFFI_LEGACY_GPU, function, opaque, NULL, NULL, "", 0)
#define XFFI_ADAPT_GPU_STATUS(symbol, function, opaque) \
  XFFI_ADAPT_AS_(symbol, XFFI_LEGACY_GPU_STATUS, function, opaque, NULL, NULL, "", 0, NULL)
#define XFFI_ADAPT_CPU_UNIFIED(symbol, function, opaque) \
  XFFI_ADAPT_AS_(symbol, XFFI_LEGACY_CPU_UNIFIED, function, opaque, NULL, NULL, "", 0, NULL)

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* XLA_FFI_LEGACY_ADAPT_H_ */
