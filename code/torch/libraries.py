"""Compiles the C side of the package: python3 libraries.py FOLDER, which setup.py does.

It makes a shared library for the CPU and, if there is a CUDA compiler, one that quantises and one for each program of
stages.py. They have a C interface and do not use PyTorch, so one build serves every version of PyTorch.
"""
import concurrent.futures
import os
import pathlib
import runpy
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CODE = HERE.parent
KERNEL_FLAGS = ["-std=c++20", "-O3", "-lineinfo"]  # as in mk/toolchain.mk, and so as in the book's
                                                   # measurements
SHARED = ["-Xcompiler", "-fPIC,-fvisibility=hidden", "-shared", "-cudart", "shared"]


def fail(message):
    sys.exit(f"attention-in-stages: {message}")


def run(command):
    print(" ".join(map(str, command)), flush=True)
    if subprocess.call([str(word) for word in command]):
        fail(f"{command[0]} failed, see above")


def toolkit():
    """The root of a CUDA toolkit, or None."""
    found = subprocess.run([CODE / "tools" / "find-nvcc"], capture_output=True, text=True, check=False)
    if found.returncode == 2:
        fail(found.stderr.strip())
    return pathlib.Path(found.stdout.strip()) if found.returncode == 0 else None


def images(program):
    """The architectures that chapters/stages.tsv has for a program, such as sm_89 and sm_90: the program's own
    (PROGRAM=sm_90a), or else those of its chapter."""
    asked = [CODE / "tools" / "stages", program[2:4], "images"]
    found = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        fail(f"chapters/stages.tsv has no stage {int(program[2:4])}")
    words = found.stdout.split()
    own = [word.split("=")[1] for word in words if word.startswith(program + "=")]
    return own or [word for word in words if "=" not in word]


def gencode(architectures):
    """nvcc's flags for machine code of each architecture, and for PTX of the first, which newer GPUs can run."""
    flags = []
    for place, architecture in enumerate(architectures):
        virtual = architecture.replace("sm_", "compute_")
        codes = f"[{architecture},{virtual}]" if place == 0 else architecture
        flags += ["-gencode", f"arch={virtual},code={codes}"]
    return flags


def build(folder):
    if not (CODE / "workbench" / "workbench.h").is_file():
        fail(f"{CODE} has no workbench/: install from the book's repository, in code/torch")
    compiler = os.environ.get("CC", "cc")
    bench = [CODE / "workbench" / f"{name}.c" for name in ("reference", "reference_avx512", "inputs", "formats", "gates")]
    # -z defs: a file of the workbench that is missing here is an error of the linker, not of the first import.
    run([compiler, "-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-Wl,-z,defs", "-I", CODE, HERE / "cpu.c", *bench,
         "-lm", "-lpthread", "-o", folder / "cpu.so"])
    root = toolkit()
    if not root:
        print("no CUDA 13 compiler here: the operators are built for the CPU alone", flush=True)
        return
    nvcc = [root / "bin" / "nvcc", *KERNEL_FLAGS, *SHARED, "-I", CODE, "-I", HERE,
            "-Xlinker", f"-rpath={root / 'lib64'}:{root / 'lib'}"]
    stages = runpy.run_path(str(HERE / "attention_in_stages" / "stages.py"))["STAGES"]
    commands = [[*nvcc, *gencode(["sm_80", "sm_89", "sm_90"]), HERE / "quantise.cu", "-o", folder / "quantise.so"]]
    for program in sorted({name for stage in stages.values() for name in stage.programs}):
        commands.append([*nvcc, *gencode(images(program)), f'-DPROGRAM="{program}.cu"', HERE / "program.cu",
                         "-o", folder / f"{program}.so"])
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run, commands))


if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        fail("python3 libraries.py FOLDER: one that is there")
    build(pathlib.Path(sys.argv[1]).resolve())
