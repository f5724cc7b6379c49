//! DPDK's classifier finds the same first rules as ours (feature `rte-acl`).
#![cfg(feature = "rte-acl")]

use std::fmt::Write as _;

use weir_bench::rte_acl::{RteAclError, RteAclMethod, build_rte_acl_subject};
use weir_bench::{BenchSubject, TraceOptions, TracePattern, find_wrong_answers, generate_trace};
use weir_classify::classbench::parse_filter_set;

#[test]
fn every_available_rte_acl_method_agrees_with_linear() {
    let mut text = String::new();
    for n in 0..300 {
        let (len, port, proto) = (16 + n % 17, 7 * n, [6, 17][n % 2]);
        writeln!(
            text,
            "@10.{}.3.4/{len} 192.0.2.0/24 0 : 65535 {port} : 3000 0x{proto:02x}/0xFF",
            n % 256
        )
        .expect("writing to a string succeeds");
    }
    text += "@10.0.0.0/8 0.0.0.0/0 1024 : 65535 0 : 65535 0x00/0x00\n";
    let filters = parse_filter_set(&text, true).expect("filters of the format");
    let options = TraceOptions { pattern: TracePattern::Uniform, packet_count: 3001, seed: 1 };
    let keys = generate_trace(&filters, &options);
    let mut agreed = 0;
    for method in RteAclMethod::ALL {
        let subject = match build_rte_acl_subject(&filters, method) {
            Err(RteAclError::UnsupportedMethod(_)) if method != RteAclMethod::Scalar => continue,
            built => built.unwrap_or_else(|error| panic!("{error}")),
        };
        assert!(subject.memory_bytes() > 0);
        let check = find_wrong_answers(&[&subject], &filters, &keys).expect("linear");
        assert_eq!(check.wrong, [], "{}", subject.name());
        agreed += 1;
    }
    assert!(agreed > 0);
}
