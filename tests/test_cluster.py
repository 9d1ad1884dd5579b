"""The SimPy cluster: order of events, looks at replicas, moves, when a run ends."""

import math

import pytest

from servestudy.engine.cluster import Cluster


class Job:
    def __init__(self, arrival_s: float) -> None:
        self.arrival_s = arrival_s


class OneByOne:
    """Serves one job at a time for `service_s`; notes what happens when."""

    def __init__(self, index: int, service_s: float, log: list) -> None:
        self.index, self.service_s, self.log = index, service_s, log
        self.queue: list[Job] = []
        self.serving: Job | None = None

    @property
    def busy(self) -> bool:
        return self.serving is not None

    def enqueue(self, job: Job) -> None:
        self.queue.append(job)

    def advance(self, now_s: float) -> float:
        if self.serving:
            self.log.append((now_s, "done", self.serving.arrival_s))
            self.serving = None
        if not self.queue:
            return math.inf
        self.serving = self.queue.pop(0)
        self.log.append((now_s, "start", self.serving.arrival_s))
        return self.service_s


def one_replica(service_s: float) -> tuple[Cluster, list]:
    log: list = []
    replica = OneByOne(0, service_s, log)
    return Cluster([replica], lambda job: replica), log


def test_jobs_are_served_in_order_and_the_run_ends_with_the_last():
    cluster, log = one_replica(2.0)
    assert cluster.run([Job(0.0), Job(1.0), Job(10.0)]) == 12.0
    assert log == [
        (0.0, "start", 0.0), (2.0, "done", 0.0), (2.0, "start", 1.0), (4.0, "done", 1.0),
        (10.0, "start", 10.0), (12.0, "done", 10.0),
    ]  # fmt: skip


def test_arrivals_come_before_a_batch_end_of_the_same_time():
    cluster, log = one_replica(2.0)
    cluster.run([Job(0.0), Job(2.0)])
    assert log[1:3] == [(2.0, "done", 0.0), (2.0, "start", 2.0)]


def test_arrivals_of_the_same_time_are_dispatched_in_order_before_any_starts():
    log: list = []
    replicas = [OneByOne(0, 1.0, log), OneByOne(1, 1.0, log)]
    cluster = Cluster(replicas, lambda job: min(replicas, key=lambda replica: len(replica.queue)))
    cluster.run([Job(0.0), Job(0.0), Job(0.0)])
    assert [entry[0] for entry in log if entry[1] == "done"] == [1.0, 1.0, 2.0]


def test_the_first_event_after_the_limit_is_still_handled():
    cluster, log = one_replica(2.0)
    assert cluster.run([Job(0.0), Job(0.1), Job(0.2)], time_limit_s=3.0) == 4.0
    assert [entry for entry in log if entry[1] == "done"] == [(2.0, "done", 0.0), (4.0, "done", 0.1)]


def test_periodic_rules_do_not_keep_a_run_going():
    cluster, _ = one_replica(0.35)
    ticks: list[float] = []
    cluster.every(0.1, ticks.append)
    assert cluster.run([Job(0.0)]) == 0.35
    assert ticks == pytest.approx([0.1, 0.2, 0.3])


def test_a_move_under_way_keeps_a_run_going_and_wakes_an_idle_replica_only_if_asked():
    for wake, served in ((True, 2), (False, 1)):
        cluster, log = one_replica(1.0)
        (replica,) = cluster.replicas
        late = Job(0.5)

        def arrive(replica=replica, late=late, cluster=cluster, wake=wake):
            replica.enqueue(late)
            if wake:
                cluster.wake(replica)

        cluster.later(5.0, arrive)
        cluster.run([Job(0.0)])
        assert sum(entry[1] == "done" for entry in log) == served
        assert log[-1][0] == (6.0 if wake else 1.0)


def test_waking_twice_starts_once():
    cluster, log = one_replica(1.0)
    (replica,) = cluster.replicas
    replica.enqueue(Job(0.0))
    cluster.wake(replica)
    cluster.wake(replica)
    cluster.run([])
    assert log == [(0.0, "start", 0.0), (1.0, "done", 0.0)]


def test_nothing_to_do_ends_at_once():
    cluster, log = one_replica(1.0)
    assert cluster.run([]) == 0.0
    assert not log


@pytest.mark.parametrize("arrivals", [(1.0, 0.5), (0.0, math.nan)])
def test_arrivals_out_of_order_are_refused(arrivals):
    cluster, _ = one_replica(1.0)
    with pytest.raises(ValueError, match="arrivals must be in order"):
        cluster.run(map(Job, arrivals))
