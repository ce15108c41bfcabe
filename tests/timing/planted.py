"""Calls whose time or memory is known beforehand; a fresh process imports them by name."""

import dataclasses

import numpy as np

MEGABYTE = 2**20


def allocate(megabytes, kept, before=0):
    """Return a call that fills some megabytes and returns `kept` of them; `before` are taken and freed earlier."""
    if before:
        np.ones(before * MEGABYTE, np.uint8)
    inputs = np.ones(50 * MEGABYTE, np.uint8)

    def call():
        assert inputs[-1] == 1
        work = np.ones((megabytes - kept) * MEGABYTE, np.uint8)
        result = np.ones(kept * MEGABYTE, np.uint8)
        assert work[-1] == 1
        return result

    return call


def fail():
    """Return a call that fails."""

    def call():
        raise ValueError("planted failure")

    return call


class Clock:
    """A clock that only the planted calls move."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def call(self, seconds, log=None, name=None, drift=0.0):
        """Return a call that takes so long, and longer each time by `drift`."""

        def call():
            self.now += seconds + drift * self.now
            if log is not None:
                log.append(name)

        return call


def spoilt(name, spoil):
    """Return a method whose outputs, and through them its gradients, are not what they should be."""
    from gma_ref.timing.bench import all_methods  # needs PyTorch, which a fresh process for an array does without

    method = all_methods()[name]

    def prepare(inputs, causal, training):
        prepared = method.prepare(inputs, causal, training)
        return dataclasses.replace(prepared, forward=lambda: spoil(prepared.forward()))

    return dataclasses.replace(method, name="spoilt", title="spoilt", prepare=prepare)
