-- Sets figures, tables and boxes, and the parts of a lab's sheet that are not code: points, hints, questions.
--
--   blocks.picture(block, book), chart(div, book)   a TikZ picture; a chart that gnuplot drew
--   blocks.table(table), box(div)       a table; a box. Any other div is left as it is
--   blocks.points(sheet, line)          the points of a lab's sheet (sheets.lua)
--   blocks.hints(div), question(div)
--   blocks.glossary(div)                a list of terms, in small type
--
-- Each returns what a filter of Pandoc may return: a block, or a list of blocks.

local figures = require "figures"
local sheets = require "sheets"
local common = require "weave.common"
local labels = require "weave.labels"
local read = require "weave.read"
local set_inlines = require("weave.inlines").set
local LATEX, STUDENT, HANDOUT = common.LATEX, common.STUDENT, common.HANDOUT
local raw, raw_block, escape, red = common.raw, common.raw_block, common.escape, common.red
local tex_label, origin = common.tex_label, common.origin
local where, fail, fail_or_note = common.where, common.fail, common.fail_or_note

local blocks = {}

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
        raw_block(string.format('<figure id="%s"%s>%s<figcaption>', escape(id),
            el.attributes.film and (el.attributes.src or ""):match("timeline") and ' class="timeline"' or "", content)),
        pandoc.Plain(caption_inlines("Figure", number, caption)),
        raw_block("</figcaption></figure>"),
    }
end

-- Adds words to the caption of a figure that has film="10", or film="10:NAME" for a bookmark: which of the films of
-- `make films` shows this at work. site/cut.lua turns them into a link. In the students' edition, if the kernel is for
-- the reader to write, the words are the command for a film of their own: the book's film would show the solution.
local function add_film(caption, el, book)
    local number, bookmark = (el.attributes.film or ""):match("^(%w+):?([%w-]*)$")
    if not el.attributes.film then
        return caption
    end
    local chapter
    for _, other in ipairs(book.chapters) do
        chapter = other.number == number and other or chapter
    end
    if not chapter then
        fail(where(el.attributes.line), "film=\"%s\": no chapter of the book has that number", el.attributes.film)
        return caption
    end
    local code = LATEX and "\\code{%s}" or "<code>%s</code>"
    local text = " Film: " .. code:format("build/films/chapter" .. number .. ".html"
        .. (bookmark ~= "" and escape("#bookmark=" .. bookmark) or ""))
    local to_write = false
    for _, variant in ipairs(book.variants) do
        to_write = to_write or variant.kind == "starter" and variant.chapter == chapter
    end
    if STUDENT and to_write then
        text = " Film of yours: " .. code:format("./lab" .. number .. " my.cu --film my.html")
    end
    caption:insert(raw(LATEX and text .. "." or '<span class="film">' .. text .. ".</span>"))
    return caption
end

-- The text for readers who do not see a picture: what it shows (alt="…"). A screen reader also reads the caption.
local function alternative(el)
    return el.attributes.alt or "a figure without a description: its caption follows"
end

function blocks.picture(block, book)
    local source = labels.pictures[tonumber(block.attributes.figure)]
    local caption = set_inlines(source.caption)
    local content = LATEX and (source.pdf and figures.included(source) or figures.picture(source.text))
        or figures.image(source.svg, alternative(block))
    return set_figure(block, content, add_film(caption, block, book))
end

function blocks.chart(div, book)
    local image = div.content[1].content[1]
    local content, trouble = figures.chart(div.attributes.src, LATEX, div.attributes.width, alternative(div))
    if not content then
        fail_or_note(where(div.attributes.line), "%s", trouble)
        content = red(trouble).text
    end
    return set_figure(div, content, add_film(image.caption, div, book))
end

local ALIGN = { AlignLeft = "l", AlignRight = "r", AlignCenter = "c", AlignDefault = "l" }
local TABLE_WIDTH = 87 -- a line of a table, in widths of a digit
local BETWEEN = 2.2 -- the same between two columns
local SPARE = 6 -- if a table lacks less than this of a line's width, it is made as wide as the line
local ROOMY = 0.06 -- the share by which columns whose cells have several lines get wider, for widths are rounded

-- The widths of characters in a table's cells and in its heads, as the fonts have them (Pagella at 9 pt, bold Heros at
-- 7.4 pt). CODE and RAISED stand for any character of code, and for a small raised one.
local CODE, RAISED = "\u{E000}", "\u{E001}"
local SPACE = 0.5
local function widths_of(by_width, other)
    local widths = setmetatable({}, { __index = function() return other end })
    for width, characters in pairs(by_width) do
        for character in characters:gmatch(utf8.charpattern) do
            widths[character] = width
        end
    end
    return widths
end
local IN_CELLS = widths_of({
    [0.5] = "'|,.:;j\u{A0}", [0.6] = "!ilt·’³²⁻⁴" .. RAISED, [0.7] = '"-IJ`f', [0.8] = "*rs⟨⟩", [0.9] = "()?[]c{}",
    [1.03] = CODE, [1.2] = "BELPT^dhnpu~×", [1.3] = "RXYZ", [1.4] = "CKVµ", [1.5] = "&+<=>@ADGU−≤≥", [1.6] = "OQ",
    [1.7] = "%HNw", [1.8] = "mM", [2] = "W",
}, 1.05)
local IN_HEADS = widths_of({
    [0.5] = "'!(),-./:;I[]\\`fijlt|·’³²⁻⁴\u{A0}" .. RAISED, [0.6] = "*r{}", [0.8] = '"z“”', [1.1] = "EPSVXY",
    [1.2] = "&ABCDHKNRU", [1.3] = "GOQw", [1.4] = "%Mm", [1.5] = "W",
}, 0.95)

local function width_of(text, widths)
    local width = 0
    for character in text:gmatch(utf8.charpattern) do
        width = width + widths[character]
    end
    return width
end

-- A cell's TeX roughly as it will read: numbers of pages and sections are not known yet, and code may be broken at
-- penalties.
local function as_read(tex)
    return (tex:gsub("\\pageref%b{}", "123"):gsub("\\ref%*?%b{}", "12.3"):gsub("\\hyperref%b[]", "")
        :gsub("\\textsuperscript(%b{})", function(raised) return (raised:gsub(utf8.charpattern, RAISED)) end)
        :gsub("\\cbk ?", " "):gsub("\\text%w+ ?", "x"):gsub("\\%a+ ?", ""):gsub("\\(.)", "%1"):gsub("[{}]", "")
        :gsub("~", "\u{A0}"))
end

-- The widths of a cell's words. TeX hyphenates long words. Citations have no names yet.
local LONG_WORD, SYLLABLES = 16, 12

local function word_widths(cell, widths)
    local read_so = pandoc.Blocks(cell):walk {
        Str = function(el)
            if #el.text > LONG_WORD then
                return pandoc.Str((el.text:gsub("%-", "- "):gsub(("[%w/]"):rep(SYLLABLES), "%0 ")))
            end
        end,
        RawInline = function(el)
            local text = as_read(el.text)
            if el.text:find("^\\code") then
                text = text:gsub("%S+", function(word) return (word:gsub(utf8.charpattern, CODE)) end)
            end
            return pandoc.Str(text)
        end,
        Cite = function(el) return pandoc.Str("(" .. ("Author 2025; "):rep(#el.citations)) end,
    }
    local text = pandoc.utils.stringify(read_so):gsub("(%[%S+,) ", "%1\u{A0}") -- an interval stays in one line
    local of_words = {}
    for word in text:gmatch("%S+") do
        table.insert(of_words, width_of(word, widths))
    end
    return of_words
end

-- The words of a head, as lists of inlines, and their widths, with the last word that ends in a comma.
local function head_words(cell)
    local words, widths = { pandoc.Inlines {} }, {}
    for _, inline in ipairs(pandoc.utils.blocks_to_inlines(cell)) do
        if inline.t == "Space" or inline.t == "SoftBreak" then
            table.insert(words, pandoc.Inlines {})
        else
            words[#words]:insert(inline)
        end
    end
    for i, word in ipairs(words) do
        widths[i] = -SPACE
        for _, width in ipairs(word_widths({ pandoc.Plain(word) }, IN_HEADS)) do
            widths[i] = widths[i] + SPACE + width
        end
        if i < #words and pandoc.utils.stringify(word):find("[,:]$") then
            widths.comma = i
        end
    end
    return words, widths
end

-- How many lines a cell's words take in a column, by how little more than its width one line has to have for another
-- word, and the last word of each line.
local NEARLY = 1e-6
local function lines_of(words, width)
    local lines, used, more, last = 1, -SPACE, math.huge, {}
    for i, word in ipairs(words) do
        local needed = used + SPACE + word
        if needed > width + NEARLY and used > 0 then
            more, last[lines] = math.min(more, needed - width), i - 1
            lines, needed = lines + 1, word
        end
        used = needed
    end
    last[lines] = #words
    return lines, more, last
end

-- The least width in which a cell's words take so many lines, and the last word of each line. Two lines of a head part
-- at its comma, if they need little more for that.
local COMMA = 2
local function narrowest(words, lines)
    local width = math.max(0, table.unpack(words))
    local needed, more, last = lines_of(words, width)
    while needed > lines do
        width = width + more
        needed, more, last = lines_of(words, width)
    end
    if words.comma and needed == 2 then
        local parted = math.max(narrowest({ table.unpack(words, 1, words.comma) }, 1),
            (narrowest({ table.unpack(words, words.comma + 1) }, 1)))
        if parted <= width + COMMA then
            return math.max(parted, width), { words.comma, #words }
        end
    end
    return width, last
end

-- The width of each column, and the width of its longest cell below the head. If all these cells fit into one line
-- each, the heads have as few lines as they can, and all may have as many. Else a table that is too wide is narrowed
-- by one digit at a time, in the column where that adds the fewest lines to the table (of several such columns, the
-- widest). Then one column gives up to MOST_MOVED digits to another, as long as that saves lines. No column gets
-- narrower than its longest word. Of two tables with equally many lines, the one whose cells have fewer lines counts
-- as shorter. At last, if a head has several lines, all heads may have as many: the columns give up what only their
-- heads needed, and the others get it where that saves lines.
local MOST_MOVED, MOST_HEAD = 12, 3
local CELL, HEAD = 0.01, 0.8 -- weights of a line of a cell, and of a head; a line of the table weighs 1
local function column_widths(rows)
    local width, widest, body, least = {}, {}, {}, {}
    for i in ipairs(rows[1]) do
        widest[i], body[i], least[i] = 1, 1, 1
    end
    for r, row in ipairs(rows) do
        for i, words in ipairs(row) do
            local whole = narrowest(words, 1)
            widest[i], least[i] = math.max(widest[i], whole), math.max(least[i], table.unpack(words))
            body[i] = r > 1 and math.max(body[i], whole) or body[i]
        end
    end
    local function room()
        local left = TABLE_WIDTH + BETWEEN
        for _, w in ipairs(width) do
            left = left - w - BETWEEN
        end
        return left
    end
    for lines = 1, MOST_HEAD do
        for i, words in ipairs(rows[1]) do
            width[i] = math.max(body[i], (narrowest(words, lines)))
        end
        if room() >= 0 then
            return width, body
        end
    end
    local function height()
        local lines = 0
        for r, row in ipairs(rows) do
            local most = 1
            for i, words in ipairs(row) do
                local needed = lines_of(words, width[i])
                most, lines = math.max(most, needed), lines + CELL * needed
            end
            lines = lines + (r == 1 and HEAD or 1) * most
        end
        return lines
    end
    width = { table.unpack(widest) }
    while room() < 0 do
        local best, fewest
        for i, w in ipairs(width) do
            if w > least[i] then
                width[i] = math.max(w - 1, least[i])
                local lines = height()
                width[i] = w
                if not best or lines < fewest - CELL / 2 or lines < fewest + CELL / 2 and w > width[best] then
                    best, fewest = i, lines
                end
            end
        end
        if not best then
            break
        end
        width[best] = math.max(width[best] - 1, least[best])
    end
    local fewest, again = height(), true
    while again do
        local from, to, moved
        for i, w in ipairs(width) do
            for j, v in ipairs(width) do
                for most = 1, i ~= j and MOST_MOVED or 0 do
                    local n = math.min(most, w - least[i], widest[j] - v)
                    width[i], width[j] = w - n, v + n
                    local lines = height()
                    if lines < fewest - CELL / 2 then
                        fewest, from, to, moved = lines, i, j, n
                    end
                end
                width[i], width[j] = w, v
            end
        end
        again = moved
        if again then
            width[from], width[to] = width[from] - moved, width[to] + moved
        end
    end
    local deepest = 1
    for i, words in ipairs(rows[1]) do
        deepest = math.max(deepest, (lines_of(words, width[i])))
    end
    for i, w in ipairs(deepest > 1 and width or {}) do
        width[i] = narrowest(rows[1][i], deepest)
        for r = 2, #rows do
            width[i] = math.max(width[i], (narrowest(rows[r][i], (lines_of(rows[r][i], w)))))
        end
    end
    repeat
        local to, more
        for i, w in ipairs(width) do
            for most = 1, MOST_MOVED do
                local n = math.min(most, widest[i] - w, room())
                width[i] = w + n
                local lines = height()
                width[i] = w
                if n > 0 and lines < fewest - CELL / 2 then
                    fewest, to, more = lines, i, n
                end
            end
        end
        if to then
            width[to] = width[to] + more
        end
    until not to
    return width, body
end

-- The environment and the columns of a table. Pandoc would set a wide table at its natural width. Here, columns that
-- have to be narrower share the room that the others leave, unless that is more than they need.
local function set_columns(aligns, width, body)
    local spec, share, flexible, total = {}, 0, 0, BETWEEN * (#width - 1)
    for i, w in ipairs(width) do
        total = total + w
        if w < body[i] - NEARLY then
            share, flexible = share + w, flexible + 1
        end
    end
    local env, room = "tabular", TABLE_WIDTH - total
    if flexible > 0 and room < SPARE then
        env = "tabularx"
    end
    for i, w in ipairs(width) do
        local align = ALIGN[aligns[i]] or "l"
        local ragged = "\\ragged" .. (align == "r" and "left" or "right") .. "\\arraybackslash"
        if w >= body[i] - NEARLY then
            spec[i] = align
        elseif env == "tabularx" then
            spec[i] = string.format(">{\\hsize=%.3f\\hsize%s}X", w / share * flexible, ragged)
        else
            local roomy = w + math.min(room / flexible, ROOMY * w)
            spec[i] = string.format(">{%s}p{%.4f\\linewidth}", ragged, roomy / TABLE_WIDTH)
        end
    end
    return env, spec
end

-- A head in the lines that it takes in a column of that width, none longer than it has to be. In a column as wide as
-- its cells, TeX would not break it.
local function set_head(words, widths, width, align)
    local lines = lines_of(widths, width)
    local _, last = narrowest(widths, lines)
    local out, line = pandoc.List { raw(lines > 1 and "\\headlines{" .. align .. "}{" or "") }, 1
    for i, word in ipairs(words) do
        out:extend(word)
        if i == last[line] and line < lines then
            out:insert(raw("\\\\"))
            line = line + 1
        elseif i < #words then
            out:insert(pandoc.Space())
        end
    end
    out:insert(raw(lines > 1 and "}" or ""))
    return out
end

local function set_table_latex(el)
    local simple = pandoc.utils.to_simple_table(el)
    local heads, rows = {}, { {} }
    for i, cell in ipairs(simple.headers) do
        heads[i], rows[1][i] = head_words(cell)
    end
    for _, row in ipairs(simple.rows) do
        local cells = {}
        for i, cell in ipairs(row) do
            cells[i] = word_widths(cell, IN_CELLS)
        end
        table.insert(rows, cells)
    end
    local width, body = column_widths(rows)
    local env, columns = set_columns(simple.aligns, width, body)
    local inlines = pandoc.List()
    local captioned = el.attributes.number ~= nil
    local frame = captioned and "table" or "plaintable"
    inlines:insert(raw(origin(el.attributes.line) .. "\n\\begin{" .. frame .. "}"
        .. (captioned and "[htbp]" or "") .. "\\tablefont\n"))
    if captioned then
        inlines:extend(caption_inlines("Table", el.attributes.number, el.caption.long[1].content))
        inlines:insert(raw(tex_label(el.identifier) .. "\n"))
    end
    inlines:insert(raw("\\begin{" .. env .. "}" .. (env == "tabularx" and "{\\linewidth}" or "")
        .. "{@{}" .. table.concat(columns) .. "@{}}\\toprule\n"))
    local function put(row, head)
        for i, cell in ipairs(row) do
            inlines:insert(raw(i > 1 and " & " or ""))
            inlines:insert(raw(head and "\\tablehead{" or "{"))
            inlines:extend(head and #columns[i] == 1 and set_head(heads[i], rows[1][i], width[i], columns[i])
                or pandoc.utils.blocks_to_inlines(cell))
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

function blocks.table(el)
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

function blocks.box(div)
    local class = read.box_class(div)
    if not class then
        div.attributes.line = nil
        return div
    end
    local title = div.attributes.title or read.BOXES[class]
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

-- The points of a lab's sheet as a table. A handout, or a page of one chapter, has the rule of points below it;
-- the printed book has the rule once, where it explains how labs judge.
local SIGNS = { ["<="] = "≤", [">="] = "≥", ["=="] = "=" }

local function set_rule(sheet) -- turns `code` in the rule's sentences into code
    local rule = escape(table.concat(sheets.rule(sheet), " "))
    return (rule:gsub("`([^`]*)`", LATEX and "\\code{%1}" or "<code>%1</code>"))
end

local POINTS_WIDTH = 86 -- such a table without its points and the space between columns, in widths of a digit

function blocks.points(sheet, line)
    local rows, total, room = {}, 0, POINTS_WIDTH
    local rule = (HANDOUT or not LATEX) and sheets.aims_and_others(sheet) > 0 and set_rule(sheet)
    for _, item in ipairs(sheet.items) do
        room = math.min(room, POINTS_WIDTH - width_of(CODE, IN_CELLS) * #item.name)
    end
    -- In print, words without a limit have the room of both.
    local function row(item, limit, points, words)
        if LATEX then
            local wide = limit == "" and width_of(words, IN_CELLS) <= room
            table.insert(rows, item .. " & " .. points .. " & "
                .. (wide and "\\multicolumn{2}{l@{}}{" .. words .. "}" or limit .. " & " .. words) .. " \\\\")
        else
            table.insert(rows, string.format('<tr><td>%s</td><td>%s</td><td style="text-align: right">%s'
                .. "</td><td>%s</td></tr>", item, limit, points, words))
        end
    end
    for _, item in ipairs(sheet.items) do
        local limit = sheets.limit_text(item):gsub("[<>=]=", SIGNS)
        local name = escape(item.name)
        row(LATEX and "\\code{" .. name .. "}" or "<code>" .. name .. "</code>", escape(limit),
            tostring(item.points), escape(item.words))
        total = total + item.points
    end
    if LATEX then
        return raw_block(origin(line) .. "\n\\begin{plaintable}\\pointsfont\n\\begin{tabularx}{\\linewidth}"
            .. "{@{}lrl>{\\raggedright\\arraybackslash}X@{}}\\toprule\n"
            .. "\\tablehead{item} & \\tablehead{points} & \\tablehead{limit} & \\\\\\midrule\n"
            .. table.concat(rows, "\n") .. "\n\\midrule\n & " .. total .. " & & \\\\\n\\bottomrule"
            .. "\\end{tabularx}\n\\end{plaintable}"
            .. (rule and "\n\n" .. rule .. "\n" or ""))
    end
    return raw_block('<div class="table"><table><thead><tr><th>item</th><th>limit</th><th>points</th><th></th></tr>'
        .. "</thead><tbody>" .. table.concat(rows, "\n") .. '<tr><td></td><td></td>'
        .. '<td style="text-align: right">' .. total .. "</td><td></td></tr></tbody></table></div>"
        .. (rule and "\n<p>" .. rule .. "</p>" or ""))
end

-- Hints are printed even in a book with solutions, but not in a student's book or a handout. Questions get their
-- number and points.
function blocks.hints(div)
    if STUDENT or HANDOUT then
        return {}
    end
    local task
    for _, other in ipairs(common.reading.sheet and common.reading.sheet.tasks or {}) do
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

function blocks.glossary(div)
    if not LATEX then
        return pandoc.Div(div.content, pandoc.Attr("", { "glossary" }))
    end
    local out = pandoc.List { raw_block("\\begin{terms}") }
    out:extend(div.content)
    out:insert(raw_block("\\end{terms}"))
    return out
end

function blocks.question(div)
    for i, question in ipairs(common.reading.sheet and common.reading.sheet.questions or {}) do
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

return blocks
