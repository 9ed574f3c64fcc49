/* Tuples for device targets of the original custom calls. Reads the list of buffers in either form (see xffi_form).
 * Writes the arrays of a tuple result from a pool of host memory, without stalling the stream.
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
 * Part of <xla_ffi/legacy/adapt.h>. The caller provides the platform's functions. */
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

/* The form of a list of buffers. */
typedef enum xffi_form {
  XFFI_FORM_LEAVES, /* an entry per leaf, as in current XLA */
  XFFI_FORM_NODES   /* an entry per node, tuples before their elements, as in XLA's old documents */
} xffi_form;

/* A leaf of an operand: the address of an array, or a path to the address. */
typedef struct xffi_leaf {
  void* address; /* null if the list does not contain the address: read it through the root */
  void* root;    /* the root of the operand; if the operand is not a tuple, the leaf itself */
  const size_t* path; /* the index of the leaf's branch in each tuple, starting at the root */
  size_t depth;
} xffi_leaf;

/* A tuple of the result, which the target must write: an array in device memory, and the addresses to write to it. */
typedef struct xffi_table {
  void** table;
  void** elements;
  size_t size;
} xffi_table;

/* A parsed list of buffers: the leaves of the operands, the leaves of the result, and the tuples of the result, each in
 * pre-order. A list of the form XFFI_FORM_LEAVES has no tuples to write. */
typedef struct xffi_buffers {
  xffi_leaf* args;
  void** rets;
  xffi_table* tables;
  size_t num_args, num_rets, num_tables;
  void* memory;
} xffi_buffers;

#define XFFI_STRUCTURE_DEPTH_ 32 /* maximum depth of nested tuples */
#define XFFI_NO_STRUCTURE (-1)  /* the text is not a structure, or is nested too deeply */
#define XFFI_NO_MEMORY (-2)

/* The state of one pass over a structure. The first pass counts, the second pass fills `to`. */
typedef struct xffi_walk_ {
  const char* at;
  void* const* list; /* the next entry; null in the counting pass */
  xffi_form form;
  int is_ret, bad;
  size_t args, rets, tables, elements, paths;
  size_t path[XFFI_STRUCTURE_DEPTH_];
  xffi_buffers* to;
  void** element;
  size_t* step;
} xffi_walk_;

/* Reads one node of the structure, with its elements, and returns the node's entry in the list. */
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

/* Parses a list of buffers. In `structure`, '_' is a leaf and brackets are a tuple, separated by commas, with "->"
 * before the result. Returns 0, XFFI_NO_STRUCTURE or XFFI_NO_MEMORY. After 0, the caller must call
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

/* Returns the address of a leaf. If the list does not contain the address, reads it through the root, which must be
 * readable by the caller: on the operand's stream, or if host and device share memory. */
XFFI_INLINE_ void* xffi_leaf_resolve(const xffi_leaf* leaf) {
  void* at = leaf->root;
  size_t i;
  if (leaf->address != NULL) return leaf->address;
  for (i = 0; i < leaf->depth && at != NULL; ++i) at = ((void**)at)[leaf->path[i]];
  return at;
}

/* Gets the address of a leaf whose root is in device memory. `read` copies from device memory to the host, in the order
 * of `stream`, and waits for the copy. Returns 0 or the error number of `read`. A leaf without elements may have a null
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

/* The platform functions for a pool of host memory. Each function returns 0, or a positive error number for the
 * caller. */
typedef struct xffi_events {
  int (*device_of)(void* stream, int* device);    /* gets the device of a stream, because events belong to a device */
  int (*create)(void* stream, void** event);      /* creates an event for the device of a stream */
  int (*record)(void* event, void* stream);       /* records an event after all work on a stream */
  int (*is_complete)(void* event, int* complete); /* tests whether the stream has reached the event, without waiting */
  /* Enqueues a copy from host to device memory. `from` stays valid until a later event is complete. */
  int (*copy)(void* stream, void* to, const void* from, size_t size);
} xffi_events;

typedef enum xffi_slot_state_ {
  XFFI_SLOT_FREE_,
  XFFI_SLOT_BUSY_,  /* in use until the event of the slot is complete */
  XFFI_SLOT_TAKEN_, /* in use by a call that is enqueuing copies */
  XFFI_SLOT_LOST_   /* no event can be recorded: the slot is neither used again nor counted */
} xffi_slot_state_;

/* A part of a pool of host memory, with an event that is complete when the memory can be reused. */
typedef struct xffi_slot_ {
  struct xffi_slot_* next;
  int device;
  xffi_slot_state_ state;
  void* event;
  void** addresses;
  size_t room;
} xffi_slot_;

/* A pool of host memory for any number of threads, streams and devices: a static object, initialised with XFFI_STAGING.
 * The pool allocates at most `capacity` slots per device, and never frees them. If all slots are in use, the calling
 * thread waits for a free slot; streams never wait. */
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

/* Gets a slot of a device that no copy uses. A new slot has no event yet. If all slots are in use and the capacity is
 * reached, or on an error, `slot` is null. */
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

/* Enqueues copies that write the tuples of a result on a stream. Returns 0, an error number of the platform, or
 * XFFI_NO_MEMORY. Each table is device memory with room for its elements, which must stay allocated until the copies
 * are complete. */
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
