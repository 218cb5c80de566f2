# Programs with planted bugs, two versions of a kernel for each case: under every schedule the wrong version's
# bug is reported at its line, and the right version has no report. A line with a bug is marked: "// <- NAME".

# compile SOURCE ARCHITECTURE OUT [FLAG...]: compiles a program for the simulator.
compile() {
    build/cuda/bin/nvcc -std=c++20 -O0 -lineinfo --compress-mode=none -cudart shared \
        -gencode "arch=compute_$2,code=compute_$2" "$1" -o "$3" "${@:4}"
}

# compile_cases SOURCE ARCHITECTURE SCHEDULES: compiles the cases, for expect; called by `setup_file`.
compile_cases() {
    cd "$BATS_TEST_DIRNAME/../../.."
    export LD_LIBRARY_PATH=$PWD/build/ptxsim CASES=$1 SCHEDULES=${3:?}
    compile "$1" "$2" "$BATS_FILE_TMPDIR/cases"
}

# expect NAME TEXT: under each schedule the wrong version's report has a line with TEXT and with the marked source
# line; the right version has no report. The wrong version's output is left in `output`.
expect() {
    local line seed said right='' told=0 waits=
    line=$(grep -nwE -- "// <- (.*, )?$1" "$CASES" | cut -d: -f1)
    for ((seed = 0; seed < SCHEDULES; seed++)); do right+="schedule $seed:"$'\n'cudaSuccess$'\n'; done
    run "$BATS_FILE_TMPDIR/cases" "$1" right "$SCHEDULES"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$output"$'\n' = "$right" ]
    run "$BATS_FILE_TMPDIR/cases" "$1" wrong "$SCHEDULES"
    echo "$output"
    [ "$status" -eq 1 ]
    for said in "${lines[@]}"; do
        if [[ $said == "schedule "* ]]; then
            waits=yes
        elif [[ $waits && $said == *"$2"* && $said =~ ^"ptxsim: $1, ".*"$CASES:$line"[^0-9] ]]; then
            told=$((told + 1)) waits=
        fi
    done
    [ "$told" -eq "$SCHEDULES" ]
}
