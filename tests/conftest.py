"""Settings and fixtures common to all tests."""

import gc
import os
import signal

# Small matrices: two threading layers at once (BLAS and ours) make everything slower. Must precede numpy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("dev", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_collection_finish():
    """Modules and cases live to the end: no collection of garbage goes through them again, and there are fewer collections."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with the same seed in every test."""
    return np.random.default_rng(20201101)


@pytest.fixture
def interruptible():
    """Programs that the test starts hear Ctrl-C, also where this one was started with it ignored (`nohup make test &`)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _one_torch_thread(request):
    """Small matrices: threads of torch only wait for one another."""
    if request.node.get_closest_marker("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
