# The PyTorch operators, as far as they can be built and tested without PyTorch: the compiler's flags, the functions for
# the CPU against a plain loop, messages about what is missing. test_kernels tests the CUDA side without PyTorch;
# `make test-torch` installs PyTorch and runs test_operator.py.

setup() {
    cd "$BATS_TEST_DIRNAME/.."
    export PYTHONDONTWRITEBYTECODE=1
    unset CC CUDA_HOME
}

# A toolkit whose compiler logs its arguments and writes an empty file.
make_toolkit() { # RELEASE
    mkdir -p "$BATS_TEST_TMPDIR/cuda/bin" "$BATS_TEST_TMPDIR/out"
    cat >"$BATS_TEST_TMPDIR/cuda/bin/nvcc" <<EOF
#!/bin/sh
[ "\$1" != --version ] || { echo "Cuda compilation tools, release $1, V$1"; exit; }
echo "\$@" >>"$BATS_TEST_TMPDIR/log"
for word; do last=\$word; done
[ ! -e "$BATS_TEST_TMPDIR/broken" ] && : >"\$last"
EOF
    chmod +x "$BATS_TEST_TMPDIR/cuda/bin/nvcc"
    export CUDA_HOME=$BATS_TEST_TMPDIR/cuda
}

field() { # NAME: a text of pyproject.toml
    sed -nE "s/^$1 = (.*)/\1/p" pyproject.toml
}

@test "pyproject: what the package is, and that it needs PyTorch" {
    [ "$(field name)" = '"attention-in-stages"' ]
    [ "$(field build-backend)" = '"setuptools.build_meta"' ]
    [ "$(field packages)" = '["attention_in_stages"]' ]
    [ "$(field readme)" = '"README.md"' ]
    [[ $(field dependencies) =~ ^\[\"torch\>=2\.[0-9]+\"\]$ ]]
    grep -q "PyTorch $(field dependencies | tr -dc '0-9.') and later" README.md
    grep -q "PyTorch $(field dependencies | tr -dc '0-9.') or later" attention_in_stages/__init__.py
}

@test "the kernels are compiled with the flags that the book measured, for the images of stages.tsv" {
    make_toolkit 13.0
    run python3 libraries.py "$BATS_TEST_TMPDIR/out"
    [ "$status" -eq 0 ]
    flags=$(sed -nE 's/^KERNEL_FLAGS := (.*) -Icode$/\1/p' ../../mk/toolchain.mk)
    [ -n "$flags" ]
    [ "$(grep -c -- "^$flags " "$BATS_TEST_TMPDIR/log")" -eq "$(wc -l <"$BATS_TEST_TMPDIR/log")" ]
    grep -qE 'arch=compute_89,code=\[sm_89,compute_89\] .*code=sm_90 -DPROGRAM="ch15_registers.cu" ' "$BATS_TEST_TMPDIR/log"
    for program in ch17_hopper_half ch18_room ch20_room ch22_hopper; do
        grep -qE "arch=compute_90a,code=\[sm_90a,compute_90a\] -DPROGRAM=\"$program.cu\" " "$BATS_TEST_TMPDIR/log"
    done
    grep -qE 'arch=compute_90,code=\[sm_90,compute_90\] -DPROGRAM="ch21_hopper.cu" ' "$BATS_TEST_TMPDIR/log"
    for program in ch20_causal ch21_decode ch22_prompt; do
        grep -qE "code=\[sm_89,compute_89\] .*-DPROGRAM=\"$program.cu\" " "$BATS_TEST_TMPDIR/log"
    done
}

@test "each row of stages.py has its portable program's name, programs of one chapter, and their libraries" {
    make_toolkit 13.0
    python3 libraries.py "$BATS_TEST_TMPDIR/out"
    run python3 - "$BATS_TEST_TMPDIR/out" <<'EOF'
import os, runpy, sys
module = runpy.run_path("attention_in_stages/stages.py")
stages = module["STAGES"]
made = {"cpu.so", "quantise.so"}
of_tensors = [name for name, stage in stages.items() if not stage.cache]
assert set(module["OLD_NUMBERS"].values()) < set(of_tensors)
for stage, elsewhere in module["FASTEST"].values():
    assert {stage, elsewhere} <= set(of_tensors), (stage, elsewhere)
    assert stages[elsewhere].hopper < len(stages[elsewhere].programs), elsewhere  # has a portable program
for name, stage in stages.items():
    for portable in stage.programs[stage.hopper:]:
        assert portable[4:] == "_" + name and name.isidentifier(), (name, stage)
    for i, program in enumerate(stage.programs):
        assert program[:4] == stage.programs[0][:4], program
        text = open(f"../{program}.cu").read()
        assert ("cluster" in text) == (i < stage.hopper), program
        assert (".mask = MASK_CAUSAL" in text) == stage.causal, program
        assert (".launch_ragged = launch_ragged" in text) == stage.ragged, program
        assert (".launch_cache = launch" in text or ".launch_prompt = launch" in text) == stage.cache, program
        made.add(program + ".so")
assert set(os.listdir(sys.argv[1])) == made, os.listdir(sys.argv[1])
print(len(stages), "rows")
EOF
    [ "$status" -eq 0 ]
    [[ $output =~ ^[4-9]\ rows$ ]]
}

@test "what cannot be built is said in a line, and a compiler's failure stops it" {
    run python3 libraries.py
    [ "$status" -eq 1 ]
    [ "$output" = "attention-in-stages: python3 libraries.py FOLDER: one that is there" ]
    make_toolkit 12.4
    run python3 libraries.py "$BATS_TEST_TMPDIR/out"
    [ "$status" -eq 1 ]
    [[ ${lines[-1]} == "attention-in-stages: CUDA_HOME is $CUDA_HOME, CUDA 12.4, and CUDA 13 is needed"* ]]
    make_toolkit 13.1
    touch "$BATS_TEST_TMPDIR/broken"
    run python3 libraries.py "$BATS_TEST_TMPDIR/out"
    [ "$status" -eq 1 ]
    [ "${lines[-1]}" = "attention-in-stages: $CUDA_HOME/bin/nvcc failed, see above" ]
    CC=false run python3 libraries.py "$BATS_TEST_TMPDIR/out"
    [ "$status" -eq 1 ]
    [ "${lines[-1]}" = "attention-in-stages: false failed, see above" ]
    mkdir -p "$BATS_TEST_TMPDIR/code/torch"
    cp libraries.py "$BATS_TEST_TMPDIR/code/torch"
    run python3 "$BATS_TEST_TMPDIR/code/torch/libraries.py" "$BATS_TEST_TMPDIR/out"
    [ "$status" -eq 1 ]
    [ "$output" = "attention-in-stages: $BATS_TEST_TMPDIR/code has no workbench/: install from the book's repository, in code/torch" ]
}

@test "the CPU's library quantises and attends as a plain loop does" {
    make_toolkit 13.0
    python3 libraries.py "$BATS_TEST_TMPDIR/out"
    run python3 - "$BATS_TEST_TMPDIR/out/cpu.so" <<'EOF'
import ctypes, math, random, sys
library = ctypes.CDLL(sys.argv[1])
library.attend_on_cpu.restype = ctypes.c_bool
HEADS, ROWS, DIM, NARROW = 2, 5, 64, 8
chance = random.Random(4)
codes = (ctypes.c_ubyte * (3 * HEADS * ROWS * DIM))()
scales = (ctypes.c_float * (3 * HEADS))()
values = {}

def of_code(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    size = mantissa / 512 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return -size if code & 128 else size

for t in range(3):
    for head in range(HEADS):
        x = [chance.gauss(0.3, 2) for _ in range(ROWS * NARROW)]
        first = (t * HEADS + head) * ROWS * DIM
        library.quantise_head((ctypes.c_float * len(x))(*x), ctypes.c_long(1), ctypes.c_long(HEADS * ROWS),
                              ctypes.c_long(ROWS), NARROW, ctypes.byref(codes, first),
                              ctypes.byref(scales, 4 * (t * HEADS + head)))
        scale = scales[t * HEADS + head]
        assert abs(scale - max(map(abs, x)) / 448) <= 1e-6 * scale
        for row in range(ROWS):
            line = [of_code(codes[first + row * DIM + d]) * scale for d in range(DIM)]
            for d in range(NARROW):
                assert abs(line[d] - x[row * NARROW + d]) <= max(abs(line[d]) / 16, scale / 512) * 1.01
            assert not any(line[NARROW:])
            values[t, head, row] = line
for causal in (0, 1):
    out = (ctypes.c_float * (HEADS * ROWS * DIM))()
    assert library.attend_on_cpu(codes, scales, causal, 1, HEADS, ROWS, ctypes.c_float(0.25), out)
    for head in range(HEADS):
        for row in range(ROWS):
            keys = range(row + 1 if causal else ROWS)
            p = [math.exp(0.25 * sum(a * b for a, b in zip(values[0, head, row], values[1, head, key]))) for key in keys]
            for d in range(DIM):
                wanted = sum(x * values[2, head, key][d] for x, key in zip(p, keys)) / sum(p)
                assert abs(out[(head * ROWS + row) * DIM + d] - wanted) <= 1e-5 * max(1, abs(wanted))
print("alike")
EOF
    [ "$status" -eq 0 ]
    [ "$output" = alike ]
}

@test "without PyTorch the package says in a line what it needs" {
    run python3 -c 'import sys; sys.modules["torch"] = None; import attention_in_stages'
    [ "$status" -eq 1 ]
    [ "${lines[-1]}" = "ImportError: attention_in_stages needs PyTorch 2.6 or later: pip install torch" ]
    [[ $output != *"During handling"* ]]
}

@test "README has two examples of a few lines, and make a target that tests all of it" {
    sed -n '/^```python/,/^```$/p' README.md | csplit -sz -f "$BATS_TEST_TMPDIR/example" - '/^```python/' '{*}'
    [ "$(ls "$BATS_TEST_TMPDIR"/example* | wc -l)" -eq 2 ]
    for example in "$BATS_TEST_TMPDIR"/example*; do
        sed -i '1d;$d' "$example"
        python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$example"
        [ "$(wc -l <"$example")" -le 12 ]
    done
    grep -q 'from attention_in_stages import attention' "$BATS_TEST_TMPDIR/example00"
    grep -q 'from attention_in_stages import decode' "$BATS_TEST_TMPDIR/example01"
    cd ../..
    make -s help-all | grep -q 'make test-torch '
    grep -q 'make test-torch' CONTRIBUTING.md
    run -1 grep torch code/tools/deps # make test downloads none of it
}
