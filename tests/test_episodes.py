"""Which rows are an episode: one class against the obvious loops, in memory and in parts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bondic.data.episodes import EpisodeNumbers, Episodes


@given(st.lists(st.integers(-3, 4), min_size=1, max_size=30), st.booleans())
def test_every_view_of_episodes_against_the_obvious_loop(ids, ascending):
    ids = sorted(ids) if ascending else ids
    rows: dict[int, list[int]] = {}
    for row, episode in enumerate(ids):
        rows.setdefault(episode, []).append(row)
    found, groups = Episodes(np.array(ids)), list(rows.values())  # in order of first appearance
    assert found.first.tolist() == [group[0] for group in groups]
    assert found.last.tolist() == [group[-1] for group in groups]
    assert found.lengths.tolist() == [len(group) for group in groups]
    assert found.number.tolist() == [list(rows).index(episode) for episode in ids]
    assert found.step.tolist() == [rows[episode].index(row) for row, episode in enumerate(ids)]
    pairs = sorted((a, b) for group in groups for a, b in pairwise(group))
    assert sorted(zip(*(side.tolist() for side in found.pairs), strict=True)) == pairs


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=25), st.integers(1, 25), st.booleans()
)
def test_numbers_are_counted_on_over_parts(rows, cut, by_time):
    ends, times = np.array([end for end, _ in rows]), np.array([time for _, time in rows])
    expected, number = [], 0
    for row in range(len(rows)):
        number += int(row > 0 and (ends[row - 1] or (by_time and times[row] <= times[row - 1])))
        expected.append(number)
    numbers = EpisodeNumbers()
    found = []
    for part in (slice(None, cut), slice(cut, None)):
        if ends[part].size:
            found += numbers.counted(ends[part], times[part] if by_time else None).tolist()
    assert found == expected
