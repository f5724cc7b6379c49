//! Attributes that were built are read back; bytes that were not are refused without a panic.

use proptest::prelude::*;

use super::*;

/// A list of attributes as a tree.
#[derive(Clone, Debug, PartialEq)]
enum AttributeTree {
    Value(u16, Vec<u8>),
    Nest(u16, Vec<AttributeTree>),
}

fn trees() -> impl Strategy<Value = Vec<AttributeTree>> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..40);
    let leaf = (0u16..=ATTRIBUTE_TYPE_MASK, bytes)
        .prop_map(|(kind, value)| AttributeTree::Value(kind, value));
    let tree = leaf.prop_recursive(4, 64, 6, |inner| {
        let inside = proptest::collection::vec(inner, 0..6);
        (0u16..=ATTRIBUTE_TYPE_MASK, inside)
            .prop_map(|(kind, inside)| AttributeTree::Nest(kind, inside))
    });
    proptest::collection::vec(tree, 0..8)
}

fn append_trees(writer: &mut AttributeWriter, trees: &[AttributeTree]) {
    for tree in trees {
        match tree {
            AttributeTree::Value(kind, value) => writer.put(*kind, value),
            AttributeTree::Nest(kind, inside) => {
                writer.put_nested(*kind, |writer| append_trees(writer, inside))
            }
        }
    }
}

fn encode_trees(trees: &[AttributeTree]) -> Vec<u8> {
    let mut writer = AttributeWriter::default();
    append_trees(&mut writer, trees);
    writer.bytes_unless_too_long().unwrap().to_vec()
}

fn assert_reads_back(attributes: NetlinkAttributes<'_>, trees: &[AttributeTree]) {
    assert_eq!(attributes.iter().count(), trees.len());
    for (attribute, tree) in attributes.iter().zip(trees) {
        match tree {
            AttributeTree::Value(kind, value) => {
                assert_eq!((attribute.kind, attribute.value), (*kind, &value[..]));
            }
            AttributeTree::Nest(kind, inside) => {
                assert_eq!(attribute.kind, *kind);
                assert_reads_back(attribute.nested_attributes().unwrap(), inside);
            }
        }
    }
}

/// Takes everything out of bytes that can be taken out, to four levels.
fn read_every_attribute(bytes: &[u8], depth: u32) {
    let Ok(attributes) = NetlinkAttributes::parse(bytes) else { return };
    for attribute in attributes.iter() {
        assert!(attribute.value.len() <= bytes.len());
        let _ = (attribute.u32(), attribute.be32(), attribute.be64(), attribute.to_text());
        if depth > 0 {
            read_every_attribute(attribute.value, depth - 1);
        }
    }
}

proptest! {
    #[test]
    fn encoded_attributes_are_read_back(trees in trees()) {
        let bytes = encode_trees(&trees);
        prop_assert_eq!(bytes.len() % ATTRIBUTE_ALIGNMENT_BYTES, 0);
        assert_reads_back(NetlinkAttributes::parse(&bytes).unwrap(), &trees);
    }

    #[test]
    fn a_truncated_attribute_list_is_refused_or_ends_early(
        trees in trees(),
        at: prop::sample::Index,
    ) {
        let bytes = encode_trees(&trees);
        let cut = &bytes[..at.index(bytes.len() + 1)];
        if let Ok(attributes) = NetlinkAttributes::parse(cut) {
            let whole = NetlinkAttributes::parse(&bytes).unwrap();
            let count = attributes.iter().count();
            prop_assert!(attributes.iter().eq(whole.iter().take(count)));
        }
        read_every_attribute(cut, 4);
    }

    #[test]
    fn an_attribute_list_with_a_changed_byte_does_not_panic(trees in trees(), at: prop::sample::Index, to: u8) {
        let mut bytes = encode_trees(&trees);
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        read_every_attribute(&bytes, 4);
    }

    #[test]
    fn reading_attributes_from_any_bytes_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_every_attribute(&bytes, 4);
    }
}

#[test]
fn a_wrong_length_is_refused_by_name() {
    let error = |bytes: &[u8]| NetlinkAttributes::parse(bytes).unwrap_err();
    assert_eq!(error(&[8, 0, 1]), MalformedNetlink::ShortHeader { expected: 4, left: 3 });
    assert_eq!(
        error(&[8, 0, 1, 0, 5]),
        MalformedNetlink::AttributeLength { kind: 1, length: 8, left: 5 }
    );
    assert_eq!(
        error(&[3, 0, 1, 0]),
        MalformedNetlink::AttributeLength { kind: 1, length: 3, left: 4 }
    );
    assert_eq!(error(&[0; 4]), MalformedNetlink::AttributeLength { kind: 0, length: 0, left: 4 });
}

#[test]
fn a_value_of_another_size_is_refused() {
    let bytes = encode_trees(&[AttributeTree::Value(7, vec![1, 2])]);
    let attributes = NetlinkAttributes::parse(&bytes).unwrap();
    let wrong = MalformedNetlink::ValueLength { kind: 7, length: 2, expected: 4 };
    assert_eq!(attributes.require(7).unwrap().be32(), Err(wrong));
    assert_eq!(attributes.require(8), Err(MalformedNetlink::MissingAttribute { kind: 8 }));
}

#[test]
fn an_attribute_of_64_kib_is_refused_not_truncated() {
    let mut writer = AttributeWriter::default();
    writer.put(3, &vec![0; 0xffff - ATTRIBUTE_HEADER_BYTES]);
    assert!(writer.bytes_unless_too_long().is_ok());
    writer.put(4, &vec![0; 0x10000 - ATTRIBUTE_HEADER_BYTES]);
    assert_eq!(writer.bytes_unless_too_long(), Err(4));
    let mut writer = AttributeWriter::default();
    writer.put_nested(5, |writer| (0..20).for_each(|_| writer.put(6, &[0; 4000])));
    assert_eq!(writer.bytes_unless_too_long(), Err(5));
}
