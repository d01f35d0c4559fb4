//! Reading this crate's own files of TOML.

use serde::de::DeserializeOwned;

/// A file that is not what its reader expects.
#[derive(Debug, thiserror::Error)]
#[error("crates/report/{file}: {source}")]
pub(crate) struct Error {
    file: &'static str,
    source: toml::de::Error,
}

/// Reads a file's text.
pub(crate) fn read<T: DeserializeOwned>(file: &'static str, text: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|source| Error { file, source })
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_error_names_the_file() {
        let error = super::read::<std::collections::BTreeMap<String, u32>>("claims/x.toml", "n = \"m\"").unwrap_err();
        assert!(error.to_string().starts_with("crates/report/claims/x.toml: TOML parse error at line 1"), "{error}");
    }
}
