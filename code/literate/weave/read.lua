-- Reads Markdown as Pandoc parses it: removes source positions, and resolves citations, numbers,
-- captions, tables and figures. The rest remains as Pandoc has it, with the line of each block in
-- its attribute `line`.
--
--   read.chapter(chapter)    does all of that to a chapter's document, and sets the chapter's blocks
--   read.blocks(blocks)      the same for blocks of common.reading
--   read.bibliography(doc)   reads the keys of citations; called before anything else is read
--   read.captions            captions of TikZ pictures: inlines by "path:line"
--   read.BOXES               the classes of fenced divs that become boxes, and the boxes' titles
--   read.box_class(div)      the class of a div that becomes a box, or nil

local runs = require "runs"
local stages = require "stages"
local tables = require "tables"
local common = require "weave.common"
local LATEX = common.LATEX
local raw, raw_block, escape = common.raw, common.raw_block, common.escape
local red, origin = common.red, common.origin
local where, position = common.where, common.position
local fail, fail_or_note = common.fail, common.fail_or_note

local read = {}

local MINUS = "−"

-- Whether an element's position is its only attribute. A document has a Span with a position
-- around each word, and looking at the names of all Spans' attributes takes seconds: so this looks
-- at them last, and only where an element has more than one.
local function only_position(element)
    local attr = element.attr
    if attr.identifier ~= "" or #attr.classes > 0 then
        return false
    elseif #attr.attributes > 1 then
        for name in pairs(attr.attributes) do
            if name ~= "data-pos" then
                return false
            end
        end
    end
    return true
end

local function run(code, line)
    local text, trouble = runs.evaluate(code.text, code.attributes.fmt, code.attributes.scale)
    if trouble then
        fail_or_note(where(line), "%s", trouble)
        return red(text or "??")
    end
    text = text:gsub("(%d) ([^%d%s]+)$", "%1\u{A0}%2") -- a number stays with its unit
    text = text:gsub("^%-", MINUS):gsub("([%s(])%-(%d)", "%1" .. MINUS .. "%2")
    local out, times, power = escape(text), "\u{A0}×\u{A0}10", "<sup>%s</sup>"
    if LATEX then
        times, power = "~×~10", "\\textsuperscript{%s}"
    end
    out = out:gsub("(%d)e([+-]%d+)", function(digit, exponent)
        local n = tostring(math.tointeger(tonumber(exponent))):gsub("%-", MINUS)
        return digit .. times .. power:format(n)
    end)
    if LATEX then
        return out == text and pandoc.Str(text) or raw(out)
    end
    return raw(string.format('<span class="run" title="%s">%s</span>', escape(code.text), out))
end

local known_keys -- the bibliography's keys; nil: there is no bibliography

-- Reads [@key], [@key, p. 3; see @other], since commonmark has no citations. `list` is flat; `lines`
-- has the line of each element. Returns the Cite and the index of its "]".
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

-- The Math of an equation's Span, which may be inside a Span that has its position; false or nil: it is no equation.
local function equation(span)
    local inner = #span.content == 1 and span.content[1]
    if inner and inner.t == "Span" and only_position(inner) then
        inner = inner.content[1]
    end
    return inner and inner.t == "Math" and span.identifier ~= "" and inner
end

-- Reads a list of inlines; the lists inside its elements are read after it.
local function read_inlines(inlines)
    local list, lines, bracket = pandoc.List(), {}, false
    local function add(el, kind, span)
        list:insert(el)
        if kind == "Str" and el.text == "[" then
            lines[#list] = span and position(span)
            bracket = true
        end
    end
    local function add_span(el)
        if only_position(el) then
            for _, inner in ipairs(el.content) do
                add(inner, inner.t, el)
            end
        elseif el.identifier ~= "" and pandoc.utils.stringify(el):match("^%s*$")
            and #list > 0 and list[#list].t == "Math" then
            list[#list] = number_equation(list[#list], el.identifier, position(el))
        else
            local math = equation(el)
            add(math and number_equation(math, el.identifier, position(el)) or el, "Span")
        end
    end
    for _, el in ipairs(inlines) do
        local kind = el.t
        if kind == "Span" then
            add_span(el)
        elseif kind == "Code" and el.classes:includes("run") then
            add(run(el, position(el)), "Code")
        else
            add(el, kind)
        end
    end
    if not bracket then
        return list
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

-- "Table: caption {#tbl:id}" below a table becomes the table's caption; "Figure: caption" below a
-- TikZ picture becomes the figure's.
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

-- ![caption](plots/promises.md){#tbl:id}: reads the table from that file. The file's first line
-- names the records from which it was made, <!-- from h200/lab03 ... -->, so that stale ones are
-- noticed.
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

read.BOXES = {
    predict = "Pause and guess", answer = "What we had guessed", lab = "Lab", exercises = "Exercises",
    learned = "What was learned", warning = "Watch out", output = "",
}

function read.box_class(div)
    for _, class in ipairs(div.classes) do
        if read.BOXES[class] then
            return class
        end
    end
end

read.captions = {}

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
                          width = image.attributes.width or "", film = image.attributes.film,
                          alt = image.attributes.alt })))
                elseif caption then
                    above.caption = { long = { pandoc.Plain(caption) } }
                    above.identifier = id
                elseif picture then
                    read.captions[where(above.attributes.line)] = picture
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
            if el.t == "Div" and read.box_class(el) and el.content[1] and el.content[1].t == "Header" then
                out:insert(el.content:remove(1)) -- the title of a box that begins with a heading is
                                                 -- that heading
                el.attributes.title = ""
            end
            out:insert(el)
        end
    end
    return out
end

local READ_INLINES = { traverse = "topdown", Inlines = read_inlines }
local READ_BLOCKS = { Blocks = read_blocks }

-- ``` {.ladder to=ch09_three_stages}: a paragraph on how far the reader has come: the times at
-- `mission` of all stages up to this program, on the GPU of LADDER_GPU; the program's rate; its speed
-- relative to PyTorch's flash backend. The peak rates, in TFLOP/s, are the data sheet's for dense
-- matrices; that of E4M3 is for programs whose P is E4M3, too.
local LADDER_GPU = { folder = "h200", name = "an H200", rates = { half = 989.5, E4M3 = 1979 } }

local function ladder(block)
    local rows, trouble = stages.read("chapters/stages.tsv")
    trouble = not rows and trouble or nil -- if the rows were read, stages.read returned the columns' names here
    local to = block.attributes.to or ""
    local at = LADDER_GPU.folder .. "/%s:shapes.mission."
    local function time(program)
        return (at .. "timing.p50_us"):format(program)
    end
    local function number(expression) -- 0 for a wrong reference: the paragraph has it, too, and reports it
        return tonumber((runs.evaluate(expression, "%.17g"))) or 0
    end
    local rungs, last, format = {}, nil, "half"
    for _, row in ipairs(rows or {}) do
        if row.film and last ~= to then -- stages with a film are timed
            last = row.program
            local own = last == to and "**" or ""
            local record = io.open(string.format("plots/runs/%s/%s.json", LADDER_GPU.folder, last))
            if record then
                format = record:read("a"):find('"format": "e4m3"', 1, true) and "E4M3" or "half"
                record:close()
                table.insert(rungs, string.format('%s%d: `%s`{.run fmt="%s"}%s', own, row.number, time(last),
                    number(time(last)) < 10 and "%.2f" or "%.1f", own))
            else
                table.insert(rungs, row.number .. ": not timed there")
            end
        end
    end
    if rows and last ~= to then
        trouble = string.format("a ladder to \"%s\", which is no timed program of chapters/stages.tsv", to)
    end
    if trouble then
        fail(where(position(block)), "%s", trouble)
        return pandoc.Para {}
    end
    local slower = number(time(to) .. " / " .. time("pytorch-flash")) > 1
    local text = string.format("*The ladder so far*, µs at `mission` on %s: %s. This rung computes "
        .. '`%stflops`{.run fmt="%%.0f"} TFLOP/s, `%stflops / %s`{.run fmt="%%.1f" scale=100} %% of what the tensor '
        .. 'cores do at most in %s, and %s `%s / %s`{.run fmt="%%.1f"} times as %s as PyTorch\'s flash backend.',
        LADDER_GPU.name, table.concat(rungs, ", "), at:format(to), at:format(to), LADDER_GPU.rates[format], format,
        slower and "takes" or "is", time(slower and to or "pytorch-flash"), time(slower and "pytorch-flash" or to),
        slower and "long" or "fast")
    return pandoc.read(text, "commonmark_x-emoji").blocks[1]:walk {
        Code = function(code) -- gives the code its position, for messages
            code.attributes["data-pos"] = block.attributes["data-pos"]
            return code
        end,
    }
end

-- Replaces a block in the notation of tables.lua by its table, and a ladder by its paragraph.
local function expand_table(block)
    if block.classes:includes("ladder") then
        return ladder(block)
    elseif block.classes:includes("table") then
        return tables.expand(block, position(block), function(line, ...)
            fail(where(line), ...)
        end) or pandoc.Para {}
    end
end

function read.blocks(blocks)
    local expanded = pandoc.walk_block(pandoc.Div(blocks), { CodeBlock = expand_table })
    return pandoc.walk_block(expanded:walk(READ_INLINES), READ_BLOCKS).content
end

-- Most elements of a document are Spans around a word or a space, which only tell its position. Only
-- "[", where a citation may begin, needs that. Removing the Spans one by one in Lua takes as long as
-- the rest of the weave: so they are removed while the document is a text. If another Pandoc writes
-- its JSON differently, these patterns leave some Spans, and read_inlines removes them more slowly.
local POSITION = '{"t":"Span","c":%[%["",%[%],%[%["data%-pos","[^"]*"%]%]%],%['
local WORD, SPACE = '({"t":"Str","c":"[^%["\\]*"})', '({"t":"%a+"})'

local function without_spans(document)
    local json = pandoc.write(document, "json")
    for _, element in ipairs { WORD, SPACE } do
        json = json:gsub(POSITION .. element .. "%]%]}", "%1")
    end
    return pandoc.read(json, "json")
end

function read.chapter(chapter)
    chapter.blocks = read.blocks(without_spans(chapter.document).blocks)
    chapter.document = nil -- frees its memory, which is large
end

-- Reads the keys that citations may have.
function read.bibliography(doc)
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

return read
