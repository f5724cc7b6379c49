//! netlink against the real kernel, in namespaces. All of these need root.

use std::io::ErrorKind;
use std::time::Duration;

use weir_kernel::netlink::netfilter::{NFGENMSG_BYTES, NetfilterSubsystem};
use weir_kernel::netlink::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NetlinkError, NetlinkProtocol, NetlinkRequest,
    NetlinkSocket,
};
use weir_kernel::nft_rule_and_element_counters::NftTableCounterReader;
use weir_kernel::{Namespace, Session, VethEndAddresses, VethOptions};

const LIMIT: Duration = Duration::from_secs(20);
const RTM_NEWLINK: u16 = 16;
const LINK_NAME: u16 = 3;
const NEW_TABLE: u8 = 0;
const GET_TABLE: u8 = 1;
const NEW_CHAIN: u8 = 3;
const TABLE_NAME: u16 = 1;
const INET: u8 = 1;

fn session() -> Session {
    assert!(rustix::process::geteuid().is_root(), "needs root: it makes network namespaces");
    Session::new().unwrap()
}

fn open(namespace: &Namespace, protocol: NetlinkProtocol) -> NetlinkSocket {
    namespace.call_inside(|| NetlinkSocket::open(protocol)).unwrap().unwrap()
}

/// A request for a table of nf_tables.
fn table(message: u8, flags: u16, name: &str) -> NetlinkRequest {
    let mut request = NetfilterSubsystem::NfTables.new_request(message, flags, INET, 0);
    request.attributes.put_text(TABLE_NAME, name);
    request
}

/// The names of all tables.
fn tables(socket: &mut NetlinkSocket) -> Vec<String> {
    let request = NetfilterSubsystem::NfTables.new_request(GET_TABLE, NLM_F_DUMP, 0, 0);
    let names = socket.fold_dumped_objects(&request, LIMIT, Vec::new, |names, message| {
        names.push(message.attributes(NFGENMSG_BYTES)?.require(TABLE_NAME)?.to_text());
        Ok(())
    });
    names.unwrap()
}

/// A veth whose other end the kernel names.
fn link(name: &str, flags: u16) -> NetlinkRequest {
    let mut request = NetlinkRequest::new(RTM_NEWLINK, flags, &[0; 16]);
    request.attributes.put_text(LINK_NAME, name);
    request.attributes.put_nested(18, |info| info.put(1, b"veth"));
    request
}

#[test]
fn a_netlink_batch_is_atomic() {
    let session = session();
    let mut socket = open(&session.create_namespace("a").unwrap(), NetlinkProtocol::Netfilter);
    let nft = NetfilterSubsystem::NfTables;
    socket
        .commit_batch(
            nft,
            [table(NEW_TABLE, NLM_F_CREATE, "one"), table(NEW_TABLE, NLM_F_CREATE, "two")],
        )
        .unwrap();
    assert_eq!(tables(&mut socket), ["one", "two"]);

    let again = [
        table(NEW_TABLE, NLM_F_CREATE, "three"),
        table(NEW_TABLE, NLM_F_CREATE | NLM_F_EXCL, "one"),
    ];
    let Err(NetlinkError::Refused(refusal)) = socket.commit_batch(nft, again) else {
        panic!("it is there")
    };
    assert_eq!((refusal.request_index, refusal.errno), (1, libc_eexist()));
    assert!(refusal.attribute_offset.is_some(), "the kernel reports which attribute: {refusal}");
    assert_eq!(tables(&mut socket), ["one", "two"], "nothing of a refused batch is done");
    socket.commit_batch(nft, []).unwrap();

    // nf_tables accepts changes only in a batch.
    let alone = socket.send_and_check(&[table(NEW_TABLE, NLM_F_CREATE, "four")]).unwrap_err();
    assert!(matches!(alone, NetlinkError::Refused(_)), "{alone}");
}

fn libc_eexist() -> i32 {
    rustix::io::Errno::EXIST.raw_os_error()
}

#[test]
fn a_refused_request_reports_the_kernel_message_and_others_succeed() {
    let session = session();
    let a = session.create_namespace("a").unwrap();
    let mut socket = open(&a, NetlinkProtocol::Route);
    let new = NLM_F_CREATE | NLM_F_EXCL;
    socket.send_and_check(&[link("d0", new)]).unwrap();
    assert!(a.ifindex("d0").is_ok(), "a link that the kernel accepts exists");

    let mut wrong = link("d1", new);
    // A MAC address of two bytes.
    wrong.attributes.put(1, &[2, 0]);
    let requests = [link("d2", new), wrong, link("d0", new), link("d3", new)];
    let refusals = socket.send_collecting_refusals(&requests).unwrap();
    let which: Vec<usize> = refusals.iter().map(|refusal| refusal.request_index).collect();
    assert_eq!(which, [1, 2]);
    assert!(a.ifindex("d2").is_ok() && a.ifindex("d1").is_err() && a.ifindex("d3").is_ok());

    let mut wrong = link("d4", new);
    wrong.attributes.put_nested(18, |info| info.put(1, b"no_such_kind"));
    let said = socket.send_and_check(&[wrong]).unwrap_err();
    assert!(said.to_string().contains(": Unknown device type"), "{said}");
    // The socket is still usable.
    socket.send_and_check(&[link("d5", new | NLM_F_ACK)]).unwrap();
}

#[test]
fn an_error_creating_a_veth_pair_names_the_link() {
    let session = session();
    let (a, b) = (session.create_namespace("a").unwrap(), session.create_namespace("b").unwrap());
    session.create_veth_pair(&a, "eth0", &b, "eth1", &VethOptions::default()).unwrap();
    let taken =
        session.create_veth_pair(&a, "eth0", &b, "eth2", &VethOptions::default()).unwrap_err();
    assert!(taken.to_string().contains("add link eth0 in weir-"), "{taken}");
    assert!(taken.to_string().contains("File exists"), "{taken}");
    let bad = VethEndAddresses { mac: None, addrs: vec!["192.0.2.1/33".to_owned()] };
    let options = VethOptions { end_a: bad, ..VethOptions::default() };
    let bad = session.create_veth_pair(&a, "eth3", &b, "eth3", &options).unwrap_err();
    assert!(bad.to_string().contains("`192.0.2.1/33` cannot be its address"), "{bad}");
    let none = a.set_device_up("eth9").unwrap_err().to_string();
    assert!(none.contains("set up device eth9 in weir-") && none.contains("No such device"));
}

#[test]
fn a_dump_larger_than_the_buffer_is_read_completely() {
    let session = session();
    let a = session.create_namespace("a").unwrap();
    let mut text = "add table inet big\n".to_owned();
    for chain in 0..40 {
        text += &format!("add chain inet big c{chain}\n");
        for rule in 0..250 {
            text += &format!("add rule inet big c{chain} tcp dport {} counter drop\n", rule + 1);
        }
    }
    a.run_command(&["nft", "-f", "-"], text.as_bytes()).unwrap();
    let mut counters = NftTableCounterReader::open(&a, "inet", "big").unwrap();
    let rules = counters.read_rule_counters().unwrap();
    assert_eq!(rules.len(), 40 * 250);
    assert!(rules.chunks(250).all(|c| c[249].number == 250 && c[0].chain == c[249].chain));
    // Far more bytes than one read returns: a rule has more than 150.
    let none = NftTableCounterReader::open(&a, "inet", "none")
        .unwrap()
        .read_element_counters("s")
        .unwrap_err();
    assert!(none.to_string().contains("No such file or directory"), "{none}");
}

#[test]
fn a_message_larger_than_the_buffer_is_read_completely() {
    let session = session();
    let a = session.create_namespace("a").unwrap();
    a.run_command(
        &["nft", "add table ip t; add chain ip t c { type filter hook output priority 0; }"],
        b"",
    )
    .unwrap();
    a.run_command(&["nft", "add rule ip t c log group 5"], b"").unwrap();
    let mut log = weir_kernel::nflog::NflogReceiver::bind(&a, 5, 1 << 16).unwrap();
    a.set_device_up("lo").unwrap();
    let socket = a.call_inside(|| std::net::UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap();
    let payload = vec![7; 60_000];
    socket.send_to(&payload, socket.local_addr().unwrap()).unwrap();
    assert!(log.wait_readable(LIMIT).unwrap());
    let mut longest = 0;
    log.visit_waiting_packets(|packet| longest = longest.max(packet.payload.len())).unwrap();
    assert_eq!(longest, 20 + 8 + payload.len());
}

#[test]
fn lost_replies_are_an_error_with_a_remedy() {
    let session = session();
    let mut socket = open(&session.create_namespace("a").unwrap(), NetlinkProtocol::Netfilter);
    let missing = |count: usize| vec![table(GET_TABLE, 0, "none"); count];
    assert_eq!(socket.send_collecting_refusals(&missing(2_000)).unwrap().len(), 2_000, "they fit");
    socket.set_receive_buffer_bytes(4_096).unwrap();
    let lost = socket.send_collecting_refusals(&missing(2_000)).unwrap_err();
    assert!(matches!(lost, NetlinkError::ReceiveOverrun), "{lost}");
    assert!(lost.to_string().contains("raise net.core.rmem_max"), "{lost}");
}

#[test]
fn a_dump_is_repeated_if_tables_change_meanwhile() {
    let session = session();
    let a = session.create_namespace("a").unwrap();
    let (mut reader, mut writer) =
        (open(&a, NetlinkProtocol::Netfilter), open(&a, NetlinkProtocol::Netfilter));
    let nft = NetfilterSubsystem::NfTables;
    let many = (0..3_000).map(|n| table(NEW_TABLE, NLM_F_CREATE, &format!("t{n}")));
    writer.commit_batch(nft, many).unwrap();
    let mut changes = 0;
    let request = NetfilterSubsystem::NfTables.new_request(GET_TABLE, NLM_F_DUMP, 0, 0);
    let count = reader.fold_dumped_objects(
        &request,
        LIMIT,
        || 0,
        |count, message| {
            // While the first two dumps are read, a table is added.
            if *count == 0 && changes < 2 {
                let new = table(NEW_TABLE, NLM_F_CREATE, &format!("new{changes}"));
                writer.commit_batch(nft, [new]).unwrap();
                changes += 1;
            }
            message.attributes(NFGENMSG_BYTES)?;
            *count += 1;
            Ok(())
        },
    );
    assert_eq!(count.unwrap(), 3_002, "the last dump saw all of it");

    let always = reader.fold_dumped_objects(
        &request,
        LIMIT,
        || 0,
        |count, _| {
            if *count == 0 {
                changes += 1;
                let new = table(NEW_TABLE, NLM_F_CREATE, &format!("new{changes}"));
                writer.commit_batch(nft, [new]).unwrap();
            }
            *count += 1;
            Ok(())
        },
    );
    let interrupted = always.unwrap_err();
    assert!(
        matches!(interrupted, NetlinkError::EveryDumpAttemptInterrupted { .. }),
        "{interrupted}"
    );
}

#[test]
fn requests_for_missing_objects_fail_with_not_found() {
    let session = session();
    let a = session.create_namespace("a").unwrap();
    let mut socket = open(&a, NetlinkProtocol::Netfilter);
    // A chain without a table is refused, and a request for one table returns it.
    let chain = NetfilterSubsystem::NfTables.new_request(NEW_CHAIN, NLM_F_CREATE, INET, 0);
    assert!(socket.commit_batch(NetfilterSubsystem::NfTables, [chain]).is_err());
    socket
        .commit_batch(NetfilterSubsystem::NfTables, [table(NEW_TABLE, NLM_F_CREATE, "one")])
        .unwrap();
    let name = socket.get_existing_object(&table(GET_TABLE, 0, "one"), |message| {
        Ok(message.attributes(NFGENMSG_BYTES)?.require(TABLE_NAME)?.to_text())
    });
    assert_eq!(name.unwrap(), "one");
    let none = socket.get_existing_object(&table(GET_TABLE, 0, "two"), |_| Ok(())).unwrap_err();
    let kind = std::io::Error::from_raw_os_error(none.errno().unwrap()).kind();
    assert_eq!(kind, ErrorKind::NotFound);
}
