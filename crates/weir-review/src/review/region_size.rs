//! The size of a region in words: numbers of addresses and ports, never powers.

use weir_diagram::{Region, RegionFieldSize};
use weir_model::Field;

/// `2 source addresses, 1 of 65,536 destination ports`; empty where a region has all of them.
pub(super) fn region_size_words(region: &Region) -> String {
    const ORDER: [Field; 4] = [Field::Saddr, Field::Daddr, Field::Sport, Field::Dport];
    let sizes = region.field_values.iter().filter_map(|v| v.size);
    let mut sizes: Vec<_> = sizes.filter(|s| s.value_count <= s.field_max).collect();
    sizes.sort_by_key(|size| ORDER.iter().position(|field| *field == size.field));
    sizes.into_iter().map(field_size_words).collect::<Vec<_>>().join(", ")
}

fn field_size_words(
    RegionFieldSize { field, value_count: values, field_max: max }: RegionFieldSize,
) -> String {
    let end = match field {
        Field::Saddr | Field::Sport => "source",
        _ => "destination",
    };
    if matches!(field, Field::Sport | Field::Dport) {
        return format!("{} of {} {end} ports", group_digits(values), group_digits(max + 1));
    }
    let (count, network) = match values {
        // More than 64 bits of IPv6 are counted in networks.
        n if n >> 64 != 0 => {
            let bits = [64, 80, 96, 112].into_iter().find(|bits| n >> bits < 1_000_000);
            let bits = bits.unwrap_or(112);
            let about = if n.trailing_zeros() < bits { "about " } else { "" };
            (format!("{about}{}", group_digits(n >> bits)), format!(" /{}", 128 - bits))
        }
        n => (group_digits(n), String::new()),
    };
    let noun = match (network.is_empty(), &*count) {
        (true, "1") => "address",
        (true, _) => "addresses",
        (false, "1" | "about 1") => "network",
        (false, _) => "networks",
    };
    match network.is_empty() {
        true => format!("{count} {end} {noun}"),
        false => format!("{count}{network} {noun} of {end} addresses"),
    }
}

/// Digits in groups of three.
pub(super) fn group_digits(n: u128) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_sizes_are_formatted_as_readable_counts() {
        let of = |field, values, max| {
            field_size_words(RegionFieldSize { field, value_count: values, field_max: max })
        };
        let (v4, v6, ports) = (u32::MAX.into(), u128::MAX, 65_535);
        assert_eq!(of(Field::Dport, 1, ports), "1 of 65,536 destination ports");
        assert_eq!(of(Field::Saddr, 1, v4), "1 source address");
        assert_eq!(of(Field::Daddr, 1 << 24, v4), "16,777,216 destination addresses");
        assert_eq!(of(Field::Saddr, 1 << 64, v6), "1 /64 network of source addresses");
        assert_eq!(of(Field::Saddr, 1 << 96, v6), "65,536 /48 networks of source addresses");
        let about = of(Field::Saddr, (1 << 66) + 1, v6);
        assert_eq!(about, "about 4 /64 networks of source addresses");
    }
}
