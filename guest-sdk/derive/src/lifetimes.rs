//! A type with every lifetime replaced by `'static`: what a declaration needs to know of it.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Lifetime, Type};

/// The type's tokens, with `'static` for every lifetime.
pub(crate) fn erased(ty: &Type) -> TokenStream {
    replace(ty.to_token_stream())
}

fn replace(tokens: TokenStream) -> TokenStream {
    let mut replaced = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(tick) if tick.as_char() == '\'' => {
                tokens.next();
                Lifetime::new("'static", Span::call_site()).to_tokens(&mut replaced);
            }
            TokenTree::Punct(and) if and.as_char() == '&' => {
                replaced.extend([TokenTree::Punct(and)]);
                let borrowed_for = matches!(tokens.peek(), Some(TokenTree::Punct(tick)) if tick.as_char() == '\'');
                if !borrowed_for {
                    replaced.extend(quote!('static));
                }
            }
            TokenTree::Group(group) => {
                let inner = proc_macro2::Group::new(group.delimiter(), replace(group.stream()));
                replaced.extend([TokenTree::Group(inner)]);
            }
            other => replaced.extend([other]),
        }
    }
    replaced
}
