//! Struct layouts as data, which is checked at compile time.

use crate::Revision;

/// The memory layout of one field of a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLayout {
    /// The C name of the field.
    pub name: &'static str,
    /// The field's type in Rust notation, for example `*mut XLA_FFI_Error`.
    pub ty: &'static str,
    /// The offset of the field from the start of the struct in bytes.
    pub offset: usize,
    /// The size of the field in bytes.
    pub size: usize,
}

/// The memory layout of one struct on a 64-bit host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructLayout {
    /// The struct's name in C, without the revision suffix that old layouts have in Rust.
    pub name: &'static str,
    /// The size of the struct in bytes.
    pub size: usize,
    /// The alignment of the struct in bytes.
    pub align: usize,
    /// The last field and the value in bytes of XLA's `STRUCT_SIZE` macro, or `None` for structs
    /// without a size field.
    pub struct_size: Option<(&'static str, usize)>,
    /// All fields of the struct, in order.
    pub fields: &'static [FieldLayout],
    /// The oldest revision with this layout.
    pub since: Revision,
    /// The newest revision with this layout.
    pub until: Revision,
}

/// A struct of the ABI with a known layout.
pub trait Layout {
    /// The struct's layout, which is checked at compile time.
    const LAYOUT: StructLayout;
}

/// One enumerator of a C enumeration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enumerator {
    /// The enumerator's name in C.
    pub name: &'static str,
    /// The value of the enumerator.
    pub value: u32,
    /// The first jaxlib whose header has the enumerator.
    pub since: &'static str,
}

/// A C enumeration, which is a transparent newtype with associated constants in Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnumLayout {
    /// The enumeration's name in C.
    pub name: &'static str,
    /// All enumerators, in the order of the C header.
    pub values: &'static [Enumerator],
}

/// Checks a struct's layout, and makes the layout available as data.
///
/// The check covers the exact type of each field, and every field must be listed. A missing field
/// does not compile, even if it only fills padding. `R9..` marks the current layout, and `R9..=R9`
/// marks a past layout.
macro_rules! layout {
    (
        $rust:ident $(as $c:literal)?, $since:ident $(..)? $(..=$until:ident)?, size $size:literal
        $(, struct_size $last:ident $struct_size:literal)?
        { $($field:ident: $ty:ty = $offset:literal),* $(,)? }
    ) => {
        const _: () = {
            use core::marker::PhantomData;
            assert!(core::mem::size_of::<$rust>() == $size);
            $(assert!(core::mem::offset_of!($rust, $field) == $offset);)*
            $(assert!(layout!(@end $rust, $last) == $struct_size);)?
            const fn type_of<T>(_: &T) -> PhantomData<T> {
                PhantomData
            }
            #[expect(dead_code, reason = "compiling it is the proof")]
            fn exhaustive(value: &$rust) {
                let $rust { $($field),* } = value;
                $(let _: PhantomData<$ty> = type_of($field);)*
            }
        };
        $(impl $rust {
            #[doc = concat!(
                "The value of the struct's size field: the number of bytes up to the end of `",
                stringify!($last), "`."
            )]
            pub const STRUCT_SIZE: usize = $struct_size;
        })?
        impl $crate::Layout for $rust {
            const LAYOUT: $crate::StructLayout = $crate::StructLayout {
                name: layout!(@name $rust $($c)?),
                size: $size,
                align: core::mem::align_of::<$rust>(),
                struct_size: layout!(@size $($last $struct_size)?),
                fields: &[$($crate::FieldLayout {
                    name: stringify!($field),
                    ty: stringify!($ty),
                    offset: $offset,
                    size: core::mem::size_of::<$ty>(),
                }),*],
                since: $crate::Revision::$since,
                until: layout!(@until $($until)?),
            };
        }
    };
    (@until) => { $crate::Revision::NEWEST };
    (@until $until:ident) => { $crate::Revision::$until };
    (@name $rust:ident) => { stringify!($rust) };
    (@name $rust:ident $c:literal) => { $c };
    (@size) => { None };
    (@size $last:ident $size:literal) => { Some((stringify!($last), $size)) };
    (@end $rust:ident, $last:ident) => {{
        const fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
            core::mem::size_of::<F>()
        }
        core::mem::offset_of!($rust, $last) + size_of_field(|value: &$rust| &value.$last)
    }};
}

/// Declares a C enumeration as a transparent newtype.
///
/// `prefix` is the prefix of the C enumerators. `since` is a jaxlib version; the default is
/// `"0.4.31"`.
macro_rules! enumeration {
    (
        $(#[$meta:meta])*
        $name:ident, $prefix:literal {
            $($(#[$value_meta:meta])* $value:ident = $number:literal $(since $since:literal)?),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$value_meta])* pub const $value: Self = Self($number);)*

            /// Returns the name of the enumerator without the C prefix, or `None` for unknown
            /// values.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($value)),)*
                    _ => None,
                }
            }

            /// Returns the enumerator's name in lower case, or `None` for unknown values.
            #[must_use]
            pub const fn lower_name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => {
                        const LOWER: [u8; stringify!($value).len()] =
                            $crate::layout::lower(stringify!($value));
                        Some($crate::layout::text(&LOWER))
                    })*
                    _ => None,
                }
            }

            /// The enumeration as data.
            pub const ENUM: $crate::EnumLayout = $crate::EnumLayout {
                name: stringify!($name),
                values: &[$($crate::Enumerator {
                    name: concat!($prefix, stringify!($value)),
                    value: $number,
                    since: enumeration!(@since $($since)?),
                }),*],
            };
        }
    };
    (@since) => { "0.4.31" };
    (@since $since:literal) => { $since };
}

/// Converts ASCII text to lower case.
pub(crate) const fn lower<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let mut i = 0;
    while i < N {
        bytes[i] = text.as_bytes()[i].to_ascii_lowercase();
        i += 1;
    }
    bytes
}

/// Converts the bytes of [`lower`] to text.
pub(crate) const fn text(bytes: &[u8]) -> &str {
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("identifiers are ASCII"),
    }
}

/// Declares an opaque type of the host, which is used only through pointers.
macro_rules! opaque {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            _data: [u8; 0],
            _not_send_sync_unpin: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
        }
    };
}
