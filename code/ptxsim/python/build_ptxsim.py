"""Builds the wheel of ptxsim (PEP 517): compiles the simulator and its command with $CC or gcc, and puts both into a
Python package. It needs only the sources of a checkout, and writes to a temporary folder only.
"""

import base64
import concurrent.futures
import csv
import hashlib
import io
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
CODE = HERE.parents[1]
NAME = "ptxsim"
VERSION = re.search(r'#define PTXSIM_VERSION "(.*)"', (CODE / "ptxsim/ptxsim.h").read_text("utf-8")).group(1)
SUMMARY = "Runs CUDA programs without a GPU, and finds their races: a PTX simulator that counts"
# The packages from which `ptxsim cc` runs nvcc where no toolkit is installed; the versions are those of
# code/tools/deps.
TOOLKIT = ["nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88", "nvidia-cuda-crt==13.0.88",
           "nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cccl==13.0.85", "nvidia-nvtx==13.0.85",
           "nvidia-cuda-profiler-api==13.0.85"]
EXTRAS = {"cc": TOOLKIT, "numpy": ["numpy"], "triton": ["numpy", "triton"], "test": ["pytest"]}
ENTRY_POINTS = """[console_scripts]
ptxsim = ptxsim.__main__:main

[pytest11]
ptxsim = ptxsim.pytest_plugin
"""

FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-fPIC", "-w", f"-I{CODE}"]
# LIBRARY_FLAGS, HOT and FLOORS are as in mk/simulator.mk.
LIBRARY_FLAGS = ["-fno-semantic-interposition", "-fno-math-errno", "-fno-trapping-math"]
HOT = ("machine", "races", "ops", "exec")
FLOORS = ["base", "parse", "machine", "races", "ops", "ops/isa", "decode", "exec", "cudart",
          "ops/extra", "decode/extra", "cudart/extra"]


def fail(why):
    raise SystemExit(f"ptxsim: {why}")


def compiler():
    command = shlex.split(os.environ.get("CC", "gcc"))
    if not shutil.which(command[0]):
        fail(f"{command[0]} is not installed: the simulator is compiled with gcc")
    return command


def cuda_headers():
    """The folder of cuda_runtime_api.h: in CUDA_HOME, in a package that the build requires, or in a toolkit."""
    places = [pathlib.Path(os.environ["CUDA_HOME"]) / "include"] if os.environ.get("CUDA_HOME") else []
    places += [pathlib.Path(p) / "nvidia" / "cu13" / "include" for p in sys.path]
    places += [pathlib.Path("/usr/local/cuda/include")]
    for place in places:
        if (place / "cuda_runtime_api.h").is_file():
            return place
    fail("cuda_runtime_api.h is nowhere: set CUDA_HOME to a toolkit of CUDA 13")


def run(command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode:
        fail(f"{' '.join(str(word) for word in command)} failed:\n{done.stdout}")
    return done.stdout


def sources(*folders):
    return [f for folder in folders for f in sorted((CODE / folder).glob("*.c")) if not f.name.startswith("test_")]


def compile_all(work, groups):
    """Compiles each (source, flags) on all cores, longest compilations first; returns the objects by group and
    source."""
    cc, headers = compiler(), ["-isystem", cuda_headers()]

    def one(job):
        number, group, source, flags = job
        made = work / f"{number}.o"
        run([*cc, *FLAGS, *flags, *headers, "-c", source, "-o", made])
        return group, source, made

    jobs = [(group, source, flags) for group, wanted in groups.items() for source, flags in wanted]
    jobs.sort(key=lambda job: "isa" not in job[1].parts)
    objects = {group: {} for group in groups}
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for group, source, made in pool.map(one, [(n, *job) for n, job in enumerate(jobs)]):
            objects[group][source] = made
    return objects


def build_native(folder):
    """Compiles the command and the libraries into a folder."""
    work = folder.parent / "objects"
    work.mkdir()
    library = []
    for source in sources("image", *(f"ptxsim/{floor}" for floor in FLOORS)):
        floor = source.relative_to(CODE).parts[1]
        hot = ["-O2" if source.name == "base.c" and source.parent.name == "isa" else "-O3",
               "-falign-functions=64"] if floor in HOT else ["-O1"]
        library.append((source, hot + LIBRARY_FLAGS))
    command = [s for s in sources("ptxsim/tool") if s.name != "bench-sim.c"]
    command += [CODE / "host" / f"{name}.c" for name in ("say", "json", "root", "clock", "process", "options")]
    command += [CODE / "workbench" / "files.c", CODE / "image" / "fatbin.c"]
    made = compile_all(work, {
        "runtime": library,
        "python": [(source, ["-O1"]) for source in sources("ptxsim/capi")],
        "cudart12": [(source, ["-O1"]) for source in sources("ptxsim/cudart12")],
        "command": [(source, ["-O1", f"-I{HERE / 'include'}"]) for source in command],
    })
    cc = compiler()

    def link(name, exports, objects):
        run([*cc, "-s", "-shared", f"-Wl,-soname,{name}", f"-Wl,--version-script={CODE / 'ptxsim' / exports}",
             "-Wl,-z,defs", *objects, "-lm", "-lpthread", "-ldl", "-o", folder / name])

    link("libcudart.so.13", "cudart/libcudart.map", made["runtime"].values())
    older = CODE / "ptxsim" / "cudart12"
    forward = work / "forward.s"
    forward.write_text(run(["sh", older / "forward", folder / "libcudart.so.13"]))
    run([*cc, "-s", "-shared", "-Wl,-soname,libcudart.so.12", f"-Wl,--version-script={older / 'libcudart12.map'}",
         "-Wl,-z,defs", *made["cudart12"].values(), forward, f"-L{folder}", "-l:libcudart.so.13",
         "-Wl,-rpath,$ORIGIN", "-o", folder / "libcudart.so.12"])
    # libptxsim.so, for Python, is without the CUDA runtime, since the process may have a real one.
    link("libptxsim.so", "capi/libptxsim.map", [
        *(made["runtime"][source] for source in made["runtime"] if "cudart" not in source.parts),
        *made["python"].values()])
    # libcuda.so.1 needs the same libcudart.so.13: a second copy of the simulator would be a second
    # device.
    run([*cc, "-s", "-shared", "-Wl,-soname,libcuda.so.1", "-Wl,--no-as-needed", f"-L{folder}",
         "-l:libcudart.so.13", "-Wl,-rpath,$ORIGIN", "-o", folder / "libcuda.so.1"])
    run([*cc, "-s", *made["command"].values(), "-lm", "-lpthread", "-ldl", "-o", folder / "ptxsim"])
    shutil.rmtree(work)
    (folder / "film").mkdir()
    for part in ("film.css", "film.html", "film.js", "lessons.js"):
        shutil.copy(CODE / "film" / part, folder / "film" / part)


def tag():
    libc = platform.libc_ver()[1].replace(".", "_") or "2_36"
    return f"py3-none-manylinux_{libc}_{platform.machine()}"


def metadata():
    lines = ["Metadata-Version: 2.1", f"Name: {NAME}", f"Version: {VERSION}", f"Summary: {SUMMARY}",
             "Requires-Python: >=3.9", "License: MIT", "Description-Content-Type: text/markdown"]
    for extra, packages in EXTRAS.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {package}; extra == "{extra}"' for package in packages]
    readme = HERE.parent / "README.md"
    return "\n".join(lines) + "\n\n" + (readme.read_text("utf-8") if readme.is_file() else "")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = f"{NAME}-{VERSION}-{tag()}.whl"
    info = f"{NAME}-{VERSION}.dist-info"
    entries = ENTRY_POINTS
    if not (HERE / NAME / "pytest_plugin.py").is_file():
        entries = entries.split("[pytest11]")[0]
    with tempfile.TemporaryDirectory() as temporary:
        native = pathlib.Path(temporary) / "native"
        native.mkdir()
        build_native(native)
        files = {f"{NAME}/{f.relative_to(HERE / NAME)}": (f.read_bytes(), 0o644)
                 for f in sorted((HERE / NAME).rglob("*.py"))}
        for f in sorted(native.rglob("*")):
            if f.is_file():
                files[f"{NAME}/native/{f.relative_to(native)}"] = (f.read_bytes(), 0o755 if f.suffix != ".js" and
                                                                   f.parent.name != "film" else 0o644)
    files[f"{info}/METADATA"] = (metadata().encode(), 0o644)
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: build_ptxsim\nRoot-Is-Purelib: false\n"
                              f"Tag: {tag()}\n".encode(), 0o644)
    files[f"{info}/entry_points.txt"] = (entries.encode(), 0o644)
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    for path, (content, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        writer.writerow([path, f"sha256={digest}", len(content)])
    writer.writerow([f"{info}/RECORD", "", ""])
    files[f"{info}/RECORD"] = (rows.getvalue().encode(), 0o644)
    temporary = pathlib.Path(wheel_directory) / f"{name}.tmp"
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, (content, mode) in files.items():
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
    temporary.rename(temporary.with_suffix(""))
    return name


def build_sdist(sdist_directory, config_settings=None):
    fail("there is no source package: install from a checkout, pip install ./code/ptxsim")
