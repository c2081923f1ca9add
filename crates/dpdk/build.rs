//! Finds libdpdk with pkg-config, compiles the C shim against its headers and names the libraries to link.

use std::env;
use std::process::ExitCode;

/// What the shim calls. Poll-mode drivers are not linked: the EAL loads them from the distribution's driver directory.
const LIBRARIES: &[&str] =
    &["rte_eal", "rte_log", "rte_ring", "rte_mempool", "rte_mbuf", "rte_ethdev", "rte_kvargs"];

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=csrc/shim.c");
    let library = match pkg_config::Config::new()
        .atleast_version("22.11")
        .cargo_metadata(false)
        .probe("libdpdk")
    {
        Ok(library) => library,
        Err(_) => {
            eprintln!(
                "DPDK 22.11 or later was not found by pkg-config: install its development package (Debian and Ubuntu: \
                 `apt install libdpdk-dev pkg-config`) or point PKG_CONFIG_PATH at the folder with libdpdk.pc."
            );
            return ExitCode::FAILURE;
        }
    };

    let mut shim = cc::Build::new();
    shim.file("csrc/shim.c").includes(&library.include_paths).flag("-include").flag("rte_config.h");
    // The headers' inline functions need SSE4.2; with a newer target they may use what the Rust code uses.
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let has_avx2 = features.split(',').any(|feature| feature == "avx2");
    shim.flag(if has_avx2 { "-march=x86-64-v3" } else { "-march=corei7" });
    shim.flag("-std=gnu11").flag("-Wno-deprecated-declarations").opt_level(3).compile("sluice_dpdk_shim");

    for path in &library.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    let installed: Vec<&str> = library.libs.iter().map(String::as_str).collect();
    for name in LIBRARIES.iter().filter(|name| installed.contains(name)) {
        println!("cargo:rustc-link-lib=dylib={name}");
    }
    ExitCode::SUCCESS
}
