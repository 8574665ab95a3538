//! Each compressor, one page at a time, there and back.
#![forbid(unsafe_code)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use neap_micro::{PAGES, pages};
use neap_store::{CompressorKind, SCRATCH};
use neap_suite::work::Content;

const KINDS: [CompressorKind; 5] = [
    CompressorKind::Lz4,
    CompressorKind::Zstd(-1),
    CompressorKind::Zstd(1),
    CompressorKind::Zstd(3),
    CompressorKind::Deflate(1),
];

fn compress(c: &mut Criterion) {
    let mut group = c.benchmark_group("compress");
    group.throughput(Throughput::Bytes(4096));
    for (name, content) in [("records", Content::Records), ("noise", Content::Noise)] {
        let pages = pages(content, PAGES);
        for kind in KINDS {
            let (mut compressor, mut out) = (kind.build(), vec![0; SCRATCH]);
            let mut turn = pages.iter().cycle();
            group.bench_function(format!("{kind}/{name}"), |b| {
                b.iter(|| {
                    turn.next()
                        .map(|page| compressor.compress(page, None, &mut out))
                });
            });
        }
    }
}

fn decompress(c: &mut Criterion) {
    let mut group = c.benchmark_group("decompress");
    group.throughput(Throughput::Bytes(4096));
    let pages = pages(Content::Records, PAGES);
    for kind in KINDS {
        let (mut compressor, mut out) = (kind.build(), vec![0; SCRATCH]);
        let packed = pages.iter().map(|page| {
            let length = compressor.compress(page, None, &mut out).unwrap_or(0);
            out[..length].to_vec()
        });
        let packed: Vec<Vec<u8>> = packed.collect();
        let (mut turn, mut page) = (packed.iter().cycle(), Box::new([0; 4096]));
        group.bench_function(format!("{kind}/records"), |b| {
            b.iter(|| {
                turn.next()
                    .map(|data| compressor.decompress(data, None, &mut page))
            });
        });
    }
}

criterion_group!(benches, compress, decompress);
criterion_main!(benches);
