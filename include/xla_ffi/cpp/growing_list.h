// A list that several threads add to. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_GROWING_LIST_H_
#define XLA_FFI_SDK_CPP_GROWING_LIST_H_

#include "xla_ffi/cpp/config.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// The newest node first; never shortened, its nodes never freed. Nobody waits for another thread: a child that is forked
// in the middle of another thread's addition would wait for good.
template <typename Node>
struct GrowingList {
  std::atomic<Node*> first{nullptr};

  // The first node that `is` takes, or null.
  template <typename Is>
  XLA_FFI_SDK_HOT Node* Find(const Is& is) const {
    return FindFrom(first.load(std::memory_order_acquire), is);
  }

  // Puts a node in front, unless there is one by now that `is` takes, and gives back the one that is in the list.
  template <typename Is>
  XLA_FFI_SDK_COLD Node* Add(Node* node, const Is& is) {
    node->next = first.load(std::memory_order_acquire);
    do {
      if (Node* known = FindFrom(node->next, is)) return known;
    } while (!first.compare_exchange_weak(node->next, node, std::memory_order_acq_rel));
    return node;
  }

 private:
  template <typename Is>
  XLA_FFI_SDK_HOT static Node* FindFrom(Node* node, const Is& is) {
    while (node != nullptr && !is(*node)) node = node->next;
    return node;
  }
};

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_GROWING_LIST_H_
