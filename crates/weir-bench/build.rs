//! Compiles the shim of `rte_acl` if the feature asks for it.

fn main() {
    println!("cargo:rerun-if-changed=src/rte_acl/shim.c");
    #[cfg(feature = "rte-acl")]
    compile_rte_acl_shim();
}

#[cfg(feature = "rte-acl")]
fn compile_rte_acl_shim() {
    let dpdk =
        pkg_config::Config::new().cargo_metadata(false).probe("libdpdk").unwrap_or_else(|error| {
            panic!("feature rte-acl needs DPDK (Debian: apt install libdpdk-dev): {error}")
        });
    // The headers of DPDK need its configuration first, and inline SSSE3.
    cc::Build::new()
        .file("src/rte_acl/shim.c")
        .includes(dpdk.include_paths)
        .flag("-include")
        .flag("rte_config.h")
        .flag_if_supported("-march=corei7")
        .warnings(false)
        .compile("weir_acl_shim");
    println!("cargo:rustc-link-lib=rte_acl");
    println!("cargo:rustc-link-lib=rte_eal");
}
