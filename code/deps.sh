#!/bin/bash
# Installs what is missing, and only that.
#   code/deps.sh chapter   what a chapter and its lab need; goes on without pandoc and gnuplot
#   code/deps.sh grade     what the grader needs as well
#   code/deps.sh all       what the tests and the book need as well
# With root or a passwordless sudo it calls apt-get once; otherwise it prints the line to type and
# exits with 1. A missing CUDA compiler comes from NVIDIA's packages on PyPI, into .toolkit/,
# without root.
set -u
cd "$(dirname "$0")/.." || exit 1

has_command() { command -v "$1" >/dev/null; }
has_header() { echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1; }
has_package() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

needed=() optional=()
has_command g++ || needed+=(g++)
has_header jansson.h || needed+=(libjansson-dev)
has_command pandoc || optional+=(pandoc)
has_command gnuplot || optional+=(gnuplot-nox)
if [ "${1:-all}" != chapter ]; then
    has_header 'sys/types.h>
#include <sha2.h' || needed+=(libmd-dev)
    has_command bwrap || needed+=(bubblewrap)
fi
if [ "${1:-all}" = all ]; then
    needed+=("${optional[@]}")
    optional=()
    has_command bats || needed+=(bats)
    has_header 'setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h' || needed+=(libcmocka-dev)
    has_command python3 || needed+=(python3)
    has_command pgrep || needed+=(procps)
    # make lint skips what is missing.
    has_command clang-format || optional+=(clang-format)
    has_command shellcheck || optional+=(shellcheck)
    has_command luacheck || optional+=(lua-check)
    # Slurm's daemons, 13 MB: a test starts them, in a folder of its own; no service is set up.
    for package in slurmctld slurmd slurm-client munge; do
        has_package "$package" || optional+=("$package")
    done
    has_command rsvg-convert || needed+=(librsvg2-bin)
    has_command pdftotext || needed+=(poppler-utils)
    has_command lualatex || needed+=(texlive-luatex)
    for package in texlive-latex-recommended texlive-latex-extra texlive-pictures \
                   texlive-fonts-recommended fonts-texgyre fonts-texgyre-math \
                   fonts-linuxlibertine fonts-jetbrains-mono; do
        has_package "$package" || needed+=("$package")
    done
fi

toolkit=
code/find-nvcc >/dev/null 2>&1
status=$?
if [ $status = 2 ]; then # CUDA_HOME is wrong: say so, and install nothing
    code/find-nvcc
    exit 1
elif [ $status != 0 ]; then
    toolkit=wanted
    python3 -c 'import pip' 2>/dev/null || needed+=(python3-pip)
fi

install=("${needed[@]}" "${optional[@]}")
if [ ${#install[@]} -gt 0 ]; then
    as_root=
    [ "$(id -u)" = 0 ] || as_root="sudo -n"
    if has_command apt-get && { [ -z "$as_root" ] || sudo -n true 2>/dev/null; }; then
        echo "  APT      ${install[*]}"
        log=$(mktemp)
        trap 'rm -f "$log"' EXIT
        export DEBIAN_FRONTEND=noninteractive
        if ! { $as_root apt-get update -q && $as_root env DEBIAN_FRONTEND=noninteractive \
                   apt-get install -q -y --no-install-recommends "${install[@]}"; } >"$log" 2>&1; then
            grep -E '^(E|W):' "$log" | head -5 >&2
            [ ${#needed[@]} -eq 0 ] || { echo "apt-get could not install: ${needed[*]}" >&2; exit 1; }
        fi
    elif [ ${#needed[@]} -gt 0 ]; then
        echo "to install what is missing, type: sudo apt-get install ${install[*]}" >&2
        exit 1
    else
        echo "  note: better with ${optional[*]}: sudo apt-get install ${optional[*]}"
    fi
fi

if [ -n "$toolkit" ]; then
    echo "  PIP      NVIDIA's CUDA 13.0 compiler, into .toolkit/"
    rm -rf .toolkit.new
    trap 'rm -rf .toolkit.new "${log:-}"' EXIT
    # nvcc.profile looks for lib64, and -lcudart for a libcudart.so: the wheels have neither.
    python3 -m pip install -q --disable-pip-version-check --no-deps --target .toolkit.new \
        nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 \
        nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 nvidia-nvtx==13.0.85 \
        nvidia-cuda-profiler-api==13.0.85 \
        2> >(grep -v WARNING >&2) &&
        ln -s lib .toolkit.new/nvidia/cu13/lib64 &&
        ln -s libcudart.so.13 .toolkit.new/nvidia/cu13/lib/libcudart.so &&
        rm -rf .toolkit && mv .toolkit.new .toolkit ||
        { echo "no CUDA compiler: pip could not bring it from PyPI; install CUDA 13" >&2; exit 1; }
    code/find-nvcc >/dev/null || exit 1
fi
exit 0
