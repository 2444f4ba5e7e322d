//! `report.html` in a browser: what a small results folder gives, opened from disk on a wide screen,
//! in the dark, on a phone and on paper.
//!
//! Invariant: a browser that does not end in time is killed with everything it started.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use engine_bench::{analyze, report};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    ffi::OsString,
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use testkit::{Tool, require};

/// Long enough for a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// No network, no updates, no first-run pages.
const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-logging=stderr",
    "--hide-scrollbars",
];

/// Measures the page once it is laid out, and leaves what it found in the document.
const PROBE: &str = r#"<script>
addEventListener("load", () => {
  const size = element => {
    const box = element.getBoundingClientRect();
    return [Math.round(box.width), Math.round(box.height)];
  };
  const found = {
    sections: Object.fromEntries([...document.querySelectorAll("section")].map(s => [s.id, size(s)])),
    drawings: [...document.querySelectorAll("svg")].map(size),
    labels: [...document.querySelectorAll("svg text")].map(text => Math.max(...size(text))),
    resources: performance.getEntriesByType("resource").map(entry => entry.name),
    // What is wider than the place it has.
    cut: [...document.querySelectorAll("table, th, td, li, p, h1, figure")]
      .filter(element => element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0
        || element.getBoundingClientRect().right > innerWidth)
      .map(element => element.outerHTML.slice(0, 200)),
    first: Math.round(document.querySelector("svg").getBoundingClientRect().bottom),
    height: innerHeight,
    width: innerWidth,
    scrolled: document.documentElement.scrollWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    text: getComputedStyle(document.body).color,
    axis: getComputedStyle(document.querySelector("svg text")).fill,
  };
  const place = document.createElement("pre");
  place.id = "found";
  place.textContent = JSON.stringify(found);
  document.body.append(place);
});
</script>"#;

/// A page in a folder of its own, and the browser that opens it.
struct Page {
    browser: OsString,
    dir: tempfile::TempDir,
    file: PathBuf,
}

impl Page {
    fn new(browser: OsString, html: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("report.html");
        fs::write(&file, html).unwrap();
        Self { browser, dir, file }
    }

    /// Opens the page and returns what the browser printed: result, then messages.
    fn open(&self, flags: &[&str]) -> (String, String) {
        let path = |name: &str| self.dir.path().join(name);
        let (out, messages) = (path("out"), path("messages"));
        let mut command = Command::new(&self.browser);
        command
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", path("profile").display()))
            .args(flags)
            .arg(format!("file://{}", self.file.display()))
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&messages).unwrap())
            .process_group(0);
        let mut child = command.spawn().unwrap();
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let began = Instant::now();
        let ended = loop {
            match child.try_wait().unwrap() {
                None if began.elapsed() < TIME_LIMIT => thread::sleep(Duration::from_millis(20)),
                ended => break ended,
            }
        };
        // Nothing is left of the group when all went well.
        let _ = killpg(group, Signal::SIGKILL);
        child.wait().unwrap();
        let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        let (out, messages) = (read(&out), read(&messages));
        let status =
            ended.unwrap_or_else(|| panic!("still running after {TIME_LIMIT:?}: {messages}"));
        assert!(status.success(), "{status}: {messages}");
        (out, messages)
    }

    /// What [`PROBE`] found with these flags.
    fn probe(&self, flags: &[&str]) -> Value {
        let wide = "--window-size=1500,1000";
        let flags: Vec<&str> = flags.iter().copied().chain(["--dump-dom", wide]).collect();
        let (document, messages) = self.open(&flags);
        assert!(
            !messages.contains("CONSOLE"),
            "the console says: {messages}"
        );
        let (_, rest) = document.split_once("<pre id=\"found\">").unwrap();
        serde_json::from_str(rest.split_once("</pre>").unwrap().0).unwrap()
    }
}

fn results() -> report::Report {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results");
    let mut report = report::Report::of(&analyze::read_outcome(&dir).unwrap());
    let caveat = "a caveat as long as a path without blanks/".repeat(9);
    report.warnings.push(caveat);
    report
}

/// A page that shows the report in a frame of a width, since windows cannot be as narrow as a phone,
/// and takes over what [`PROBE`] found in it.
fn framed(browser: OsString, (width, height): (u32, u32)) -> Page {
    let html = report::html(&results()).replace("</body>", &format!("{PROBE}</body>"));
    let html = html.replace('&', "&amp;").replace('"', "&quot;");
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">\
         <iframe width=\"{width}\" height=\"{height}\" style=\"border: 0\" srcdoc=\"{html}\"></iframe>\
         <script>addEventListener('load', () => document.body.append(\
         document.querySelector('iframe').contentDocument.getElementById('found').cloneNode(true)\
         ))</script>"
    );
    Page::new(browser, &page)
}

fn numbers(value: &Value) -> Vec<u64> {
    let numbers = value.as_array().unwrap().iter();
    numbers.map(|number| number.as_u64().unwrap()).collect()
}

/// What has to be true in every window.
fn check(found: &Value, width: u64) {
    assert_eq!(found["width"], width);
    assert!(found["scrolled"].as_u64().unwrap() <= width, "{found}");
    assert_eq!(found["cut"], serde_json::json!([]));
    // Question, answer and the first picture need no scrolling.
    let [first, height] = ["first", "height"].map(|name| found[name].as_u64());
    assert!(first <= height, "{found}");
    assert_eq!(found["resources"], serde_json::json!([]));
    let sections = found["sections"].as_object().unwrap();
    let expected = "answer grid why caveats files attribution cells comparisons noise work failures machine \
                    course configuration";
    for id in expected.split_whitespace() {
        let size = sections
            .get(id)
            .unwrap_or_else(|| panic!("no section {id}"));
        let size = numbers(size);
        assert!(size[0] > 300 && size[1] > 30, "{id}: {size:?}");
    }
    let drawings = found["drawings"].as_array().unwrap();
    assert_eq!(drawings.len(), 6);
    for size in drawings {
        let size = numbers(size);
        assert!(size[0] > 300 && size[0] < width && size[1] > 60, "{size:?}");
    }
    // Nothing is written smaller than this, in pixels; a label that stands has its height across.
    let labels = numbers(&found["labels"]);
    assert!(labels.iter().all(|size| *size >= 9), "{found}");
}

#[test]
fn opens_on_wide_screens_and_phones_in_light_and_dark() {
    let Some(browser) = require(Tool::Browser) else {
        return;
    };
    let scheme = |dark: bool| format!("--blink-settings=preferredColorScheme={}", u8::from(!dark));
    let (wide, narrow) = ((1400, 900), (400, 800));
    for (size, dark) in [(wide, false), (wide, true), (narrow, false), (narrow, true)] {
        let page = framed(browser.clone(), size);
        let found = page.probe(&[&scheme(dark)]);
        check(&found, size.0.into());
        assert_eq!(found["dark"], dark);
        let text = match dark {
            true => "rgb(255, 255, 255)",
            false => "rgb(0, 0, 0)",
        };
        assert_eq!(found["text"], text);
        assert_eq!(found["axis"], text, "drawings take the page's colour");
    }
}

#[test]
fn prints_and_has_its_picture_taken() {
    let Some(browser) = require(Tool::Browser) else {
        return;
    };
    let page = Page::new(browser, &report::html(&results()));
    let file = |name: &str| page.dir.path().join(name);
    let (paper, picture) = (file("report.pdf"), file("report.png"));
    page.open(&[&format!("--print-to-pdf={}", paper.display())]);
    assert!(fs::read(&paper).unwrap().starts_with(b"%PDF"));
    let picture_flag = format!("--screenshot={}", picture.display());
    page.open(&[&picture_flag, "--window-size=1280,2000"]);
    let picture = fs::read(&picture).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));
    // An empty page of this size takes a tenth of that.
    assert!(picture.len() > 50_000, "{}", picture.len());
}
