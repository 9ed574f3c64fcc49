// What types.cc leaves out: classes that inherit, types that lie in others, constants of classes. Compiled by make.sh.
# 1 "xla_ffi_abi_subject.h"
struct Base { int a; virtual ~Base(); };
struct Empty {};
struct Other { char b; };
template <class T, int N> struct Many { T values[N]; enum { count = N }; };
struct XLA_FFI_Derived : Base, private Other, virtual Empty { double c; };
struct XLA_FFI_Thin : Empty { int x; };
struct XLA_FFI_Outer {
  struct XLA_FFI_Inner { long y; } inner;
  enum XLA_FFI_Choice : long long { XLA_FFI_Choice_A = -5, XLA_FFI_Choice_B = 1 } choice;
  union XLA_FFI_Either { int i; Other o; } either;
  static constexpr int XLA_FFI_NUMBER = 12;
  Many<XLA_FFI_Thin, 3> many;
  int (XLA_FFI_Outer::*method)(Other) const;
  Other (&function)(const Other &, Other &&);
  decltype([] { return 1; }) *lambda;
  bool flag : 1;
  mutable int changed;
  alignas(32) char aligned;
  char16_t c16;
  char32_t c32;
  XLA_FFI_Outer(Other (&f)(const Other &, Other &&)) : function(f) {}
};
using XLA_FFI_Using = Many<unsigned char, 2>;
typedef XLA_FFI_Outer::XLA_FFI_Inner XLA_FFI_Moved;
enum class XLA_FFI_Big : unsigned long long { most = 0xffffffffffffffff };
constexpr unsigned long long XLA_FFI_CONSTANT = 0x8000000000000000;
constexpr char XLA_FFI_LETTER = 'x';
inline namespace v1 { struct XLA_FFI_In_Namespace { XLA_FFI_Big big; }; }
extern "C" XLA_FFI_Using XLA_FFI_make(XLA_FFI_Thin, XLA_FFI_Derived *);
Other take(const Other &other, Other &&) { return other; }
XLA_FFI_Outer XLA_FFI_outer(take);
XLA_FFI_Derived *derived;
XLA_FFI_Moved moved;
XLA_FFI_In_Namespace in_namespace;
unsigned long long constants = XLA_FFI_CONSTANT + XLA_FFI_LETTER + XLA_FFI_Outer::XLA_FFI_NUMBER;
XLA_FFI_Using XLA_FFI_make(XLA_FFI_Thin, XLA_FFI_Derived *) { return {}; }
