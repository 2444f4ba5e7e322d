//! The questions asked so far, and the file that plays them again.

use crate::engines::{Answer, Engines, Port};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Every question both engines were asked since their genesis.
#[derive(Debug)]
pub(crate) struct Record {
    seed: u64,
    genesis: Value,
    questions: Vec<Value>,
}

impl Record {
    pub(crate) fn new(seed: u64, genesis: &Value) -> Self {
        Self {
            seed,
            genesis: genesis.clone(),
            questions: Vec::new(),
        }
    }

    /// Notes a question before it is asked: bench-reth's parameters and geth's.
    pub(crate) fn note(&mut self, port: Port, method: &str, [ours, theirs]: [&Value; 2]) {
        // A block that was built is noted again when it is judged.
        if self.questions.last().is_some_and(is_build) {
            self.questions.pop();
        }
        self.questions.push(json!({
            "engine": port == Port::Engine,
            "method": method,
            "bench-reth": ours,
            "geth": if ours == theirs { &Value::Null } else { theirs },
        }));
    }

    /// Ends the run: writes the record and says where it is and what went wrong.
    pub(crate) fn disagree(&self, report: &str) -> ! {
        let file = self.write(report);
        panic!(
            "bench-reth and geth disagree (seed {}, question {}): {report}\n\
             to play it again: cargo xtask soak agreement --replay {}",
            self.seed,
            self.questions.len(),
            file.display()
        );
    }

    fn write(&self, report: &str) -> PathBuf {
        let name = format!("agreement-{}-{}.json", self.seed, self.questions.len());
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let content = json!({
            "format": "engine-bench-agreement",
            "version": 1,
            "seed": self.seed,
            "report": report,
            "genesis": self.genesis,
            "questions": self.questions,
        });
        std::fs::write(&file, content.to_string()).unwrap();
        file
    }
}

fn is_build(question: &Value) -> bool {
    question["method"] == "testing_buildBlockV1"
}

/// Asks the questions of a file again. The answers of both to each question, where they differ.
pub(crate) fn replay(geth: &std::ffi::OsString, file: &Path) -> Vec<String> {
    let content = std::fs::read(file).unwrap();
    let content: Value = serde_json::from_slice(&content).unwrap();
    assert_eq!(content["format"], "engine-bench-agreement");
    let mut engines = Engines::start(geth, &content["genesis"]);
    engines.genesis();
    let mut differences = Vec::new();
    for (index, question) in content["questions"].as_array().unwrap().iter().enumerate() {
        let port = match question["engine"] == true {
            true => Port::Engine,
            false => Port::Public,
        };
        let method = question["method"].as_str().unwrap();
        let ours = &question["bench-reth"];
        let theirs = &question["geth"];
        let theirs = if theirs.is_null() { ours } else { theirs };
        let answers = engines.ask_both(port, method, [ours, theirs]);
        let [mut ours, theirs] = answers.each_ref().map(essence);
        // geth names no latest valid block for a payload that it cannot turn into one.
        if theirs["status"] == "INVALID" && theirs["latestValidHash"].is_null() {
            ours["latestValidHash"] = Value::Null;
        }
        if ours != theirs {
            differences.push(format!("{index} {method}\n  {ours}\n  {theirs}"));
        }
    }
    differences
}

/// An answer without the texts that engines are free to choose.
fn essence(answer: &Answer) -> Value {
    let Ok(mut answer) = answer.clone() else {
        return json!({"status": "error"});
    };
    for path in ["/validationError", "/payloadStatus/validationError"] {
        if let Some(text) = answer.pointer_mut(path) {
            *text = Value::Null;
        }
    }
    if let Some(object) = answer.as_object_mut() {
        object.retain(|name, _| name != "blobsBundle" && name != "shouldOverrideBuilder");
    }
    answer
}
