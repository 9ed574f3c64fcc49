// Layouts that jaxlib has, and one that no revision has. Compiled by make.sh.
typedef enum { XLA_FFI_Extension_Metadata = 1 } XLA_FFI_Extension_Type;
typedef struct XLA_FFI_Extension_Base {
  unsigned long long struct_size;
  XLA_FFI_Extension_Type type;
  struct XLA_FFI_Extension_Base *next;
} XLA_FFI_Extension_Base;
typedef struct XLA_FFI_Api_Version {
  unsigned long long struct_size;
  XLA_FFI_Extension_Base *extension_start;
  int major_version;
  int minor_version;
} XLA_FFI_Api_Version;
#ifdef STRANGE
typedef struct { char size; } XLA_FFI_Error_Create_Args;
XLA_FFI_Error_Create_Args strange;
#endif
XLA_FFI_Extension_Base base;
XLA_FFI_Api_Version version;
