//! The device behind swap: latency, queue depth and bandwidth.
//!
//! A request waits for one of the queue's places, then for its turn on the bus, and ends a
//! latency after its data has passed. So random reads of a shallow queue are bound by
//! latency, and long streams by bandwidth.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use neap_units::{Bytes, Nanos, Pages};

/// To or from the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Swap-in.
    Read,
    /// Swap-out or write-back.
    Write,
}

/// A device that is memory. Whoever reads or writes a page of it does all the work on a CPU of his own, so that
/// callers do not wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InMemory {
    /// Time to write a page: to copy it, or to compress it (zram).
    pub write: Nanos,
    /// Time to read a page.
    pub read: Nanos,
    /// Bytes that a page takes of the machine's memory; 0 for a RAM disk whose memory the machine does
    /// not count as its own. They are charged to no cgroup (SPEC 5.1).
    pub bytes: u16,
}

/// What a device is like. The presets are chosen: round figures of data sheets and common
/// measurements of each class of device, not of any machine that reported results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceConfig {
    /// From the end of its transfer to the end of a read.
    pub read_latency: Nanos,
    /// The same for a write.
    pub write_latency: Nanos,
    /// Bytes a second that reads and writes share.
    pub bandwidth: Bytes,
    /// Requests the device works on at once.
    pub depth: u32,
    /// Requests that may be under way, waiting ones included; who submits more sleeps
    /// (kernel: queue/nr_requests).
    pub requests: u32,
    /// Reads and writes finish within the call and take the caller's CPU (zram, RAM disk).
    pub synchronous: bool,
    /// It rotates: readahead goes by place on the device.
    pub rotating: bool,
    /// It is memory; then latency, bandwidth and queue play no part.
    pub memory: Option<InMemory>,
}

impl DeviceConfig {
    /// A device in memory.
    #[must_use]
    pub fn in_memory(memory: InMemory) -> DeviceConfig {
        DeviceConfig {
            read_latency: Nanos::ZERO,
            write_latency: Nanos::ZERO,
            depth: 1024,
            requests: 1024,
            synchronous: true,
            memory: Some(memory),
            ..DeviceConfig::nvme()
        }
    }

    /// A RAM disk: a page is copied at 10 GiB/s, after half a microsecond of block layer.
    #[must_use]
    pub fn ram() -> DeviceConfig {
        DeviceConfig::in_memory(InMemory {
            write: Nanos(881),
            read: Nanos(881),
            bytes: 0,
        })
    }

    /// An NVMe drive.
    #[must_use]
    pub fn nvme() -> DeviceConfig {
        DeviceConfig {
            read_latency: Nanos::micros(80),
            write_latency: Nanos::micros(20),
            bandwidth: Bytes::gib(2),
            depth: 128,
            requests: 1023,
            synchronous: false,
            rotating: false,
            memory: None,
        }
    }

    /// A SATA solid-state drive.
    #[must_use]
    pub fn ssd() -> DeviceConfig {
        DeviceConfig {
            read_latency: Nanos::micros(120),
            write_latency: Nanos::micros(60),
            bandwidth: Bytes::mib(500),
            depth: 32,
            requests: 64,
            ..DeviceConfig::nvme()
        }
    }

    /// A disk: every request is a seek.
    #[must_use]
    pub fn disk() -> DeviceConfig {
        DeviceConfig {
            read_latency: Nanos::millis(8),
            write_latency: Nanos::millis(8),
            bandwidth: Bytes::mib(150),
            depth: 1,
            requests: 64,
            rotating: true,
            ..DeviceConfig::nvme()
        }
    }

    /// The same, so many times slower: a scaled machine asks for fewer pages a second, and how long a job waits for a
    /// page, against how long it takes until it wants the next, stays.
    #[must_use]
    pub fn slower(self, times: f64) -> DeviceConfig {
        let slow = |span: Nanos| Nanos((span.0 as f64 * times) as u64);
        DeviceConfig {
            read_latency: slow(self.read_latency),
            write_latency: slow(self.write_latency),
            bandwidth: Bytes(((self.bandwidth.0 as f64 / times) as u64).max(4096)),
            memory: self.memory.map(|memory| InMemory {
                write: slow(memory.write),
                read: slow(memory.read),
                ..memory
            }),
            ..self
        }
    }

    /// A device by name: ram, nvme, ssd or disk.
    #[must_use]
    pub fn named(name: &str) -> Option<DeviceConfig> {
        Some(match name {
            "ram" => DeviceConfig::ram(),
            "nvme" => DeviceConfig::nvme(),
            "ssd" => DeviceConfig::ssd(),
            "disk" => DeviceConfig::disk(),
            _ => return None,
        })
    }
}

/// A device and what it has under way.
#[derive(Debug)]
pub struct Device {
    config: DeviceConfig,
    /// When the requests the device works on end: one for each place it has, at most.
    places: BinaryHeap<Reverse<Nanos>>,
    /// When all requests under way end.
    ends: BinaryHeap<Reverse<Nanos>>,
    /// When the bus is free.
    bus_free: Nanos,
    busy: Nanos,
}

impl Device {
    /// An idle device.
    #[must_use]
    pub fn new(config: DeviceConfig) -> Device {
        Device {
            config,
            places: BinaryHeap::new(),
            ends: BinaryHeap::new(),
            bus_free: Nanos::ZERO,
            busy: Nanos::ZERO,
        }
    }

    /// What it is like.
    #[must_use]
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }

    /// A request for `pages` in one piece, made at `now`. Returns when it ends.
    pub fn submit(&mut self, now: Nanos, direction: Direction, pages: Pages) -> Nanos {
        if let Some(memory) = self.config.memory {
            let each = match direction {
                Direction::Read => memory.read,
                Direction::Write => memory.write,
            };
            let work = Nanos(each.0 * pages.0);
            self.busy += work;
            return now + work;
        }
        self.retire(now);
        let start = match self.places.len() < self.config.depth.max(1) as usize {
            true => now,
            // The place of the request that ends first.
            false => self.places.pop().map_or(now, |Reverse(end)| end.max(now)),
        };
        let transfer = self.transfer(pages);
        self.bus_free = self.bus_free.max(start) + transfer;
        self.busy += transfer;
        let latency = match direction {
            Direction::Read => self.config.read_latency,
            Direction::Write => self.config.write_latency,
        };
        let end = self.bus_free + latency;
        self.places.push(Reverse(end));
        self.ends.push(Reverse(end));
        end
    }

    /// Until when a caller sleeps who submitted more than there may be; none: there is room.
    pub fn full_until(&mut self, now: Nanos) -> Option<Nanos> {
        self.retire(now);
        let limit = self.config.requests.max(1) as usize;
        let over = (self.ends.len() + 1)
            .checked_sub(limit)
            .filter(|&n| n > 0)?;
        // The callers submit a few at a time, so few are taken out and put back.
        let first: Vec<_> = (0..over).filter_map(|_| self.ends.pop()).collect();
        let until = first.last().map(|&Reverse(end)| end);
        self.ends.extend(first);
        until
    }

    fn transfer(&self, pages: Pages) -> Nanos {
        let bytes = u128::from(Bytes::from(pages).0);
        Nanos((bytes * 1_000_000_000 / u128::from(self.config.bandwidth.0.max(1))) as u64)
    }

    /// Requests under way.
    pub fn queued(&mut self, now: Nanos) -> usize {
        self.retire(now);
        self.ends.len()
    }

    /// Time its bus was busy so far; of a device in memory, the CPUs of its callers.
    #[must_use]
    pub fn busy(&self) -> Nanos {
        self.busy
    }

    fn retire(&mut self, now: Nanos) {
        for heap in [&mut self.places, &mut self.ends] {
            while heap.peek().is_some_and(|&Reverse(end)| end <= now) {
                heap.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_read_takes_its_transfer_and_latency() {
        let mut device = Device::new(DeviceConfig {
            bandwidth: Bytes(4_096_000_000),
            ..DeviceConfig::nvme()
        });
        let end = device.submit(Nanos(5_000), Direction::Read, Pages(1));
        assert_eq!(end, Nanos(5_000 + 1_000 + 80_000));
        let end = device.submit(Nanos(5_000), Direction::Write, Pages(2));
        assert_eq!(
            end,
            Nanos(5_000 + 3_000 + 20_000),
            "after the first on the bus"
        );
        assert_eq!(device.queued(Nanos(5_000)), 2);
        assert_eq!(device.queued(Nanos(90_000)), 0);
        assert_eq!(device.busy(), Nanos(3_000));
    }

    #[test]
    fn streams_are_bound_by_bandwidth_and_shallow_queues_by_latency() {
        let mut deep = Device::new(DeviceConfig::nvme());
        let last = |device: &mut Device, n: u64| {
            (0..n)
                .map(|_| device.submit(Nanos::ZERO, Direction::Read, Pages(1)))
                .max()
        };
        // 10,000 pages at 2 GiB/s are 19 ms.
        let end = last(&mut deep, 10_000).unwrap_or_default();
        assert!((19..21).contains(&(end.0 / 1_000_000)), "{end}");
        let mut disk = Device::new(DeviceConfig::disk());
        let end = last(&mut disk, 100).unwrap_or_default();
        assert!((800..810).contains(&(end.0 / 1_000_000)), "{end}");
    }

    #[test]
    fn a_full_queue_makes_the_next_caller_wait_for_its_first_request() {
        let mut disk = Device::new(DeviceConfig::disk());
        for n in 0..64 {
            assert_eq!(disk.full_until(Nanos(1)), None, "request {n}");
            disk.submit(Nanos(1), Direction::Write, Pages(1));
        }
        let until = disk.full_until(Nanos(1)).expect("64 are under way");
        assert!(until > Nanos::millis(8) && until < Nanos::millis(9));
        assert_eq!(disk.full_until(until), None);
    }

    #[test]
    fn callers_of_a_device_in_memory_do_not_wait_for_each_other() {
        let mut zram = Device::new(DeviceConfig::in_memory(InMemory {
            write: Nanos(25_000),
            read: Nanos(6_000),
            bytes: 800,
        }));
        for _ in 0..5000 {
            let end = zram.submit(Nanos(7), Direction::Write, Pages(16));
            assert_eq!(end, Nanos(7 + 16 * 25_000));
            assert_eq!(zram.full_until(Nanos(7)), None);
        }
        let end = zram.submit(Nanos(7), Direction::Read, Pages(1));
        assert_eq!(end, Nanos(6_007));
    }

    #[test]
    fn devices_have_names() {
        for name in ["ram", "nvme", "ssd", "disk"] {
            assert!(DeviceConfig::named(name).is_some());
        }
        assert_eq!(DeviceConfig::named("tape"), None);
        assert!(DeviceConfig::ram().synchronous && DeviceConfig::disk().rotating);
    }
}
