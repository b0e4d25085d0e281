"""Where work that falls into parts is done: in processes of this machine, or by the tasks of a Ray cluster.

An engine gives the results of the parts as they come. Doing a part again must be harmless, for that is what happens
where a process or a machine is lost.
"""

from __future__ import annotations

import importlib
import itertools
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, parent_process
from pathlib import Path
from typing import Any, TypeVar

import torch

from shiftcal.core.errors import InvalidInputError, MissingDependencyError, ProcessLostError, TrainingInterrupted

Part = TypeVar("Part")
Result = TypeVar("Result")

# A part that is lost so many times more is what kills its machine, and will do so again.
_MOST_RETRIES = 3
# For parts under way to save what they have when the command is interrupted.
_SECONDS_TO_STOP = 30.0
# For a cluster to take a call.
_SECONDS_TO_ANSWER = 10.0
# What a command finds through the environment, its tasks must find too.
_PASSED_ON = ("SHIFTCAL_", "HF_", "TORCH_HOME")


class Engine(ABC):
    """Something that does work in parts."""

    @property
    def several_at_a_time(self) -> bool:
        """Whether parts are done beside each other, so that the longest should come first."""
        return True

    @abstractmethod
    def results(self, function: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
        """The result of each part, in the order in which they come.

        Args:
            function: of a module, or a `partial` of one, with arguments that can be pickled.
            parts: what it is called with.

        Raises:
            ProcessLostError: a process or machine was lost, and the part with it could not be done again.
            Exception: whatever the function raises; parts under way are stopped, the rest is not begun.
        """


@dataclass(frozen=True)
class LocalProcesses(Engine):
    """This process or, if there are to be several, processes of this machine."""

    num_processes: int = 1

    @property
    def several_at_a_time(self) -> bool:
        """As the base says."""
        return self.num_processes > 1

    def results(self, function: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
        """As the base says."""
        if self.num_processes == 1 or len(parts) <= 1:
            yield from map(function, parts)
            return
        # Spawned, not forked: torch's threads do not survive a fork.
        context = multiprocessing.get_context("spawn")
        threads = max(1, torch.get_num_threads() // self.num_processes)
        others = set(active_children())
        with ProcessPoolExecutor(
            self.num_processes, mp_context=context, initializer=_begin_worker, initargs=(threads,)
        ) as pool:
            waiting, under_way = iter(parts), set[Future[Result]]()
            try:
                while True:
                    # No more than there are processes: what lies ready for one would be begun after an interruption.
                    for part in itertools.islice(waiting, self.num_processes - len(under_way)):
                        under_way.add(pool.submit(function, part))
                    if not under_way:
                        return
                    done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            except BrokenProcessPool as error:
                raise ProcessLostError(
                    "a process that did a part of the work was killed, perhaps for want of memory. What is done is "
                    "kept: the same command goes on; fewer --jobs need less memory."
                ) from error
            except BaseException:
                # A signal may have come to this process alone. Trainings save what they have.
                for process in set(active_children()) - others:
                    process.terminate()
                raise


def _begin_worker(num_threads: int) -> None:
    """What a process of a pool does first; it ends with the one that it works for, however that ends."""
    torch.set_num_threads(num_threads)
    employer = parent_process()
    assert employer is not None

    def follow() -> None:
        employer.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_SECONDS_TO_STOP)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@dataclass(frozen=True)
class RayTasks(Engine):
    """Tasks of a Ray cluster, each with one CPU and, where the cluster has any, one GPU.

    The machines share the folder that the command is given in, and all that it reads and writes, by the same paths.
    """

    address: str | None = None
    """Of the cluster; None: that of RAY_ADDRESS, or one that runs here, else a new one of this machine alone."""
    most_at_a_time: int | None = None
    """None: as many as the cluster has room for."""

    def results(self, function: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
        """As the base says; a part whose machine is lost or is told to stop is done again on another."""
        with self._connected() as ray:
            task = ray.remote(_as_here).options(
                num_cpus=1,
                num_gpus=1 if ray.cluster_resources().get("GPU") else 0,
                max_retries=_MOST_RETRIES,
                retry_exceptions=[TrainingInterrupted],
            )
            here = Path.cwd(), {name: os.environ[name] for name in os.environ if name.startswith(_PASSED_ON)}
            waiting, under_way = list(parts), list[Any]()
            try:
                while waiting or under_way:
                    while waiting and len(under_way) < (self.most_at_a_time or len(parts)):
                        under_way.append(task.remote(function, waiting.pop(0), *here))
                    (done, *_), under_way = ray.wait(under_way, num_returns=1)
                    yield _result_of(ray, done)
            except BaseException:
                for reference in under_way:
                    ray.cancel(reference, force=False)
                if under_way:
                    ray.wait(under_way, num_returns=len(under_way), timeout=_SECONDS_TO_STOP)
                raise

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError:
            raise MissingDependencyError("the engine 'ray'", "ray", "cluster") from None
        if ray.is_initialized():
            raise InvalidInputError(
                "this process is connected to Ray already, and its workers may hold data of an earlier comparison: "
                "call ray.shutdown() and give the address of the cluster, ray:ADDRESS"
            )
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unasked
        try:
            _check_answers(self.address or os.environ.get("RAY_ADDRESS", ""))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # on what will change in later versions of Ray
                ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            raise InvalidInputError(
                f"expected a Ray cluster at {self.address or 'this machine'!r} (`ray start --head` begins one, `ray "
                f"status` shows it), got: {str(error).splitlines()[0]}"
            ) from error
        try:
            yield ray
        finally:
            ray.shutdown()


def _check_answers(address: str) -> None:
    """Raise `OSError` if nobody answers at HOST:PORT: Ray itself would ask again and again for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS_TO_ANSWER):
            pass


def _as_here(function: Callable[[Part], Result], part: Part, folder: Path, environment: dict[str, str]) -> Result:
    """Do a part where the command was given, so that relative paths and data sets are found."""
    os.chdir(folder)
    os.environ.update(environment)
    return function(part)


def _result_of(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if not isinstance(error.cause, ray.exceptions.RayError):
            raise error.cause from error  # the function's own, without Ray's words around it
        raise ProcessLostError(
            f"a machine of the cluster could not begin its part of the work: {str(error.cause).splitlines()[0]}. All "
            "need the same versions of Python, shiftcal and Ray."
        ) from error
    except ray.exceptions.RayError as error:
        raise ProcessLostError(
            f"a part of the work was lost {_MOST_RETRIES + 1} times with the process or machine that did it: "
            f"{str(error).splitlines()[0]} What is done is kept: see what became of these, and give the same "
            "command again."
        ) from error


def find_engine(name: str, num_at_a_time: int | None = None) -> Engine:
    """The engine of a name: `local`, `ray` or `ray:ADDRESS`.

    Args:
        name: as it is written on the command line.
        num_at_a_time: how many parts are done at a time; None: one, or as many as the Ray cluster has room for.

    Raises:
        InvalidInputError: there is none of that name.
    """
    kind, has_address, address = name.partition(":")
    if name == "local":
        return LocalProcesses(num_at_a_time or 1)
    if kind == "ray" and bool(has_address) == bool(address):
        return RayTasks(address or None, num_at_a_time)
    raise InvalidInputError(f"engine must be 'local', 'ray' or 'ray:ADDRESS', as in ray:10.0.0.1:6379. Got {name!r}.")
