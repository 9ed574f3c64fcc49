// Where operands lie whose types are known to the compiler: their elements are counted without a branch for each check,
// and an order in which they lay before proves that none overlaps another. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_REGIONS_H_
#define XLA_FFI_SDK_CPP_REGIONS_H_

#include "xla_ffi/cpp/memory.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// nvcc does not know the pragma, and says so.
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__CUDACC__)
#define XLA_FFI_SDK_UNROLL _Pragma("GCC unroll 16")
#else
#define XLA_FFI_SDK_UNROLL
#endif

// Has a number be ready here. A compiler would else put off what adds to it until it is asked for, and keep all that it is
// made of, for many operands, until then.
XLA_FFI_SDK_HOT inline void Pin([[maybe_unused]] uint64_t& number) {
#if (defined(__GNUC__) || defined(__clang__)) && (defined(__x86_64__) || defined(__aarch64__))
  __asm__("" : "+r"(number));
#endif
}

// What keeps the operands that were counted so far from being all right, if anything does: bits of two numbers, which are
// looked at once. Almost every call leaves none; where one does, all operands are looked at again, one by one.
struct Doubt {
  uint64_t factors = 0;  // of the numbers that were multiplied
  uint64_t rest = 0;     // of numbers of elements, and of addresses, turned so that bits that have to be zero come first

  // The product of two numbers below 2^31 fits 64 bits. Fewer than 2^58 elements have a number of bytes that can
  // be addressed, as none has more than 16; and an address of so few bits is a multiple of what its type wants.
  XLA_FFI_SDK_HOT bool IsNone() const { return ((factors >> 31) | (rest >> 58)) == 0; }

  // Counts the elements of a buffer and finds their first byte. Where no doubt is left, they can be counted, and lie at an
  // address that is aligned and not null.
  XLA_FFI_SDK_HOT uint64_t Count(const int64_t* dims, int64_t rank, uintptr_t data, unsigned align) {
    uint64_t count = 1;
    for (int64_t i = 0; i < rank; ++i) {
      const auto dim = static_cast<uint64_t>(dims[i]);
      if (i > 0) factors |= count | dim;
      count *= dim;
    }
    // Low bits that are set become high ones, and null wraps around.
    const uint64_t turned = uint64_t{data} / align | uint64_t{data} * (~uint64_t{0} / align + 1);
    rest |= count | (turned - 1);
    Pin(factors);
    Pin(rest);
    return count;
  }
};

// Operands that an order can have.
inline constexpr int kOrdered = 16;
inline constexpr uint64_t kDeclared = 0xfedcba9876543210;  // the order in which they are declared

// In which order operands lay in memory when the handler was last called, arguments counted before results: four bits each,
// the lowest operand in the lowest bits. It is a guess about the next call, in which few operands move. A word is read and
// written whole, so that what is read is always some order of all operands.
using Order = std::atomic<uint64_t>;

// An address. Not of the type that dimensions have, so that compilers know that writing one changes no dimension.
using Address = std::conditional_t<std::is_same_v<int64_t, long>, unsigned long long, uintptr_t>;

// Where `kArgs` arguments and then `kRets` results lie. One without bytes may have a place, or lie at the end of all
// addresses.
template <int kArgs, int kRets>
struct Regions {
  static constexpr int kCount = kArgs + kRets;
  Address start[kCount + 1];
  Address end[kCount + 1];

  XLA_FFI_SDK_HOT void Set(int i, Address first, Address last) {
    start[i] = first;
    end[i] = last;
  }
  XLA_FFI_SDK_HOT void SetNowhere(int i) { Set(i, XLA_FFI_SDK_NOWHERE, XLA_FFI_SDK_NOWHERE); }

  // Finds out where a buffer lies whose type and rank are known; false: nowhere, as it has no dimensions.
  XLA_FFI_SDK_HOT bool Locate(int i, const XLA_FFI_Buffer* buf, unsigned dtype, int64_t rank, Doubt* doubt) {
    const unsigned bits = xla_ffi_sdk_bits(dtype);
    if (bits < 8) {  // packed elements, tokens
      xla_ffi_sdk_region any;
      if (xla_ffi_sdk_locate_any(buf, dtype, rank, &any) != xla_ffi_sdk_fault_none) return false;
      Set(i, any.start, any.end);
      return true;
    }
    if (XLA_FFI_PREDICT_FALSE(rank > 0 && buf->dims == nullptr)) return false;
    const auto data = reinterpret_cast<uintptr_t>(buf->data);
    const uint64_t count = doubt->Count(buf->dims, rank, data, xla_ffi_sdk_align(dtype, bits));
    Set(i, data, data + static_cast<uintptr_t>(count) * (bits / 8));
    return true;
  }

  // Whether no result overlaps another operand, by a comparison for each pair.
  XLA_FFI_SDK_HOT bool AreApart() const {
    bool overlap = false;
    for (int r = kArgs; r < kCount; ++r) {
      for (int other = 0; other < r; ++other) overlap |= (start[r] < end[other]) & (start[other] < end[r]);
    }
    return !overlap;
  }

  // Whether in that order each operand ends before the next one starts. Then none overlaps another.
  XLA_FFI_SDK_HOT bool AreApartIn(uint64_t order) const {
    // A byte each, of which a register gives the lowest for nothing.
    uint64_t even = order & kLowHalves, odd = order >> 4 & kLowHalves;
    Address before = 0;
    XLA_FFI_SDK_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const unsigned at = static_cast<unsigned char>(even);
      uint64_t next = even >> 8;
      Pin(next);
      if (start[at] < before) return false;
      before = end[at];
      even = odd;
      odd = next;
    }
    return true;
  }

 private:
  static constexpr uint64_t kLowHalves = 0x0f0f0f0f0f0f0f0f;
};

// The order in which operands lie; zero, which is none, where a result overlaps another operand and may not.
XLA_FFI_SDK_PURE inline uint64_t Sorted(const XLA_FFI_CallFrame* frame, const Address* start, const Address* end,
                                        int args, int rets) {
  const int count = args + rets;
  uint64_t keys[kOrdered];
  unsigned char at[kOrdered];
  // No two are equal, whatever the addresses are.
  for (int i = 0; i < kOrdered; ++i) {
    keys[i] = i < count ? uint64_t{start[i]} << 4 | static_cast<unsigned>(i) : ~uint64_t{0};
  }
  // Counting is quicker than moving: no branch depends on where they lie.
  for (int i = 0; i < count; ++i) {
    int below = 0;
    XLA_FFI_SDK_UNROLL
    for (int k = 0; k < kOrdered; ++k) below += keys[k] < keys[i];
    at[below] = static_cast<unsigned char>(i);
  }
  // How far the arguments and the results reach that come before the operand at hand.
  Address arg = 0, ret = 0;
  bool overlap = false;
  uint64_t order = 0;
  for (int place = 0; place < count; ++place) {
    const int i = at[place];
    order |= static_cast<uint64_t>(i) << 4 * place;
    if (i < args) {
      overlap |= start[i] < ret;
      arg = std::max(arg, end[i]);
    } else {
      overlap |= start[i] < std::max(arg, ret);
      ret = end[i];
    }
  }
  return overlap && !xla_ffi_sdk_memory_is_good(frame, args, rets, 1) ? 0 : order;
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_REGIONS_H_
