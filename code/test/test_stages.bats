# The stages in the simulator. Each is compared with the one it grew from, output by output: with
# the same arithmetic the bits are the same, otherwise they agree as far as rounding allows. And
# each runs without a race, whatever the order of the warps.

bats_require_minimum_version 1.5.0

setup_file() {
    export LD_LIBRARY_PATH=build/ptxsim
}

run_one() { # PROGRAM OPTION...
    "build/$1" --shapes small,1x2x33,1x1x239 --seeds 0 --inputs normal,peaky --no-timing --quiet "${@:2}"
}

# The values of NAME in the agreement of AFTER with BEFORE, one a line: 3 shapes, 2 inputs.
agreement() { # BEFORE AFTER NAME
    local stored=$BATS_FILE_TMPDIR/$1
    if [ ! -d "$stored" ]; then
        mkdir "$stored"
        run_one "$1" --outputs "$stored" >&2
    fi
    run_one "$2" --against "$stored" --record "$BATS_TEST_TMPDIR/record.json" >&2
    sed -nE "/\"agreement\"/,/\]/s/.*\"$3\": ([-+.e0-9]+),?\$/\1/p" "$BATS_TEST_TMPDIR/record.json"
}

same_bits() { # BEFORE AFTER
    [ "$(agreement "$1" "$2" max_ulp | tr '\n' ' ')" = "0 0 0 0 0 0 " ]
}

at_most() { # BEFORE AFTER NAME LIMIT
    [ "$(agreement "$1" "$2" "$3" | awk -v limit="$4" '{ n += $1 <= limit } END { print n + 0 }')" = 6 ]
}

@test "chapter 4 computes what chapter 3 does: copies change no bit" {
    same_bits ch03_wmma_qk ch04_cp_async
}

@test "chapter 5 computes what chapter 4 does: two columns a lane are the same sums" {
    same_bits ch04_cp_async ch05_vector_pv
}

# Each probability is rounded to half, by up to 2^-11 of itself; these errors partly cancel in the
# weighted mean of values up to 5, which is allowed to be off by 5 * 2^-12. The outputs are rounded
# to half as well, and so are up to 2^-9 further apart where they are above 2.
@test "chapter 6 agrees with chapter 5 as far as probabilities in half can" {
    at_most ch05_vector_pv ch06_wmma_pv max_abs 3.2e-3
    run -1 same_bits ch05_vector_pv ch06_wmma_pv
}

@test "chapter 7 computes what chapter 6 does: where P lies changes no bit" {
    same_bits ch06_wmma_pv ch07_reuse_scores
}

@test "chapter 8 agrees with chapter 6 to a unit in the last place: the sums have another order" {
    at_most ch06_wmma_pv ch08_register_softmax max_ulp 1
}

@test "chapter 9 computes what chapter 8 does: a third stage changes no bit" {
    same_bits ch08_register_softmax ch09_three_stages
}

@test "chapter 10 computes what chapter 8 does: neither ldmatrix nor the swizzle changes a bit" {
    same_bits ch08_register_softmax ch10_ldmatrix
    same_bits ch10_ldmatrix ch10_swizzle
    same_bits ch10_swizzle ch10_six_ctas
}

# The polynomial is off by 1.1e-4 at most, less than half a unit in the last place of half precision.
@test "chapter 11 agrees with chapter 10 as far as its polynomial can" {
    at_most ch10_swizzle ch11_fast_exp max_abs 3.2e-3
    run -1 same_bits ch10_swizzle ch11_fast_exp
}

@test "chapter 12 computes what chapter 10 does: which CTA takes a query tile changes no bit" {
    same_bits ch10_swizzle ch12_persistent
    same_bits ch10_swizzle ch12_static
}

@test "chapter 13 computes what chapter 10 does, with one producer, with two, and with none" {
    same_bits ch10_swizzle ch13_together
    same_bits ch10_swizzle ch13_one_producer
    same_bits ch10_swizzle ch13_warp_specialised
}

# P is rounded relative to a number other than the maximum, and the sums are added in another order.
@test "chapter 15 agrees with chapter 10 as far as probabilities in half can, by turns and without" {
    at_most ch10_swizzle ch15_registers max_abs 3.2e-3
    same_bits ch15_registers ch15_turns
    same_bits ch15_registers ch15_short
}

@test "chapter 15's wide and short forms are right where they are ragged, and have no race" {
    local program seed
    for program in ch15_registers ch15_turns ch15_short; do
        for seed in 0 5; do
            PTXSIM_SCHEDULE=$seed PTXSIM_CHECK=all run "build/$program" --shapes 8x16x77 --seeds 0 \
                --inputs peaky --no-timing --quiet
            echo "$program, schedule $seed: $output"
            [ "$output" = "$program: PASS: 1 of 1 outputs right" ]
        done
    done
}

@test "no stage has a race, a stale read or an access out of bounds under any of 16 schedules" {
    local name seed shape
    for name in $(sed -nE 's,^(ch[0-9]+_[a-z0-9_]+)\t.*,\1,p' build/hashes.tsv); do
        grep -qs workbench_main "code/$name.cu" || continue
        shape=1x2x80
        if grep -q launch_cache "code/$name.cu"; then shape=1x2x512q4p16; fi # keys split among CTAs, partial results merged
        if grep -q launch_prompt "code/$name.cu"; then shape=1x2x512q4p16s8; fi # keys split among CTAs, partial results merged
        for seed in $(seq 0 15); do
            PTXSIM_SCHEDULE=$seed PTXSIM_CHECK=all run "build/$name" --shapes "$shape" --seeds 0 \
                --inputs normal --no-timing --quiet
            echo "$name, schedule $seed: $output"
            [ "$status" -eq 0 ]
            [ "$output" = "$name: PASS: 1 of 1 outputs right" ]
        done
    done
}

# With half of an L4's 48 warps on an SM, a CTA of four warps has 80 registers a thread and 16000 bytes of shared
# memory (chapter 9).
@test "four programs keep every gate of the sources at once, half of an L4's warps included" {
    local program
    for program in ch09_six_ctas ch10_six_ctas ch13_warp_specialised ch14_all_gates; do
        "build/$program" --resources | python3 -c '
import json, sys
image = json.load(sys.stdin)["sm_89"]
assert image["registers"] <= 120 and image["shared_bytes"] <= 65536, image
assert image["local_bytes"] == 0 and image["occupancy"] >= 0.5, image'
    done
}

@test "chapter 19's units compute what they should, and the program refuses unknown options" {
    run build/ch19_floors --no-timing
    [ "$status" -eq 0 ]
    [ "$(grep -c '^  ok ' <<<"$output")" -eq 3 ] # the units exp, fp16 and fp8; only a Hopper has wgmma
    run build/ch19_floors --speed
    [ "$status" -eq 2 ]
    [ "$output" = "usage: ch19_floors [--record FILE] [--no-timing]" ]
}

@test "chapter 16 multiplies in FP8 on an L4, in half on a Hopper, and shuffles no P" {
    build/ch16_fp8_mma --resources >"$BATS_TEST_TMPDIR/resources.json"
    [ "$(sed -nE 's/^ *"(hmma|qmma|prmt|shfl)": ([0-9]+).*/\1 \2/p' "$BATS_TEST_TMPDIR/resources.json" | xargs)" = \
      "hmma 0 qmma 32 prmt 32 shfl 8 hmma 64 qmma 0 prmt 32 shfl 8" ]
    PTXSIM_REPORT=$BATS_TEST_TMPDIR/report.json build/ch16_fp8_mma --shapes small --seeds 0 --inputs normal \
        --no-timing --quiet --record "$BATS_TEST_TMPDIR/record.json"
    # 4 * 8 heads * 128^2 * 64 operations, 8192 in an instruction; all products are of 8 bits
    grep -q '"tensor_instructions":4096,"tensor_flops":33554432,"tensor_flops_8bit":33554432,' "$BATS_TEST_TMPDIR/report.json"
    grep -q '"shared_load_conflicts":0,"shared_store_wavefronts":0,' "$BATS_TEST_TMPDIR/report.json"
    # The sheet allows the rounding that the program declares.
    grep -q '"p": {"format": "e4m3", "offset": 8, "sum": "unrounded"}' build/labs/lab16.json
    [ "$(sed -n '/^  "p": {/,/}/p' "$BATS_TEST_TMPDIR/record.json" | grep -E 'format|offset|sum' | tr -d ' ,\n')" = \
      '"format":"e4m3""offset":8"sum":"unrounded"' ]
}

# Of 66 heads with 576 keys the launch makes CTAs of three warpgroups. The first has nothing to do in an item's last
# tile.
@test "chapter 20's Hopper kernel with P in half is right where a warpgroup lets tiles go, and has no race" {
    local seed
    for seed in 0 3 7; do
        PTXSIM_SCHEDULE=$seed PTXSIM_CHECK=all run build/ch20_half --shapes 11x6x576 --seeds 0 --inputs peaky --no-timing --quiet
        echo "schedule $seed: $output"
        [ "$output" = "ch20_half: PASS: 1 of 1 outputs right" ]
    done
}

# The gate looks only at the kernel that the program names; the launch chooses among five, and none
# of them may spill.
@test "none of the forms of chapter 20's Hopper kernels spills, and none has its products wait for each other" {
    local program
    for program in ch20_hopper ch20_half; do
        run build/cuda/bin/nvcc -std=c++20 -O3 -Icode -gencode arch=compute_90a,code=sm_90a -Xptxas -v -cubin \
            -o "$BATS_TEST_TMPDIR/cubin" "code/$program.cu"
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(grep -c 'Compiling entry function' <<<"$output")" -eq 5 ]
        [ "$(grep -c ' 0 bytes spill stores, 0 bytes spill loads' <<<"$output")" -eq 5 ]
        [[ "$output" != *"wgmma"* ]]
    done
}

# The build makes sm_90's machine code from sm_89's PTX, so that the compiler reads the source once less.
# The two cubins differ in one byte, where their notes name the architecture of the PTX.
@test "machine code for sm_90 is the same from sm_89's PTX as from the source" {
    local name arch
    run -1 grep -l __CUDA_ARCH__ code/ch[0-9][0-9]_*.cu
    make -n --always-make build/obj/ch10_swizzle.o 2>/dev/null | grep -qF 'code=[sm_89,sm_90,compute_89]'
    for name in ch10_swizzle ch16_fp8_mma; do
        for arch in 89 90; do
            build/cuda/bin/nvcc -std=c++20 -O3 -Icode -gencode arch=compute_$arch,code=sm_90 -cubin code/$name.cu \
                -o "$BATS_TEST_TMPDIR/$arch"
        done
        run cmp -l "$BATS_TEST_TMPDIR"/{89,90}
        [[ "$output" =~ ^\ *[0-9]+\ 131\ 132$ ]] # the bytes 89 and 90, in octal
    done
}
