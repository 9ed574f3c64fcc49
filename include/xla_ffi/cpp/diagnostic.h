// Collects the problems that are found while a call is decoded, one per line. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_DIAGNOSTIC_H_
#define XLA_FFI_SDK_CPP_DIAGNOSTIC_H_

#include "xla_ffi/cpp/name.h"
#include "xla_ffi/cpp/print.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

class DiagnosticEngine;

XLA_FFI_SDK_INTERNAL_BEGIN

// The kind of an element of a binding. Messages name no elements from kOther on, except single variadic
// operands.
enum class ElementKind : uint8_t { kArg, kRet, kInOut, kAttr, kOther, kRemainingArgs, kRemainingRets };

// The names and kinds of a binding's elements, for messages.
struct Elements {
  const BoundName* names;
  const ElementKind* kinds;
  int size;

  // Adds the name of an element and a colon. Does nothing for elements without a name.
  XLA_FFI_SDK_COLD void Put(Text& text, int element) const noexcept {
    const std::string_view name = names[element].text();
    const ElementKind kind = kinds[element];
    if (kind >= ElementKind::kOther) return;
    if (kind == ElementKind::kAttr) {
      text << "attribute `" << name << "`: ";
      return;
    }
    const int64_t position = Position(element, kind == ElementKind::kRet ? kind : ElementKind::kArg);
    PutName(text << (kind == ElementKind::kArg ? "argument " : kind == ElementKind::kRet ? "result " : "in-out operand "), name,
            position)
        << ": ";
  }

  // Returns the name of an argument or a result, which may be empty. Sets `is_rest` to true if the operand is
  // variadic.
  XLA_FFI_SDK_COLD std::string_view NameAt(bool is_arg, int64_t position, bool* is_rest) const noexcept {
    const ElementKind kind = is_arg ? ElementKind::kArg : ElementKind::kRet;
    const ElementKind rest = is_arg ? ElementKind::kRemainingArgs : ElementKind::kRemainingRets;
    int64_t seen = 0;
    for (int i = 0; i < size; ++i) {
      const bool is_one = kinds[i] == kind || kinds[i] == ElementKind::kInOut;
      *is_rest = kinds[i] == rest && seen <= position;
      if ((is_one && seen++ == position) || *is_rest) return names[i].text();
    }
    return {};
  }

  // Adds the name of an operand: "argument `x`", "argument `rest` (2)", or "argument 0".
  XLA_FFI_SDK_COLD void PutOperand(Text& text, bool is_arg, int64_t position) const noexcept {
    bool is_rest = false;
    const std::string_view name = NameAt(is_arg, position, &is_rest);
    PutName(text << (is_arg ? "argument " : "result "), name, position);
    if (is_rest && !name.empty()) text << " (" << position << ")";
  }

 private:
  // Returns the index of an element among the arguments or among the results.
  XLA_FFI_SDK_COLD int64_t Position(int element, ElementKind kind) const {
    int64_t position = 0;
    for (int i = 0; i < element; ++i) position += kinds[i] == kind || kinds[i] == ElementKind::kInOut;
    return position;
  }
  static Text& PutName(Text& text, std::string_view name, int64_t position) noexcept {
    return name.empty() ? text << position : text << "`" << name << "`";
  }
};

// A list of problems, one per line. Each line starts with the name of an operand or attribute.
struct Report {
  Text text;
  const Elements* elements = nullptr;
  int element = -1;  // index of the element that is being decoded
  int count = 0;
  size_t first = 0;  // offset of the first problem
  size_t last = 0;   // offset of the newest problem's text, after the element's name
  XLA_FFI_Error_Code code = XLA_FFI_Error_Code_INVALID_ARGUMENT;

  // Starts a new line with the name of the current element, and returns the text for the problem.
  XLA_FFI_SDK_COLD Text& Begin() noexcept {
    if (count > 0) text << (elements != nullptr ? "\n  " : "\n");
    if (count++ == 0) first = text.size();
    if (elements != nullptr && element >= 0) elements->Put(text, element);
    last = text.size();
    return text;
  }
};

struct DiagnosticAccess;

XLA_FFI_SDK_INTERNAL_END

// A problem that is being written; the destructor adds it to the engine. Converts to an empty std::optional
// of any type, so that a decoder can return it.
class XLA_FFI_SDK_TYPE InFlightDiagnostic {
 public:
  XLA_FFI_SDK_COLD explicit InFlightDiagnostic(DiagnosticEngine* engine, std::string text)
      : engine_(engine), stream_(new std::ostringstream(text, std::ios_base::ate)) {}
  InFlightDiagnostic(const InFlightDiagnostic&) = delete;
  InFlightDiagnostic& operator=(const InFlightDiagnostic&) = delete;
  XLA_FFI_SDK_COLD inline ~InFlightDiagnostic();

  template <typename Arg>
  XLA_FFI_SDK_COLD InFlightDiagnostic& operator<<(Arg&& arg) {
    *stream_ << std::forward<Arg>(arg);
    return *this;
  }

  template <typename T>
  XLA_FFI_SDK_FN operator std::optional<T>() const {
    return std::nullopt;
  }

 private:
  DiagnosticEngine* engine_;
  std::ostringstream* const stream_;  // on the heap, to keep the callers' stack frames small
};

// Collects problems. Allocates nothing until a problem is reported.
class XLA_FFI_SDK_TYPE DiagnosticEngine {
 public:
  XLA_FFI_SDK_FN DiagnosticEngine() noexcept {}
  DiagnosticEngine(const DiagnosticEngine&) = delete;
  DiagnosticEngine& operator=(const DiagnosticEngine&) = delete;
  XLA_FFI_SDK_HOT ~DiagnosticEngine() {
    if (XLA_FFI_PREDICT_FALSE(owned_ != nullptr)) delete owned_;
  }

  XLA_FFI_SDK_COLD InFlightDiagnostic Emit(std::string message) {
    return InFlightDiagnostic(this, std::move(message));
  }

  // Returns all problems, one per line.
  XLA_FFI_SDK_COLD std::string Result() const& {
    return report_ != nullptr ? report_->text.str() : std::string();
  }
  XLA_FFI_SDK_COLD std::string Result() && {
    std::string all = static_cast<const DiagnosticEngine&>(*this).Result();
    delete std::exchange(owned_, nullptr);
    report_ = nullptr;
    return all;
  }

 private:
  friend class InFlightDiagnostic;
  friend struct internal::DiagnosticAccess;

  XLA_FFI_SDK_HOT explicit DiagnosticEngine(internal::Report* report) : report_(report) {}

  XLA_FFI_SDK_COLD internal::Text& Begin() {
    if (report_ == nullptr) report_ = owned_ = new internal::Report;
    return report_->Begin();
  }

  internal::Report* report_ = nullptr;
  internal::Report* owned_ = nullptr;
};

InFlightDiagnostic::~InFlightDiagnostic() {
#if XLA_FFI_SDK_EXCEPTIONS
  // If memory is exhausted, the text of the problem is lost.
  try {
    engine_->Begin() << stream_->str();
  } catch (const std::bad_alloc&) {
  }
#else
  engine_->Begin() << stream_->str();
#endif
  delete stream_;
}

XLA_FFI_SDK_INTERNAL_BEGIN

// Functions of an engine for the handler and the built-in decoders.
struct DiagnosticAccess {
  // Returns an engine that writes to an existing report.
  XLA_FFI_SDK_HOT static DiagnosticEngine Into(Report* report) { return DiagnosticEngine(report); }
  static const Report* All(const DiagnosticEngine& engine) { return engine.report_; }
  // Starts a problem, and returns the text to which it is written.
  XLA_FFI_SDK_HOT static Text& Add(DiagnosticEngine& engine) { return engine.Begin(); }
  // Starts a problem that determines the code of the final error.
  XLA_FFI_SDK_COLD static Text& Add(DiagnosticEngine& engine, XLA_FFI_Error_Code code) {
    Text& text = engine.Begin();
    SetCode(engine, code);
    return text;
  }
  XLA_FFI_SDK_COLD static void SetCode(DiagnosticEngine& engine, XLA_FFI_Error_Code code) {
    if (code != XLA_FFI_Error_Code_INVALID_ARGUMENT) engine.report_->code = code;
  }
  // Inserts the name of a field before the text of the newest problem.
  XLA_FFI_SDK_COLD static void NameLast(DiagnosticEngine& engine, std::string_view name) {
    Report* report = engine.report_;
    if (report == nullptr || report->count == 0) return;
    report->text.Insert(report->last, "`: ");
    report->text.Insert(report->last, name);
    report->text.Insert(report->last, "entry `");
  }
  // Returns the name of the element that is being decoded; empty if it is unknown.
  XLA_FFI_SDK_COLD static std::string_view Name(const DiagnosticEngine& engine) {
    const Report* report = engine.report_;
    const bool is_known = report != nullptr && report->elements != nullptr && report->element >= 0;
    return is_known ? report->elements->names[report->element].text() : std::string_view();
  }
};

// Reports that the host lacks a feature.
XLA_FFI_SDK_COLD inline std::nullopt_t DiagnoseMissingFeature(DiagnosticEngine& engine,
                                                    const XLA_FFI_Api* api, const char* feature,
                                                    Revision since) {
  PutMissingFeature(DiagnosticAccess::Add(engine, XLA_FFI_Error_Code_UNIMPLEMENTED), api, feature, since);
  return std::nullopt;
}

// Reports the error of a failed host function, and destroys the error.
XLA_FFI_SDK_COLD inline std::nullopt_t DiagnoseError(DiagnosticEngine& engine,
                                                     const XLA_FFI_Api* api, const char* what,
                                                     XLA_FFI_Error* error) {
  PutError(DiagnosticAccess::Add(engine) << "failed to get " << what << ": ", api, error);
  return std::nullopt;
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_DIAGNOSTIC_H_
