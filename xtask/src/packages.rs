//! The packages of all published crates, as the registry would have them, without the repository around them.

use crate::failure::{Failure, Result};
use crate::{paths, process};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package, unpacked.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Listed>,
}

/// A package of the workspace, as `cargo metadata` lists it.
#[derive(Deserialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) manifest_path: PathBuf,
    /// The registries that it may go to; all if there is no list.
    publish: Option<Vec<String>>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// What a package depends on.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `dev` or `build`; nothing for others.
    pub(crate) kind: Option<String>,
    /// Which versions will do; `*` if the manifest does not say.
    req: String,
}

impl Listed {
    fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// What the registry must have before it takes this package. Cargo leaves out what only tests use and has no version.
    pub(crate) fn needed(&self) -> impl Iterator<Item = &str> {
        let needed = self.dependencies.iter().filter(|it| it.kind.as_deref() != Some("dev") || it.req != "*");
        needed.map(|it| &*it.name)
    }
}

/// Packages every crate that is published, and unpacks the packages into an empty folder.
pub(crate) fn unpack() -> Result<Vec<Package>> {
    let (published, others): (Vec<_>, Vec<_>) = listed()?.into_iter().partition(Listed::is_published);
    let mut command = process::cargo();
    // What they hold is built by a user's first build.
    command.args(["package", "--workspace", "--no-verify", "--allow-dirty", "--offline", "--quiet"]);
    command.args(others.iter().flat_map(|package| ["--exclude", &package.name]));
    process::run(&mut command)?;
    let folder = paths::target().join("packages");
    let cannot = |error| Failure::CannotRun(format!("cannot empty {}: {error}", paths::shown(&folder)));
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(cannot)?;
    }
    fs::create_dir_all(&folder).map_err(cannot)?;
    let unpack = |Listed { name, version, .. }: Listed| {
        let file = paths::target().join("package").join(format!("{name}-{version}.crate"));
        // With the time of now: packages have all files of one day in 2006, and cargo would take what it compiled of the last ones.
        process::run(Command::new("tar").arg("-xmzf").arg(file).arg("-C").arg(&folder))?;
        Ok(Package { folder: folder.join(format!("{name}-{version}")), name })
    };
    published.into_iter().map(unpack).collect()
}

/// The packages that are published.
pub(crate) fn published() -> Result<Vec<Listed>> {
    Ok(listed()?.into_iter().filter(Listed::is_published).collect())
}

/// The workspace's packages.
pub(crate) fn listed() -> Result<Vec<Listed>> {
    listed_in(&paths::root())
}

/// The packages of the workspace in a folder.
pub(crate) fn listed_in(folder: &Path) -> Result<Vec<Listed>> {
    let mut command = process::cargo();
    let output = process::output(command.current_dir(folder).args(["metadata", "--format-version=1", "--no-deps"]))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::CannotRun(format!("`cargo metadata` failed: {reason}")));
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::CannotRun(format!("cannot read what `cargo metadata` says: {error}")))?;
    Ok(metadata.packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_an_empty_list_of_registries_is_not_published() {
        let published = |publish: Option<Vec<String>>| {
            let (name, version, manifest_path, dependencies) = Default::default();
            Listed { name, version, manifest_path, publish, dependencies }.is_published()
        };
        assert_eq!([published(None), published(Some(Vec::new()))], [true, false]);
    }
}
