//! Compiles the BPF programs, and generates a Rust skeleton for each.

use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

/// What the programs share, and the parts of the small TCP.
const BPF_HEADERS: [&str; 8] = [
    "frame.h",
    "histogram.h",
    "members.h",
    "pace.h",
    "tcp_answer.h",
    "tcp_open.h",
    "tcp_segment.h",
    "tcp_state.h",
];

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for header in BPF_HEADERS {
        println!("cargo:rerun-if-changed=src/bpf/{header}");
    }
    let arguments = clang_arguments();
    for name in ["generator", "sink", "drops", "tcp"] {
        let source = Path::new("src/bpf").join(format!("{name}.bpf.c"));
        println!("cargo:rerun-if-changed={}", source.display());
        let built = SkeletonBuilder::new()
            .source(&source)
            .clang_args(&arguments)
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        if let Err(error) = built {
            eprintln!("compile {} with clang: {error:#}", source.display());
            std::process::exit(1);
        }
    }
}

/// Debian keeps the kernel's `asm` headers in a folder of the machine that clang does not look
/// into for the BPF machine.
fn clang_arguments() -> Vec<String> {
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let headers = format!("/usr/include/{arch}-linux-gnu");
    let mut arguments = vec!["-Wall".to_owned(), "-Werror".to_owned()];
    if Path::new(&headers).is_dir() {
        arguments.extend(["-idirafter".to_owned(), headers]);
    }
    arguments
}
