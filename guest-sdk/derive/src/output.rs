//! `#[derive(Output)]`: a struct's fields as columns, and how a row is appended to them.

use crate::attributes::{lifetime, name, public_name};
use crate::lifetimes::erased;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Index, Result};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(input, "an output is a struct: its fields are the columns"));
    };
    if data.fields.is_empty() {
        return Err(Error::new_spanned(input, "an output without columns is `()`, `Json<T>` or `Vec<u8>`"));
    }
    let ident = &input.ident;
    let (implementor, row) = match lifetime(input)? {
        Some(_) => (quote!(#ident<'static>), quote!(#ident<'r>)),
        None => (quote!(#ident), quote!(#ident)),
    };
    let fields = data.fields.iter().map(name).collect::<Result<Vec<_>>>()?;
    let names = data.fields.iter().map(public_name).collect::<Result<Vec<_>>>()?;
    let types: Vec<_> = data.fields.iter().map(|field| erased(&field.ty)).collect();
    let indexes: Vec<_> = (0..fields.len()).map(Index::from).collect();
    Ok(quote! {
        const _: () = {
            #[derive(::std::default::Default)]
            pub struct MillstreamColumns(#(<#types as ::millstream_sdk::OutputValue>::Column),*);

            #[automatically_derived]
            impl ::millstream_sdk::Output for #implementor {
                type Row<'r> = #row;
                type Columns = MillstreamColumns;

                fn declare() -> ::std::vec::Vec<::millstream_sdk::bindings::types::OutputField> {
                    ::std::vec![#(::millstream_sdk::bindings::types::OutputField {
                        name: ::std::string::String::from(#names),
                        value_type: <#types as ::millstream_sdk::OutputValue>::TYPE,
                    }),*]
                }

                #[inline]
                fn append(row: Self::Row<'_>, columns: &mut MillstreamColumns) {
                    #(::millstream_sdk::OutputValue::append(&row.#fields, &mut columns.#indexes);)*
                }

                fn finish(columns: MillstreamColumns) -> ::millstream_sdk::bindings::types::Body {
                    ::millstream_sdk::bindings::types::Body::Columns(::std::vec![#(::millstream_sdk::ColumnBuilder::finish(columns.#indexes)),*])
                }
            }
        };
    })
}
