//! Element types.

enumeration! {
    /// The element type of a buffer, scalar or array. Hosts may send numbers that are not listed;
    /// r3 and r4 send 0 for the sub-byte types.
    XLA_FFI_DataType, "XLA_FFI_DataType_" {
        /// No type, or one that the host cannot name.
        INVALID = 0,
        /// Boolean, one byte, 0 or 1.
        PRED = 1,
        /// 1-bit signed integer.
        S1 = 30 since "0.6.0",
        /// 2-bit signed integer, four to a byte, first in the low bits.
        S2 = 26 since "0.6.0",
        /// 4-bit signed integer, two to a byte, first in the low bits.
        S4 = 21 since "0.6.0",
        /// 8-bit signed integer.
        S8 = 2,
        /// 16-bit signed integer.
        S16 = 3,
        /// 32-bit signed integer.
        S32 = 4,
        /// 64-bit signed integer.
        S64 = 5,
        /// 1-bit unsigned integer.
        U1 = 31 since "0.6.0",
        /// 2-bit unsigned integer, four to a byte, first in the low bits.
        U2 = 27 since "0.6.0",
        /// 4-bit unsigned integer, two to a byte, first in the low bits.
        U4 = 22 since "0.6.0",
        /// 8-bit unsigned integer.
        U8 = 6,
        /// 16-bit unsigned integer.
        U16 = 7,
        /// 32-bit unsigned integer.
        U32 = 8,
        /// 64-bit unsigned integer.
        U64 = 9,
        /// IEEE half precision.
        F16 = 10,
        /// IEEE single precision.
        F32 = 11,
        /// IEEE double precision.
        F64 = 12,
        /// The upper half of a single.
        BF16 = 16,
        /// Two singles: real, imaginary.
        C64 = 15,
        /// Two doubles: real, imaginary.
        C128 = 18,
        /// An ordering token; rank 0, no elements.
        TOKEN = 17,
        /// 8-bit float, 5 exponent and 2 mantissa bits.
        F8E5M2 = 19,
        /// 8-bit float, 3 exponent and 4 mantissa bits.
        F8E3M4 = 29 since "0.4.35",
        /// 8-bit float, 4 exponent and 3 mantissa bits, with infinities.
        F8E4M3 = 28 since "0.4.35",
        /// 8-bit float, 4 exponent and 3 mantissa bits, finite.
        F8E4M3FN = 20,
        /// 8-bit float, 4 exponent and 3 mantissa bits, bias 11, finite, no negative zero.
        F8E4M3B11FNUZ = 23,
        /// 8-bit float, 5 exponent and 2 mantissa bits, finite, no negative zero.
        F8E5M2FNUZ = 24,
        /// 8-bit float, 4 exponent and 3 mantissa bits, finite, no negative zero.
        F8E4M3FNUZ = 25,
        /// 4-bit float, 2 exponent bits and 1 mantissa bit, two to a byte, first in the low bits.
        F4E2M1FN = 32 since "0.5.0",
        /// 8-bit power of two: exponent only.
        F8E8M0FNU = 33 since "0.5.0",
    }
}
