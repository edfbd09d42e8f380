// SPDX-License-Identifier: Apache-2.0
//! Draws of every kind of offsets.

use super::*;

const KIB4: u32 = 4096;

fn region(blocks: u64) -> OffsetRegion {
    OffsetRegion {
        start: 1 << 20,
        bytes: blocks * u64::from(KIB4),
        grain_bytes: KIB4.into(),
    }
}

/// The blocks of the first `n` operations.
fn blocks_of(offsets: &OffsetPattern, blocks: u64, who: (u32, u32), n: u64) -> Vec<u64> {
    let mut draw = OffsetGenerator::new(offsets, region(blocks), who, Seed(1));
    let mut rng = Rng::new(Seed(2));
    let mut block = |_| {
        let offset = draw.next(KIB4, &mut rng) - (1 << 20);
        assert!(offset.is_multiple_of(KIB4.into()));
        offset / u64::from(KIB4)
    };
    (0..n).map(&mut block).collect()
}

#[test]
fn streams_go_their_way_and_begin_again() {
    for (offsets, who, expect) in [
        (OffsetPattern::Sequential, (0, 1), [0, 1, 2, 3, 4, 0, 1]),
        (OffsetPattern::Backward, (0, 1), [4, 3, 2, 1, 0, 4, 3]),
        (OffsetPattern::Interleaved, (0, 2), [0, 2, 4, 0, 2, 4, 0]),
        (OffsetPattern::Interleaved, (1, 2), [1, 3, 1, 3, 1, 3, 1]),
        (
            OffsetPattern::Strided {
                stride_bytes: 3 * 4096,
            },
            (0, 1),
            [0, 3, 0, 3, 0, 3, 0],
        ),
    ] {
        assert_eq!(blocks_of(&offsets, 5, who, 7), expect, "{offsets:?}");
    }
}

#[test]
fn a_pass_covers_what_it_says() {
    let stride = |stride_bytes| OffsetPattern::Strided { stride_bytes };
    for (offsets, who, expect) in [
        (OffsetPattern::Sequential, (0, 1), 10),
        (OffsetPattern::Permutation, (3, 4), 10),
        (OffsetPattern::Interleaved, (0, 4), 3),
        (OffsetPattern::Interleaved, (3, 4), 2),
        (stride(8192), (0, 1), 5),
        (stride(12_288), (0, 1), 4),
    ] {
        let draw = OffsetGenerator::new(&offsets, region(10), who, Seed(1));
        assert_eq!(draw.pass(), expect, "{offsets:?} {who:?}");
        let mut found = blocks_of(&offsets, 10, who, expect);
        found.sort_unstable();
        found.dedup();
        assert_eq!(
            found.len() as u64,
            expect,
            "{offsets:?}: a block came twice"
        );
    }
    // The interleaved workers share the region among them.
    let mut all: Vec<u64> = (0..4)
        .flat_map(|worker| {
            let who = (worker, 4);
            let draw = OffsetGenerator::new(&OffsetPattern::Interleaved, region(10), who, Seed(1));
            blocks_of(&OffsetPattern::Interleaved, 10, who, draw.pass())
        })
        .collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..10));
}

#[test]
fn every_round_of_a_permutation_is_whole_and_another() {
    let found = blocks_of(&OffsetPattern::Permutation, 1_000, (0, 1), 3_000);
    let rounds: Vec<&[u64]> = found.chunks(1_000).collect();
    for round in &rounds {
        let mut sorted = round.to_vec();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1_000));
    }
    assert!(rounds[0] != rounds[1] && rounds[1] != rounds[2]);
}

#[test]
fn the_order_of_a_seed_is_the_same_whatever_else_is_drawn() {
    let order = |random| {
        let mut draw =
            OffsetGenerator::new(&OffsetPattern::Permutation, region(100), (0, 1), Seed(0));
        let mut rng = Rng::new(Seed(random));
        (0..100)
            .map(|_| draw.next(KIB4, &mut rng))
            .collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(2));
}

#[test]
fn a_fixed_permutation_heeds_its_own_seed_only() {
    let order = |fixed, worker, seed| {
        let offsets = OffsetPattern::FixedPermutation { seed: fixed };
        let mut draw = OffsetGenerator::new(&offsets, region(100), (worker, 2), Seed(seed));
        let mut rng = Rng::new(Seed(seed));
        (0..100)
            .map(|_| draw.next(KIB4, &mut rng))
            .collect::<Vec<_>>()
    };
    let first = order(0, 0, 1);
    assert_eq!(first, order(0, 1, 2));
    assert_ne!(first, order(3, 0, 1));
    let mut sorted = first;
    sorted.sort_unstable();
    assert!(
        sorted
            .into_iter()
            .eq((0..100).map(|block| (1 << 20) + block * 4096))
    );
}

#[test]
fn the_forms_in_files_are_apart() {
    for (text, expect) in [
        ("\"permutation\"", OffsetPattern::Permutation),
        (
            "{\"fixed_permutation\":{\"seed\":0}}",
            OffsetPattern::FixedPermutation { seed: 0 },
        ),
    ] {
        let read: OffsetPattern = serde_json::from_str(text).unwrap();
        assert_eq!(read, expect, "{text}");
        assert_eq!(serde_json::to_string(&expect).unwrap(), text);
    }
}

#[test]
fn uniform_blocks_are_equally_likely() {
    let (blocks, n) = (256u16, 256_000);
    let mut counts = vec![0u32; blocks.into()];
    for block in blocks_of(&OffsetPattern::Uniform, blocks.into(), (0, 1), n) {
        counts[crate::num::to_usize(block)] += 1;
    }
    let chi: f64 = counts
        .iter()
        .map(|c| (f64::from(*c) - 1_000.0).powi(2) / 1_000.0)
        .sum();
    // 255 degrees of freedom: mean 255, standard deviation 22.6.
    assert!((150.0..370.0).contains(&chi), "{chi}");
}

#[test]
fn zipf_puts_every_rank_on_a_block_of_its_own() {
    let offsets = OffsetPattern::Zipf { exponent: 1.0 };
    let mut counts = vec![0u32; 100];
    for block in blocks_of(&offsets, 100, (0, 1), 200_000) {
        counts[crate::num::to_usize(block)] += 1;
    }
    let hottest = (0..100).max_by_key(|block| counts[*block]);
    let other = |seed| {
        let mut draw = OffsetGenerator::new(&offsets, region(100), (0, 1), Seed(seed));
        let mut rng = Rng::new(Seed(9));
        let drawn: Vec<u64> = (0..50).map(|_| draw.next(KIB4, &mut rng)).collect();
        drawn
    };
    assert_ne!(other(1), other(2), "another seed scatters otherwise");
    assert!(hottest.is_some());
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let whole: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
    for (i, count) in (1u32..).zip(counts.iter().take(20)) {
        let expect = 200_000.0 / f64::from(i) / whole;
        let error = (f64::from(*count) - expect).abs() / expect.sqrt();
        assert!(error < 5.0, "rank {i}: {count} {expect}");
    }
    assert!(counts.iter().all(|count| *count > 0), "ranks collapsed");
}

#[test]
fn zones_get_their_shares() {
    let zone = |access, size| OffsetZone { access, size };
    let hot = OffsetPattern::Zones(vec![zone(8.0, 2.0), zone(2.0, 8.0)]);
    let found = blocks_of(&hot, 1_000, (0, 1), 100_000);
    let inside = found.iter().filter(|block| **block < 200).count();
    assert!((79_400..80_600).contains(&inside), "{inside}");
    let mut seen: Vec<u64> = found;
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 1_000, "every block of both zones is touched");
    // More zones than blocks, and none at all, are no reason to leave the region.
    for odd in [vec![zone(1.0, 1.0); 7], Vec::new()] {
        let found = blocks_of(&OffsetPattern::Zones(odd), 3, (0, 1), 1_000);
        assert!(found.iter().all(|block| *block < 3));
    }
}

#[test]
fn runs_are_sequential_inside_and_lie_anywhere() {
    let found = blocks_of(&OffsetPattern::Runs { blocks: 8 }, 1_000, (0, 1), 8_000);
    let mut starts = Vec::new();
    for run in found.chunks(8) {
        assert!(run.windows(2).all(|pair| pair[1] == pair[0] + 1), "{run:?}");
        starts.push(run[0]);
    }
    let mean = starts.iter().sum::<u64>() as f64 / starts.len() as f64;
    // Uniform on 0..=992: mean 496, standard deviation of the mean 9.
    assert!((450.0..542.0).contains(&mean), "{mean}");
    // A run that is longer than the region is the region.
    assert_eq!(
        blocks_of(&OffsetPattern::Runs { blocks: 8 }, 3, (0, 1), 4)[..3],
        [0, 1, 2]
    );
}

#[test]
fn operations_of_any_size_stay_inside() {
    let zone = |access, size| OffsetZone { access, size };
    for offsets in [
        OffsetPattern::Uniform,
        OffsetPattern::Permutation,
        OffsetPattern::Sequential,
        OffsetPattern::Backward,
        OffsetPattern::Runs { blocks: 5 },
        OffsetPattern::Interleaved,
        OffsetPattern::Strided {
            stride_bytes: 5_000,
        },
        OffsetPattern::Zipf { exponent: 1.1 },
        OffsetPattern::Zones(vec![zone(1.0, 1.0), zone(3.0, 0.5)]),
    ] {
        let region = OffsetRegion {
            start: 4096,
            bytes: 1_000_000,
            grain_bytes: 65_536,
        };
        let mut draw = OffsetGenerator::new(&offsets, region, (1, 3), Seed(1));
        let mut rng = Rng::new(Seed(2));
        for i in 0..5_000 {
            let size = [512, 4096, 65_536, 131_072][i % 4];
            let offset = draw.next(size, &mut rng);
            let end = offset + u64::from(size);
            assert!(offset >= 4096 && end <= 1_004_096, "{offsets:?} {offset}");
        }
    }
}
