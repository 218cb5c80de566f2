-- Tangle: writes the programs of the chapters. Run from the repository's root, chapters in order:
--
--   pandoc -f code/literate/tangle.lua chapters/*.md                  writes
--   TANGLE=check pandoc -f code/literate/tangle.lua chapters/*.md     only compares code/
--
-- (Pandoc 2.17 makes letters after -f small, so the path to this file has no capital.) Pandoc takes this
-- file for a reader of documents; it writes programs instead, and ends. Files are written only if their
-- text changed:
--
--   code/chNN_name.cu|.c                  clean text, the chunks' titles as comments; committed
--   build/tangled/chNN_name.cu            without these titles, but with #line, so that errors name the chapter
--   build/starters/chNN_name.cu           what a student gets, if the chapter has starters for it:
--                                         clean text, too
--   build/labs/labNN.json                 the lab's points, tasks, hints and questions
--   build/mutants/chNN_name.MUTANT.cu     one planted bug a file
--   build/mutants/list.tsv                program, mutant, chunk, what it breaks, and at which
--                                         shapes if the chapter says so
--   build/answers/chNN_name.ANSWER.cu     a program changed as an exercise asks (chapters/solutions/);
--                                         their paths are in build/answers/list
--
-- Files of earlier runs that no chapter makes any more are removed from build/; those in code/ are named
-- on stderr. If a chapter has an error, all errors are listed as path:line: message, nothing is written,
-- and the exit status is 1. chunks.lua describes the syntax, titles.lua the clean text.
package.path = pandoc.path.directory(PANDOC_SCRIPT_FILE) .. "/?.lua;" .. package.path
local chunks = require "chunks"
local sheets = require "sheets"
local titles = require "titles"

local OWN_FOLDERS = { "build/tangled", "build/starters", "build/mutants", "build/labs", "build/answers" }

local function fail(...)
    io.stderr:write(string.format(...), "\n")
    os.exit(1)
end

-- The program for the compiler, with #line before each line that does not follow the line above it in the chapter.
local function mapped(root, swap, define)
    local out, file, line = { define and "#define " .. define }, nil, nil
    for _, entry in ipairs(chunks.expand(root, swap)) do
        if entry.text then
            if entry.file ~= file or entry.line ~= line then
                table.insert(out, string.format('#line %d "%s"', entry.line, entry.file))
            end
            file, line = entry.file, entry.line + 1
            table.insert(out, entry.text)
        end
    end
    return table.concat(out, "\n") .. "\n"
end

local function name_of(root)
    return root.file:match("([^/]*)(%.%w+)$")
end

-- All files of the book: { path, text }.
local function tangle(book)
    local files, list, answers = {}, {}, {}
    local function add(path, text)
        table.insert(files, { path = path, text = text })
    end
    for _, root in ipairs(book.roots) do
        local name, extension = name_of(root)
        local starters = chunks.starters(book, root)
        add(root.file, titles.program(root))
        add("build/tangled/" .. name .. extension, mapped(root))
        if next(starters) then
            add("build/starters/" .. name .. extension, titles.program(root, starters))
        end
    end
    for _, variant in ipairs(book.variants) do
        for _, root in ipairs(variant.kind == "mutant" and variant.programs or {}) do
            local name, extension = name_of(root)
            add("build/mutants/" .. name .. "." .. variant.name .. extension,
                mapped(root, { [variant.chunk] = variant }, variant.define))
            table.insert(list, table.concat({ name, variant.name, variant.of, variant.breaks,
                variant.shapes }, "\t") .. "\n")
        end
    end
    add("build/mutants/list.tsv", table.concat(list))
    for _, answer in ipairs(chunks.answers(book)) do
        local name, extension = name_of(answer.root)
        local path = "build/answers/" .. name .. "." .. answer.name .. extension
        add(path, mapped(answer.root, answer.swap))
        table.insert(answers, path .. "\n")
    end
    if #answers > 0 then
        add("build/answers/list", table.concat(answers))
    end
    for _, chapter in ipairs(book.chapters) do
        if chapter.sheet then
            add("build/labs/lab" .. chapter.tag .. ".json", sheets.json(chapter.sheet))
        end
    end
    return files
end

local function read(path)
    local input = io.open(path, "rb")
    local text = input and input:read("a")
    if input then
        input:close()
    end
    return text
end

-- Files in a folder that an earlier tangle may have left, and what was compiled from them.
local function leftovers(folder, pattern, files)
    local made, left = {}, {}
    for _, file in ipairs(files) do
        local program = file.path:gsub("%.cu?$", "")
        made[file.path], made[program], made[program .. ".part"] = true, true, true
    end
    local listing = io.popen("ls " .. folder .. " 2>/dev/null")
    for name in listing:lines() do
        local path = folder .. "/" .. name
        if name:match(pattern) and not made[path] then
            table.insert(left, path)
        end
    end
    listing:close()
    return left
end

local function stray_programs(files)
    return leftovers("code", "^ch%w+_[%w_]+%.cu?$", files)
end

local function check(files)
    local fine = true
    for _, file in ipairs(files) do
        if file.path:match("^code/") and read(file.path) ~= file.text then
            fine = false
            io.stderr:write(file.path, ": is not what its chapter says; run `make tangle`\n")
        end
    end
    for _, path in ipairs(stray_programs(files)) do
        fine = false
        io.stderr:write(path, ": no chapter makes this file\n")
    end
    os.exit(fine and 0 or 1)
end

-- Writes the changed files: first all of them to a temporary folder, then each to its place.
local function write(files)
    local changed = {}
    for _, file in ipairs(files) do
        if read(file.path) ~= file.text then
            table.insert(changed, file)
        end
    end
    local folders = "code build/tangled build/starters build/mutants"
    for _, folder in ipairs { "build/labs", "build/answers" } do -- these exist only for books with labs
                                                                 -- or answers
        for _, file in ipairs(changed) do
            if file.path:sub(1, #folder) == folder then
                folders = folders .. " " .. folder
                break
            end
        end
    end
    if #changed > 0 and not os.execute("mkdir -p " .. folders .. " 2>/dev/null") then
        fail("%s: cannot be created", folders)
    end
    local function put(temporary)
        for i, file in ipairs(changed) do
            local output, why = io.open(temporary .. "/" .. i, "wb")
            local done = output and output:write(file.text) and output:close()
            if not done then
                return file.path .. ": cannot be written: " .. (why or "is the disk full?")
            end
        end
        for i, file in ipairs(changed) do
            local done, why = os.rename(temporary .. "/" .. i, file.path)
            if not done then
                return file.path .. ": cannot be written: " .. why
            end
        end
    end
    local problem = #changed > 0
        and pandoc.system.with_temporary_directory("build", "tangle", put)
    if problem then
        fail("%s", problem)
    end
    for _, file in ipairs(changed) do
        print(file.path)
    end
end

local function clear(files)
    for _, folder in ipairs(OWN_FOLDERS) do
        for _, path in ipairs(leftovers(folder, "^%l+%d", files)) do
            os.remove(path)
        end
    end
    for _, path in ipairs(stray_programs(files)) do
        io.stderr:write("note: ", path, ": no chapter makes this file\n")
    end
end

function Reader(sources)
    local paths = {}
    for _, source in ipairs(sources) do
        table.insert(paths, source.name)
    end
    local book = chunks.load(paths)
    if #book.errors > 0 then
        fail("%s", table.concat(book.errors, "\n"))
    end
    local files = tangle(book)
    if os.getenv("TANGLE") == "check" then
        check(files)
    end
    write(files)
    clear(files)
    os.exit(0)
end
