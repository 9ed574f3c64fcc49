// The place where XLA's documents and older versions have this header.
#ifndef XLA_CLIENT_XLA_COMPUTATION_H_
#define XLA_CLIENT_XLA_COMPUTATION_H_

#include "xla/hlo/builder/xla_computation.h"

#endif  // XLA_CLIENT_XLA_COMPUTATION_H_
