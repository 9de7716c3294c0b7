//! `#[derive(Input)]`: the fields to take out of a record, and how a row of their columns becomes the struct again.

use crate::attributes::{attribute, lifetime, name, snake_case};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DataEnum, DeriveInput, Error, Field, Fields, Ident, LitStr, Result};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let body = match &input.data {
        Data::Struct(data) => of_struct(&input.ident, &data.fields)?,
        Data::Enum(data) => of_enum(&input.ident, data)?,
        Data::Union(_) => return Err(Error::new_spanned(input, "an input is a struct, or an enum of structs")),
    };
    let name = &input.ident;
    // The trait is implemented by the struct that borrows for ever: it stands for the struct at any lifetime.
    let (implementor, row) = match lifetime(input)? {
        Some(_) => (quote!(#name<'static>), quote!(#name<'r>)),
        None => (quote!(#name), quote!(#name)),
    };
    let members = input_members(input);
    Ok(quote! {
        // A field may be declared only so that records without it are refused: it is not dead.
        const _: fn(&#implementor) = |_row| { #(let _ = &_row.#members;)* };

        #[automatically_derived]
        impl ::millstream_sdk::Input for #implementor {
            type Row<'r> = #row;
            #body
        }
    })
}

/// The fields of a struct; none of an enum.
fn input_members(input: &DeriveInput) -> Vec<&Ident> {
    let Data::Struct(data) = &input.data else { return Vec::new() };
    data.fields.iter().filter_map(|field| field.ident.as_ref()).collect()
}

fn of_struct(ident: &Ident, fields: &Fields) -> Result<TokenStream> {
    let names = fields.iter().map(name).collect::<Result<Vec<_>>>()?;
    let pointers = fields.iter().map(pointer).collect::<Result<Vec<_>>>()?;
    let types: Vec<_> = fields.iter().map(|field| crate::lifetimes::erased(&field.ty)).collect();
    let texts: Vec<_> = pointers.iter().map(|(name, _)| name).collect();
    let places: Vec<_> = pointers.iter().map(|(_, place)| place).collect();
    let indexes = 0..names.len();
    Ok(quote! {
        fn declare(fields: &mut ::std::vec::Vec<::millstream_sdk::bindings::types::Field>, input: ::std::option::Option<u32>) {
            #(fields.push(::millstream_sdk::input_field::<#types>(#texts, #places, input));)*
        }

        #[inline]
        fn read<'r>(fields: &::millstream_sdk::Fields<'r>, row: usize) -> ::std::result::Result<Self::Row<'r>, ::millstream_sdk::Bad> {
            ::std::result::Result::Ok(#ident {
                #(#names: fields.get(#indexes, row).map_err(|bad| bad.within(#places))?,)*
            })
        }

        #[cfg(not(target_arch = "wasm32"))]
        fn cells(row: &Self::Row<'_>) -> (u32, ::std::vec::Vec<::std::option::Option<::millstream_sdk::testing::Cell>>) {
            (0, ::std::vec![#(::millstream_sdk::FieldValue::cell(&row.#names)),*])
        }
    })
}

/// A field's name, and where it is found.
fn pointer(field: &Field) -> Result<(LitStr, LitStr)> {
    use syn::ext::IdentExt;
    let ident = name(field)?;
    let text = ident.unraw().to_string();
    let place = match attribute(&field.attrs, "at") {
        Some(attribute) => attribute.parse_args::<LitStr>()?,
        None => LitStr::new(&format!("/{text}"), ident.span()),
    };
    if !place.value().starts_with('/') {
        return Err(Error::new(place.span(), "a pointer starts with a slash, such as \"/city\" or \"/user/id\""));
    }
    Ok((LitStr::new(&text, ident.span()), place))
}

fn of_enum(ident: &Ident, data: &DataEnum) -> Result<TokenStream> {
    let mut names = Vec::new();
    let mut variants = Vec::new();
    let mut types = Vec::new();
    for variant in &data.variants {
        let Fields::Unnamed(fields) = &variant.fields else {
            return Err(Error::new_spanned(
                variant,
                "an input of several is a variant around its struct: `Ride(Ride)`",
            ));
        };
        if fields.unnamed.len() != 1 {
            return Err(Error::new_spanned(
                variant,
                "an input of several is a variant around one struct: `Ride(Ride)`",
            ));
        }
        names.push(snake_case(&variant.ident));
        variants.push(&variant.ident);
        types.push(crate::lifetimes::erased(&fields.unnamed[0].ty));
    }
    let numbers: Vec<u32> = (0..names.len() as u32).collect();
    Ok(quote! {
        fn inputs() -> ::std::vec::Vec<::std::string::String> {
            ::std::vec![#(::std::string::String::from(#names)),*]
        }

        fn declare(fields: &mut ::std::vec::Vec<::millstream_sdk::bindings::types::Field>, _: ::std::option::Option<u32>) {
            #(<#types as ::millstream_sdk::Input>::declare(fields, ::std::option::Option::Some(#numbers));)*
        }

        #[inline]
        fn read<'r>(fields: &::millstream_sdk::Fields<'r>, row: usize) -> ::std::result::Result<Self::Row<'r>, ::millstream_sdk::Bad> {
            match fields.input() {
                #(#numbers => ::std::result::Result::Ok(#ident::#variants(
                    <#types as ::millstream_sdk::Input>::read(fields, row)?,
                )),)*
                other => ::std::panic!("the host hands in rows of a declared input, not of input {other}"),
            }
        }

        #[cfg(not(target_arch = "wasm32"))]
        fn cells(row: &Self::Row<'_>) -> (u32, ::std::vec::Vec<::std::option::Option<::millstream_sdk::testing::Cell>>) {
            match row {
                #(#ident::#variants(row) => (#numbers, <#types as ::millstream_sdk::Input>::cells(row).1),)*
            }
        }
    })
}
