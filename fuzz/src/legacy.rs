//! What reaches functions of the original conventions, and what they are made of: opaque bytes as
//! attributes of a handler and as sizes, statuses, attributes as opaque bytes, texts of structures.
//!
//! The first byte of an input chooses among them. Unsafe: functions of C are called, and what they read
//! ends where a page does that nobody may touch.

use crate::text::text;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::ffi::{CString, c_char, c_int, c_void};
use xla_ffi::__private::legacy::{LegacyTarget, is_structure};
use xla_ffi::legacy::{Function, Shapes, set_failure};
use xla_ffi::prelude::*;
use xla_ffi::sys::{XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Handler, XlaCustomCallStatus};
use xla_ffi::{AnyOut, DataType};
use xla_ffi_runtime::legacy::Status;
use xla_ffi_runtime::{
    Attribute, AttributeArray, Attributes, Bundle, DType, Executable, Handler, Runtime, Shape,
    Tensor,
};

pub(crate) fn attack(input: &[u8]) {
    let Some((kind, input)) = input.split_first() else {
        return;
    };
    match kind % 6 {
        0 => opaque_text(input),
        1 => opaque_numbers(input),
        2 => shapes_of_opaque(input),
        3 => failure(input),
        4 => adapted(input),
        _ => structure(input),
    }
}

/// Bytes that end where memory does.
pub(crate) struct Guarded {
    pages: *mut c_void,
    length: usize,
    pub(crate) at: *const u8,
}

const PAGE: usize = 1 << 14;

impl Guarded {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let room = bytes.len().next_multiple_of(PAGE);
        let length = room + PAGE;
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory, wherever there is room.
        let pages =
            unsafe { mmap_anonymous(std::ptr::null_mut(), length, flags, MapFlags::PRIVATE) };
        let pages = pages.expect("there is memory");
        // SAFETY: the last page of what was just mapped; nobody refers to it.
        unsafe { mprotect(pages.wrapping_byte_add(room), PAGE, MprotectFlags::empty()) }
            .expect("the page can be closed");
        let at = pages.cast::<u8>().wrapping_add(room - bytes.len());
        // SAFETY: so many bytes lie between `at` and the closed page.
        unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Self { pages, length, at }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; what was called has returned.
        let _ = unsafe { munmap(self.pages, self.length) };
    }
}

/// What operands of a call lie in: as much as any of the targets says, aligned for all.
#[repr(align(64))]
struct Room([u8; LARGEST]);
/// Bytes of an operand.
const LARGEST: usize = 1024;
/// More elements than there are addresses for, were they of one bit each.
const UNADDRESSABLE: i128 = 1 << 70;
/// Operands of a call.
const MOST: usize = 24;

/// Calls a target of the form `cpu_unified` with these opaque bytes; the message where it fails.
fn call<T: LegacyTarget>(opaque: &[u8], rets: usize) -> (Vec<Room>, Option<Vec<u8>>) {
    let Function::CpuUnified(function) = T::INFO.function else {
        unreachable!("the targets are of this form");
    };
    let mut results: Vec<Room> = (0..MOST).map(|_| Room([0; LARGEST])).collect();
    let argument = Room([0; LARGEST]);
    let mut ins = [(&raw const argument).cast::<c_void>(); MOST];
    let mut outs: Vec<*mut c_void> = results
        .iter_mut()
        .map(|room| (&raw mut *room).cast())
        .collect();
    let out = match rets {
        1 => outs[0],
        _ => outs.as_mut_ptr().cast(),
    };
    let (status, opaque) = (Status::new(), Guarded::new(opaque));
    let length = opaque.length - PAGE - (opaque.at.addr() - opaque.pages.addr());
    // SAFETY: every operand has at least the room that the target says; the status lives.
    unsafe {
        function(
            out,
            ins.as_mut_ptr(),
            opaque.at.cast(),
            length,
            status.as_ptr(),
        )
    };
    (results, status.finish())
}

fn first_number(results: &[Room]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&results[0].0[..8]);
    u64::from_ne_bytes(bytes)
}

#[xla_ffi::handler]
fn text_length(_x: Buffer<f32>, mut y: Out<u64>, opaque: &str) -> Result<()> {
    y.fill(opaque.chars().count() as u64);
    Ok(())
}

#[xla_ffi::handler]
fn one_number(_x: Buffer<f32>, mut y: Out<u64>, opaque: i32) -> Result<()> {
    y.fill(opaque.unsigned_abs().into());
    Ok(())
}

#[xla_ffi::handler]
fn one_truth(_x: Buffer<f32>, mut y: Out<u64>, opaque: bool) -> Result<()> {
    y.fill(opaque.into());
    Ok(())
}

#[xla_ffi::handler]
fn numbers(_x: Buffer<f32>, mut y: Out<u64>, opaque: &[i64]) -> Result<()> {
    let sum = opaque.iter().fold(0_i64, |sum, one| sum.wrapping_add(*one));
    y.fill(sum as u64);
    Ok(())
}

#[xla_ffi::handler]
fn copied_numbers(_x: Buffer<f32>, mut y: Out<u64>, opaque: Vec<i64>) -> Result<()> {
    let sum = opaque.iter().fold(0_i64, |sum, one| sum.wrapping_add(*one));
    y.fill(sum as u64);
    Ok(())
}

/// Every byte of every operand that the sizes say is there.
#[xla_ffi::handler]
fn everything(args: RemainingArgs, rets: RemainingRets) -> Result<()> {
    let mut sum = 0_u8;
    for arg in args {
        sum = arg
            .bytes()
            .iter()
            .fold(sum, |sum, byte| sum.wrapping_add(*byte));
    }
    for ret in rets {
        let mut ret: AnyOut<'_> = ret;
        ret.fill_bytes(sum);
    }
    Ok(())
}

xla_ffi::legacy! {
    text_target = cpu_unified(text_length), opaque = "opaque": f32[1] -> u64[1];
    number_target = cpu_unified(one_number), opaque = "opaque": f32[1] -> u64[1];
    truth_target = cpu_unified(one_truth), opaque = "opaque": f32[1] -> u64[1];
    numbers_target = cpu_unified(numbers), opaque = "opaque": f32[1] -> u64[1];
    copied_target = cpu_unified(copied_numbers), opaque = "opaque": f32[1] -> u64[1];
}

mod sized {
    #![expect(
        clippy::undocumented_unsafe_blocks,
        reason = "it does not see the comment through the macro"
    )]
    use super::{everything, shapes};

    xla_ffi::legacy! {
        // SAFETY: it refuses what is larger than the operands' room.
        pub(super) sized_target = cpu_unified(everything), shapes = unsafe shapes;
    }
}

fn opaque_text(opaque: &[u8]) {
    let (results, failure) = call::<text_target>(opaque, 1);
    match (text(opaque), failure) {
        (Some(text), None) => assert_eq!(first_number(&results), text.chars().count() as u64),
        (None, Some(message)) => assert!(!message.is_empty()),
        (_, failure) => panic!("{failure:?} for {opaque:?}"),
    }
}

fn opaque_numbers(opaque: &[u8]) {
    let (results, failure) = call::<number_target>(opaque, 1);
    let number = <[u8; 4]>::try_from(opaque).map(i32::from_ne_bytes);
    assert_eq!(failure.is_none(), number.is_ok(), "{failure:?}");
    if let Ok(number) = number {
        assert_eq!(first_number(&results), u64::from(number.unsigned_abs()));
    }
    // Any byte is a truth, as in C.
    let (results, failure) = call::<truth_target>(opaque, 1);
    assert_eq!(failure.is_none(), opaque.len() == 1, "{failure:?}");
    if let [byte] = opaque {
        assert_eq!(first_number(&results), u64::from(*byte != 0));
    }
    let whole = opaque.chunks_exact(8);
    let rest = whole.remainder();
    let sum = whole.fold(0_i64, |sum, one| {
        sum.wrapping_add(i64::from_ne_bytes(one.try_into().unwrap()))
    });
    let (results, failure) = call::<copied_target>(opaque, 1);
    assert_eq!(failure.is_none(), rest.is_empty(), "{failure:?}");
    assert!(failure.is_some() || first_number(&results) == sum as u64);
    // A slice wants them aligned, which opaque bytes need not be.
    let (results, failure) = call::<numbers_target>(opaque, 1);
    assert!(rest.is_empty() || failure.is_some());
    assert!(failure.is_some() || first_number(&results) == sum as u64);
}

/// Operands, each a type, a rank and dimensions; those that the operands' room does not hold are an error.
fn shapes(opaque: &[u8]) -> Result<Shapes> {
    let mut rest = opaque;
    let mut byte = move || {
        let (first, behind) = rest.split_first()?;
        rest = behind;
        Some(*first)
    };
    let mut shapes = Shapes::default();
    while let Some(head) = byte() {
        let dtype = DataType(u32::from(byte().unwrap_or(0)).wrapping_sub(1));
        let mut dims = vec![];
        for _ in 0..head >> 4 {
            let mut word = [0; 8];
            // Small ones are more telling than those that nothing holds.
            let wide = byte().unwrap_or(0);
            word[0] = byte().unwrap_or(0);
            if wide > 0xF0 {
                word.iter_mut()
                    .for_each(|part| *part = byte().unwrap_or(0xFF));
            }
            dims.push(i64::from_le_bytes(word));
        }
        // What nobody can address, and less than nothing, is for the SDK to refuse.
        let count = dims
            .iter()
            .fold(1_i128, |all, dim| all.saturating_mul((*dim).into()));
        if (LARGEST as i128 / 16 + 1..UNADDRESSABLE).contains(&count) {
            return Err(Error::invalid_argument("the room is smaller"));
        }
        let list = if head & 1 == 0 {
            &mut shapes.args
        } else {
            &mut shapes.rets
        };
        list.push((dtype, dims));
    }
    if shapes.args.len() > MOST || shapes.rets.len() > MOST {
        return Err(Error::invalid_argument("too many operands"));
    }
    Ok(shapes)
}

fn shapes_of_opaque(opaque: &[u8]) {
    let said = shapes(opaque);
    let rets = said.as_ref().map_or(0, |shapes| shapes.rets.len());
    let (_, failure) = call::<sized::sized_target>(opaque, rets);
    if let Err(error) = said {
        assert_eq!(failure, Some(error.to_string().into_bytes()));
    } else if let Ok(shapes) = said {
        let all = shapes.args.iter().chain(&shapes.rets);
        let cannot_be = all.clone().any(|(_, dims)| dims.iter().any(|dim| *dim < 0));
        assert!(!cannot_be || failure.is_some(), "{shapes:?} were taken");
    }
}

/// A status takes any bytes.
fn failure(message: &[u8]) {
    let status = Status::new();
    // SAFETY: the status lives.
    unsafe { set_failure(status.as_ptr(), message) };
    let kept = status.finish().expect("it failed");
    assert_eq!(kept, message);
}

unsafe extern "C" {
    fn fuzz_legacy_structure(structure: *const c_char);
    fn fuzz_legacy_adapted(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;
    fn fuzz_legacy_take() -> Called;
}

/// What the adapted function of C saw.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Called {
    length: usize,
    sum: u64,
    calls: c_int,
}

unsafe extern "C" fn called(
    _out: *mut c_void,
    _ins: *mut *const c_void,
    opaque: *const c_char,
    length: usize,
    _status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the adapter names so many bytes.
    let opaque = unsafe { std::slice::from_raw_parts(opaque.cast::<u8>(), length) };
    let seen = Called {
        length,
        sum: opaque.iter().map(|byte| u64::from(*byte)).sum(),
        calls: 1,
    };
    SEEN.set(seen);
}

thread_local! {
    static SEEN: std::cell::Cell<Called> = const { std::cell::Cell::new(Called { length: 0, sum: 0, calls: 0 }) };
}

xla_ffi::adapt! {
    rust_adapted = unsafe cpu_unified(called), opaque = "opaque";
}

/// The handlers of both languages, made once.
fn handlers() -> [Handler; 2] {
    let c: XLA_FFI_Handler = fuzz_legacy_adapted;
    // SAFETY: a handler of this program.
    let c = unsafe { Bundle::execute(c) };
    [
        ("rust", xla_ffi::internal::bundle::<rust_adapted>()),
        ("c", c),
    ]
    .map(|(name, bundle)| Runtime::default().handler(name, bundle).expect("it is one"))
}

/// An attribute as opaque bytes: a text, or an array of any type.
fn adapted(input: &[u8]) {
    let Some((which, bytes)) = input.split_first() else {
        return;
    };
    let types: Vec<DType> = DType::all()
        .filter(|dtype| *dtype != DType::Token)
        .collect();
    let attribute = match types.get(usize::from(*which)) {
        None => Attribute::Str(bytes.to_vec()),
        Some(dtype) => {
            let size = bytes.len() * 8 / dtype.bits();
            let bytes = &bytes[..dtype.bytes_for(size).expect("no more than there are")];
            Attribute::Array(AttributeArray::new(*dtype, size, bytes.to_vec()).expect("its bytes"))
        }
    };
    let (expected, packed) = match &attribute {
        Attribute::Array(array) => (array.bytes().to_vec(), array.dtype().is_packed()),
        Attribute::Str(bytes) => (bytes.clone(), false),
        _ => unreachable!("it is one of these"),
    };
    let sum = expected.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let attributes = Attributes::new().with("opaque", attribute);
    for (index, handler) in HANDLERS.with(Clone::clone).iter().enumerate() {
        let executable = handler.instantiate_any(&attributes).expect("no such stage");
        let (outcome, seen) = run(&executable, 1, 1, None);
        let seen = if index == 0 { SEEN.get() } else { seen };
        match outcome {
            Ok(()) => assert_eq!((seen.length, seen.sum), (expected.len(), sum), "{index}"),
            Err(error) => assert!(packed, "{index}: {error}"),
        }
    }
}

thread_local! {
    static HANDLERS: [Handler; 2] = handlers();
}

/// Calls a handler with so many numbers; what the function of C saw.
fn run(
    executable: &Executable,
    args: usize,
    rets: usize,
    structure: Option<&CString>,
) -> (xla_ffi_runtime::Result<()>, Called) {
    let structure = structure.map_or(std::ptr::null(), |text| text.as_ptr());
    // SAFETY: the text outlives the call.
    unsafe { fuzz_legacy_structure(structure) };
    let mut call = executable.call();
    for _ in 0..args {
        call = call.arg(Tensor::from_slice([1], &[1.0_f32]).expect("one number"));
    }
    for _ in 0..rets {
        call = call.ret(Shape::new(DType::F32, [1]).expect("one number"));
    }
    let outcome = call.run().map(drop);
    // SAFETY: it may always be called.
    (outcome, unsafe { fuzz_legacy_take() })
}

/// Both languages take the same texts, and C those for the number of operands that there are.
fn structure(input: &[u8]) {
    let Some((counts, text)) = input.split_first() else {
        return;
    };
    let Ok(text) = CString::new(text) else { return };
    let Ok(known) = text.to_str() else { return };
    let (args, rets) = (usize::from(counts >> 4), usize::from(counts & 15));
    let leaves = |text: &str| text.matches('_').count();
    let fits = is_structure(known)
        && known
            .split_once("->")
            .is_some_and(|(from, to)| (leaves(from), leaves(to)) == (args, rets));
    let attributes = Attributes::new().with("opaque", "");
    let executable = HANDLERS.with(|handlers| handlers[1].instantiate(&attributes));
    let (outcome, seen) = run(&executable.expect("no such stage"), args, rets, Some(&text));
    assert_eq!(
        outcome.is_ok(),
        fits,
        "{known:?} with {args} and {rets}: {outcome:?}"
    );
    assert_eq!(seen.calls, c_int::from(fits));
}
