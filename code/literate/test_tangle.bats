# Tangle: exact outputs from fixtures/tangle, and every error.
# bats file_tags=quick

load ../test/test_tree

setup() {
    literate=$BATS_TEST_DIRNAME
    fixture=$literate/fixtures/tangle
    cd "$BATS_TEST_TMPDIR"
    mkdir chapters
}

tangle() {
    read_by tangle.lua "${@:-chapters/02-sum.md}"
}

use_fixture() {
    cp "$fixture"/chapters/*.md chapters/
}

tangle_fixture() {
    use_fixture
    tangle chapters/*.md
}

# Tangles chapters/02-x.md (standard input), and chapters/03-y.md if it exists, and expects these
# lines on standard error, exit status 1, and nothing written.
expect_errors() {
    cat > chapters/02-x.md
    status=0
    tangle chapters/*.md > stdout 2> stderr || status=$?
    printf '%s\n' "$@" | diff - stderr
    [ "$status" -eq 1 ]
    [ ! -s stdout ]
    [ ! -e code ]
    [ ! -e build ]
}

model() {
    use_fixture
    SHOW=$1 LITERATE=literate read_by fixtures/tangle/model.lua chapters/*.md
}

@test "programs, line-mapped copies, clean starters and mutants are exactly as expected" {
    tangle_fixture
    diff -r "$fixture/expected/code" code
    diff -r "$fixture/expected/build" build
}

@test "tangle names the files that it wrote: none when nothing has changed" {
    tangle_fixture > first
    printf '%s\n' code/ch02_sum.c build/tangled/ch02_sum.c build/starters/ch02_sum.c \
        code/ch03_more.cu build/tangled/ch03_more.cu build/starters/ch03_more.cu \
        build/mutants/ch02_sum.drops-zero.c build/mutants/ch03_more.keeps-odd.cu \
        build/mutants/ch03_more.once.cu build/mutants/list.tsv | diff - first
    tangle chapters/*.md > second
    [ ! -s second ]
}

@test "unchanged outputs keep their time stamps; one edit touches one chapter" {
    tangle_fixture
    find code build -type f -exec touch -d 2001-01-01 {} +
    sed -i 's/Forgets to double/Adds once/; s/TODO: add/TODO: sum/' chapters/03-more.md
    tangle chapters/*.md > written
    echo build/starters/ch03_more.cu | diff - written
    [ "$(find code build -type f -newermt 2001-01-02)" = build/starters/ch03_more.cu ]
}

@test "nothing is left behind in build but the outputs" {
    tangle_fixture
    [ "$(ls build)" = "$(printf 'mutants\nstarters\ntangled')" ]
}

@test "outputs that no chapter makes are removed from build and named in code" {
    tangle_fixture
    touch build/tangled/.stamp build/tangled/ch09_x.cu build/starters/ch09_x.cu \
        build/mutants/ch02_sum.gone.c code/ch09_x.cu code/chart.sh
    tangle chapters/*.md 2> stderr
    echo "note: code/ch09_x.cu: no chapter makes this file" | diff - stderr
    rm code/ch09_x.cu code/chart.sh
    diff -r "$fixture/expected/code" code
    rm build/tangled/.stamp
    diff -r "$fixture/expected/build" build
}

@test "check passes on what was tangled, and writes nothing" {
    tangle_fixture
    rm -r build
    TANGLE=check tangle chapters/*.md > output 2>&1
    [ ! -s output ]
    [ ! -e build ]
}

@test "check names every file of code that differs, is missing or has no chapter" {
    tangle_fixture
    echo >> code/ch02_sum.c
    mv code/ch03_more.cu code/ch03_less.cu
    TANGLE=check run read_by tangle.lua chapters/02-sum.md chapters/03-more.md
    [ "$status" -eq 1 ]
    printf '%s\n' 'code/ch02_sum.c: is not what its chapter says; run `make tangle`' \
        'code/ch03_more.cu: is not what its chapter says; run `make tangle`' \
        'code/ch03_less.cu: no chapter makes this file' | diff - <(echo "$output")
    [ ! -e code/ch03_more.cu ]
}

@test "the compiler names the chapter and the line: in a list, continued, after a reference" {
    use_fixture
    for wrong in 'total += i;' 'return i >= 0;' 'return total != 45;'; do
        cp "$fixture/chapters/02-sum.md" chapters/
        sed -i "s/${wrong}\$/oops ${wrong}/" chapters/02-sum.md
        line=$(grep -n oops chapters/02-sum.md | cut -d: -f1)
        tangle
        run gcc -fsyntax-only build/tangled/ch02_sum.c
        [ "$status" -ne 0 ]
        [[ "$output" == *"chapters/02-sum.md:$line:"*"error:"*oops* ]]
    done
}

@test "clean and line-mapped programs compile and do the same; a mutant does not" {
    tangle_fixture
    for source in code/ch02_sum.c build/tangled/ch02_sum.c; do
        gcc -std=c11 -Wall -Wextra -Werror -o sum "$source"
        [ "$(./sum)" = 45 ]
    done
    gcc -o sum build/mutants/ch02_sum.drops-zero.c
    run ./sum
    [ "$status" -eq 1 ]
}

@test "an earlier chapter can be tangled without the later ones" {
    use_fixture
    tangle chapters/02-sum.md
    diff "$fixture/expected/code/ch02_sum.c" code/ch02_sum.c
    [ "$(cat build/mutants/list.tsv)" = "$(head -n 1 "$fixture/expected/build/mutants/list.tsv")" ]
}

# Tangles chapters/02-x.md (standard input) into code/ch02_x.c and expects this text below the
# heading.
expect_program() {
    cat > chapters/02-x.md
    tangle chapters/02-x.md > /dev/null
    diff - <(sed 1,2d code/ch02_x.c) < expected
}

# A program whose body is the given lines, at the left margin.
program_of() {
    printf '``` {.c file=code/ch02_x.c}\n%s\n```\n' "$1"
}

chunk() {
    printf '\n``` {.c #ch02-%s title="%s"}\n%s\n```\n' "$1" "$2" "$3"
}

@test "titles: a banner at the left margin of the program, quiet within, and each a paragraph" {
    cat > expected <<'END'
int first;

// ---- Say no ----
static int none(void)
{
    int zero = 0;

    // Return it
    zero *= 2;
    return zero;
}

int last;
END
    { program_of $'int first;\n<<ch02-none>>\nint last;'
      chunk none 'Say no' $'static int none(void)\n{\n    int zero = 0;\n    <<ch02-return>>\n}'
      chunk return 'Return it' $'zero *= 2;\nreturn zero;'; } | expect_program
}

@test "titles: no empty line stands between a block's braces and its first or last statement" {
    cat > expected <<'END'
int main(void)
{
    // Begin
    int a = 0;
    int b = 0;

    for (;;) { // for ever
        // Go on
        a += 1;
        b += a;
    }
}
END
    { program_of $'int main(void)\n{\n    <<ch02-begin>>\n    for (;;) { // for ever\n        <<ch02-on>>\n    }\n}'
      chunk begin Begin $'int a = 0;\nint b = 0;'; chunk on 'Go on' $'a += 1;\nb += a;'; } | expect_program
}

@test "titles: none above an include, whose lines stay together; the heading comment stands alone" {
    cat > expected <<'END'
// What it does.

#include <math.h>
#include <stdio.h>

int main(void) { return 0; }
END
    { program_of $'// What it does.\n<<ch02-math>>\n<<ch02-io>>\nint main(void) { return 0; }'
      chunk math 'Include mathematics' '#include <math.h>'
      chunk io 'Include input' '#include <stdio.h>'; } | expect_program
}

@test "titles: a heading comment stands alone above the program's own lines, too" {
    printf '%s\n' '// What it' '// does.' '' 'int main(void) { return 0; }' > expected
    program_of $'// What it\n// does.\nint main(void) { return 0; }' | expect_program
}

@test "titles: none where the chunk opens with a comment, or each line has one" {
    cat > expected <<'END'
// Says yes.
static int some(void)
{
    int one = 1;
    // It was one.
    one *= 2;
    one += 2; // more
    return one; // enough
}
END
    { program_of '<<ch02-some>>'
      chunk some 'Say yes' $'// Says yes.\nstatic int some(void)\n{\n    int one = 1;\n    <<ch02-double>>\n    <<ch02-more>>\n}'
      chunk double 'Double it' $'// It was one.\none *= 2;'
      chunk more 'Add more' $'one += 2; // more\nreturn one; // enough'; } | expect_program
}

@test "titles: one that repeats the function's name is left out; part of the name or of the arguments is not enough" {
    cat > expected <<'END'
static int load_tile(int row)
{
    return row;
}

// ---- Load a row ----
static int load(int row)
{
    return row;
}

// ---- Load a til ----
static int load_tiles(int row)
{
    return row;
}
END
    { program_of $'<<ch02-a>>\n\n<<ch02-b>>\n\n<<ch02-c>>'
      chunk a 'Load a tile' $'static int load_tile(int row)\n{\n    return row;\n}'
      chunk b 'Load a row' $'static int load(int row)\n{\n    return row;\n}'
      chunk c 'Load a til' $'static int load_tiles(int row)\n{\n    return row;\n}'; } | expect_program
}

@test "titles: none between a pragma, a loop's head or half a statement and the code that follows" {
    cat > expected <<'END'
int main(void)
{
    int a = 0;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        a += i;
    a = a +
        1;

    // Ask
    a *= 2;
    if (a)
        a += 1;
    return a;
}
END
    { program_of $'int main(void)\n{\n    int a = 0;\n#pragma GCC unroll 4\n    <<ch02-loop>>\n    a = a +\n        <<ch02-one>>\n    <<ch02-ask>>\n        a += 1;\n    return a;\n}'
      chunk ask Ask $'a *= 2;\nif (a)'
      chunk loop 'Add numbers' $'for (int i = 0; i < 4; i++)\n    <<ch02-add>>'
      chunk add 'Add a number' 'a += i;'; chunk one 'The number one' '1;'; } | expect_program
}

@test "titles: a chunk that only refers to chunks has none of its own; no title stands below a title or comment" {
    cat > expected <<'END'
// ---- Count ----
static int count;

// ---- Begin ----
int main(void)
{
    // Add twice
    count += 1;
    count += 2;

    // Three are better.
    count += 3;
    count += 4;

    // These are all.

    // Say so
    count *= 1;
    return count;
}
END
    { program_of '<<ch02-all>>'
      chunk all 'Do it all' $'<<ch02-count>>\n<<ch02-main>>'
      chunk count Count 'static int count;'
      chunk main Begin $'int main(void)\n{\n    <<ch02-twice>>\n\n    // Three are better.\n    <<ch02-three>>\n\n    // These are all.\n\n    <<ch02-say>>\n}'
      chunk say 'Say so' $'count *= 1;\nreturn count;'
      chunk twice 'Add twice' $'<<ch02-once>>\ncount += 2;'
      chunk once 'Add once' 'count += 1;'
      chunk three 'Add three' $'count += 3;\ncount += 4;'; } | expect_program
}

@test "titles: a section has its banner whatever it opens with, and quiet titles in it" {
    cat > expected <<'END'
// ---- Count up and down ----

// Counts up.
static int up(int n) { return n + 1; }

// Go down
static int down(int n)
{
    return n - 1;
}

int main(void) { return up(down(0)); }
END
    { program_of $'<<ch02-count>>\n\nint main(void) { return up(down(0)); }'
      chunk count 'Count up and down' $'// Counts up.\nstatic int up(int n) { return n + 1; }\n\n<<ch02-down>>'
      chunk down 'Go down' $'static int down(int n)\n{\n    return n - 1;\n}'; } | expect_program
}

@test "titles: a starter has its title, whatever the chunk or the starter opens with" {
    { program_of $'int main(void)\n{\n    <<ch02-a>>\n    <<ch02-b>>\n}'
      chunk a 'Be nothing' 'int a = 0; // nothing'; chunk b 'Say so' $'// It is so.\nreturn a;'
      printf '\n``` {.c .starter for=%s}\n%s\n```\n' ch02-a 'int a = 1; // Your code' ch02-b $'// Your code.\nreturn 1;'
    } > chapters/02-x.md
    tangle chapters/02-x.md
    printf '%s\n' 'int main(void)' '{' '    int a = 0; // nothing' '    // It is so.' '    return a;' '}' |
        diff - <(sed 1,2d code/ch02_x.c)
    printf '%s\n' 'int main(void)' '{' '    // Be nothing' '    int a = 1; // Your code' '' '    // Say so' \
        '    // Your code.' '    return 1;' '}' | diff - <(sed 1,2d build/starters/ch02_x.c)
}

@test "model: chunks, parts, uses, programs, variants, replacements" {
    model chunks | diff "$fixture/expected/chunks.txt" -
}

@test "model: what changed against the replaced chunk, and in a mutant" {
    model changes | diff "$fixture/expected/changes.txt" -
}

@test "model: the code blocks of a document are found again" {
    model blocks | diff "$fixture/expected/blocks.txt" -
}

@test "error: unknown reference; all errors are listed, in order" {
    expect_errors 'chapters/02-x.md:3: unknown chunk <<ch02-gone>>' \
        'chapters/02-x.md:7: unused chunk ch02-lost' \
        'chapters/02-x.md:8: unknown chunk <<ch02-away>>' << 'END'

``` {.c file=code/ch02_x.c}
<<ch02-gone>>
int x;
```

``` {.c #ch02-lost}
<<ch02-away>>
```
END
}

@test "error: cycles, with the way round" {
    expect_errors 'chapters/02-x.md:10: cycle: ch02-a -> ch02-b -> ch02-a' \
        'chapters/02-x.md:12: unused chunk ch02-self' \
        'chapters/02-x.md:13: cycle: ch02-self -> ch02-self' << 'END'
``` {.c file=code/ch02_x.c}
<<ch02-a>>
```

``` {.c #ch02-a}
<<ch02-b>>
```

``` {.c #ch02-b}
    <<ch02-a>>
```
``` {.c #ch02-self}
<<ch02-self>>
```
END
}

@test "error: a cycle that only two starters together close" {
    expect_errors 'chapters/02-x.md:15: cycle: ch02-a -> ch02-b -> ch02-a' << 'END'
``` {.c file=code/ch02_x.c}
<<ch02-a>>
<<ch02-b>>
```

``` {.c #ch02-a}
int a;
```

``` {.c #ch02-b}
int b;
```

``` {.c .starter for=ch02-b}
<<ch02-a>>
```
``` {.c .starter for=ch02-a}
<<ch02-b>>
```
END
}

@test "error: a cycle that only a mutant closes" {
    expect_errors 'chapters/02-x.md:9: cycle: ch02-a -> ch02-b -> ch02-a' << 'END'
``` {.c file=code/ch02_x.c}
<<ch02-a>>
<<ch02-b>>
```
``` {.c #ch02-a}
int a;
```
``` {.c #ch02-b}
<<ch02-a>>
```
``` {.c .mutant of=ch02-a name=m breaks=x}
<<ch02-b>>
```
END
}

@test "error: a reference to a later chapter" {
    cat > chapters/03-y.md << 'END'
``` {.c #ch03-late}
int y;
```
``` {.c file=code/ch03_y.c}
<<ch03-late>>
```
END
    expect_errors \
        'chapters/02-x.md:2: <<ch03-late>> belongs to a later chapter, chapters/03-y.md' << 'END'
``` {.c file=code/ch02_x.c}
<<ch03-late>>
```
END
}

@test "error: a reference that shares its line, or stands in a macro" {
    expect_errors 'chapters/02-x.md:2: <<ch02-a>> must stand on a line of its own' \
        'chapters/02-x.md:5: <<ch02-a>> inside a macro' << 'END'
``` {.c file=code/ch02_x.c}
int x = <<ch02-a>>;
int y = 1 <<2>> 1;
#define A \
    <<ch02-a>>
```
``` {.c #ch02-a}
1
```
END
}

@test "error: roots that are duplicate, outside code, or misnamed" {
    expect_errors \
        'chapters/02-x.md:4: duplicate root code/ch02_x.c (first at chapters/02-x.md:1)' \
        'chapters/02-x.md:7: chunk code/ch02_x.c is in language cuda, and was c at chapters/02-x.md:1' \
        'chapters/02-x.md:7: duplicate root code/ch02_x.c (first at chapters/02-x.md:1)' \
        'chapters/02-x.md:7: root code/ch02_x.c is in language cuda, whose files end in .cu' \
        'chapters/02-x.md:10: duplicate root code/ch02_x.cu (first at chapters/02-x.md:1)' \
        'chapters/02-x.md:13: root src/ch02_y.c is outside code/' \
        'chapters/02-x.md:16: root code/../ch02_y.c is not named code/ch02_name.c' \
        'chapters/02-x.md:19: root code/ch03_y.c is not named code/ch02_name.c' \
        < <(for root in c:code/ch02_x.c c:code/ch02_x.c cuda:code/ch02_x.c cuda:code/ch02_x.cu \
            c:src/ch02_y.c c:code/../ch02_y.c c:code/ch03_y.c; do
            printf '``` {.%s file=%s}\nint x;\n```\n' "${root%%:*}" "${root#*:}"
        done)
}

@test "error: languages that do not go together" {
    expect_errors 'chapters/02-x.md:2: <<ch02-a>> is in language cuda, and this chunk in c' \
        'chapters/02-x.md:7: chunk ch02-a is in language c, and was cuda at chapters/02-x.md:4' \
        'chapters/02-x.md:10: mutant in language c of chunk ch02-a, which is in cuda' << 'END'
``` {.c file=code/ch02_x.c}
<<ch02-a>>
```
``` {.cuda #ch02-a}
int a;
```
``` {.c #ch02-a}
int a;
```
``` {.c .mutant of=ch02-a name=m breaks=x}
int b;
```
END
}

@test "error: a chunk named for another chapter" {
    expect_errors 'chapters/02-x.md:4: chunk ch03-a is not named ch02-…' \
        'chapters/02-x.md:7: chunk a is not named ch02-…' << 'END'
``` {.c file=code/ch02_x.c}
<<ch03-a>>
```
``` {.c #ch03-a}
<<a>>
```
``` {.c #a}
int a;
```
END
}

@test "error: mutants and starters of nothing, incomplete, twice, or changing nothing" {
    expect_errors 'chapters/02-x.md:4: mutant of the unknown chunk ch02-b' \
        'chapters/02-x.md:6: starter of the unknown chunk ch02-b' \
        'chapters/02-x.md:8: mutant without of=' \
        'chapters/02-x.md:10: starter without for=' \
        'chapters/02-x.md:12: mutant of ch02-a without a name= of letters, digits and dashes' \
        'chapters/02-x.md:14: mutant of ch02-a without breaks=' \
        'chapters/02-x.md:18: duplicate mutant name n (first at chapters/02-x.md:16)' \
        'chapters/02-x.md:22: second starter for ch02-a (first at chapters/02-x.md:20)' \
        'chapters/02-x.md:24: mutant of ch02-a changes nothing' \
        'chapters/02-x.md:27: mutant of ch02-a has an id or a file of its own' << 'END'
``` {.c file=code/ch02_x.c #ch02-a}
int a;
```
``` {.c .mutant of=ch02-b name=b breaks=x}
```
``` {.c .starter for=ch02-b}
```
``` {.c .mutant name=c breaks=x}
```
``` {.c .starter}
```
``` {.c .mutant of=ch02-a name="a/b" breaks=x}
```
``` {.c .mutant of=ch02-a name=d}
```
``` {.c .mutant of=ch02-a name=n breaks=x}
```
``` {.c .mutant of=ch02-a name=n breaks=x}
```
``` {.c .starter for=ch02-a}
```
``` {.c .starter for=ch02-a}
```
``` {.c .mutant of=ch02-a name=e breaks=x}
int a;
```
``` {.c .mutant #ch02-c of=ch02-a name=f breaks=x}
```
END
}

@test "error: a mutant of a chunk that no program of its chapter uses" {
    cat > chapters/03-y.md << 'END'
``` {.c file=code/ch03_y.c}
int y;
```
``` {.c .mutant of=ch02-a name=m breaks=x}
int b;
```
END
    expect_errors 'chapters/03-y.md:4: mutant of ch02-a, which no program of this chapter uses' \
        << 'END'
``` {.c file=code/ch02_x.c #ch02-a}
int a;
```
END
}

@test "error: replaces= of nothing, of itself, of a later chunk" {
    cat > chapters/03-y.md << 'END'
``` {.c file=code/ch03_y.c #ch03-y}
int y;
```
END
    expect_errors 'chapters/02-x.md:1: chunk ch02-x replaces the unknown chunk ch01-x' \
        'chapters/02-x.md:5: chunk ch02-a replaces ch03-y, which is not an earlier one' \
        'chapters/02-x.md:8: chunk ch02-b replaces ch02-b, which is not an earlier one' << 'END'
``` {.c file=code/ch02_x.c #ch02-x replaces=ch01-x}
<<ch02-a>>
<<ch02-b>>
```
``` {.c #ch02-a replaces=ch03-y}
int a;
```
``` {.c #ch02-b replaces=ch02-b}
int b;
```
END
}

@test "error: long lines and tabs in any code block but a figure; 80 columns are fine" {
    eighty=$(printf 'é%.0s' {1..80})
    expect_errors 'chapters/02-x.md:3: line of 81 columns; the page takes 80' \
        'chapters/02-x.md:4: tab in a code block' \
        'chapters/02-x.md:7: line of 84 columns; the page takes 80' \
        'chapters/02-x.md:11: line of 81 columns; the page takes 80' << END
\`\`\` {.c file=code/ch02_x.c}
// ${eighty:3}
// ${eighty:2}
	int x;
\`\`\`
\`\`\` {.c}
// ${eighty}.
\`\`\`

\`\`\` {.bash}
${eighty}.
\`\`\`
\`\`\` {.tikz #fig:x caption="x"}
$eighty $eighty
\`\`\`
END
}

@test "error: a code block that is never closed" {
    expect_errors 'chapters/02-x.md:4: code block is never closed' << 'END'
``` {.c file=code/ch02_x.c}
int x;
```
``` {.c #ch02-rest}
int y;

The rest of the chapter, and no fence.
END
}

@test "error: a chapter that is misnamed, or missing" {
    touch chapters/notes.md
    expect_errors "chapters/notes.md: a chapter's file is named like 03-wmma-scores.md" \
        < "$fixture/chapters/02-sum.md"
    run tangle chapters/02-gone.md
    [ "$status" -eq 1 ]
    [[ "$output" == "pandoc: chapters/02-gone.md: "*"does not exist"* ]]
    [ ! -e code ]
}

@test "error: outputs that cannot be written leave nothing half-written" {
    use_fixture
    touch build
    run tangle
    [ "$status" -eq 1 ]
    [ "$output" = "code build/tangled build/starters build/mutants: cannot be created" ]
    rm build
    mkdir -p code/ch02_sum.c build
    run tangle
    [ "$status" -eq 1 ]
    [ "$output" = "code/ch02_sum.c: cannot be written: Is a directory" ]
    [ -z "$(find code build -type f)" ]
}

@test "a mutant may name its shapes, one program of the chapter, and a macro" {
    use_fixture
    sed -i 's/ name=once / only=ch03_more shapes=1x1x4096&/' chapters/03-more.md
    tangle chapters/*.md
    [ "$(tail -n 1 build/mutants/list.tsv)" = $'ch03_more\tonce\tch03-sum\tcorrectness\t1x1x4096' ]
    sed -i 's/ name=once/ define="TWICE_AND 2"&/' chapters/03-more.md
    tangle chapters/*.md
    [ "$(head -n 1 build/mutants/ch03_more.once.cu)" = "#define TWICE_AND 2" ]
    [ "$(grep -l TWICE_AND -r build code)" = build/mutants/ch03_more.once.cu ]
    sed -i 's/only=ch03_more/only=ch03_less/' chapters/03-more.md
    run tangle chapters/*.md
    [ "$status" -eq 1 ]
    [[ "$output" =~ "mutant of ch03-sum, which no program ch03_less of this chapter uses" ]]
}

@test "where the book prints a chunk changes no program" {
    use_fixture
    tangle chapters/*.md
    sed -i -E 's/^(``` \{\.(c|cuda)) (#|file=)/\1 .later \3/' chapters/*.md
    sed -i -E '/^``` \{\.c(uda)? \.starter/,/^```$/d' chapters/*.md
    [ "$(grep -c '\.later' chapters/02-sum.md)" -ge 3 ]
    TANGLE=check tangle chapters/*.md
}

@test "error: .later on anything but a chunk, or on a chunk that a student writes" {
    expect_errors 'chapters/02-x.md:6: chunk ch02-a is printed later, and the starter at chapters/02-x.md:9 stands in for it' \
        'chapters/02-x.md:12: chunk ch02-b has no replaces= here, so nothing that changes' \
        'chapters/02-x.md:15: only a chunk can be printed later' \
        'chapters/02-x.md:18: only a chunk can be printed later' \
        'chapters/02-x.md:22: unknown chunk <<ch02-none>>' << 'END'
``` {.c file=code/ch02_x.c}
<<ch02-a>>
<<ch02-b>>
```

``` {.c .later #ch02-a}
int a;
```
``` {.c .starter for=ch02-a}
int s;
```
``` {.c .changes #ch02-b}
int b;
```
``` {.c .later .mutant of=ch02-b name=m breaks=x}
int m;
```
``` {.c .later}
int not_a_chunk;
```
``` {.c .later #ch02-b}
<<ch02-none>>
```
END
}

@test "error: a difference that takes more lines than the chunk" {
    expect_errors 'chapters/02-x.md:9: chunk ch02-b has 3 lines, and what it changes takes 4: print it whole' << 'END'
``` {.c file=code/ch02_x.c}
<<ch02-a>>
<<ch02-b>>
```
``` {.c #ch02-a}
int a;
```

``` {.c .changes #ch02-b replaces=ch02-a}
int b, c;
int d;
int e;
```
END
}
