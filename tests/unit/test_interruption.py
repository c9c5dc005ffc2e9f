"""Signals: the first is noted, the second does what it did before."""

import signal
import threading

import pytest

from untold.interruption import stop_signals


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_noted_and_the_second_is_not_ours(kind):
    received = []
    before = signal.signal(kind, lambda number, _: received.append(number))
    try:
        with stop_signals() as interrupted:
            assert interrupted.signal == 0
            signal.raise_signal(kind)
            assert (interrupted.signal, received) == (kind, [])
            signal.raise_signal(kind)
            assert received == [kind]
    finally:
        signal.signal(kind, before)


def test_a_second_interrupt_from_the_keyboard_is_immediate():
    # The tests themselves may run in the background, where Ctrl-C is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), stop_signals():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_under_a_launcher_the_second_is_the_first_again():
    received = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        with stop_signals(launched=True) as interrupted:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            assert (interrupted.signal, received) == (signal.SIGTERM, [])
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("launched", "heard"), [(True, []), (False, [signal.SIGTERM])])
def test_a_launcher_does_not_cut_the_message_of_an_error(launched, heard):
    """It sends SIGTERM to all others when one process has died, while they say who it was."""
    received = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(ValueError, match="lost"), stop_signals(launched=launched):
            raise ValueError("lost")
        signal.raise_signal(signal.SIGTERM)
        assert received == heard
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupt)


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    for launched in (True, False):
        with stop_signals(launched=launched):
            signal.raise_signal(signal.SIGTERM)
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_signal_that_is_ignored_stays_so():
    """As the shell starts jobs in the background: Ctrl-C is not for them."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stop_signals() as interrupted:
            signal.raise_signal(signal.SIGINT)
            assert interrupted.signal == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_may_train_too():
    found = []

    def run():
        with stop_signals() as interrupted:
            found.append(interrupted.signal)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [0]
