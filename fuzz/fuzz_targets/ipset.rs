//! Arbitrary bytes as the text of `ipset save`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_syntax::fuzz::check_ipset_round_trip(data));
