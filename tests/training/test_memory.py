import ctypes
import platform
import sys
from unittest import mock

import pytest
import torch

from niso.training.memory import M_MMAP_MAX, M_TRIM_THRESHOLD, NEVER, keep_freed_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such options")
def test_it_can_be_called_again_and_tensors_still_work():
    assert keep_freed_memory() and keep_freed_memory()
    assert torch.ones(1 << 20).sum() == 1 << 20


@pytest.mark.parametrize("refused", [None, M_MMAP_MAX, M_TRIM_THRESHOLD])
def test_no_block_is_given_back_nor_mapped_by_itself(monkeypatch, refused):
    mallopt = mock.Mock(side_effect=lambda option, _: option != refused)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: mock.Mock(mallopt=mallopt))
    assert keep_freed_memory() is (refused is None)
    if refused is None:
        assert mallopt.mock_calls == [mock.call(M_MMAP_MAX, 0), mock.call(M_TRIM_THRESHOLD, NEVER)]


def test_other_systems_are_left_alone():
    with mock.patch.object(sys, "platform", "darwin"):
        assert keep_freed_memory() is False
