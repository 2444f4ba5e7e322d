//! Which hosts and origins a public server answers: what keeps web pages from using a node that
//! listens on the same machine.
//!
//! A page reaches a loopback port by a name of its own that resolves to 127.0.0.1 (DNS rebinding),
//! or by a WebSocket, which browsers open across sites. The first shows in `Host`, the second in
//! `Origin`. Programs send neither a foreign host nor an origin. The rules and the words are geth's.

use http::{HeaderMap, header};
use std::net::{IpAddr, Ipv6Addr};

/// Names a server answers to, and origins that may open a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sites {
    /// Host names besides IP addresses; `*` stands for every one.
    pub hosts: Vec<String>,
    /// Origins of pages that may open a WebSocket; `*` stands for every one.
    pub origins: Vec<String>,
}

/// Why a request is refused. The texts are the bodies of the HTTP 403 answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SiteError {
    #[error("invalid host specified\n")]
    Host,
    #[error("origin not allowed\n")]
    Origin,
}

impl Sites {
    /// Checks the headers of a request.
    pub(super) fn check(
        &self,
        headers: &HeaderMap,
        authority: Option<&str>,
        websocket: bool,
    ) -> Result<(), SiteError> {
        let host = headers.get(header::HOST).map(|value| value.to_str().ok());
        // HTTP/2 names the host in the request itself.
        for host in host.into_iter().chain(authority.map(Some)) {
            if !host.is_some_and(|host| self.knows_host(host)) {
                return Err(SiteError::Host);
            }
        }
        let origins = headers.get_all(header::ORIGIN);
        let foreign = |origin: &header::HeaderValue| {
            !origin
                .to_str()
                .is_ok_and(|origin| listed(&self.origins, origin))
        };
        if websocket && origins.iter().any(foreign) {
            return Err(SiteError::Origin);
        }
        Ok(())
    }

    fn knows_host(&self, host: &str) -> bool {
        // Brackets hold an IPv6 address and nothing else.
        if let Some(rest) = host.strip_prefix('[') {
            let address = rest.split_once(']').map(|(address, _)| address);
            return address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
        }
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        name.parse::<IpAddr>().is_ok() || listed(&self.hosts, name)
    }
}

fn listed(names: &[String], name: &str) -> bool {
    names
        .iter()
        .any(|known| known == "*" || known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &str)], websocket: bool) -> Result<(), SiteError> {
        let sites = Sites {
            hosts: vec!["localhost".into()],
            origins: vec!["https://page.example".into()],
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: header::HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        sites.check(&map, None, websocket)
    }

    #[test]
    fn addresses_and_known_names_are_hosts() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:8545",
            "[::1]:8545",
            "[::1]",
            "localhost",
            "LocalHost:80",
        ] {
            assert_eq!(check(&[("host", host)], false), Ok(()), "{host}");
        }
        for host in [
            "page.example",
            "page.example:8545",
            "127.0.0.1.page.example",
            "",
            "[localhost",
            "\u{e4}",
        ] {
            assert_eq!(
                check(&[("host", host)], false),
                Err(SiteError::Host),
                "{host}"
            );
        }
        assert_eq!(check(&[], false), Ok(()));
    }

    #[test]
    fn origins_matter_to_websockets() {
        let foreign = [("origin", "https://other.example")];
        assert_eq!(check(&foreign, true), Err(SiteError::Origin));
        assert_eq!(
            check(&foreign, false),
            Ok(()),
            "browsers keep the answer from the page"
        );
        assert_eq!(check(&[("origin", "https://page.example")], true), Ok(()));
        assert_eq!(
            check(
                &[("origin", "https://page.example"), ("origin", "null")],
                true
            ),
            Err(SiteError::Origin)
        );
    }
}
