//! The object stores that an OSD may have.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    Memstore,
    Bluestore,
    Filestore,
    Kstore,
}

impl Store {
    pub const NAMES: [&str; 4] = ["memstore", "bluestore", "filestore", "kstore"];

    pub fn of(name: &str) -> Result<Store> {
        const ALL: [Store; 4] = [Store::Memstore, Store::Bluestore, Store::Filestore, Store::Kstore];
        match ALL.into_iter().find(|store| store.name() == name) {
            Some(store) => Ok(store),
            None => bail!("no object store '{name}'; use one of {}", Store::NAMES.join(", ")),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Store::Memstore => "memstore",
            Store::Bluestore => "bluestore",
            Store::Filestore => "filestore",
            Store::Kstore => "kstore",
        }
    }
}
