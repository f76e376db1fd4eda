//! The documents of load and heat, parts of `/api/v1/status`: what each rank does and knows, and its hottest directories.

use loligo_mds::heat::{HotDir, KnownLoad, Load, LoadVec, SpotRates};
use loligo_types::Rank;
use serde::{Deserialize, Serialize};

macro_rules! load_doc {
    ($($(#[$doc:meta])* $field:ident: $kind:ident, $policy:expr, $metric:literal, $help:literal,
        $json:ident [$($since:meta)?];)+) => {
        /// The load of a rank.
        #[derive(Serialize, Deserialize, Clone, Debug, Default)]
        #[cfg_attr(test, derive(utoipa::ToSchema))]
        pub struct LoadDoc {
            $(
                #[doc = $help]
                $(#[$since])?
                pub $field: $json,
            )+
        }

        impl LoadDoc {
            /// Of the machine's.
            pub fn new(load: &Load) -> LoadDoc {
                LoadDoc { $($field: tenths(f64::from(load.$field)) as $json),+ }
            }
        }
    };
}

loligo_types::load_numbers!(load_doc);

/// Load of another rank, as this rank knows it.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct KnownLoadDoc {
    pub rank: u16,
    /// Absent if it was never heard of.
    pub load: Option<LoadDoc>,
    pub age_ms: Option<u64>,
}

/// The five counters.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct HeatDoc {
    pub ird: f64,
    pub iwr: f64,
    pub readdir: f64,
    pub fetch: f64,
    pub store: f64,
}

/// A hot directory.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct HotDirDoc {
    /// Inode number.
    pub dir: u64,
    /// The fragment; `*` is the whole directory.
    pub frag: String,
    /// If it is known without reading.
    pub path: Option<String>,
    pub metaload: f64,
    pub heat: HeatDoc,
}

/// Heat of a fragment of a directory at a rank, per second: a line of `/api/v1/heat`.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct SpotDoc {
    pub rank: u16,
    /// Inode number.
    pub dir: u64,
    /// The fragment; `*` is the whole directory.
    pub frag: String,
    /// Inode number of the directory above; absent if it is not known without reading.
    pub parent: Option<u64>,
    /// Entries of the directory, as this rank counts them.
    pub entries: u64,
    pub heat: HeatDoc,
    /// Directories made in it.
    pub dirs_made: f64,
    /// Directories in it that were removed, renamed, given away, opened or closed to others.
    pub dirs_changed: f64,
    /// Of those that changed, given away, opened or closed to others.
    #[serde(default)]
    pub dirs_restricted: f64,
}

impl SpotDoc {
    /// Of the machine's.
    pub fn new(rank: Rank, spot: &SpotRates) -> SpotDoc {
        SpotDoc {
            rank: rank.0,
            dir: spot.dir.0,
            frag: spot.frag.to_string(),
            parent: spot.parent.map(|parent| parent.0),
            entries: spot.entries,
            heat: HeatDoc::new(&spot.load),
            dirs_made: tenths(spot.dirs.made),
            dirs_changed: tenths(spot.dirs.others + spot.dirs.restricted),
            dirs_restricted: tenths(spot.dirs.restricted),
        }
    }
}

fn tenths(n: f64) -> f64 {
    (n * 10.0).round() / 10.0
}

impl KnownLoadDoc {
    /// Of the machine's.
    pub fn new(known: &KnownLoad) -> KnownLoadDoc {
        let load = known.load.as_ref();
        KnownLoadDoc {
            rank: known.rank.0,
            load: load.map(|(load, _)| LoadDoc::new(load)),
            age_ms: load.map(|(_, age_ms)| *age_ms),
        }
    }
}

impl HeatDoc {
    /// Of the machine's.
    pub fn new(load: &LoadVec) -> HeatDoc {
        HeatDoc {
            ird: tenths(load.ird),
            iwr: tenths(load.iwr),
            readdir: tenths(load.readdir),
            fetch: tenths(load.fetch),
            store: tenths(load.store),
        }
    }
}

impl HotDirDoc {
    /// Of the machine's.
    pub fn new(hot: &HotDir) -> HotDirDoc {
        HotDirDoc {
            dir: hot.dir.0,
            frag: hot.frag.to_string(),
            path: hot.path.clone(),
            metaload: tenths(hot.load.metaload()),
            heat: HeatDoc::new(&hot.load),
        }
    }
}
