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

// A number that operand after operand is compared with, in a register from the second time on: processors take the comparison
// of memory with a register and the branch behind it for one instruction, and that with a constant for two.
struct Repeated {
  uint64_t known = ~uint64_t{0};  // what the compiler knows
  uint64_t held = 0;
  bool is_held = false;

  XLA_FFI_SDK_HOT uint64_t Number(uint64_t number) {
    if (number != known) {
      known = number;
      is_held = false;
      return number;
    }
    if (!is_held) {
      held = number;
      is_held = true;
      Pin(held);
    }
    return held;
  }
};

// What keeps the operands that were counted so far from being all right, if anything does: bits of numbers, which are looked
// at once. Almost every call leaves none; where one does, all operands are looked at again, one by one. Where they are
// ordered, it is the order that tells whether one of them has no address.
struct Doubt {
  const bool few;      // so few operands that doing more for each of them is quicker than doing more once
  const bool ordered;  // whether an order of them is asked for

  // Factors of so many bits have a product of 64 bits; of half as many as a number of elements may have, one that need not
  // be looked at.
  static constexpr unsigned kFactors = 31, kHalf = 29;
  // Numbers of elements of so many bits have a number of bytes that can be addressed, since none has more than 16. Addresses
  // are held to it, too: what ends behind one is no wrapped number.
  static constexpr unsigned kBits = 58;

  uint64_t factors = 0;            // bits of the numbers that were multiplied
  uint64_t counts = 0;             // bits of the numbers of elements
  uint64_t common = ~uint64_t{0};  // bits that all addresses have
  // Bits of the addresses of elements that want so many bytes as an alignment.
  uint64_t align1 = 0, align2 = 0, align4 = 0, align8 = 0, align16 = 0;
  Repeated dtypes, ranks;

  XLA_FFI_SDK_HOT Doubt(int operands, bool is_ordered) : few(operands <= 4), ordered(is_ordered) {}

  // Whether a buffer is there and has that element type and rank.
  XLA_FFI_SDK_HOT bool Fits(const XLA_FFI_Buffer* buf, unsigned dtype, int64_t rank) {
    return IsThere(buf) && static_cast<unsigned>(buf->dtype) == static_cast<unsigned>(dtypes.Number(dtype)) &&
           buf->rank == static_cast<int64_t>(ranks.Number(static_cast<uint64_t>(rank)));
  }

  XLA_FFI_SDK_HOT bool IsNone() const {
    const uint64_t high = (counts | align1 | align2 | align4 | align8 | align16) >> kBits;
    const uint64_t low = (align2 & 1) | (align4 & 3) | (align8 & 7) | (align16 & 15);
    return ((factors >> (ordered ? kHalf : kFactors) | high | low) == 0) & (common != 0);
  }

  XLA_FFI_SDK_HOT uint64_t& Addresses(unsigned align) {
    return align == 1 ? align1 : align == 2 ? align2 : align == 4 ? align4 : align == 8 ? align8 : align16;
  }

  XLA_FFI_SDK_HOT static void Add(uint64_t& bits, uint64_t number) {
    bits |= number;
    Pin(bits);
  }

  // Counts the elements of a buffer that lies at `data`. Where no doubt is left, they can be counted, and lie at an address
  // that is aligned and not null, the latter by the order where there is one.
  XLA_FFI_SDK_HOT uint64_t Count(const int64_t* dims, int64_t rank, uint64_t data, unsigned align) {
    uint64_t count = 1;
    for (int64_t i = 0; i < rank; ++i) {
      const auto dim = static_cast<uint64_t>(dims[i]);
      if (i > 0) {
        Add(factors, count);
        Add(factors, dim);
      }
      count *= dim;
    }
    if (few) {
      // Low bits that are set become high ones, and null wraps around.
      const uint64_t turned = data / align | data * (~uint64_t{0} / align + 1);
      Add(counts, count | (turned - 1));
      return count;
    }
    Add(Addresses(align), data);
    if (!ordered) {
      // Two addresses that have no bit in common are rare, and no mistake.
      common &= data;
      Pin(common);
    }
    if (!ordered || rank < 2) Add(counts, count);
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
  Address start[size_t{kCount} + 1];
  Address end[size_t{kCount} + 1];

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

  // Whether in that order each operand ends before the next one starts. Then none overlaps another, and all have an address.
  XLA_FFI_SDK_HOT bool AreApartIn(uint64_t order) const {
    // A byte each, of which a register gives the lowest for nothing.
    uint64_t even = order & kLowHalves, odd = order >> 4 & kLowHalves;
    Address before = 1;
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
  bool overlap = false;  // or no address
  uint64_t order = 0;
  for (int place = 0; place < count; ++place) {
    const int i = at[place];
    order |= static_cast<uint64_t>(i) << 4 * place;
    overlap |= start[i] == 0;
    if (i < args) {
      overlap |= start[i] < ret;
      arg = (std::max)(arg, end[i]);
    } else {
      overlap |= start[i] < (std::max)(arg, ret);
      ret = end[i];
    }
  }
  return overlap && !xla_ffi_sdk_memory_is_good(frame, args, rets, 1) ? 0 : order;
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_REGIONS_H_
