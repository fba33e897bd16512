import threading

import pytest
import tensorflow as tf

from fullpass.trainer.fit.beside import beside
from fullpass.trainer.input.workers import TrainingWorkers

ALONE = TrainingWorkers(tf.distribute.get_strategy())


def test_work_is_done_in_another_thread_once():
    begun, names = threading.Event(), []
    result = beside(ALONE, lambda: begun.set() or names.append(threading.current_thread().name) or 3)
    assert begun.wait(20)
    assert (result(), len(names)) == (3, 1)
    assert names != [threading.current_thread().name]


def test_an_error_is_raised_where_the_result_is_needed():
    result = beside(ALONE, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        result()


def test_work_that_waits_for_other_work_is_done_by_whoever_needs_it():
    goes_on, names = threading.Event(), []
    before = beside(ALONE, goes_on.wait)
    waiting = beside(ALONE, lambda: names.append(threading.current_thread().name))
    waiting()
    assert names == [threading.current_thread().name]
    goes_on.set()
    assert before()


def test_work_may_need_work_that_was_begun_later():
    goes_on, later = threading.Event(), []
    first = beside(ALONE, lambda: goes_on.wait() and later[0]() + 1)
    later.append(beside(ALONE, lambda: 1))
    goes_on.set()
    assert first() == 2


def test_a_training_on_several_devices_does_all_in_one_order():
    devices = TrainingWorkers(tf.distribute.MirroredStrategy(["CPU:0"]))
    devices.count = 2  # as on two machines
    names = []
    result = beside(devices, lambda: names.append(threading.current_thread().name))
    assert not names
    result()
    assert names == [threading.current_thread().name]
