// What went wrong while a call was decoded, one problem a line. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_DIAGNOSTIC_H_
#define XLA_FFI_SDK_CPP_DIAGNOSTIC_H_

#include "xla_ffi/cpp/print.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

class DiagnosticEngine;

XLA_FFI_SDK_INTERNAL_BEGIN

// One problem: which element of the binding (-1: none), and the text.
struct Problem {
  int element;
  std::string text;
};

struct Problems {
  std::vector<Problem> list;
  XLA_FFI_Error_Code code = XLA_FFI_Error_Code_INVALID_ARGUMENT;
};

struct DiagnosticAccess;

XLA_FFI_SDK_INTERNAL_END

// A problem that is being written; it is handed to the engine when this goes away. Converts to an
// empty optional of any type, so that a decoder can return it.
class XLA_FFI_SDK_TYPE InFlightDiagnostic {
 public:
  XLA_FFI_SDK_COLD explicit InFlightDiagnostic(DiagnosticEngine* engine, std::string text)
      : engine_(engine), stream_(std::make_unique<std::ostringstream>()) {
    *stream_ << text;
  }
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
  std::unique_ptr<std::ostringstream> stream_;
};

// Collects problems. Costs nothing until there is one.
class XLA_FFI_SDK_TYPE DiagnosticEngine {
 public:
  XLA_FFI_SDK_FN DiagnosticEngine() noexcept {}
  DiagnosticEngine(const DiagnosticEngine&) = delete;
  DiagnosticEngine& operator=(const DiagnosticEngine&) = delete;
  XLA_FFI_SDK_HOT ~DiagnosticEngine() {
    if (XLA_FFI_PREDICT_FALSE(problems_ != nullptr)) Clear();
  }

  XLA_FFI_SDK_COLD InFlightDiagnostic Emit(std::string message) {
    return InFlightDiagnostic(this, std::move(message));
  }

  // All problems, one a line.
  XLA_FFI_SDK_COLD std::string Result() const& {
    std::string all;
    if (problems_ == nullptr) return all;
    for (const internal::Problem& problem : problems_->list) {
      if (!all.empty()) all += '\n';
      all += problem.text;
    }
    return all;
  }
  XLA_FFI_SDK_COLD std::string Result() && {
    std::string all = static_cast<const DiagnosticEngine&>(*this).Result();
    Clear();
    return all;
  }

 private:
  friend class InFlightDiagnostic;
  friend struct internal::DiagnosticAccess;

  XLA_FFI_SDK_COLD void Clear() {
    delete problems_;
    problems_ = nullptr;
  }
  XLA_FFI_SDK_COLD void Add(std::string text) {
    if (problems_ == nullptr) problems_ = new internal::Problems;
    problems_->list.push_back({element_, std::move(text)});
  }

  internal::Problems* problems_ = nullptr;
  int element_ = -1;  // of the binding, the one that is being decoded
};

InFlightDiagnostic::~InFlightDiagnostic() { engine_->Add(stream_->str()); }

XLA_FFI_SDK_INTERNAL_BEGIN

// What the handler and the built-in decoders do with an engine.
struct DiagnosticAccess {
  XLA_FFI_SDK_HOT static void Enter(DiagnosticEngine& engine, int element) {
    engine.element_ = element;
  }
  static const Problems* All(const DiagnosticEngine& engine) { return engine.problems_; }
  XLA_FFI_SDK_COLD static void Add(DiagnosticEngine& engine, std::string text) {
    engine.Add(std::move(text));
  }
  // Puts the name of a field before the newest problem.
  XLA_FFI_SDK_COLD static void PrefixLast(DiagnosticEngine& engine, const std::string& prefix) {
    if (engine.problems_ != nullptr && !engine.problems_->list.empty()) {
      engine.problems_->list.back().text.insert(0, prefix);
    }
  }
  // A problem that makes the whole error one of that code.
  XLA_FFI_SDK_COLD static void Add(DiagnosticEngine& engine, XLA_FFI_Error_Code code,
                                   std::string text) {
    engine.Add(std::move(text));
    engine.problems_->code = code;
  }
};

// The problem of a feature that the host lacks.
XLA_FFI_SDK_COLD inline std::nullopt_t DiagnoseLack(DiagnosticEngine& engine,
                                                    const XLA_FFI_Api* api, const char* feature,
                                                    Revision since) {
  DiagnosticAccess::Add(engine, XLA_FFI_Error_Code_UNIMPLEMENTED,
                        LacksMessage(api, feature, since));
  return std::nullopt;
}

// The problem of a host function that failed; the error is destroyed.
XLA_FFI_SDK_COLD inline std::nullopt_t DiagnoseError(DiagnosticEngine& engine,
                                                     const XLA_FFI_Api* api, const char* what,
                                                     XLA_FFI_Error* error) {
  DiagnosticAccess::Add(engine,
                        std::string("failed to get ") + what + ": " + TakeErrorMessage(api, error));
  return std::nullopt;
}

// Another kind of operand or attribute than was bound.
XLA_FFI_SDK_COLD inline std::nullopt_t DiagnoseKind(DiagnosticEngine& engine, const char* expected,
                                                    std::string got) {
  DiagnosticAccess::Add(engine, std::string("expected ") + expected + ", got " + std::move(got));
  return std::nullopt;
}

// Another element type than was bound.
XLA_FFI_SDK_COLD inline std::nullopt_t DiagnoseDType(DiagnosticEngine& engine, const char* of,
                                                     unsigned expected, unsigned got, bool hint) {
  std::string text = std::string("expected ") + of + NameOr(DTypeName(expected), expected) +
                     ", got " + NameOr(DTypeName(got), got) + " (" + std::to_string(got) + ")";
  if (hint && got == XLA_FFI_DataType_F64) {
    text += " (a Python float is F64: pass numpy.float32(value) or the like)";
  } else if (hint && got == XLA_FFI_DataType_S64) {
    text += " (a Python int is S64: pass numpy.int32(value) or the like)";
  }
  DiagnosticAccess::Add(engine, std::move(text));
  return std::nullopt;
}

XLA_FFI_SDK_COLD inline std::nullopt_t DiagnoseRank(DiagnosticEngine& engine, int64_t expected,
                                                    int64_t got) {
  DiagnosticAccess::Add(engine, "expected rank " + std::to_string(expected) + ", got " +
                                    std::to_string(got));
  return std::nullopt;
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_DIAGNOSTIC_H_
