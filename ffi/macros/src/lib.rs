//! The macros of `xla-ffi`. They parse, check and expand to calls into a hidden module of that
//! crate; they know nothing of the ABI. Their documentation is in `xla-ffi`.
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

/// Makes a function a handler: the code behind a custom call.
///
/// The function stays callable as it is. What each parameter takes from the call is said by its
/// type; see the crate's documentation. `async` functions complete through a future of the host.
///
/// # Options
/// * `name = "…"`: the name of the custom call target; the function's name without it.
/// * `shape = "…"`: a shape contract; see [`shape`](../xla_ffi/shape/index.html).
/// * `platforms = ["…"]`: where it is registered; `["cpu"]` without it.
/// * `open_attrs`: attributes that the handler does not know are ignored instead of refused.
/// * `command_buffer_compatible`: every call launches the same device operations.
/// * `vjp = "…"`: the handler of the library that computes cotangents of the arguments, for reverse mode:
///   it takes the `residuals`, then a cotangent for each float or complex result, and gives one for each
///   float or complex argument. `forward = "…"`: a handler that is called in this one's place then, with
///   further results for the residuals.
/// * `jvp = "…"`: the handler that computes tangents of the results: it takes the residuals, then a tangent for
///   each float or complex argument. With `transpose = "…"`, whose operands are those of a `vjp`, both modes.
/// * `linear`: the results are linear in the float and complex arguments; with `transpose` both modes.
/// * `residuals = ["…"]`: the operands of this handler, by parameter name, that those handlers get first; all
///   arguments without it.
/// * `batch = "leading"`, `"sequential"` or `"none"`: whether calls are batched by one more leading dimension
///   everywhere, one by one, or not at all; or a list with `"leading"` or `"shared"` for each argument.
///   What is batched so is of every rank, `Buffer<f32>`.
///   `batch_with = "…"`: by another handler, all of whose operands have one more leading dimension.
/// * `nondeterministic`: equal calls may give different results.
/// * `floor = "r5"`: needs at least this revision, whatever the parameters say.
///
/// # Options of a parameter, `#[attr(…)]`
/// * `default = EXPR`: the value where the attribute is absent; `default` alone is that of its type.
/// * `name = "…"`: the attribute's name; the parameter's without it.
/// * `narrow`: integers of other widths and `f64` are taken when the value fits; Python sends
///   64-bit numbers. Of arrays each element, into a `Vec` or `[T; N]`.
/// * `min = 1`, `max = 64`: the least and the greatest value of a number; callers learn them from the manifest, and
///   calls with other values are refused.
/// * `flatten`: a struct with `#[derive(Attribute)]` whose fields are attributes of the handler.
///
/// # Options of an operand, `#[operand(…)]`
/// * `layout = "row"`, `"column"`, or a list of the dimensions from the slowest to the fastest: the order of
///   the elements in memory that callers have to give; see [`Layout`](../xla_ffi/bind/enum.Layout.html).
///
/// What comments say of the function, of its parameters and of the fields of attribute structs is told to
/// callers through the manifest.
///
/// # Errors at compile time
/// A parameter without a name, an unknown option, a shape contract that does not fit the operands, and a parameter
/// whose type is not [`Bind`](../xla_ffi/trait.Bind.html).
#[proc_macro_attribute]
pub fn handler(options: TokenStream, item: TokenStream) -> TokenStream {
    expanded(handler::handler(options.into(), item.into()))
}

/// Makes a type a handler with several stages, one function a stage.
///
/// In the `impl` block, functions named `instantiate`, `prepare`, `initialize`, `execute` and
/// `record` are the stages; others stay ordinary functions. `execute` has to be there.
/// `instantiate` makes the state, `Self`, once for each call site when the program is compiled;
/// the later stages get it as `&self`. The host drops it with the executable. `prepare` and
/// `initialize` may return state of their own, of a type that derives
/// [`HostType`](../xla_ffi/trait.HostType.html).
///
/// The options are those of [`macro@handler`]; the name is that of the type without one. Every stage
/// gets all attributes of the call; one that any stage declares is known to all.
#[proc_macro_attribute]
pub fn stateful(options: TokenStream, item: TokenStream) -> TokenStream {
    expanded(handler::stateful(options.into(), item.into()))
}

/// Makes handlers a library: exports a symbol for each stage of each handler, a manifest, and a
/// function that registers them all.
///
/// ```text
/// xla_ffi::library! { rms_norm, ops::Solver }
/// xla_ffi::library! { name = "my_ops"; rms_norm }
/// ```
///
/// A handler is named by the path to where it is defined, in this crate or in one that it depends on; an import of it
/// is not enough. An entry may have a `#[cfg(…)]`.
///
/// In a library whose only crate type is `cdylib` the symbols are `rms_norm` (execute),
/// `Solver_instantiate` …, `xla_ffi_register` and `xla_ffi_manifest`. Everywhere the functions also
/// have names that begin with the library's, `my_ops__rms_norm`, so that several libraries can be
/// linked into one program. The library's name is that of the crate without `name`.
///
/// Targets of the original custom calls, made by [`legacy!`](../xla_ffi_legacy/macro.legacy.html), are named
/// `legacy PATH` in the list: they get symbols and a place in the manifest, and the library exports
/// the function `xla_ffi_legacy_targets`, by which hosts find them.
///
/// `register_on_load` in the list is for hosts that do nothing but load a file: a constructor of the library looks
/// among what the process has loaded for the function that gives a host's table, and calls `xla_ffi_register` with it.
/// It is silent where there is none, and tells on stderr what a host refuses.
///
/// ```text
/// xla_ffi::library! { rms_norm, register_on_load }
/// ```
///
/// A name that a C library uses, such as `exp` or `read`, does not compile.
#[proc_macro]
pub fn library(items: TokenStream) -> TokenStream {
    expanded(library::library(items.into()))
}

/// Makes targets of the original custom calls, which get pointers and no sizes.
#[proc_macro]
pub fn legacy(items: TokenStream) -> TokenStream {
    expanded(legacy::legacy(items.into()))
}

/// What `library!` expands to for one target of the original custom calls.
#[doc(hidden)]
#[proc_macro]
pub fn __export_legacy(items: TokenStream) -> TokenStream {
    expanded(legacy::export(items.into()))
}

/// What `adapt!` expands to for the call of a bare function: `unsafe EXPRESSION`.
#[doc(hidden)]
#[proc_macro]
pub fn __promised(items: TokenStream) -> TokenStream {
    expanded(legacy::promised(items.into()))
}

/// What `legacy!` expands to for the handler of a target.
#[doc(hidden)]
#[proc_macro]
pub fn __used(items: TokenStream) -> TokenStream {
    expanded(export::used(items.into()))
}

/// What `library!` expands to for one handler.
#[doc(hidden)]
#[proc_macro]
pub fn __export(items: TokenStream) -> TokenStream {
    expanded(export::export(items.into()))
}

/// Makes a type an attribute.
///
/// * A struct with named fields is a dictionary, or with `#[attr(flatten)]` several attributes of
///   the handler. Fields take `#[attr(default = …)]`, `#[attr(name = "…")]`, `#[attr(narrow)]`,
///   `#[attr(min = …, max = …)]`; `Option` fields may be absent. Entries that no field names are refused.
/// * An enumeration without fields is an integer, of the type in its `#[repr(…)]`, else an `i64`.
///   With `#[attr(strings)]` it is a string: the variant's name in snake case, or what
///   `#[attr(name = "…")]` on the variant says.
/// * An enumeration whose variants hold one value each is whichever of them decodes first.
#[proc_macro_derive(Attribute, attributes(attr))]
pub fn derive_attribute(item: TokenStream) -> TokenStream {
    expanded(attribute::derive(item.into()))
}

/// Makes a type a parameter of handlers, made from another parameter: an argument, an attribute or a
/// part of the context.
///
/// ```text
/// #[derive(xla_ffi::Bind)]
/// #[bind(from = Buffer<'f, f32, 2>)]
/// struct Square<'f> { … }
/// impl<'f> TryFrom<Buffer<'f, f32, 2>> for Square<'f> { … }
/// ```
///
/// When `try_from` fails, the call is refused with its error and the parameter's name.
#[proc_macro_derive(Bind, attributes(bind))]
pub fn derive_bind(item: TokenStream) -> TokenStream {
    expanded(derives::bind(item.into()))
}

/// Makes a type one that hosts carry: the state that a prepare or initialize stage leaves, or user data, which the
/// program that embeds XLA hands to handlers.
///
/// The type is known within one image: the program, or one shared library. A program that links its handlers
/// needs nothing more.
///
/// To share the type between images, name it: `#[host_type(unsafe(name = "…"))]`, with `#[repr(C)]` and a
/// version in the name, or give the number that the program has registered it with:
/// `#[host_type(unsafe(name = "…", id = 4242))]`. `unsafe`, because every object of that name is read as this
/// type: all images must mean the same layout, including that of the types inside.
#[proc_macro_derive(HostType, attributes(host_type))]
pub fn derive_host_type(item: TokenStream) -> TokenStream {
    expanded(derives::host_type(item.into()))
}
