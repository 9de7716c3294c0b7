//! The bytes of one aggregate's accumulator, and what one value does to them. Knows nothing of columns or keys.

/// The 8 bytes at `at`.
#[inline]
fn word(bytes: &[u8], at: usize) -> [u8; 8] {
    bytes[at..at + 8].try_into().expect("a slice of 8 bytes has 8 bytes")
}

#[inline]
pub(super) fn int(bytes: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(word(bytes, at))
}

#[inline]
pub(super) fn float(bytes: &[u8], at: usize) -> f64 {
    f64::from_le_bytes(word(bytes, at))
}

#[inline]
pub(super) fn wide(bytes: &[u8], at: usize) -> i128 {
    i128::from_le_bytes(bytes[at..at + 16].try_into().expect("a slice of 16 bytes has 16 bytes"))
}

#[inline]
pub(super) fn set_int(bytes: &mut [u8], at: usize, value: i64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[inline]
pub(super) fn set_float(bytes: &mut [u8], at: usize, value: f64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[inline]
pub(super) fn set_wide(bytes: &mut [u8], at: usize, value: i128) {
    bytes[at..at + 16].copy_from_slice(&value.to_le_bytes());
}

/// Changes a count by `by`; returns it.
#[inline]
pub(super) fn count(bytes: &mut [u8], by: i64) -> i64 {
    let n = int(bytes, 0).wrapping_add(by);
    set_int(bytes, 0, n);
    n
}

/// Adds `n` ints that sum to `value`. 2^64 of the largest ints fit.
#[inline]
pub(super) fn add_ints(bytes: &mut [u8], n: i64, value: i128) {
    count(bytes, n);
    set_wide(bytes, 8, wide(bytes, 8).wrapping_add(value));
}

/// Adds `n` floats that sum to `value`. What rounding takes from the sum is kept beside it (Neumaier 1974).
#[inline]
pub(super) fn add_floats(bytes: &mut [u8], n: i64, value: f64) {
    if count(bytes, n) == 0 {
        // Why: all that went in was taken out; what rounding left behind must not stay.
        bytes[8..24].fill(0);
        return;
    }
    let sum = float(bytes, 8);
    let total = sum + value;
    let lost = if sum.abs() >= value.abs() { (sum - total) + value } else { (value - total) + sum };
    set_float(bytes, 8, total);
    set_float(bytes, 16, float(bytes, 16) + lost);
}

/// The sum of floats; compensation means nothing once the sum has left the finite numbers.
#[inline]
pub(super) fn float_sum(bytes: &[u8]) -> f64 {
    let sum = float(bytes, 8);
    if sum.is_finite() { sum + float(bytes, 16) } else { sum }
}

/// Keeps `value` if there is none yet or if it is `better` than the one kept.
#[inline]
pub(super) fn keep_int(bytes: &mut [u8], value: i64, better: impl Fn(i64, i64) -> bool) {
    if bytes[0] == 0 || better(value, int(bytes, 1)) {
        bytes[0] = 1;
        set_int(bytes, 1, value);
    }
}

/// The same for floats.
#[inline]
pub(super) fn keep_float(bytes: &mut [u8], value: f64, better: impl Fn(f64, f64) -> bool) {
    if bytes[0] == 0 || better(value, float(bytes, 1)) {
        bytes[0] = 1;
        set_float(bytes, 1, value);
    }
}
