//! The other end sends anything at any time, by chance. A failure prints the seed.

mod any_bytes;

use barewire_units::Rng;

#[test]
fn a_connection_bears_anything() {
    for seed in 0..3000 {
        println!("seed {seed}");
        let mut rng = Rng::from_seed(seed);
        let mut bytes = vec![0; 20 + rng.index(400)];
        rng.fill_bytes(&mut bytes);
        any_bytes::run(&bytes);
    }
}
