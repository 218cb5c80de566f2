-- The solutions. chapters/solutions/03.md has those of chapter 3's exercises, each in a div,
--
--   ::: {.solution of=2}
--   ::: {.model of=1}       after them, for question 1 of the lab's sheet: an answer and how to mark it
--
-- in the order of the exercises. They are set after the chapter solutions.md of the back matter: in a
-- teacher's book all of them, in others those of exercises with one star.
--
--   solutions.paths(paths)       the files of solutions for these chapters
--   solutions.chapters(book)     called when the chapters have been read: the chapters to set, without numbers
--   solutions.exercises(chapter) { stars, line } for each exercise, in order
--
-- A book that has solutions.md fails if an exercise has no solution or two, or if stars and numbers do not
-- fit.

local common = require "weave.common"
local read = require "weave.read"
local LATEX, TEACHER = common.LATEX, common.TEACHER
local fail, raw_block = common.fail, common.raw_block

local solutions = {}

local function readable(path)
    local file = io.open(path)
    return file and (file:close() or true)
end

function solutions.paths(paths)
    local found = {}
    for _, path in ipairs(paths) do
        local folder, tag = path:match("^(.-)([^/]*)%-[^/]*%.md$")
        local name = folder and folder .. "solutions/" .. tag:match("^[^-]*") .. ".md"
        if name and readable(name) then
            table.insert(found, name)
        end
    end
    return found
end

local function in_class(block, class)
    return block.t == "Div" and block.classes:includes(class)
end

-- Finds the exercises in the lists of a chapter's `::: {.exercises}`. Its heading may come before the
-- div.
function solutions.exercises(chapter)
    local found = {}
    for _, div in ipairs(chapter.blocks) do
        if in_class(div, "exercises") then
            for _, block in ipairs(div.content) do
                for _, item in ipairs(block.t == "OrderedList" and block.content or {}) do
                    local words = pandoc.utils.stringify(pandoc.List(item):filter(function(inner)
                        return inner.t ~= "RawBlock" -- a RawBlock has the line for LaTeX
                    end)[1])
                    local stars = words:match("^[★]+") or ""
                    table.insert(found, { stars = utf8.len(stars) or 0, line = div.attributes.line })
                end
            end
        end
    end
    return found
end

-- Begins a div with words: at the beginning of its first paragraph or, if it begins with another block, in a
-- paragraph of their own.
local function begin_with(div, words)
    local first
    for _, block in ipairs(div.content) do -- a RawBlock with the line for LaTeX may come first
        first = first or block.t ~= "RawBlock" and block or nil
    end
    if first and (first.t == "Para" or first.t == "Plain") then
        first.content = words .. pandoc.List { pandoc.Space() } .. first.content
    else
        div.content:insert(1, pandoc.Para(words))
    end
    return div.content
end

-- Checks the divs of a file against the exercises that they solve; returns the blocks to set.
local function set_file(file, chapter, exercises)
    local out, count = pandoc.List(), { solution = 0, model = 0 }
    local questions = chapter.sheet and chapter.sheet.questions or {}
    local most = { solution = #exercises, model = #questions }
    for _, block in ipairs(file.blocks) do
        local kind = in_class(block, "solution") and "solution" or in_class(block, "model") and "model"
        local at = common.where(block.attributes and block.attributes.line)
        local of = kind and tonumber(block.attributes.of)
        if not kind then
            if block.t ~= "RawBlock" then
                fail(at, "what stands here is neither ::: {.solution of=1} nor ::: {.model of=1}")
            end
        elseif of ~= count[kind] + 1 or of > most[kind] then
            fail(at, "a %s of %s, where %s comes next", kind, block.attributes.of or "nothing",
                count[kind] < most[kind] and "that of " .. count[kind] + 1 or "no other")
            return out
        else
            count[kind] = of
            local stars = kind == "solution" and exercises[of].stars
            local head = kind == "solution" and chapter.number .. "." .. of
                or string.format("Lab %s, question %d (%d points).", chapter.number, of, questions[of].points)
            local words = pandoc.List { pandoc.Strong(head) }
            if stars then
                words:extend { pandoc.Space(), pandoc.Str(string.rep("★", stars)) }
            end
            if TEACHER or stars == 1 then
                out:extend(begin_with(block, words))
            end
        end
    end
    if count.solution < #exercises then
        fail(chapter.path, "exercise %d has no solution in %s", count.solution + 1, file.path)
    elseif count.model < #questions then
        fail(chapter.path, "question %d of its lab has no answer in %s", count.model + 1, file.path)
    end
    return out
end

function solutions.chapters(book)
    local set, by_tag = pandoc.List(), {}
    for _, file in ipairs(book.solutions) do
        by_tag[file.tag] = file
    end
    for _, chapter in ipairs(book.chapters) do
        local exercises, file = solutions.exercises(chapter), by_tag[chapter.tag]
        for i, exercise in ipairs(exercises) do
            if exercise.stars < 1 or exercise.stars > 3 then
                fail(chapter.path .. ":" .. exercise.line, "exercise %d has %d stars; one to three", i,
                    exercise.stars)
            end
        end
        if #exercises > 0 and not file then
            fail(chapter.path, "exercise 1 has no solution: there is no chapters/solutions/%s.md", chapter.tag)
        elseif file then
            common.reading = file
            read.chapter(file)
            local blocks = set_file(file, chapter, exercises)
            if #blocks > 0 then
                blocks:insert(1, raw_block(LATEX and "\\begin{solutions}" or '<div class="solutions">'))
                local word = chapter.appendix and "Appendix " or "Chapter "
                blocks:insert(1, pandoc.Header(2, pandoc.Str(word .. chapter.number),
                    pandoc.Attr("solutions-" .. chapter.tag, {}, { line = "1" })))
                blocks:insert(raw_block(LATEX and "\\end{solutions}" or "</div>"))
                set:insert { path = file.path, tag = "solutions-" .. file.tag, counts = {}, blocks = blocks }
            end
        end
    end
    return set
end

return solutions
