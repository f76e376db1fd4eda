//! Generates the Rust types of `proto/loligo.proto`. No `protoc` is needed.
#![allow(clippy::disallowed_macros, reason = "a build script speaks to cargo by printing")]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/loligo.proto");
    let files = protox::compile(["proto/loligo.proto"], ["proto"])?;
    prost_build::Config::new().compile_fds(files)?;
    Ok(())
}
