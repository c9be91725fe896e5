"""A Slurm of one node on this machine, from the programs that Debian packages, with all its files in one folder."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import NamedTuple, Self

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "srun", "scancel", "sinfo")

#: Jobs stay listed for an hour after their end, so that squeue can tell how they ended; accounting is off.
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
MinJobAge=3600
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def reason_against() -> str | None:
    """Why there can be no such cluster here."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} not installed (on Debian and Ubuntu: apt install slurm-wlm munge)"
    return "slurmd needs root" if os.geteuid() != 0 else None


class CannotRun(RuntimeError):
    """The programs are there, and the node does not come up."""


class Job(NamedTuple):
    """A job as the queue tells of it, also after its end."""

    number: str
    state: str
    comment: str
    resources: str


class Cluster:
    """Its daemons run from ``with`` to the end of the block, and commands find it by ``environment``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = socket.gethostname().partition(".")[0]
        self.environment = os.environ | {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        }
        self.daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.write_files()
        files = {name: f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "pid", "log", "seed")}
        try:
            self.start("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", *files.values())
            self.start("slurmctld", "-D")
            self.start("slurmd", "-D")
            self.wait_for_node()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        # Jobs outlive the daemons.
        self.ask("scancel", "--user=root")
        deadline = time.monotonic() + 60
        while self.ask("squeue", "--noheader") and time.monotonic() < deadline:
            time.sleep(0.5)
        self.stop()

    def write_files(self) -> None:
        for name in ("state", "spool", "bin"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "munge.key").write_bytes(os.urandom(1024))
        (self.folder / "munge.key").chmod(0o400)
        megabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                host=self.host,
                folder=self.folder,
                controller_port=free_port(),
                node_port=free_port(),
                cpus=os.cpu_count(),
                memory=megabytes * 9 // 10,
            )
        )
        # Snakemake's executor starts srun without the variable that leads to this cluster.
        srun = self.folder / "bin" / "srun"
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec {shutil.which("srun")} "$@"\n')
        srun.chmod(0o755)

    def start(self, *command: str) -> None:
        with (self.folder / f"{command[0]}.out").open("wb") as file:
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=file, stderr=file))

    def wait_for_node(self) -> None:
        deadline = time.monotonic() + 60
        while "idle" not in self.ask("sinfo", "--noheader", "--format=%T"):
            stopped = [str(daemon.args) for daemon in self.daemons if daemon.poll() is not None]
            if stopped or time.monotonic() > deadline:
                output = "".join(path.read_text() for path in sorted(self.folder.glob("*.out")))
                raise CannotRun(f"no Slurm here: {', '.join(stopped) or 'the node stays away'}\n{output}")
            time.sleep(0.5)

    def stop(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def jobs(self) -> list[Job]:
        lines = self.ask("squeue", "--noheader", "--states=all", "--format=%i|%T|%k|%b").splitlines()
        return [Job(*line.split("|")) for line in lines]

    def ask(self, *command: str) -> str:
        return subprocess.run(command, env=self.environment, capture_output=True, text=True).stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
