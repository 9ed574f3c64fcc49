// Types of every kind that the reader of debug information tells apart, under names that it looks for. Compiled by
// make.sh, in several formats and versions of DWARF.
# 1 "xla_ffi_abi_subject.h"
enum XLA_FFI_Kind { XLA_FFI_Kind_A, XLA_FFI_Kind_B = -7 };
enum XLA_FFI_Small { XLA_FFI_Small_A = 200 } __attribute__((packed));
enum { XLA_FFI_LOOSE = 9, XLA_FFI_ABI_PROBE_XLA_FFI_MAJOR = 3 };
enum Inner { inner_a, inner_b = 4000000000u };
struct XLA_FFI_Opaque;
typedef struct XLA_FFI_Opaque XLA_FFI_Opaque;
typedef unsigned long XLA_FFI_Number;
typedef struct { int x; } XLA_FFI_Unnamed;
typedef void XLA_FFI_Call(const XLA_FFI_Number *, ...);
typedef XLA_FFI_Unnamed *XLA_FFI_ABI_PROTOTYPE_make(struct XLA_FFI_Opaque *, int (*)(void));
typedef float XLA_FFI_Vector __attribute__((vector_size(16)));
union Either { char c; double d; };
struct Inside { enum Inner which; union Either either; int grid[2][3]; const volatile short *const p; };
struct XLA_FFI_All {
  struct XLA_FFI_Opaque *opaque;
  union { int i; float f; };
  struct { unsigned a : 3; int b : 7; unsigned long long c : 30; };
  struct Inside inside[2];
  const struct Inside kept;
  enum XLA_FFI_Kind kind;
  enum XLA_FFI_Small small;
  XLA_FFI_Call *call;
  _Complex float complex;
  long double wide;
  _Bool flag;
  char letter;
  __WCHAR_TYPE__ wide_letter;
  XLA_FFI_Vector vector;
  int *restrict alone;
  _Atomic(int) shared;
  struct XLA_FFI_All *next;
  int aligned __attribute__((aligned(64)));
  void (*nothing)(void);
  unsigned char rest[];
};
#if defined(__x86_64__)
typedef void __attribute__((ms_abi)) XLA_FFI_Elsewhere(int);
XLA_FFI_Elsewhere *elsewhere;
#endif
struct XLA_FFI_All *all;
XLA_FFI_Opaque *opaque;
XLA_FFI_Call *call;
XLA_FFI_Unnamed unnamed;
XLA_FFI_ABI_PROTOTYPE_make *make;
enum XLA_FFI_Kind kind;
int loose = XLA_FFI_LOOSE + XLA_FFI_ABI_PROBE_XLA_FFI_MAJOR;
