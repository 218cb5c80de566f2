-- Sets code: chunks with their names and links, starters, planted bugs as differences, and listings that are not
-- chunks.
--
--   listings.find_left_out(book, chapter)   finds what a student's book leaves out; called before the chapter is set
--   listings.chunk(part, book)              a part of a chunk or variant (chunks.lua), or a pointer to where it
--                                           is printed later
--   listings.join_later(list)               makes one line of pointers that follow one another
--   listings.rest(book)                     all that is printed later
--   listings.rest_number                    the number of its appendix; set before the chapters are
--   listings.listing(block)                 any other code block
--   listings.excerpt(block)                 lines of a file of the repository: from=, first=, last=
--   listings.part_at(owner, line)           the part of a chunk that contains this line of the chapter

local chunks = require "chunks"
local highlight = require "highlight"
local sheets = require "sheets"
local common = require "weave.common"
local LATEX, STUDENT, HANDOUT = common.LATEX, common.STUDENT, common.HANDOUT
local raw_block, escape = common.raw_block, common.escape
local escape_code, origin = common.escape_code, common.origin
local where, fail = common.where, common.fail

local listings = {}

local REST_COLUMNS = 66 -- characters in a line of code of the appendix, which has two columns a page
local MARGIN = { added = "a", removed = "r" }

-- Breaks a line's tokens, at blanks, into rows of at most `width` columns; further rows are indented more.
local FURTHER_IN = { by = 8, most = 24 }

local function wrap(tokens, width)
    local words = {} -- { blanks, columns, tokens }: tokens that stay together
    for _, token in ipairs(tokens) do
        for blanks, text in token[2]:gmatch("( *)([^ ]*)") do
            if #blanks > 0 or #words == 0 then
                table.insert(words, { blanks = blanks, columns = 0, tokens = {} })
            end
            local word = words[#words]
            word.columns = word.columns + (utf8.len(text) or #text)
            table.insert(word.tokens, { token[1], text })
        end
    end
    local further = (" "):rep(math.min(#words[1].blanks + FURTHER_IN.by, FURTHER_IN.most))
    local rows, row, columns = {}, {}, 0
    for i, word in ipairs(words) do
        if columns + #word.blanks + word.columns > width then
            rows[#rows + 1] = i > 1 and row or nil
            row, columns, word.blanks = {}, 0, further
        end
        table.insert(row, { nil, word.blanks })
        table.move(word.tokens, 1, #word.tokens, #row + 1, row)
        columns = columns + #word.blanks + word.columns
    end
    table.insert(rows, row)
    return rows
end

-- Sets one line of code as rows. line: { text } or { ref = chunk }; `mark`: nil, "added" or "removed".
local function set_tokens(line, language, state, width)
    if line.ref then
        local title, part = escape(line.ref.display), line.ref.parts[1]
        if LATEX then
            if HANDOUT then
                return { escape_code(line.indent) .. "⟨\\textit{" .. title .. "}⟩" }
            end
            return { escape_code(line.indent) .. "\\chunkref{" .. part.label .. "}{" .. title .. "}" }
        end
        return { string.format('%s<a class="ref" href="#%s">⟨%s⟩</a><span class="no">%s</span>',
            line.indent, part.label, title, part.number) }
    end
    local rows = { highlight.line(line.text, language, state) }
    if width and (utf8.len(line.text) or #line.text) > width then
        rows = wrap(rows[1], width)
    end
    for i, row in ipairs(rows) do
        local out = {}
        for _, token in ipairs(row) do
            local class, text = token[1], escape_code(token[2])
            if not class then
                table.insert(out, text)
            elseif LATEX then
                table.insert(out, string.format("\\T%s{%s}", class, text))
            else
                table.insert(out, string.format('<span class="%s">%s</span>', class, text))
            end
        end
        rows[i] = table.concat(out)
    end
    return rows
end

-- Says where a page may end between two lines: preferably after a blank line, never within a short chunk, and never
-- so that only a few lines are on one of the pages.
local function page_break(lines, i, width)
    local short, head, tail = 9, 3, 4
    if width then
        short, head, tail = 5, 2, 2
    end
    if #lines <= short or i < head or i > #lines - tail then
        return "\\cn"
    elseif lines[i].text == "" then
        return "\\cg"
    end
    return "\\cb"
end

-- Sets references to chunks, one below the other in a program, as one paragraph; returns the index of the last
-- reference, or nil, and sets nothing, if there is only one.
local function set_run(lines, i, out)
    local names, last = {}, i
    for j = i, #lines do
        if lines[j].ref and lines[j].indent == "" then
            local part = lines[j].ref.parts[1]
            table.insert(names, "\\chunkref{" .. part.label .. "}{" .. escape(lines[j].ref.display) .. "}")
            last = j
        elseif lines[j].text ~= "" then
            break
        end
    end
    if #names > 1 then
        table.insert(out, "\\chunkrun{" .. table.concat(names, ", ") .. "}")
        return last
    end
end

-- Sets lines of code. With a `width`, as in the appendix, they are broken to it and set close together.
local function set_lines(lines, language, width)
    local out, state, run_ends = {}, {}, 0
    local function set(line, i)
        local rows = set_tokens(line, language, line.mark == "removed" and {} or state, width)
        for j, content in ipairs(rows) do
            if LATEX then
                table.insert(out, string.format("\\cl{%s}{%s}%s", MARGIN[line.mark] or "", content,
                    j < #rows and "\\cn" or i < #lines and page_break(lines, i, width) or ""))
            else
                table.insert(out, line.mark
                    and string.format('<span class="%s">%s</span>', line.mark, content) or content)
            end
        end
    end
    for i, line in ipairs(lines) do
        run_ends = width and i > run_ends and line.ref and set_run(lines, i, out) or run_ends
        if width and line.text == "" then
            out[#out + 1] = i > run_ends and "\\lineblank" or nil
        elseif i > run_ends then
            set(line, i)
        end
    end
    if LATEX then
        return "\\begin{codelines}\n" .. table.concat(out, "\n") .. "\n\\end{codelines}"
    end
    return "<pre><code>" .. table.concat(out, "\n") .. "\n</code></pre>"
end

local function plain_lines(text)
    local lines = {}
    for line in (text .. "\n"):gmatch("(.-)\n") do
        table.insert(lines, { text = line })
    end
    return lines
end

local function chunk_link(part, with_chapter)
    local owner = part.owner
    local of = with_chapter and " of chapter " .. owner.chapter.tag:gsub("^0", "") or ""
    if HANDOUT then
        return "⟨\\textit{" .. escape(owner.display) .. "}⟩" .. of
    end
    if LATEX then
        return string.format("\\%sname{%s}{%s}%s (p.~\\pageref{%s})",
            owner.file and "root" or "chunk", part.label, escape(owner.display), of, part.label)
    end
    local name = escape(owner.display)
    return string.format('<a href="#%s">%s</a> <span class="no">%s</span>%s', part.label,
        owner.file and "<code>" .. name .. "</code>" or "⟨" .. name .. "⟩", part.number, of)
end

local function page(part, label)
    label = label or part.label
    if LATEX then
        return string.format("p.~\\pageref{%s}", label)
    end
    return string.format('<a href="#%s">%s</a>', label, part.number)
end

function listings.part_at(owner, line)
    for _, part in ipairs(owner.parts) do
        if line >= part.first and line < part.first + #part.lines then
            return part
        end
    end
end

local function count(n, noun)
    return n .. " " .. noun .. (n == 1 and "" or "s")
end

local function list_words(words)
    if #words < 2 then
        return words[1]
    end
    return table.concat(words, ", ", 1, #words - 1) .. " and " .. words[#words]
end

-- The small line below a chunk: used in, continued, replaces, replaced by. On paper "continued" is left out, and
-- "used in" names one place, in another chapter, and counts the rest: the index names them all.
local MOST_USERS = LATEX and 1 or 3
local function footer(part)
    local owner, out = part.owner, {}
    if part.index == 1 and not owner.file then
        local users, seen = {}, {}
        for _, use in ipairs(owner.used_by) do
            local by = listings.part_at(use.chunk, use.line)
            if by and by.label and not seen[by] and not (LATEX and by.owner.chapter == owner.chapter) then
                seen[by] = true
                table.insert(users, chunk_link(by, LATEX))
            end
        end
        if #users > MOST_USERS then
            local named = math.max(1, MOST_USERS - 1)
            users = { table.concat(users, ", ", 1, named), #users - named .. " more" }
        end
        if #users > 0 then
            table.insert(out, "Used in " .. list_words(users))
        end
    elseif part.index > 1 and not LATEX then
        table.insert(out, "Continues from " .. page(owner.parts[part.index - 1]))
    end
    local after = owner.parts[part.index + 1]
    if after and not LATEX then
        table.insert(out, "continued in " .. page(after))
    end
    if part.index == 1 and owner.replaces then
        local _, added, removed = chunks.changes(owner)
        table.insert(out, string.format("replaces %s: %s added, %d removed",
            chunk_link(owner.replaces.parts[1], true), count(added, "line"), removed))
    end
    if part.index == 1 and #owner.replaced_by > 0 then
        local by = {}
        for _, chunk in ipairs(owner.replaced_by) do
            table.insert(by, chunk_link(chunk.parts[1], true))
        end
        if #by > 2 then
            by = { by[1], (#by - 1) .. " more" }
        end
        table.insert(out, "replaced by " .. list_words(by))
    end
    if #out == 0 then
        return nil
    end
    local text = table.concat(out, " · ")
    return text:sub(1, 1):upper() .. text:sub(2)
end

-- The lines of one part, with references resolved; lines that the replaced chunk lacks are marked.
local function part_lines(part)
    local owner, targets, new = part.owner, {}, {}
    for _, use in ipairs(owner.uses) do
        targets[use.file .. ":" .. use.line] = use.chunk
    end
    if owner.replaces then
        for _, entry in ipairs((chunks.changes(owner))) do
            if entry.op == "added" then
                new[entry.index] = true
            end
        end
    end
    local lines = {}
    for i, text in ipairs(part.lines) do
        local line = { text = text, ref = targets[part.file .. ":" .. part.first + i - 1] }
        line.indent = text:match("^%s*")
        line.mark = new[part.offset + i] and text ~= "" and "added" or nil
        table.insert(lines, line)
    end
    return lines
end

-- A mutant as a difference; or a chunk as a difference from the one that it replaces.
local function changed_lines(owner, book)
    local lines = {}
    for _, entry in ipairs(chunks.difference(owner)) do
        if entry.skipped then
            table.insert(lines, { text = "..." })
        end
        local name = entry.text:match("^%s*<<([%w][%w_./-]*)>>%s*$")
        table.insert(lines, {
            text = entry.text, ref = name and book.chunks[name],
            indent = entry.text:match("^%s*"),
            mark = entry.op ~= "same" and entry.op or nil,
        })
    end
    return lines
end

local function chunk_head(class, part, name, sign, remark, label)
    label = label or part.label
    if LATEX then
        return string.format("\\%s{%s}{%s}{%s}{%s}", class, label, name, sign, remark)
    end
    if class == "chunkhead" then
        name = "⟨" .. name .. "⟩"
    end
    -- Marks which lines of the chapter these are, so that lines of a film lead here (site/cut.lua).
    local lines = part.owner.parts and not part.owner.kind and #part.lines > 0
        and string.format(' data-lines="%s:%d-%d"', part.file, part.first, part.first + #part.lines - 1) or ""
    return string.format('<div class="chunk %s" id="%s"%s><p class="head"><span class="name">%s%s%s'
        .. '</span><span class="remark">%s</span></p>', class, label, lines, name, sign,
        common.link_here(label, "chunk"), remark)
end

-- The head of a task of a lab's sheet, printed above its starter.
local function task_head(owner, part)
    local sheet = owner.chapter.sheet
    local stars = string.rep("★", owner.stars)
    return chunk_head("taskhead", part, "Task " .. owner.number .. ": " .. escape(owner.title), "",
        stars .. " " .. escape(sheets.what_hangs_on(sheet, owner.earns)))
end

local function task_foot(owner)
    local command = string.format("./lab%d --hint %d", owner.chapter.sheet.number, owner.number)
    return "Instead of " .. chunk_link(owner.chunk.parts[1]) .. " · hints: "
        .. (LATEX and "\\code{" .. escape(command) .. "}" or "<code>" .. command .. "</code>")
end

-- What a student's book has instead of a chunk of this chapter: a starter; or, if only solutions use the chunk,
-- "hidden", a comment that says that it is left out.
local left_out = {} -- chapter -> chunk -> starter or "hidden"

function listings.find_left_out(book, chapter)
    local out, kept = {}, {}
    local function keep(owner, swap)
        if not kept[owner] then
            kept[owner] = true
            for _, use in ipairs(owner.uses) do
                keep(swap[use.chunk] or use.chunk, swap)
            end
        end
    end
    for _, root in ipairs(book.roots) do
        if root.chapter == chapter then
            local swap = chunks.starters(book, root)
            for chunk, starter in pairs(swap) do
                out[chunk] = starter
            end
            keep(swap[root] or root, swap)
        end
    end
    for _, chunk in ipairs(book.chunks) do
        for _, root in ipairs(chunk.programs) do
            local here = chunk.chapter == chapter and root.chapter == chapter
            if here and not kept[chunk] and not out[chunk] then
                out[chunk] = "hidden"
            end
        end
    end
    left_out[chapter] = out
end

local function instead_of(chunk)
    return STUDENT and (left_out[chunk.chapter] or {})[chunk]
end

-- Two labels of a part that is printed later: printed_at() where its lines are, told_at() at its place in the chapter.
-- References lead to part.label: the place in the chapter if that shows the difference, else the lines.
local function printed_at(part)
    return part.changes and "whole:" .. part.owner.id or part.label
end

local function told_at(part)
    return part.changes and part.label or "later:" .. part.owner.id .. ":" .. part.index
end

local function told_on(part)
    if LATEX then
        return "p.~\\pageref{" .. told_at(part) .. "}"
    end
    return string.format('<a href="#%s">chapter %s</a>', told_at(part), part.owner.chapter.number)
end

-- What the chapter shows for a part that is printed later.
local function pointer(part)
    local text = string.format(LATEX and "\\laterpart{%s}{%s}" or '<span id="%s">%s</span>', told_at(part),
        chunk_link(part))
    return pandoc.Div({ pandoc.Plain { common.raw(text) } }, pandoc.Attr("", { "later" }, { told = told_at(part) }))
end

-- Makes one line of pointers that follow one another. On paper it names at most three: the index of chunks has them
-- all.
local MOST_POINTERS = LATEX and not HANDOUT and 3 or math.huge
function listings.join_later(list)
    local out, before = pandoc.List(), nil
    for _, block in ipairs(list) do
        local later = block.t == "Div" and block.classes:includes("later")
        if later and not before then
            before = pandoc.List()
            out:insert(before)
        elseif not later then
            before = nil
            out:insert(block)
        end
        if later then
            before:insert(block)
        end
    end
    for i, pointers in ipairs(out) do
        if pandoc.utils.type(pointers) == "List" then
            local first = LATEX and "\\laterline{" or '<p class="later">'
            first = first .. "Printed in appendix " .. (listings.rest_number or "?") .. ": "
            local line = pandoc.List { common.raw(first) }
            local named = #pointers > MOST_POINTERS and MOST_POINTERS - 1 or #pointers
            for j, place in ipairs(pointers) do
                if j <= named then
                    line:insert(common.raw(j > 1 and ", " or ""))
                    line:extend(place.content[1].content)
                else
                    line:insert(common.raw("\\laterpart{" .. place.attributes.told .. "}{}"))
                end
            end
            line:insert(common.raw(named < #pointers and " and " .. #pointers - named .. " more" or ""))
            line:insert(common.raw(LATEX and "}" or "</p>"))
            out[i] = pandoc.Plain(line)
        end
    end
    return out
end

function listings.chunk(part, book, is_rest)
    local owner = part.owner
    local head, lines, foot
    if (owner.kind == "mutant" or owner.kind == "answer") and instead_of(owner.chunk) then
        return {} -- the difference would show what the student has to write
    elseif part.later and not part.changes and not is_rest and not (instead_of(owner) and part.index > 1) then
        return pointer(part)
    elseif owner.kind == "starter" then
        head, lines, foot = task_head(owner, part), part_lines(part), task_foot(owner)
    elseif owner.kind == "answer" then
        -- A part that has little in common with the chunk that it replaces is printed whole.
        local _, added = chunks.changes(owner)
        local whole = 2 * added > #part.lines
        head = chunk_head("answerhead", part, escape(owner.name), "",
            (whole and "in place of " or "a change to ") .. chunk_link(owner.chunk.parts[1]))
        lines = whole and part_lines(part) or changed_lines(owner, book)
    elseif owner.kind then
        head = chunk_head("mutanthead", part, escape(owner.name), "", STUDENT and "" or
            "must be caught by: " .. escape(owner.breaks or "")
            .. (owner.shapes and " at " .. escape(owner.shapes) or "")
            .. (owner.define and " with " .. escape(owner.define) or ""))
        lines = changed_lines(owner, book)
        foot = "A change to " .. chunk_link(owner.chunk.parts[1])
        if owner.loses and not STUDENT then
            foot = foot .. " · " .. escape(sheets.what_it_costs(owner.chapter.sheet, owner))
        end
    else
        local sign = part.index > 1 and " +≡" or owner.file and "" or " ≡"
        local class = owner.file and "roothead" or "chunkhead"
        local number = (LATEX and "" or "chunk ") .. part.number
        if is_rest then
            head = chunk_head(class, part, escape(owner.display), sign,
                number .. ", from " .. told_on(part), printed_at(part))
        else
            head = chunk_head(class, part, escape(owner.display), sign, number)
        end
        local instead = instead_of(owner)
        if instead and part.index > 1 then
            return {}
        elseif instead == "hidden" then
            lines = { { text = "// a part of what is left for you" } }
        elseif instead then
            lines = part_lines(instead.parts[1])
        elseif part.changes and not is_rest then
            lines = changed_lines(owner, book)
        else
            lines = part_lines(part)
        end
        foot = footer(part)
        if part.changes then
            foot = not is_rest and foot .. " · whole " .. (LATEX and "on " or "in ") .. page(part, printed_at(part))
        end
    end
    local body = set_lines(lines, part.language, LATEX and is_rest and REST_COLUMNS)
    if LATEX then
        foot = foot and "\\chunkfoot{" .. foot .. "}" or "\\chunkend"
        return raw_block(table.concat({ origin(part.line), head, body, foot }, "\n"))
    end
    foot = foot and '<p class="foot">' .. foot .. "</p>" or ""
    return raw_block(head .. body .. foot .. "</div>")
end

-- The heading before a chapter's programs. On the site a page begins with it, since a page with the programs of all
-- chapters would be over a megabyte.
local function rest_head(chapter)
    local title = escape(chapter.contents[1].entry.title)
    if LATEX then
        return "\\resthead{" .. chapter.number .. " " .. title .. "}"
    end
    local number = chapter.number
    return string.format('<!-- page programs-%s -->\n<h1 id="programs-%s"><span class="number">%s.%s</span> '
        .. "Programs of chapter %s: %s</h1>", number, number, listings.rest_number, number, number, title)
end

-- Sets all that is printed later, in the order of the chapters.
function listings.rest(book)
    local out, here, chapter, pages = pandoc.List(), common.reading, nil, {}
    for _, part in ipairs(book.parts) do
        common.reading = part.later and part.owner.chapter
        local block = part.later and listings.chunk(part, book, true)
        if block and block.t then -- nil: a student's book leaves the part out
            if part.owner.chapter ~= chapter then
                chapter = part.owner.chapter
                out:insert(raw_block(rest_head(chapter)))
                table.insert(pages, string.format('<li><a href="#programs-%s">%s %s</a></li>', chapter.number,
                    chapter.number, escape(chapter.contents[1].entry.title)))
            end
            out:insert(block)
        end
    end
    common.reading = here
    out:insert(1, raw_block(LATEX and "\\begin{rest}" or "<ul>" .. table.concat(pages, "\n") .. "</ul>"))
    out:insert(raw_block(LATEX and "\\end{rest}" or ""))
    return out
end

-- Code that is not a chunk: an illustration, a command, a recorded output.
function listings.listing(block)
    local class = block.classes[1] or "plain"
    local body = set_lines(plain_lines(block.text), class)
    if LATEX then
        return raw_block(table.concat({ origin(block.attributes.line), "\\listing", body,
            "\\chunkend" }, "\n"))
    end
    return raw_block('<div class="listing ' .. escape(class) .. '">' .. body .. "</div>")
end

local EXCERPT_COLUMNS = 80

-- ``` {.c from=code/x.h first="struct y {" last="};"}: the lines of that file from the first line that begins with
-- `first` to the next that begins with `last`; without last=, only that line. So the excerpt cannot go stale.
function listings.excerpt(block)
    local path, first = block.attributes.from, block.attributes.first or ""
    local at, last = where(block.attributes.line), block.attributes.last
    local file = io.open(path)
    local lines, inside, done = {}, false, false
    for line in file and file:lines() or function() end do
        local begins = not inside and line:sub(1, #first) == first
        if not done and (inside or begins) then
            table.insert(lines, line)
            inside = true
            if #line > EXCERPT_COLUMNS then
                fail(at, "a line of %s has %d columns; the page takes %d", path, #line, EXCERPT_COLUMNS)
            end
            done = not last or not begins and line:sub(1, #last) == last
        end
    end
    if file then
        file:close()
    end
    if block.text ~= "" or not done then
        fail(at, block.text ~= "" and "lines of %s are not typed here too"
            or not file and "cannot read %s" or "%s has no lines from '%s' to '%s'", path, first, last or first)
        return {}
    end
    local body = set_lines(plain_lines(table.concat(lines, "\n")), block.classes[1] or "plain")
    if LATEX then
        return raw_block(table.concat({ origin(block.attributes.line), "\\excerpthead{" .. escape(path) .. "}",
            body, "\\chunkend" }, "\n"))
    end
    return raw_block('<div class="chunk roothead"><p class="head"><span class="name">' .. escape(path)
        .. '</span><span class="remark">from the file</span></p>' .. body .. "</div>")
end

return listings
