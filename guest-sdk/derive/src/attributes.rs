//! What all derives read: names, lifetimes, durations.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::{Attribute, DeriveInput, Error, Field, GenericParam, Ident, Lifetime, LitStr, Result};

/// The only lifetime of a struct, if it has one; other generics are refused.
pub(crate) fn lifetime(input: &DeriveInput) -> Result<Option<&Lifetime>> {
    let mut lifetime = None;
    for parameter in &input.generics.params {
        match parameter {
            GenericParam::Lifetime(found) if lifetime.is_none() => lifetime = Some(&found.lifetime),
            other => return Err(Error::new_spanned(other, "one lifetime is all that this derive can carry")),
        }
    }
    Ok(lifetime)
}

/// A field's name.
pub(crate) fn name(field: &Field) -> Result<&Ident> {
    field.ident.as_ref().ok_or_else(|| Error::new_spanned(field, "fields need names here: the host knows them by name"))
}

/// The field's name as text, or what `#[name("...")]` says.
pub(crate) fn public_name(field: &Field) -> Result<LitStr> {
    match attribute(&field.attrs, "name") {
        Some(attribute) => attribute.parse_args(),
        None => {
            let ident = name(field)?;
            Ok(LitStr::new(&ident.unraw().to_string(), ident.span()))
        }
    }
}

/// The attribute of this name.
pub(crate) fn attribute<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|attribute| attribute.path().is_ident(name))
}

/// A duration such as `24h` or `1h30m`, in milliseconds.
pub(crate) fn milliseconds(literal: &LitStr) -> Result<u64> {
    let text = literal.value();
    let wrong = || {
        Error::new(literal.span(), "a duration is a number and a unit, such as \"24h\" or \"1h30m\": ms, s, m, h, d")
    };
    let mut rest = text.trim();
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let behind = &rest[digits..];
        let unit_end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let unit = match &behind[..unit_end] {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        total = number.checked_mul(unit).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        rest = &behind[unit_end..];
    }
    if total == 0 { Err(wrong()) } else { Ok(total) }
}

/// `PickupLate` as `pickup_late`.
pub(crate) fn snake_case(name: &Ident) -> LitStr {
    let mut snake = String::new();
    for (index, letter) in name.unraw().to_string().char_indices() {
        if letter.is_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    LitStr::new(&snake, Span::call_site())
}
