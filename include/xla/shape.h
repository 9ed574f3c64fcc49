// Shapes: arrays with layouts, tokens, and tuples of shapes.
#ifndef XLA_SHAPE_H_
#define XLA_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "xla/xla_data.pb.h"

namespace xla {

// A path of tuple indices to an element of a shape; the empty path is the whole shape.
using ShapeIndex = std::vector<int64_t>;

// The order of an array's dimensions in memory, from minor to major.
class Layout {
 public:
  Layout() = default;
  explicit Layout(std::vector<int64_t> minor_to_major) : order_(std::move(minor_to_major)) {}
  const std::vector<int64_t>& minor_to_major() const { return order_; }
  friend bool operator==(const Layout& a, const Layout& b) { return a.order_ == b.order_; }
  friend bool operator!=(const Layout& a, const Layout& b) { return !(a == b); }

 private:
  std::vector<int64_t> order_;
};

// The shape of an array, a token or a tuple. Arrays are row-major unless they have a layout.
class Shape {
 public:
  Shape() = default;
  Shape(PrimitiveType type, std::vector<int64_t> dimensions)
      : type_(type), dimensions_(std::move(dimensions)) {
    std::vector<int64_t> order;
    for (size_t i = dimensions_.size(); i > 0; --i) order.push_back(static_cast<int64_t>(i - 1));
    layout_ = Layout(std::move(order));
  }
  explicit Shape(std::vector<Shape> tuple_shapes)
      : type_(TUPLE), tuple_shapes_(std::move(tuple_shapes)) {}

  PrimitiveType element_type() const { return type_; }
  bool IsTuple() const { return type_ == TUPLE; }
  bool IsToken() const { return type_ == TOKEN; }
  bool IsArray() const { return !IsTuple() && !IsToken() && type_ != PRIMITIVE_TYPE_INVALID; }
  const std::vector<int64_t>& dimensions() const { return dimensions_; }
  int64_t dimensions(size_t index) const { return dimensions_.at(index); }
  int64_t rank() const { return static_cast<int64_t>(dimensions_.size()); }
  const std::vector<Shape>& tuple_shapes() const { return tuple_shapes_; }
  const Shape& tuple_shapes(size_t index) const { return tuple_shapes_.at(index); }
  size_t tuple_shapes_size() const { return tuple_shapes_.size(); }
  const Layout& layout() const { return layout_; }
  void set_layout(Layout layout) { layout_ = std::move(layout); }

  // Returns the shape as HLO text, for example "f32[2,3]{1,0}".
  std::string ToString(bool print_layout = false) const {
    if (IsTuple()) {
      std::string text = "(";
      for (size_t i = 0; i < tuple_shapes_.size(); ++i) {
        text += (i > 0 ? ", " : "") + tuple_shapes_[i].ToString(print_layout);
      }
      return text + ")";
    }
    const std::string text = Name(type_) + Join(dimensions_, '[', ']');
    if (!print_layout || layout_.minor_to_major().empty()) return text;
    return text + Join(layout_.minor_to_major(), '{', '}');
  }

  // Returns the shape with this HLO text, as the runtime prints it; an invalid shape for any other text.
  static Shape FromHlo(const std::string& text) {
    size_t at = 0;
    Shape shape = Read(text, &at);
    return at == text.size() ? shape : Shape();
  }

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.type_ == b.type_ && a.dimensions_ == b.dimensions_ && a.layout_ == b.layout_ &&
           a.tuple_shapes_ == b.tuple_shapes_;
  }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

  // Returns the element type as text, for example "f32".
  static std::string Name(PrimitiveType type) {
    switch (type) {
#define XLA_FFI_SDK_ELEMENT(name, lower, bits) \
  case name:                                   \
    return lower;
      XLA_FFI_SDK_ELEMENT_TYPES(XLA_FFI_SDK_ELEMENT)
#undef XLA_FFI_SDK_ELEMENT
      case TUPLE: return "tuple";
      case PRIMITIVE_TYPE_INVALID: break;
    }
    return "invalid";
  }

 private:
  static Shape Read(const std::string& text, size_t* at) {
    if (*at < text.size() && text[*at] == '(') {
      std::vector<Shape> elements;
      ++*at;
      while (*at < text.size() && text[*at] != ')') {
        const size_t before = *at;
        elements.push_back(Read(text, at));
        while (*at < text.size() && (text[*at] == ',' || text[*at] == ' ')) ++*at;
        if (*at == before) return Shape();
      }
      ++*at;
      return Shape(std::move(elements));
    }
    const size_t open = text.find('[', *at);
    if (open == std::string::npos) return Shape();
    const std::string name = text.substr(*at, open - *at);
    PrimitiveType type = PRIMITIVE_TYPE_INVALID;
    for (int number = 1; number < 64; ++number) {
      if (Name(static_cast<PrimitiveType>(number)) == name) type = static_cast<PrimitiveType>(number);
    }
    *at = open;
    Shape shape(type, Numbers(text, at));
    if (*at < text.size() && text[*at] == '{') shape.set_layout(Layout(Numbers(text, at)));
    return shape;
  }

  // Returns the numbers in the bracket at index `at` of the text, and moves `at` past the closing bracket.
  static std::vector<int64_t> Numbers(const std::string& text, size_t* at) {
    std::vector<int64_t> numbers;
    for (++*at; *at < text.size() && text[*at] != ']' && text[*at] != '}'; ++*at) {
      if (text[*at] == ',') continue;
      if (text[*at - 1] < '0' || text[*at - 1] > '9') numbers.push_back(0);
      numbers.back() = numbers.back() * 10 + (text[*at] - '0');
    }
    ++*at;
    return numbers;
  }

  static std::string Join(const std::vector<int64_t>& numbers, char open, char close) {
    std::string text(1, open);
    for (size_t i = 0; i < numbers.size(); ++i) {
      text += (i > 0 ? "," : "") + std::to_string(numbers[i]);
    }
    return text + close;
  }

  PrimitiveType type_ = PRIMITIVE_TYPE_INVALID;
  std::vector<int64_t> dimensions_;
  Layout layout_;
  std::vector<Shape> tuple_shapes_;
};

}  // namespace xla

#endif  // XLA_SHAPE_H_
