//! `#[derive(States)]`: each field of the operator's struct declares itself, with what its attributes say.
//! An attribute that does not fit is refused by the compiler: the field's options have no such entry.

use crate::attributes::{attribute, milliseconds, name, public_name};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::ParseStream;
use syn::{Attribute, Data, DeriveInput, Error, Field, Ident, LitInt, LitStr, Result, Token, spanned::Spanned};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(
            input,
            "an operator is a struct: its fields are its states, timers and outputs",
        ));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "an operator has no generics: the host needs one concrete type",
        ));
    }
    let ident = &input.ident;
    let names = data.fields.iter().map(name).collect::<Result<Vec<_>>>()?;
    let values = data.fields.iter().map(value).collect::<Result<Vec<_>>>()?;
    Ok(quote! {
        #[automatically_derived]
        impl ::millstream_sdk::States for #ident {
            fn declare(registry: &mut ::millstream_sdk::declare::Registry) -> Self {
                let _ = &registry;
                Self { #(#names: #values),* }
            }
        }
    })
}

/// What makes a field.
fn value(field: &Field) -> Result<TokenStream> {
    let ty = &field.ty;
    if attribute(&field.attrs, "cache").is_some() {
        return Ok(quote_spanned!(ty.span() => <#ty as ::std::default::Default>::default()));
    }
    let name = public_name(field)?;
    let mut options = Vec::new();
    for attribute in &field.attrs {
        options.extend(option(attribute)?);
    }
    let handle = quote_spanned!(ty.span() => <#ty as ::millstream_sdk::declare::Handle>);
    let default = quote!(::std::default::Default::default());
    // A field's options are set one by one, so that a wrong one is reported at its attribute.
    Ok(quote! {{
        #[allow(unused_mut, reason = "a field without options")]
        let mut options: #handle::Options = #default;
        #(#options)*
        #handle::declare(registry, #name, options)
    }})
}

/// What an attribute sets.
fn option(attribute: &Attribute) -> Result<Option<TokenStream>> {
    let Some(ident) = attribute.path().get_ident() else { return Ok(None) };
    // Errors point at the attribute; names mean what they mean in the derive.
    let span = ident.span().resolved_at(Span::call_site());
    Ok(match ident.to_string().as_str() {
        "ttl" => {
            let ttl = attribute.parse_args_with(ttl)?;
            Some(quote_spanned!(span => options.ttl = #ttl;))
        }
        "version" => {
            let version: LitInt = attribute.parse_args()?;
            if version.base10_parse::<u32>()? == 0 {
                return Err(Error::new(version.span(), "versions start at 1"));
            }
            Some(quote_spanned!(span => options.version = #version;))
        }
        "on_demand" => {
            attribute.meta.require_path_only()?;
            Some(quote_spanned!(span => options.on_demand = true;))
        }
        "event_time" => Some(quote_spanned!(span => options.clock = ::millstream_sdk::Clock::EventTime;)),
        "processing_time" => Some(quote_spanned!(span => options.clock = ::millstream_sdk::Clock::ProcessingTime;)),
        _ => None,
    })
}

/// `"24h"`, `"1h", clock = "processing_time"`, `"1h", renewed_by_reads`.
fn ttl(tokens: ParseStream<'_>) -> Result<TokenStream> {
    let duration = milliseconds(&tokens.parse()?)?;
    let mut clock = Ident::new("EventTime", Span::call_site());
    let mut renewed = false;
    while !tokens.is_empty() {
        tokens.parse::<Token![,]>()?;
        if tokens.is_empty() {
            break;
        }
        let word: Ident = tokens.parse()?;
        if word == "renewed_by_reads" {
            renewed = true;
        } else if word == "clock" {
            tokens.parse::<Token![=]>()?;
            let value: LitStr = tokens.parse()?;
            clock = match value.value().as_str() {
                "event_time" => Ident::new("EventTime", Span::call_site()),
                "processing_time" => Ident::new("ProcessingTime", Span::call_site()),
                _ => return Err(Error::new(value.span(), "the clock is \"event_time\" or \"processing_time\"")),
            };
        } else {
            return Err(Error::new(word.span(), "a ttl may say `clock = \"...\"` and `renewed_by_reads`"));
        }
    }
    Ok(quote! {
        ::std::option::Option::Some(::millstream_sdk::bindings::types::Ttl {
            milliseconds: #duration,
            clock: ::millstream_sdk::Clock::#clock,
            renewed_by_reads: #renewed,
        })
    })
}
