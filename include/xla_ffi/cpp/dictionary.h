// Decodes attributes that are arrays, strings, pointers or dictionaries. Part of <xla/ffi/api/ffi.h>.
#ifndef XLA_FFI_SDK_CPP_DICTIONARY_H_
#define XLA_FFI_SDK_CPP_DICTIONARY_H_

#include "xla_ffi/cpp/operand.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
// Decodes an array of scalars as a view that is valid until the call ends.
template <typename T>
struct AttrDecoding<Span<const T>> {
  static_assert(internal::DTypeOf<T>() != XLA_FFI_DataType_INVALID,
                "no XLA element type for the elements of this span");
  using Type = Span<const T>;

  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_AttrType type, void* attr) {
    const auto* array = static_cast<const XLA_FFI_Array*>(attr);
    return type == XLA_FFI_AttrType_ARRAY && attr != nullptr &&
           array->dtype == internal::DTypeOf<T>() && (array->data != nullptr || array->size == 0);
  }
  XLA_FFI_SDK_HOT static Type Take(void* attr) {
    const auto* array = static_cast<const XLA_FFI_Array*>(attr);
    // The pointer of an empty array may be null, which memcpy and similar functions do not accept. Any other
    // address is used instead.
    const void* const data = array->size != 0 ? array->data : array;
    return Type(static_cast<const T*>(data), array->size);
  }
  XLA_FFI_SDK_HOT static std::optional<Type> Decode(XLA_FFI_AttrType type, void* attr,
                                                    DiagnosticEngine& diagnostic) {
    if (XLA_FFI_PREDICT_FALSE(!Isa(type, attr))) {
      return internal::DiagnoseAttr(XLA_FFI_AttrType_ARRAY, internal::DTypeOf<T>(), type, attr, diagnostic);
    }
    return Take(attr);
  }
};

// Decodes a string as a view that is valid until the call ends.
template <>
struct AttrDecoding<std::string_view> {
  using Type = std::string_view;

  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_AttrType type, void* attr) {
    const auto* span = static_cast<const XLA_FFI_ByteSpan*>(attr);
    return type == XLA_FFI_AttrType_STRING && attr != nullptr &&
           (span->ptr != nullptr || span->len == 0);
  }
  XLA_FFI_SDK_HOT static Type Take(void* attr) {
    const auto* span = static_cast<const XLA_FFI_ByteSpan*>(attr);
    return std::string_view(span->len != 0 ? span->ptr : "", span->len);
  }
  template <typename Decoded = Type>
  XLA_FFI_SDK_HOT static std::optional<Decoded> Decode(XLA_FFI_AttrType type, void* attr,
                                                       DiagnosticEngine& diagnostic) {
    if (XLA_FFI_PREDICT_FALSE(!Isa(type, attr))) {
      return internal::DiagnoseAttr(XLA_FFI_AttrType_STRING, XLA_FFI_DataType_INVALID, type, attr, diagnostic);
    }
    return Take(attr);
  }
};

// Decodes a string as a copy.
template <>
struct AttrDecoding<std::string> {
  using Type = std::string;

  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_AttrType type, void* attr) {
    return AttrDecoding<std::string_view>::Isa(type, attr);
  }
  template <typename Decoded = Type>
  XLA_FFI_SDK_FN static std::optional<Decoded> Decode(XLA_FFI_AttrType type, void* attr,
                                                      DiagnosticEngine& diagnostic) {
    if (XLA_FFI_PREDICT_FALSE(!Isa(type, attr))) {
      return internal::DiagnoseAttr(XLA_FFI_AttrType_STRING, XLA_FFI_DataType_INVALID, type, attr, diagnostic);
    }
    return std::string(AttrDecoding<std::string_view>::Take(attr));
  }
};

// Decodes an i64 scalar that is the address of a T.
template <typename T>
struct Pointer {};

template <typename T>
struct AttrDecoding<Pointer<T>> {
  using Type = T*;

  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_AttrType type, void* attr) {
    return AttrDecoding<int64_t>::Isa(type, attr);
  }
  XLA_FFI_SDK_HOT static Type Take(void* attr) {
    return reinterpret_cast<Type>(static_cast<uintptr_t>(AttrDecoding<int64_t>::Take(attr)));
  }
  XLA_FFI_SDK_HOT static std::optional<Type> Decode(XLA_FFI_AttrType type, void* attr,
                                                    DiagnosticEngine& diagnostic) {
    if (XLA_FFI_PREDICT_FALSE(!Isa(type, attr))) {
      return internal::DiagnoseAttr(XLA_FFI_AttrType_SCALAR, XLA_FFI_DataType_S64, type, attr, diagnostic);
    }
    return Take(attr);
  }
};

// The base class of Dictionary: a view of named attributes that is valid until the call ends.
class XLA_FFI_SDK_TYPE DictionaryBase {
 public:
  XLA_FFI_SDK_HOT explicit DictionaryBase(const XLA_FFI_Attrs* attrs) : attrs_(attrs) {}

  // An iterator over the names of the attributes.
  class XLA_FFI_SDK_TYPE Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using difference_type = ptrdiff_t;
    using value_type = std::string_view;
    using pointer = const std::string_view*;
    using reference = std::string_view;

    XLA_FFI_SDK_FN Iterator() {}
    XLA_FFI_SDK_HOT bool operator==(const Iterator& it) const { return index_ == it.index_; }
    XLA_FFI_SDK_HOT bool operator!=(const Iterator& it) const { return index_ != it.index_; }
    XLA_FFI_SDK_HOT std::string_view operator*() const {
      if (XLA_FFI_PREDICT_FALSE(!IsOf(attrs_))) internal::Misused("a dictionary's name behind the last was asked for");
      return internal::ViewOf(attrs_->names[index_]);
    }
    XLA_FFI_SDK_HOT Iterator& operator++() {
      ++index_;
      return *this;
    }
    XLA_FFI_SDK_HOT Iterator operator++(int) {
      Iterator old = *this;
      ++index_;
      return old;
    }

   private:
    friend class DictionaryBase;
    XLA_FFI_SDK_HOT Iterator(const XLA_FFI_Attrs* attrs, int64_t index)
        : attrs_(attrs), index_(index) {}
    // Returns true if the iterator refers to an attribute of this dictionary, rather than to its end.
    XLA_FFI_SDK_HOT bool IsOf(const XLA_FFI_Attrs* attrs) const {
      return attrs != nullptr && attrs == attrs_ && index_ < attrs->size;
    }
    const XLA_FFI_Attrs* attrs_ = nullptr;
    int64_t index_ = 0;
  };

  XLA_FFI_SDK_HOT size_t size() const {
    return attrs_ == nullptr ? 0 : static_cast<size_t>(attrs_->size);
  }
  XLA_FFI_SDK_HOT bool empty() const { return size() == 0; }
  XLA_FFI_SDK_HOT Iterator begin() const { return Iterator(attrs_, 0); }
  XLA_FFI_SDK_HOT Iterator end() const {
    return Iterator(attrs_, static_cast<int64_t>(size()));
  }

  XLA_FFI_SDK_FN bool contains(std::string_view name) const { return Find(name) >= 0; }
  template <typename T>
  XLA_FFI_SDK_FN bool contains(std::string_view name) const {
    const int64_t index = Find(name);
    return index >= 0 && Isa<T>(index);
  }
  template <typename T>
  XLA_FFI_SDK_FN bool isa(const Iterator& it) const {
    return it.IsOf(attrs_) && Isa<T>(it.index_);
  }

  template <typename T>
  XLA_FFI_SDK_HOT ErrorOr<internal::AttrTypeOf<T>> get(const Iterator& it) const {
    if (XLA_FFI_PREDICT_FALSE(!it.IsOf(attrs_))) return ForeignIterator();
    return Get<T>(it.index_, *it);
  }
  template <typename T>
  XLA_FFI_SDK_HOT ErrorOr<internal::AttrTypeOf<T>> get(std::string_view name) const {
    const int64_t index = Find(name);
    if (XLA_FFI_PREDICT_FALSE(index < 0)) {
      if constexpr (internal::is_std_optional_v<T>) {
        return internal::AttrTypeOf<T>(std::nullopt);
      } else {
        return Missing(name);
      }
    }
    return Get<T>(index, name);
  }

 private:
  template <typename T>
  XLA_FFI_SDK_FN bool Isa(int64_t index) const {
    return internal::IsaAttr<T>(attrs_->types[index], attrs_->attrs[index]);
  }
  template <typename T>
  XLA_FFI_SDK_HOT ErrorOr<internal::AttrTypeOf<T>> Get(int64_t index,
                                                       std::string_view name) const {
    using D = AttrDecoding<T>;
    if constexpr (internal::takes_v<D>) {
      if (XLA_FFI_PREDICT_TRUE(D::Isa(attrs_->types[index], attrs_->attrs[index]))) {
        return D::Take(attrs_->attrs[index]);
      }
      return WhyNot<T>(index, name);
    } else {
      return Slow<T>(index, name);
    }
  }
  template <typename T>
  XLA_FFI_SDK_COLD Error WhyNot(int64_t index, std::string_view name) const {
    ErrorOr<internal::AttrTypeOf<T>> slow = Slow<T>(index, name);
    return slow.has_error() ? std::move(slow).error() : Error::Internal("it changed meanwhile");
  }
  template <typename T>
  XLA_FFI_SDK_FN XLA_FFI_ATTRIBUTE_NEVER_INLINE ErrorOr<internal::AttrTypeOf<T>> Slow(
      int64_t index, std::string_view name) const {
    DiagnosticEngine diagnostic;
    auto value =
        AttrDecoding<T>::Decode(attrs_->types[index], attrs_->attrs[index], diagnostic);
    if (XLA_FFI_PREDICT_FALSE(!value.has_value())) return Wrong(name, diagnostic);
    return std::move(*value);
  }
  XLA_FFI_SDK_HOT int64_t Find(std::string_view name) const {
    return internal::FindAttrIn(attrs_, name);
  }
  XLA_FFI_SDK_COLD static Error Missing(std::string_view name) {
    internal::Text text;
    text << "missing attribute `" << name << "`";
    return Error::Internal(text.str());
  }
  XLA_FFI_SDK_COLD static Error ForeignIterator() {
    return Error::Internal("attribute: the iterator leads to no value of this dictionary");
  }
  XLA_FFI_SDK_COLD static Error Wrong(std::string_view name, const DiagnosticEngine& diagnostic) {
    internal::Text text;
    text << "attribute `" << name << "`: " << diagnostic.Result();
    return Error::Internal(text.str());
  }

  const XLA_FFI_Attrs* attrs_;
};

XLA_FFI_SDK_NAMESPACE_END

namespace xla::ffi {
class XLA_FFI_SDK_TYPE Dictionary : public DictionaryBase {
 public:
  XLA_FFI_SDK_HOT explicit Dictionary(const XLA_FFI_Attrs* attrs) : DictionaryBase(attrs) {}
};
}  // namespace xla::ffi

XLA_FFI_SDK_NAMESPACE_BEGIN

template <>
struct AttrDecoding<Dictionary> {
  using Type = Dictionary;

  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_AttrType type, void* attr) {
    return type == XLA_FFI_AttrType_DICTIONARY && attr != nullptr;
  }
  XLA_FFI_SDK_HOT static Dictionary Take(void* attr) {
    return Dictionary(static_cast<const XLA_FFI_Attrs*>(attr));
  }
  template <typename Decoded = Dictionary>
  XLA_FFI_SDK_HOT static std::optional<Decoded> Decode(XLA_FFI_AttrType type, void* attr,
                                                       DiagnosticEngine& diagnostic) {
    if (XLA_FFI_PREDICT_FALSE(!Isa(type, attr))) {
      return internal::DiagnoseAttr(XLA_FFI_AttrType_DICTIONARY, XLA_FFI_DataType_INVALID, type, attr, diagnostic);
    }
    return Take(attr);
  }
};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_DICTIONARY_H_
