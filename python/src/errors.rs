//! The library's errors as Python's: one class per kind, in `lanetree.errors`.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process was forked from one that had the module.
static FORKED: AtomicBool = AtomicBool::new(false);

/// What `os.register_at_fork` runs in a child.
#[pyfunction]
pub(crate) fn after_fork_in_child() {
    FORKED.store(true, Ordering::Relaxed);
}

pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Every call that touches a device begins with this one.
pub(crate) fn check_not_forked() -> PyResult<()> {
    if is_forked() {
        return Err(PyRuntimeError::new_err(
            "this process was forked from one that uses lanetree, whose threads and GPU contexts it does not have: start it \
             by \"spawn\" (multiprocessing.get_context(\"spawn\"), or multiprocessing_context=\"spawn\" of a DataLoader)",
        ));
    }
    Ok(())
}

/// An error of the library, as the Python exception of its kind.
pub(crate) fn raise(error: lanetree::Error) -> PyErr {
    match error {
        lanetree::Error::Runtime(error) => of_kind(&error),
        lanetree::Error::File(error) => error.downcast().map_or_else(|error| of_kind(&error), raise_file),
        error => of_kind(&error),
    }
}

pub(crate) fn raise_runtime(error: lanetree::runtime::Error) -> PyErr {
    of_kind(&error)
}

/// An error of a file.
pub(crate) fn raise_file(error: lanetree::files::Error) -> PyErr {
    match error {
        lanetree::files::Error::Index(error) => raise(error),
        lanetree::files::Error::Io { ref source, .. } if source.kind() == ErrorKind::NotFound => {
            of_name("NotFound", error.to_string())
        }
        error => of_kind(&error),
    }
}

/// The class has the name of the variant, which is what `Debug` begins with.
fn of_kind(error: &impl std::error::Error) -> PyErr {
    let (debug, message) = (format!("{error:?}"), error.to_string());
    of_name(debug.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default(), message)
}

fn of_name(kind: &str, message: String) -> PyErr {
    let text = message.clone();
    let made = Python::try_attach(|py| {
        let module = match py.import("lanetree.errors") {
            Ok(module) => module,
            Err(error) => return error,
        };
        let class = module.getattr(kind).or_else(|_| module.getattr("Error"));
        match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
            Ok(class) => PyErr::from_type(class, text),
            Err(error) => error,
        }
    });
    // A thread may still be in a call when the interpreter ends: nobody reads its error.
    made.unwrap_or_else(|| PyRuntimeError::new_err(message))
}

pub(crate) fn value_error(message: impl Into<String>) -> PyErr {
    PyValueError::new_err(message.into())
}
