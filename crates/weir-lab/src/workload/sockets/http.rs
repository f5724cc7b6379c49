//! The minimal HTTP between clients and servers of sockets.

/// A request, and the reply to it; both hold the connection's number.
pub(super) fn format_numbered_request(number: u64) -> String {
    format!("GET /id={number:016x} HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
}

pub(super) fn format_numbered_reply(number: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: 16\r\nConnection: close\r\n\r\n{number}")
}

/// What answers a request that is there to its end: one with a number, or that of a program for
/// `/`, whose connection is kept unless it says otherwise (RFC 9112, section 9.3).
pub(super) fn reply_to_complete_request(request: &[u8]) -> Option<String> {
    let head = std::str::from_utf8(request).ok()?.strip_suffix("\r\n\r\n")?;
    if let Some(rest) = head.strip_prefix("GET /id=") {
        return rest.get(..16).map(format_numbered_reply);
    }
    let fields = head.strip_prefix("GET / HTTP/1.1\r\n")?;
    let closes = fields.split("\r\n").any(|f| f.eq_ignore_ascii_case("connection: close"));
    let page = "0".repeat(16);
    let kept = || format!("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{page}");
    Some(if closes { format_numbered_reply(&page) } else { kept() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_request_gets_a_reply() {
        let text = format_numbered_request(0x1234);
        assert_eq!(
            reply_to_complete_request(text.as_bytes()),
            Some(format_numbered_reply("0000000000001234"))
        );
        assert_eq!(reply_to_complete_request(&text.as_bytes()[..text.len() - 1]), None);
        assert_eq!(reply_to_complete_request(b"POST /id=0000000000001234 HTTP/1.1\r\n\r\n"), None);
    }

    #[test]
    fn a_connection_is_kept_unless_its_client_says_otherwise() {
        let closes = b"GET / HTTP/1.1\r\nHost: 198.19.128.0:80\r\nConnection: Close\r\n\r\n";
        assert_eq!(
            reply_to_complete_request(closes),
            Some(format_numbered_reply("0000000000000000"))
        );
        let kept =
            reply_to_complete_request(b"GET / HTTP/1.1\r\nUser-Agent: x\r\nHost: web\r\n\r\n")
                .unwrap();
        assert!(kept.ends_with("Content-Length: 16\r\n\r\n0000000000000000"), "{kept}");
        assert_eq!(reply_to_complete_request(b"GET /other HTTP/1.1\r\nHost: web\r\n\r\n"), None);
        assert_eq!(
            reply_to_complete_request(b"GET / HTTP/1.1\r\nHost: web\r\n"),
            None,
            "the request is incomplete"
        );
    }
}
