//! Records the compiler's version, which every benchmark result carries.

use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|out| String::from_utf8(out.stdout).ok())
        .map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned());
    let profile = std::env::var("PROFILE").unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo::rustc-env=BAREWIRE_RUSTC={version}");
    // Cargo sets these for what it runs, too: not the name of a setting of the sockets.
    println!("cargo::rustc-env=BAREWIRE_BUILD_PROFILE={profile}");
    println!("cargo::rerun-if-changed=build.rs");
}
