"""Builds the package in the book's repository: `pip install .` in code/torch. pyproject.toml says what it is."""
import pathlib
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import libraries  # noqa: E402: it is in this folder, which the line above adds to the path


class BuildPy(build_py):
    def run(self):
        super().run()
        libraries.build(pathlib.Path(self.build_lib).resolve() / "attention_in_stages")


class Compiled(Distribution):
    def has_ext_modules(self):  # True: the wheel is marked for this platform
        return True


# A build writes to build/torch only.
made = HERE.parents[1] / "build" / "torch"
made.mkdir(parents=True, exist_ok=True)
setup(cmdclass={"build_py": BuildPy}, distclass=Compiled,
      options={"build": {"build_base": str(made)}, "egg_info": {"egg_base": str(made)}})
