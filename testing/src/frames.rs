//! Call frames as no host makes them: sizes, counts, types, stages and nulls are anything; what is
//! not null is memory, and lists have as many entries as they say or more.

/// Whether lists and names that are not empty may be null. Handlers take the ABI's word for it that
/// they are not; a debugger's print takes nobody's.
#[derive(Clone, Copy, PartialEq)]
pub enum Lists {
    /// All are there.
    There,
    /// Any may be null.
    Null,
}

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::ffi::c_void;
use std::ptr;
use xla_ffi_sys::*;

/// Entries of every list, whatever it says to have at most.
const ROOM: usize = 6;

/// The elements behind every buffer and attribute; nothing below reads or writes more.
#[repr(align(64))]
#[derive(Debug)]
struct Memory([u8; 256]);

/// A list of operands.
#[derive(Clone, Debug)]
pub struct Operands {
    struct_size: usize,
    size: i64,
    has_types: bool,
    has_list: bool,
    entries: Vec<Operand>,
}

#[derive(Clone, Debug)]
struct Operand {
    kind: u32,
    is_there: bool,
    struct_size: usize,
    dtype: u32,
    offset: Option<usize>,
    rank: i64,
    dims: Option<Vec<i64>>,
}

/// A list of attributes.
#[derive(Clone, Debug)]
pub struct Attrs {
    struct_size: usize,
    size: i64,
    lists: [bool; 3],
    entries: Vec<Attr>,
}

#[derive(Clone, Debug)]
struct Attr {
    kind: u32,
    name: Option<&'static str>,
    value: Option<Value>,
}

/// What a value's memory holds; whether its kind fits is another matter, so each has the room of all.
#[derive(Clone, Debug)]
struct Value {
    dtype: u32,
    count: usize,
    has_data: bool,
}

/// A frame before it is laid out.
#[derive(Clone, Debug)]
pub struct Mutated {
    struct_size: usize,
    api_size: usize,
    minor_version: i32,
    stage: u32,
    args: Operands,
    rets: Operands,
    attrs: Attrs,
}

fn size(right: usize) -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => Just(right),
        1 => 0..=right,
        1 => prop_oneof![Just(usize::MAX), Just(0), Just(right + 8)],
    ]
}

fn count() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0..=ROOM as i64, 1 => -2_i64..0, 1 => Just(i64::MIN)]
}

/// Mostly yes.
fn there() -> impl Strategy<Value = bool> {
    proptest::bool::weighted(0.95)
}

/// Whether a list is there.
fn list(lists: Lists) -> impl Strategy<Value = bool> {
    there().prop_map(move |there| there || lists == Lists::There)
}

/// A dtype of today, and sometimes any number.
fn dtype() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(XLA_FFI_DataType::F32.0), 4 => 0..40_u32, 1 => any::<u32>()]
}

fn operand() -> impl Strategy<Value = Operand> {
    let dims = vec(
        prop_oneof![8 => 0..5_i64, 1 => select(&[-1, i64::MIN, i64::MAX, 1 << 40][..])],
        ROOM,
    );
    (
        prop_oneof![9 => Just(1_u32), 1 => any::<u32>()],
        there(),
        size(48),
        dtype(),
        prop_oneof![8 => Just(Some(0)), 1 => Just(None), 1 => (0..64_usize).prop_map(Some)],
        prop_oneof![8 => 0..=3_i64, 1 => -2_i64..=ROOM as i64, 1 => Just(i64::MIN)],
        prop_oneof![9 => dims.prop_map(Some), 1 => Just(None)],
    )
        .prop_map(
            |(kind, is_there, struct_size, dtype, offset, rank, dims)| Operand {
                kind,
                is_there,
                struct_size,
                dtype,
                offset,
                rank,
                dims,
            },
        )
}

fn operands(lists: Lists) -> impl Strategy<Value = Operands> {
    (
        size(40),
        count(),
        list(lists),
        list(lists),
        vec(operand(), ROOM),
    )
        .prop_map(
            |(struct_size, size, has_types, has_list, entries)| Operands {
                struct_size,
                size,
                has_types,
                has_list,
                entries,
            },
        )
}

fn attr(names: &'static [&'static str], lists: Lists) -> impl Strategy<Value = Attr> {
    let value = (dtype(), 0..4_usize, there()).prop_map(|(dtype, count, has_data)| Value {
        dtype,
        count,
        has_data,
    });
    (
        prop_oneof![8 => 1..=4_u32, 1 => any::<u32>()],
        (select(names), list(lists)).prop_map(|(name, there)| there.then_some(name)),
        prop_oneof![9 => value.prop_map(Some), 1 => Just(None)],
    )
        .prop_map(|(kind, name, value)| Attr { kind, name, value })
}

fn attrs(names: &'static [&'static str], lists: Lists) -> impl Strategy<Value = Attrs> {
    (
        size(48),
        count(),
        [list(lists), list(lists), list(lists)],
        vec(attr(names, lists), ROOM),
    )
        .prop_map(|(struct_size, size, lists, entries)| Attrs {
            struct_size,
            size,
            lists,
            entries,
        })
}

/// Frames whose attributes have these names.
pub fn frames(names: &'static [&'static str], lists: Lists) -> impl Strategy<Value = Mutated> {
    (
        size(168),
        size(208),
        0..8_i32,
        prop_oneof![9 => Just(3_u32), 1 => any::<u32>()],
        operands(lists),
        operands(lists),
        attrs(names, lists),
    )
        .prop_map(
            |(struct_size, api_size, minor_version, stage, args, rets, attrs)| Mutated {
                struct_size,
                api_size,
                minor_version,
                stage,
                args,
                rets,
                attrs,
            },
        )
}

/// What a list points to.
struct Laid {
    _buffers: Vec<XLA_FFI_Buffer>,
    pointers: Vec<*mut c_void>,
    types: Vec<u32>,
}

fn lay(operands: &mut Operands, memory: &mut Memory) -> Laid {
    let base = memory.0.as_mut_ptr();
    let mut buffers: Vec<_> = operands
        .entries
        .iter_mut()
        .map(|operand| XLA_FFI_Buffer {
            struct_size: operand.struct_size,
            extension_start: ptr::null_mut(),
            dtype: XLA_FFI_DataType(operand.dtype),
            data: operand
                .offset
                .map_or(ptr::null_mut(), |offset| base.wrapping_add(offset).cast()),
            rank: operand.rank,
            dims: operand
                .dims
                .as_mut()
                .map_or(ptr::null_mut(), |dims| dims.as_mut_ptr()),
        })
        .collect();
    let pointers = buffers
        .iter_mut()
        .zip(&operands.entries)
        .map(|(buffer, operand)| match operand.is_there {
            true => ptr::from_mut(buffer).cast(),
            false => ptr::null_mut(),
        })
        .collect();
    Laid {
        _buffers: buffers,
        pointers,
        types: operands.entries.iter().map(|o| o.kind).collect(),
    }
}

/// The pointer, or null.
fn there_or_null<T>(is_there: bool, list: &mut [T]) -> *mut T {
    if is_there {
        list.as_mut_ptr()
    } else {
        ptr::null_mut()
    }
}

impl Mutated {
    /// Lays the frame out, with this table but for its size and version, and gives it to `work`.
    pub fn with(mut self, mut api: XLA_FFI_Api, work: impl FnOnce(*mut XLA_FFI_CallFrame)) {
        api.struct_size = self.api_size;
        api.api_version.minor_version = self.minor_version;
        let mut memory = [const { Memory([0; 256]) }; 3];
        let [for_args, for_rets, for_attrs] = &mut memory;
        let mut args = lay(&mut self.args, for_args);
        let mut rets = lay(&mut self.rets, for_rets);
        let base: *mut c_void = for_attrs.0.as_mut_ptr().cast();
        let mut spans: Vec<_> = self
            .attrs
            .entries
            .iter()
            .map(|attr| XLA_FFI_ByteSpan {
                ptr: attr.name.map_or(ptr::null(), |name| name.as_ptr().cast()),
                len: attr.name.map_or(0, str::len),
            })
            .collect();
        let mut names: Vec<_> = spans
            .iter_mut()
            .map(|span| match span.ptr.is_null() {
                true => ptr::null_mut(),
                false => ptr::from_mut(span),
            })
            .collect();
        // An array, a scalar, a span, or an empty dictionary, as the kind has it.
        let mut values: Vec<[usize; 6]> = self
            .attrs
            .entries
            .iter()
            .map(|attr| {
                let Some(value) = &attr.value else {
                    return [0; 6];
                };
                let data = if value.has_data { base as usize } else { 0 };
                let dtype = value.dtype as usize;
                match attr.kind {
                    1 => [dtype, value.count, data, 0, 0, 0],
                    2 => [48, 0, 0, 0, 0, 0],
                    3 => [dtype, data, 0, 0, 0, 0],
                    4 => [data, if data == 0 { 0 } else { value.count }, 0, 0, 0, 0],
                    _ => [0; 6],
                }
            })
            .collect();
        let mut pointers: Vec<*mut c_void> = values
            .iter_mut()
            .zip(&self.attrs.entries)
            .map(|(words, attr)| match attr.value {
                Some(_) => words.as_mut_ptr().cast(),
                None => ptr::null_mut(),
            })
            .collect();
        let mut kinds: Vec<_> = self.attrs.entries.iter().map(|attr| attr.kind).collect();
        let mut frame = XLA_FFI_CallFrame {
            struct_size: self.struct_size,
            extension_start: ptr::null_mut(),
            api: &raw const api,
            ctx: ptr::null_mut(),
            stage: XLA_FFI_ExecutionStage(self.stage),
            args: XLA_FFI_Args {
                struct_size: self.args.struct_size,
                extension_start: ptr::null_mut(),
                size: self.args.size,
                types: there_or_null(self.args.has_types, &mut args.types).cast(),
                args: there_or_null(self.args.has_list, &mut args.pointers),
            },
            rets: XLA_FFI_Rets {
                struct_size: self.rets.struct_size,
                extension_start: ptr::null_mut(),
                size: self.rets.size,
                types: there_or_null(self.rets.has_types, &mut rets.types).cast(),
                rets: there_or_null(self.rets.has_list, &mut rets.pointers),
            },
            attrs: XLA_FFI_Attrs {
                struct_size: self.attrs.struct_size,
                extension_start: ptr::null_mut(),
                size: self.attrs.size,
                types: there_or_null(self.attrs.lists[0], &mut kinds).cast(),
                names: there_or_null(self.attrs.lists[1], &mut names),
                attrs: there_or_null(self.attrs.lists[2], &mut pointers),
            },
            future: ptr::null_mut(),
        };
        work(&raw mut frame);
    }
}

/// One in `share` of `XLA_FFI_CASES`, or of so many.
pub fn config(cases: u32, share: u32) -> ProptestConfig {
    let given = std::env::var("XLA_FFI_CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    ProptestConfig {
        cases: given.unwrap_or(cases) / share,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
