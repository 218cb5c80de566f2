# The command ptxsim (code/ptxsim/tool): its output for a faulty program, each of its options, its
# refusals.

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_TEST_DIRNAME/../../.."
    export PTXSIM=$PWD/build/ptxsim/ptxsim CUDA_HOME
    CUDA_HOME=$(readlink -f build/cuda)
    make -s build/ptxsim/ptxsim build/ptxsim/libcudart.so.13
    cp code/ptxsim/example.cu "$BATS_FILE_TMPDIR"
    cd "$BATS_FILE_TMPDIR"
    "$PTXSIM" cc example.cu -o example &
    sed 's,sum += .*,&\n        __syncthreads();,' example.cu >mended.cu
    "$PTXSIM" cc mended.cu -o mended
    wait $!
    cat >ends.cu <<'END'
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>
__global__ void asserts(int *p) { assert(threadIdx.x != 3); p[threadIdx.x] = 0; }
__global__ void writes(int *p) { p[threadIdx.x] = 1; }
__global__ void spins(volatile int *p) { for (int n = 0; *p != 7; ++n) p[1] = n; }
int main(int argc, char **argv)
{
    int *p;
    bool child = *argv[1] == 'f' && !fork();
    cudaMallocManaged(&p, 128);
    switch (*argv[1]) {
    case 'a': asserts<<<1, 32>>>(p); break;
    case 'e': writes<<<1, 32>>>(p); break;
    case 's': writes<<<1, 32>>>(p); puts("spins"); fflush(stdout); spins<<<1, 1>>>(p); break;
    default: writes<<<1, child ? 33 : *argv[1] == 'c' ? 34 : 32>>>(p); break;
    }
    cudaError_t error = cudaDeviceSynchronize();
    if (*argv[1] == 'c' && error)
        abort();
    wait(NULL);
    return *argv[1] == 'e' ? 5 : 0;
}
END
    "$PTXSIM" cc ends.cu -o ends
}

setup() {
    cd "$BATS_FILE_TMPDIR"
}

# refused STATUS LINE: the last run ended with STATUS and printed this line on stderr, and nothing
# else.
refused() {
    echo "$output" "$stderr"
    [ "$status" -eq "$1" ]
    [ -z "$output" ]
    [ "$stderr" = "$2" ]
}

# ---- run ----

@test "a race: its line in a compiler's form, the film's sentence, the threads, the other access, the number of faults" {
    run --separate-stderr "$PTXSIM" run ./example
    echo "$stderr"
    [ "$status" -eq 0 ]
    [ "$output" = 3324 ]
    [[ "${stderr_lines[0]}" == "example.cu:10: error: [race] reads 4 bytes of shared memory at 1020 (tile + 1020) that thread (255,0,0) wrote at example.cu:8 with no barrier in between"* ]]
    [[ "${stderr_lines[1]}" == "    A barrier is missing (__syncthreads()) between line example.cu:10 and line example.cu:8"* ]]
    [ "${stderr_lines[4]}" = "    kernel sums, block (0,0,0), thread (0,0,0)" ]
    [ "${stderr_lines[5]}" = "example.cu:8: note: the other access, of thread (255,0,0)" ]
    [ "${stderr_lines[-1]}" = "2 faults" ]
    [ "$(grep -c ': error: ' <<<"$stderr")" -eq 2 ]
    run -1 grep '^ptxsim: ' <<<"$stderr"
}

@test "a right program: 0 faults, and nothing else on stderr" {
    run --separate-stderr "$PTXSIM" run --error-exitcode 7 ./mended
    [ "$status" -eq 0 ]
    [ "$output" = 2556 ]
    [ "$stderr" = "0 faults" ]
}

@test "--error-exitcode is for faults, else the program's own status counts, 128 + a signal" {
    run -7 "$PTXSIM" run --once --error-exitcode 7 ./example
    run -3 "$PTXSIM" run --error-exitcode 7 bash -c 'exit 3'
    run -137 "$PTXSIM" run bash -c 'kill -KILL $$'
    [ "$output" = "0 faults: no kernel was launched" ]
    run --separate-stderr "$PTXSIM" run --error-exitcode 7 --film ends.html ./ends e
    [ "$status" -eq 5 ]
    [ "$stderr" = "0 faults" ]
    [ -s ends.html ]
}

@test "--once: the program is not run again, and nothing is explained" {
    printf '#!/bin/bash\necho run >>runs\nexec ./example\n' >counted
    rm -f runs
    run --separate-stderr "$PTXSIM" run --once bash counted
    [ "$(wc -l <runs)" -eq 1 ]
    [ "${stderr_lines[-1]}" = "2 faults" ]
    run -1 grep 'A barrier is missing' <<<"$stderr"
    run --separate-stderr "$PTXSIM" run bash counted
    [ "$(wc -l <runs)" -eq 3 ]
    grep -q 'A barrier is missing' <<<"$stderr"
}

@test "--json: file, line, kind, thread and the other access of each fault; with - on stdout" {
    "$PTXSIM" run --json faults.json ./example >out 2>err
    [ "$(cat out)" = 3324 ]
    "$PTXSIM" run --json - ./example >stdout.json 2>err
    grep -qx 3324 err
    cmp faults.json stdout.json
    python3 - faults.json <<'END'
import json, sys
run = json.load(open(sys.argv[1]))
assert (run["program"], run["status"], len(run["faults"])) == ("./example", 0, 2), run
first, second = run["faults"]
assert (first["kind"], first["file"], first["line"], first["kernel"]) == ("race", "example.cu", 10, "sums"), first
assert (first["block"], first["thread"]) == ([0, 0, 0], [0, 0, 0]), first
assert first["other"] == {"thread": [255, 0, 0], "file": "example.cu", "line": 8}, first
assert first["sentence"].startswith("A barrier is missing"), first
assert (second["line"], second["other"]["line"]) == (8, 10), second
END
    run "$PTXSIM" run --json faults.json ./mended
    [ "$(python3 -c 'import json; print(json.load(open("faults.json"))["faults"])')" = "[]" ]
    # A program is not run if its result could not be written.
    local option
    for option in --json --film; do
        run --separate-stderr "$PTXSIM" run $option none/faults ./mended
        refused 2 "ptxsim run: cannot write none/faults: No such file or directory"
        run --separate-stderr "$PTXSIM" run $option /dev/null ./mended
        refused 2 "ptxsim run: cannot write /dev/null: it is no regular file"
    done
    run --separate-stderr "$PTXSIM" profile --film none/page ./mended
    refused 2 "ptxsim profile: cannot write none/page: No such file or directory"
    run --separate-stderr "$PTXSIM" run --json - --profile ./mended
    refused 2 "ptxsim run: --profile and --json - would both write on stdout"
}

@test "--film makes a page of the race, --cta another, --profile lists lines" {
    run --separate-stderr "$PTXSIM" run --film film.html --profile ./example
    [ "$status" -eq 0 ]
    grep -q "A barrier is missing" film.html
    [[ "$output" == *"sums: 1 x 1 x 1 CTAs of 256 threads, one launch"*"example.cu:10 sum += tile[255"* ]]
    [ "$(grep -c ': error: ' <<<"$stderr")" -eq 2 ]
    run --separate-stderr "$PTXSIM" run --film film.html ./mended
    [ "$status" -eq 0 ]
    run -1 grep -q "A barrier is missing" film.html
    run --separate-stderr "$PTXSIM" run --film film.html --cta 5,0,0 ./mended
    [ "$status" -eq 3 ]
    [ "$(tail -1 <<<"$stderr")" = "ptxsim run: no kernel was launched with a CTA 5,0,0" ]
    run --separate-stderr "$PTXSIM" run --profile true
    [ "$output" = "no kernel was launched" ]
    [ "$stderr" = "0 faults: no kernel was launched" ]
    # Faults are reported even if the film cannot be made.
    run --separate-stderr "$PTXSIM" run --film no.html --kernel other ./example
    [ "$status" -eq 3 ]
    [ "$(grep -c ': error: ' <<<"$stderr")" -eq 2 ]
    [ "${stderr_lines[-1]}" = "ptxsim run: no kernel other was launched" ]
    [ ! -e no.html ]
}

@test "an assertion has its line and thread; an aborting program is explained; a child's fault is reported" {
    run --separate-stderr "$PTXSIM" run ./ends a
    [ "${stderr_lines[0]}" = "ends.cu:6: error: [assert] ends.cu:6: void asserts(int *): block: [0,0,0], thread: [3,0,0] Assertion \`threadIdx.x != 3\` failed." ]
    [ "${stderr_lines[1]}" = "    What an assertion says does not hold at line ends.cu:6, for warp 0, lane 3." ]
    [ "${stderr_lines[2]}" = "    kernel asserts, block (0,0,0), thread (3,0,0)" ]
    run --separate-stderr "$PTXSIM" run --film crash.html ./ends c
    [ "$status" -eq 134 ]
    [[ "${stderr_lines[0]}" == "ends.cu:7: error: [out of bounds] "* ]]
    [[ "${stderr_lines[1]}" == "    An address is wrong at line ends.cu:7"* ]]
    [ "${stderr_lines[-1]}" = "1 fault" ]
    [ -s crash.html ]
    run --separate-stderr "$PTXSIM" run --once ./ends f
    [ "$status" -eq 0 ]
    [[ "${stderr_lines[0]}" == "ends.cu:7: error: [out of bounds] "* ]]
    [ "${stderr_lines[-1]}" = "1 fault" ]
}

@test "an interrupt, of the terminal or of one process, ends the program; the report asked for is still printed" {
    python3 - "$PTXSIM" <<'END'
import os, signal, subprocess, sys
for whom in os.kill, os.killpg:
    for by in signal.SIGINT, signal.SIGTERM:
        run = subprocess.Popen([sys.argv[1], "run", "--film", "stopped.html", "--json", "stopped.json", "./ends", "s"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert run.stdout.readline() == "spins\n"
        whom(run.pid, by)
        _, said = run.communicate()
        print(by, whom, run.returncode, said)
        assert run.returncode == 128 + by
        assert said.endswith("ptxsim run: stopped.html is not made: interrupted\n0 faults\n")
        assert not os.path.exists("stopped.html") and os.path.exists("stopped.json")
END
}

@test "every setting of settings.def is an option that reaches the program" {
    local option variable argument value
    while IFS=$'\t' read -r option variable argument; do
        case $argument in
        N | 'N|'*) value=7 ;;
        [a-z]*) value=${argument%%|*} ;;
        *) value=some.file ;;
        esac
        run --separate-stderr "$PTXSIM" run "--$option" "$value" printenv "$variable"
        echo "$option $value: $output $stderr"
        [ "$status" -eq 0 ]
        [ "$output" = "$value" ]
    done < <(sed -nE 's/^SETTING\("([^"]*)", "([^"]*)", "([^"]*)".*/\1\t\2\t\3/p' "$BATS_TEST_DIRNAME/../settings.def")
    run --separate-stderr "$PTXSIM" run --check memory ./example
    [ "$stderr" = "0 faults" ]
}

@test "settings.def has every variable that the simulator reads, and no other; OPTIONS.md is generated from it" {
    cd "$BATS_TEST_DIRNAME/.."
    diff <(grep -oE '"PTXSIM_[A-Z_]+"' settings.def | sort -u) \
        <(grep -rhoE '"PTXSIM_[A-Z_]+"' base machine races ops decode exec cudart | sort -u)
    "$PTXSIM" run --markdown | diff OPTIONS.md -
    run "$PTXSIM" run --help
    for word in --film --json --error-exitcode --once --schedule PTXSIM_SCHEDULE; do
        grep -qe "$word" <<<"$output"
    done
}

@test "README.md shows the program of example.cu" {
    sed -n '/^```cuda$/,/^```$/p' "$BATS_TEST_DIRNAME/../README.md" | sed '1d;$d' | diff example.cu -
}

@test "cudaFree, cudaFreeHost: the line of the host, where it was compiled with -g" {
    cat >free.c <<'END'
#include <cuda_runtime_api.h>
int main(void)
{
    char *device, *host;
    cudaMalloc((void **)&device, 16);
    cudaMallocHost((void **)&host, 16);
    cudaFree(device + 4);
    cudaFreeHost(device);
    return 0;
}
END
    gcc -g -I"$CUDA_HOME/include" free.c "${PTXSIM%/*}/libcudart.so.13" -o free
    run --separate-stderr "$PTXSIM" run ./free
    echo "$stderr"
    [[ "${stderr_lines[0]}" == "free.c:7: error: [free] cudaFree, free.c:7: 0x"*" is byte 4 of an allocation, not where it begins" ]]
    [[ "${stderr_lines[1]}" == "free.c:8: error: [free] cudaFreeHost, free.c:8: 0x"*" is memory of the device: free it with cudaFree" ]]
    [ "${stderr_lines[2]}" = "2 faults" ]
}

@test "what run refuses: one line, status 2" {
    run --separate-stderr "$PTXSIM" run
    refused 2 "ptxsim run: no program is named: ptxsim run [OPTION...] PROGRAM [ARGUMENT...]"
    run --separate-stderr "$PTXSIM" run example
    refused 2 "ptxsim run: example: no such program; one in this folder is ./example"
    run --separate-stderr "$PTXSIM" run ./nothing
    refused 2 "ptxsim run: ./nothing: No such file or directory"
    run --separate-stderr "$PTXSIM" run ./example.cu
    refused 2 "ptxsim run: ./example.cu is no program, but a source: ptxsim cc compiles it"
    run --separate-stderr "$PTXSIM" run ./
    refused 2 "ptxsim run: ./ is no program: it cannot be executed"
    printf '#!/bin/sh\ntrue\n' >script
    chmod +x script
    run --separate-stderr "$PTXSIM" run ./script
    refused 2 "ptxsim run: ./script is no executable of Linux (ELF): of a script, name its interpreter first"
    run --separate-stderr "$PTXSIM" run --no-such-option ./example
    refused 2 "ptxsim run: --no-such-option is no option; --help lists them"
    run --separate-stderr "$PTXSIM" run --json
    refused 2 "ptxsim run: --json needs a value; --help lists the options"
    run --separate-stderr "$PTXSIM" run --check some ./example
    refused 2 'ptxsim run: --check: "some" is not off|memory|mine|all|strict'
    run --separate-stderr "$PTXSIM" run --threads 1025 ./example
    refused 2 'ptxsim run: --threads: "1025" is no whole number up to 1024'
    run --separate-stderr "$PTXSIM" run --schedule -1 ./example
    refused 2 'ptxsim run: --schedule: "-1" is no whole number up to 4294967295, nor late'
    run --separate-stderr "$PTXSIM" run --schedule late printenv PTXSIM_SCHEDULE
    [ "$output" = late ]
    run --separate-stderr "$PTXSIM" run --cta 1,2 ./example
    refused 2 'ptxsim run: --cta: "1,2" is no X,Y,Z'
    run --separate-stderr "$PTXSIM" run --error-exitcode 256 ./example
    refused 2 'ptxsim run: --error-exitcode: "256" is no whole number from 0 to 255'
}

@test "a runtime that is linked into the program: how to link it again" {
    "$CUDA_HOME/bin/nvcc" -O0 -gencode arch=compute_89,code=compute_89 -cudart static mended.cu -o static
    run --separate-stderr "$PTXSIM" run ./static
    refused 2 "ptxsim run: ./static has a CUDA runtime of its own, whose place the simulator cannot take: link it again with nvcc -cudart shared of CUDA 12 or 13, or with ptxsim cc"
}

@test "a program of CUDA 12: its runtime hands calls on, and adapts those whose arguments have changed since" {
    # Offsets of members as in CUDA 12.8's cuda_runtime_api.h.
    cat >twelve.c <<'END'
#include <stdio.h>
#include <string.h>
int cudaGetDeviceProperties_v2(char *, int), cudaMallocManaged(void **, size_t, unsigned), cudaFree(void *);
int cudaMemPrefetchAsync(const void *, size_t, int, void *), cudaMemAdvise(const void *, size_t, int, int);
int main(void)
{
    char properties[1032 + 8], *memory;
    int at[] = {348, 360, 388, 608}, value;
    memset(properties, 7, sizeof properties);
    printf("%d %s", cudaGetDeviceProperties_v2(properties, 0), properties);
    for (int i = 0; i < 4; ++i) {
        memcpy(&value, properties + at[i], sizeof value);
        printf(" %d", value);
    }
    printf(" %d", properties[1032]);
    printf(" %d", cudaMallocManaged((void **)&memory, 64, 1));
    printf(" %d %d\n", cudaMemPrefetchAsync(memory, 64, 0, NULL), cudaMemAdvise(memory, 64, 1, -1));
    cudaFree(memory + 1);
    return 0;
}
END
    make -s -C "$BATS_TEST_DIRNAME/../../.." build/ptxsim/libcudart.so.12
    gcc -g twelve.c "${PTXSIM%/*}/libcudart.so.12" -o twelve
    run --separate-stderr "$PTXSIM" run ./twelve
    echo "$output" "$stderr"
    [ "$output" = "0 NVIDIA L4 (ptxsim) 2040000 8 58 6251000 7 0 0 0" ]
    [[ "${stderr_lines[0]}" == "twelve.c:18: error: [free] cudaFree, twelve.c:18: 0x"*" is byte 1 of an allocation, not where it begins" ]]
    [ "${stderr_lines[1]}" = "1 fault" ]
}

# ---- cc, and the command itself ----

@test "cc asks for PTX of sm_89, of sm_90a where the source needs it, or for what it is told" {
    export PTXSIM_CC=print
    run "$PTXSIM" cc example.cu -o example
    [[ "$output" == "$CUDA_HOME/bin/nvcc -gencode arch=compute_89,code=compute_89 -lineinfo -g -no-compress example.cu -o example -cudart none -L$CUDA_HOME/"*" -l:libcudart.so.13" ]]
    echo 'asm volatile("wgmma.fence.sync.aligned;");' >hopper.cu
    run "$PTXSIM" cc hopper.cu -o hopper
    [[ "$output" == *" -gencode arch=compute_90a,code=compute_90a "* ]]
    run "$PTXSIM" cc -arch=sm_90 hopper.cu -o hopper
    [[ "$output" == *"/bin/nvcc -lineinfo -g -no-compress -arch=sm_90 hopper.cu "* ]]
}

@test "what cc and the command refuse: one line" {
    run --separate-stderr "$PTXSIM" cc -o example
    refused 2 "ptxsim cc: no FILE.cu is named: ptxsim cc FILE.cu... -o PROGRAM [FLAG...]"
    run --separate-stderr "$PTXSIM" cc nothing.cu -o example
    refused 2 "ptxsim cc: nothing.cu: No such file or directory"
    CUDA_HOME=/nowhere run --separate-stderr "$PTXSIM" cc example.cu -o example
    refused 2 "ptxsim cc: CUDA_HOME is /nowhere, which holds no bin/nvcc"
    run --separate-stderr "$PTXSIM"
    refused 2 "ptxsim: what is to be done? ptxsim run, cc or profile (ptxsim --help)"
    run --separate-stderr "$PTXSIM" ruin ./example
    refused 2 'ptxsim: "ruin" is none of run, cc, profile (ptxsim --help)'
    echo '__global__ void k() { int x = ; }' >wrong.cu
    run --separate-stderr "$PTXSIM" cc wrong.cu -o wrong
    [ "$status" -ne 0 ]
    [[ "${stderr_lines[0]}" == "wrong.cu(1): error: "* ]]
    [ "$(echo wrong*)" = wrong.cu ]
    run "$PTXSIM" --version
    [ "$output" = "ptxsim $(sed -nE 's/^#define PTXSIM_VERSION "(.*)"/\1/p' "$BATS_TEST_DIRNAME/../ptxsim.h")" ]
    run "$PTXSIM" --help
    [ "$status" -eq 0 ]
    [[ "$output" == "usage: ptxsim run "* ]]
}

# ---- The wheel ----

@test "the command as a wheel has it, with a header for jansson, writes the same JSON and the same page" {
    local root=${BATS_TEST_DIRNAME%/code/ptxsim/test} folder=$BATS_TEST_TMPDIR/native
    mkdir -p "$folder/film"
    (cd "$root/code" && find ptxsim/tool -name "*.c" ! -name bench-sim.c -print0 | xargs -0 gcc -std=c11 -D_GNU_SOURCE -O0 -w -I. -Iptxsim/python/include \
        host/{say,json,root,clock,process,options}.c workbench/files.c image/fatbin.c -ldl -lm -o "$folder/ptxsim")
    cp "$root/build/ptxsim/libcudart.so.13" "$folder"
    cp "$root"/code/film/{film.css,film.html,film.js,lessons.js} "$folder/film"
    "$PTXSIM" run --json a.json --film a.html ./example 2>a.txt
    "$folder/ptxsim" run --json b.json --film b.html ./example 2>b.txt
    cmp a.json b.json
    cmp a.html b.html
    cmp a.txt b.txt
    "$PTXSIM" profile --json a.json --lines 5 ./example >a.txt
    "$folder/ptxsim" profile --json b.json --lines 5 ./example >b.txt
    cmp a.json b.json
    cmp a.txt b.txt
}
