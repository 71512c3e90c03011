//! Says how this program is built, which a calibration carries.

fn main() {
    let profile = std::env::var("PROFILE").unwrap_or_else(|_| "unknown".to_owned());
    // Cargo sets these for what it runs, too: not the name of a setting of the sockets.
    println!("cargo::rustc-env=BAREWIRE_BUILD_PROFILE={profile}");
    println!("cargo::rerun-if-changed=build.rs");
}
