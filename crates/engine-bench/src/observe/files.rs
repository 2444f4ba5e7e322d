//! The configuration that ships with the program: the files of `prometheus/` and `grafana/`.
//!
//! Invariant: what is written differs from what ships by ports alone.

use super::part::{PARTS, Part, Ports};
use std::{fs, io, path::Path};

/// Files by their path below the folder of `observe`.
const FILES: [(&str, &str); 7] = [
    (
        "prometheus/prometheus.yml",
        include_str!("../../../../prometheus/prometheus.yml"),
    ),
    (
        "grafana/provisioning/datasources/engine-bench.yml",
        include_str!("../../../../grafana/provisioning/datasources/engine-bench.yml"),
    ),
    (
        "grafana/provisioning/dashboards/engine-bench.yml",
        include_str!("../../../../grafana/provisioning/dashboards/engine-bench.yml"),
    ),
    (
        "grafana/dashboards/sweep.json",
        include_str!("../../../../grafana/dashboards/sweep.json"),
    ),
    (
        "grafana/dashboards/engine.json",
        include_str!("../../../../grafana/dashboards/engine.json"),
    ),
    (
        "grafana/dashboards/state-root.json",
        include_str!("../../../../grafana/dashboards/state-root.json"),
    ),
    (
        "grafana/dashboards/machine.json",
        include_str!("../../../../grafana/dashboards/machine.json"),
    ),
];

/// Writes the configuration of every program.
///
/// # Errors
/// When it cannot.
pub fn write(folder: &Path, ports: Ports) -> io::Result<()> {
    for (name, text) in FILES {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, moved(text, ports))?;
    }
    Ok(())
}

/// The text with the programs' own addresses moved; what they scrape stays where it is.
fn moved(text: &str, ports: Ports) -> String {
    let url = |part: &Part, ports| format!("http://{}", part.address(ports));
    PARTS.iter().fold(text.to_owned(), |text, part| {
        text.replace(&url(part, Ports::default()), &url(part, ports))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_dashboard_is_written_and_data_sources_follow_their_ports() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), Ports::moved_by(1000)).unwrap();
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grafana/dashboards");
        for entry in fs::read_dir(shipped).unwrap() {
            let entry = entry.unwrap();
            let written = dir
                .path()
                .join("grafana/dashboards")
                .join(entry.file_name());
            let [written, shipped] = [written, entry.path()].map(fs::read_to_string);
            assert!(written.unwrap() == shipped.unwrap(), "{entry:?}");
        }
        let sources = "grafana/provisioning/datasources/engine-bench.yml";
        let sources = fs::read_to_string(dir.path().join(sources)).unwrap();
        for url in ["http://127.0.0.1:10090", "http://127.0.0.1:17686"] {
            assert!(sources.contains(url), "{sources}");
        }
    }
}
