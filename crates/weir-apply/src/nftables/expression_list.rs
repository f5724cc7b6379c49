//! Expressions of a rule in netlink: each has a name and attributes
//! (include/uapi/linux/netfilter/nf_tables.h, `NFTA_META_…` and so on).
//!
//! nft loads every value into the first register and compares it there. Only the key of a look-up
//! and the values of a translation use several registers. Registers of 16 bytes have the numbers 1
//! to 4; the parts of four bytes that they consist of have the numbers from 8.

use weir_kernel::netlink::attribute::AttributeWriter;
use weir_kernel::nft_protocol::{
    NFTA_COUNTER_BYTES, NFTA_COUNTER_PACKETS, NFTA_DATA_VALUE, NFTA_DATA_VERDICT, NFTA_EXPR_DATA,
    NFTA_EXPR_NAME, NFTA_LIST_ELEM, NFTA_VERDICT_CHAIN, NFTA_VERDICT_CODE,
};
use weir_model::nft::Verdict;

/// The register that verdicts are written to.
const VERDICT_REGISTER: u32 = 0;
/// The register that values are loaded into.
pub(super) const FIRST_REGISTER: u32 = 1;
/// `NFT_REG32_00`.
const FIRST_SHORT_REGISTER: u32 = 8;
/// Parts of four bytes that a register of 16 bytes consists of.
const SHORT_REGISTERS_PER_REGISTER: u32 = 4;

/// The number of the register that begins after `parts` parts of four bytes.
pub(super) const fn register_at(parts: u32) -> u32 {
    match parts % SHORT_REGISTERS_PER_REGISTER {
        0 => FIRST_REGISTER + parts / SHORT_REGISTERS_PER_REGISTER,
        _ => FIRST_SHORT_REGISTER + parts,
    }
}

/// The place of bytes in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PayloadPlace {
    pub base: PayloadBase,
    /// Bytes from the beginning of the header.
    pub offset: u32,
    /// Bytes.
    pub len: u32,
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PayloadBase {
    Link = 0,
    Network = 1,
    Transport = 2,
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegisterComparison {
    Equal = 0,
    NotEqual = 1,
    Less = 2,
    LessOrEqual = 3,
    GreaterOrEqual = 5,
}

impl RegisterComparison {
    pub(super) const fn equal_unless(negated: bool) -> RegisterComparison {
        if negated { RegisterComparison::NotEqual } else { RegisterComparison::Equal }
    }
}

/// A set in which a rule looks up a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct LookedUpSet<'a> {
    pub name: &'a str,
    /// Its number in the transaction.
    pub id: u32,
}

/// The expressions of a rule under construction.
pub(super) struct ExpressionList<'w> {
    list: &'w mut AttributeWriter,
}

impl<'w> ExpressionList<'w> {
    pub(super) fn new(list: &'w mut AttributeWriter) -> ExpressionList<'w> {
        ExpressionList { list }
    }

    /// Adds an expression whose attributes `fill` writes.
    pub(super) fn push(&mut self, name: &str, fill: impl FnOnce(&mut AttributeWriter)) {
        self.list.put_nested(NFTA_LIST_ELEM, |expression| put_expression(expression, name, fill));
    }

    /// Adds an expression whose attributes are numbers.
    pub(super) fn push_with_numbers(&mut self, name: &str, numbers: &[(u16, u32)]) {
        self.push(name, |attributes| put_numbers(attributes, numbers));
    }

    pub(super) fn push_meta_load(&mut self, key: u32, register: u32) {
        const NFTA_META_DREG: u16 = 1;
        self.push_with_numbers("meta", &[(NFTA_META_KEY, key), (NFTA_META_DREG, register)]);
    }

    pub(super) fn push_meta_set(&mut self, key: u32) {
        const NFTA_META_SREG: u16 = 3;
        self.push_with_numbers("meta", &[(NFTA_META_KEY, key), (NFTA_META_SREG, FIRST_REGISTER)]);
    }

    /// `direction`: 0 for the original direction, 1 for replies.
    pub(super) fn push_ct_load(&mut self, key: u32, direction: Option<u8>, register: u32) {
        const NFTA_CT_DREG: u16 = 1;
        const NFTA_CT_DIRECTION: u16 = 3;
        self.push("ct", |ct| {
            put_numbers(ct, &[(NFTA_CT_KEY, key), (NFTA_CT_DREG, register)]);
            if let Some(direction) = direction {
                ct.put(NFTA_CT_DIRECTION, &[direction]);
            }
        });
    }

    pub(super) fn push_ct_set(&mut self, key: u32) {
        const NFTA_CT_SREG: u16 = 4;
        self.push_with_numbers("ct", &[(NFTA_CT_KEY, key), (NFTA_CT_SREG, FIRST_REGISTER)]);
    }

    pub(super) fn push_payload_load(&mut self, place: PayloadPlace, register: u32) {
        const NFTA_PAYLOAD_DREG: u16 = 1;
        self.push("payload", |payload| {
            payload.put_be32(NFTA_PAYLOAD_DREG, register);
            put_payload_place(payload, place);
        });
    }

    /// Writes the first register into the packet; the checksum of an IPv4 header is updated.
    pub(super) fn push_payload_write(&mut self, place: PayloadPlace, has_ipv4_checksum: bool) {
        const NFTA_PAYLOAD_SREG: u16 = 5;
        const NFTA_PAYLOAD_CSUM_TYPE: u16 = 6;
        const NFTA_PAYLOAD_CSUM_OFFSET: u16 = 7;
        const NFT_PAYLOAD_CSUM_INET: u32 = 1;
        const IPV4_CHECKSUM_OFFSET: u32 = 10;
        self.push("payload", |payload| {
            payload.put_be32(NFTA_PAYLOAD_SREG, FIRST_REGISTER);
            put_payload_place(payload, place);
            if has_ipv4_checksum {
                payload.put_be32(NFTA_PAYLOAD_CSUM_TYPE, NFT_PAYLOAD_CSUM_INET);
                payload.put_be32(NFTA_PAYLOAD_CSUM_OFFSET, IPV4_CHECKSUM_OFFSET);
            }
        });
    }

    /// Compares the first register.
    pub(super) fn push_cmp(&mut self, comparison: RegisterComparison, value: &[u8]) {
        const NFTA_CMP_SREG: u16 = 1;
        const NFTA_CMP_OP: u16 = 2;
        const NFTA_CMP_DATA: u16 = 3;
        self.push("cmp", |cmp| {
            put_numbers(cmp, &[(NFTA_CMP_SREG, FIRST_REGISTER), (NFTA_CMP_OP, comparison as u32)]);
            put_value(cmp, NFTA_CMP_DATA, value);
        });
    }

    /// Continues the rule only if the first register is outside the range.
    pub(super) fn push_outside_range(&mut self, first: &[u8], last: &[u8]) {
        const NFTA_RANGE_SREG: u16 = 1;
        const NFTA_RANGE_OP: u16 = 2;
        const NFTA_RANGE_FROM_DATA: u16 = 3;
        const NFTA_RANGE_TO_DATA: u16 = 4;
        const NFT_RANGE_NEQ: u32 = 1;
        self.push("range", |range| {
            put_numbers(
                range,
                &[(NFTA_RANGE_SREG, FIRST_REGISTER), (NFTA_RANGE_OP, NFT_RANGE_NEQ)],
            );
            put_value(range, NFTA_RANGE_FROM_DATA, first);
            put_value(range, NFTA_RANGE_TO_DATA, last);
        });
    }

    /// `register = register & mask ^ xor`.
    pub(super) fn push_bitwise(&mut self, register: u32, mask: &[u8], xor: &[u8]) {
        const NFTA_BITWISE_SREG: u16 = 1;
        const NFTA_BITWISE_DREG: u16 = 2;
        const NFTA_BITWISE_LEN: u16 = 3;
        const NFTA_BITWISE_MASK: u16 = 4;
        const NFTA_BITWISE_XOR: u16 = 5;
        let numbers = [
            (NFTA_BITWISE_SREG, register),
            (NFTA_BITWISE_DREG, register),
            (NFTA_BITWISE_LEN, mask.len() as u32),
        ];
        self.push("bitwise", |bitwise| {
            put_numbers(bitwise, &numbers);
            put_value(bitwise, NFTA_BITWISE_MASK, mask);
            put_value(bitwise, NFTA_BITWISE_XOR, xor);
        });
    }

    /// Converts the first register, a number of four bytes, to network byte order.
    pub(super) fn push_to_network_order(&mut self) {
        const NFTA_BYTEORDER_SREG: u16 = 1;
        const NFTA_BYTEORDER_DREG: u16 = 2;
        const NFTA_BYTEORDER_OP: u16 = 3;
        const NFTA_BYTEORDER_LEN: u16 = 4;
        const NFTA_BYTEORDER_SIZE: u16 = 5;
        const NFT_BYTEORDER_HTON: u32 = 1;
        let numbers = [
            (NFTA_BYTEORDER_SREG, FIRST_REGISTER),
            (NFTA_BYTEORDER_DREG, FIRST_REGISTER),
            (NFTA_BYTEORDER_OP, NFT_BYTEORDER_HTON),
            (NFTA_BYTEORDER_LEN, 4),
            (NFTA_BYTEORDER_SIZE, 4),
        ];
        self.push_with_numbers("byteorder", &numbers);
    }

    /// Continues the rule only if the first register is in the set, or is not, if negated.
    pub(super) fn push_set_test(&mut self, set: LookedUpSet<'_>, negated: bool) {
        const NFTA_LOOKUP_FLAGS: u16 = 5;
        const NFT_LOOKUP_F_INV: u32 = 1;
        self.push("lookup", |lookup| {
            put_looked_up_set(lookup, set);
            if negated {
                lookup.put_be32(NFTA_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
            }
        });
    }

    /// Looks up the verdict with the first register as key.
    pub(super) fn push_verdict_lookup(&mut self, set: LookedUpSet<'_>) {
        const NFTA_LOOKUP_DREG: u16 = 3;
        self.push("lookup", |lookup| {
            put_looked_up_set(lookup, set);
            lookup.put_be32(NFTA_LOOKUP_DREG, VERDICT_REGISTER);
        });
    }

    pub(super) fn push_immediate(&mut self, register: u32, value: &[u8]) {
        self.push("immediate", |immediate| {
            immediate.put_be32(NFTA_IMMEDIATE_DREG, register);
            put_value(immediate, NFTA_IMMEDIATE_DATA, value);
        });
    }

    pub(super) fn push_verdict(&mut self, verdict: &Verdict) {
        self.push("immediate", |immediate| {
            immediate.put_be32(NFTA_IMMEDIATE_DREG, VERDICT_REGISTER);
            put_verdict(immediate, NFTA_IMMEDIATE_DATA, verdict);
        });
    }

    pub(super) fn push_counter(&mut self) {
        self.push("counter", put_new_counter);
    }
}

const NFTA_META_KEY: u16 = 2;
const NFTA_CT_KEY: u16 = 2;
const NFTA_IMMEDIATE_DREG: u16 = 1;
const NFTA_IMMEDIATE_DATA: u16 = 2;

/// Writes numbers of four bytes.
pub(super) fn put_numbers(attributes: &mut AttributeWriter, numbers: &[(u16, u32)]) {
    for (kind, number) in numbers {
        attributes.put_be32(*kind, *number);
    }
}

/// Writes the name and the attributes of an expression.
pub(super) fn put_expression(
    expression: &mut AttributeWriter,
    name: &str,
    fill: impl FnOnce(&mut AttributeWriter),
) {
    expression.put_text(NFTA_EXPR_NAME, name);
    expression.put_nested(NFTA_EXPR_DATA, fill);
}

/// Writes a counter that starts at zero.
pub(super) fn put_new_counter(counter: &mut AttributeWriter) {
    counter.put_be64(NFTA_COUNTER_BYTES, 0);
    counter.put_be64(NFTA_COUNTER_PACKETS, 0);
}

fn put_payload_place(payload: &mut AttributeWriter, place: PayloadPlace) {
    const NFTA_PAYLOAD_BASE: u16 = 2;
    const NFTA_PAYLOAD_OFFSET: u16 = 3;
    const NFTA_PAYLOAD_LEN: u16 = 4;
    let numbers = [
        (NFTA_PAYLOAD_BASE, place.base as u32),
        (NFTA_PAYLOAD_OFFSET, place.offset),
        (NFTA_PAYLOAD_LEN, place.len),
    ];
    put_numbers(payload, &numbers);
}

fn put_looked_up_set(lookup: &mut AttributeWriter, set: LookedUpSet<'_>) {
    const NFTA_LOOKUP_SET: u16 = 1;
    const NFTA_LOOKUP_SREG: u16 = 2;
    const NFTA_LOOKUP_SET_ID: u16 = 4;
    lookup.put_text(NFTA_LOOKUP_SET, set.name);
    lookup.put_be32(NFTA_LOOKUP_SREG, FIRST_REGISTER);
    lookup.put_be32(NFTA_LOOKUP_SET_ID, set.id);
}

/// Writes bytes of a value.
pub(super) fn put_value(attributes: &mut AttributeWriter, kind: u16, value: &[u8]) {
    attributes.put_nested(kind, |data| data.put(NFTA_DATA_VALUE, value));
}

/// Writes a verdict.
pub(super) fn put_verdict(attributes: &mut AttributeWriter, kind: u16, verdict: &Verdict) {
    const NF_DROP: i32 = 0;
    const NF_ACCEPT: i32 = 1;
    const NFT_CONTINUE: i32 = -1;
    const NFT_JUMP: i32 = -3;
    const NFT_GOTO: i32 = -4;
    const NFT_RETURN: i32 = -5;
    let (code, chain) = match verdict {
        Verdict::Accept => (NF_ACCEPT, None),
        Verdict::Drop => (NF_DROP, None),
        Verdict::Return => (NFT_RETURN, None),
        Verdict::Continue => (NFT_CONTINUE, None),
        Verdict::Jump(chain) => (NFT_JUMP, Some(chain)),
        Verdict::Goto(chain) => (NFT_GOTO, Some(chain)),
    };
    attributes.put_nested(kind, |data| {
        data.put_nested(NFTA_DATA_VERDICT, |verdict| {
            verdict.put_be32(NFTA_VERDICT_CODE, code.cast_unsigned());
            if let Some(chain) = chain {
                verdict.put_text(NFTA_VERDICT_CHAIN, chain);
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_numbered_in_parts_of_four_bytes() {
        let numbers: Vec<u32> = (0..9).map(register_at).collect();
        assert_eq!(numbers, [1, 9, 10, 11, 2, 13, 14, 15, 3]);
    }
}
