-- The weave: sets book.md and its chapters as one book, in LaTeX or in HTML.
--
--   code/literate/book pdf  build/attention-in-stages.pdf       (make book)
--   code/literate/book html build/attention-in-stages.html      (make book-html; site/cut.lua makes pages of it)
--
-- both run, from the repository's root,
--
--   pandoc -f commonmark_x-emoji+sourcepos --lua-filter …/weave.lua --citeproc … book.md
--
-- and do the rest: they run LaTeX until the page numbers settle, search its log, and move the result into place.
-- DRAFT=1 sets unknown and stale numbers, references and charts in red instead of failing.
--
-- AUDIENCE=student leaves the solutions out: where a lab has a starter, the chapter has it instead of the chunk;
-- hints, and what catches a planted bug, are not told. AUDIENCE=teacher adds the solutions of all exercises, and
-- model answers. HANDOUT=4 sets only lab 4's sheet, for print.
--
-- book.md contains the preface, and in its metadata the chapters (`chapters:`, with `- part: Title` between
-- them) and what follows the appendices without a number (`back:`). A chapter whose file has capitals for a
-- number, SM-….md, is an interlude: its sections are SM.1, SM.2 and so on. Chunks come from chunks.lua, numbers
-- from runs.lua, tables of numbers from tables.lua, pictures from figures.lua, colours from highlight.lua.
-- Mistakes are collected and printed as `file:line: what`; then nothing is written, and the exit status is 83,
-- as for any failing filter of Pandoc.
--
-- The way of a chapter through the files of weave/: read.lua reads it, labels.lua numbers it, listings.lua sets
-- code, blocks.lua sets blocks, inlines.lua sets what is inside lines. solutions.lua has the answers of the
-- exercises; index.lua collects the marks on the way. This file sets headings, and the book around the chapters.

local here = pandoc.path.directory(PANDOC_SCRIPT_FILE)
package.path = here .. "/?.lua;" .. package.path
local chunks = require "chunks"
local figures = require "figures"
local blocks = require "weave.blocks"
local common = require "weave.common"
local index = require "weave.index"
local inlines = require "weave.inlines"
local listings = require "weave.listings"
local labels = require "weave.labels"
local read = require "weave.read"
local solutions = require "weave.solutions"
local LATEX, HANDOUT = common.LATEX, common.HANDOUT
local raw, raw_block = common.raw, common.raw_block
local escape, tex_label = common.escape, common.tex_label
local origin, where = common.origin, common.where
local fail, stop_on_failures = common.fail, common.stop_on_failures

---------------------------------------------------------------------------------------------------
-- A chapter

local HEADINGS = { "chapter", "section", "subsection", "subsubsection" }

local function set_header(el, chapter)
    local numbered = chapter.number and not el.classes:includes("unnumbered")
    if LATEX then
        local command = HEADINGS[math.min(el.level, 4)]
        if not numbered then
            command = el.level == 1 and "addchap" or el.level == 2 and "addsec*" or command .. "*"
        end
        local set = ""
        if el.level == 1 and numbered then
            local number = tonumber(chapter.number) or chapter.number:byte() - ("A"):byte() + 1
            set = string.format("\\setcounter{chapter}{%d}", number - 1)
            if chapter.interlude then
                set = "\\interlude{" .. chapter.number .. "}"
            end
        end
        local out = pandoc.List {
            raw(origin(el.attributes.line) .. "\n" .. set .. "\\" .. command .. "{"),
        }
        out:extend(el.content)
        out:insert(raw("}" .. tex_label(el.identifier)))
        return pandoc.Plain(out)
    end
    el.attributes = {}
    if el.level == 1 and chapter.interlude then
        el.content:insert(1, raw('<span class="number">Interlude</span> '))
    end
    for _, item in ipairs(chapter.contents) do
        if item.entry.id == el.identifier and item.entry.number then
            local word = item.level == 1 and (chapter.appendix and "Appendix " or "Chapter ") or ""
            el.content:insert(1, raw('<span class="number">' .. word .. item.entry.number
                .. "</span> "))
        end
    end
    if el.identifier ~= "" then
        el.content:insert(raw(common.link_here(el.identifier, el.level == 1 and "chapter" or "section")))
    end
    return el
end

local function set_chapter(chapter, book)
    common.reading = chapter
    local content = pandoc.walk_block(pandoc.Div(chapter.blocks), { Inlines = inlines.set }).content
    return pandoc.walk_block(pandoc.Div(content), {
        CodeBlock = function(el)
            local part = book.blocks[chapter.path .. ":" .. (el.attributes.line or "")]
            if el.classes:includes("tikz") then
                return blocks.picture(el, book)
            elseif part and part.owner.kind == "starter" and not part.owner.number then
                return {}
            elseif el.classes:includes("points") then
                return blocks.points(chapter.sheet, el.attributes.line)
            elseif part then
                return listings.chunk(part, book)
            end
            if el.attributes.from then
                return listings.excerpt(el)
            elseif el.attributes.recorded then -- the output of a program, kept in a file
                local file = io.open(el.attributes.recorded)
                if not file then
                    fail(where(el.attributes.line), "no recorded output " .. el.attributes.recorded)
                else
                    el.text = file:read("a"):gsub("\n+$", "")
                    file:close()
                end
                el.attributes.recorded = nil
            end
            return listings.listing(el)
        end,
        Table = blocks.table,
        Header = function(el) return set_header(el, chapter) end,
        Blocks = listings.join_later,
        Div = function(el)
            if el.classes:includes("rest") then
                return listings.rest(book)
            elseif el.classes:includes("figure") then
                return blocks.chart(el, book)
            elseif el.classes:includes("hints") then
                return blocks.hints(el)
            elseif el.classes:includes("question") then
                return blocks.question(el)
            elseif el.classes:includes("glossary") then
                return blocks.glossary(el)
            elseif el.classes:includes("teacher") then
                return common.TEACHER and el.content or {}
            end
            return blocks.box(el)
        end,
    }).content
end

---------------------------------------------------------------------------------------------------
-- The book

local function set_index(book)
    local entries = {}
    for _, chunk in ipairs(book.chunks) do
        table.insert(entries, chunk)
    end
    table.sort(entries, function(a, b)
        local x, y = a.display:lower(), b.display:lower()
        return x < y or x == y and a.chapter.index < b.chapter.index
    end)
    local out = {}
    for _, chunk in ipairs(entries) do
        local defined, used, seen = {}, {}, {}
        for _, part in ipairs(chunk.parts) do
            table.insert(defined, LATEX and "\\textbf{\\pageref{" .. part.label .. "}}"
                or '<a href="#' .. part.label .. '"><b>' .. part.number .. "</b></a>")
        end
        for _, use in ipairs(chunk.used_by) do
            local by = listings.part_at(use.chunk, use.line)
            if by and by.label and not seen[by] then
                seen[by] = true
                table.insert(used, LATEX and "\\pageref{" .. by.label .. "}"
                    or '<a href="#' .. by.label .. '">' .. by.number .. "</a>")
            end
        end
        local pages = table.concat(defined, ", ")
            .. (#used > 0 and "; used " .. table.concat(used, ", ") or "")
        local name = escape(chunk.display)
        if not chunk.file then
            name = "⟨" .. name .. "⟩"
        elseif LATEX then
            name = "\\code{" .. name:gsub("([/_])", "%1\\cbk{}") .. "}"
        else
            name = "<code>" .. name .. "</code>"
        end
        local before = out[#out] -- chunks of the same name are told apart by their chapters
        if before and before.name == name then
            table.insert(before, "chapter " .. chunk.chapter.number .. ": " .. pages)
        else
            table.insert(out, { name = name, number = chunk.chapter.number, pages })
        end
    end
    for i, entry in ipairs(out) do
        if #entry > 1 then
            entry[1] = "chapter " .. entry.number .. ": " .. entry[1]
        end
        local pages = table.concat(entry, " · ")
        out[i] = LATEX and "\\indexentry{" .. entry.name .. "}{" .. pages .. "}"
            or "<li>" .. entry.name .. " " .. pages .. "</li>"
    end
    if LATEX then
        return raw_block("\\addchap{Index of chunks}\\label{index-of-chunks}\n\\begin{chunkindex}\n"
            .. table.concat(out, "\n") .. "\n\\end{chunkindex}")
    end
    return raw_block('<h1 id="index-of-chunks">Index of chunks</h1>\n<ul class="index">'
        .. table.concat(out, "\n") .. "</ul>")
end

local function sidebar(sequence, has_index)
    local out = {}
    for _, item in ipairs(sequence) do
        if item.part then
            table.insert(out, '<p class="part">' .. escape(item.part) .. "</p>")
        else
            for _, heading in ipairs(item.contents) do
                local entry = heading.entry
                local number = entry.number
                    and '<span class="number">' .. entry.number .. "</span> " or ""
                table.insert(out, string.format('<a class="level%d" href="#%s">%s%s</a>',
                    heading.level, entry.id, number, escape(entry.title)))
            end
        end
    end
    table.insert(out, '<a class="level1" href="#bibliography">Bibliography</a>')
    table.insert(out, '<a class="level1" href="#index-of-chunks">Index of chunks</a>')
    table.insert(out, has_index and '<a class="level1" href="#index">Index</a>' or "")
    return table.concat(out, "\n")
end

-- A mark for site/cut.lua, which cuts the HTML there: the page `name` begins.
local function page_begins(name)
    return raw_block(LATEX and "" or "<!-- page " .. name .. " -->")
end

local function page_name(chapter)
    return chapter.appendix and "appendix-" .. chapter.number or chapter.interlude and "interlude-" .. chapter.number
        or chapter.number and "chapter" .. chapter.number or chapter.tag
end

-- Reads the book's order from the metadata: { part = title } or { path = chapter }.
local function read_spine(doc, spine)
    local sequence, paths = {}, {}
    if not doc.meta.chapters then
        fail(spine, "the metadata has no list of chapters")
    end
    for _, item in ipairs(doc.meta.chapters or {}) do
        if pandoc.utils.type(item) == "table" and item.part then
            table.insert(sequence, { part = pandoc.utils.stringify(item.part) })
        else
            local path = pandoc.utils.stringify(item)
            table.insert(paths, path)
            table.insert(sequence, { path = path })
        end
    end
    return sequence, paths
end

-- Finds the place for what is printed later: `::: {.rest}`, which the book has once.
local function find_rest(book)
    for _, chapter in ipairs(book.chapters) do
        pandoc.walk_block(pandoc.Div(chapter.blocks), { Div = function(el)
            if el.classes:includes("rest") and listings.rest_number then
                fail(chapter.path .. ":" .. el.attributes.line, "a second place for the rest of the programs")
            elseif el.classes:includes("rest") then
                listings.rest_number = chapter.number
            end
        end })
    end
    for _, part in ipairs(book.parts) do
        if part.later and not listings.rest_number then
            fail(part.file .. ":" .. part.line, "chunk %s is printed later, and no chapter has a place for the "
                .. "rest of the programs: ::: {.rest}", part.owner.id)
        end
    end
end

-- Reads a chapter that has neither number nor chunks.
local function read_unnumbered(path)
    local chapter = { path = path, tag = path:match("([^/]*)%.md$"), counts = {} }
    local file = io.open(path)
    if not file then
        fail(path, "cannot be read")
        stop_on_failures()
    end
    common.reading = chapter
    chapter.document = pandoc.read(file:read("a"), "commonmark_x-emoji+sourcepos")
    file:close()
    read.chapter(chapter)
    return chapter
end

-- The div of a chapter that is its lab.
local function lab_blocks(chapter)
    for _, block in ipairs(chapter.blocks) do
        if block.t == "Div" and block.classes:includes("lab") then
            return block.content
        end
    end
end

local function set_handout(doc, order, book)
    for _, chapter in ipairs(order) do
        if chapter.sheet and chapter.sheet.number == HANDOUT then
            common.reading = chapter
            chapter.blocks = lab_blocks(chapter)
            doc.blocks = set_chapter(chapter, book)
            stop_on_failures()
            doc.meta.handout = pandoc.MetaString(tostring(HANDOUT))
            doc.meta["handout-title"] = pandoc.MetaString(chapter.sheet.title or "")
            doc.meta["handout-chapter"] = pandoc.MetaString(chapter.number)
            doc.meta.imprint = nil
            return doc
        end
    end
    io.stderr:write("lab ", HANDOUT, " has no sheet\n")
    os.exit(83)
end

function Pandoc(doc)
    local spine = PANDOC_STATE.input_files[1] or "book.md"
    local sequence, paths = read_spine(doc, spine)
    local book = chunks.load(pandoc.List(paths) .. solutions.paths(paths))
    for _, message in ipairs(book.errors) do
        table.insert(common.failures, message)
    end
    stop_on_failures()
    for _, chunk in ipairs(book.chunks) do
        local first = chunk.title:match("^" .. utf8.charpattern)
        chunk.display = chunk.file or first:upper() .. chunk.title:sub(#first + 1)
    end
    read.bibliography(doc)

    local preface = { path = spine, tag = "preface", counts = {} }
    common.reading = preface
    preface.blocks = read.blocks(doc.blocks)
    local order = { preface }
    for _, chapter in ipairs(book.chapters) do
        chapter.counts = {}
        listings.find_left_out(book, chapter)
        chapter.appendix = chapter.tag:match("^%u$") ~= nil
        chapter.interlude = chapter.tag:match("^%u%u") ~= nil
        chapter.number = chapter.tag:gsub("^0+", "") -- the number in the file's name
        common.reading = chapter
        read.chapter(chapter)
        table.insert(order, chapter)
    end
    local back = pandoc.List()
    for _, item in ipairs(doc.meta.back or {}) do
        back:insert(read_unnumbered(pandoc.utils.stringify(item)))
        if back[#back].tag == "solutions" then
            back:extend(solutions.chapters(book))
        end
    end
    order = pandoc.List(order) .. back
    for _, chapter in ipairs(order) do
        labels.chapter(chapter, book)
    end
    find_rest(book)
    if HANDOUT then
        return set_handout(doc, order, book)
    end
    local ok, trouble = figures.compile(labels.pictures, here, LATEX)
    if not ok then
        table.insert(common.failures, trouble)
        stop_on_failures()
    end

    local out, at = pandoc.List(), 1
    out:extend(set_chapter(preface, book))
    if LATEX then
        out:insert(raw_block("\\mainmatter"))
    end
    local contents = { preface }
    local in_appendix, part = false, nil
    for _, item in ipairs(sequence) do
        if item.part then
            table.insert(contents, item)
            local next = book.chapters[at] -- the part of the appendices has no number
            local command = next and next.appendix and "\\addpart{" or "\\part{"
            part = raw_block(LATEX and command .. escape(item.part) .. "}"
                or '<p class="part">' .. escape(item.part) .. "</p>")
        else
            local chapter = book.chapters[at]
            at = at + 1
            out:extend { page_begins(page_name(chapter)), part }
            part = nil
            if chapter.appendix and not in_appendix and LATEX then
                in_appendix = true
                out:insert(raw_block("\\appendix"))
            end
            table.insert(contents, chapter)
            local apart = LATEX and chapter.number == listings.rest_number
            if apart then -- a separate volume, with pages E1, E2, …: see code/literate/volumes
                out:insert(raw_block("\\begin{apart}{" .. chapter.number .. "}"))
            end
            out:extend(set_chapter(chapter, book))
            if apart then
                out:extend { set_index(book), raw_block("\\end{apart}") }
            end
            if chapter.interlude and LATEX then
                out:insert(raw_block("\\afterinterlude"))
            end
        end
    end
    out:insert(raw_block(LATEX and "\\backmatter" or ""))
    for _, chapter in ipairs(back) do
        table.insert(contents, chapter)
        if chapter.contents[1] and chapter.contents[1].level == 1 then -- solutions of a chapter have no page of
                                                                       -- their own
            out:insert(page_begins(page_name(chapter)))
        end
        out:extend(set_chapter(chapter, book))
    end
    out:insert(page_begins("bibliography"))
    out:insert(raw_block(LATEX and "\\addchap{Bibliography}\\label{bibliography}"
        or '<h1 id="bibliography">Bibliography</h1>'))
    out:insert(pandoc.Div({}, pandoc.Attr("refs")))
    if not (LATEX and listings.rest_number) then
        out:extend { page_begins("index-of-chunks"), set_index(book) }
    end
    local subjects = index.set()
    out:extend(subjects and { page_begins("subjects"), subjects } or {})
    stop_on_failures()

    for name, value in pairs(doc.meta) do
        local kind = pandoc.utils.type(value)
        if kind == "Inlines" then
            doc.meta[name] = pandoc.MetaInlines(read.blocks({ pandoc.Plain(value) })[1].content)
        elseif kind == "Blocks" then
            doc.meta[name] = pandoc.MetaBlocks(read.blocks(value))
        end
    end
    if not LATEX then
        doc.meta.sidebar = pandoc.MetaBlocks { raw_block(sidebar(contents, subjects ~= nil)) }
    end
    doc.meta.chapters, doc.meta.back = nil, nil
    doc.blocks = out
    return doc
end
