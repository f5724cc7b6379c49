//! The address plan: customers, their equipment, and the VLANs of their buildings.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use weir_random::Rng;

use super::options::IspOptions;

/// A customer of the network.
pub(super) struct Customer {
    /// Customer number, as in the names of the chains.
    pub(super) id: usize,
    /// Index of the customer's building in [`NetworkPlan::vlans`].
    pub(super) vlan_index: usize,
    /// Addresses of the customer's equipment, at least one.
    pub(super) equipment_addresses: Vec<Ipv4Addr>,
    /// Place of the customer in the building: the IPv6 network follows from it.
    pub(super) index_in_building: usize,
    /// The bill was not paid: only the page that says so can be reached.
    pub(super) access_closed: bool,
    /// The contract.
    pub(super) firewall: CustomerFirewall,
}

/// Which personal firewall a customer chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CustomerFirewall {
    /// None: everything is accepted.
    AcceptAll,
    /// Answers only.
    EstablishedOnly,
    /// Answers, and what the customer opened.
    CustomRules,
}

/// A building: one VLAN, one network.
pub(super) struct Vlan {
    /// Tag; the device is `eth0.TAG`.
    pub(super) tag: usize,
    /// First three octets of the network.
    pub(super) network_octets: [u8; 3],
}

impl Vlan {
    /// The network's prefix.
    pub(super) fn prefix(&self) -> String {
        let [a, b, c] = self.network_octets;
        format!("{a}.{b}.{c}.0/24")
    }
}

/// The network after a ruleset.
pub(super) struct NetworkPlan {
    /// In the order in which they signed up.
    pub(super) customers: Vec<Customer>,
    /// In the order of their tags.
    pub(super) vlans: Vec<Vlan>,
}

/// The networks that customers live in.
pub(super) const CUSTOMER_NETWORKS: [[u8; 2]; 4] = [[10, 20], [10, 64], [172, 20], [192, 168]];

impl NetworkPlan {
    /// Draws a network of the size that the options request.
    pub(super) fn generate(options: &IspOptions) -> NetworkPlan {
        let fits =
            (1..=20_000).contains(&options.customer_count) && options.equipment_count <= 20_000;
        assert!(fits, "{} customers are not 1 to 20,000", options.customer_count);
        let mut random = Rng::for_purpose(options.seed, "plan");
        // About 36 addresses a building, and never more than 160 in a /24.
        let vlans =
            generate_spaced_vlans(options.equipment_count.max(options.customer_count).div_ceil(36));
        let mut customers =
            generate_unaddressed_customers(options.customer_count, &vlans, &mut random);
        let mut taken = HashSet::new();
        for customer in &mut customers {
            let address = pick_free_address(&vlans[customer.vlan_index], &mut taken, &mut random);
            customer.equipment_addresses.push(address);
        }
        for _ in options.customer_count..options.equipment_count {
            let at = random.below(customers.len());
            let vlan = &vlans[customers[at].vlan_index];
            let address = pick_free_address(vlan, &mut taken, &mut random);
            customers[at].equipment_addresses.push(address);
        }
        NetworkPlan { customers, vlans }
    }

    /// Addresses of all customers together.
    pub(super) fn customer_address_count(&self) -> usize {
        self.customers.iter().map(|customer| customer.equipment_addresses.len()).sum()
    }

    /// Customers with their equipment, an address each.
    pub(super) fn customer_address_pairs(&self) -> impl Iterator<Item = (&Customer, Ipv4Addr)> {
        self.customers.iter().flat_map(|customer| {
            customer.equipment_addresses.iter().map(move |&address| (customer, address))
        })
    }
}

fn generate_spaced_vlans(count: usize) -> Vec<Vlan> {
    (0..count)
        .map(|index| {
            let [a, b] = CUSTOMER_NETWORKS[index % CUSTOMER_NETWORKS.len()];
            // Networks are handed out with room to grow between them, then the gaps are filled.
            let turn = index / CUSTOMER_NETWORKS.len();
            let third = (turn * 4 % 256) + (turn * 4 / 256);
            Vlan { tag: 101 + index, network_octets: [a, b, third as u8] }
        })
        .collect()
}

fn generate_unaddressed_customers(count: usize, vlans: &[Vlan], random: &mut Rng) -> Vec<Customer> {
    let mut id = 1000;
    let mut places = vec![0; vlans.len()];
    (0..count)
        .map(|index| {
            id += 1 + random.below(3);
            let vlan = random.below(vlans.len());
            places[vlan] += 1;
            let firewall = match random.below(100) {
                // At least one is individual: its table grows to the requested size.
                _ if index == 0 => CustomerFirewall::CustomRules,
                0..40 => CustomerFirewall::AcceptAll,
                40..80 => CustomerFirewall::EstablishedOnly,
                _ => CustomerFirewall::CustomRules,
            };
            Customer {
                id,
                vlan_index: vlan,
                equipment_addresses: Vec::new(),
                index_in_building: places[vlan],
                access_closed: random.chance_percent(3),
                firewall,
            }
        })
        .collect()
}

/// A free address of the building; when the building is full, of the networks next to it.
fn pick_free_address(vlan: &Vlan, taken: &mut HashSet<Ipv4Addr>, random: &mut Rng) -> Ipv4Addr {
    let [a, b, c] = vlan.network_octets;
    for _ in 0..1000 {
        let address = Ipv4Addr::new(a, b, c, 2 + random.below(252) as u8);
        if taken.insert(address) {
            return address;
        }
    }
    panic!("no address is free in {}", vlan.prefix());
}
