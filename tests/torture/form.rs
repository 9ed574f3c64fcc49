//! The forms of handlers under test, each with one call.

use crate::interpose;
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use xla_ffi::prelude::*;
use xla_ffi::{HostType, Scratch, UserData};
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{
    Attributes, Bundle, HostAllocator, Library, Shape, Stage, Stages, Tensor, UserData as Objects,
};
use xla_ffi_sys::{XLA_FFI_Api, XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Metadata_Extension};

/// A form of a handler, with a call of the handler. Each line of `forms.txt` describes a form.
pub(crate) struct Form {
    pub(crate) name: &'static str,
    pub(crate) library: &'static str,
    symbol: &'static str,
    attributes: Attributes,
    args: Vec<Tensor>,
    rets: Vec<Shape>,
    /// The outcome of a call in which nothing fails: `right`, or `error CODE`.
    pub(crate) ends: String,
    /// Whether a failed host call may change the result instead of causing an error.
    pub(crate) optional: bool,
}

impl Form {
    fn parse(line: &'static str) -> Self {
        let parts: Vec<&'static str> = line.split('|').map(str::trim).collect();
        let [name, handler, attributes, operands, code] = parts[..] else {
            panic!("{line}");
        };
        let (library, symbol) = handler.split_once(' ').expect("a library and a symbol");
        let (args, rets) = operands.split_once("->").expect("operands");
        let tensors = |text: &str| {
            let (times, spec) = text.split_once('*').unwrap_or(("1", text));
            let tensor = Spec::parse(spec)
                .expect("an argument")
                .tensor()
                .expect("memory");
            vec![tensor; times.parse().expect("a number")]
        };
        let optional = code == "optional";
        Self {
            name,
            library,
            symbol: symbol.trim(),
            attributes: Attributes::parse(attributes).expect("attributes"),
            args: args.split_whitespace().flat_map(tensors).collect(),
            rets: rets
                .split_whitespace()
                .map(|ret| parse_result(ret).expect("a result"))
                .collect(),
            ends: if code.is_empty() || optional {
                "right".to_owned()
            } else {
                format!("error {code}")
            },
            optional,
        }
    }
}

pub(crate) fn forms() -> impl Iterator<Item = Form> {
    let lines = include_str!("forms.txt").lines();
    lines
        .filter(|line| line.contains('|') && !line.starts_with('#'))
        .map(Form::parse)
}

#[xla_ffi::handler]
fn scratch(scratch: Scratch, mut y: Out<i64, 0>) -> Result<()> {
    let mut sum = 0;
    for size in [64, 8] {
        let memory = scratch.allocate(size, size)?.cast::<u8>();
        // SAFETY: the scratch memory is in this process and has `size` bytes.
        unsafe { memory.write_bytes(7, size) };
        // SAFETY: the line above initializes the memory.
        sum += unsafe { memory.read() };
    }
    y.fill(sum.into());
    Ok(())
}

/// User data that this program passes to calls.
#[derive(HostType)]
// SAFETY: under this name and id, the program only passes objects of this type.
#[host_type(unsafe(name = "torture.number", id = 4242))]
struct Number(i64);

#[xla_ffi::handler]
fn user_data(number: Option<UserData<Number>>, mut y: Out<i64, 0>) -> Result<()> {
    y.fill(number.map_or(-1, |number| number.0));
    Ok(())
}

xla_ffi::library! { name = "torture"; scratch, user_data }

/// Address of the library's `xla_ffi_register`, which the handler `register` calls.
static ENTRY: AtomicUsize = AtomicUsize::new(0);

/// A handler that registers the library with the host of the call.
unsafe extern "C" fn register(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the host passes a valid frame.
    let frame = unsafe { &*frame };
    // SAFETY: the only extension that hosts pass to handlers is the metadata extension.
    if let Some(question) = unsafe {
        frame
            .extension_start
            .cast::<XLA_FFI_Metadata_Extension>()
            .as_ref()
    } {
        // SAFETY: the frame has the host's valid table.
        let version = unsafe { (*frame.api).api_version };
        // SAFETY: the host's metadata is writable during the call.
        unsafe { (*question.metadata).api_version = version };
        return std::ptr::null_mut();
    }
    type Entry = unsafe extern "C" fn(*const XLA_FFI_Api, *const c_char) -> *mut XLA_FFI_Error;
    // SAFETY: `ENTRY` is the library's registration function, which has this type.
    let entry: Entry = unsafe { std::mem::transmute(ENTRY.load(Ordering::Relaxed)) };
    // SAFETY: the table is the host's, and the platform is a C string.
    unsafe { entry(frame.api, c"cpu".as_ptr()) }
}

/// Returns the address of a handler in the library, or else in this program, which has some Rust handlers.
fn address(library: &Library, symbol: &str) -> Option<*mut c_void> {
    let own = match symbol {
        "scratch" => Some(xla_ffi::embed::bundle::<scratch>()),
        "user_data" => Some(xla_ffi::embed::bundle::<user_data>()),
        _ => None,
    };
    let own = own.and_then(|bundle| bundle.get(Stage::Execute));
    let found = library.symbol(symbol).ok();
    if symbol == "xla_ffi_register" {
        ENTRY.store(found? as usize, Ordering::Relaxed);
        return Some(register as *mut c_void);
    }
    found.or(own.map(|own| own as *mut c_void))
}

/// Returns a result and the address of its memory, which is never freed.
fn place(shape: Shape) -> (Tensor, *const [u8]) {
    let size = shape.bytes();
    let memory = vec![0xa5_a5_a5_a5_u128; size / 16 + 1].leak().as_mut_ptr();
    // SAFETY: the memory is never freed, and only this tensor writes it.
    let tensor = unsafe { Tensor::from_raw(shape, memory.cast(), ()) };
    let bytes = std::ptr::slice_from_raw_parts(memory.cast_const().cast(), size);
    (tensor.expect("aligned memory"), bytes)
}

/// Calls a form. Returns `right VALUES`, `error CODE MESSAGE`, or `none` if the language lacks the form. Sets `late` if
/// results change after the call has failed.
pub(crate) fn call(
    form: &Form,
    library: &Library,
    scratch: &Arc<HostAllocator>,
    late: &mut bool,
) -> String {
    let runtime = library.runtime();
    if address(library, form.symbol).is_none() {
        return "none".to_owned();
    }
    let mut places: Vec<*const [u8]> = vec![];
    let mut objects = Objects::new(runtime);
    // SAFETY: the object is a static of the registered type.
    unsafe { objects.insert_borrowed(4242, (&raw const NUMBER).cast_mut().cast()) }.expect("one");
    let run = || {
        let mut bundle = Bundle::default();
        let instantiate = format!("{}_instantiate", form.symbol);
        for (stage, symbol) in [
            (Stage::Execute, form.symbol),
            (Stage::Instantiate, &instantiate),
        ] {
            if let Some(address) = address(library, symbol) {
                // SAFETY: the address is that of a handler for this stage.
                bundle = unsafe { bundle.with(stage, interpose::counted(stage, address)) };
            }
        }
        let executable = runtime
            .handler(form.symbol, bundle)?
            .instantiate(&form.attributes)?;
        let mut call = executable
            .call()
            .stages(Stages::Cpu)
            .run_id(77)
            .device_ordinal(2048);
        call = call
            .args(form.args.clone())
            .allocator(scratch.clone())
            .user_data(objects);
        for shape in &form.rets {
            let (tensor, bytes) = place(shape.clone());
            places.push(bytes);
            call = call.ret_in(tensor);
        }
        call.run()
    };
    let outcome = run();
    let values = || {
        places
            .iter()
            // SAFETY: the memory is never freed.
            .map(|place| unsafe { &**place }.to_vec())
            .collect::<Vec<_>>()
    };
    // Only the first result that has bytes is compared. A second result may depend on the order of threads.
    let compared = form.rets.iter().position(|ret| ret.bytes() > 0);
    match outcome {
        Ok(_) => format!(
            "right {:?}",
            compared.map(|index| values().swap_remove(index))
        ),
        Err(error) => {
            let before = values();
            if interpose::running() > 0 {
                std::thread::sleep(Duration::from_millis(60));
            }
            *late |= before != values();
            format!("error {} {}", error.code().name(), error.message())
        }
    }
}

static NUMBER: i64 = 99;
