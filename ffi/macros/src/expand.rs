//! Code shared by functions and `impl` blocks: turns a stage into an implementation of `Stage`.

use crate::literal::refuse;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::contract::Contract;
use crate::options::Options;
use crate::parameter::Parameter;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{FnArg, LitStr, ReturnType, Signature};

// Copies of ABI facts. The macros do not depend on ffi-sys, because building a library would then have to wait for
// that crate.

/// The names of the stages, indexed by stage number.
pub(crate) const STAGES: [&str; 5] = ["instantiate", "prepare", "initialize", "execute", "record"];
/// The number of the stage that creates the state.
pub(crate) const INSTANTIATE: u32 = 0;
/// The number of the execute stage.
pub(crate) const EXECUTE: u32 = 3;

/// One stage of a handler, parsed from a function.
pub(crate) struct Stage {
    pub(crate) number: u32,
    /// The type that represents the handler.
    pub(crate) owner: TokenStream,
    /// The path by which the user's function is called.
    pub(crate) callee: TokenStream,
    pub(crate) takes_self: bool,
    /// Whether later stages receive this stage's result as `&self`.
    pub(crate) assert_makes_state: bool,
    pub(crate) is_async: bool,
    pub(crate) span: Span,
    pub(crate) params: Vec<Parameter>,
    /// The position of the return type, for compiler messages.
    output: Span,
}

impl Stage {
    /// Parses a stage from a function's signature, and removes the `#[attr]` attributes.
    pub(crate) fn read(
        signature: &mut Signature,
        number: u32,
        owner: TokenStream,
        callee: TokenStream,
    ) -> syn::Result<Self> {
        if let Some(unsafety) = &signature.unsafety {
            let why = "a handler cannot be `unsafe`: remove the word, and check in the body what the function relies on";
            return refuse(unsafety, why);
        }
        let generics = &signature.generics;
        if let Some(param) = generics
            .params
            .iter()
            .find(|param| !matches!(param, syn::GenericParam::Lifetime(lifetime) if lifetime.bounds.is_empty()))
        {
            let why = "a handler cannot be generic: write one handler per type, or one that takes `AnyBuffer` or `OneOf`";
            return refuse(param, why);
        }
        let span = signature.ident.span();
        let takes_self = matches!(signature.inputs.first(), Some(FnArg::Receiver(_)));
        // `async fn` requires explicit lifetimes, which handlers should not need. `desugar_body` generates an
        // ordinary function that returns the future instead.
        let is_async = signature.asyncness.take().is_some();
        let skip = usize::from(takes_self);
        let params: Vec<Parameter> = signature
            .inputs
            .iter_mut()
            .skip(skip)
            .map(Parameter::read)
            .collect::<syn::Result<_>>()?;
        for (index, param) in params.iter().enumerate() {
            if params[..index]
                .iter()
                .any(|other| other.name() == param.name())
            {
                let why = format!("two parameters are called `{}`: rename one", param.name());
                return refuse(&param.ident, why);
            }
        }
        let output_span = match &signature.output {
            ReturnType::Default => span.resolved_at(Span::call_site()),
            ReturnType::Type(_, ty) => {
                if number == EXECUTE {
                    crate::mistakes::refuse_output(ty)?;
                }
                crate::parameter::place(ty)
            }
        };
        if is_async {
            params.iter().try_for_each(crate::mistakes::refuse_late)?;
            let output = match &signature.output {
                ReturnType::Default => quote!(()),
                ReturnType::Type(_, ty) => quote!(#ty),
            };
            signature.output = syn::parse_quote! {
                -> impl ::core::future::Future<Output = #output> + ::core::marker::Send
            };
        }
        Ok(Self {
            number,
            owner,
            callee,
            takes_self,
            assert_makes_state: false,
            is_async,
            span: span.span(),
            params,
            output: output_span,
        })
    }

    fn params_path(&self) -> TokenStream {
        let (owner, number) = (&self.owner, self.number);
        quote!(<#owner as ::xla_ffi::__private::Stage<#number>>::PARAMS)
    }

    fn info_path(&self) -> TokenStream {
        let owner = &self.owner;
        quote!(<#owner as ::xla_ffi::__private::Handler>::INFO)
    }

    /// Generates the stage's element of `HandlerInfo::stages`.
    pub(crate) fn info(&self) -> TokenStream {
        let (number, is_async, params) = (self.number, self.is_async, self.params_path());
        quote! {
            ::xla_ffi::__private::StageInfo {
                stage: #number,
                params: #params,
                is_async: #is_async,
            }
        }
    }

    /// Generates the implementation of the trait `Stage` for the handler.
    pub(crate) fn implementation(&self, options: &Options) -> TokenStream {
        let (owner, number) = (&self.owner, self.number);
        let params = self.params_path();
        let constants = self.params.iter().map(Parameter::constant);
        let info = self.info_path();
        let at: Vec<TokenStream> = (0..self.params.len())
            .map(|index| {
                quote! {
                    const {
                        &::xla_ffi::bind::At::parameter(
                            &#info,
                            #params,
                            #index,
                        )
                    }
                }
            })
            .collect();
        let explains = self
            .params
            .iter()
            .zip(&at)
            .map(|(param, at)| param.explain(at));
        // A contract is checked in the execute stage only, because it describes the operands of that stage.
        let contract = options.shape.as_ref().filter(|_| number == EXECUTE);
        let check = contract.map(|contract| {
            let tokens = contract.tokens(&info);
            let counts = contract.fits_params(&params, &info);
            quote! {
                #counts
                const __CONTRACT: ::xla_ffi::__private::Contract = #tokens;
            }
        });
        let explain_contract = contract.map(|_| {
            quote! {
                __CONTRACT.explain(__frame, #params, __problems);
            }
        });
        let call = self.call(&at, contract);
        let checks = self
            .params
            .iter()
            .enumerate()
            .map(|(index, param)| param.checks(&params, index, number));
        quote! {
            const _: () = {
                const _: () = ::xla_ffi::__private::assert_one_api(#params);
                #(#checks)*
                #check
                impl ::xla_ffi::__private::Stage<#number> for #owner {
                    const PARAMS: &'static [::xla_ffi::bind::Param] = &[#(#constants),*];

                    #[inline(always)]
                    fn call<'f>(__frame: &::xla_ffi::bind::Frame<'f>) -> ::xla_ffi::__private::Flow {
                        #call
                    }

                    #[cold]
                    fn explain<'f>(
                        __frame: &::xla_ffi::bind::Frame<'f>,
                        __problems: &mut ::xla_ffi::bind::Problems<'_>,
                    ) {
                        let _ = &__frame;
                        #(#explains)*
                        #explain_contract
                    }
                }
            };
        }
    }

    /// Generates an early return, for calls in which the author's function does not run.
    fn end(&self, flow: TokenStream) -> TokenStream {
        let flow = quote!(::xla_ffi::__private::Flow::#flow);
        match self.is_async {
            true => quote!(::core::result::Result::Err(#flow)),
            false => flow,
        }
    }

    /// Generates the statements that decode every parameter or return `Flow::Mismatch`, and returns the names of the
    /// decoded values.
    fn decode(&self, at: &[TokenStream], contract: Option<&Contract>) -> (TokenStream, Vec<Ident>) {
        let mismatch = self.end(quote!(Mismatch));
        let (owner, number) = (&self.owner, self.number);
        let params = self.params_path();
        let values: Vec<Ident> = (0..self.params.len())
            .map(|index| format_ident!("__p{index}", span = Span::mixed_site()))
            .collect();
        let decodes = self
            .params
            .iter()
            .zip(at)
            .zip(&values)
            .map(|((param, at), value)| {
                let decode = param.decode(at);
                quote! {
                    let ::core::option::Option::Some(#value) = #decode else {
                        return #mismatch;
                    };
                }
            });
        let contract = contract
            .map(|contract| contract.comparisons(&self.info_path(), &quote!(return #mismatch;)));
        let statements = quote! {
            if !::xla_ffi::__private::counts::<#owner, #number>(__frame) {
                return #mismatch;
            }
            #(#decodes)*
            #contract
            const __OPERANDS: usize = ::xla_ffi::__private::operands(#params, true)
                + ::xla_ffi::__private::operands(#params, false);
            if !::xla_ffi::__private::has_no_overlap::<#owner, #number, __OPERANDS>(__frame) {
                return #mismatch;
            }
        };
        (statements, values)
    }

    fn call(&self, at: &[TokenStream], contract: Option<&Contract>) -> TokenStream {
        let (decode, values) = self.decode(at, contract);
        let (owner, callee, number) = (&self.owner, &self.callee, self.number);
        let failed = self.end(quote!(Failed(__error)));
        let state = self.takes_self.then(|| {
            quote! {
                let __state = match ::xla_ffi::__private::load_state::<#owner>(__frame, 0) {
                    ::core::result::Result::Ok(__state) => __state,
                    ::core::result::Result::Err(__error) => return #failed,
                };
            }
        });
        let receiver = self.takes_self.then(|| quote!(__state,));
        let finish = match number {
            EXECUTE => quote!(finish),
            _ if self.assert_makes_state => quote!(finish_state::<#owner, #number>),
            _ => quote!(finish_stage::<_, #number>),
        };
        if self.is_async {
            let outlive = self.params.iter().zip(&values).map(|(param, value)| {
                // The compiler's message points at the parameter only if the whole call expression has the
                // parameter's position and one hygiene context.
                let span = crate::parameter::place(&param.ty).resolved_at(value.span());
                let mut value = value.clone();
                value.set_span(span);
                quote_spanned!(span=> ::xla_ffi::__private::outlives_call(&#value);)
            });
            let completed = quote_spanned! {self.output=>
                ::xla_ffi::__private::completed(__outcome)
            };
            return quote! {
                fn __start<'x>(
                    __frame: &::xla_ffi::bind::Frame<'x>,
                ) -> ::core::result::Result<
                    ::xla_ffi::__private::Body<'x>,
                    ::xla_ffi::__private::Flow,
                > {
                    #decode
                    #state
                    #(#outlive)*
                    let __body = #callee(#receiver #(#values),*);
                    ::core::result::Result::Ok(::std::boxed::Box::pin(async move {
                        let __outcome = __body.await;
                        #completed
                    }))
                }
                ::xla_ffi::__private::start_async(
                    __frame,
                    <#owner as ::xla_ffi::__private::Handler>::INFO.name,
                    __start,
                )
            };
        }
        let finish_frame = (number != EXECUTE).then(|| quote!(__frame,));
        let finish = quote_spanned! {self.output=>
            ::xla_ffi::__private::#finish(#finish_frame __outcome)
        };
        quote! {
            #decode
            #state
            let __outcome = #callee(#receiver #(#values),*);
            #finish
        }
    }
}

/// An `async fn` would require explicit lifetimes in its signature. Therefore `desugar_body`
/// generates an ordinary function that returns a future.
///
/// As in a plain `async fn`, the future owns every parameter until the body ends, even unused parameters. Otherwise a
/// guard would be dropped before the body runs.
pub(crate) fn desugar_body(signature: &mut Signature, block: &mut syn::Block) {
    let mut kept = Vec::new();
    for input in &mut signature.inputs {
        let FnArg::Typed(arg) = input else { continue };
        let syn::Pat::Ident(outer) = &mut *arg.pat else {
            continue;
        };
        let (attrs, inner, ident) = (&arg.attrs, outer.clone(), &outer.ident);
        kept.push(quote!(#(#attrs)* let #inner = #ident;));
        (outer.by_ref, outer.mutability) = (None, None);
    }
    let statements = std::mem::take(&mut block.stmts);
    *block = syn::parse_quote!({ async move { #(#kept)* #(#statements)* } });
}

/// Adds `#[inline]` to a function whose only caller is its entry point, so that decoded values stay in registers.
/// Does nothing if the author already controls inlining, or exports the function.
pub(crate) fn inline(attributes: &mut Vec<syn::Attribute>) {
    const SAID: [&str; 4] = ["inline", "cold", "cfg_attr", "unsafe"];
    let is_said =
        |attribute: &syn::Attribute| SAID.iter().any(|said| attribute.path().is_ident(said));
    if !attributes.iter().any(is_said) {
        attributes.push(syn::parse_quote!(#[inline]));
    }
}

/// Generates the implementation of the trait `Handler`.
pub(crate) fn handler(
    owner: &TokenStream,
    name: &str,
    doc: &str,
    options: &Options,
    stages: &[Stage],
    state: Option<&TokenStream>,
) -> syn::Result<TokenStream> {
    let infos = stages.iter().map(Stage::info);
    let entries = (0..STAGES.len() as u32).map(|number| {
        if stages.iter().any(|stage| stage.number == number) {
            quote!(::core::option::Option::Some(::xla_ffi::__private::entry::<Self, #number>))
        } else {
            quote!(::core::option::Option::None)
        }
    });
    let platforms: Vec<String> = if options.platforms.is_empty() {
        vec!["cpu".to_owned()]
    } else {
        options.platforms.iter().map(syn::LitStr::value).collect()
    };
    let open_attrs = options.open_attrs;
    let traits = u32::from(options.command_buffer_compatible);
    let nondeterministic = options.nondeterministic;
    let transforms = options.transforms.fields();
    if let Some(execute) = stages.iter().find(|stage| stage.number == EXECUTE) {
        options.transforms.check_names(&execute.params)?;
    }
    let floor = usize::from(options.floor);
    let shape = options
        .shape
        .as_ref()
        .map_or_else(String::new, |contract| contract.text().value());
    let state = match state {
        Some(state) => quote!(::core::option::Option::Some(#state)),
        None => quote!(::core::option::Option::None),
    };
    Ok(quote! {
        impl ::xla_ffi::__private::Handler for #owner {
            const INFO: ::xla_ffi::__private::HandlerInfo = ::xla_ffi::__private::HandlerInfo {
                name: #name,
                platforms: &[#(#platforms),*],
                stages: &[#(#infos),*],
                open_attrs: #open_attrs,
                shape: #shape,
                traits: #traits,
                state: #state,
                floor: ::xla_ffi::Revision::ALL[#floor],
            };
            const ABOUT: ::xla_ffi::__private::About = ::xla_ffi::__private::About {
                doc: #doc,
                nondeterministic: #nondeterministic,
                #transforms
            };
            const ENTRIES: ::xla_ffi::__private::Entries = [#(#entries),*];
        }
    })
}

/// Returns the name of the macro from which `library!` gets a handler or a legacy target (`what`). If the macro does
/// not exist, the compiler's error shows the name, so the name describes the missing item. A digest in the name keeps
/// the compiler from suggesting a similar name.
pub(crate) fn export_name(what: &str, ident: &Ident) -> Ident {
    let digest = ident
        .to_string()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    format_ident!("no_{}_{}_{:012x}", what, ident, digest >> 16)
}

/// The item and the target name of each handler that has been expanded so far.
static HANDLERS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Returns the error for an entry of `library!` that is a handler's target name instead of the handler's Rust item.
pub(crate) fn named_otherwise(path: &syn::Path) -> Option<syn::Error> {
    let last = path.get_ident()?.to_string();
    let handlers = HANDLERS.lock().ok()?;
    if handlers.iter().any(|(item, _)| *item == last) {
        return None;
    }
    let (item, _) = handlers.iter().find(|(_, name)| *name == last)?;
    let why = format!("`{last}` is what callers name the handler `{item}`: list `{item}` here");
    Some(syn::Error::new_spanned(path, why))
}

/// Generates the macro from which `library!` gets the handler's name and stages. Also generates an item that is unused
/// until `library!` uses it, so that the compiler warns about handlers that are not listed.
pub(crate) fn export_macro(ident: &Ident, name: &str, stages: &[Stage]) -> TokenStream {
    if let Ok(mut handlers) = HANDLERS.lock() {
        handlers.push((ident.to_string(), name.to_owned()));
    }
    let numbers = stages.iter().map(|stage| stage.number);
    let origin = crate::root::crate_name();
    let export = export_as(
        &export_name("handler", ident),
        &quote!(#name [#(#numbers)*] #origin),
    );
    let unlisted = is_cdylib().then(|| {
        let unlisted = unlisted(ident);
        // The compiler does not warn about items whose tokens have a macro's span.
        quote_spanned! {ident.span()=>
            #[doc(hidden)]
            #[allow(non_snake_case, reason = "the name is for the compiler's warning")]
            pub(crate) const fn #unlisted() {}
        }
    });
    quote!(#export #unlisted)
}

fn is_cdylib() -> bool {
    crate::root::crate_types()
        .iter()
        .any(|kind| kind == "cdylib")
}

fn unlisted(ident: &Ident) -> Ident {
    format_ident!(
        "{}_is_not_listed_in_library",
        ident.unraw(),
        span = ident.span()
    )
}

/// Generates a use of the warning item from [`export_macro`], if `origin`, the crate that defines the handler, is this
/// crate.
pub(crate) fn listed(path: &syn::Path, origin: &LitStr) -> Option<TokenStream> {
    let mut path = path.clone();
    let last = path.segments.last_mut()?;
    last.ident = unlisted(&last.ident);
    let is_own = is_cdylib() && origin.value() == crate::root::crate_name();
    is_own.then(|| quote!(const _: () = #path();))
}

/// Generates a use of the warning item for a handler of a legacy target. Libraries need not list handlers of legacy
/// targets.
pub(crate) fn use_handler(path: &syn::Path) -> Option<TokenStream> {
    let mut export = path.clone();
    let last = export.segments.last_mut()?;
    last.ident = export_name("handler", &last.ident);
    is_cdylib().then(|| quote!(#export! { [::xla_ffi::__private::__used] #path }))
}

/// Returns the handler. If there is an error, returns the error and items that keep `library!` from
/// reporting further errors.
pub(crate) fn or_failed(ident: &Ident, handler: syn::Result<TokenStream>) -> TokenStream {
    let error = match handler {
        Ok(handler) => return handler,
        Err(error) => error.to_compile_error(),
    };
    let macro_name = export_name("handler", ident);
    quote! {
        #error
        #[allow(unused_macros, reason = "for `library!`")]
        macro_rules! #macro_name { ($($library:tt)*) => {}; }
        #[allow(unused_imports, reason = "for `library!`")]
        pub(crate) use #macro_name;
    }
}

/// Generates the macro `macro_name`, which calls the macro that `library!` passes. The arguments of that call are
/// `known` and the data from `library!`.
pub(crate) fn export_as(macro_name: &Ident, known: &TokenStream) -> TokenStream {
    let body = quote! {
        ([$($export:tt)*] $($library:tt)*) => { $($export)*! { #known $($library)* } };
    };
    // Libraries in dependent crates can also list this crate's handlers. Exported macros share one namespace, so each
    // macro name contains a number.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let kinds = crate::root::crate_types();
    if kinds
        .iter()
        .any(|kind| ["lib", "rlib", "dylib"].contains(&kind.as_str()))
    {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let exported = format_ident!("__xla_ffi_{}", number);
        return quote! {
            #[doc(hidden)]
            #[allow(non_local_definitions, reason = "handlers may be defined in functions")]
            #[macro_export]
            macro_rules! #exported { #body }
            #[doc(hidden)]
            #[allow(unused_imports, unreachable_pub, reason = "for `library!`, which need not name every item")]
            pub use #exported as #macro_name;
        };
    }
    quote! {
        #[doc(hidden)]
        #[allow(unused_macros, reason = "for `library!`, which need not name every item")]
        macro_rules! #macro_name { #body }
        #[doc(hidden)]
        #[allow(unused_imports, reason = "for `library!`, which need not name every item")]
        pub(crate) use #macro_name;
    }
}
