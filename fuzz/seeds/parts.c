// What types.c leaves out: numbers of every part, and what is told with what is in it because a value of it is held or
// handed over. Compiled by make.sh.
# 1 "xla_ffi_abi_subject.h"
enum Wide { wide_a = 0x100000000, wide_b = 1 };
enum Below { below_a = -1 };
enum Bits { bits_a = 0x8000000000000000u };
struct Empty {};
struct One { struct One *next; const char *name; };
union Single { float f; };
struct Deep { struct { struct { struct One one; union Single single; } in; } in; enum Wide wide; enum Below below; enum Bits bits; };
typedef struct tag_of_another { int a; struct One one; } XLA_FFI_Aliased;
typedef enum tag_of_enum { tag_a = 3 } XLA_FFI_Aliased_Enum;
typedef union { int i; } XLA_FFI_Union;
typedef struct One XLA_FFI_Held;
typedef struct One *XLA_FFI_Pointed;
typedef int XLA_FFI_Row[4];
typedef const volatile int XLA_FFI_Fixed;
typedef struct One (*XLA_FFI_By_Value)(struct Deep, enum Wide, union Single, XLA_FFI_Aliased, _Complex double);
struct XLA_FFI_Parts {
  _Complex char c;
  _Complex short s;
  _Complex int i;
  _Complex long long l;
  _Complex unsigned char uc;
  _Complex unsigned u;
  _Complex double d;
  _Complex long double ld;
#if defined(__x86_64__)
  __int128 wide;
  unsigned __int128 uwide;
#endif
#if !defined(__clang__)
  _Complex _Float16 half;
#endif
  struct Deep deep;
  XLA_FFI_Aliased aliased;
  XLA_FFI_Aliased_Enum aliased_enum;
  XLA_FFI_Union only;
  XLA_FFI_Row row;
  XLA_FFI_Fixed fixed;
  XLA_FFI_By_Value by_value;
  void (*many)(int, const char *, void (*)(void *), int (*)[3], ...);
  int (**table)(void);
  const int *const *deep_const;
  volatile char *volatile *deep_volatile;
  signed char letter;
  unsigned one_bit : 1, : 5, other : 26, all : 32;
  signed long long far : 33;
  _Bool yes : 1;
  enum Below below : 2;
  struct { int unnamed; } named;
  struct Empty empty;
  int none[0];
  int cube[2][3][4];
  struct One rest[];
};
static const int XLA_FFI_STATIC = 5;
extern const int XLA_FFI_VARIABLE;
const int XLA_FFI_VARIABLE = 7;
struct XLA_FFI_Parts *XLA_FFI_object;
int XLA_FFI_ABI_PROBE_XLA_FFI_NUMBER[3];
struct One XLA_FFI_function(struct Deep deep, enum Bits bits) { return deep.in.in.one.next[bits + XLA_FFI_STATIC]; }
