// Functions that create and inspect shapes.
#ifndef XLA_SHAPE_UTIL_H_
#define XLA_SHAPE_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "xla/layout_util.h"
#include "xla/shape.h"

namespace xla {

// Functions that create and inspect shapes. Invalid shapes (negative dimensions, layouts that are not permutations) are
// reported when a program that uses them is built.
struct ShapeUtil {
  static Shape MakeShape(PrimitiveType type, std::vector<int64_t> dimensions) {
    return Shape(type, std::move(dimensions));
  }
  // Same as MakeShape, under the name in the oldest documents of XLA.
  static Shape CreateShape(PrimitiveType type, std::vector<int64_t> dimensions) {
    return MakeShape(type, std::move(dimensions));
  }
  static Shape MakeScalarShape(PrimitiveType type) { return Shape(type, {}); }
  static Shape MakeShapeWithDenseLayout(PrimitiveType type, std::vector<int64_t> dimensions,
                                        std::vector<int64_t> minor_to_major) {
    Shape shape(type, std::move(dimensions));
    shape.set_layout(Layout(std::move(minor_to_major)));
    return shape;
  }
  // Same as MakeShapeWithDenseLayout, under its older name.
  static Shape MakeShapeWithLayout(PrimitiveType type, std::vector<int64_t> dimensions,
                                   std::vector<int64_t> minor_to_major) {
    return MakeShapeWithDenseLayout(type, std::move(dimensions), std::move(minor_to_major));
  }
  static Shape MakeShapeWithDescendingLayout(PrimitiveType type, std::vector<int64_t> dimensions) {
    return MakeShape(type, std::move(dimensions));
  }
  static Shape MakeTupleShape(std::vector<Shape> shapes) { return Shape(std::move(shapes)); }
  // Same as MakeTupleShape, under the name in XLA's documents.
  static Shape MakeTuple(std::vector<Shape> shapes) { return Shape(std::move(shapes)); }
  static Shape MakeNil() { return Shape(std::vector<Shape>()); }
  static Shape MakeTokenShape() { return Shape(TOKEN, {}); }

  static std::string HumanString(const Shape& shape) { return shape.ToString(); }
  static std::string HumanStringWithLayout(const Shape& shape) { return shape.ToString(true); }
  static bool Equal(const Shape& a, const Shape& b) { return a == b; }
  // Returns true if two shapes are equal apart from their layouts.
  static bool Compatible(const Shape& a, const Shape& b) { return a.ToString() == b.ToString(); }
  static size_t TupleElementCount(const Shape& shape) { return shape.tuple_shapes_size(); }
  static const Shape& GetTupleElementShape(const Shape& shape, int64_t index) {
    return shape.tuple_shapes(static_cast<size_t>(index));
  }
  static const Shape& GetSubshape(const Shape& shape, const ShapeIndex& index) {
    const Shape* found = &shape;
    for (const int64_t at : index) found = &found->tuple_shapes(static_cast<size_t>(at));
    return *found;
  }
  static bool IndexIsValid(const Shape& shape, const ShapeIndex& index) {
    const Shape* found = &shape;
    for (const int64_t at : index) {
      if (at < 0 || static_cast<size_t>(at) >= found->tuple_shapes_size()) return false;
      found = &found->tuple_shapes(static_cast<size_t>(at));
    }
    return true;
  }
  // Returns the number of elements of an array; the largest int64_t if a dimension is negative or the product
  // overflows.
  static int64_t ElementsIn(const Shape& shape) {
    int64_t elements = 1;
    bool over = false, empty = false;
    for (const int64_t dimension : shape.dimensions()) {
      if (dimension < 0) return INT64_MAX;
      empty = empty || dimension == 0;
      over = over || (dimension > 0 && elements > INT64_MAX / dimension);
      if (!over && dimension > 0) elements *= dimension;
    }
    return empty ? 0 : over ? INT64_MAX : elements;
  }
  // Returns the size in bytes of an array, or of all arrays of a tuple; sub-byte elements are packed. On overflow,
  // returns the largest int64_t, and a literal of such a shape throws std::length_error.
  static int64_t ByteSizeOf(const Shape& shape) {
    if (shape.IsTuple()) {
      int64_t bytes = 0;
      for (const Shape& element : shape.tuple_shapes()) {
        const int64_t more = ByteSizeOf(element);
        bytes = bytes > INT64_MAX - more ? INT64_MAX : bytes + more;
      }
      return bytes;
    }
    const int64_t elements = ElementsIn(shape), bits = Bits(shape.element_type());
    if (bits > 0 && elements > (INT64_MAX - 7) / bits) return INT64_MAX;
    return (elements * bits + 7) / 8;
  }
  static int64_t Bits(PrimitiveType type) {
    switch (type) {
      case S1: case U1: return 1;
      case S2: case U2: return 2;
      case S4: case U4: case F4E2M1FN: return 4;
      case S16: case U16: case F16: case BF16: return 16;
      case S32: case U32: case F32: return 32;
      case S64: case U64: case F64: case C64: return 64;
      case C128: return 128;
      case TOKEN: case TUPLE: case PRIMITIVE_TYPE_INVALID: return 0;
      default: return 8;
    }
  }
};

}  // namespace xla

#endif  // XLA_SHAPE_UTIL_H_
