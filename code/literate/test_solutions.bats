# Solutions: which exercises have one, what each edition prints of them, and what their commands
# print.

load ../test/test_tree

setup_file() {
    export literate=$BATS_TEST_DIRNAME root=$BATS_TEST_DIRNAME/../..
}

setup() {
    cd "$BATS_TEST_TMPDIR"
    mkdir -p chapters/solutions build
    cat >book.md <<'END'
---
title: Sums
chapters:
- chapters/02-sum.md
back:
- chapters/solutions.md
---

# Preface {.unnumbered #preface}
END
    cat >chapters/02-sum.md <<'END'
# Sums {#sec-sum}

``` {.c file=code/ch02_sum.c}
int main(void)
{
    int total = 0;
    <<ch02-add>>
    <<ch02-tell>>
}
```

``` {.c #ch02-add}
total += 1;
```

``` {.c #ch02-tell}
return total != 1;
```

::: {.exercises}
## Exercises {#sec-02-exercises}

1. ★ (2 points) What is one and one?
2. ★★★ (6 points) Add two.
:::
END
    cat >chapters/solutions.md <<'END'
# Solutions {.unnumbered #sec-solutions}

Said to all.

::: {.teacher}
Said to teachers.
:::
END
    cat >chapters/solutions/02.md <<'END'
::: {.solution of=1}
It is two, as [](#sec-sum) has it.
:::

::: {.solution of=2}
``` {.c .answer of=ch02-add name=two}
total += 2;
```

``` {.c .answer of=ch02-tell name=two}
return total != 2;
```

The end of the second.
:::
END
}

tangle() {
    read_by tangle.lua chapters/*.md chapters/solutions/*.md
}

# The book's text in one line.
weave() { # [AUDIENCE]
    AUDIENCE=${1-} "$literate/book" html build/out
    sed -E 's/<[^>]*>//g' build/out | tr -s ' \n' ' '
}

expect_errors() { # LINE...
    status=0
    "$literate/book" html build/out >stdout 2>stderr || status=$?
    printf '%s\n' "$@" | diff - stderr
    [ "$status" -ne 0 ]
    [ ! -e build/out ]
}

@test "answers of one name become one program, with the chapter's other chunks" {
    mkdir code
    read_by tangle.lua chapters/02-sum.md chapters/solutions/02.md >written
    grep -qx build/answers/ch02_sum.two.c written
    [ "$(cat build/answers/list)" = build/answers/ch02_sum.two.c ]
    [ "$(grep -v '^#line' build/answers/ch02_sum.two.c)" = "int main(void)
{
    int total = 0;
    total += 2;
    return total != 2;
}" ]
    grep -qx '#line 7 "chapters/solutions/02.md"' build/answers/ch02_sum.two.c
    grep -q 'total += 1;' code/ch02_sum.c
    sed -i 's/ name=two/ name=deux/' chapters/solutions/02.md
    read_by tangle.lua chapters/02-sum.md chapters/solutions/02.md >/dev/null
    [ "$(ls build/answers)" = "ch02_sum.deux.c
list" ]
    touch build/answers/ch02_sum.{deux,two}{,.part} # programs compiled from an answer are removed with it
    read_by tangle.lua chapters/02-sum.md chapters/solutions/02.md >/dev/null
    [ "$(ls build/answers)" = "ch02_sum.deux
ch02_sum.deux.c
ch02_sum.deux.part
list" ]
}

@test "an answer in the wrong form is named by its line" {
    cat >chapters/solutions/02.md <<'END'
``` {.c .answer of=ch02-add name=two}
total += 1;
```

``` {.c .answer of=ch02-tell name=two}
return 0;
```

``` {.c .answer of=ch02-tell name=two}
return 1;
```

``` {.c .answer of=ch02-gone name=three}
```

``` {.c .answer of=ch02-tell}
return 2;
```

``` {.c .mutant of=ch02-tell name=bug breaks=all}
return 3;
```

``` {.c #ch02-new}
```
END
    printf '\n``` {.c .answer of=ch02-tell name=here}\nreturn 4;\n```\n' >>chapters/02-sum.md
    n=$(grep -n 'name=here' chapters/02-sum.md | cut -d: -f1)
    status=0
    read_by tangle.lua chapters/02-sum.md chapters/solutions/02.md 2>stderr || status=$?
    diff - stderr <<END
chapters/02-sum.md:$n: answer of ch02-tell in a chapter
chapters/solutions/02.md:1: answer of ch02-add changes nothing
chapters/solutions/02.md:9: second answer for ch02-tell (first at chapters/solutions/02.md:5)
chapters/solutions/02.md:13: answer of the unknown chunk ch02-gone
chapters/solutions/02.md:16: answer of ch02-tell without a name= of letters, digits and dashes
chapters/solutions/02.md:20: mutant of ch02-tell in a file of solutions
chapters/solutions/02.md:24: a chunk in a file of solutions: an answer has of= and name=
END
    [ "$status" -eq 1 ]
    [ ! -e build/answers ]
}

@test "every edition answers the exercises with one star, the teacher's all of them" {
    for audience in '' student; do
        text=$(weave $audience)
        [[ $text == *"Said to all."*"2.1 ★ It is two, as chapter 2 has it."* ]]
        [[ $text != *"Said to teachers"* && $text != *"The end of the second"* && $text != *"total += 2"* ]]
    done
    text=$(weave teacher)
    [[ $text == *"Said to teachers."*"2.1 ★ It is two"*"2.2 ★★★"*"The end of the second."* ]]
    [[ $text == *"in place of ⟨Add⟩"*"total += 2;"* && $text != *"in place of"*"total += 1;"* ]]
    sed -i 's/^total += 1;$/int one = 1;\n&/; s/^total += 2;$/int one = 1;\n&/' chapters/02-sum.md chapters/solutions/02.md
    text=$(weave teacher)
    [[ $text == *"a change to ⟨Add⟩"*"total += 1;"*"total += 2;"* ]]
    AUDIENCE=teacher "$literate/book" pdf build/out.pdf
    pdftotext -layout build/out.pdf - >text
    grep -q '2.1 ★ It is two' text
    grep -q 'The end of the second' text
    run env AUDIENCE=nobody "$literate/book" html build/other
    [ "$status" -eq 1 ]
    [ "$output" = "book: AUDIENCE is student, teacher or nothing, not nobody" ]
}

@test "a student's book shows no difference to a chunk that is left for the student" {
    printf '\n``` {.c .starter for=ch02-add}\n// Your code\n```\n' >>chapters/02-sum.md
    sed -i 's/^It is two.*/&\n\n``` {.c .answer of=ch02-add name=three}\ntotal += 3;\n```/' chapters/solutions/02.md
    text=$(weave student)
    [[ $text == *"It is two"* && $text != *"total += "[13]* ]]
    text=$(weave)
    [[ $text == *"It is two"*"in place of ⟨Add⟩"*"total += 3;"* ]]
}

@test "an exercise without a solution, a solution of no exercise or out of order, and wrong stars are errors" {
    cp chapters/solutions/02.md whole
    sed -i '/of=2}/,$d' chapters/solutions/02.md
    expect_errors "chapters/02-sum.md: exercise 2 has no solution in chapters/solutions/02.md"
    { cat whole; printf '\n::: {.solution of=3}\nA third.\n:::\n'; } >chapters/solutions/02.md
    expect_errors "chapters/solutions/02.md:$(grep -n of=3 chapters/solutions/02.md | cut -d: -f1): a solution of 3, where no other comes next"
    sed 's/of=1}/of=2}/' whole >chapters/solutions/02.md
    expect_errors "chapters/solutions/02.md:1: a solution of 2, where that of 1 comes next"
    { cat whole; printf '\nA word.\n'; } >chapters/solutions/02.md
    expect_errors "chapters/solutions/02.md: what stands here is neither ::: {.solution of=1} nor ::: {.model of=1}"
    cp whole chapters/solutions/02.md
    n=$(grep -n '::: {.exercises}' chapters/02-sum.md | cut -d: -f1)
    sed -i 's/★★★ //' chapters/02-sum.md
    expect_errors "chapters/02-sum.md:$n: exercise 2 has 0 stars; one to three"
    rm chapters/solutions/02.md
    sed -i 's/^2\. /2. ★ /' chapters/02-sum.md
    expect_errors "chapters/02-sum.md: exercise 1 has no solution: there is no chapters/solutions/02.md"
}

@test "a model answer is of a question of the lab's sheet" {
    printf '\n::: {.model of=1}\nAn answer.\n:::\n' >>chapters/solutions/02.md
    expect_errors "chapters/solutions/02.md:$(grep -n 'model of=1}' chapters/solutions/02.md | tail -1 | cut -d: -f1): a model of 1, where no other comes next"
}

# Makes a tree with the tool and a chapter's solutions that consist of one block.
replayed() { # BLOCK
    mkdir -p labs/tools
    cp "$root/labs/tools/check-solutions" labs/tools/
    printf '::: {.solution of=1}\nText.\n\n``` {.check}\n%s\n```\n:::\n' "$1" >chapters/solutions/02.md
}

@test "the commands of solutions are run, and what they print is compared, or written" {
    replayed '$ echo one; echo two >&2
one
two
$ cat <<END
> a
> b
> END
a
b'
    run labs/tools/check-solutions
    [ "$status" -eq 0 ]
    [ "$output" = "chapters/solutions/02.md: 1 of 1 blocks print what they say" ]
    sed -i 's/^two$/three/' chapters/solutions/02.md
    run labs/tools/check-solutions
    [ "$status" -eq 1 ]
    [ "$output" = "chapters/solutions/02.md:5: prints something else
3c3
< three
---
> two
chapters/solutions/02.md: 0 of 1 blocks print what they say" ]
    run labs/tools/check-solutions --write
    [ "$status" -eq 0 ]
    [ "$output" = "chapters/solutions/02.md: 1 of 1 blocks written" ]
    run labs/tools/check-solutions
    [ "$status" -eq 0 ]
    printf 'No block.\n' >chapters/solutions/02.md
    run labs/tools/check-solutions
    [ "$status" -eq 1 ]
    run labs/tools/check-solutions none.md
    [ "$status" -eq 2 ]
    [ "$output" = "check-solutions: cannot read none.md" ]
}

@test "labs/tools/answer says what it wants, and what does not build" {
    cd "$root"
    run labs/tools/answer
    [ "$status" -eq 2 ]
    run labs/tools/answer ch02_scalar
    [ "$status" -eq 2 ]
    [ "$output" = "answer: which shape? labs/tools/answer ch02_scalar small" ]
    run labs/tools/answer ch02_scalar.none small
    [ "$status" -eq 3 ]
    [[ "$output" == *"build/answers/ch02_scalar.none"* ]]
    run labs/tools/answer ch04_cp_async.copy-late small barriers
    [ "$status" -eq 0 ]
    [[ "${lines[2]}" == "outputs "*" right "*" wrong, a race" ]]
}

@test "each command of the book's solutions prints what stands below it" {
    cd "$root"
    labs/tools/check-solutions
}

@test "the book has one solution for each exercise, and one model answer for each question, in order" {
    cd "$root"
    exercises=0 questions=0
    numbers() { # KIND: numbers of the divs in the file of solutions
        grep -oE "^::: \{\.$1 of=[0-9]+" "$file" | grep -oE '[0-9]+$' | xargs
    }
    mapfile -t asking < <(grep -l '^::: {\.exercises}' chapters/*.md)
    for chapter in "${asking[@]}"; do
        file=chapters/solutions/$(basename "$chapter" | cut -d- -f1).md
        here=$(sed -n '/^::: {\.exercises}/,/^:::$/p' "$chapter" | grep -cE '^[0-9]+\. ★{1,3} ')
        asked=$(grep -c '^::: {\.question ' "$chapter" || true)
        [ "$here" -gt 0 ]
        [ "$(numbers solution)" = "$(seq 1 "$here" | xargs)" ]
        [ "$(numbers model)" = "$(seq 1 "$asked" | xargs)" ]
        exercises=$((exercises + here)) questions=$((questions + asked))
    done
    [ "$exercises" -ge 85 ]
    [ "$questions" -ge 17 ]
    [ "$(grep -c '/[0-9][0-9]-' <(printf '%s\n' "${asking[@]}"))" -eq "$(ls chapters/[0-9][0-9]-*.md | wc -l)" ]
    [ "$(ls chapters/solutions | wc -l)" -eq "${#asking[@]}" ]
    grep -qx -- '- chapters/solutions.md' book.md
}
