"""What is moved is counted as by hand."""

import pytest
import torch

from gma_ref.timing.traffic import Traffic, counts

SIZE = 1_000
A, B, C = (torch.rand(SIZE) for _ in range(3))


@pytest.mark.parametrize(
    ("call", "arrays", "operations"),
    [
        (lambda: A.copy_(B), 2, 1),
        (lambda: A.fill_(1.0), 1, 1),
        (lambda: A.zero_(), 1, 1),
        (lambda: torch.empty_like(A), 0, 0),
        (lambda: A + B, 3, 1),
        (lambda: torch.mul(A, B, out=C), 3, 1),
        (lambda: A.add_(B), 3, 1),
        (lambda: torch.cumsum(A, 0), 2, 1),
        (lambda: A.cumsum_(0), 2, 1),
        (lambda: A.view(10, 100).T[1:], 0, 0),
        (lambda: A.sum(), 1, 1),
    ],
)
def test_reads_and_writes_are_counted_as_by_hand(call, arrays, operations):
    with Traffic() as traffic:
        call()
    assert traffic.bytes // 4 == pytest.approx(arrays * SIZE, abs=2)
    assert traffic.operations == operations


def test_what_is_broadcast_counts_as_large_as_it_is_in_memory():
    row = torch.rand(10)
    with Traffic() as traffic:
        row.expand(100, 10) + A.view(100, 10)
    assert traffic.bytes == 4 * (10 + SIZE + SIZE)


def test_products_are_counted_with_two_for_a_multiplication_and_its_addition():
    flop, moved, operations = counts(lambda: torch.ones(3, 4) @ torch.ones(4, 5))
    assert flop == 2 * 3 * 4 * 5
    assert operations == 3
    assert moved == 4 * (2 * (12 + 20) + 15)  # both factors are made, then read
