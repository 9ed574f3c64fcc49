// Includes the header from its location in XLA's documents and in older versions of XLA.
#ifndef XLA_CLIENT_XLA_COMPUTATION_H_
#define XLA_CLIENT_XLA_COMPUTATION_H_

#include "xla/hlo/builder/xla_computation.h"

#endif  // XLA_CLIENT_XLA_COMPUTATION_H_
