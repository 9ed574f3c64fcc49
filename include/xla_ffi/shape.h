/* Shape contracts such as "... n, n k -> ... k", which relate the shapes of a call's operands (see docs/rust.md for the
 * grammar). Part of <xla_ffi/handler.h> and <xla/ffi/api/api.h>.
 *
 * Each check parses the contract again, because a contract has only a few characters per dimension. Nothing is cached
 * between calls.
 */
#ifndef XLA_FFI_SHAPE_H_
#define XLA_FFI_SHAPE_H_

#include <stdio.h>
#include <string.h>

#include "xla_ffi/text.h"
#include "xla_ffi/frame.h"

/* Silences the C++ warnings about the C-style casts in this header. */
#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/* The largest number of different names in a shape contract. */
#define XLA_FFI_SDK_SHAPE_NAMES 26

/* The size of a name in a contract, and the operand or attribute that defined the name. */
typedef struct xla_ffi_sdk_size {
  const char* name;
  size_t length;
  int64_t size;
  int64_t index;
  int side; /* where the size is from: 1 for an argument, 0 for a result, -1 for an attribute */
} xla_ffi_sdk_size;

/* A mistake in a contract, in contrast to an operand that violates the contract. In C++, contracts are checked at
 * compile time. */
typedef enum xla_ffi_sdk_wrong {
  XLA_FFI_SDK_WRONG_NOTHING,
  XLA_FFI_SDK_WRONG_TEXT,  /* the text is not a contract */
  XLA_FFI_SDK_WRONG_SHORT, /* an operand has no entry */
  XLA_FFI_SDK_WRONG_LONG   /* an entry has no operand */
} xla_ffi_sdk_wrong;

/* The state of comparing a contract with the operands of a call. */
typedef struct xla_ffi_sdk_shapes {
  const XLA_FFI_CallFrame* frame;
  const char* contract;
  const char* next; /* the next entry */
  const char* entry; /* the current entry; `end` is its end */
  const char* end;
  int64_t index; /* index of the operand of the current entry */
  int64_t next_index;
  int is_arg, next_is_arg;
  int sizes;
  int64_t ellipsis_rank; /* number of dimensions that `...` covers; -1 until it is known */
  const int64_t* ellipsis;
  xla_ffi_sdk_wrong wrong;
  xla_ffi_sdk_size size[XLA_FFI_SDK_SHAPE_NAMES];
} xla_ffi_sdk_shapes;

XFFI_HOT_ void xla_ffi_sdk_shapes_begin(xla_ffi_sdk_shapes* at, const char* contract, const XLA_FFI_CallFrame* frame) {
  at->frame = frame;
  at->contract = contract;
  at->next = contract;
  at->next_index = 0;
  at->next_is_arg = 1;
  at->sizes = 0;
  at->ellipsis_rank = -1;
  at->ellipsis = NULL;
  at->wrong = XLA_FFI_SDK_WRONG_NOTHING;
}

/* Returns 1 for white space between words of a contract. */
XFFI_HOT_ int xla_ffi_sdk_is_blank(char c) { return (unsigned char)(c - 1) < ' '; }
/* Returns 1 at the end of an operand's entry: at a comma, `->` or NUL. In ASCII, these characters are not after `-`,
 * unlike letters, digits and `.`, so a single comparison excludes most characters. */
XFFI_HOT_ int xla_ffi_sdk_is_stop(const char* at) {
  return *at <= '-' && (*at == ',' || *at == '\0' || (at[0] == '-' && at[1] == '>'));
}
/* Returns the end of the word that starts at `at`. */
XFFI_HOT_ const char* xla_ffi_sdk_word_end(const char* at) {
  while (*at > '-' || !(xla_ffi_sdk_is_blank(*at) || xla_ffi_sdk_is_stop(at))) ++at;
  return at;
}
/* Returns 1 if only the marks `*` and `?` remain before the end of an entry, as in "... n *". */
XFFI_HOT_ int xla_ffi_sdk_is_last(const char* at) {
  while (xla_ffi_sdk_is_blank(*at) || *at == '*' || *at == '?') ++at;
  return xla_ffi_sdk_is_stop(at);
}
XFFI_HOT_ int xla_ffi_sdk_is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads a number and moves `at` past its digits. Sets `is_right` to 0 if there are no digits, the number exceeds 32
 * bits, or it is less than `least`. */
XFFI_HOT_ int64_t xla_ffi_sdk_number(const char** at, const char* end, int64_t least, int* is_right) {
  const char* start = *at;
  int64_t number = 0;
  for (; *at < end && xla_ffi_sdk_is_digit(**at); ++*at) {
    if (number <= UINT32_MAX) number = number * 10 + (**at - '0');
  }
  *is_right &= *at > start && number <= UINT32_MAX && number >= least;
  return number;
}

/* Gets the value of an integer attribute. Returns 0 if no integer attribute has this name. */
XFFI_SLOW_ int xla_ffi_sdk_integer_attr(const XLA_FFI_CallFrame* frame, const char* name, size_t length,
                                        int64_t* value) {
  int64_t i;
  for (i = 0; i < frame->attrs.size; ++i) {
    const XLA_FFI_ByteSpan* span = frame->attrs.names[i];
    const XLA_FFI_Scalar* scalar = (const XLA_FFI_Scalar*)frame->attrs.attrs[i];
    if (span->len != length || memcmp(span->ptr, name, length) != 0) continue;
    if (frame->attrs.types[i] != XLA_FFI_AttrType_SCALAR || scalar == NULL || scalar->value == NULL) return 0;
    return xla_ffi_sdk_read_integer((unsigned)scalar->dtype, scalar->value, value);
  }
  return 0;
}

/* Returns the size of a name, from an earlier operand or from an integer attribute; null if the size is not known
 * yet. */
XFFI_HOT_ const xla_ffi_sdk_size* xla_ffi_sdk_find_size(xla_ffi_sdk_shapes* at, const char* name, size_t length) {
  xla_ffi_sdk_size* size = at->size;
  int64_t value;
  for (; size != at->size + at->sizes; ++size) {
    if (size->length == length && size->name[0] == name[0] &&
        (length == 1 || memcmp(size->name, name, length) == 0)) {
      return size;
    }
  }
  if (at->frame->attrs.size == 0 || at->sizes == XLA_FFI_SDK_SHAPE_NAMES ||
      !xla_ffi_sdk_integer_attr(at->frame, name, length, &value)) {
    return NULL;
  }
  size->name = name;
  size->length = length;
  size->size = value;
  size->side = -1;
  ++at->sizes;
  return size;
}

/* A dimension of a contract: `times * name / over + plus`, or only the number `plus`. */
typedef struct xla_ffi_sdk_dim {
  const char* name;
  size_t length;
  int64_t times, over, plus;
  int is_name; /* whether the dimension is only a name */
  int is_right; /* whether the syntax is valid, except for the characters of the name */
} xla_ffi_sdk_dim;

XFFI_HOT_ xla_ffi_sdk_dim xla_ffi_sdk_read_dim(const char* at, const char* end) {
  const char* start = at;
  xla_ffi_sdk_dim dim = {NULL, 0, 1, 1, 0, 0, 1};
  if (xla_ffi_sdk_is_digit(*at)) {
    dim.plus = xla_ffi_sdk_number(&at, end, 0, &dim.is_right);
    if (at == end || *at != '*') {
      dim.is_right &= at == end;
      return dim;
    }
    dim.is_right &= dim.plus > 0;
    dim.times = dim.plus;
    dim.plus = 0;
    ++at;
  }
  dim.name = at;
  while (at < end && *at != '/' && *at != '+' && *at != '-') ++at;
  dim.length = (size_t)(at - dim.name);
  dim.is_name = at == end && dim.name == start;
  if (at < end && *at == '/') {
    ++at;
    dim.over = xla_ffi_sdk_number(&at, end, 1, &dim.is_right);
  }
  if (at < end && (*at == '+' || *at == '-')) {
    const int minus = *at++ == '-';
    dim.plus = xla_ffi_sdk_number(&at, end, 0, &dim.is_right);
    if (minus) dim.plus = -dim.plus;
  }
  dim.is_right &= at == end;
  return dim;
}

/* Returns 1 if a text is a valid name of letters, digits and `_`. A single `_` is not a name. */
XFFI_COLD_ int xla_ffi_sdk_is_name(const char* name, size_t length) {
  size_t i;
  for (i = 0; i < length; ++i) {
    const char letter = (char)(name[i] | ' ');
    if (!(letter >= 'a' && letter <= 'z') && name[i] != '_' &&
        (i == 0 || !xla_ffi_sdk_is_digit(name[i]))) {
      return 0;
    }
  }
  return length > 0 && (length > 1 || *name != '_');
}

/* Returns the size that a dimension of a result computes from `size`. If the size cannot be computed, sets `problem` to
 * the reason. */
XFFI_COLD_ int64_t xla_ffi_sdk_compute(const xla_ffi_sdk_dim* dim, int64_t size, const char** problem) {
  int64_t product, sum;
  *problem = NULL;
  if (size < 0) {
    *problem = "is negative";
  } else if (dim->over == 0 || xla_ffi_sdk_multiply(size, dim->times, &product)) {
    *problem = "is too large";
  } else if (product % dim->over != 0) {
    *problem = "leaves a remainder";
  } else if (dim->plus > 0 && product / dim->over > INT64_MAX - dim->plus) {
    *problem = "is too large";
  } else if ((sum = product / dim->over + dim->plus) < 0) {
    *problem = "is negative";
  } else {
    return sum;
  }
  return -1;
}

/* Returns 1 if a dimension has the size of its name. If the size is not known yet, the dimension defines it. */
XFFI_HOT_ int xla_ffi_sdk_name_fits(xla_ffi_sdk_shapes* at, const char* name, size_t length, int64_t got) {
  const xla_ffi_sdk_size* known = xla_ffi_sdk_find_size(at, name, length);
  xla_ffi_sdk_size* size;
  if (known != NULL) return got == known->size;
  if (at->sizes == XLA_FFI_SDK_SHAPE_NAMES) { /* too many names for a contract */
    at->wrong = XLA_FFI_SDK_WRONG_TEXT;
    return 0;
  }
  size = &at->size[at->sizes++];
  size->name = name;
  size->length = length;
  size->size = got;
  size->side = at->is_arg;
  size->index = at->index;
  return 1;
}

/* Returns 1 if a dimension has valid syntax for an argument (`is_arg`) or a result. Only results may have computed
 * dimensions. */
XFFI_COLD_ int xla_ffi_sdk_is_dim(const xla_ffi_sdk_dim* dim, int is_arg) {
  return dim->is_right &&
         (dim->name == NULL || (xla_ffi_sdk_is_name(dim->name, dim->length) && (dim->is_name || !is_arg)));
}

/* Returns 1 if a size matches a word of a contract: `_`, a number, a name or a computed dimension. */
XFFI_COLD_ int xla_ffi_sdk_dim_fits(xla_ffi_sdk_shapes* at, const char* word, const char* end, int64_t got) {
  const xla_ffi_sdk_dim dim = xla_ffi_sdk_read_dim(word, end);
  const xla_ffi_sdk_size* known;
  const char* problem;
  if (end - word == 1 && *word == '_') return 1;
  if (!xla_ffi_sdk_is_dim(&dim, at->is_arg)) {
    at->wrong = XLA_FFI_SDK_WRONG_TEXT;
    return 1;
  }
  if (dim.name == NULL) return got == dim.plus;
  if (dim.is_name) return xla_ffi_sdk_name_fits(at, dim.name, dim.length, got);
  known = xla_ffi_sdk_find_size(at, dim.name, dim.length);
  /* Any size matches if the name in a computed dimension is unknown. */
  return known == NULL || got == xla_ffi_sdk_compute(&dim, known->size, &problem);
}

/* Returns 1 if `...` matches the dimensions that it covers in earlier operands. In this buffer, it covers the
 * dimensions from `d` on, except the last `behind`. Moves `d` past the covered dimensions. */
XFFI_HOT_ int xla_ffi_sdk_ellipsis_fits(xla_ffi_sdk_shapes* at, const XLA_FFI_Buffer* buf, int64_t* d, int64_t behind) {
  const int64_t* dims = buf->dims + *d;
  const int64_t span = buf->rank - *d - behind;
  int64_t i;
  if (span < 0) return 0;
  if (at->ellipsis_rank < 0) {
    at->ellipsis_rank = span;
    at->ellipsis = dims;
  }
  if (at->ellipsis_rank != span) return 0;
  for (i = 0; i < span; ++i) {
    if (at->ellipsis[i] != dims[i]) return 0;
  }
  *d += span;
  return 1;
}

/* Returns the number of dimensions between `next` and the end of an entry. */
XFFI_HOT_ int64_t xla_ffi_sdk_behind(const char* next) {
  int64_t behind = 0;
  for (;;) {
    while (xla_ffi_sdk_is_blank(*next)) ++next;
    if (xla_ffi_sdk_is_stop(next)) return behind;
    behind += *next >= 'A' || (*next != '*' && *next != '?'); /* separate marks are not counted */
    next = xla_ffi_sdk_word_end(next);
  }
}

/* Returns 1 if the word between `from` and `to` is `()` or `...`. */
XFFI_HOT_ int xla_ffi_sdk_is_sign(const xla_ffi_sdk_shapes* at, const char* from, const char* to) {
  return *from == '(' ? to - from == 2 && from[1] == ')' && from == at->entry && xla_ffi_sdk_is_last(to)
                      : to - from == 3 && from[1] == '.' && from[2] == '.';
}

/* Checks only the syntax of a word, because the entry's operand is a token or absent. */
XFFI_COLD_ void xla_ffi_sdk_judge_word(xla_ffi_sdk_shapes* at, const char* from, const char* to) {
  const xla_ffi_sdk_dim dim = xla_ffi_sdk_read_dim(from, to);
  int is_right = to - from == 1 && *from == '_';
  if (*from == '(' || *from == '.') {
    is_right = xla_ffi_sdk_is_sign(at, from, to);
  } else if (!is_right) {
    is_right = xla_ffi_sdk_is_dim(&dim, at->is_arg);
  }
  if (!is_right) at->wrong = XLA_FFI_SDK_WRONG_TEXT;
}

/* Returns 1 if the entry between `entry` and `stop` ends with `?` or `*`, so that its operand may be absent. */
XFFI_COLD_ int xla_ffi_sdk_may_lack(const char* entry, const char* stop) {
  while (stop > entry && xla_ffi_sdk_is_blank(stop[-1])) --stop;
  return stop > entry && (stop[-1] == '?' || stop[-1] == '*');
}

/* Returns 1 if an entry has exactly one of the marks `*` and `?`, after at least one dimension. */
XFFI_COLD_ int xla_ffi_sdk_marks_are_right(const xla_ffi_sdk_shapes* at, const char* stop, int marks) {
  return marks == 1 && at->end > at->entry && xla_ffi_sdk_may_lack(at->entry, stop);
}

/* Returns 1 if a buffer matches the current entry. Parses the entry and sets `stop` to its end. A missing or invalid
 * buffer is accepted, because other checks report it. */
XFFI_HOT_ int xla_ffi_sdk_entry_fits(xla_ffi_sdk_shapes* at, const XLA_FFI_Buffer* buf, const char** stop,
                                    int* repeats) {
  const char* word = at->entry;
  int any = buf == NULL || buf->rank < 0 || (buf->rank > 0 && buf->dims == NULL), fits = 1, marks = 0, ellipses = 0;
  int64_t d = 0;
  at->end = word;
  for (;;) {
    const char *start, *end;
    while (xla_ffi_sdk_is_blank(*word)) ++word;
    if (xla_ffi_sdk_is_stop(word)) break;
    start = word;
    word = xla_ffi_sdk_word_end(word + 1);
    for (end = word; end > start && (end[-1] == '*' || end[-1] == '?'); ++marks) *repeats |= *--end == '*';
    if (end == start) continue; /* a separate mark, as in "n *" */
    at->end = end;
    if (start == at->entry && end - start == 5 && memcmp(start, "token", 5) == 0) {
      any |= xla_ffi_sdk_is_last(word); /* if dimensions follow, `token` is a name */
    }
    if (any) {
      if (*start == '.' && ellipses++ != 0) at->wrong = XLA_FFI_SDK_WRONG_TEXT;
      xla_ffi_sdk_judge_word(at, start, end);
    } else if (*start == '.') {
      if (ellipses++ != 0 || !xla_ffi_sdk_is_sign(at, start, end)) at->wrong = XLA_FFI_SDK_WRONG_TEXT;
      fits = fits && xla_ffi_sdk_ellipsis_fits(at, buf, &d, xla_ffi_sdk_behind(word));
    } else if (!fits) {
      continue;
    } else if (*start == '(') {
      if (!xla_ffi_sdk_is_sign(at, start, end)) at->wrong = XLA_FFI_SDK_WRONG_TEXT;
    } else if (d == buf->rank) {
      fits = 0;
    } else if (end - start == 1 && *start >= 'a' && *start <= 'z') {
      fits = xla_ffi_sdk_name_fits(at, start, 1, buf->dims[d++]);
    } else {
      fits = xla_ffi_sdk_dim_fits(at, start, end, buf->dims[d++]);
    }
  }
  if (marks != 0 && !xla_ffi_sdk_marks_are_right(at, word, marks)) at->wrong = XLA_FFI_SDK_WRONG_TEXT;
  *stop = word;
  return any || (fits && d == buf->rank);
}

/* Finds the next operand that violates the contract. Returns 0 if there is none, or if the contract is invalid.
 * Discards sizes that the violating operand defined. */
XFFI_SLOW_ int xla_ffi_sdk_next_misfit(xla_ffi_sdk_shapes* at) {
  while (at->next != NULL) {
    const XLA_FFI_CallFrame* frame = at->frame;
    const int is_arg = at->next_is_arg;
    const int64_t index = at->next_index, rank = at->ellipsis_rank;
    const int64_t count = is_arg ? frame->args.size : frame->rets.size;
    const int sizes = at->sizes;
    const char *entry = at->next, *stop;
    const XLA_FFI_Buffer* buf = NULL;
    int repeats = 0, fits, is_there;
    while (xla_ffi_sdk_is_blank(*entry)) ++entry;
    at->entry = entry;
    at->is_arg = is_arg;
    at->index = index;
    is_there = !xla_ffi_sdk_is_stop(entry);
    if (index < count && is_there) buf = xla_ffi_sdk_operand(frame, is_arg, index);
    fits = xla_ffi_sdk_entry_fits(at, buf, &stop, &repeats);
    if (!is_there && index > 0) at->wrong = XLA_FFI_SDK_WRONG_TEXT; /* an empty entry */
    if (at->wrong == XLA_FFI_SDK_WRONG_TEXT) break;
    if (index >= count && is_there && !xla_ffi_sdk_may_lack(entry, stop)) {
      at->wrong = XLA_FFI_SDK_WRONG_LONG;
    }
    if (*stop != ',' && !repeats && index + is_there < count) at->wrong = XLA_FFI_SDK_WRONG_SHORT;
    if (repeats && index + 1 < count) {
      at->next_index = index + 1;
    } else if (*stop == ',') {
      /* An entry with `*` must be the last of its side, and no entry may be empty. */
      if (repeats || !is_there) at->wrong = XLA_FFI_SDK_WRONG_TEXT;
      at->next = stop + 1;
      at->next_index = index + 1;
    } else if (*stop == '-' && is_arg) {
      at->next = stop + 2;
      at->next_index = 0;
      at->next_is_arg = 0;
    } else {
      if (is_arg || *stop != '\0') at->wrong = XLA_FFI_SDK_WRONG_TEXT; /* the contract has no `->` or more than one */
      at->next = NULL;
    }
    if (!fits && at->wrong != XLA_FFI_SDK_WRONG_TEXT) {
      at->sizes = sizes;
      at->ellipsis_rank = rank;
      return 1;
    }
  }
  return 0;
}

/* A function that writes the name of an operand: "argument `x`". */
typedef void (*xla_ffi_sdk_put_operand)(xla_ffi_sdk_line* line, const void* context, int is_arg,
                                        int64_t index);

/* Writes how the current operand violates the contract: "argument `b`: expected F32[k, m] with k = 2 from argument `a`,
 * got F32[3, 1]; the contract is `n k, k m -> n m`". */
XFFI_COLD_ void xla_ffi_sdk_put_misfit(xla_ffi_sdk_line* line, xla_ffi_sdk_shapes* at, xla_ffi_sdk_put_operand operand,
                                      const void* context) {
  const XLA_FFI_Buffer* buf = xla_ffi_sdk_operand(at->frame, at->is_arg, at->index);
  const char *word = at->entry, *joint = " with ";
  int words = 0, ellipsis = 0;
  unsigned told = 0;
  operand(line, context, at->is_arg, at->index);
  xla_ffi_sdk_put_words(line, ": expected ");
  xla_ffi_sdk_put_dtype(line, (unsigned)buf->dtype);
  xla_ffi_sdk_put_words(line, "[");
  for (; word < at->end && *word != '('; ++word) {
    const char* start = word;
    if (xla_ffi_sdk_is_blank(*word)) continue;
    while (word < at->end && !xla_ffi_sdk_is_blank(*word)) ++word;
    if (words++ > 0) xla_ffi_sdk_put_words(line, ", ");
    if (word - start == 1 && *start == '_') start = "?";
    xla_ffi_sdk_put(line, start, *start == '?' ? 1 : (size_t)(word - start));
    ellipsis |= *start == '.';
  }
  xla_ffi_sdk_put_words(line, "]");
  for (word = at->entry; word < at->end && *word != '('; ++word) {
    const char *start = word, *problem;
    const xla_ffi_sdk_size* size;
    xla_ffi_sdk_dim dim;
    if (xla_ffi_sdk_is_blank(*word)) continue;
    while (word < at->end && !xla_ffi_sdk_is_blank(*word)) ++word;
    if (*start == '.' || (word - start == 1 && *start == '_')) continue;
    dim = xla_ffi_sdk_read_dim(start, word);
    size = dim.name != NULL ? xla_ffi_sdk_find_size(at, dim.name, dim.length) : NULL;
    if (size == NULL) continue;
    if ((told >> (size - at->size) & 1) == 0) {
      told |= 1u << (size - at->size);
      xla_ffi_sdk_put_words(line, joint);
      xla_ffi_sdk_put(line, size->name, size->length);
      xla_ffi_sdk_put_words(line, " = ");
      xla_ffi_sdk_put_number(line, size->size);
      xla_ffi_sdk_put_words(line, " from ");
      if (size->side < 0) {
        xla_ffi_sdk_put_words(line, "attribute `");
        xla_ffi_sdk_put(line, size->name, size->length);
        xla_ffi_sdk_put_words(line, "`");
      } else {
        operand(line, context, size->side, size->index);
      }
      joint = ", ";
    }
    if (!dim.is_name) {
      const int64_t computed = xla_ffi_sdk_compute(&dim, size->size, &problem);
      xla_ffi_sdk_put_words(line, ", ");
      xla_ffi_sdk_put(line, start, (size_t)(word - start));
      xla_ffi_sdk_put_words(line, problem != NULL ? ", which " : " = ");
      if (problem != NULL) {
        xla_ffi_sdk_put_words(line, problem);
      } else {
        xla_ffi_sdk_put_number(line, computed);
      }
    }
  }
  if (ellipsis && at->ellipsis_rank >= 0) {
    xla_ffi_sdk_put_words(line, joint);
    xla_ffi_sdk_put_words(line, "... = [");
    xla_ffi_sdk_put_dims(line, at->ellipsis, at->ellipsis_rank);
    xla_ffi_sdk_put_words(line, "]");
  }
  xla_ffi_sdk_put_words(line, ", got ");
  xla_ffi_sdk_put_buffer(line, buf);
  xla_ffi_sdk_put_words(line, "; the contract is `");
  xla_ffi_sdk_put_words(line, at->contract);
  xla_ffi_sdk_put_words(line, "`");
}

#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic pop
#endif

#endif  /* XLA_FFI_SHAPE_H_ */
