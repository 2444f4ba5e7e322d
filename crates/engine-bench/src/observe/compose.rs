//! The same programs as containers.
//!
//! Invariant: a container gets the arguments that the program would get, and the network of the host,
//! since what is scraped listens on loopback.

use super::part::{PARTS, Part, Ports};
use serde_json::json;
use std::{fmt::Write as _, path::Path};

/// Where the folder is inside a container.
const INSIDE: &str = "/observe";

/// A compose file, for the folder that [`super::write_files`] wrote.
pub fn compose(folder: &Path, ports: Ports) -> String {
    let mut text = String::from("services:\n");
    for part in &PARTS {
        push(&mut text, part, folder, ports);
    }
    text
}

/// JSON is YAML, and needs no rules about what must be quoted. Writing to a string cannot fail.
fn push(text: &mut String, part: &Part, folder: &Path, ports: Ports) {
    let inside = Path::new(INSIDE);
    let mut arguments = part.arguments(inside, ports);
    // Its image begins with these itself.
    arguments.retain(|argument| argument != "server" && !argument.starts_with("--homepath"));
    let Part { name, image, .. } = part;
    let volumes = json!([format!("{}:{INSIDE}", folder.display())]);
    let _ = writeln!(
        text,
        "  {name}:\n    image: {image}\n    network_mode: host\n    user: root\n    working_dir: {INSIDE}\n    \
         volumes: {volumes}"
    );
    if !arguments.is_empty() {
        let _ = writeln!(text, "    command: {}", json!(arguments));
    }
    let variables = part.variables(inside, ports);
    if !variables.is_empty() {
        let _ = writeln!(text, "    environment:");
        for (name, value) in variables {
            let _ = writeln!(text, "      {name}: {}", json!(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_have_the_hosts_network_and_the_folder() {
        let text = compose(Path::new("/a b"), Ports::moved_by(1));
        for line in [
            "  jaeger:",
            "    image: prom/prometheus:v3.5.0",
            "    volumes: [\"/a b:/observe\"]",
            "      GF_SERVER_HTTP_PORT: \"3001\"",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert_eq!(text.matches("network_mode: host").count(), PARTS.len());
        for address in ["127.0.0.1:9091", "127.0.0.1:4319"] {
            assert!(text.contains(address), "{address} in {text}");
        }
        assert!(!text.contains("0.0.0.0"));
    }
}
