// The host behind a call: its revision, what its table has, errors for it. Part of
// <xla/ffi/api/api.h>.
//
// A table's true length is not told by its version: 0.1 names six layouts. `struct_size` is true
// from revision r5 (jaxlib 0.6.0); before, it says 88 everywhere and the distance from the table to
// the object behind `internal_api` is the table's size. No function is called to find out what it is.
#ifndef XLA_FFI_SDK_CPP_HOST_H_
#define XLA_FFI_SDK_CPP_HOST_H_

#include "xla_ffi/cpp/text.h"
#include "xla_ffi/facts.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// The layouts of the ABI, oldest first. A handler's floor is the oldest on which it can work.
enum class Revision : int {
#define XLA_FFI_SDK_REVISION(number, minor, first, releases) r##number = number,
  XLA_FFI_SDK_REVISIONS(XLA_FFI_SDK_REVISION)
#undef XLA_FFI_SDK_REVISION
};

// A feature of <xla_ffi/facts.h>: the oldest revision that has it, and its name with that.
#define XLA_FFI_SDK_SINCE(feature) \
  (static_cast<::xla::ffi::internal::Revision>(XLA_FFI_SDK_SINCE_##feature))
#define XLA_FFI_SDK_FEATURE(feature) XLA_FFI_SDK_NAME_##feature, XLA_FFI_SDK_SINCE(feature)

constexpr Revision Later(Revision a, Revision b) { return a < b ? b : a; }

constexpr int MinorOf(Revision revision) {
  constexpr int kMinors[] = {
#define XLA_FFI_SDK_REVISION(number, minor, first, releases) minor,
      XLA_FFI_SDK_REVISIONS(XLA_FFI_SDK_REVISION)
#undef XLA_FFI_SDK_REVISION
  };
  return kMinors[static_cast<int>(revision)];
}

XLA_FFI_SDK_COLD inline const char* FirstJaxlib(Revision revision) {
  static constexpr char kNames[][8] = {
#define XLA_FFI_SDK_REVISION(number, minor, first, releases) first,
      XLA_FFI_SDK_REVISIONS(XLA_FFI_SDK_REVISION)
#undef XLA_FFI_SDK_REVISION
  };
  return kNames[static_cast<int>(revision)];
}

// A revision's name and the releases that speak it.
XLA_FFI_SDK_COLD inline const char* Releases(Revision revision) {
  static constexpr char kNames[][40] = {
#define XLA_FFI_SDK_REVISION(number, minor, first, releases) releases,
      XLA_FFI_SDK_REVISIONS(XLA_FFI_SDK_REVISION)
#undef XLA_FFI_SDK_REVISION
  };
  return kNames[static_cast<int>(revision)];
}

// The newest minor version that these headers know.
inline constexpr int kNewestMinor = XLA_FFI_API_MINOR;

inline int HostMinor(const XLA_FFI_Api* api) {
  return api->api_version.major_version > 0 ? 1000 : api->api_version.minor_version;
}

// The true size of the host's table in bytes.
inline size_t HostSize(const XLA_FFI_Api* api) {
  if (XLA_FFI_PREDICT_TRUE(api->struct_size >= XLA_FFI_SDK_TABLE_R5)) return api->struct_size;
  if (HostMinor(api) < XLA_FFI_SDK_MINOR_R1) return XLA_FFI_SDK_TABLE_R0;
  const uintptr_t gap =
      reinterpret_cast<uintptr_t>(api->internal_api) - reinterpret_cast<uintptr_t>(api);
  return gap == XLA_FFI_SDK_TABLE_R2 || gap == XLA_FFI_SDK_TABLE_R3 || gap == XLA_FFI_SDK_TABLE_R4
             ? static_cast<size_t>(gap)
             : XLA_FFI_SDK_TABLE_R1;
}

inline Revision HostRevision(const XLA_FFI_Api* api) {
  const int minor = HostMinor(api);
  if (minor >= XLA_FFI_SDK_MINOR_R7) {
    // Each revision since states a version of its own.
    Revision newest = Revision::r7;
#define XLA_FFI_SDK_REVISION(number, stated, first, releases) \
  if (number > 7 && minor >= stated) newest = Revision::r##number;
    XLA_FFI_SDK_REVISIONS(XLA_FFI_SDK_REVISION)
#undef XLA_FFI_SDK_REVISION
    return newest;
  }
  if (minor < XLA_FFI_SDK_MINOR_R1) return Revision::r0;
  switch (HostSize(api)) {
    case XLA_FFI_SDK_TABLE_R1:
      return Revision::r1;
    case XLA_FFI_SDK_TABLE_R2:
      return Revision::r2;
    case XLA_FFI_SDK_TABLE_R3:
      return Revision::r3;
    case XLA_FFI_SDK_TABLE_R4:
      return Revision::r4;
    default:
      return Revision::r5;  // r6 has the same table
  }
}

// The function at byte `offset` of the host's table, or null where the table ends before it.
template <typename Function>
inline Function* HostFunction(const XLA_FFI_Api* api, size_t offset) {
  if (XLA_FFI_PREDICT_FALSE(offset + sizeof(Function*) > HostSize(api))) return nullptr;
  Function* function;
  std::memcpy(&function, reinterpret_cast<const char*>(api) + offset, sizeof(function));
  return function;
}

#define XLA_FFI_SDK_HOST_FUNCTION(api, name)                \
  (::xla::ffi::internal::HostFunction<::name>((api), offsetof(XLA_FFI_Api, name)))

// The three future functions moved by one slot between r2 and r3, which both say 0.1.
struct FutureFunctions {
  XLA_FFI_Future_Create* create = nullptr;
  XLA_FFI_Future_SetAvailable* set_available = nullptr;
  XLA_FFI_Future_SetError* set_error = nullptr;

  explicit FutureFunctions(const XLA_FFI_Api* api) {
    const Revision host = HostRevision(api);
    if (XLA_FFI_PREDICT_FALSE(host < Revision::r2)) return;
    const size_t at = offsetof(XLA_FFI_Api, XLA_FFI_Future_Create) -
                      (host == Revision::r2 ? sizeof(void*) : 0);
    create = HostFunction<XLA_FFI_Future_Create>(api, at);
    set_available = HostFunction<XLA_FFI_Future_SetAvailable>(api, at + sizeof(void*));
    set_error = HostFunction<XLA_FFI_Future_SetError>(api, at + 2 * sizeof(void*));
  }
  explicit operator bool() const {
    return create != nullptr && set_available != nullptr && set_error != nullptr;
  }
};

// A function for errors, at `offset` of the table from r0 on: elsewhere before r0, and null where the table is of
// no known layout. Before r0 no version stands in it, which begins with its size.
template <typename Function>
inline Function* ErrorFunction(const XLA_FFI_Api* api, size_t offset) {
  if (api->struct_size < XLA_FFI_SDK_SIZE_R0) {
    if (api->struct_size != XLA_FFI_SDK_SIZE_BEFORE_R0 ||
        api->api_version.struct_size == XLA_FFI_Api_Version_STRUCT_SIZE) {
      return nullptr;
    }
    offset -= offsetof(XLA_FFI_Api, XLA_FFI_Error_Create) - XLA_FFI_SDK_HEAD_BEFORE_R0;
  }
  Function* function;
  std::memcpy(&function, reinterpret_cast<const char*>(api) + offset, sizeof(function));
  return function;
}
#define XLA_FFI_SDK_ERROR_FUNCTION(api, name) \
  (::xla::ffi::internal::ErrorFunction<::name>((api), offsetof(XLA_FFI_Api, name)))

XLA_FFI_SDK_COLD inline XLA_FFI_Error* NewEscaped(XLA_FFI_Error_Create* create,
                                                  XLA_FFI_Error_Create_Args* args, size_t size) {
  Text escaped;
  PutEscaped(escaped, std::string_view(args->message, size));
  args->message = escaped.c_str();
  return create(args);
}

// Makes an error of the host from a text with a NUL behind it; null where there is no host to make
// it. What the host cannot show is escaped. OK is no error code and becomes INTERNAL, a code that
// absl does not know UNKNOWN.
XLA_FFI_SDK_SLOW inline XLA_FFI_Error* NewError(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                                const char* message, size_t size) {
  if (api == nullptr) return nullptr;
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  const auto number = static_cast<unsigned>(code);
  args.errc = number == 0                            ? XLA_FFI_Error_Code_INTERNAL
              : number > XLA_FFI_SDK_LAST_ERROR_CODE ? XLA_FFI_Error_Code_UNKNOWN
                                                     : code;
  args.message = message;
  XLA_FFI_Error_Create* const create = XLA_FFI_SDK_ERROR_FUNCTION(api, XLA_FFI_Error_Create);
  if (XLA_FFI_PREDICT_FALSE(create == nullptr)) {  // the last way to be heard
    std::fprintf(stderr, "xla-ffi: the host gave no means to report an error: %s\n", message);
    return nullptr;
  }
  return XLA_FFI_PREDICT_TRUE(IsPlain(message, size)) ? create(&args)
                                                      : NewEscaped(create, &args, size);
}

XLA_FFI_SDK_COLD inline XLA_FFI_Error* NewError(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                                Text& text) {
  return NewError(api, code, text.c_str(), text.size());
}
XLA_FFI_SDK_COLD inline XLA_FFI_Error* NewError(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                                const char* message) {
  return NewError(api, code, message, std::strlen(message));
}

// Why a feature is not available: what, the first that has it, and which host this is.
XLA_FFI_SDK_COLD inline Text& PutLack(Text& text, const XLA_FFI_Api* api, std::string_view feature,
                                      Revision since) noexcept {
  return text << feature << XLA_FFI_SDK_TEXT_FIRST_JAXLIB << FirstJaxlib(since)
              << XLA_FFI_SDK_TEXT_THIS_HOST XLA_FFI_SDK_TEXT_VERSION << api->api_version.major_version << "."
              << api->api_version.minor_version << " (" << Releases(HostRevision(api)) << ")";
}

// The error for a feature that the host lacks.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* Lacks(const XLA_FFI_Api* api, std::string_view feature,
                                             Revision since) {
  Text text;
  return NewError(api, XLA_FFI_Error_Code_UNIMPLEMENTED, PutLack(text, api, feature, since));
}

// The error for a function that every host of this revision has, and this one's table does not.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* NoFunction(const XLA_FFI_Api* api, const char* function) {
  Text text;
  text << "the host's function table has no " << function;
  return NewError(api, XLA_FFI_Error_Code_UNIMPLEMENTED, text);
}

// Calls a function of the host that returns an error.
#define XLA_FFI_SDK_ASK(api, name, args)                                  \
  (XLA_FFI_PREDICT_TRUE((api)->name != nullptr) ? (api)->name(args)       \
                                                : ::xla::ffi::internal::NoFunction((api), #name))

// The error for a host from before r0, of whose table nothing but its size and the functions for errors is read;
// null, told on stderr, where that is of no known layout.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* RefuseBeforeR0(const XLA_FFI_Api* api, std::string_view what) {
  Text text;
  text << what << XLA_FFI_SDK_TEXT_BEFORE_R0;
  return NewError(api, XLA_FFI_Error_Code_UNIMPLEMENTED, text);
}

XLA_FFI_SDK_COLD inline void DestroyError(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  XLA_FFI_Error_Destroy_Args args{};
  args.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  args.error = error;
  const auto destroy = XLA_FFI_SDK_ERROR_FUNCTION(api, XLA_FFI_Error_Destroy);
  if (destroy != nullptr) destroy(&args);
}

// Code and message of an error; the message lives as long as the error.
struct ErrorDetails {
  XLA_FFI_Error_Code errc;
  const char* message;
};

// Hosts before r9 do not tell the code: INTERNAL then, as upstream presets it.
XLA_FFI_SDK_COLD inline ErrorDetails GetErrorDetails(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  XLA_FFI_Error_GetDetails_Args args{};
  args.struct_size = XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE;
  args.error = error;
  args.errc = XLA_FFI_Error_Code_INTERNAL;
  const auto get = XLA_FFI_SDK_ERROR_FUNCTION(api, XLA_FFI_Error_GetDetails);
  if (get != nullptr) get(&args);
  return {args.errc, args.message != nullptr ? args.message : ""};
}

inline const char* GetErrorMessage(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  return GetErrorDetails(api, error).message;
}

// Adds the message of an error, which is destroyed.
XLA_FFI_SDK_COLD inline Text& PutError(Text& text, const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  text << GetErrorMessage(api, error);
  DestroyError(api, error);
  return text;
}

// Joins printable values.
template <typename... Args>
XLA_FFI_SDK_COLD std::string StrCat(Args&&... args) {
  std::ostringstream out;
  (out << ... << std::forward<Args>(args));
  return out.str();
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_HOST_H_
