// What C++ has besides. Compiled by make.sh.
# 1 "xla_ffi_abi_subject.h"
namespace xla { namespace ffi {
enum class XLA_FFI_Scoped : unsigned char { one = 1, many = 255 };
struct XLA_FFI_Same { int x; };
template <class T> struct Box { T value; };
class XLA_FFI_Class {
 public:
  static int counted;
  static const int fixed = 3;
  int &reference;
  int &&moved;
  int XLA_FFI_Class::*member;
  XLA_FFI_Scoped scoped;
  Box<XLA_FFI_Same> box;
  decltype(nullptr) null;
  virtual void act();
  struct Nested { bool flag; } nested;
  XLA_FFI_Class(int &&x) : reference(x), moved(static_cast<int &&>(x)) {}
};
} }
struct XLA_FFI_Same { long x; long y; };
namespace other { struct XLA_FFI_Same { char x; }; enum XLA_FFI_Kind { a }; }
namespace { enum XLA_FFI_Kind { b = 1, c = 2 }; }
XLA_FFI_Same same;
other::XLA_FFI_Same also;
other::XLA_FFI_Kind kind;
XLA_FFI_Kind hidden;
xla::ffi::XLA_FFI_Class *object;
xla::ffi::XLA_FFI_Same third;
