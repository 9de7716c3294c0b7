//! The derives of the guest SDK: what an author writes as plain structs becomes declarations and column code.
//! Each derive is a file; none knows more of a type than its tokens, the traits of `millstream-sdk` do the rest.

mod attributes;
mod input;
mod lifetimes;
mod output;
mod states;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `millstream_sdk::Input`: `#[at("/pointer")]` on a field says where it is found in a record.
/// On an enum with one such struct per variant, each variant is an input, in order, named by the variant in `snake_case`.
#[proc_macro_derive(Input, attributes(at))]
pub fn input(tokens: TokenStream) -> TokenStream {
    let input = parse_macro_input!(tokens as DeriveInput);
    input::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `millstream_sdk::Output`: each field is a column, under its own name or `#[name("other")]`.
#[proc_macro_derive(Output, attributes(name))]
pub fn output(tokens: TokenStream) -> TokenStream {
    let input = parse_macro_input!(tokens as DeriveInput);
    output::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `millstream_sdk::States`: each field is a state, timer, side output or metric. The trait's page lists the attributes.
#[proc_macro_derive(States, attributes(ttl, version, on_demand, event_time, processing_time, name, cache))]
pub fn states(tokens: TokenStream) -> TokenStream {
    let input = parse_macro_input!(tokens as DeriveInput);
    states::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
