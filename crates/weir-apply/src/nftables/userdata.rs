//! User data of nft: information for its listing that nft stores with an object in the kernel, each
//! with a type, a length and a value (libnftnl include/udata.h). The kernel does not interpret it.

/// Maximum length of one value.
const VALUE_MAX_BYTES: usize = u8::MAX as usize;

/// Userdata under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct UserdataWriter {
    bytes: Vec<u8>,
}

impl UserdataWriter {
    pub(super) fn put(&mut self, kind: u8, value: &[u8]) {
        let value = &value[..value.len().min(VALUE_MAX_BYTES)];
        self.bytes.extend([kind, value.len() as u8]);
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn put_number(&mut self, kind: u8, number: u32) {
        self.put(kind, &number.to_ne_bytes());
    }

    pub(super) fn put_nested(&mut self, kind: u8, nested: &UserdataWriter) {
        self.put(kind, &nested.bytes);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A comment of a rule or chain, as nft can hold it.
pub(super) fn comment_userdata(comment: &str) -> Vec<u8> {
    const COMMENT: u8 = 0;
    let mut text = weir_syntax::nft::sanitize_and_truncate_comment(comment).into_bytes();
    text.push(0);
    let mut userdata = UserdataWriter::default();
    userdata.put(COMMENT, &text);
    userdata.bytes
}
