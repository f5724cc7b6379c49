test:
	cargo test --workspace

test-corpus:
	@true
