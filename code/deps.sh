#!/bin/bash
# Installs what is missing, and only that.
#   code/deps.sh chapter   what a chapter and its lab need; goes on without pandoc and gnuplot
#   code/deps.sh grade     what the grader needs as well
#   code/deps.sh quick     what make test-quick needs as well, which is bats
#   code/deps.sh book      what the book needs, which is no compiler
#   code/deps.sh all       all that the others need, and what the tests need
# With root or a passwordless sudo it calls apt-get; otherwise it prints the line to type and exits
# with 1. A missing CUDA compiler comes from NVIDIA's packages on PyPI, into .toolkit/, without root.
# Sizes are told before anything is loaded, and how far it is while it runs; an interrupt ends
# apt-get and pip as well (dpkg ends what it unpacks), and the next call goes on. An error is one line
# on stderr.
set -u
cd "$(dirname "$0")/.." || exit 1
LOAD_MB=105 DISK_MB=280 # of the CUDA compiler's packages

fail() { echo "$*" >&2; exit 1; }
has_command() { command -v "$1" >/dev/null; }
has_header() { echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1; }
has_package() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# ---- What is missing ----

needed=() optional=() services=()
need_packages() { # PACKAGE... without a command or a header to look for
    local package
    for package; do
        has_package "$package" || needed+=("$package")
    done
}
for_chapter() {
    has_command g++ || needed+=(g++)
    has_header jansson.h || needed+=(libjansson-dev)
    has_command pandoc || optional+=(pandoc)
    has_command gnuplot || optional+=(gnuplot-nox)
}
for_grader() {
    has_header 'sys/types.h>
#include <sha2.h' || needed+=(libmd-dev)
    has_header crypt.h || needed+=(libcrypt-dev)
    has_command bwrap || needed+=(bubblewrap)
}
for_book() {
    has_command pandoc || needed+=(pandoc)
    has_command rsvg-convert || needed+=(librsvg2-bin)
    has_command pdftotext || needed+=(poppler-utils)
    has_command lualatex || needed+=(texlive-luatex)
    need_packages texlive-latex-recommended texlive-latex-extra texlive-pictures \
        texlive-fonts-recommended fonts-texgyre fonts-texgyre-math fonts-dejavu-core \
        fonts-linuxlibertine fonts-jetbrains-mono
}
for_tests() {
    has_command gnuplot || needed+=(gnuplot-nox)
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
    has_command chromium || optional+=(chromium) # the tests of films do without
    # Slurm's daemons, 13 MB: a test starts them, in a folder of its own. As services they are
    # disabled once they are installed.
    local package
    for package in slurmctld slurmd munge; do
        has_package "$package" || services+=("$package")
    done
    optional+=("${services[@]}")
    has_package slurm-client || optional+=(slurm-client)
}

case ${1:-all} in
chapter) for_chapter ;;
grade) for_chapter; for_grader ;;
quick)
    for_chapter
    for_grader
    needed+=("${optional[@]}")
    optional=()
    has_command bats || needed+=(bats) ;;
book) for_book ;;
all) for_chapter; optional=(); for_grader; for_book; for_tests ;;
*) echo "usage: code/deps.sh chapter|grade|quick|book|all" >&2; exit 2 ;;
esac

toolkit=
if [ "${1:-all}" != book ]; then
    why=$(code/find-nvcc 2>&1 >/dev/null)
    case $? in
    0) ;;
    2) fail "$why" ;; # CUDA_HOME is wrong: nothing is installed
    *) toolkit=wanted
       python3 -c 'import pip' 2>/dev/null || needed+=(python3-pip) ;;
    esac
fi

# ---- Running what takes minutes ----

log='' under_way='' as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)

# The group of what is under way gets the signal: an interrupt of a terminal does not reach it.
# shellcheck disable=SC2317 # called by the trap
interrupted() {
    trap '' INT TERM HUP
    if [ -n "$under_way" ]; then
        "${as_root[@]}" kill -TERM -- "-$under_way" 2>/dev/null || kill -TERM -- "-$under_way"
        wait "$under_way"
    fi 2>/dev/null
    # Of a make that was interrupted as well, nobody reads standard error any more.
    local said="interrupted; the next make goes on"
    [ -t 1 ] && printf '\r\033[K  %s\n' "$said" || echo "$said" >&2
    exit 130
}
trap interrupted INT TERM HUP
trap 'rm -rf .toolkit.new ${log:+"$log"}' EXIT

# Runs a command, what it says into $log, and tells how far it is: on a terminal in one line, every
# 20 s elsewhere. HOW_FAR is a function that prints it.
run() { # LABEL HOW_FAR COMMAND...
    local label=$1 how_far=$2 began=$SECONDS next=20 status
    shift 2
    setsid "$@" >"$log" 2>&1 </dev/null &
    under_way=$!
    while [ -n "$(jobs -rp)" ]; do
        sleep 0.2
        if [ -t 1 ]; then
            printf '\r  %-8s %d s%s\033[K' "$label" $((SECONDS - began)) "$($how_far)"
        elif [ $((SECONDS - began)) -ge $next ]; then
            printf '  %-8s %d s%s\n' "$label" $next "$($how_far)"
            next=$((next + 20))
        fi
    done
    wait "$under_way"
    status=$?
    under_way=
    [ ! -t 1 ] || printf '\r\033[K'
    return $status
}

# Why the command of $log failed, in a line.
reason() {
    if grep -qE 'No space left|enough free space|Errno 28' "$log"; then
        echo "the disk is full"
    elif grep -q 'Read-only file system' "$log"; then
        echo "the disk cannot be written"
    elif grep -qE 'Could not get lock|Unable to acquire' "$log"; then
        echo "another program is installing packages: wait for it, then make again"
    elif grep -qE 'CERTIFICATE_VERIFY_FAILED|[Cc]ertificate verification' "$log"; then
        echo "the server's certificate is not trusted here (ca-certificates?)"
    elif grep -qE 'Could not resolve|[Tt]emporary failure|Name or service not known|Could not connect|Unable to connect|[Uu]nreachable|[Cc]onnection (timed out|refused|failed)|NewConnectionError|Connect(ion)?Timeout' "$log"; then
        echo "no network"
    else
        grep -E '^(E|ERROR|dpkg): ?' "$log" | head -1 | cut -c1-300
    fi
}

# "143 MB to load, 571 MB on disk, about 2 min" of what apt-get would install; empty if it cannot tell.
# The minutes are those of 3 MB/s from the network and 15 MB/s onto the disk. It only prints addresses:
# told to assume no, apt-get installs all the same where it has nothing to ask.
sizes() {
    local uris names
    uris=$(apt-get install --print-uris -qq -y --no-install-recommends -o Debug::NoLocking=1 "$@" 2>/dev/null) || return
    mapfile -t names < <(awk '/^\047/ { sub(/_.*/, "", $2); print $2 }' <<<"$uris")
    [ ${#names[@]} -gt 0 ] || return
    { echo "$uris"; apt-cache show --no-all-versions "${names[@]}" 2>/dev/null; } | awk '
        /^\047/ { load += $3 / 1e6 }
        /^Installed-Size: / { disk += $2 / 1e3 }
        END { printf "%d MB to load, %d MB on disk, about %d min", load + 0.999, disk + 0.999, 1 + (load / 3 + disk / 15) / 60 }'
}

# ---- apt-get ----

# shellcheck disable=SC2317 # called by run, as pip_far is
apt_far() {
    awk -F: '/^dlstatus:/ { done = ", " int($3) " % loaded" }
             /^pmstatus:/ { done = ", " int($3) " % installed" } END { printf "%s", done }' "$log"
}
apt() { # OPTION... : apt-get as root
    run APT apt_far "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
        apt-get -q -o APT::Status-Fd=1 -o DPkg::Lock::Timeout=60 "$@"
}

# What an interrupt left half done is finished first. A dpkg that was unpacking then was left to it,
# since a package half unpacked is worse than one too many: it is waited for.
finish_dpkg() {
    local tries
    for ((tries = 0; tries < 60; tries++)); do
        [ -n "$(dpkg --audit 2>/dev/null)" ] || return
        run DPKG : "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive dpkg --configure -a && return
        grep -q 'lock' "$log" || return
        sleep 2
    done
}

apt_install() {
    local known=() package size
    echo "  APT      the lists of packages"
    apt update -o Acquire::Retries=0
    # Without a network it fails at the first, not once more for each package.
    if grep -q '^Err:' "$log" && ! grep -qE '^(Get|Hit):' "$log"; then
        [ ${#needed[@]} -eq 0 ] || fail "apt-get cannot load the lists of packages: $(reason)"
        echo "  note: better with ${optional[*]}, which apt-get cannot load: $(reason)"
        return
    fi
    # What this system's archive does not have is left out, if it can be done without.
    for package in "${optional[@]}"; do
        ! apt-cache show "$package" >/dev/null 2>&1 || known+=("$package")
    done
    set -- "${needed[@]}" "${known[@]}"
    [ $# -gt 0 ] || return 0
    size=$(sizes "$@")
    echo "  APT      $*${size:+: $size}"
    finish_dpkg
    apt install -y --no-install-recommends "$@" ||
        { [ ${#needed[@]} -eq 0 ] || fail "apt-get could not install ${needed[*]}: $(reason)"
          echo "  note: apt-get could not install $*: $(reason)"; }
    if [ ${#services[@]} -gt 0 ] && has_command systemctl; then
        "${as_root[@]}" systemctl disable -q --now "${services[@]}" >/dev/null 2>&1 || :
    fi
}

# The line to type, alone on its line.
apt_line() {
    local install="apt-get install --no-install-recommends $*"
    has_command sudo && echo "sudo apt-get update && sudo $install" || echo "su -c 'apt-get update && $install'"
}

# ---- pip ----

# shellcheck disable=SC2317
pip_far() { du -sm .toolkit.new 2>/dev/null | awk -v all=$((LOAD_MB + DISK_MB)) '{ printf ", %d of %d MB", $1, all }'; }

pip_install() {
    local free dir
    echo "  PIP      NVIDIA's CUDA 13.0 compiler, into .toolkit/: $LOAD_MB MB to load, $DISK_MB MB on disk, about 1 min"
    free=$(df -Pm . | awk 'NR == 2 { print $4 }')
    [ "${free:-0}" -ge $((LOAD_MB + DISK_MB)) ] ||
        fail "the disk is full: the CUDA compiler takes $((LOAD_MB + DISK_MB)) MB of $PWD, which has $free MB left"
    rm -rf .toolkit.new
    mkdir -p .toolkit.new/tmp || fail "$PWD cannot be written"
    # nvcc.profile looks for lib64, and -lcudart for a libcudart.so: the wheels have neither.
    TMPDIR=$PWD/.toolkit.new/tmp run PIP pip_far python3 -m pip install -q --disable-pip-version-check \
        --retries 2 --no-deps --target .toolkit.new \
        nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 \
        nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 nvidia-nvtx==13.0.85 \
        nvidia-cuda-profiler-api==13.0.85 ||
        fail "no CUDA compiler: pip could not bring it from PyPI ($(reason)); install CUDA 13 or try again"
    dir=.toolkit.new/nvidia/cu13
    rm -rf .toolkit.new/tmp .toolkit &&
        ln -s lib $dir/lib64 && ln -s libcudart.so.13 $dir/lib/libcudart.so &&
        mv .toolkit.new .toolkit || fail "no CUDA compiler: $PWD/.toolkit cannot be written"
    code/find-nvcc >/dev/null || exit 1
}

# ---- Now ----

log=$(mktemp) || fail "no temporary file can be written in ${TMPDIR:-/tmp}"
install=("${needed[@]}" "${optional[@]}")
if [ ${#install[@]} -gt 0 ]; then
    if ! has_command apt-get; then
        [ ${#needed[@]} -eq 0 ] || fail "install what your system calls these packages of Debian's: ${install[*]}"
        echo "  note: better with what your system calls these packages of Debian's: ${optional[*]}"
    elif [ ${#as_root[@]} -eq 0 ] || setsid -w sudo -n true 2>/dev/null; then
        apt_install
    else
        size=$(sizes "${install[@]}")
        [ ${#needed[@]} -gt 0 ] && echo "To install what is missing${size:+ ($size)}, type:" ||
            echo "  note: better with ${optional[*]}${size:+ ($size)}; to install them, type:"
        printf '\n%s\n\n' "$(apt_line "${install[@]}")"
        [ ${#needed[@]} -eq 0 ] || fail "packages are missing: type the line above, then make again"
    fi
fi
[ -z "$toolkit" ] || pip_install
exit 0
