"""Where cells run: in several processes of this machine, or on the nodes of a Ray cluster."""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing import connection
from typing import Any

import torch

from rightreasons.benchmark.cell import (
    Job,
    Outcome,
    describe_code,
    make_code_probe,
    run_job,
    say_other_code,
)
from rightreasons.core.checks import check_choice, check_integer
from rightreasons.errors import InvalidSettingError, MissingExtraError
from rightreasons.run.search import TrialJob

__all__ = ["BACKENDS", "Backend", "Processes", "Ray", "open_backend", "work"]

BACKENDS = ("process", "ray")
RETRIES = 3
"""How often a cell is sent again after the process or the node that ran it died."""
GRACE_SECONDS = 20.0
"""How long workers may take to save their checkpoints when the sweep is stopped."""
START = "import sys; from rightreasons.benchmark.backends import work; work(int(sys.argv[1]))"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Backend(ABC):
    """Runs jobs somewhere else, until it is closed."""

    @abstractmethod
    def capacity(self) -> int:
        """How many cells can run at once now."""

    @abstractmethod
    def submit(self, job: Job | TrialJob) -> None:
        """Send a job."""

    @abstractmethod
    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        """Wait until a job is done, or for some time; gives addresses and outcomes."""

    @abstractmethod
    def close(self) -> None:
        """Stop what runs; it is given time to save its state."""


class Processes(Backend):
    """Processes of this machine, which need no Ray.

    They are a session of their own, so that Ctrl-C reaches the driver alone. A cell whose process
    died is sent again, to a new process.

    Args:
        workers: Number of processes.
        threads: Threads of each.
    """

    def __init__(self, workers: int, threads: int) -> None:
        self.workers, self.threads = workers, threads
        self._idle: list[_Worker] = []
        self._busy: dict[connection.Connection, tuple[_Worker, Job | TrialJob, int]] = {}

    def capacity(self) -> int:
        """Number of processes."""
        return self.workers

    def submit(self, job: Job | TrialJob) -> None:
        """Send a job to a process that has none."""
        self._send(job, tries=0)

    def _send(self, job: Job | TrialJob, tries: int) -> None:
        used = {worker.number for worker, _, _ in self._busy.values()}
        number = min(set(range(self.workers)) - used)
        worker = self._idle.pop() if self._idle else _Worker(number, self.threads)
        self._busy[worker.pipe] = (worker, job, tries)
        with suppress(OSError):  # it has just died, which `wait` notices
            worker.pipe.send({**job.to_message(threads=self.threads), "code": describe_code()})

    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        """Wait for messages, and replace processes that died."""
        done = []
        for pipe in connection.wait(list(self._busy), timeout=seconds):
            worker, job, tries = self._busy.pop(pipe)  # type: ignore[call-overload]
            try:
                outcome = Outcome(**worker.pipe.recv())
            except (EOFError, OSError):
                code = worker.stop(1.0)
                if tries < RETRIES:
                    self._send(job, tries + 1)
                    continue
                told = f"its process died {tries + 1} times, at last with exit code {code}"
                outcome = Outcome(error=told, where=f"process {worker.process.pid}")
            else:
                self._idle.append(worker)
            done.append((job.address, outcome))
        return done

    def close(self) -> None:
        """End all processes; those at work save their checkpoints before."""
        workers = [*self._idle, *(worker for worker, _, _ in self._busy.values())]
        self._idle, self._busy = [], {}
        for worker in workers:
            worker.pipe.close()  # which each notices; a signal too would be a second one
        for worker in workers:
            worker.stop(GRACE_SECONDS)


def work(file_number: int) -> None:
    """Run the jobs that come through a pipe until it is closed; a process of `Processes`.

    When the driver dies, the worker notices: it saves the checkpoint of its cell, and ends.
    """
    logging.getLogger("rightreasons").setLevel(logging.ERROR)
    pipe = connection.Connection(file_number)
    jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def receive() -> None:
        with suppress(EOFError, OSError):
            while True:
                jobs.put(pipe.recv())
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=receive, daemon=True).start()
    while True:
        outcome = run_job(jobs.get())
        with suppress(OSError):
            pipe.send(outcome)


class _Worker:
    """A process of `Processes` and the pipe to it."""

    def __init__(self, number: int, threads: int) -> None:
        self.number = number
        self.pipe, theirs = connection.Pipe()
        file_number = theirs.fileno()
        variables = {name: str(threads) for name in THREAD_VARIABLES}
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(file_number)],
            env={
                **os.environ,
                **variables,
                **visible_gpu(number, torch.cuda.device_count(), os.environ),
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            },
            stdin=subprocess.DEVNULL,
            pass_fds=[file_number],
            start_new_session=True,
        )
        theirs.close()

    def stop(self, seconds: float) -> int:
        """Wait until the process has ended, and kill it if it does not; gives its exit code."""
        self.pipe.close()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def visible_gpu(number: int, num_gpus: int, environment: Mapping[str, str]) -> dict[str, str]:
    """The variable that shows one GPU to a process, in turn.

    Example:
        >>> visible_gpu(3, 2, {}), visible_gpu(1, 2, {"CUDA_VISIBLE_DEVICES": "4,6"})
        ({'CUDA_VISIBLE_DEVICES': '1'}, {'CUDA_VISIBLE_DEVICES': '6'})
    """
    if not num_gpus:
        return {}
    known = environment.get("CUDA_VISIBLE_DEVICES", "")
    names = known.split(",") if known else [str(index) for index in range(num_gpus)]
    return {"CUDA_VISIBLE_DEVICES": names[number % len(names)]}


class Ray(Backend):
    """Tasks on the nodes of a Ray cluster; Ray runs a task again if its node dies.

    Args:
        address: Address of the cluster, or ``"auto"``; None is that of the environment
            (``RAY_ADDRESS``), or else a cluster of this machine that is started here.
        workers: Most cells at once; None is what the nodes have room for.
        cpus: CPUs of a cell, which has as many threads.
        gpus: GPUs of a cell; a fraction shares one.
    """

    def __init__(self, address: str | None, workers: int | None, cpus: int, gpus: float) -> None:
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("Running cells on a Ray cluster", "ray")
        import ray

        self._ray: Any = ray
        self.workers, self.cpus, self.gpus = workers, cpus, gpus
        self._flying: dict[Any, str] = {}
        self._is_own = not ray.is_initialized()
        self._handler = signal.getsignal(signal.SIGTERM)  # which Ray replaces
        try:
            if self._is_own:
                self._connect(address or os.environ.get("RAY_ADDRESS") or None)
            self._refuse_nodes()
        except BaseException:
            self.close()
            raise
        self._task = ray.remote(run_job).options(num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES)

    def _connect(self, address: str | None) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is None:
            cpus = None if self.workers is None else self.workers * self.cpus
            self._ray.init(num_cpus=cpus, include_dashboard=False, **quiet)
            return
        try:
            host, _, port = address.rpartition(":")
            if host and port.isdecimal() and "//" not in host:  # Ray itself asks for minutes
                socket.create_connection((host, int(port)), timeout=10).close()
            self._ray.init(address=address, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            raise InvalidSettingError(
                f"Expected a Ray cluster at {address!r}, but cannot reach one: {error} Start it "
                "with `ray start --head`, or leave --address out for one of this machine."
            ) from error

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _refuse_nodes(self) -> None:
        """Ask every node for its code before anything runs."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        probe = self._ray.remote(make_code_probe())
        asked = {}
        for node in self._nodes():
            place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = probe.options(num_cpus=0, scheduling_strategy=place)
            asked[node["NodeManagerHostname"], node["NodeID"][:8]] = task.remote()
        for (host, name), reference in asked.items():
            try:
                code = self._ray.get(reference)
            except self._ray.exceptions.RayError:  # the node has just died
                continue
            if code != describe_code():
                raise InvalidSettingError(
                    say_other_code(f"{host} (node {name})", code, describe_code())
                )

    def capacity(self) -> int:
        """What the nodes have room for now, at least 1 so that the cluster sees the need."""
        room = 0.0
        for node in self._nodes():
            has = node["Resources"]
            parts = [has.get("CPU", 0.0) // self.cpus]
            parts += [has.get("GPU", 0.0) / self.gpus] if self.gpus else []
            room += math.floor(min(parts))
        most = room if self.workers is None else min(room, self.workers)
        return max(int(most), 1)

    def submit(self, job: Job | TrialJob) -> None:
        """Send a task."""
        if not self.gpus and job.config.accelerator == "auto":
            job = replace(job, config=replace(job.config, accelerator="cpu"))
        message = job.to_message(threads=self.cpus) | {"code": describe_code()}
        self._flying[self._task.remote(message)] = job.address

    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        """Wait for tasks; one whose node died too often is an error of its cell."""
        done, flying = [], list(self._flying)
        ready, _ = self._ray.wait(flying, num_returns=1, timeout=seconds)
        if ready:  # and all others that are done by now
            ready, _ = self._ray.wait(flying, num_returns=len(flying), timeout=0)
        for reference in ready:
            address = self._flying.pop(reference)
            try:
                outcome = Outcome(**self._ray.get(reference))
            except self._ray.exceptions.RayError as error:
                outcome = Outcome(error=f"{type(error).__name__}: {str(error).strip()[-400:]}")
            done.append((address, outcome))
        return done

    def close(self) -> None:
        """Cancel what runs, and leave the cluster."""
        flying, self._flying = list(self._flying), {}
        for reference in flying:
            self._ray.cancel(reference)
        if flying:
            self._ray.wait(flying, num_returns=len(flying), timeout=GRACE_SECONDS)
        if self._is_own:
            self._ray.shutdown()
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, self._handler)


def open_backend(
    name: str, *, workers: int | None, address: str | None, cpus: int | None, gpus: float
) -> Backend:
    """Make the backend of this name.

    Args:
        name: ``"process"`` or ``"ray"``.
        workers: Most cells at once; None is the number of cores divided by ``cpus``, or what the
            nodes have room for.
        address: Address of a Ray cluster.
        cpus: Cores, and threads, of a cell; None shares this machine's cores, and is 1 on Ray.
        gpus: GPUs of a cell, on Ray.
    """
    check_choice("backend", name, BACKENDS)
    if workers is not None:
        check_integer("workers", workers)
    if cpus is not None:
        check_integer("cpus", cpus)
    if not 0 <= gpus < math.inf:
        raise InvalidSettingError(f"Expected `gpus` to be a number from 0, but got {gpus!r}.")
    if name == "ray":
        return Ray(address, workers, cpus or 1, gpus)
    if address is not None or gpus:
        raise InvalidSettingError(
            "Expected --address and --gpus with --backend ray alone, but got them for processes of "
            "this machine. Leave them out: each process sees one of the GPUs in turn."
        )
    has_affinity = hasattr(os, "sched_getaffinity")  # a container or a job may have fewer cores
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    workers = workers or max(cores // (cpus or 1), 1)
    return Processes(workers, cpus or share_cores(cores, workers, os.environ))


def share_cores(cores: int, workers: int, environment: Mapping[str, str]) -> int:
    """Threads of each worker, so that all together have no more than there are cores.

    Example:
        >>> share_cores(8, 3, {}), share_cores(8, 2, {"OMP_NUM_THREADS": "1"})
        (2, 1)
    """
    asked = environment.get("OMP_NUM_THREADS", "")
    most = int(asked) if asked.isdigit() and int(asked) else cores
    return max(min(cores // workers, most), 1)
