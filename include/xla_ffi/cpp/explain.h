// The rarely used functions of a handler: answers to metadata queries, and errors that name operands and attributes.
// Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_EXPLAIN_H_
#define XLA_FFI_SDK_CPP_EXPLAIN_H_

#include "xla_ffi/cpp/decoding.h"
#include "xla_ffi/frame.h"
#include "xla_ffi/shape.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// The element type and rank that the decoder of an operand type checks.
inline constexpr unsigned kAnyElement = ~0u;
inline constexpr int64_t kAnyRank = -1;
template <typename T>
struct OperandType {
  static constexpr unsigned kElement = kAnyElement;
  static constexpr int64_t kRank = kAnyRank;
};

// Returns true if a buffer struct has at least the struct_size of all revisions.
XLA_FFI_SDK_HOT inline bool IsThere(const void* buf) {
  return static_cast<const XLA_FFI_Buffer*>(buf)->struct_size >= XLA_FFI_Buffer_STRUCT_SIZE;
}

// Checks the memory of an operand of any type. Null, for an operand that is not a buffer, is accepted.
XLA_FFI_SDK_HOT inline xla_ffi_sdk_fault FindFault(const XLA_FFI_Buffer* buf) {
  int64_t count;
  if (buf == nullptr) return xla_ffi_sdk_fault_none;
  return xla_ffi_sdk_find_fault(buf, static_cast<unsigned>(buf->dtype), buf->rank, &count);
}

// Returns true if operands have memory in a stage: execute or record. In other stages, the host may pass null pointers.
constexpr bool HasMemory(XLA_FFI_ExecutionStage stage) {
  return stage == XLA_FFI_ExecutionStage_EXECUTE || stage == XLA_FFI_ExecutionStage_RECORD;
}

// Returns true if an operand with this fault can be used. The size matters in every stage, the address only in stages
// with memory.
XLA_FFI_SDK_HOT inline bool IsUsable(xla_ffi_sdk_fault fault, bool has_memory) {
  return fault == xla_ffi_sdk_fault_none ||
         (!has_memory && fault != xla_ffi_sdk_fault_count && fault != xla_ffi_sdk_fault_bytes);
}

// Returns true if the argument and the result of an in-out operand are one array. Compares the addresses only in stages
// with memory.
XLA_FFI_SDK_HOT inline bool IsOneArray(const XLA_FFI_CallFrame* frame, const XLA_FFI_Buffer* arg,
                                       const XLA_FFI_Buffer* ret) {
  bool same = arg->rank == ret->rank && arg->dtype == ret->dtype, empty = false;
  if (XLA_FFI_PREDICT_FALSE(ret->rank > 0 && (arg->dims == nullptr || ret->dims == nullptr))) return false;
  for (int64_t i = 0; same && i < ret->rank; ++i) {
    same = arg->dims[i] == ret->dims[i];
    empty |= ret->dims[i] == 0;
  }
  return same && (arg->data == ret->data || empty || !HasMemory(frame->stage));
}

template <typename Tag>
inline constexpr bool is_attr_tag_v = is_tagged_v<AttrTag, Tag>;
template <typename Tag>
inline constexpr ElementKind element_kind_v =
    is_tagged_v<ArgTag, Tag> || is_tagged_v<OptionalArgTag, Tag>   ? ElementKind::kArg
    : is_tagged_v<RetTag, Tag> || is_tagged_v<OptionalRetTag, Tag> ? ElementKind::kRet
    : is_tagged_v<InOutTag, Tag>                                   ? ElementKind::kInOut
    : is_tagged_v<AttrTag, Tag>                                    ? ElementKind::kAttr
    : std::is_same_v<Tag, RemainingArgsTag>                        ? ElementKind::kRemainingArgs
    : std::is_same_v<Tag, RemainingRetsTag>                        ? ElementKind::kRemainingRets
                                                                   : ElementKind::kOther;

inline std::string_view ViewOf(const XLA_FFI_ByteSpan* span) {
  return span->len != 0 ? std::string_view(span->ptr, span->len) : std::string_view();
}

// Returns true if a name in the call frame equals `name`. The compiler often knows the length of `name`.
XLA_FFI_SDK_HOT inline bool IsNamed(const XLA_FFI_ByteSpan* span, std::string_view name) {
  return XLA_FFI_PREDICT_TRUE(span->len == name.size() &&
                              (name.empty() || std::memcmp(span->ptr, name.data(), name.size()) == 0));
}

// Returns the index of an attribute in a list of attributes, or -1.
XLA_FFI_SDK_HOT inline int64_t FindAttrIn(const XLA_FFI_Attrs* attrs, std::string_view name) {
  const int64_t size = attrs != nullptr ? attrs->size : 0;
  if (XLA_FFI_PREDICT_FALSE(size > XLA_FFI_SDK_FEW_NAMES)) {
    const int64_t found = xla_ffi_sdk_search(attrs, name.data(), name.size());
    if (found >= 0) return found;
  }
  for (int64_t i = 0; i < size; ++i) {
    if (IsNamed(attrs->names[i], name)) return i;
  }
  return -1;
}
XLA_FFI_SDK_FN inline int64_t FindAttr(const XLA_FFI_CallFrame* frame, std::string_view name) {
  return FindAttrIn(&frame->attrs, name);
}

XLA_FFI_SDK_COLD inline void DiagnoseUnknownAttrs(const XLA_FFI_CallFrame* frame,
                                                  const Elements& elements, DiagnosticEngine& diagnostic) {
  for (int64_t n = 0; n < frame->attrs.size; ++n) {
    const std::string_view name = ViewOf(frame->attrs.names[n]);
    bool known = false;
    for (int i = 0; i < elements.size; ++i) {
      known = known || (elements.kinds[i] == ElementKind::kAttr && elements.names[i].text() == name);
    }
    if (!known) {
      DiagnosticAccess::Add(diagnostic)
          << "unknown attribute `" << name << "`; remove it";
    }
  }
}

// Returns the metadata extension of a call frame, or null.
XLA_FFI_SDK_COLD inline const XLA_FFI_Metadata_Extension* FindMetadata(
    const XLA_FFI_CallFrame* frame) {
  return frame->struct_size < offsetof(XLA_FFI_CallFrame, ctx) ? nullptr : xffi_find_metadata_(frame);
}

XLA_FFI_SDK_COLD inline XLA_FFI_Error* AnswerMetadata(const XLA_FFI_Api* api,
                                                      const XLA_FFI_Metadata_Extension* extension,
                                                      Revision floor, XLA_FFI_Handler_Traits traits,
                                                      std::string_view name) {
  Text text;
  return xffi_answer_metadata_(api, extension, (text << name).c_str(), static_cast<xffi_revision>(floor), traits);
}

// Refuses a call frame that is too short, for a different stage, or without a host. Returns false if the frame is
// valid.
XLA_FFI_SDK_COLD inline bool RefuseFrame(const XLA_FFI_CallFrame* frame,
                                         XLA_FFI_ExecutionStage stage, std::string_view name,
                                         XLA_FFI_Error** error) {
  Text text;
  if (frame->struct_size < offsetof(XLA_FFI_CallFrame, ctx) || frame->api == nullptr) {
    return true;  // there is no host that could report an error
  }
  XLA_FFI_Error_Code code = XLA_FFI_Error_Code_INVALID_ARGUMENT;
  // Before r0, the stages had different numbers, so every call from such a host is handled here.
  if (frame->api->struct_size < XLA_FFI_SDK_SIZE_R0) {
    text << name << XLA_FFI_SDK_TEXT_BEFORE_R0;
    code = XLA_FFI_Error_Code_UNIMPLEMENTED;
  } else if (frame->struct_size < XLA_FFI_CallFrame_STRUCT_SIZE || !xla_ffi_sdk_has_lists(frame)) {
    PutHandler(text, name, NumberOf(stage)) << XLA_FFI_SDK_TEXT_SHORT_FRAME " (" << frame->struct_size << " bytes, expected "
         << size_t{XLA_FFI_CallFrame_STRUCT_SIZE} << ")";
  } else if (frame->stage != stage) {
    const unsigned got = NumberOf(frame->stage);
    PutName(PutHandler(text, name, NumberOf(stage)) << XLA_FFI_SDK_TEXT_CALLED_AT, StageName(got), got)
        << XLA_FFI_SDK_TEXT_OWN_STAGE;
  } else {
    return false;
  }
  *error = NewError(frame->api, code, text);
  return true;
}

// Returns the error for a call on a device of a handler that requires host memory.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* RefuseDevice(const XLA_FFI_CallFrame* frame, std::string_view name) {
  Text text;
  return NewError(frame->api, XLA_FFI_Error_Code_FAILED_PRECONDITION,
                  PutHandler(text, name, NumberOf(frame->stage)) << XLA_FFI_SDK_TEXT_DEVICE);
}

// Returns true if the operands match a shape contract.
XLA_FFI_SDK_SLOW inline bool HasValidShapes(const XLA_FFI_CallFrame* frame, const char* contract) {
  xla_ffi_sdk_shapes shapes;
  xla_ffi_sdk_shapes_begin(&shapes, contract, frame);
  return !xla_ffi_sdk_next_misfit(&shapes);
}

XLA_FFI_SDK_COLD inline XLA_FFI_Error* SetFuture(XLA_FFI_CallFrame* frame, XLA_FFI_Future* future) {
  if (HostRevision(frame->api) < XLA_FFI_SDK_SINCE(FUTURES)) {  // before r2, the call frame has no field for a future
    return MissingFeature(frame->api, XLA_FFI_SDK_FEATURE(FUTURES));
  }
  if (future == nullptr) {
    return NewError(frame->api, XLA_FFI_Error_Code_INTERNAL,
                    "an asynchronous handler returned a null future");
  }
  frame->future = future;
  return nullptr;
}

// Adds the reason why a buffer cannot be the operand with this name, element type and rank. Returns the code of the
// error.
XLA_FFI_SDK_COLD inline XLA_FFI_Error_Code PutBufferProblem(Text& text, unsigned kind, const XLA_FFI_Buffer* buf, bool is_arg,
                                                            std::string_view name, unsigned dtype, int64_t rank) {
  if (kind != 1 || !IsThere(buf)) {
    text << XLA_FFI_SDK_TEXT_NOT_A_BUFFER;
  } else if (buf->dtype == XLA_FFI_DataType_INVALID && (dtype == kAnyElement || xla_ffi_sdk_bits_of(dtype) % 8 != 0)) {
    // Hosts before r5 pass sub-byte elements without an element type, and pack the first into the high bits.
    (dtype == kAnyElement ? text << XLA_FFI_SDK_TEXT_PACKED : PutDType(text, dtype))
        << XLA_FFI_SDK_TEXT_WITHOUT_NUMBER << FirstJaxlib(XLA_FFI_SDK_SINCE(PACKED_ELEMENT_TYPES));
    return XLA_FFI_Error_Code_UNIMPLEMENTED;
  } else {
    xla_ffi_sdk_line line;
    line.size = 0;
    xla_ffi_sdk_put_mismatch(&line, buf, is_arg, name.data(), name.size(),
                             dtype == kAnyElement ? unsigned{XLA_FFI_DataType_INVALID} : dtype, rank);
    text << line;
  }
  return XLA_FFI_Error_Code_INVALID_ARGUMENT;
}

// Reports why an operand is not a buffer, or not a buffer of this element type and rank.
XLA_FFI_SDK_COLD inline void DiagnoseBuffer(unsigned kind, const XLA_FFI_Buffer* buf, bool is_arg, unsigned dtype,
                                            int64_t rank, DiagnosticEngine& diagnostic) {
  const std::string_view name = DiagnosticAccess::Name(diagnostic);
  Text& text = DiagnosticAccess::Add(diagnostic);
  DiagnosticAccess::SetCode(diagnostic, PutBufferProblem(text, kind, buf, is_arg, name, dtype, rank));
}

template <typename T>
XLA_FFI_SDK_COLD inline Text& PutLimited(Text& text, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    char digits[40];
    std::snprintf(digits, sizeof(digits), "%.9g", static_cast<double>(value));
    return text << std::string_view(digits);
  } else {
    return text << +value;
  }
}

// Returns true if an attribute is within its bounds. Otherwise, reports the exceeded bound.
template <typename T>
XLA_FFI_SDK_HOT inline bool IsWithin(const Limits& limits, const std::optional<T>& value, DiagnosticEngine& diagnostic) {
  if (XLA_FFI_PREDICT_TRUE(limits.Allow(value))) return true;
  const bool is_low = !Limits{limits.min, {}}.Allow(value);
  Text& text = DiagnosticAccess::Add(diagnostic) << (is_low ? "expected at least " : "expected at most ");
  PutLimited(PutLimited(text, (is_low ? limits.min : limits.max).As<T>()) << ", got ", *value);
  return false;
}

// Collects all problems of a call, and creates an error with one problem per line.
class Refusal {
 public:
  XLA_FFI_SDK_COLD Refusal(const XLA_FFI_CallFrame* frame, std::string_view name,
                           const Elements& elements)
      : api_(frame->api), frame_(frame), elements_(elements), diagnostic_(DiagnosticAccess::Into(&report_)) {
    PutHandler(report_.text, name, NumberOf(frame->stage));
    report_.elements = &elements_;
  }

  DiagnosticEngine& diagnostic() { return diagnostic_; }

  // Sets the element to which later problems refer; -1 for none.
  void Enter(int element) {
    report_.element = element;
    count_ = report_.count;
    size_ = report_.text.size();
  }
  // Returns true if the call lacks an operand, after reporting the missing operand.
  XLA_FFI_SDK_COLD bool IsMissing(bool is_arg, int64_t index) {
    if (index < (is_arg ? frame_->args.size : frame_->rets.size)) return false;
    BeginAbout(is_arg, index, "missing ");
    return true;
  }
  // Checks an operand of the call frame: its element type, rank and memory.
  XLA_FFI_SDK_COLD void Operand(bool is_arg, int64_t index, unsigned dtype, int64_t rank, bool has_memory) {
    if (IsMissing(is_arg, index)) return;
    const unsigned kind = is_arg ? NumberOf(frame_->args.types[index]) : NumberOf(frame_->rets.types[index]);
    const auto* buf =
        static_cast<const XLA_FFI_Buffer*>(is_arg ? frame_->args.args[index] : frame_->rets.rets[index]);
    if (kind == 1 && IsThere(buf) && (dtype == kAnyElement ? buf->dtype != 0 : NumberOf(buf->dtype) == dtype) &&
        (rank == kAnyRank || buf->rank == rank) && IsUsable(FindFault(buf), has_memory)) {
      return;
    }
    bool is_rest = false;
    const std::string_view name = elements_.NameAt(is_arg, index, &is_rest);
    const XLA_FFI_Error_Code code =
        PutBufferProblem(BeginAbout(is_arg, index) << ": ", kind, buf, is_arg, name, dtype, rank);
    if (code != XLA_FFI_Error_Code_INVALID_ARGUMENT) report_.code = code;
  }
  // Checks the argument and the result of an in-out operand, which must also be one array.
  XLA_FFI_SDK_COLD void InOut(int64_t arg, int64_t ret, unsigned dtype, int64_t rank, bool has_memory) {
    Operand(true, arg, dtype, rank, has_memory);
    Operand(false, ret, dtype, rank, has_memory);
    if (report_.count != count_ ||
        IsOneArray(frame_, xla_ffi_sdk_operand(frame_, 1, arg), xla_ffi_sdk_operand(frame_, 0, ret))) {
      return;
    }
    xla_ffi_sdk_line line;
    line.size = 0;
    xla_ffi_sdk_put_apart(&line, frame_, arg, ret);
    report_.Begin() << line;
  }
  // Adds the problems that a decoder of an element reported.
  XLA_FFI_SDK_COLD void Add(const DiagnosticEngine& decoder) {
    const Report* const report = DiagnosticAccess::All(decoder);
    if (report == nullptr) return;
    std::string_view rest = report->text.view();
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      report_.Begin() << rest.substr(0, end);
      rest.remove_prefix(end + 1);
    }
    report_.Begin() << rest;
    if (report->code != XLA_FFI_Error_Code_INVALID_ARGUMENT) report_.code = report->code;
  }
  // Records that the element could not be decoded. If its decoder reported no problem, adds a generic problem.
  XLA_FFI_SDK_COLD void Failed() {
    if (report_.count != count_) return;
    Text& text = report_.Begin();
    if (elements_.kinds[report_.element] >= ElementKind::kOther) {
      text << "element " << report_.element << " of the binding: ";
    }
    text << "cannot be decoded";
  }
  // Records that the element was decoded, and discards problems that its decoder reported.
  void Decoded() {
    report_.count = count_;
    report_.text.Cut(size_);
  }

  // Reports that the call has more than `most` operands; -1 means no limit.
  XLA_FFI_SDK_COLD void Count(bool is_arg, int64_t most) {
    const int64_t got = is_arg ? frame_->args.size : frame_->rets.size;
    bool is_named = most > 0, is_rest;
    for (int64_t i = 0; i < most; ++i) is_named = is_named && !elements_.NameAt(is_arg, i, &is_rest).empty();
    if (most < 0 || got <= most) return;
    Enter(-1);
    xla_ffi_sdk_line line;
    line.size = 0;
    xla_ffi_sdk_put_count(&line, is_arg ? "argument" : "result", most);
    for (int64_t i = 0; is_named && i < most; ++i) {
      const std::string_view name = elements_.NameAt(is_arg, i, &is_rest);
      xla_ffi_sdk_put_listed(&line, i == 0, name.data(), name.size());
    }
    report_.Begin() << line << (is_named ? "), got " : ", got ") << got;
  }
  // Reports problems with the memory of the operands from `index` to `end` (exclusive); an `end` of -1 means all later
  // operands.
  XLA_FFI_SDK_COLD void Memory(bool is_arg, int64_t index, int64_t end, bool has_memory) {
    if (end < 0) end = is_arg ? frame_->args.size : frame_->rets.size;
    for (; index < end; ++index) {
      const XLA_FFI_Buffer* buf = xla_ffi_sdk_operand(frame_, is_arg, index);
      if (IsUsable(FindFault(buf), has_memory)) continue;
      PutBufferProblem(BeginAbout(is_arg, index) << ": ", 1, buf, is_arg, {}, NumberOf(buf->dtype), kAnyRank);
    }
  }
  // Reports which of the first `args` arguments and `rets` results overlap. Does nothing if there are other problems.
  XLA_FFI_SDK_COLD void Clashes(int64_t args, int64_t rets) {
    if (report_.count != 0) return;
    xla_ffi_sdk_clash_of clash = {0, -1, 1};
    while (xla_ffi_sdk_next_clash(frame_, args, rets, &clash)) {
      Text& text = BeginAbout(false, clash.ret) << XLA_FFI_SDK_TEXT_OVERLAPS;
      elements_.PutOperand(text, clash.with_arg != 0, clash.other);
      if (clash.with_arg) text << XLA_FFI_SDK_TEXT_ALIASED;
    }
  }
  // Reports which operands violate a shape contract. Does nothing if there are other problems.
  XLA_FFI_SDK_COLD void Shapes(const char* contract) {
    if (report_.count != 0) return;
    Enter(-1);
    xla_ffi_sdk_shapes shapes;
    xla_ffi_sdk_shapes_begin(&shapes, contract, frame_);
    while (xla_ffi_sdk_next_misfit(&shapes)) {
      xla_ffi_sdk_line line;
      line.size = 0;
      xla_ffi_sdk_put_misfit(&line, &shapes, &PutOperandTo, &elements_);
      report_.Begin() << line;
    }
  }
  // Reports that a required attribute is missing.
  XLA_FFI_SDK_COLD void MissingAttr(std::string_view name) {
    Enter(-1);
    report_.Begin() << "missing attribute `" << name << "`";
  }

  // Reports unknown attributes. Called after all other checks of attributes.
  XLA_FFI_SDK_COLD void UnknownAttrs() {
    Enter(-1);
    DiagnoseUnknownAttrs(frame_, elements_, diagnostic_);
  }

  XLA_FFI_SDK_COLD XLA_FFI_Error* Finish() {
    if (report_.count == 0) {  // all elements are valid, so the fast path failed because of the order
      report_.Begin() << "the host's attributes are not sorted by name";
    }
    if (report_.count > 1) {
      Text count;
      report_.text.Insert(report_.first, (count << report_.count << " problems\n  ").view());
    }
    return NewError(api_, report_.code, report_.text);
  }

 private:
  // Starts a problem with `before` and the name of an operand.
  XLA_FFI_SDK_COLD Text& BeginAbout(bool is_arg, int64_t index, const char* before = "") {
    const int element = std::exchange(report_.element, -1);
    Text& text = report_.Begin() << before;
    report_.element = element;
    elements_.PutOperand(text, is_arg, index);
    return text;
  }
  static void PutOperandTo(xla_ffi_sdk_line* line, const void* elements, int is_arg,
                           int64_t index) {
    Text text;
    static_cast<const Elements*>(elements)->PutOperand(text, is_arg != 0, index);
    xla_ffi_sdk_put(line, text.view().data(), text.view().size());
  }

  const XLA_FFI_Api* api_;
  const XLA_FFI_CallFrame* frame_;
  const Elements elements_;
  Report report_;
  DiagnosticEngine diagnostic_;
  int count_ = 0;
  size_t size_ = 0;
};

#if defined(XLA_FFI_SDK_INTERNAL_H_)
// Returns the error for a host that is not a runtime in the handler's image.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* RefuseHost(const XLA_FFI_Api* api, std::string_view name,
                                                  const char* why) {
  Text text;
  if (!name.empty()) text << name << ": ";
  text << why;
  if (api != nullptr) return NewError(api, XLA_FFI_Error_Code_FAILED_PRECONDITION, text);
  std::fprintf(stderr, "xla-ffi: %s\n", text.c_str());
  return nullptr;
}
#endif

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_EXPLAIN_H_
