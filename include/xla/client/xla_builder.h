// Includes the header from its location in XLA's documents and in older versions of XLA.
#ifndef XLA_CLIENT_XLA_BUILDER_H_
#define XLA_CLIENT_XLA_BUILDER_H_

#include "xla/hlo/builder/xla_builder.h"

#endif  // XLA_CLIENT_XLA_BUILDER_H_
