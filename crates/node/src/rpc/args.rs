//! Positional parameters of a request, read one by one and checked to be all.

use super::error::invalid_params;
use jsonrpsee::types::{ErrorObjectOwned, Params, params::ParamsSequence};
use serde::{Deserialize, de::IgnoredAny};

/// Reads positional parameters in order.
pub(super) struct Arguments<'a> {
    rest: ParamsSequence<'a>,
    read: usize,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(params: &'a Params<'_>) -> Self {
        Self {
            rest: params.sequence(),
            read: 0,
        }
    }

    /// The next parameter, which must be there and fit.
    pub(super) fn next<T: Deserialize<'a>>(&mut self, name: &str) -> Result<T, ErrorObjectOwned> {
        self.read += 1;
        self.rest.next().map_err(|error| self.explain(name, &error))
    }

    /// The next parameter; `None` when it is null or was left out.
    pub(super) fn optional<T: Deserialize<'a>>(
        &mut self,
        name: &str,
    ) -> Result<Option<T>, ErrorObjectOwned> {
        self.read += 1;
        self.rest
            .optional_next()
            .map_err(|error| self.explain(name, &error))
    }

    /// Checks that nothing is left.
    pub(super) fn end(mut self) -> Result<(), ErrorObjectOwned> {
        match self.rest.optional_next::<IgnoredAny>() {
            Ok(None) => Ok(()),
            _ => Err(invalid_params(format!(
                "more than {} parameters",
                self.read
            ))),
        }
    }

    fn explain(&self, name: &str, error: &ErrorObjectOwned) -> ErrorObjectOwned {
        // The reason is a JSON string of its own.
        let data = error.data().map(|data| data.get());
        let reason = data.and_then(|data| serde_json::from_str::<String>(data).ok());
        let reason = reason.as_deref().unwrap_or_else(|| error.message());
        invalid_params(format!("parameter {} ({name}): {reason}", self.read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a number, then an optional text, then expects the end.
    fn read(json: &str) -> Result<(u64, Option<String>), String> {
        let params = Params::new(Some(json));
        let mut arguments = Arguments::new(&params);
        let read = (|| {
            let number = arguments.next("number")?;
            let text = arguments.optional("text")?;
            arguments.end()?;
            Ok((number, text))
        })();
        read.map_err(|error: ErrorObjectOwned| format!("{} {}", error.code(), error.message()))
    }

    #[test]
    fn positional_parameters() {
        assert_eq!(read(r#"[1,"a"]"#), Ok((1, Some("a".into()))));
        assert_eq!(read("[1,null]"), Ok((1, None)));
        assert_eq!(read("[1]"), Ok((1, None)));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (json, expected) in [
            (r#"["x"]"#, "parameter 1 (number)"),
            ("[]", "parameter 1 (number)"),
            ("[1,2]", "parameter 2 (text)"),
            (r#"[1,"a",3]"#, "more than 2 parameters"),
            (r#"[1,"a",]"#, "more than 2 parameters"),
        ] {
            let error = read(json).unwrap_err();
            assert!(
                error.starts_with("-32602") && error.contains(expected),
                "{json}: {error}"
            );
        }
    }
}
