# labs/tools/measure, which `make runs` calls, with programs and labs that only write down that they were called.
bats_require_minimum_version 1.5.0

fake() { # FILE SCRIPT
    mkdir -p "$(dirname "$1")"
    printf '#!/bin/bash\n%s\n' "$2" >"$1"
    chmod +x "$1"
}

hash_of() { printf "$1%.0s" {1..64}; } # DIGIT

setup() {
    local root=$BATS_TEST_DIRNAME/../..
    cd "$BATS_TEST_TMPDIR"
    mkdir -p build/cuda code/workbench bin plots/runs
    install -D "$root/labs/tools/measure" labs/tools/measure
    echo 'SHAPE(small, 1, 8, 128)' >code/workbench/shapes.def
    touch code/one.cu code/two.cu code/list.c
    echo workbench_main | tee code/one.cu >code/two.cu
    # Each program writes a record, which has the program's hash from build/hashes.tsv.
    for name in one two list; do
        fake "build/$name" 'name=${0##*/}; echo "$name" >>called
            while [ "$1" != --record ]; do shift; done
            printf "{\n \"source_hash\": \"%s\"\n}\n" "$(sed -n "s/^$name\t//p" build/hashes.tsv)" >"$2"'
    done
    fake labs/lab02 'echo "lab $2" >>called
        printf "{\n \"source_hashes\": {\n  \"one\": \"%s\",\n  \"two\": \"%s\"\n }\n}\n" \
            "$(sed -n "s/^one\t//p" build/hashes.tsv)" "$(sed -n "s/^two\t//p" build/hashes.tsv)" >"$4"'
    fake code/tools/stages 'echo 1'
    fake labs/tools/probe 'echo probe >>called; echo {} >"$1"'
    fake labs/tools/scoreboard 'echo board >>called; echo {} >"$1"'
    fake labs/tools/pytorch 'echo pytorch >>called; echo {} >"$1/pytorch-flash.json"'
    fake labs/tools/conditions 'echo conditions >>called; echo {} >"$1"'
    fake labs/tools/sanitize 'echo sanitizer >>called; echo {} >"$1"'
    for tool in nvidia-smi python3 ncu compute-sanitizer; do fake "bin/$tool" 'echo "NVIDIA L4"'; done
    PATH=$PWD/bin:$PATH
    printf 'one\t%s\ntwo\t%s\nlist\t%s\n' "$(hash_of 1)" "$(hash_of 2)" "$(hash_of 3)" >build/hashes.tsv
}

called() { sort called | paste -sd' '; }

@test "make runs measures everything, into the folder of the GPU" {
    labs/tools/measure one two list
    [ "$(called)" = "board conditions lab gpu lab simulator list one probe probe pytorch sanitizer two" ]
    [ -s plots/runs/l4/one.json ]
    [ -s plots/runs/cpu/list.json ]
    [ -s plots/runs/simulator/lab02.json ]
    rm called
    labs/tools/measure one two list # once more
    [ "$(called)" = "board conditions lab gpu lab simulator list one probe probe pytorch sanitizer two" ]
}

@test "ONLY=stale measures what is missing, and what has a program that changed" {
    ONLY=stale labs/tools/measure one two list
    [ "$(called)" = "board conditions lab gpu lab simulator list one probe probe pytorch sanitizer two" ]
    rm called
    ONLY=stale labs/tools/measure one two list
    [ ! -e called ]
    rm plots/runs/l4/one.json plots/runs/l4/scoreboard.json
    ONLY=stale labs/tools/measure one two list
    [ "$(called)" = "board one" ]
    rm called
    sed -i "s/^two.*/two\t$(hash_of 4)/" build/hashes.tsv
    ONLY=stale labs/tools/measure one two list
    [ "$(called)" = "lab gpu lab simulator two" ]
    rm called
    ONLY=stale labs/tools/measure one two list
    [ ! -e called ]
}

@test "without a GPU the rest is measured; another word than stale is refused" {
    rm bin/nvidia-smi
    PATH=$PWD/bin:/usr/bin:/bin ONLY=stale run -3 labs/tools/measure one two list
    [ "${lines[-1]}" = "make runs: no GPU here, so only plots/runs/cpu/ and simulator/ are new" ]
    [ "$(called)" = "lab simulator list probe" ]
    ONLY=new run -2 labs/tools/measure one
    [ "$output" = 'make runs: ONLY=new: only "stale" is known' ]
}
