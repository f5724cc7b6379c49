//! Arbitrary bytes as the text of `iptables-save`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_syntax::fuzz::check_iptables_round_trip(data, weir_model::Family::V4);
});
