# Texts and numbers that have to stand in several places are the same in all of them.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
}

# The rows of shapes.def, each rewritten by a sed replacement, separated by ", ".
shapes() {
    sed -nE "s/^SHAPE\((\w+), ([0-9]+), ([0-9]+), ([0-9]+)\)$/$1/p" code/workbench/shapes.def | paste -sd, | sed 's/,/, /g'
}

# has TEXT FILE...: each file contains the text, however C strings and lines break it.
has() {
    local file
    for file in "${@:2}"; do
        tr '\n' ' ' <"$file" | sed -E 's,\\n" +"|" +"| // |\\n, ,g; s/ +/ /g' | grep -qF -- "$1" ||
            { echo "$file has no: $1"; return 1; }
    done
}

@test "every list of named shapes equals code/workbench/shapes.def" {
    [ "$(grep -c '^SHAPE' code/workbench/shapes.def)" -eq "$(shapes '\1' | wc -w)" ]
    has "$(shapes '\1')" code/workbench/inputs.c code/literate/sheets.lua labs/driver/arguments.c
    has "$(shapes '\1 (\2x\3x\4)')" code/workbench/workbench.h code/workbench/options.c
    has "{$(shapes '"\1"')}" code/ch01_attention.c code/ch19_floors.cu
    has "$(shapes '\1' | tr -d ' ')" labs/tools/pytorch
    [ "$(cd labs/tools && python3 -B -c 'from named_shapes import SHAPES
print(", ".join(f"{name} {b}x{h}x{s}" for name, (b, h, s) in SHAPES.items()))')" = "$(shapes '\1 \2x\3x\4')" ]
    run -1 has "$(shapes '\1'), tiny" code/workbench/inputs.c
}

@test "code/tools/stages: columns by their names, a row by its number; an error is one line" {
    mkdir -p "$BATS_TEST_TMPDIR/code/tools" "$BATS_TEST_TMPDIR/chapters"
    cp code/tools/stages "$BATS_TEST_TMPDIR/code/tools"
    cd "$BATS_TEST_TMPDIR"
    run -2 code/tools/stages name
    [ "$output" = "stages: chapters/stages.tsv: no such file" ]
    printf '# stages\nnumber\tname\tprogram\n3\tP · V\tch03_a\n12\tboard\t-\n' >chapters/stages.tsv
    [ "$(code/tools/stages)" = "number, name, program" ]
    [ "$(code/tools/stages program number)" = $'ch03_a\t3\n-\t12' ]
    [ "$(code/tools/stages 03 name)" = "P · V" ]
    run -1 code/tools/stages 4 name
    [ "$output" = "" ]
    run -2 code/tools/stages least
    [ "$output" = "stages: chapters/stages.tsv has no column least: it has number, name, program" ]
    echo '4	short' >>chapters/stages.tsv
    run -2 code/tools/stages 12 name
    [ "$output" = "stages: chapters/stages.tsv:5: no row of number, name, program" ]
}

# The colours NAME... that a file defines between the lines FROM and TO, each as "name rrggbb".
colours() { # FROM TO FILE NAME...
    sed -n "/$1/,/$2/p" "$3" | grep -oE -- '--[a-z]+: #[0-9a-f]{6}|definecolor\{[a-z]+\}\{HTML\}\{[0-9A-F]{6}' |
        sed -E 's/^--|^definecolor.//; s/(: #|.\{HTML.\{)/ /' | tr 'A-F' 'a-f' | grep -E "^($(IFS='|' && echo "${*:4}")) " | sort
}

@test "a colour of one name is the same on a page, in print and in a film" {
    local words="ink accent key value score out bad" surfaces="ink paper bad"
    # shellcheck disable=SC2086
    {
        [ "$(colours '^:root' '^}' code/literate/book.css $words | wc -l)" -eq 7 ]
        diff <(colours '^:root' '^}' code/literate/book.css $words) <(colours definecolor '^$' code/literate/figures.tex $words)
        [ "$(colours '^:root' '^}' code/film/film.css $surfaces | wc -l)" -eq 3 ]
        diff <(colours '^:root' '^}' code/literate/book.css $surfaces) <(colours '^:root' '^}' code/film/film.css $surfaces)
        diff <(colours '^:root' '^}' code/literate/dark.css $surfaces) <(colours '^@media.*dark' '^}' code/film/film.css $surfaces)
    }
}
