//! Chance without memory: any draw can be made again from its numbers alone. Never std's random state.

/// Steps of a Weyl sequence, the odd number nearest to 2^64 / golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Scrambles a number: the output function of SplitMix64 (Steele, Lea and Flood 2014).
#[inline]
fn scramble(mut number: u64) -> u64 {
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// A source of draws that are independent of each other and of other sources'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Draws(u64);

impl Draws {
    /// Of a stream.
    pub(super) fn of_stream(seed: u64, stream: u64) -> Self {
        Self(scramble(scramble(seed.wrapping_add(STEP)) ^ stream.wrapping_mul(STEP)))
    }

    /// Of item `n` of it.
    #[inline]
    pub(super) fn of_item(self, n: u64) -> Self {
        Self(scramble(self.0.wrapping_add(n.wrapping_mul(STEP))))
    }

    /// 64 random bits for one purpose; the same again for the same purpose.
    #[inline]
    pub(super) fn bits(self, purpose: u64) -> u64 {
        scramble(self.0.wrapping_add((purpose + 1).wrapping_mul(STEP)))
    }

    /// A number from 0 to `below` - 1, all equally likely but for 1 part in 2^32. `below` is less than 2^32, at least 1.
    #[inline]
    pub(super) fn below(self, purpose: u64, below: u64) -> u64 {
        scale(self.bits(purpose) >> 32, below)
    }
}

/// 32 random bits to a number below `below`.
#[inline]
fn scale(bits: u64, below: u64) -> u64 {
    (bits * below) >> 32
}

/// The bits below which a draw happens with probability `share`.
pub(super) fn threshold(share: f64) -> u64 {
    // Why: a cast beyond u64 saturates, so a share of 1 always happens but for one draw in 2^64.
    (share * 2f64.powi(64)) as u64
}

/// Numbers 0, 1, 2, … with chances in proportion to 1 / (number + 1)^exponent, drawn in constant time: the alias method
/// (Walker 1977, tables built after Vose 1991).
#[derive(Debug)]
pub(super) struct Zipf {
    /// For each slot, how many of 2^32 draws stay, and where the others go.
    slots: Vec<(u32, u32)>,
}

impl Zipf {
    pub(super) fn new(numbers: u64, exponent: f64) -> Self {
        let weights: Vec<f64> = (0..numbers).map(|number| ((number + 1) as f64).powf(-exponent)).collect();
        let mean = weights.iter().sum::<f64>() / numbers as f64;
        let mut left: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
        let mut slots: Vec<(u32, u32)> = (0..numbers as u32).map(|number| (u32::MAX, number)).collect();
        let (mut poor, mut rich): (Vec<u32>, Vec<u32>) =
            (0..numbers as u32).partition(|&number| left[number as usize] < 1.0);
        while let (Some(&taker), Some(&giver)) = (poor.last(), rich.last()) {
            let has = left[taker as usize];
            slots[taker as usize] = ((has * 2f64.powi(32)) as u32, giver);
            left[giver as usize] -= 1.0 - has;
            poor.pop();
            if left[giver as usize] < 1.0 {
                rich.pop();
                poor.push(giver);
            }
        }
        Self { slots }
    }

    /// The number for 64 random bits.
    #[inline]
    pub(super) fn draw(&self, bits: u64) -> u64 {
        let slot = scale(bits >> 32, self.slots.len() as u64);
        let (stays, other) = self.slots[slot as usize];
        if bits as u32 <= stays { slot } else { u64::from(other) }
    }
}
