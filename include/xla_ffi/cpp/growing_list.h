// A list that several threads add to. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_GROWING_LIST_H_
#define XLA_FFI_SDK_CPP_GROWING_LIST_H_

#include "xla_ffi/cpp/config.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// A list by its first node, the newest: never shortened, its nodes never freed. Nobody waits for another thread: a child that
// is forked in the middle of another thread's addition would wait for good.
template <typename Node>
using ListHead = std::atomic<Node*>;

template <typename Node, typename Is>
XLA_FFI_SDK_HOT inline Node* FindFrom(Node* node, const Is& is) {
  while (node != nullptr && !is(*node)) node = node->next;
  return node;
}

// The first node that `is` takes, or null.
template <typename Node, typename Is>
XLA_FFI_SDK_HOT inline Node* FindIn(const ListHead<Node>& first, const Is& is) {
  return FindFrom(first.load(std::memory_order_acquire), is);
}

// Puts a node in front, unless there is one by now that `is` takes, and gives back the one that is in the list.
template <typename Node, typename Is>
XLA_FFI_SDK_COLD inline Node* AddTo(ListHead<Node>& first, Node* node, const Is& is) {
  node->next = first.load(std::memory_order_acquire);
  do {
    if (Node* known = FindFrom(node->next, is)) return known;
  } while (!first.compare_exchange_weak(node->next, node, std::memory_order_acq_rel));
  return node;
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_GROWING_LIST_H_
