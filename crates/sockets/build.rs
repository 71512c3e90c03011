//! How the library is linked.

fn main() {
    // Its functions have the names of the C library's. Where one calls another, this library's is meant,
    // also in a program that has functions of such names itself.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo:rerun-if-changed=build.rs");
}
