//! The hottest directories of all ranks, as `status` and `top` show them.

use crate::service::admin::doc::RankDoc;
use crate::service::admin::heat::HotDirDoc;

/// Directories shown.
const SHOWN: usize = 10;

/// A line a directory, hottest first; nothing if none is warm.
pub fn table(ranks: &[RankDoc]) -> String {
    let mut hottest: Vec<(u16, &HotDirDoc)> =
        ranks.iter().flat_map(|rank| rank.hottest.iter().map(|hot| (rank.rank, hot))).collect();
    hottest.retain(|(_, hot)| hot.metaload >= 1.0);
    hottest.sort_by(|a, b| b.1.metaload.total_cmp(&a.1.metaload).then_with(|| (a.0, a.1.dir).cmp(&(b.0, b.1.dir))));
    if hottest.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "{:>4} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6}  hottest directories\n",
        "rank", "load", "reads", "writes", "readdir", "fetch", "store"
    );
    for (rank, hot) in hottest.into_iter().take(SHOWN) {
        let HotDirDoc { dir, frag, path, metaload, heat } = hot;
        let name = path.clone().unwrap_or_else(|| format!("inode {dir}"));
        let part = if frag == "*" { String::new() } else { format!(" {frag}") };
        out.push_str(&format!(
            "{rank:>4} {metaload:>8.0} {:>8.0} {:>8.0} {:>8.0} {:>6.0} {:>6.0}  {name}{part}\n",
            heat.ird, heat.iwr, heat.readdir, heat.fetch, heat.store
        ));
    }
    out
}
