/* Tuples for targets of the original custom calls on devices. Reads the list of buffers in both of its forms, and
 * writes the arrays of a tuple result from a pool without stalling the stream.
 *
 *   static xffi_staging roots = XFFI_STAGING(&events, 16);
 *
 *   static void target(CUstream stream, void** list, const char* opaque, size_t size, XlaCustomCallStatus* status) {
 *     xffi_buffers buffers;
 *     if (xffi_buffers_read(&buffers, list, "(_, _) -> (_, _)", XFFI_FORM_NODES) != 0) ...
 *     launch(buffers.args[0].address, buffers.args[1].address, buffers.rets[0], buffers.rets[1], stream);
 *     error = xffi_staging_write(&roots, stream, buffers.tables, buffers.num_tables);
 *     xffi_buffers_free(&buffers);
 *   }
 *
 * Part of <xla_ffi/legacy/adapt.h>. This header is independent of the platform, whose functions the caller provides. */
#ifndef XLA_FFI_LEGACY_DEVICE_H_
#define XLA_FFI_LEGACY_DEVICE_H_

/* Silences the C++ warnings about the C-style casts in this header. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

#include <stdlib.h>
#include <string.h>

#include "xla_ffi/legacy/adapt.h"

/* --- the list of buffers ------------------------------------------------------------------------ */

/* The entries of the list. */
typedef enum xffi_form {
  XFFI_FORM_LEAVES, /* each leaf, as in current XLA */
  XFFI_FORM_NODES   /* each node, tuples before their elements, as first documented */
} xffi_form;

/* A leaf of an operand. */
typedef struct xffi_leaf {
  void* address; /* null if the list does not contain the leaf: read the address through the root */
  void* root;    /* root of the leaf's operand; the leaf itself if the operand is not a tuple */
  const size_t* path; /* the leaf's index in each tuple, starting at the root */
  size_t depth;
} xffi_leaf;

/* A tuple of the result that the target must write: an array in device memory, and its contents. */
typedef struct xffi_table {
  void** table;
  void** elements;
  size_t size;
} xffi_table;

/* A parsed list: the operands' leaves, the result's leaves, and the result's tuples, each in pre-order. A list that
 * only has leaves has no tuples to write. */
typedef struct xffi_buffers {
  xffi_leaf* args;
  void** rets;
  xffi_table* tables;
  size_t num_args, num_rets, num_tables;
  void* memory;
} xffi_buffers;

#define XFFI_STRUCTURE_DEPTH_ 32 /* maximum depth of nested tuples */
#define XFFI_NO_STRUCTURE (-1)  /* not a structure, or nested too deeply */
#define XFFI_NO_MEMORY (-2)

/* A pass over a structure. The first pass counts, the second fills. */
typedef struct xffi_walk_ {
  const char* at;
  void* const* list; /* null while counting */
  xffi_form form;
  int is_ret, bad;
  size_t args, rets, tables, elements, paths;
  size_t path[XFFI_STRUCTURE_DEPTH_];
  xffi_buffers* to;
  void** element;
  size_t* step;
} xffi_walk_;

/* Reads one node and returns its address in the list. */
static inline void* xffi_walk_node_(xffi_walk_* w, void* root, size_t depth) {
  void* address = NULL;
  xffi_legacy_blank_(&w->at);
  if (*w->at == '_') {
    ++w->at;
    if (w->list != NULL) address = *w->list++;
    if (w->is_ret) {
      if (w->list != NULL) w->to->rets[w->rets] = address;
      ++w->rets;
    } else {
      if (w->list != NULL) {
        xffi_leaf* leaf = &w->to->args[w->args];
        leaf->address = address;
        leaf->root = depth == 0 || w->form == XFFI_FORM_LEAVES ? address : root;
        leaf->path = w->step + w->paths;
        leaf->depth = depth;
        if (depth != 0) memcpy(w->step + w->paths, w->path, depth * sizeof(size_t));
      }
      w->paths += depth;
      ++w->args;
    }
  } else if (*w->at == '(' && depth < XFFI_STRUCTURE_DEPTH_) {
    const size_t size = xffi_legacy_elements_(++w->at);
    const size_t first = w->elements;
    const int is_table = w->is_ret && w->form == XFFI_FORM_NODES;
    size_t i;
    if (w->list != NULL && w->form == XFFI_FORM_NODES) address = *w->list++;
    if (is_table) {
      if (w->list != NULL) {
        xffi_table* table = &w->to->tables[w->tables];
        table->table = (void**)address;
        table->elements = w->element + first;
        table->size = size;
      }
      ++w->tables;
      w->elements += size;
    }
    for (i = 0; i < size && !w->bad; ++i) {
      void* element;
      w->path[depth] = i;
      element = xffi_walk_node_(w, depth == 0 ? address : root, depth + 1);
      if (is_table && w->list != NULL) w->element[first + i] = element;
      xffi_legacy_blank_(&w->at);
      if (i + 1 < size && *w->at++ != ',') w->bad = 1;
    }
    xffi_legacy_blank_(&w->at);
    if (w->bad || *w->at != ')') {
      w->bad = 1;
    } else {
      ++w->at;
    }
  } else {
    w->bad = 1;
  }
  return address;
}

XFFI_INLINE_ int xffi_walk_all_(xffi_walk_* w, const char* structure) {
  w->at = structure;
  xffi_legacy_blank_(&w->at);
  while (*w->at != '-' && !w->bad) {
    xffi_walk_node_(w, NULL, 0);
    xffi_legacy_blank_(&w->at);
    if (!w->bad && *w->at == ',') {
      ++w->at;
      xffi_legacy_blank_(&w->at);
      w->bad |= *w->at == '-';
    } else {
      w->bad |= *w->at != '-';
    }
  }
  if (!w->bad && w->at[1] == '>') {
    w->at += 2;
    w->is_ret = 1;
    xffi_walk_node_(w, NULL, 0);
    xffi_legacy_blank_(&w->at);
    w->bad |= *w->at != '\0';
  } else {
    w->bad = 1;
  }
  return w->bad;
}

/* Reads a list. `structure` is the structure of the call: '_' is a leaf, brackets are a tuple, separated by commas,
 * with "->" before the result. Returns 0, XFFI_NO_STRUCTURE or XFFI_NO_MEMORY. After 0, the caller must call
 * xffi_buffers_free. */
XFFI_INLINE_ int xffi_buffers_read(xffi_buffers* buffers, void* const* list, const char* structure,
                                  xffi_form form) {
  xffi_walk_ counted, filled;
  char* memory;
  memset(buffers, 0, sizeof(*buffers));
  memset(&counted, 0, sizeof(counted));
  counted.form = form;
  if (xffi_walk_all_(&counted, structure)) return XFFI_NO_STRUCTURE;
  memory = (char*)malloc(counted.args * sizeof(xffi_leaf) + counted.tables * sizeof(xffi_table) +
                         (counted.rets + counted.elements) * sizeof(void*) +
                         counted.paths * sizeof(size_t) + 1);
  if (memory == NULL) return XFFI_NO_MEMORY;
  buffers->memory = memory;
  buffers->num_args = counted.args;
  buffers->num_rets = counted.rets;
  buffers->num_tables = counted.tables;
  buffers->args = (xffi_leaf*)(void*)memory;
  buffers->tables = (xffi_table*)(void*)(buffers->args + counted.args);
  buffers->rets = (void**)(void*)(buffers->tables + counted.tables);
  memset(&filled, 0, sizeof(filled));
  filled.form = form;
  filled.list = list;
  filled.to = buffers;
  filled.element = buffers->rets + counted.rets;
  filled.step = (size_t*)(void*)(filled.element + counted.elements);
  xffi_walk_all_(&filled, structure);
  return 0;
}

XFFI_INLINE_ void xffi_buffers_free(xffi_buffers* buffers) {
  free(buffers->memory);
  memset(buffers, 0, sizeof(*buffers));
}

/* Returns the address of a leaf, reading it through its root if the list does not have it. Call it where the operand's
 * tuples can be read: on their stream, or anywhere if host and device share memory. */
XFFI_INLINE_ void* xffi_leaf_resolve(const xffi_leaf* leaf) {
  void* at = leaf->root;
  size_t i;
  if (leaf->address != NULL) return leaf->address;
  for (i = 0; i < leaf->depth && at != NULL; ++i) at = ((void**)at)[leaf->path[i]];
  return at;
}

/* Gets the address of a leaf whose root is in device memory. `read` copies from device memory to the host, in the order
 * of `stream`, and waits for the copy. It returns 0 or an error number, which is passed on. A leaf of size zero has no
 * address. */
XFFI_INLINE_ int xffi_leaf_fetch(const xffi_leaf* leaf, void* stream,
                                int (*read)(void* stream, void* to, const void* from, size_t size),
                                void** address) {
  void* at = leaf->root;
  size_t i;
  *address = leaf->address;
  if (leaf->address != NULL) return 0;
  for (i = 0; i < leaf->depth && at != NULL; ++i) {
    const int error = read(stream, &at, (void**)at + leaf->path[i], sizeof(at));
    if (error != 0) return error;
  }
  *address = at;
  return 0;
}

/* --- the pool ----------------------------------------------------------------------------------- */

/* The platform functions that the pool needs. Each returns 0, or a positive error number, which is passed on. */
typedef struct xffi_events {
  int (*device_of)(void* stream, int* device);    /* events are only used on the device they were created for */
  int (*create)(void* stream, void** event);      /* an event for the device of a stream */
  int (*record)(void* event, void* stream);       /* records an event on a stream, after the work on the stream */
  int (*is_complete)(void* event, int* complete); /* whether the stream has reached the event; does not wait */
  /* Enqueues a copy from host to device memory. `from` stays valid until an event after the copy is complete. */
  int (*copy)(void* stream, void* to, const void* from, size_t size);
} xffi_events;

typedef enum xffi_slot_state_ {
  XFFI_SLOT_FREE_,
  XFFI_SLOT_BUSY_,  /* in use until the slot's event is complete */
  XFFI_SLOT_TAKEN_, /* held by a call */
  XFFI_SLOT_LOST_   /* the end of the slot's copy is unknown: neither used again nor counted */
} xffi_slot_state_;

/* Host memory with an event. */
typedef struct xffi_slot_ {
  struct xffi_slot_* next;
  int device;
  xffi_slot_state_ state;
  void* event;
  void** addresses;
  size_t room;
} xffi_slot_;

/* A pool of host memory for any number of threads, streams and devices: static, initialised with XFFI_STAGING. It
 * allocates at most `capacity` slots per device, and keeps them. If all are in use, the calling thread waits for the
 * first free slot; streams never wait. */
typedef struct xffi_staging {
  const xffi_events* platform;
  size_t capacity;
  long lock;
  xffi_slot_* slots;
} xffi_staging;
#define XFFI_STAGING(platform, capacity) {platform, capacity, 0, NULL}

XFFI_INLINE_ void xffi_staging_lock_(xffi_staging* pool) {
  while (XFFI_SWAP_(&pool->lock, 1) != 0) XFFI_YIELD_();
}
XFFI_INLINE_ void xffi_staging_unlock_(xffi_staging* pool) {
  XFFI_STORE_(&pool->lock, 0);
}

XFFI_INLINE_ void xffi_staging_give_(xffi_staging* pool, xffi_slot_* slot, xffi_slot_state_ state) {
  xffi_staging_lock_(pool);
  slot->state = state;
  xffi_staging_unlock_(pool);
}

/* Gets a slot of a device that no copy uses, perhaps without an event yet; on error the slot is null. `slot` also stays
 * null if all are in use and the capacity is reached. */
XFFI_INLINE_ int xffi_staging_take_(xffi_staging* pool, int device, xffi_slot_** slot) {
  xffi_slot_* at;
  size_t count = 0;
  int error = 0;
  *slot = NULL;
  xffi_staging_lock_(pool);
  for (at = pool->slots; at != NULL && error == 0 && *slot == NULL; at = at->next) {
    int complete = 0;
    if (at->device != device || at->state == XFFI_SLOT_LOST_) continue;
    ++count;
    if (at->state == XFFI_SLOT_BUSY_) {
      error = pool->platform->is_complete(at->event, &complete);
      if (error == 0 && complete) at->state = XFFI_SLOT_FREE_;
    }
    if (error == 0 && at->state == XFFI_SLOT_FREE_) *slot = at;
  }
  if (error == 0 && *slot == NULL && count < (pool->capacity != 0 ? pool->capacity : 1)) {
    *slot = (xffi_slot_*)calloc(1, sizeof(xffi_slot_));
    if (*slot == NULL) {
      error = XFFI_NO_MEMORY;
    } else {
      (*slot)->device = device;
      (*slot)->next = pool->slots;
      pool->slots = *slot;
    }
  }
  if (*slot != NULL) (*slot)->state = XFFI_SLOT_TAKEN_;
  xffi_staging_unlock_(pool);
  return error;
}

/* Enqueues the writing of tuples on a stream. Returns 0, the platform's error, or XFFI_NO_MEMORY. Each table is device
 * memory with room for its elements, which must stay allocated until the stream has written it. */
XFFI_INLINE_ int xffi_staging_write(xffi_staging* pool, void* stream, const xffi_table* tables,
                                   size_t num_tables) {
  xffi_slot_* slot = NULL;
  size_t needed = 0, used = 0, i;
  int device, error, queued = 0;
  for (i = 0; i < num_tables; ++i) needed += tables[i].size;
  if (needed == 0) return 0;
  if ((error = pool->platform->device_of(stream, &device)) != 0) return error;
  while (slot == NULL) {
    if ((error = xffi_staging_take_(pool, device, &slot)) != 0) return error;
    if (slot == NULL) XFFI_YIELD_();
  }
  if (slot->event == NULL && (error = pool->platform->create(stream, &slot->event)) != 0) {
    xffi_staging_give_(pool, slot, XFFI_SLOT_LOST_);
    return error;
  }
  if (slot->room < needed) {
    void** room = (void**)realloc(slot->addresses, needed * sizeof(void*));
    if (room == NULL) {
      xffi_staging_give_(pool, slot, XFFI_SLOT_FREE_);
      return XFFI_NO_MEMORY;
    }
    slot->addresses = room;
    slot->room = needed;
  }
  for (i = 0; i < num_tables && error == 0; ++i) {
    if (tables[i].size == 0) continue;
    memcpy(slot->addresses + used, tables[i].elements, tables[i].size * sizeof(void*));
    error = pool->platform->copy(stream, tables[i].table, slot->addresses + used,
                                 tables[i].size * sizeof(void*));
    used += tables[i].size;
    queued |= error == 0;
  }
  if (queued) {
    const int recorded = pool->platform->record(slot->event, stream);
    xffi_staging_give_(pool, slot, recorded == 0 ? XFFI_SLOT_BUSY_ : XFFI_SLOT_LOST_);
    return error != 0 ? error : recorded;
  }
  xffi_staging_give_(pool, slot, XFFI_SLOT_FREE_);
  return error;
}

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* XLA_FFI_LEGACY_DEVICE_H_ */
