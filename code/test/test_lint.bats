# All hand-written files keep the style (make lint), and lint finds what breaks it.

bats_require_minimum_version 1.5.0

# A check's tool may be missing, or be of another version: then its test is skipped.
try() { # CHECK
    run code/tools/lint "$1"
    [ "$status" -ne 3 ] || skip "$output"
    echo "$output"
}

# A tree with code/tools/lint, its settings and one file of each kind, all of them right.
new_tree() {
    cp -a .clang-format .shellcheckrc .luacheckrc "$BATS_TEST_TMPDIR"
    mkdir -p "$BATS_TEST_TMPDIR"/{.ci,code/tools,code/fixtures/x/expected,labs/work,plots}
    cp code/tools/lint "$BATS_TEST_TMPDIR/code/tools"
    cd "$BATS_TEST_TMPDIR"
    printf 'int main(void)\n{\n    return 0;\n}\n' >code/right.c
    printf '#!/bin/sh\necho "$1"\n' >labs/right
    printf '@test "right" {\n    cd /\n    run true\n    [ "$status" -eq 0 ]\n}\n' >plots/right.bats
    printf 'return pandoc.utils\n' >code/right.lua
}

@test "C, CUDA and headers are as clang-format writes them" {
    try c
    [ "$status" -eq 0 ]
}

@test "shellcheck has nothing to say about any script" {
    try shell
    [ "$status" -eq 0 ]
}

@test "luacheck has nothing to say about the filters" {
    try lua
    [ "$status" -eq 0 ]
}

@test "no bats file has an assertion that cannot fail" {
    try bats
    [ "$status" -eq 0 ]
}

@test "C that is not formatted: file and line; --fix formats it, and no chapter's program" {
    new_tree
    try c
    [ "$status" -eq 0 ]
    for file in code/wrong.c labs/wrong.h plots/wrong.cu code/wrong.def code/ch03_mine.cu labs/work/mine.cu \
                code/fixtures/x/expected/mine.c; do
        printf 'int  x;\n' >$file
    done
    run code/tools/lint c
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 4 ]
    for file in code/wrong.c labs/wrong.h plots/wrong.cu code/wrong.def; do
        [[ $output == *"$file:1: not formatted (code/tools/lint --fix)"* ]]
    done
    code/tools/lint --fix
    code/tools/lint c
    echo 'ColumnLimit: wide' >>.clang-format
    run code/tools/lint c
    [ "$status" -eq 1 ]
    [[ $output == *".clang-format:"*"error: "* ]]
    [ "$(cat plots/wrong.cu)" = "int x;" ]
    [ "$(cat code/ch03_mine.cu)" = "int  x;" ]
}

@test "another clang-format, or none: one line that names the version, status 3" {
    new_tree
    mkdir bin
    ln -s "$(command -v bash)" "$(command -v sed)" "$(command -v dirname)" "$(command -v cat)" bin
    PATH=$PWD/bin run code/tools/lint c
    [ "$status" -eq 3 ]
    [ "$output" = "lint: C is not checked: that takes clang-format 14, and here is none (make deps)" ]
    printf '#!/bin/bash\necho "Debian clang-format version 19.1.7 (3)"\n' >bin/clang-format
    chmod +x bin/clang-format
    PATH=$PWD/bin run code/tools/lint c
    [ "$status" -eq 3 ]
    [ "$output" = "lint: C is not checked: that takes clang-format 14, and here is 19 (make deps)" ]
}

@test "a mistake in a script and one in a bats file: file, line and number" {
    new_tree
    try shell
    [ "$status" -eq 0 ]
    printf '#!/bin/sh\necho $1\n' >.ci/wrong
    printf '@test "wrong" {\n    ! true\n    echo\n}\n' >labs/wrong.bats
    run code/tools/lint shell
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 2 ]
    [[ ${lines[0]} == .ci/wrong:2:*'[SC2086]' ]]
    [[ ${lines[1]} == labs/wrong.bats:2:*'[SC2314]' ]]
}

@test "assertions that cannot fail a test are reported with file and line, and no others" {
    new_tree
    try bats
    [ "$status" -eq 0 ]
    sed 's/^. //' >labs/wrong.bash <<'END'
| ! grep -q found said
| ! grep -q found said || false
| run ! grep -q found said
| PATH=bin run --separate-stderr ! cmp one two
| [ "$status" -eq 0 ] && [ -z "$output" ]
| [[ $output == *a* && $output == *b* ]] && grep -q found said
| run -1 grep -q found said
| [[ $output == *a* && $output == *b* ]]
| [ -e short ] && [[ $metric == dram* ]] && continue
| [ -n "$one" ] && cmp one two || echo "they differ"
| if ! grep -q found said; then wrong=1; fi
END
    run code/tools/lint bats
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 6 ]
    for i in {1..6}; do [[ ${lines[i - 1]} == "labs/wrong.bash:$i: cannot fail a test: "* ]]; done
}

@test "a global in a filter: file and line" {
    new_tree
    try lua
    [ "$status" -eq 0 ]
    printf 'count = 1\n' >code/wrong.lua
    run code/tools/lint lua
    [ "$status" -eq 1 ]
    [[ $output == *"code/wrong.lua:1:1: (W111)"* ]]
}

@test "all three at once: what is missing is skipped, and nothing else" {
    new_tree
    mkdir bin
    for tool in bash sed dirname cat find sort grep xargs awk; do
        ln -s "$(command -v $tool)" bin/$tool
    done
    PATH=$PWD/bin run code/tools/lint
    [ "$status" -eq 0 ]
    [ "$(grep -c ': skipped$' <<<"$output")" -eq 3 ]
    run code/tools/lint every
    [ "$status" -eq 2 ]
    [ "$output" = "usage: code/tools/lint [c|shell|lua|bats|--fix]" ]
}
