//! Chance that can be repeated: one seed for a whole run, printed where a test fails, taken from `MILLSTREAM_SEED` if set.
//! `scripts/soak` runs the seeded tests with one seed after the other.

/// A seeded sequence of numbers: SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Debug, Clone)]
pub struct Chance {
    state: u64,
}

/// The seed of this run: `MILLSTREAM_SEED`, or 1. Printed, which `cargo test` shows when the test fails.
#[expect(clippy::print_stdout, reason = "cargo shows it where the test fails")]
pub fn seed() -> u64 {
    let seed = match std::env::var("MILLSTREAM_SEED") {
        Ok(text) => text.parse().expect("MILLSTREAM_SEED is a whole number"),
        Err(_) => 1,
    };
    println!("again with MILLSTREAM_SEED={seed}");
    seed
}

/// Says how often the program was killed, which `scripts/soak` adds up.
#[expect(clippy::print_stdout, reason = "cargo shows it where the test fails, and with --nocapture")]
pub fn tell_kills(kills: u32, of: &str) {
    println!("killed {kills} times: {of}");
}

impl Chance {
    /// The sequence of `seed`; `purpose` keeps tests with the same seed apart.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let purpose = purpose.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self { state: seed ^ purpose }
    }

    /// The next number, any.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "a range has at least one number");
        low + self.draw() % (high - low + 1)
    }
}

#[test]
fn same_seed_gives_the_same_numbers_and_purposes_differ() {
    let first_ten = |seed, purpose| {
        let mut chance = Chance::new(seed, purpose);
        [(); 10].map(|()| chance.between(3, 9))
    };
    assert_eq!(first_ten(7, "kill"), first_ten(7, "kill"));
    assert_ne!(first_ten(7, "kill"), first_ten(7, "batch"));
    assert!(first_ten(7, "kill").iter().all(|number| (3..=9).contains(number)));
}
