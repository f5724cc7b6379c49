//! Arbitrary bytes as nft text that weir wrote, or a listing of it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_syntax::fuzz::check_nft_normalize_idempotent(data));
