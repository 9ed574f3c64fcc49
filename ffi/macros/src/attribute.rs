//! Expands `#[derive(Attribute)]`.

use crate::literal::refuse;
use crate::parameter::{AttrOptions, ours, place};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Data, DataEnum, DeriveInput, Fields, FieldsNamed, Ident};

pub(crate) fn derive(item: TokenStream) -> syn::Result<TokenStream> {
    let input: DeriveInput = syn::parse2(item)?;
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => structure(&input, fields),
            _ => refuse(
                &input.ident,
                "an attribute struct is a dictionary: give its fields names, for instance `struct Options { scale: f32 }`",
            ),
        },
        Data::Enum(data) => enumeration(&input, data),
        Data::Union(_) => refuse(
            &input.ident,
            "a union cannot be an attribute: write a struct or an enum",
        ),
    }
}

/// Returns the lifetime and the generics of the implementation, and the generics of the type.
pub(crate) fn generics(input: &DeriveInput) -> syn::Result<(TokenStream, TokenStream)> {
    let generics = &input.generics;
    let lifetimes: Vec<_> = generics.lifetimes().collect();
    if lifetimes.len() != generics.params.len() || lifetimes.len() > 1 {
        let why = "this type can have one lifetime parameter, for the call, and no other generic parameters";
        return refuse(generics, why);
    }
    Ok(match lifetimes.first() {
        Some(lifetime) => {
            let lifetime = &lifetime.lifetime;
            (quote!(#lifetime), quote!(<#lifetime>))
        }
        None => (quote!('f), quote!()),
    })
}

/// Generates the implementation of `Attribute`. `decode` can use the variables `__value` and `__narrow`; `explain`
/// can also use `__name`.
fn implementation(
    input: &DeriveInput,
    constants: &TokenStream,
    decode: &TokenStream,
    explain: &TokenStream,
) -> syn::Result<TokenStream> {
    let ident = &input.ident;
    let (lifetime, type_generics) = generics(input)?;
    Ok(quote! {
        impl<#lifetime> ::xla_ffi::Attribute<#lifetime> for #ident #type_generics {
            #constants

            #[inline(always)]
            fn decode(
                __value: ::xla_ffi::bind::AttrValue<#lifetime>,
                __narrow: bool,
            ) -> ::core::option::Option<Self> {
                #decode
            }

            fn explain(__value: ::xla_ffi::bind::AttrValue<#lifetime>, __narrow: bool, __name: &str) -> ::std::string::String {
                #explain
            }
        }
    })
}

fn structure(input: &DeriveInput, fields: &FieldsNamed) -> syn::Result<TokenStream> {
    struct Member<'a> {
        ident: &'a Ident,
        ty: &'a syn::Type,
        name: String,
        options: AttrOptions,
        doc: String,
    }
    no_options(&input.attrs, "put the options on the fields of the struct")?;
    let mut members = Vec::new();
    for field in &fields.named {
        let Some(ident) = &field.ident else { continue };
        let options = AttrOptions::read(&field.attrs)?;
        if options.flatten {
            let why = "`flatten` is for parameters of handlers: without it, this field is a nested dictionary";
            return refuse(field, why);
        }
        crate::mistakes::refuse_type(ident, &field.ty, false)?;
        let name = options.name_of(ident);
        members.push(Member {
            ident,
            ty: &field.ty,
            name,
            options,
            doc: crate::literal::doc_text(&field.attrs),
        });
    }
    // The members are sorted by the bytes of their names, as in the call frame.
    members.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = members.windows(2).find(|pair| pair[0].name == pair[1].name) {
        let why = format!("two fields are called `{}`: rename one", pair[1].name);
        return refuse(pair[1].ident, why);
    }
    let ident = &input.ident;
    let (lifetime, type_generics) = generics(input)?;
    let params = members.iter().map(|member| {
        let (ty, name, doc) = (member.ty, &member.name, &member.doc);
        let named = quote_spanned! {place(ty)=>
            <#ty as ::xla_ffi::__private::Member<#lifetime>>::PARAM.named(#name).documented(#doc)
        };
        member.options.modify(named)
    });
    let elided = (!type_generics.is_empty()).then(|| quote!(<'_>));
    let checks = members.iter().enumerate().map(|(index, member)| {
        quote_spanned! {place(member.ty)=>
            const _: () = ::xla_ffi::bind::Param::check_options(
                &<#ident #elided as ::xla_ffi::__private::Attributes<'_>>::MEMBERS[#index],
            );
        }
    });
    // Fields may have any name, so the variables for decoded values have generated names.
    let locals: Vec<Ident> = (0..members.len())
        .map(|index| format_ident!("__field{index}", span = Span::mixed_site()))
        .collect();
    let (value, dictionary, problems) = (ours("__value"), ours("__dictionary"), ours("__problems"));
    let decodes = members.iter().zip(&locals).map(|(member, local)| {
        let (ty, name, narrow) = (member.ty, &member.name, member.options.narrow);
        let take = quote_spanned! {place(ty)=>
            <#ty as ::xla_ffi::__private::Member<#lifetime>>::from_value(#value, #narrow)?
        };
        let in_range = member.options.has_range().then(|| {
            let range = member.options.range();
            quote! {
                let __range = #range;
                if !__range.contains(__value) {
                    return ::core::option::Option::None;
                }
            }
        });
        let decoded = match &member.options.default {
            // A closure makes `?` in the default a compile error instead of a return from the surrounding function.
            Some(default) => quote! {
                let #local = ::core::option::Option::<#ty>::unwrap_or_else(
                    if __value.is_some() {
                        ::core::option::Option::Some(#take)
                    } else {
                        ::core::option::Option::None
                    },
                    || #default,
                );
            },
            None => quote!(let #local: #ty = #take;),
        };
        quote! {
            let __value = __dictionary.next(#name, &mut __cursor);
            __found += <usize as ::core::convert::From<bool>>::from(__value.is_some());
            #in_range
            #decoded
        }
    });
    let explains = members.iter().map(|member| {
        let (ty, name, narrow) = (member.ty, &member.name, member.options.narrow);
        let optional = member.options.default.is_some();
        let range = member.options.range();
        quote_spanned! {place(ty)=>
            <#ty as ::xla_ffi::__private::Member<#lifetime>>::explain(
                #dictionary, #name, #narrow, #optional, &#range, #problems,
            );
        }
    });
    let constants = quote! {
        const TYPE: ::xla_ffi::bind::AttrType = ::xla_ffi::bind::AttrType::Dictionary;
        const MEMBERS: &'static [::xla_ffi::bind::Param] =
            <Self as ::xla_ffi::__private::Attributes<#lifetime>>::MEMBERS;
    };
    let attribute = implementation(
        input,
        &constants,
        &quote!(::xla_ffi::__private::struct_from_dictionary(__value)),
        &quote!(::xla_ffi::__private::explain_struct::<Self>(
            __value, __name
        )),
    )?;
    let fields = members.iter().map(|member| member.ident);
    Ok(quote! {
        impl<#lifetime> ::xla_ffi::__private::Attributes<#lifetime> for #ident #type_generics {
            const MEMBERS: &'static [::xla_ffi::bind::Param] = &[#(#params),*];

            #[inline(always)]
            fn decode(
                __dictionary: ::xla_ffi::Dictionary<#lifetime>,
                mut __cursor: usize,
            ) -> ::core::option::Option<(Self, usize)> {
                let mut __found = 0;
                #(#decodes)*
                ::core::option::Option::Some((Self { #(#fields: #locals),* }, __found))
            }

            #[cold]
            fn explain(
                __dictionary: ::xla_ffi::Dictionary<#lifetime>,
                __problems: &mut ::xla_ffi::bind::Problems<'_>,
            ) {
                #(#explains)*
            }
        }

        #attribute
        #(#checks)*
    })
}

fn enumeration(input: &DeriveInput, data: &DataEnum) -> syn::Result<TokenStream> {
    let is_unit = |variant: &syn::Variant| matches!(variant.fields, Fields::Unit);
    let holds_values = !data.variants.iter().all(is_unit);
    if !holds_values && strings(input)? {
        return by_name(input, data);
    }
    let mut attrs = data.variants.iter().map(|variant| &variant.attrs);
    if !holds_values {
        attrs.try_for_each(|attrs| {
            no_options(
                attrs,
                "this variant is a number and has no options: write `#[attr(strings)]` on the enum to give its variants names",
            )
        })?;
        return by_number(input, data);
    }
    attrs.chain([&input.attrs]).try_for_each(|attrs| {
        no_options(
            attrs,
            "an enum whose variants hold values has no options: remove this",
        )
    })?;
    variants(input, data)
}

/// Refuses `#[attr(…)]` if it would have no effect.
fn no_options(attrs: &[syn::Attribute], why: &str) -> syn::Result<()> {
    match attrs.iter().find(|attr| attr.path().is_ident("attr")) {
        None => Ok(()),
        Some(attr) => refuse(attr, why),
    }
}

/// Returns true if the enumeration has `#[attr(strings)]`.
fn strings(input: &DeriveInput) -> syn::Result<bool> {
    let mut strings = false;
    for attr in input
        .attrs
        .iter()
        .filter(|attr| attr.path().is_ident("attr"))
    {
        attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("strings") {
                return Err(meta.error("unknown option: an enum has only `#[attr(strings)]`"));
            }
            strings = true;
            Ok(())
        })?;
    }
    Ok(strings)
}

/// Returns the integer type in the enumeration's `#[repr(…)]`, or `i64` if there is no such
/// attribute.
fn repr(input: &DeriveInput) -> syn::Result<Ident> {
    let mut repr = format_ident!("i64");
    for attr in input
        .attrs
        .iter()
        .filter(|attr| attr.path().is_ident("repr"))
    {
        let metas = crate::literal::metas(attr.meta.require_list()?.tokens.clone())?;
        let mut idents = metas.iter().filter_map(|meta| meta.path().get_ident());
        if let Some(ident) = idents.find(|ident| ident.to_string().starts_with(['i', 'u'])) {
            repr = ident.clone();
        }
    }
    Ok(repr)
}

fn by_number(input: &DeriveInput, data: &DataEnum) -> syn::Result<TokenStream> {
    let repr = repr(input)?;
    let (lifetime, _) = generics(input)?;
    let idents: Vec<&Ident> = data.variants.iter().map(|variant| &variant.ident).collect();
    let known = idents.iter().map(|variant| {
        let name = variant.unraw().to_string();
        quote!((Self::#variant as #repr, #name))
    });
    implementation(
        input,
        &quote!(const TYPE: ::xla_ffi::bind::AttrType = <#repr as ::xla_ffi::Attribute<#lifetime>>::TYPE;),
        &quote! {
            let __number = <#repr as ::xla_ffi::Attribute<#lifetime>>::decode(__value, __narrow)?;
            #(if __number == Self::#idents as #repr {
                return ::core::option::Option::Some(Self::#idents);
            })*
            ::core::option::Option::None
        },
        &quote! {
            ::xla_ffi::__private::explain_number::<#repr>(__value, __narrow, __name, &[#(#known),*])
        },
    )
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (index, c) in name.chars().enumerate() {
        if c.is_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

fn by_name(input: &DeriveInput, data: &DataEnum) -> syn::Result<TokenStream> {
    let (lifetime, _) = generics(input)?;
    let idents: Vec<&Ident> = data.variants.iter().map(|variant| &variant.ident).collect();
    let mut names: Vec<String> = Vec::new();
    for variant in &data.variants {
        let options = AttrOptions::read(&variant.attrs)?;
        if options.narrow || options.flatten || options.default.is_some() || options.has_range() {
            let why = "the only option of a variant is `#[attr(name = \"…\")]`";
            return refuse(&variant.ident, why);
        }
        let name = match &options.name {
            Some(name) => name.value(),
            None => snake_case(&variant.ident.unraw().to_string()),
        };
        if names.contains(&name) {
            let why = format!("two variants are called `{name}`: rename one");
            return refuse(&variant.ident, why);
        }
        names.push(name);
    }
    implementation(
        input,
        &quote!(
            const TYPE: ::xla_ffi::bind::AttrType = ::xla_ffi::bind::AttrType::String;
        ),
        &quote! {
            match <&str as ::xla_ffi::Attribute<#lifetime>>::decode(__value, __narrow)? {
                #(#names => ::core::option::Option::Some(Self::#idents),)*
                _ => ::core::option::Option::None,
            }
        },
        &quote!(::xla_ffi::__private::explain_name(__value, __narrow, __name, &[#(#names),*])),
    )
}

fn variants(input: &DeriveInput, data: &DataEnum) -> syn::Result<TokenStream> {
    let (lifetime, _) = generics(input)?;
    let mut idents = Vec::new();
    let mut types = Vec::new();
    for variant in &data.variants {
        match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                idents.push(&variant.ident);
                types.push(&fields.unnamed[0].ty);
            }
            _ => {
                let why =
                    "either every variant holds one value, for instance `F(f32)`, or none does";
                return refuse(variant, why);
            }
        }
    }
    implementation(
        input,
        &quote!(
            const TYPE: ::xla_ffi::bind::AttrType = ::xla_ffi::bind::AttrType::Any;
        ),
        &quote! {
            #(if let ::core::option::Option::Some(__value) =
                <#types as ::xla_ffi::Attribute<#lifetime>>::decode(__value, __narrow)
            {
                return ::core::option::Option::Some(Self::#idents(__value));
            })*
            ::core::option::Option::None
        },
        &quote! {
            ::xla_ffi::__private::explain_variants(
                __value,
                &[#(<#types as ::xla_ffi::Attribute<#lifetime>>::TYPE),*],
            )
        },
    )
}
