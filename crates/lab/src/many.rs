//! A small model of many clients that make files in decoupled directories of their own and merge them at one rank: what is simulated is who
//! waits for the rank, nothing else. Its times are measured ones. No machine, no message and no disk is in it: that is the rest of this crate.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Clients that all begin at once; each has a core of its own, and so has the rank.
#[derive(Clone, PartialEq, Debug)]
pub struct Many {
    /// Number of clients.
    pub clients: usize,
    /// Each makes so many files.
    pub files: u64,
    /// A merge is sent in so many parts.
    pub parts: u64,
    /// So many of them are on their way at once, of each client.
    pub window: u64,
    /// Nanoseconds of the client for a file that it makes, and keeps on its disk, if it does.
    pub make_ns: f64,
    /// Nanoseconds of the client for sending a file in a merge.
    pub send_ns: f64,
    /// Nanoseconds of the rank's thread for a file that is merged.
    pub rank_ns: f64,
    /// Nanoseconds that a merge takes besides: the way of messages, and until it is durable.
    pub end_ns: f64,
}

impl Many {
    /// Nanoseconds until the last has made its files.
    pub fn made_ns(&self) -> f64 {
        self.files as f64 * self.make_ns
    }

    /// Nanoseconds until the last has merged them, too.
    pub fn merged_ns(&self) -> f64 {
        let of_part = self.files as f64 / self.parts.max(1) as f64;
        let (sends, takes) = (of_part * self.send_ns, of_part * self.rank_ns);
        // When a client can send its next part, whole nanoseconds so that they have an order; the lower number goes first.
        let mut next: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut flying: Vec<std::collections::VecDeque<f64>> = vec![Default::default(); self.clients];
        let mut left = vec![self.parts.max(1); self.clients];
        let begin = self.made_ns() + sends;
        (0..self.clients).for_each(|client| next.push(Reverse((begin as u64, client))));
        let (mut free_at, mut end) = (0f64, 0f64);
        while let Some(Reverse((now, client))) = next.pop() {
            free_at = free_at.max(now as f64) + takes;
            flying[client].push_back(free_at);
            left[client] -= 1;
            if left[client] == 0 {
                end = end.max(free_at + self.end_ns);
                continue;
            }
            let mut ready = now as f64 + sends;
            if flying[client].len() as u64 >= self.window.max(1)
                && let Some(answered) = flying[client].pop_front()
            {
                ready = ready.max(answered);
            }
            next.push(Reverse((ready as u64, client)));
        }
        end
    }

    /// Files a second, of all, without and with the merge.
    pub fn rates(&self) -> (f64, f64) {
        let all = self.clients as f64 * self.files as f64 * 1e9;
        (all / self.made_ns(), all / self.merged_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(clients: usize) -> Many {
        Many {
            clients,
            files: 100_000,
            parts: 100,
            window: 4,
            make_ns: 2_000.0,
            send_ns: 300.0,
            rank_ns: 3_000.0,
            end_ns: 1e6,
        }
    }

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 0.01
    }

    #[test]
    fn one_client_takes_the_sum_of_what_is_done_one_after_the_other() {
        let one = many(1);
        // Made, the first part sent, all parts taken, the end.
        assert!(near(one.merged_ns(), 200e6 + 0.3e6 + 300e6 + 1e6), "{}", one.merged_ns());
        let alone = Many { window: 1, rank_ns: 0.0, ..one };
        assert!(near(alone.merged_ns(), 200e6 + 30e6 + 1e6), "{}", alone.merged_ns());
    }

    #[test]
    fn a_slow_client_is_not_waited_for_by_a_fast_rank_and_the_other_way_round() {
        let slow = Many { send_ns: 9_000.0, ..many(1) };
        assert!(near(slow.merged_ns(), 200e6 + 900e6 + 3e6 + 1e6), "{}", slow.merged_ns());
    }

    #[test]
    fn many_clients_make_as_many_times_as_much_and_merge_as_much_as_the_rank_can() {
        let (one, hundred) = (many(1).rates(), many(100).rates());
        assert!(near(hundred.0, one.0 * 100.0));
        assert!(hundred.1 < 1e9 / 3_000.0 && hundred.1 > 0.98 * 1e9 / 3_000.0, "{}", hundred.1);
        let rates: Vec<f64> = [1, 2, 4, 8].into_iter().map(|n| many(n).rates().1).collect();
        assert!(rates.windows(2).all(|pair| pair[0] < pair[1]), "{rates:?}");
    }
}
