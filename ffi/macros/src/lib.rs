//! The macros of `xla-ffi`. The macros parse and check their input, and expand to calls into a hidden module of
//! `xla-ffi`. This crate does not depend on the ABI. The documentation of the macros is in `xla-ffi`.
#![forbid(unsafe_code)]

mod attribute;
mod contract;
mod derives;
mod expand;
mod export;
mod handler;
mod legacy;
mod library;
mod literal;
mod mistakes;
mod options;
mod parameter;
mod root;
mod transforms;

use proc_macro::TokenStream;

fn expanded(result: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    let tokens = result.unwrap_or_else(|error| error.to_compile_error());
    root::renamed(tokens).into()
}

/// Turns a function into a handler: the code that runs for a custom call.
///
/// The function can still be called directly. The type of each parameter determines which part of the call the
/// parameter receives; see the crate's documentation. `async` functions complete through a future of the host.
///
/// # Options
/// * `name = "…"`: the name of the custom call target; default: the function's name.
/// * `shape = "…"`: a shape contract; see [`shape`](../xla_ffi/shape/index.html).
/// * `platforms = ["…"]`: the platforms to register for; default: `["cpu"]`.
/// * `open_attrs`: ignore unknown attributes instead of refusing the call.
/// * `command_buffer_compatible`: every call launches the same device operations, so XLA may capture and replay the
///   operations.
/// * `vjp = "…"`: the library's handler that computes cotangents of the arguments, for reverse mode. It receives the
///   `residuals`, then a cotangent per float or complex result. It returns a cotangent per float or complex argument.
///   With `forward = "…"`, the named handler replaces this handler in reverse mode, and returns the residuals as
///   further results.
/// * `jvp = "…"`: the handler that computes tangents of the results. It receives the residuals, then a tangent per
///   float or complex argument. With `transpose = "…"`, a handler with the operands of a `vjp`, reverse mode also
///   works.
/// * `linear`: the results are linear in the float and complex arguments. With `transpose`, forward and reverse mode
///   work.
/// * `residuals = ["…"]`: the operands of this handler, by parameter name, that the derivative handlers receive
///   first; default: all arguments.
/// * `batch = "leading"`: a batch is one call whose operands all have an additional leading dimension. `"sequential"`:
///   one call per batch element. `"none"`: batching is an error. A list has `"leading"` or `"shared"` (without this
///   dimension) per argument. Operands with a leading dimension must accept every rank, as `Buffer<f32>` does.
///   `batch_with = "…"`: batch with a different handler, all of whose operands have an additional leading dimension.
/// * `nondeterministic`: equal calls may return different results.
/// * `floor = "r5"`: the oldest revision that the handler supports, even if the parameters support older revisions.
///
/// # Options of a parameter, `#[attr(…)]`
/// * `default = EXPR`: the value if the attribute is absent; `default` without a value uses the default of the
///   parameter's type.
/// * `name = "…"`: the attribute's name; default: the parameter's name.
/// * `narrow`: also accept integers of other widths, and `f64`, if the value fits; Python sends 64-bit numbers. For a
///   `Vec` or `[T; N]`, this applies to each element.
/// * `min = 1`, `max = 64`: inclusive bounds of a number. The bounds are part of the manifest, and calls with other
///   values are refused.
/// * `flatten`: the parameter is a struct with `#[derive(Attribute)]`, whose fields are attributes
///   of the handler.
///
/// # Options of an operand, `#[operand(…)]`
/// * `layout = "row"`, `"column"`, or a list of dimensions from slowest to fastest: the order of the elements in
///   memory that callers must provide; see [`Layout`](../xla_ffi/bind/enum.Layout.html).
///
/// The doc comments of the function, of its parameters and of the fields of attribute structs become part of the
/// manifest.
///
/// # Errors at compile time
/// The macro reports an error for a parameter without a name, an unknown option, or a shape contract that does not
/// fit the operands. It also reports a parameter whose type is not [`Bind`](../xla_ffi/trait.Bind.html).
#[proc_macro_attribute]
pub fn handler(options: TokenStream, item: TokenStream) -> TokenStream {
    expanded(handler::handler(options.into(), item.into()))
}

/// Turns a type into a handler with several stages, one function per stage.
///
/// In the `impl` block, functions named `instantiate`, `prepare`, `initialize`, `execute` and `record` are the
/// stages; other functions are unchanged. `execute` is required. `instantiate` creates the state, `Self`, once per
/// call site when the program is compiled. Later stages receive the state as `&self`, and the host drops the state
/// with the executable. `prepare` and `initialize` may return states of other types that derive
/// [`HostType`](../xla_ffi/trait.HostType.html).
///
/// The options are the same as for [`macro@handler`]; the default name is the type's name. Every stage receives all
/// attributes of the call, and accepts each attribute that any stage declares.
#[proc_macro_attribute]
pub fn stateful(options: TokenStream, item: TokenStream) -> TokenStream {
    expanded(handler::stateful(options.into(), item.into()))
}

/// Turns handlers into a library: exports a symbol for each stage of each handler, a manifest, and a function that
/// registers all handlers.
///
/// ```text
/// xla_ffi::library! { rms_norm, ops::Solver }
/// xla_ffi::library! { name = "my_ops"; rms_norm }
/// ```
/// Name a handler by the path of its definition, in this crate or in a dependency; a re-export does not work. An entry
/// may have a `#[cfg(…)]`.
///
/// If the crate's only type is `cdylib`, the symbols are `rms_norm` (execute), `Solver_instantiate` …,
/// `xla_ffi_register` and `xla_ffi_manifest`. In every crate type, the functions also have names with the library's
/// name as prefix, `my_ops__rms_norm`. One program can therefore link several libraries. The default library name is
/// the crate's name.
///
/// Targets of the original custom calls, made by [`legacy!`](../xla_ffi_legacy/macro.legacy.html), are listed as
/// `legacy PATH`. The targets get symbols and an entry in the manifest. Hosts find the targets through the exported
/// function `xla_ffi_legacy_targets`.
///
/// `register_on_load` in the list is for hosts that only load a file. When the library is loaded, its code searches
/// the process for a host's function table, and calls `xla_ffi_register` with the table. If there is no host, nothing
/// happens; refused registrations are reported on stderr.
///
/// ```text
/// xla_ffi::library! { rms_norm, register_on_load }
/// ```
///
/// If a handler has the name of a C function, such as `exp` or `read`, the library does not
/// compile.
#[proc_macro]
pub fn library(items: TokenStream) -> TokenStream {
    expanded(library::library(items.into()))
}

/// Defines targets of the original custom calls, which receive pointers but no sizes.
#[proc_macro]
pub fn legacy(items: TokenStream) -> TokenStream {
    expanded(legacy::legacy(items.into()))
}

/// Generates the exported symbols of one target of the original custom calls for `library!`.
#[doc(hidden)]
#[proc_macro]
pub fn __export_legacy(items: TokenStream) -> TokenStream {
    expanded(legacy::export(items.into()))
}

/// Expands the call of a bare function for `adapt!`: `unsafe EXPRESSION`.
#[doc(hidden)]
#[proc_macro]
pub fn __promised(items: TokenStream) -> TokenStream {
    expanded(legacy::promised(items.into()))
}

/// Marks the handler of a `legacy!` target as used.
#[doc(hidden)]
#[proc_macro]
pub fn __used(items: TokenStream) -> TokenStream {
    expanded(export::used(items.into()))
}

/// Generates the exported symbols of one handler for `library!`.
#[doc(hidden)]
#[proc_macro]
pub fn __export(items: TokenStream) -> TokenStream {
    expanded(export::export(items.into()))
}

/// Makes a type usable as an attribute of handlers.
///
/// * A struct with named fields is a dictionary, or with `#[attr(flatten)]` several attributes of the handler. Fields
///   accept `#[attr(default = …)]`, `#[attr(name = "…")]`, `#[attr(narrow)]` and `#[attr(min = …, max = …)]`;
///   `Option` fields may be absent. Entries that match no field are refused.
/// * An enumeration without fields is an integer, of the type in its `#[repr(…)]`, by default `i64`. With
///   `#[attr(strings)]`, the enumeration is a string: the variant's name in snake case, or the name in `#[attr(name =
///   "…")]` on the variant.
/// * An enumeration whose variants each hold one value becomes the first variant that can be decoded.
#[proc_macro_derive(Attribute, attributes(attr))]
pub fn derive_attribute(item: TokenStream) -> TokenStream {
    expanded(attribute::derive(item.into()))
}

/// Turns a type into a parameter of handlers that is created from another parameter: an argument, an attribute or a
/// part of the context.
///
/// ```text
/// #[derive(xla_ffi::Bind)]
/// #[bind(from = Buffer<'f, f32, 2>)]
/// struct Square<'f> { … }
/// impl<'f> TryFrom<Buffer<'f, f32, 2>> for Square<'f> { … }
/// ```
///
/// If `try_from` fails, the call is refused with the error of `try_from` and the parameter's name.
#[proc_macro_derive(Bind, attributes(bind))]
pub fn derive_bind(item: TokenStream) -> TokenStream {
    expanded(derives::bind(item.into()))
}

/// Lets hosts store a type: as state of a prepare or initialize stage, or as user data, which the program that embeds
/// XLA passes to handlers.
///
/// The type is known within one image: the program, or one shared library. If handlers are linked into the program,
/// the derive macro is sufficient.
///
/// To share the type between images, use `#[repr(C)]` and give it a name that contains a version:
/// `#[host_type(unsafe(name = "…"))]`. If the program registered the type with a number, add the number:
/// `#[host_type(unsafe(name = "…", id = 4242))]`. The option is `unsafe` because every object of that name is read as
/// this type. All images must use the same layout, including the layouts of nested types.
#[proc_macro_derive(HostType, attributes(host_type))]
pub fn derive_host_type(item: TokenStream) -> TokenStream {
    expanded(derives::host_type(item.into()))
}
