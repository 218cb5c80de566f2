# Setting up: code/tools/deps with stand-ins for apt-get, pip and the like, so that nothing is
# downloaded or installed; and what make says before it begins.

bats_require_minimum_version 1.5.0

load test_tree

setup() {
    TREE=$BATS_TEST_TMPDIR/tree BIN=$BATS_TEST_TMPDIR/bin SAID=$BATS_TEST_TMPDIR/said
    export SAID
    mkdir -p "$TREE/code/tools" "$BIN"
    cp code/tools/deps "$TREE/code/tools"
    : >"$SAID"
    local command
    for command in bash sh env sed grep awk cat cut head tail paste cp mv rm ln mkdir touch dirname \
                   basename readlink mktemp sleep setsid kill df du tr; do
        ln -s "$(command -v "$command")" "$BIN/$command"
    done
    # A bare system: no compiler, no package; root, an archive with everything, a network.
    fake id 'echo 0'
    fake dpkg-query 'exit 1'
    fake dpkg 'echo "dpkg $*" >>"$SAID"'
    fake apt-cache '[ "$*" != "show --no-all-versions g++ pandoc" ] || printf "Package: x\\nInstalled-Size: %d\\n" 71000 500000'
    fake apt-get 'echo "apt-get $*" >>"$SAID"
        case $* in
        *update*) echo "Get:1 http://archive/debian stable InRelease [151 kB]" ;;
        *--print-uris*)
            echo -e "\x27http://archive/g++_12_amd64.deb\x27 g++_4%3a12_amd64.deb 43000000 SHA256:1"
            echo -e "\x27http://archive/pandoc_2_amd64.deb\x27 pandoc_2_amd64.deb 100000000 SHA256:2" ;;
        esac'
    fake python3 'case $* in
        "-c import pip") exit ;;
        esac
        echo "pip $*" >>"$SAID"
        mkdir -p .toolkit.new/nvidia/cu13/lib'
    printf '#!/bin/sh\n[ -d .toolkit ] || { echo "no nvcc here" >&2; exit 1; }\n' >"$TREE/code/tools/find-nvcc"
    chmod +x "$TREE/code/tools/find-nvcc"
}

fake() { # COMMAND SCRIPT
    rm -f "$BIN/$1"
    printf '#!/bin/bash\n%s\n' "$2" >"$BIN/$1"
    chmod +x "$BIN/$1"
}

deps() { # MODE: runs deps; its standard output is left in out, its standard error in err
    status=0
    (cd "$BATS_TEST_TMPDIR" && PATH=$BIN env -u CUDA_HOME tree/code/tools/deps "$1" >out 2>err) || status=$?
    cd "$BATS_TEST_TMPDIR"
}

@test "root: sizes and minutes first, then apt-get and pip, in this order" {
    deps chapter
    [ "$status" -eq 0 ]
    grep -qE '^  APT      g\+\+ libjansson-dev libpcre2-dev pandoc gnuplot-nox: 143 MB to load, 571 MB on disk, about 2 min$' out
    grep -qE '^  PIP .*: [0-9]+ MB to load, [0-9]+ MB on disk, about 1 min$' out
    [ ! -s err ]
    awk '{ print $1 ($1 == "pip" ? "" : /update/ ? " update" : /--print-uris/ ? " sizes" : " install") }' "$SAID" >order
    printf '%s\n' 'apt-get update' 'apt-get sizes' 'dpkg install' 'apt-get install' pip | diff - order
    grep -q -- 'install -y --no-install-recommends g++ libjansson-dev libpcre2-dev pandoc gnuplot-nox$' "$SAID"
    [ "$(readlink tree/.toolkit/nvidia/cu13/lib64)" = lib ]
    [ ! -e tree/.toolkit.new ]
    [ ! -e tree/.toolkit/tmp ]
}

@test "not root: the line to type, alone on its line; nothing is loaded" {
    fake id 'echo 1000'
    fake sudo 'exit 1'
    deps chapter
    [ "$status" -eq 1 ]
    grep -qx 'sudo apt-get update && sudo apt-get install --no-install-recommends g++ libjansson-dev libpcre2-dev pandoc gnuplot-nox' out
    grep -q '143 MB to load, 571 MB on disk' out
    [ "$(cat err)" = "packages are missing: type the line above, then make again" ]
    [ "$(grep -vc -- --print-uris "$SAID")" -eq 0 ]
    rm "$BIN/sudo"
    deps chapter
    grep -qx "su -c 'apt-get update && apt-get install --no-install-recommends g++ libjansson-dev libpcre2-dev pandoc gnuplot-nox'" out
}

@test "not root, called by make: the line to type stands alone, then one line follows" {
    fake id 'echo 1000'
    cp -r Makefile mk "$TREE"
    local command
    for command in make uname sort xargs cmp printf date git nproc seq; do
        ln -sf "$(command -v "$command")" "$BIN/$command"
    done
    PATH=$BIN run --separate-stderr env -u CUDA_HOME -u MAKEFLAGS -u MAKELEVEL make -C "$TREE" --no-print-directory deps
    [ "$status" -eq 2 ]
    grep -qx "su -c 'apt-get update && apt-get install --no-install-recommends g++ .*'" <<<"$stderr"
    [[ "${stderr_lines[-1]}" == *"*** packages are missing: type the line above, then make again.  Stop." ]]
}

@test "no apt-get: the packages by Debian's names, and no line with apt-get to type" {
    rm "$BIN/apt-get"
    deps chapter
    [ "$status" -eq 1 ]
    [ "$(cat err)" = "install what your system calls these packages of Debian's: g++ libjansson-dev libpcre2-dev pandoc gnuplot-nox" ]
    [ ! -s out ]
    [ ! -s "$SAID" ]
}

@test "no network: one line from apt-get's first step, one from pip" {
    fake apt-get 'echo "apt-get $*" >>"$SAID"
        echo "Err:1 http://archive/debian stable InRelease"
        echo "  Temporary failure resolving archive"
        echo "W: Failed to fetch http://archive/debian/dists/stable/InRelease"'
    deps chapter
    [ "$status" -eq 1 ]
    [ "$(cat err)" = "apt-get cannot load the lists of packages: no network" ]
    run -1 grep -nE install "$SAID"
    # If the packages are there and only the CUDA compiler is missing, pip has to bring it, and cannot.
    fake g++ :
    fake cc :
    fake pandoc :
    fake gnuplot :
    fake python3 'case $* in
        "-c import pip") exit ;;
        esac
        for i in 1 2 3; do echo "WARNING: Retrying (NewConnectionError: Failed to establish)"; done >&2
        echo "ERROR: No matching distribution found for nvidia-cuda-nvcc==13.0.88" >&2
        exit 1'
    deps chapter
    [ "$status" -eq 1 ]
    [ "$(cat err)" = "no CUDA compiler: pip could not bring it from PyPI (no network); install CUDA 13 or try again" ]
    [ ! -e tree/.toolkit.new ]
    [ ! -e tree/.toolkit ]
}

@test "a full disk: one line, where possible before anything is downloaded" {
    fake df 'echo "Filesystem 1M-blocks Used Available Capacity Mounted"; echo "/dev/x 9 8 37 99% /"'
    deps chapter
    [ "$status" -eq 1 ]
    grep -qE "^the disk is full: the CUDA compiler takes [0-9]+ MB of .*/tree, which has 37 MB left$" err
    [ "$(wc -l <err)" -eq 1 ]
    run -1 grep -nE pip "$SAID"
    rm "$BIN/df"
    ln -s "$(command -v df)" "$BIN/df"
    fake python3 'case $* in
        "-c import pip") exit ;;
        esac
        echo "Traceback (most recent call last):" >&2
        echo "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device" >&2
        exit 1'
    deps chapter
    [ "$status" -eq 1 ]
    [ "$(cat err)" = "no CUDA compiler: pip could not bring it from PyPI (the disk is full); install CUDA 13 or try again" ]
}

@test "another error of apt-get is its first line" {
    fake apt-get 'case $* in
        *update*) echo "Hit:1 http://archive/debian stable InRelease" ;;
        *--print-uris*) ;;
        *-y*) echo "Reading package lists..."; echo "E: Unable to locate package g++"; echo "E: more"; exit 100 ;;
        esac'
    deps chapter
    [ "$status" -eq 1 ]
    [ "$(cat err)" = "apt-get could not install g++ libjansson-dev libpcre2-dev: E: Unable to locate package g++" ]
}

@test "Ctrl-C ends pip as well, leaves nothing half-written, and the next call goes on" {
    fake python3 'case $* in
        "-c import pip") exit ;;
        esac
        mkdir -p .toolkit.new/nvidia
        echo $$ >"$SAID.pip"
        sleep infinity & echo $! >>"$SAID.pip"
        wait'
    local i pid
    (cd "$BATS_TEST_TMPDIR" && PATH=$BIN exec env -u CUDA_HOME --default-signal=INT tree/code/tools/deps chapter >out 2>err) 3>&- &
    pid=$!
    until [ "$(grep -cs . "$SAID.pip")" = 2 ]; do
        kill -0 "$pid"
        sleep 0.1
    done
    kill -INT "$pid"
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq 130 ]
    cd "$BATS_TEST_TMPDIR"
    [ "$(cat err)" = "interrupted; the next make goes on" ]
    [ ! -e tree/.toolkit.new ]
    [ ! -e tree/.toolkit ]
    for pid in $(cat "$SAID.pip"); do
        for ((i = 0; i < 3000; i++)); do # the tests' machine may take long to end them
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        run -1 kill -0 "$pid"
    done
    fake python3 'case $* in
        "-c import pip") exit ;;
        esac
        mkdir -p .toolkit.new/nvidia/cu13/lib'
    deps chapter
    [ "$status" -eq 0 ]
    [ -d tree/.toolkit ]
}

@test "a configuration that dpkg was interrupted in is finished first" {
    fake dpkg 'echo "dpkg $*" >>"$SAID"; [ "$1" != --audit ] || echo "g++ is half configured"'
    deps chapter
    [ "$status" -eq 0 ]
    grep -n '' "$SAID" >numbered
    [ "$(sed -n 's/:dpkg --configure -a$//p' numbered)" -lt "$(sed -nE 's/:apt-get .* install -y .*//p' numbered)" ]
}

@test "a dpkg that still runs after an interrupt is waited for" {
    fake sleep ':'
    fake dpkg 'echo "dpkg $*" >>"$SAID"
        [ "$1" != --audit ] || { echo "locked"; exit; }
        [ "$(grep -c configure "$SAID")" -ge 3 ] || { echo "dpkg: error: dpkg frontend lock was locked by another process"; exit 2; }'
    deps chapter
    [ "$status" -eq 0 ]
    [ "$(grep -c -- 'dpkg --configure -a' "$SAID")" -eq 3 ]
    [ "$(grep -c ' install -y ' "$SAID")" -eq 1 ]
}

@test "the book needs no compiler, no bats and no Slurm; the tests need them" {
    deps book
    [ "$status" -eq 0 ]
    grep -q texlive-luatex "$SAID"
    run -1 grep -nE 'g\+\+|bats|cmocka|slurm|munge|bubblewrap|jansson|pip' "$SAID"
    : >"$SAID"
    deps quick
    [ "$status" -eq 0 ]
    grep -q -- '-y --no-install-recommends g++ libjansson-dev libpcre2-dev libmd-dev libcrypt-dev bubblewrap pandoc gnuplot-nox bats$' "$SAID"
    deps all
    [ "$status" -eq 0 ]
    grep -q 'bats libcmocka-dev.*slurmctld slurmd munge' "$SAID"
}

@test "Slurm's daemons are disabled after they are installed, and only if they were missing" {
    fake systemctl 'echo "systemctl $*" >>"$SAID"'
    deps all
    [ "$status" -eq 0 ]
    [ "$(grep systemctl "$SAID")" = "systemctl disable -q --now slurmctld slurmd munge" ]
    : >"$SAID"
    fake dpkg-query '[[ "$*" != *munge ]] || echo installed'
    deps all
    [ "$(grep systemctl "$SAID")" = "systemctl disable -q --now slurmctld slurmd" ]
}

@test "a package that the archive does not have is left out if it can be done without" {
    fake apt-cache '[ "$2" != gnuplot-nox ]'
    deps chapter
    [ "$status" -eq 0 ]
    grep -q -- '-y --no-install-recommends g++ libjansson-dev libpcre2-dev pandoc$' "$SAID"
}

@test "CUDA_HOME that is wrong, or of CUDA 12: one line, and nothing is loaded" {
    cp code/tools/find-nvcc "$TREE/code/tools"
    mkdir -p "$BATS_TEST_TMPDIR/cuda-12.4/bin" "$BATS_TEST_TMPDIR/cuda-13.9/bin"
    local version
    for version in 12.4 13.9; do
        printf '#!/bin/sh\necho "Cuda compilation tools, release %s, V%s.1"\n' $version $version >"$BATS_TEST_TMPDIR/cuda-$version/bin/nvcc"
        chmod +x "$BATS_TEST_TMPDIR/cuda-$version/bin/nvcc"
    done
    cd "$BATS_TEST_TMPDIR"
    instead="correct it, or unset it and make brings a compiler of its own"
    PATH=$BIN CUDA_HOME=$PWD/cuda-12.4 run -1 tree/code/tools/deps chapter
    [ "$output" = "CUDA_HOME is $PWD/cuda-12.4, CUDA 12.4, and CUDA 13 is needed: $instead" ]
    PATH=$BIN CUDA_HOME=/no/such run -1 tree/code/tools/deps chapter
    [ "$output" = "CUDA_HOME is /no/such, which holds no bin/nvcc: $instead" ]
    [ ! -s "$SAID" ]
    CUDA_HOME=$PWD/cuda-12.4 run -2 tree/code/tools/find-nvcc
    CUDA_HOME=$PWD/cuda-13.9 run -0 tree/code/tools/find-nvcc
    [ "$output" = "$PWD/cuda-13.9" ]
}

# ---- Make ----

@test "make -n installs nothing" {
    mkdir "$BATS_TEST_TMPDIR/book"
    cp -r Makefile mk book.md chapters "$BATS_TEST_TMPDIR/book"
    mkdir -p "$BATS_TEST_TMPDIR/book/code/tools"
    cp code/tools/stages "$BATS_TEST_TMPDIR/book/code/tools"
    printf '#!/bin/sh\ntouch "%s.installed"\n' "$SAID" >"$BATS_TEST_TMPDIR/book/code/tools/deps"
    chmod +x "$BATS_TEST_TMPDIR/book/code/tools/deps"
    run -0 env -u MAKEFLAGS make -n -C "$BATS_TEST_TMPDIR/book" build/deps-chapter deps
    [ ! -e "$SAID.installed" ]
    run -0 env -u MAKEFLAGS make -C "$BATS_TEST_TMPDIR/book" build/deps-chapter
    [ -e "$SAID.installed" ]
}

@test "another CUDA_HOME compiles again, the same does not, a wrong one is one line" {
    mkdir "$BATS_TEST_TMPDIR/book" "$BATS_TEST_TMPDIR/other" "$BATS_TEST_TMPDIR/other/bin"
    cp -r Makefile mk chapters code "$BATS_TEST_TMPDIR/book"
    mkdir "$BATS_TEST_TMPDIR/book/build"
    touch "$BATS_TEST_TMPDIR/book/build/deps-chapter"
    local real object=build/obj/code/workbench/files.o
    real=$(readlink -f build/cuda)
    ln -s "$real/include" "$real/lib64" "$BATS_TEST_TMPDIR/other"
    printf '#!/bin/sh\nexec "%s/bin/nvcc" "$@"\n' "$real" >"$BATS_TEST_TMPDIR/other/bin/nvcc"
    chmod +x "$BATS_TEST_TMPDIR/other/bin/nvcc"
    cd "$BATS_TEST_TMPDIR/book"
    unset MAKEFLAGS MAKELEVEL
    CUDA_HOME=$real run -0 make $object
    [[ "$output" == *"CC"*"files.c"* ]]
    CUDA_HOME=$real run -0 make $object
    [[ "$output" != *"CC"* ]]
    CUDA_HOME=$BATS_TEST_TMPDIR/other run -0 make $object
    [[ "$output" == *"CC"*"files.c"* ]]
    [ "$(readlink build/cuda)" = "$BATS_TEST_TMPDIR/other" ]
    run -0 env -u CUDA_HOME make $object
    [[ "$output" != *"CC"* ]]
    CUDA_HOME=/no/such run -2 make $object
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *"CUDA_HOME is /no/such, which holds no bin/nvcc"* ]]
    [ "$(readlink build/cuda)" = "$BATS_TEST_TMPDIR/other" ]
}

@test "a checkout that cannot be written: one line that says what, and what to do" {
    mkdir "$BATS_TEST_TMPDIR/shared"
    cp -r Makefile mk "$BATS_TEST_TMPDIR/shared"
    touch "$BATS_TEST_TMPDIR/shared/build" # a file in the folder's place: root can write into any folder
    run -2 env -u MAKEFLAGS make -C "$BATS_TEST_TMPDIR/shared" --no-print-directory chapter3
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *"$BATS_TEST_TMPDIR/shared/build cannot be written: make BUILD=~/attention chapter3 works in a copy there.  Stop." ]]
    run -0 env -u MAKEFLAGS make -C "$BATS_TEST_TMPDIR/shared" --no-print-directory help
}

@test "BUILD=dir works in a copy of the sources there, and leaves the checkout as it is" {
    local there=$BATS_TEST_TMPDIR/there
    copy_tree "$BATS_TEST_TMPDIR/shared"
    if [ -d .toolkit ]; then # the compiler that pip brought, in use where the system has no CUDA
        ln -s "$PWD/.toolkit" "$BATS_TEST_TMPDIR/shared/.toolkit"
    else
        mkdir "$BATS_TEST_TMPDIR/shared/.toolkit"
    fi
    touch "$BATS_TEST_TMPDIR/shared/build" # a file: the folder cannot be made
    chmod -R a-w "$BATS_TEST_TMPDIR/shared"
    cd "$BATS_TEST_TMPDIR/shared"
    unset MAKEFLAGS MAKELEVEL
    run -0 make BUILD="$there" build/hashes.tsv
    [ "${lines[0]}" = "in $there:" ]
    [[ "$output" == *"TANGLE"* ]]
    grep -q '^ch03_wmma_qk	' "$there/build/hashes.tsv"
    [ "$(readlink "$there/.toolkit")" = "$BATS_TEST_TMPDIR/shared/.toolkit" ]
    [ -f build ]
    # A file that was edited in the folder BUILD is kept; a file that is new in the checkout is copied there.
    echo "mine" >>"$there/chapters/03-wmma-scores.md"
    chmod -R u+w .
    touch -d '2001-01-01' chapters/03-wmma-scores.md
    echo "new" >chapters/new.txt
    run -0 make BUILD="$there" build/hashes.tsv help-all
    [ "$(tail -1 "$there/chapters/03-wmma-scores.md")" = mine ]
    [ -e "$there/chapters/new.txt" ]
    [[ "$output" == *"make chapterN"* ]]
    run -2 make BUILD=/dev/null/x chapter3
    [[ "$output" != *"TANGLE"* ]]
    BUILD=$BATS_TEST_TMPDIR/environment run -0 make help # BUILD in the environment is not meant for this make
    [ ! -e "$BATS_TEST_TMPDIR/environment" ]
}

@test "a goal that nothing makes: one line, before anything is made" {
    local goal
    unset MAKEFLAGS MAKELEVEL
    for goal in extra chapterx handout lab ../x; do
        run -2 make book "$goal"
        [ "${#lines[@]}" -eq 1 ]
        [[ "$output" == *"there is no target $goal: make help-all lists them.  Stop." ]]
    done
    run -2 make lab3 my.cu
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *"make takes no program of yours, my.cu: ./labN my.cu judges it.  Stop." ]]
    run -0 make -n build/ch03_wmma_qk code/ch03_wmma_qk.cu plots lint
}

@test "a number as a goal, and a goal with an unknown number: one line, at once" {
    local goal
    unset MAKEFLAGS MAKELEVEL
    run -2 make chapter 3
    [ "$output" = "${output##*$'\n'}" ]
    [[ "$output" == *"a number belongs to its word: make chapter3, not make chapter 3"* ]]
    for goal in handout99 lab99 starter99 gradescope99; do
        run -2 make $goal
        [ "${#lines[@]}" -eq 1 ]
        [[ "$output" == *"there is no lab 99: the labs are 1 2 3"* ]]
    done
    run -2 make book checklist99
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *"there is no kernel of chapter 99: the stages are 2 3"* ]]
    run -2 make profile99
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *"there is no kernel to profile in chapter 99: the chapters are 2 3"* ]]
}

@test "make lab3 builds lab 3 and runs it" {
    unset MAKEFLAGS MAKELEVEL
    run -0 make -n lab3
    [[ "$output" == *"chapter 3 is built: ./lab3"*"ln -sfn labs/lab03 lab3"*"./lab3" ]]
    [ "${lines[-1]}" = ./lab3 ]
}
