// The cold half of a handler: metadata answers and errors that name operands and attributes. Part
// of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_REFUSAL_H_
#define XLA_FFI_SDK_CPP_REFUSAL_H_

#include "xla_ffi/cpp/decoding.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

enum class ElementKind : uint8_t { kArg, kRet, kAttr, kOther };

template <typename Tag>
inline constexpr bool is_attr_tag_v = is_tagged_v<AttrTag, Tag>;
template <typename Tag>
inline constexpr ElementKind element_kind_v =
    is_tagged_v<ArgTag, Tag> || is_tagged_v<OptionalArgTag, Tag>   ? ElementKind::kArg
    : is_tagged_v<RetTag, Tag> || is_tagged_v<OptionalRetTag, Tag> ? ElementKind::kRet
    : is_tagged_v<AttrTag, Tag>                                    ? ElementKind::kAttr
                                                                   : ElementKind::kOther;

inline std::string_view ViewOf(const XLA_FFI_ByteSpan* span) {
  return span->len != 0 ? std::string_view(span->ptr, span->len) : std::string_view();
}

// Whether a name of the host's is that name. The length is that of `name`, which the compiler often
// knows.
XLA_FFI_SDK_HOT inline bool IsNamed(const XLA_FFI_ByteSpan* span, std::string_view name) {
  return span->len == name.size() && std::memcmp(span->ptr, name.data(), name.size()) == 0;
}

// The index of an attribute of a frame, or -1.
XLA_FFI_SDK_HOT inline int64_t FindAttrIn(const XLA_FFI_Attrs* attrs, std::string_view name) {
  const int64_t size = attrs != nullptr ? attrs->size : 0;
  for (int64_t i = 0; i < size; ++i) {
    if (IsNamed(attrs->names[i], name)) return i;
  }
  return -1;
}
XLA_FFI_SDK_FN inline int64_t FindAttr(const XLA_FFI_CallFrame* frame, std::string_view name) {
  return FindAttrIn(&frame->attrs, name);
}

XLA_FFI_SDK_COLD inline void DiagnoseUnknownAttrs(const XLA_FFI_CallFrame* frame,
                                                  const BoundName* names, const bool* is_attr,
                                                  int size, DiagnosticEngine& diagnostic) {
  for (int64_t n = 0; n < frame->attrs.size; ++n) {
    const std::string_view name = ViewOf(frame->attrs.names[n]);
    bool known = false;
    for (int i = 0; i < size; ++i) known = known || (is_attr[i] && names[i].text() == name);
    if (!known) {
      DiagnosticAccess::Add(diagnostic, "attribute '" + std::string(name) +
                                            "': not one that this handler knows");
    }
  }
}

// The metadata extension of a frame, or null. r0 keeps something else in the chain's place.
XLA_FFI_SDK_COLD inline const XLA_FFI_Metadata_Extension* FindMetadata(
    const XLA_FFI_CallFrame* frame) {
  if (frame->struct_size < offsetof(XLA_FFI_CallFrame, ctx)) return nullptr;
  if (frame->api != nullptr && HostMinor(frame->api) < 1) return nullptr;
  for (const auto* link = frame->extension_start; link != nullptr; link = link->next) {
    if (NumberOf(link->type) == XLA_FFI_Extension_Metadata) {
      return reinterpret_cast<const XLA_FFI_Metadata_Extension*>(link);
    }
  }
  return nullptr;
}

// The host's version (0.1 where the host does not say who it is), raised to what the handler needs,
// and no newer than what these headers know.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* AnswerMetadata(const XLA_FFI_Api* api,
                                                      const XLA_FFI_Metadata_Extension* extension,
                                                      Revision floor, XLA_FFI_Handler_Traits traits,
                                                      std::string_view name) {
  XLA_FFI_Metadata* metadata = extension->metadata;
  if (extension->extension_base.struct_size < XLA_FFI_Metadata_Extension_STRUCT_SIZE ||
      metadata == nullptr || metadata->struct_size < XLA_FFI_Metadata_STRUCT_SIZE) {
    return NewError(api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                    std::string(name) + ": the host's metadata structure is too small");
  }
  const int host = api != nullptr ? HostMinor(api) : 1;
  const int answer = std::min(kNewestMinor, std::max({1, host, MinorOf(floor)}));
  metadata->api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
  metadata->api_version.extension_start = nullptr;
  metadata->api_version.major_version = 0;
  metadata->api_version.minor_version = answer;
  metadata->traits = traits;
  return nullptr;
}

// A frame that is too short, of another stage, or without a host. False: nothing is wrong with it.
XLA_FFI_SDK_COLD inline bool RefuseFrame(const XLA_FFI_CallFrame* frame,
                                         XLA_FFI_ExecutionStage stage, std::string_view name,
                                         XLA_FFI_Error** error) {
  std::string text(name);
  if (!text.empty()) text += ": ";
  if (frame->struct_size < XLA_FFI_CallFrame_STRUCT_SIZE) {
    text += "a call frame of " + std::to_string(frame->struct_size) + " bytes, expected at least " +
            std::to_string(XLA_FFI_CallFrame_STRUCT_SIZE);
  } else if (frame->api == nullptr) {
    return true;  // nobody to tell
  } else if (frame->stage != stage) {
    const unsigned want = NumberOf(stage), got = NumberOf(frame->stage);
    text += "registered for the " + NameOr(StageName(want), want) + " stage, called in the " +
            NameOr(StageName(got), got) + " stage";
  } else {
    return false;
  }
  *error = NewError(frame->api, XLA_FFI_Error_Code_INVALID_ARGUMENT, text);
  return true;
}

XLA_FFI_SDK_COLD inline XLA_FFI_Error* SetFuture(XLA_FFI_CallFrame* frame, XLA_FFI_Future* future) {
  if (HostRevision(frame->api) < Revision::r2) {  // those bytes are not the handler's there
    return Lacks(frame->api, "asynchronous handlers", Revision::r2);
  }
  if (future == nullptr) {
    return NewError(frame->api, XLA_FFI_Error_Code_INTERNAL,
                    "an asynchronous handler returned a null future");
  }
  frame->future = future;
  return nullptr;
}

// An error in the making: all problems of a call, one a line.
class Refusal {
 public:
  XLA_FFI_SDK_COLD Refusal(const XLA_FFI_CallFrame* frame, std::string_view name)
      : api_(frame->api), head_(name) {
    const unsigned stage = NumberOf(frame->stage);
    if (!head_.empty()) head_ += ' ';
    head_ += "[" + NameOr(StageName(stage), stage) + "]:";
  }

  XLA_FFI_SDK_COLD void Add(std::string_view problem) {
    ++count_;
    text_ += '\n';
    text_ += problem;
  }

  XLA_FFI_SDK_COLD void AddAll(const DiagnosticEngine& diagnostic) {
    if (const Problems* problems = DiagnosticAccess::All(diagnostic)) {
      for (const Problem& problem : problems->list) Add(problem.text);
    }
  }

  // Checks a count of operands.
  XLA_FFI_SDK_COLD void Count(const char* what, int64_t got, int64_t required, int64_t optional,
                              bool remaining) {
    if (got >= required && (remaining || got <= required + optional)) return;
    std::string text = std::string(what) + ": expected ";
    if (remaining) {
      text += "at least " + std::to_string(required);
    } else if (optional > 0) {
      text += std::to_string(required) + " to " + std::to_string(required + optional);
    } else {
      text += std::to_string(required);
    }
    Add(text + ", got " + std::to_string(got));
  }

  // Tells what is wrong with the elements that were not decoded.
  XLA_FFI_SDK_COLD XLA_FFI_Error* Elements(const BoundName* names, const ElementKind* kinds,
                                           const int* positions, const bool* decoded, int size,
                                           const DiagnosticEngine& diagnostic) {
    const Problems* problems = DiagnosticAccess::All(diagnostic);
    for (int i = 0; i < size; ++i) {
      if (decoded[i]) continue;
      const std::string name(names[i].text());
      const std::string place = std::to_string(positions[i]);
      std::string prefix;
      switch (kinds[i]) {
        case ElementKind::kArg:
          prefix = name.empty() ? "argument " + place : "argument '" + name + "' (" + place + ")";
          break;
        case ElementKind::kRet:
          prefix = name.empty() ? "result " + place : "result '" + name + "' (" + place + ")";
          break;
        case ElementKind::kAttr:
          prefix = "attribute '" + name + "'";
          break;
        case ElementKind::kOther:
          break;
      }
      bool told = false;
      for (size_t k = 0; problems != nullptr && k < problems->list.size(); ++k) {
        if (problems->list[k].element != i) continue;
        told = true;
        Add(prefix.empty() ? problems->list[k].text : prefix + ": " + problems->list[k].text);
      }
      if (!told) {
        Add((prefix.empty() ? "element " + std::to_string(i) + " of the binding" : prefix) +
            ": cannot be decoded");
      }
    }
    for (size_t k = 0; problems != nullptr && k < problems->list.size(); ++k) {
      if (problems->list[k].element < 0) Add(problems->list[k].text);
    }
    return Finish(problems != nullptr ? problems->code : XLA_FFI_Error_Code_INVALID_ARGUMENT);
  }

  XLA_FFI_SDK_COLD XLA_FFI_Error* Finish(XLA_FFI_Error_Code code) {
    if (count_ == 1) text_[0] = ' ';
    return NewError(api_, code, head_ + text_);
  }

 private:
  const XLA_FFI_Api* api_;
  std::string head_, text_;
  int count_ = 0;
};

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_REFUSAL_H_
