# A copy of the checkout to work in, for tests that change a chapter or a record. Of the book it has the
# first three chapters, which are a book, too, and are tangled in a sixth of the time.

# copy_tree FOLDER BUILT...: with time stamps, and with these parts of build/.
copy_tree() {
    local tree=$1
    shift
    mkdir -p "$tree"
    cp -a Makefile README.md book.md chapters code labs plots "$tree"
    rm -rf "$tree"/labs/work "$tree"/chapters/{0[4-9],[1-9][0-9],[A-Z]*}-*.md \
        "$tree"/chapters/solutions/{0[4-9],[1-9][0-9],[A-Z]}.md "$tree"/code/ch{0[4-9],[1-9][0-9]}_*
    [ $# -eq 0 ] || cp -a --parents "$@" "$tree"
}
