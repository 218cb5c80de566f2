-- The weave: sets book.md and its chapters as one book, in LaTeX or in HTML.
--
--   code/literate/book pdf  build/attention-in-stages.pdf       (make book)
--   code/literate/book html build/attention-in-stages.html      (make book-html)
--
-- both run, from the repository's root,
--
--   pandoc -f commonmark_x-emoji+sourcepos --lua-filter …/weave.lua --citeproc … book.md
--
-- and do the rest: LaTeX until the page numbers settle, its log searched, the result moved into
-- place. DRAFT=1 sets unknown and stale numbers, references and charts in red instead of failing.
--
-- AUDIENCE=student leaves the solutions out: where a lab has a starter, it stands in the chapter
-- instead of the chunk; hints and what catches a planted bug are not told. HANDOUT=4 sets lab 4's
-- sheet and nothing else, for print.
--
-- book.md names the chapters in its metadata (`chapters:`, with `- part: Title` between them) and
-- holds the preface. Chunks come from chunks.lua, numbers from runs.lua, pictures from figures.lua,
-- colours from highlight.lua. What is wrong is collected and printed as `file:line: what`; then
-- nothing is written, and the exit status is 83, as for any filter of Pandoc's that fails.

local here = pandoc.path.directory(PANDOC_SCRIPT_FILE)
package.path = here .. "/?.lua;" .. package.path
local chunks = require "chunks"
local figures = require "figures"
local highlight = require "highlight"
local runs = require "runs"
local sheets = require "sheets"
local tables = require "tables"

local LATEX = FORMAT == "latex"
local DRAFT = (os.getenv("DRAFT") or "") ~= ""
local STUDENT = os.getenv("AUDIENCE") == "student"
local HANDOUT = tonumber(os.getenv("HANDOUT") or "") -- of which lab, or nil
local MINUS = "−"

local failures = {}
local reading -- the file that is being read

local function fail(where, ...)
    local line = tonumber(where:match(":(%d+)$") or "")
    local sheet = reading and reading.sheet
    if HANDOUT and reading and not (sheet and sheet.number == HANDOUT and line
        and line >= sheet.first_line and line <= sheet.last_line) then
        return -- of what is read for its numbers only
    end
    table.insert(failures, where .. ": " .. string.format(...))
end

-- For what a draft may lack.
local function fail_or_note(where, ...)
    if DRAFT then
        io.stderr:write("draft: ", where, ": ", string.format(...), "\n")
    else
        fail(where, ...)
    end
end

local function stop_on_failures()
    if #failures > 0 then
        io.stderr:write(table.concat(failures, "\n"), "\n")
        os.exit(83)
    end
end

local function raw(text)
    return pandoc.RawInline(LATEX and "latex" or "html", text)
end

local function raw_block(text)
    return pandoc.RawBlock(LATEX and "latex" or "html", text)
end

local TEX = {
    ["\\"] = "\\symbol{92}", ["{"] = "\\{", ["}"] = "\\}", ["$"] = "\\$", ["&"] = "\\&",
    ["#"] = "\\#", ["_"] = "\\_", ["%"] = "\\%", ["~"] = "\\textasciitilde{}",
    ["^"] = "\\textasciicircum{}",
}
local HTML = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }

local function escape(text)
    if LATEX then
        return (text:gsub("[\\{}$&#_%%~^]", TEX))
    end
    return (text:gsub('[&<>"]', HTML))
end

-- Code keeps every space, also where TeX would gather them up.
local function escape_code(text)
    return LATEX and escape(text):gsub(" ", "~") or escape(text)
end

---------------------------------------------------------------------------------------------------
-- Reading: source positions out, citations, numbers, captions and figures in

local labels = {} -- by id: a list of { kind, number, id (unique in the book), chapter, title }
local figure_sources = {} -- TikZ pictures, in order: { text, where, caption }

local function where(line)
    return reading.path .. (line and ":" .. line or "")
end

local function position(element)
    local _, line = chunks.position(element.attributes)
    return line
end

-- The comment by which `book` finds the chapter's line for a line of LaTeX.
local function origin(line)
    return "%@ " .. where(line)
end

local function tex_label(id)
    return id ~= "" and "\\label{" .. id .. "}" or ""
end

local function only_position(element)
    for name in pairs(element.attributes) do
        if name ~= "data-pos" then
            return false
        end
    end
    return element.identifier == "" and #element.classes == 0
end

local function red(text)
    return LATEX and raw("\\textcolor{bad}{" .. escape(text) .. "}")
        or raw('<span class="draft">' .. escape(text) .. "</span>")
end

local function run(code, line)
    local text, trouble = runs.evaluate(code.text, code.attributes.fmt, code.attributes.scale)
    if trouble then
        fail_or_note(where(line), "%s", trouble)
        return red(text or "??")
    end
    text = text:gsub("^%-", MINUS):gsub("([%s(])%-(%d)", "%1" .. MINUS .. "%2")
    local out, power = escape(text), LATEX and "\\textsuperscript{%s}" or "<sup>%s</sup>"
    out = out:gsub("(%d)e([+-]%d+)", function(digit, exponent)
        local n = tostring(math.tointeger(tonumber(exponent))):gsub("%-", MINUS)
        return digit .. " × 10" .. power:format(n)
    end)
    if LATEX then
        return out == text and pandoc.Str(text) or raw(out)
    end
    return raw(string.format('<span class="run" title="%s">%s</span>', escape(code.text), out))
end

local known_keys

-- [@key], [@key, p. 3; see @other]: commonmark has no citations, so they are read here. `list` is
-- flat, `lines` gives the line of each element. Returns the Cite and the index of its "]".
local function citation(list, lines, from)
    local items, item, stop = {}, nil, nil
    local before = pandoc.List()
    local i = from + 1
    while i <= #list do
        local el = list[i]
        local text = el.t == "Str" and el.text
        if text == "]" then
            stop = i
            break
        elseif text == "@" and list[i + 1] and list[i + 1].t == "Str" then
            local key = ""
            i = i + 1
            while list[i] and list[i].t == "Str" and list[i].text:match("^[%w_:.-]+$")
                and not (list[i].text == "." and (not list[i + 1] or list[i + 1].t ~= "Str")) do
                key = key .. list[i].text
                i = i + 1
            end
            if known_keys and not known_keys[key] then
                fail_or_note(where(lines[from]), "unknown citation @%s", key)
            end
            item = { key = key, prefix = before, suffix = pandoc.List() }
            table.insert(items, item)
            before = pandoc.List()
            i = i - 1
        elseif text == ";" then
            item = nil
        elseif text == "[" then
            return nil
        else
            (item and item.suffix or before):insert(el)
        end
        i = i + 1
    end
    if not stop or #items == 0 then
        return nil
    end
    local citations = pandoc.List()
    for _, it in ipairs(items) do
        citations:insert(pandoc.Citation(it.key, "NormalCitation", it.prefix, it.suffix))
    end
    return pandoc.Cite({ pandoc.Str("[citation]") }, citations), stop
end

local function number_equation(math, id, line)
    return pandoc.Span({ math }, pandoc.Attr(id, { "equation" }, { line = tostring(line or "") }))
end

local function read_inlines(inlines)
    local list, lines = pandoc.List(), {}
    local function add(el, line)
        list:insert(el)
        lines[#list] = line
    end
    for _, el in ipairs(inlines) do
        local line = el.attributes and position(el)
        if el.t == "Span" and only_position(el) then
            for _, inner in ipairs(el.content) do
                add(inner, line)
            end
        elseif el.t == "Span" and el.identifier ~= "" and pandoc.utils.stringify(el):match("^%s*$")
            and #list > 0 and list[#list].t == "Math" then
            list[#list] = number_equation(list[#list], el.identifier, line)
        elseif el.t == "Span" and #el.content == 1 and el.content[1].t == "Math"
            and el.identifier ~= "" then
            add(number_equation(el.content[1], el.identifier, line), line)
        elseif el.t == "Code" and el.classes:includes("run") then
            add(run(el, line), line)
        else
            add(el, line)
        end
    end
    local out, i = pandoc.List(), 1
    while i <= #list do
        local cite, stop
        if list[i].t == "Str" and list[i].text == "[" then
            cite, stop = citation(list, lines, i)
        end
        out:insert(cite or list[i])
        i = cite and stop + 1 or i + 1
    end
    return out
end

-- "Table: caption {#tbl:id}" below a table becomes the table's caption, "Figure: caption" below a
-- TikZ picture the figure's.
local function caption_below(para, word)
    local first, second = para.content[1], para.content[2]
    if not (first and first.t == "Str" and first.text == word and second and second.t == "Str"
        and second.text == ":") then
        return nil
    end
    local inlines, id = pandoc.List(), ""
    for i = 3, #para.content do
        local el = para.content[i]
        if el.t == "Span" and el.identifier ~= "" and i == #para.content then
            id = el.identifier
        elseif #inlines > 0 or el.t ~= "Space" then
            inlines:insert(el)
        end
    end
    return inlines, id
end

-- ![caption](plots/promises.md){#tbl:id}: the table in that file. Its first line names the records
-- that it was made from, <!-- from h200/lab03 ... -->, so that stale ones are seen here too.
local function table_from(image, line)
    local file = io.open(image.src)
    local text = file and file:read("a")
    if file then
        file:close()
    end
    if not text then
        fail_or_note(where(line), "no table %s (make plots writes it)", image.src)
        return pandoc.Para { red(image.src .. "??") }
    end
    local records = text:match("^<!%-%- from([^\n]*) %-%->\n")
    local content = pandoc.read(text, "commonmark_x-emoji").blocks:filter(function(block)
        return block.t == "Table"
    end)
    if not records or #content ~= 1 then
        fail(where(line), "%s is not one table that says what it is from", image.src)
        return pandoc.Para {}
    end
    for name in records:gmatch("%S+") do
        local trouble = runs.trouble(name)
        if trouble then
            fail_or_note(where(line), "%s: %s", image.src, trouble)
        end
    end
    content[1].caption = { long = { pandoc.Plain(image.caption) } }
    content[1].identifier = image.identifier
    content[1].attributes.line = line and tostring(line)
    return content[1]
end

-- The boxes that a fenced div of this class becomes, and their labels.
local BOXES = {
    predict = "Pause and guess", lab = "Lab", exercises = "Exercises", learned = "What was learned",
    warning = "Watch out", output = "",
}

local function box_class(div)
    for _, class in ipairs(div.classes) do
        if BOXES[class] then
            return class
        end
    end
end

local picture_captions = {} -- inlines, by path and line of the picture

local function read_blocks(blocks)
    local out = pandoc.List()
    for _, el in ipairs(blocks) do
        local line = el.attributes and position(el)
        if el.t == "Div" and only_position(el) then
            for _, inner in ipairs(el.content) do
                local image = inner.t == "Para" and #inner.content == 1 and inner.content[1]
                local above = inner.t == "Para" and out[#out]
                local caption, id, picture
                if above and above.t == "Table" then
                    caption, id = caption_below(inner, "Table")
                elseif above and above.t == "CodeBlock" and above.classes:includes("tikz") then
                    picture = caption_below(inner, "Figure")
                end
                if image and image.t == "Image" and image.src:match("%.md$") then
                    out:insert(table_from(image, line))
                elseif image and image.t == "Image" and image.identifier ~= "" then
                    out:insert(pandoc.Div({ inner }, pandoc.Attr(image.identifier, { "figure" },
                        { line = tostring(line), src = image.src,
                          width = image.attributes.width or "" })))
                elseif caption then
                    above.caption = { long = { pandoc.Plain(caption) } }
                    above.identifier = id
                elseif picture then
                    picture_captions[where(above.attributes.line)] = picture
                else
                    if LATEX and line and (inner.t == "Para" or inner.t == "Plain") then
                        out:insert(raw_block(origin(line)))
                    end
                    out:insert(inner)
                end
            end
        else
            if line then
                el.attributes["data-pos"] = nil
                el.attributes.line = tostring(line)
            end
            if el.t == "Div" and box_class(el) and el.content[1] and el.content[1].t == "Header" then
                out:insert(el.content:remove(1)) -- a box that brings its heading goes below it
                el.attributes.title = ""
            end
            out:insert(el)
        end
    end
    return out
end

local READ = { Inlines = read_inlines, Blocks = read_blocks }

-- A table of numbers in the notation of tables.lua, as the table that it stands for.
local function expand_table(block)
    if block.classes:includes("table") then
        return tables.expand(block, position(block), function(line, ...)
            fail(where(line), ...)
        end) or pandoc.Para {}
    end
end

local function read(blocks)
    local expanded = pandoc.walk_block(pandoc.Div(blocks), { CodeBlock = expand_table })
    return pandoc.walk_block(expanded, READ).content
end

---------------------------------------------------------------------------------------------------
-- Numbering

-- Where a link inside the book may go: `kind` is chapter, section, figure, table, equation, chunk.
local function label(kind, id, number, line, title)
    local entry = { kind = kind, number = number, id = id, chapter = reading, title = title }
    labels[id] = labels[id] or {}
    for _, other in ipairs(labels[id]) do
        if other.chapter == reading then
            fail(where(line), "second %s named %s", kind, id)
        end
        entry.id = reading.tag .. "-" .. id
    end
    table.insert(labels[id], entry)
    return entry
end

local function counter(chapter, kind)
    chapter.counts[kind] = (chapter.counts[kind] or 0) + 1
    return chapter.number and chapter.number .. "." .. chapter.counts[kind]
        or tostring(chapter.counts[kind])
end

local function number_chapter(chapter, book)
    reading = chapter
    chapter.contents = {}
    chapter.blocks = pandoc.walk_block(pandoc.Div(chapter.blocks), {
        Header = function(el)
            local numbered = chapter.number and not el.classes:includes("unnumbered")
            local kind, number = "section", nil
            if el.level == 1 then
                kind = chapter.appendix and "appendix" or "chapter"
                number = numbered and chapter.number
            elseif el.level == 2 and numbered then
                number = counter(chapter, "section")
            end
            local entry = label(kind, el.identifier, number or nil, el.attributes.line,
                pandoc.utils.stringify(el))
            el.identifier = entry.id
            if el.level <= 2 then
                table.insert(chapter.contents, { level = el.level, entry = entry })
            end
            return el
        end,
    }).content
    local function place(kind, id, line)
        return id ~= "" and label(kind, id, counter(chapter, kind), line)
    end
    chapter.blocks = pandoc.walk_block(pandoc.Div(chapter.blocks), {
        Table = function(el)
            if #el.caption.long > 0 then
                local entry = place("table", el.identifier, el.attributes.line)
                el.attributes.number = entry and entry.number or counter(chapter, "table")
                el.identifier = entry and entry.id or ""
                return el
            end
        end,
        Span = function(el)
            if el.classes:includes("equation") then
                local entry = place("equation", el.identifier, el.attributes.line)
                el.attributes.number, el.identifier = entry.number, entry.id
                return el
            end
        end,
        Div = function(el)
            if el.classes:includes("figure") then
                local entry = place("figure", el.identifier, el.attributes.line)
                el.attributes.number, el.identifier = entry.number, entry.id
                return el
            end
        end,
        CodeBlock = function(el)
            local part = book.blocks[chapter.path .. ":" .. (el.attributes.line or "")]
            if el.classes:includes("tikz") then
                local at = where(el.attributes.line)
                if not picture_captions[at] then
                    fail(at, "a picture without a paragraph 'Figure: …' below it, its caption")
                end
                local entry = place("figure", el.identifier, el.attributes.line)
                el.attributes.number = entry and entry.number or counter(chapter, "figure")
                el.identifier = entry and entry.id or ""
                table.insert(figure_sources, { text = el.text, where = at,
                    caption = picture_captions[at] or pandoc.List() })
                el.attributes.figure = tostring(#figure_sources)
                return el
            elseif part and (part.owner.kind ~= "starter" or part.owner.number) then
                part.number = counter(chapter, "chunk")
                part.label = "chunk:" .. (part.owner.id and part.owner.id .. ":" .. part.index
                    or part.owner.of .. ":" .. (part.owner.name or "task"))
                if part.owner.id and part.index == 1 then
                    local entry = label("chunk", part.owner.id, part.number, el.attributes.line)
                    entry.id, entry.title = part.label, part.owner.title
                end
            end
        end,
    }).content
end

---------------------------------------------------------------------------------------------------
-- Code

local MARGIN = { added = "a", removed = "r" }

-- One line of code. `line`: { text } or { ref = chunk }, and `mark`: nil, "added" or "removed".
local function set_tokens(line, language, state)
    local out = {}
    if line.ref then
        local title, part = escape(line.ref.display), line.ref.parts[1]
        if LATEX then
            if HANDOUT then
                return escape_code(line.indent) .. "⟨\\textit{" .. title .. "}⟩"
            end
            return escape_code(line.indent) .. "\\chunkref{" .. part.label .. "}{" .. title .. "}"
        end
        return string.format('%s<a class="ref" href="#%s">⟨%s⟩</a><span class="no">%s</span>',
            line.indent, part.label, title, part.number)
    end
    for _, token in ipairs(highlight.line(line.text, language, state)) do
        local class, text = token[1], escape_code(token[2])
        if not class then
            table.insert(out, text)
        elseif LATEX then
            table.insert(out, string.format("\\T%s{%s}", class, text))
        else
            table.insert(out, string.format('<span class="%s">%s</span>', class, text))
        end
    end
    return table.concat(out)
end

-- Where a page may end between two lines: after a blank line gladly, never in a short chunk, never
-- so that a few lines are left alone.
local function page_break(lines, i)
    if #lines <= 9 or i < 3 or i > #lines - 4 then
        return "\\cn"
    elseif lines[i].text == "" then
        return "\\cg"
    end
    return "\\cb"
end

local function set_lines(lines, language)
    local out, state = {}, {}
    for i, line in ipairs(lines) do
        local content = set_tokens(line, language, line.mark == "removed" and {} or state)
        if LATEX then
            table.insert(out, string.format("\\cl{%s}{%s}%s", MARGIN[line.mark] or "", content,
                i < #lines and page_break(lines, i) or ""))
        else
            table.insert(out, line.mark
                and string.format('<span class="%s">%s</span>', line.mark, content) or content)
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

local function page(part)
    if LATEX then
        return string.format("p.~\\pageref{%s}", part.label)
    end
    return string.format('<a href="#%s">%s</a>', part.label, part.number)
end

local function part_at(owner, line)
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

-- The small line below a chunk: used in, continued, replaces, replaced.
local function footer(part)
    local owner, out = part.owner, {}
    if part.index == 1 and not owner.file then
        local users, seen = {}, {}
        for _, use in ipairs(owner.used_by) do
            local by = part_at(use.chunk, use.line)
            if by and by.label and not seen[by] then
                seen[by] = true
                table.insert(users, chunk_link(by))
            end
        end
        if #users > 4 then -- a chunk of the whole ladder; the index has them all
            users = { users[1], users[2], (#users - 2) .. " other places" }
        end
        if #users > 0 then
            table.insert(out, "Used in " .. list_words(users))
        end
    elseif part.index > 1 then
        table.insert(out, "Continues from " .. page(owner.parts[part.index - 1]))
    end
    local after = owner.parts[part.index + 1]
    if after then
        table.insert(out, (LATEX and "continued on " or "continued in ") .. page(after))
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
        table.insert(out, "replaced by " .. list_words(by))
    end
    if #out == 0 then
        return nil
    end
    local text = table.concat(out, " · ")
    return text:sub(1, 1):upper() .. text:sub(2)
end

-- The lines of one part: references resolved, lines marked that the replaced chunk does not have.
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

-- A mutant as a difference: two lines around each change, the rest left out.
local function mutant_lines(variant, book)
    local entries = chunks.changes(variant)
    local near = {}
    for i, entry in ipairs(entries) do
        if entry.op ~= "same" then
            for j = i - 2, i + 2 do
                near[j] = true
            end
        end
    end
    local lines, skipped = {}, false
    for i, entry in ipairs(entries) do
        if near[i] then
            if skipped and #lines > 0 then
                table.insert(lines, { text = "..." })
            end
            skipped = false
            local name = entry.text:match("^%s*<<([%w][%w_./-]*)>>%s*$")
            table.insert(lines, {
                text = entry.text, ref = name and book.chunks[name],
                indent = entry.text:match("^%s*"),
                mark = entry.op ~= "same" and entry.op or nil,
            })
        else
            skipped = true
        end
    end
    return lines
end

local function chunk_head(class, part, name, sign, remark)
    if LATEX then
        return string.format("\\%s{%s}{%s}{%s}{%s}", class, part.label, name, sign, remark)
    end
    if class == "chunkhead" then
        name = "⟨" .. name .. "⟩"
    end
    return string.format('<div class="chunk %s" id="%s"><p class="head"><span class="name">%s%s'
        .. '</span><span class="remark">%s</span></p>', class, part.label, name, sign, remark)
end

-- A task of a lab's sheet: its starter.
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

-- What a student's book has instead of a chunk of this chapter: a starter, or, for a chunk that
-- only solutions use, nothing ("hidden").
local left_out = {} -- chapter -> chunk -> starter or "hidden"

local function find_left_out(book, chapter)
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

local function set_chunk(part, book)
    local owner = part.owner
    local head, lines, foot
    if owner.kind == "mutant" and instead_of(owner.chunk) then
        return {}
    elseif owner.kind == "starter" then
        head, lines, foot = task_head(owner, part), part_lines(part), task_foot(owner)
    elseif owner.kind then
        head = chunk_head("mutanthead", part, escape(owner.name), "", STUDENT and "" or
            "must be caught by: " .. escape(owner.breaks or "")
            .. (owner.shapes and " at " .. escape(owner.shapes) or "")
            .. (owner.define and " with " .. escape(owner.define) or ""))
        lines = mutant_lines(owner, book)
        foot = "A change to " .. chunk_link(owner.chunk.parts[1])
        if owner.loses and not STUDENT then
            foot = foot .. " · " .. escape(sheets.what_it_costs(owner.chapter.sheet, owner.loses))
        end
    else
        local sign = part.index > 1 and " +≡" or owner.file and "" or " ≡"
        head = chunk_head(owner.file and "roothead" or "chunkhead", part, escape(owner.display),
            sign, part.number)
        local instead = instead_of(owner)
        if instead and part.index > 1 then
            return {}
        elseif instead == "hidden" then
            lines = { { text = "// a part of what is left for you" } }
        elseif instead then
            lines = part_lines(instead.parts[1])
        else
            lines = part_lines(part)
        end
        foot = footer(part)
    end
    local body = set_lines(lines, part.language)
    if LATEX then
        foot = foot and "\\chunkfoot{" .. foot .. "}" or "\\chunkend"
        return raw_block(table.concat({ origin(part.line), head, body, foot }, "\n"))
    end
    foot = foot and '<p class="foot">' .. foot .. "</p>" or ""
    return raw_block(head .. body .. foot .. "</div>")
end

-- The points of a lab's sheet as a table.
local SIGNS = { ["<="] = "≤", [">="] = "≥", ["=="] = "=" }

local function set_points(sheet, line)
    local rows, total = {}, 0
    local function row(cells)
        if LATEX then
            table.insert(rows, table.concat(cells, " & ") .. " \\\\")
        else
            table.insert(rows, string.format('<tr><td>%s</td><td>%s</td><td style="text-align: right">%s'
                .. "</td><td>%s</td></tr>", table.unpack(cells)))
        end
    end
    for _, item in ipairs(sheet.items) do
        local limit = sheets.limit_text(item):gsub("[<>=]=", SIGNS)
        local name = escape(item.name)
        row { LATEX and "\\code{" .. name .. "}" or "<code>" .. name .. "</code>", escape(limit),
            tostring(item.points), escape(item.words) }
        total = total + item.points
    end
    local heads = { "item", "limit", "points", "" }
    if LATEX then
        for i, head in ipairs(heads) do
            heads[i] = "\\tablehead{" .. head .. "}"
        end
        return raw_block(origin(line) .. "\n\\begin{plaintable}\\tablefont\n\\begin{tabularx}{\\linewidth}"
            .. "{@{}llr>{\\raggedright\\arraybackslash}X@{}}\\toprule\n" .. table.concat(heads, " & ")
            .. " \\\\\\midrule\n" .. table.concat(rows, "\n") .. "\n\\midrule\n & & " .. total
            .. " & \\\\\n\\bottomrule\\end{tabularx}\n\\end{plaintable}")
    end
    return raw_block('<div class="table"><table><thead><tr><th>' .. table.concat(heads, "</th><th>")
        .. "</th></tr></thead><tbody>" .. table.concat(rows, "\n") .. '<tr><td></td><td></td>'
        .. '<td style="text-align: right">' .. total .. "</td><td></td></tr></tbody></table></div>")
end

-- Hints are for whoever has the solutions too; questions get their number and points.
local function set_hints(div)
    if STUDENT or HANDOUT then
        return {}
    end
    local task
    for _, other in ipairs(reading.sheet and reading.sheet.tasks or {}) do
        task = other.of == div.attributes["for"] and other or task
    end
    local out = pandoc.List()
    local head = "Hints" .. (task and " to task " .. task.number or "")
    out:insert(raw_block(LATEX and "\\begin{sheethints}{" .. head .. "}"
        or '<div class="hints"><p class="label">' .. head .. "</p>"))
    out:extend(div.content)
    out:insert(raw_block(LATEX and "\\end{sheethints}" or "</div>"))
    return out
end

local function set_question(div)
    for i, question in ipairs(reading.sheet and reading.sheet.questions or {}) do
        if question.line == tonumber(div.attributes.line) then
            local head = pandoc.Strong(string.format("Question %d (%d points).", i, question.points))
            for _, block in ipairs(div.content) do
                if block.t == "Para" or block.t == "Plain" then
                    block.content:insert(1, pandoc.Space())
                    block.content:insert(1, head)
                    break
                end
            end
        end
    end
    if LATEX then
        return div.content
    end
    return pandoc.Div(div.content, pandoc.Attr("", { "question" }))
end

-- Code that is no chunk: an illustration, a command, a recorded output.
local function set_listing(block)
    local class = block.classes[1] or "plain"
    local body = set_lines(plain_lines(block.text), class)
    if LATEX then
        return raw_block(table.concat({ origin(block.attributes.line), "\\listing", body,
            "\\chunkend" }, "\n"))
    end
    return raw_block('<div class="listing ' .. escape(class) .. '">' .. body .. "</div>")
end

---------------------------------------------------------------------------------------------------
-- Figures, tables, boxes, links

local set_inlines -- below

local function caption_inlines(name, number, inlines)
    local out = pandoc.List()
    if LATEX then
        out:insert(raw("\\caption{"))
        out:extend(inlines)
        out:insert(raw("}"))
    else
        out:insert(raw(string.format('<span class="number">%s %s.</span> ', name, number)))
        out:extend(inlines)
    end
    return out
end

local function set_figure(el, content, caption)
    local id, number, line = el.identifier, el.attributes.number, el.attributes.line
    if LATEX then
        local inlines = pandoc.List {
            raw(origin(line) .. "\n\\begin{figure}[htbp]\\centering\n" .. content .. "\n"),
        }
        inlines:extend(caption_inlines("Figure", number, caption))
        inlines:insert(raw(tex_label(id) .. "\n\\end{figure}"))
        return pandoc.Plain(inlines)
    end
    return {
        raw_block(string.format('<figure id="%s">%s<figcaption>', escape(id), content)),
        pandoc.Plain(caption_inlines("Figure", number, caption)),
        raw_block("</figcaption></figure>"),
    }
end

local function set_tikz(block)
    local source = figure_sources[tonumber(block.attributes.figure)]
    local caption = set_inlines(source.caption)
    local content = LATEX and figures.picture(source.text)
        or figures.image(source.svg, pandoc.utils.stringify(caption))
    return set_figure(block, content, caption)
end

local function set_chart(div)
    local image = div.content[1].content[1]
    local content, trouble = figures.chart(div.attributes.src, LATEX, div.attributes.width,
        pandoc.utils.stringify(image.caption))
    if not content then
        fail_or_note(where(div.attributes.line), "%s", trouble)
        content = red(trouble).text
    end
    return set_figure(div, content, image.caption)
end

local ALIGN = { AlignLeft = "l", AlignRight = "r", AlignCenter = "c", AlignDefault = "l" }
local TABLE_WIDTH = 84 -- characters of table text in a line, roughly

-- Pandoc would set a wide table at its natural width; here columns of prose share what the narrow
-- ones leave. What cannot be broken is not narrowed.
local function set_table_latex(el)
    local simple = pandoc.utils.to_simple_table(el)
    local width, breakable, total = {}, {}, 0
    local function measure(row)
        for i, cell in ipairs(row) do
            local text = pandoc.utils.stringify(cell)
            local length = utf8.len(text) or #text
            width[i] = math.max(width[i] or 1, length)
            breakable[i] = math.max(breakable[i] or 0, text:find(" ", 1, true) and length or 0)
        end
    end
    measure(simple.headers)
    for _, row in ipairs(simple.rows) do
        measure(row)
    end
    for _, w in ipairs(width) do
        total = total + w + 3
    end
    local spec, share, flexible = {}, 0, 0
    local limit = TABLE_WIDTH / #width
    if total > TABLE_WIDTH then
        for i, w in ipairs(width) do
            if breakable[i] > limit then
                share, flexible = share + math.sqrt(w), flexible + 1
            end
        end
    end
    for i, w in ipairs(width) do
        local align = ALIGN[simple.aligns[i]] or "l"
        if flexible > 0 and breakable[i] > limit then
            spec[i] = string.format(">{\\hsize=%.3f\\hsize\\raggedright\\arraybackslash}X",
                math.sqrt(w) / share * flexible)
        else
            spec[i] = align
        end
    end
    local env = flexible > 0 and "tabularx" or "tabular"
    local inlines = pandoc.List()
    local captioned = el.attributes.number ~= nil
    local frame = captioned and "table" or "plaintable"
    inlines:insert(raw(origin(el.attributes.line) .. "\n\\begin{" .. frame .. "}"
        .. (captioned and "[htbp]" or "") .. "\\tablefont\n"))
    if captioned then
        inlines:extend(caption_inlines("Table", el.attributes.number, el.caption.long[1].content))
        inlines:insert(raw(tex_label(el.identifier) .. "\n"))
    end
    inlines:insert(raw("\\begin{" .. env .. "}" .. (flexible > 0 and "{\\linewidth}" or "")
        .. "{@{}" .. table.concat(spec) .. "@{}}\\toprule\n"))
    local function put(row, head)
        for i, cell in ipairs(row) do
            inlines:insert(raw(i > 1 and " & " or ""))
            inlines:insert(raw(head and "\\tablehead{" or "{"))
            inlines:extend(pandoc.utils.blocks_to_inlines(cell))
            inlines:insert(raw("}"))
        end
        inlines:insert(raw(head and " \\\\\\midrule\n" or " \\\\\n"))
    end
    local has_head = false
    for _, cell in ipairs(simple.headers) do
        has_head = has_head or #cell > 0
    end
    if has_head then
        put(simple.headers, true)
    end
    for _, row in ipairs(simple.rows) do
        put(row)
    end
    inlines:insert(raw("\\bottomrule\\end{" .. env .. "}\n\\end{" .. frame .. "}"))
    return pandoc.Plain(inlines)
end

local function set_table(el)
    if LATEX then
        return set_table_latex(el)
    end
    local number = el.attributes.number
    if number then
        local caption = caption_inlines("Table", number, el.caption.long[1].content)
        el.caption = { long = { pandoc.Plain(caption) } }
    end
    el.attr = pandoc.Attr(el.identifier)
    return { raw_block('<div class="table">'), el, raw_block("</div>") }
end

local function set_box(div)
    local class = box_class(div)
    if not class then
        div.attributes.line = nil
        return div
    end
    local title = div.attributes.title or BOXES[class]
    if class == "output" then
        title = div.attributes.cmd or ""
    end
    local out = pandoc.List()
    if LATEX then
        out:insert(raw_block(string.format("\\begin{book%s}{%s}", class, escape(title))))
        out:extend(div.content)
        out:insert(raw_block(string.format("\\end{book%s}", class)))
        return out
    end
    div.attributes = {}
    if title ~= "" then
        div.content:insert(1, raw_block('<p class="label">' .. (class == "output" and
            '<span class="prompt">$</span> ' or "") .. escape(title) .. "</p>"))
    end
    return div
end

local function find_label(id)
    local candidates = labels[id] or {}
    for _, entry in ipairs(candidates) do
        if entry.chapter == reading then
            return entry
        end
    end
    return candidates[1], #candidates > 1
end

local function set_link(link, capital)
    local id = link.target:match("^#(.+)$")
    if not id then
        if link.target:match("%.md") then
            fail(where(position(link)), "a link to %s: inside the book link to an #id", link.target)
        end
        link.attributes = {}
        return link
    end
    local entry, ambiguous = find_label(id)
    if not entry then
        fail_or_note(where(position(link)), "unresolved reference #%s", id)
        return red("??")
    elseif ambiguous then
        fail(where(position(link)), "#%s means several places in the book; give one an id", id)
    end
    if #link.content > 0 and HANDOUT then
        return link.content
    elseif #link.content > 0 then
        if LATEX then
            local out = pandoc.List { raw("\\hyperref[" .. entry.id .. "]{") }
            out:extend(link.content)
            out:insert(raw("}"))
            return out
        end
        return pandoc.Link(link.content, "#" .. entry.id)
    end
    if HANDOUT then
        return raw(entry.kind == "chunk" and "⟨\\textit{" .. escape(entry.title) .. "}⟩"
            or entry.number and (capital and entry.kind:gsub("^%l", string.upper) or entry.kind) .. "~"
            .. entry.number or "“" .. escape(entry.title) .. "”")
    end
    if entry.kind == "chunk" then
        return raw(LATEX and string.format("\\chunkname{%s}{%s} (p.~\\pageref{%s})", entry.id,
            escape(entry.title), entry.id) or string.format(
            '<a class="ref" href="#%s">⟨%s⟩</a> <span class="no">%s</span>', entry.id,
            escape(entry.title), entry.number))
    end
    local word = capital and entry.kind:gsub("^%l", string.upper) or entry.kind
    if not entry.number then
        local title = "“" .. entry.title .. "”"
        return raw(string.format(LATEX and "\\hyperref[%s]{%s} (p.~\\pageref{%s})"
            or '<a href="#%s">%s</a>', entry.id, escape(title), entry.id))
    end
    if LATEX then
        return raw(string.format("\\hyperref[%s]{%s~\\ref*{%s}}", entry.id, word, entry.id))
    end
    return raw(string.format('<a href="#%s">%s %s</a>', entry.id, word, entry.number))
end

-- Inline code may break after the signs at which a reader would break it.
local function set_code(code)
    if not LATEX then
        code.attr = pandoc.Attr()
        return code
    end
    local text = escape(code.text)
    if #code.text > 12 then
        text = text:gsub("([%w}])([/.,(:=]+)(%w)", "%1%2\\cbk{}%3")
            :gsub("(\\_)(%w%w)", "%1\\cbk{}%2")
    end
    return raw("\\code{" .. text .. "}")
end

function set_inlines(inlines)
    local out = pandoc.List()
    for i, el in ipairs(inlines) do
        if el.t == "Link" then
            local before = inlines[i - 1] and inlines[i - 1].t:match("Space") or inlines[i - 1]
                and inlines[i - 1].t == "SoftBreak"
            local stop = i == 1 or before and inlines[i - 2] and inlines[i - 2].t == "Str"
                and inlines[i - 2].text:match("[.?!]$")
            local set = set_link(el, stop)
            if set.t then
                out:insert(set)
            else
                out:extend(set)
            end
        elseif el.t == "Code" then
            out:insert(set_code(el))
        elseif el.t == "Span" and el.classes:includes("equation") then
            local math = el.content[1]
            if LATEX then
                out:insert(raw(string.format("\\begin{equation}\\label{%s}%s\\end{equation}",
                    el.identifier, math.text:gsub("^%s+", ""):gsub("%s+$", ""))))
            else
                out:extend { raw('<span class="equation" id="' .. el.identifier .. '">'), math,
                    raw('<span class="number">(' .. el.attributes.number .. ")</span></span>") }
            end
        else
            if el.t == "Span" then
                el.attributes["data-pos"] = nil
            end
            out:insert(el)
        end
    end
    return out
end

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
        end
        local out = pandoc.List {
            raw(origin(el.attributes.line) .. "\n" .. set .. "\\" .. command .. "{"),
        }
        out:extend(el.content)
        out:insert(raw("}" .. tex_label(el.identifier)))
        return pandoc.Plain(out)
    end
    el.attributes = {}
    for _, item in ipairs(chapter.contents) do
        if item.entry.id == el.identifier and item.entry.number then
            local word = item.level == 1 and (chapter.appendix and "Appendix " or "Chapter ") or ""
            el.content:insert(1, raw('<span class="number">' .. word .. item.entry.number
                .. "</span> "))
        end
    end
    return el
end

local function set_chapter(chapter, book)
    reading = chapter
    local content = pandoc.walk_block(pandoc.Div(chapter.blocks), { Inlines = set_inlines }).content
    return pandoc.walk_block(pandoc.Div(content), {
        CodeBlock = function(el)
            local part = book.blocks[chapter.path .. ":" .. (el.attributes.line or "")]
            if el.classes:includes("tikz") then
                return set_tikz(el)
            elseif part and part.owner.kind == "starter" and not part.owner.number then
                return {}
            elseif el.classes:includes("points") then
                return set_points(chapter.sheet, el.attributes.line)
            elseif part then
                return set_chunk(part, book)
            end
            if el.attributes.recorded then -- output that a program wrote, kept in a file
                local file = io.open(el.attributes.recorded)
                if not file then
                    fail(where(el.attributes.line), "no recorded output " .. el.attributes.recorded)
                else
                    el.text = file:read("a"):gsub("\n+$", "")
                    file:close()
                end
                el.attributes.recorded = nil
            end
            return set_listing(el)
        end,
        Table = set_table,
        Header = function(el) return set_header(el, chapter) end,
        Div = function(el)
            if el.classes:includes("figure") then
                return set_chart(el)
            elseif el.classes:includes("hints") then
                return set_hints(el)
            elseif el.classes:includes("question") then
                return set_question(el)
            end
            return set_box(el)
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
            local by = part_at(use.chunk, use.line)
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
        table.insert(out, LATEX and "\\indexentry{" .. name .. "}{" .. pages .. "}"
            or "<li>" .. name .. " " .. pages .. "</li>")
    end
    if LATEX then
        return raw_block("\\addchap{Index of chunks}\\label{index-of-chunks}\n\\begin{chunkindex}\n"
            .. table.concat(out, "\n") .. "\n\\end{chunkindex}")
    end
    return raw_block('<h1 id="index-of-chunks">Index of chunks</h1>\n<ul class="index">'
        .. table.concat(out, "\n") .. "</ul>")
end

local function sidebar(sequence)
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
    return table.concat(out, "\n")
end

-- The book's order: { part = title } or { path = chapter }, from the metadata.
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

local function read_bibliography(doc)
    local path = doc.meta.bibliography and pandoc.utils.stringify(doc.meta.bibliography)
    local file = path and io.open(path)
    if not file then
        return
    end
    known_keys = {}
    for key in file:read("a"):gmatch("@%a+{%s*([^,%s]+)") do
        known_keys[key] = true
    end
    file:close()
end

-- Of a chapter's blocks, its lab's.
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
            reading = chapter
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
    local book = chunks.load(paths)
    for _, message in ipairs(book.errors) do
        table.insert(failures, message)
    end
    stop_on_failures()
    for _, chunk in ipairs(book.chunks) do
        local first = chunk.title:match("^" .. utf8.charpattern)
        chunk.display = chunk.file or first:upper() .. chunk.title:sub(#first + 1)
    end
    read_bibliography(doc)

    local preface = { path = spine, tag = "preface", counts = {} }
    reading = preface
    preface.blocks = read(doc.blocks)
    local order = { preface }
    for _, chapter in ipairs(book.chapters) do
        chapter.counts = {}
        find_left_out(book, chapter)
        chapter.appendix = chapter.tag:match("^%u") ~= nil
        chapter.number = chapter.tag:gsub("^0+", "") -- a chapter's file says its number
        reading = chapter
        local file = io.open(chapter.path)
        chapter.blocks = read(pandoc.read(file:read("a"), "commonmark_x-emoji+sourcepos").blocks)
        file:close()
        table.insert(order, chapter)
    end
    for _, chapter in ipairs(order) do
        number_chapter(chapter, book)
    end
    if HANDOUT then
        return set_handout(doc, order, book)
    end
    if not LATEX then
        local ok, trouble = figures.compile(figure_sources, here)
        if not ok then
            table.insert(failures, trouble)
            stop_on_failures()
        end
    end

    local blocks, at = pandoc.List(), 1
    blocks:extend(set_chapter(preface, book))
    if LATEX then
        blocks:insert(raw_block("\\mainmatter"))
    end
    local contents = { preface }
    local in_appendix = false
    for _, item in ipairs(sequence) do
        if item.part then
            table.insert(contents, item)
            local next = book.chapters[at] -- a part of appendices has no number
            local command = next and next.appendix and "\\addpart{" or "\\part{"
            blocks:insert(raw_block(LATEX and command .. escape(item.part) .. "}"
                or '<p class="part">' .. escape(item.part) .. "</p>"))
        else
            local chapter = book.chapters[at]
            at = at + 1
            if chapter.appendix and not in_appendix and LATEX then
                in_appendix = true
                blocks:insert(raw_block("\\appendix"))
            end
            table.insert(contents, chapter)
            blocks:extend(set_chapter(chapter, book))
        end
    end
    blocks:insert(raw_block(LATEX and "\\backmatter\n\\addchap{Bibliography}\\label{bibliography}"
        or '<h1 id="bibliography">Bibliography</h1>'))
    blocks:insert(pandoc.Div({}, pandoc.Attr("refs")))
    blocks:insert(set_index(book))
    stop_on_failures()

    for name, value in pairs(doc.meta) do
        local kind = pandoc.utils.type(value)
        if kind == "Inlines" then
            doc.meta[name] = pandoc.MetaInlines(read({ pandoc.Plain(value) })[1].content)
        elseif kind == "Blocks" then
            doc.meta[name] = pandoc.MetaBlocks(read(value))
        end
    end
    if not LATEX then
        doc.meta.sidebar = pandoc.MetaBlocks { raw_block(sidebar(contents)) }
    end
    doc.meta.chapters = nil
    doc.blocks = blocks
    return doc
end
