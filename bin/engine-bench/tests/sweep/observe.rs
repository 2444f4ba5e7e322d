//! `engine-bench observe` with a real Prometheus and a real Jaeger.

use super::support::World;
use testkit::{Tool, http::get, is_free, require, wait_for};

/// Stops what was started also when the test fails.
struct Down<'a>(&'a World);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        let _ = self.0.command("observe down --dir @observe").output();
    }
}

#[test]
fn what_is_installed_is_started_once_and_stopped() {
    if [Tool::Prometheus, Tool::Jaeger]
        .map(require)
        .contains(&None)
    {
        return;
    }
    let world = World::new();
    let at = |offset: u16| [9090, 16_686, 4318].map(|port| port + offset);
    // Above the usual ports, and below those that tests and the system give to whoever asks for any.
    let mut offsets = 4_000..6_000;
    let offset = offsets.find(|offset| at(*offset).into_iter().all(is_free));
    let offset = offset.unwrap();
    let [prometheus, pages, otlp] = at(offset);
    let _down = Down(&world);
    let observe = |what: &str| {
        let mut command = world.command(&format!("observe {what} --dir @observe"));
        command.env("ENGINE_BENCH_GRAFANA", world.path("none"));
        command.arg("--port-offset").arg(offset.to_string());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    for _ in 0..2 {
        let [urls, notes] = observe("up");
        for port in [prometheus, pages] {
            let url = format!("http://127.0.0.1:{port} ");
            assert!(urls.contains(&url), "{url} in {urls}");
        }
        assert!(notes.contains("grafana     not installed"), "{notes}");
        assert!(get(prometheus, "/-/ready").is_some());
        assert!(get(pages, "/api/services").is_some());
    }
    wait_for("the target of sweeps", || {
        let targets = get(prometheus, "/api/v1/targets")?;
        targets
            .contains("http://127.0.0.1:9464/metrics")
            .then_some(())
    });
    assert!(get(otlp, "/").is_none(), "only POST is answered there");
    let [compose, _] = observe("compose");
    assert!(
        compose.contains(&format!("127.0.0.1:{prometheus}")),
        "{compose}"
    );

    observe("down");
    for port in [prometheus, pages] {
        assert!(
            get(port, "/").is_none(),
            "something still answers at {port}"
        );
    }
}
