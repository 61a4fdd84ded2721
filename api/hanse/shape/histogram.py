"""Histograms as numbers: how many hosts have 0, 1, … G free GPUs, counted off in lexicographic order.

A rack of 16 hosts with 8 GPUs has 735,471 possible histograms, so one costs three bytes however it looks; written as
pairs it would cost ten. There are C(n + k, k) ways to spread n hosts over k + 1 numbers of free GPUs.
"""

from math import comb


def ways(hosts: int, full: int) -> int:
    """How many histograms `hosts` hosts with `full` GPUs can have."""
    return comb(hosts + full, full)


def rank(counts: list[int]) -> int:
    """The number of a histogram among those of as many hosts: 0 for all hosts in the last place."""
    left, places, at = sum(counts), len(counts) - 1, 0
    for count in counts[:-1]:
        at += ways(left, places) - ways(left - count, places)
        left -= count
        places -= 1
    return at


def unrank(at: int, hosts: int, full: int) -> list[int]:
    """The histogram with that number; 0 <= at < ways(hosts, full)."""
    counts: list[int] = []
    left = hosts
    for places in range(full, 0, -1):
        total = ways(left, places)
        low, high = 0, left
        while low < high:  # the largest count whose first histogram is not after `at`
            middle = (low + high + 1) // 2
            if total - ways(left - middle, places) <= at:
                low = middle
            else:
                high = middle - 1
        at -= total - ways(left - low, places)
        counts.append(low)
        left -= low
    return [*counts, left]
