# Helpers for tests that work in a folder of their own.

# Copies the checkout, for tests that change a chapter or a record. The copy has only the first three
# chapters: they make a book, too, and are tangled in a sixth of the time.
# copy_tree FOLDER BUILT...: with time stamps, and with these parts of build/.
copy_tree() {
    local tree=$1
    shift
    mkdir -p "$tree"
    cp -a Makefile mk README.md book.md chapters code labs plots "$tree"
    rm -rf "$tree"/labs/work "$tree"/chapters/{0[4-9],[1-9][0-9],[A-Z]*}-*.md \
        "$tree"/chapters/solutions/{0[4-9],[1-9][0-9],[A-Z]}.md "$tree"/code/ch{0[4-9],[1-9][0-9]}_*
    [ $# -eq 0 ] || cp -a --parents "$@" "$tree"
}

# Pandoc 2.17 turns the argument of -f into lower case, and the checkout's path may have capitals: so
# a reader of code/literate is named relative to the current folder.
# read_by READER.lua ARGUMENT...
read_by() {
    ln -sfn "$BATS_TEST_DIRNAME" literate
    pandoc -f "literate/$1" "${@:2}"
}
