// Functions that create literals.
#ifndef XLA_LITERAL_UTIL_H_
#define XLA_LITERAL_UTIL_H_

#include <initializer_list>
#include <utility>
#include <vector>

#include "xla/literal.h"

namespace xla {

struct LiteralUtil {
  template <typename T>
  static Literal CreateR0(T value) {
    return Create<T>({}, {value});
  }
  template <typename T>
  static Literal CreateR1(const std::vector<T>& values) {
    return Create<T>({static_cast<int64_t>(values.size())}, values);
  }
  // Creates a matrix from its rows. If the rows differ in length, the program ends.
  template <typename T>
  static Literal CreateR2(std::initializer_list<std::initializer_list<T>> rows) {
    std::vector<T> values;
    size_t columns = 0;
    for (const auto& row : rows) {
      if (&row != rows.begin() && row.size() != columns) EndProgram("the rows of a literal are of different lengths");
      values.insert(values.end(), row.begin(), row.end());
      columns = row.size();
    }
    return Create<T>({static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)}, values);
  }
  // Creates a literal with this shape and these values, in row-major order. Missing values are zero; surplus values are
  // ignored.
  template <typename T>
  static Literal Create(std::vector<int64_t> dimensions, const std::vector<T>& values) {
    Literal literal(ShapeUtil::MakeShape(NativeType<T>::kType, std::move(dimensions)));
    auto data = literal.data<T>();
    for (size_t i = 0; i < data.size() && i < values.size(); ++i) data[i] = values[i];
    return literal;
  }
  static Literal MakeTuple(std::vector<Literal> elements) {
    std::vector<Shape> shapes;
    for (const Literal& element : elements) shapes.push_back(element.shape());
    Literal tuple(ShapeUtil::MakeTupleShape(std::move(shapes)));
    tuple.elements() = std::move(elements);
    return tuple;
  }
};

}  // namespace xla

#endif  // XLA_LITERAL_UTIL_H_
