"""Randomness that neither the number of processes nor an interruption changes."""

import pytest
import torch

from niso import collective, random


def test_step_seeds_are_distinct_and_repeatable():
    keys = [(seed, step, stream) for seed in range(8) for step in range(100) for stream in ("", "a", "b", "ab")]
    keys += [(2**32 + seed, step, "") for seed in range(4) for step in range(20)]
    seeds = [random.step_seed(*key) for key in keys]
    assert len(set(seeds)) == len(seeds)
    assert seeds == [random.step_seed(*key) for key in keys]
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**61 and min(seeds) < 2**57  # all bits are used
    assert random.step_seed(3, 5) == random.step_seed(3, 5, "")
    assert all(random.step_generator(*key).initial_seed() == seed for key, seed in zip(keys, seeds, strict=True))


def test_step_seed_does_not_run_its_arguments_together():
    """A seed of two 32-bit words is not a smaller seed followed by a step."""
    assert random.step_seed(5 + 7 * 2**32, 11) != random.step_seed(5, 7, chr(11))
    assert random.step_seed(1, 2) != random.step_seed(1, 2, "\0")
    assert random.step_seed(1, 0) != random.step_seed(1, 0, "\0")


def in_processes(monkeypatch, world, draw):
    parts = []
    for rank in range(world):
        monkeypatch.setattr(collective, "process", lambda rank=rank: (rank, world))
        torch.manual_seed(1)
        parts.append(draw())
    return parts


@pytest.mark.parametrize("world", [1, 2, 3, 6])
def test_batch_rand_is_a_slice_of_the_single_process_draw(monkeypatch, world):
    torch.manual_seed(1)
    expected = random.batch_rand(12)
    parts = in_processes(monkeypatch, world, lambda: random.batch_rand(12 // world))
    torch.testing.assert_close(torch.cat(parts), expected, rtol=0, atol=0)
    assert (0 <= expected).all() and (expected < 1).all() and len(expected.unique()) == 12


@pytest.mark.parametrize(("count", "group"), [(1, 1), (5, 1), (4, 4), (7, 3)])
def test_numbers_of_a_group_differ_and_are_uniform(count, group):
    groups = random.distinct(count, 3_000 * group, group).view(3_000, group)
    ordered = groups.sort(1).values
    assert (ordered[:, 1:] > ordered[:, :-1]).all() and ordered.min() == 0 and ordered.max() == count - 1
    for member in groups.unbind(1):
        assert (member.bincount(minlength=count) / 3_000 - 1 / count).abs().max() < 0.05
