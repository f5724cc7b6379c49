//! The filters of an access network: customer after customer, from specific to general.
//!
//! Customers have 1 to 16 addresses of 10.0.0.0/8, one customer after the other. Management and
//! name servers are in networks that are reserved for documentation (RFC 5737).

use weir_random::Rng;

use super::five_tuple_filter::{ANY_PORT, FiveTupleFilter, Ipv4Prefix};

const MANAGEMENT_NETWORK: Ipv4Prefix = Ipv4Prefix { address: 0xc000_0200, len: 24 };
const NAME_SERVERS: [Ipv4Prefix; 2] =
    [Ipv4Prefix { address: 0xc633_6401, len: 32 }, Ipv4Prefix { address: 0xc633_6402, len: 32 }];
const CUSTOMER_ADDRESSES_START: u32 = 0x0a00_0000;
const SERVICE_PORTS: [u16; 10] = [443, 80, 25, 22, 993, 587, 5060, 1194, 8443, 3389];

pub(super) fn list_customer_filters(rule_count: usize, seed: u64) -> Vec<FiveTupleFilter> {
    let mut random = Rng::for_purpose(seed, "access network filters");
    let mut filters = Vec::with_capacity(rule_count + 16);
    let mut next_address = CUSTOMER_ADDRESSES_START;
    while filters.len() < rule_count {
        let len = 32 - random.below(5) as u32;
        let size = 1 << (32 - len);
        let network = Ipv4Prefix::new(next_address.next_multiple_of(size), len);
        next_address = network.address + size;
        append_customer_filters(&mut random, network, &mut filters);
    }
    filters.truncate(rule_count);
    filters
}

fn append_customer_filters(
    random: &mut Rng,
    network: Ipv4Prefix,
    filters: &mut Vec<FiveTupleFilter>,
) {
    let any = FiveTupleFilter::ANY;
    let (to, from) =
        (FiveTupleFilter { daddr: network, ..any }, FiveTupleFilter { saddr: network, ..any });
    let exactly = |port: u16| (port, port);
    for port in SERVICE_PORTS {
        if random.chance_percent(35) {
            let host_bits =
                random.next_u64() as u32 & u32::MAX.checked_shr(network.len).unwrap_or(0);
            let daddr = Ipv4Prefix::new(network.address | host_bits, 32);
            filters.push(FiveTupleFilter { daddr, dport: exactly(port), proto: Some(6), ..any });
        }
    }
    filters.push(FiveTupleFilter { saddr: MANAGEMENT_NETWORK, ..to });
    filters.push(FiveTupleFilter { proto: Some(1), ..to });
    filters.push(FiveTupleFilter { dport: (1024, ANY_PORT.1), proto: Some(6), ..to });
    for daddr in NAME_SERVERS {
        filters.push(FiveTupleFilter { daddr, dport: exactly(53), proto: Some(17), ..from });
    }
    filters.push(FiveTupleFilter { dport: exactly(25), proto: Some(6), ..from });
    filters.push(from);
    filters.push(to);
}
