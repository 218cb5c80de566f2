-- The sheets of the labs: points, tasks, hints and questions, read from a chapter's `::: {.lab}`. chunks.lua calls
-- read and check; tangle.lua writes json; the weave prints the rest.
--
-- chapter.sheet, if the lab has a block of class points:
--   number, title, line          from the file's name and the lab's heading; the block's line
--   program, before              what is judged (chapters/stages.tsv), and what it is compared with (labs/labNN; nil:
--                                nothing); {.points program=…} names another program of the chapter
--   p                          how its kernels may round P, in the notation of the workbench's p_rounding:
--                              {.points p="e4m3 8 unrounded"}; with a maximum that lags behind:
--                              p="e4m3 5 rounded lag 128 3.8625"; with a lag that depends on the row's mean:
--                              p="… lag 128 0.8625 mean"; nil: P is not rounded
--   runs                       "model": its program runs a language model, {.points runs=model}; nil: a kernel
--   mask                       "causal": its kernels compute with that mask; nil: without a mask
--   shapes                     of a lab on attention over a KV cache: its public shapes, from labs/labNN
--   journal                    of a lab whose program searches: the file that answers its questions, from labs/labNN
--   not_graded                 why labs/grade does not take it: {.points grade="no: REASON"}; nil: it does
--   first_line, last_line        of the lab in the chapter
--   items      { name, relation, limit, from, full, shape, points, words, line }, in the block's order;
--              the last is the item `written`, whose points are the sum of the questions'
--   tasks      starters in the order of the sheet, each with stars, earns, hints, marker
--   questions  { points, text, line }
--   mutants    variants of the chapter's kernels, planted in its programs; each with loses, the names of the items
--              that it loses
--
-- The block of points has one item a line: NAME [RELATION LIMIT [from COUNT]] [@ SHAPE] POINTS [# words]. A
-- resource without a limit takes it from the lab's script, labs/labNN, or from labs/sheet/resources.def. An item
-- with `from` is an aim, what the lab teaches: COUNT is the count of the program before or, without one, of the
-- starter. labs/sheet/rule.h has the rule by which items are paid.
local runs = require "runs"
local stages = require "stages"

local sheets = {}

-- Items without a limit: correct and hidden judge outputs, races judges accesses.
local PLAIN = { correct = true, hidden = true, races = true }
-- Items of a lab whose program searches: how many candidates it asks for until it has one of the elite (the best
-- settings, labs/replay.h), on a journal and on drawn landscapes.
local SEARCHES = { "candidates", "drawn" }

-- The lines of a .def file of the C programs; its path is relative to code/.
local function rows_of(table_file)
    return io.lines(pandoc.path.directory(package.searchpath("sheets", package.path)) .. "/../" .. table_file)
end

-- The names of those counters of the simulator that a lab shows for a launch, in the order of counts.def.
local function read_counters()
    local names = {}
    for line in rows_of("ptxsim/counts.def") do
        local name, title = line:match('^[A-Z_]*COUNTER%(([%w_]+),[%s%u_,]*"([^"]*)"')
        if title and title ~= "" then
            table.insert(names, name)
        end
    end
    return names
end
local COUNTERS = read_counters()

-- The set of shapes that have names.
local function read_shapes()
    local names = {}
    for line in rows_of("workbench/shapes.def") do
        local name = line:match("^SHAPE%((%w+),")
        if name then
            names[name] = true
        end
    end
    return names
end
local SHAPES = read_shapes()

-- The names of the resources that a sheet may give points for, in the order of resources.def; and their usual
-- limits.
local function read_resources()
    local names, usual = {}, {}
    for line in rows_of("../labs/sheet/resources.def") do
        local known, name, limit = line:match('^RESOURCE%((%u+), *([%w_]+), *"[^"]*", *"([^"]*)"')
        if known == "BOTH" or known == "SHEETS" then
            table.insert(names, name)
            usual[name] = limit:match("[<>=]=.*[^)]")
        end
    end
    return names, usual
end
local RESOURCES, USUAL = read_resources()
local IN_BOTH = { correct = true, hidden = true } -- items of labs with a search, and of labs with kernels
local RELATIONS = { ["<="] = true, [">="] = true, ["=="] = true }
local TOTAL = 100

-- Whether a shape is a cache: 2x8x512q4p16 is two sequences of 8 heads with 512 tokens, 4 queries for each head,
-- pages of 16.
local function is_cache(shape)
    return shape:match("^%d+x%d+x%d+q%d+p%d+$") or shape:match("^%d+x%d+x%d+q%d+p%d+r%d+$")
end

local function is_one_of(list, name)
    for _, known in ipairs(list) do
        if known == name then
            return true
        end
    end
    return false
end
-- The items that a planted bug loses, by what it breaks, unless loses= names others. Without `correct`, limits pay
-- nothing, and an aim half.
local LOSES = { race = "races", correctness = "correct hidden races", logits = "correct hidden races",
    draws = "correct hidden races" }

local function in_classes(element, class)
    return element.classes and element.classes:includes(class)
end

local function trim(text)
    return (text:gsub("^%s+", ""):gsub("%s+$", ""))
end

-- The words of inlines, with code in backquotes; calls `odd` for any other element.
local function words_of(inlines, odd)
    local out = {}
    for _, el in ipairs(inlines) do
        if el.t == "Str" then
            table.insert(out, el.text)
        elseif el.t == "Space" or el.t == "SoftBreak" or el.t == "LineBreak" then
            table.insert(out, " ")
        elseif el.t == "Code" then
            table.insert(out, "`" .. el.text .. "`")
        elseif el.t == "Quoted" then
            local mark = el.quotetype == "DoubleQuote" and { "“", "”" } or { "‘", "’" }
            table.insert(out, mark[1] .. words_of(el.content, odd) .. mark[2])
        elseif el.t == "Emph" or el.t == "Strong" then
            table.insert(out, words_of(el.content, odd))
        elseif el.t == "Span" and el.identifier == "" and #el.classes == 0 then
            table.insert(out, words_of(el.content, odd)) -- +sourcepos puts spans around words
        else
            odd(el)
        end
    end
    return table.concat(out)
end

local function words_of_blocks(blocks, odd)
    local out = {}
    for _, block in ipairs(blocks) do
        if block.t == "Para" or block.t == "Plain" then
            table.insert(out, trim(words_of(block.content, odd)))
        elseif block.t == "Div" and block.identifier == "" and #block.classes == 0 then
            table.insert(out, words_of_blocks(block.content, odd))
        else
            odd(block)
        end
    end
    return table.concat(out, " ")
end

-- ---- Reading -----------------------------------------------------------------------------------

-- A lab's script, labs/labNN, without comments; "": there is none.
local function read_script(number)
    local file = io.open(string.format("labs/lab%02d", number))
    local text = file and file:read("a") or ""
    if file then
        file:close()
    end
    return (text:gsub("\n%s*#[^\n]*", "\n"))
end

-- The limit of a resource in a lab, such as "<= 128": the one in the lab's script, else the usual one; nil: it has
-- none, or the script has --without and its name.
local function limit_in(script, name)
    for without in script:gmatch("%-%-without%s+([%w_,]+)") do
        if ("," .. without .. ","):find("," .. name .. ",", 1, true) then
            return nil
        end
    end
    for limited, limit in script:gmatch("%-%-%l+%s+'([%w_]+)%s+([<>=]=[^']*)'") do
        if limited == name then
            return limit
        end
    end
    return USUAL[name]
end

-- Reads a line of a block of points; script: the text of labs/labNN. Returns the item; or nil, and what is wrong.
local function parse_item(line, script)
    local item = {}
    local rest, words = line:match("^([^#]*)#%s*(.-)%s*$")
    item.words = words or ""
    local fields = {}
    for field in (rest or line):gmatch("%S+") do
        table.insert(fields, field)
    end
    item.name = table.remove(fields, 1)
    local counted = is_one_of(COUNTERS, item.name)
    local taken = is_one_of(RESOURCES, item.name)
    if taken and not RELATIONS[fields[1]] then
        local place = 1
        for field in (limit_in(script, item.name) or ""):gmatch("%S+") do
            table.insert(fields, place, field)
            place = place + 1
        end
    end
    if RELATIONS[fields[1]] then
        item.relation = table.remove(fields, 1)
        item.limit = tonumber(table.remove(fields, 1))
        if not item.limit then
            return nil, item.name .. " " .. item.relation .. " is not followed by a number"
        end
        if fields[1] == "from" then
            table.remove(fields, 1)
            item.from = tonumber(table.remove(fields, 1))
            if not item.from then
                return nil, item.name .. ": from is not followed by a number"
            end
        end
    end
    if fields[1] == "@" then
        table.remove(fields, 1)
        item.shape = table.remove(fields, 1) or ""
        if not SHAPES[item.shape] and not item.shape:match("^%d+x%d+x%d+$") and not is_cache(item.shape) then
            return nil, string.format('"%s" is no shape: small, mission, long, huge or BxHxS',
                item.shape)
        end
    end
    item.points = math.tointeger(tonumber(fields[1]))
    if #fields ~= 1 or not item.points or item.points < 1 then
        return nil, "an item is NAME [RELATION LIMIT [from COUNT]] [@ SHAPE] POINTS, not '"
            .. trim(rest or line) .. "'"
    end
    local measured = taken or is_one_of(SEARCHES, item.name) or counted
        or item.name == "speed"
    if item.name == "written" then
        return nil, "written is worth what the questions are: leave it out"
    elseif not PLAIN[item.name] and not measured then
        return nil, item.name .. " is no item: correct, hidden, races, speed; a resource: "
            .. table.concat(RESOURCES, ", ") .. "; of a search: " .. table.concat(SEARCHES, ", ")
            .. "; a counter of the simulator: "
            .. table.concat(COUNTERS, ", ")
    elseif measured and not item.relation then
        return nil, item.name .. " needs a limit, such as <= 128"
    elseif PLAIN[item.name] and item.relation then
        return nil, item.name .. " is right or wrong; it has no limit"
    elseif item.name ~= "correct" and (counted or item.name == "speed") ~= (item.shape ~= nil)
        and not (taken and is_cache(item.shape)) then -- resources may have a cache's shape: it decides the kernel's
                                                      -- form
        return nil, item.name .. (item.shape and " is of no shape" or " needs a shape: @ small")
    elseif item.name == "speed" then
        if item.relation ~= ">=" or item.limit <= 0 or item.limit >= 1 then
            return nil, "speed is >= a share of the reference's below 1"
        end
        item.full = 1.0
    end
    if item.from and (item.name == "speed" or item.relation == "=="
        or (item.from - item.limit) * (item.relation == "<=" and 1 or -1) <= 0) then
        return nil, item.name .. ": an aim is <= or >= a limit, and comes from beyond it"
    end
    return item
end

-- Reads the items in order; `written` is added later.
local function read_points(block, sheet, note)
    local seen, script = {}, read_script(sheet.number or 0)
    local at = sheet.line
    for line in (block.text .. "\n"):gmatch("(.-)\n") do
        at = at + 1
        if line:match("%S") and not line:match("^%s*#") then
            local item, why = parse_item(line, script)
            if not item then
                note(at, "%s", why)
            else
                local key = item.name == "correct" and item.name or item.name .. "@" .. (item.shape or "")
                if seen[key] then
                    note(at, "second item %s (first in line %d)", item.name, seen[key])
                end
                seen[key] = at
                item.line = at
                table.insert(sheet.items, item)
            end
        end
    end
end

local function read_hints(div, line, sheet, note)
    local id = div.attributes["for"]
    local odd = function(el)
        note(line, "hints for %s: an ordered list of plain words and code, not %s", id, el.t)
    end
    local hints = { line = line }
    for _, block in ipairs(div.content) do
        if block.t == "Div" and #block.content == 1 then
            block = block.content[1] -- +sourcepos puts a div around the block
        end
        if block.t == "OrderedList" then
            for _, entry in ipairs(block.content) do
                local text = words_of_blocks(entry, odd)
                if text == "" then
                    note(line, "hints for %s: hint %d is empty", id, #hints + 1)
                end
                table.insert(hints, text)
            end
        else
            odd(block)
        end
    end
    if not id then
        note(line, "hints without for=")
    elseif sheet.hints[id] then
        note(line, "second hints for %s (first in line %d)", id, sheet.hints[id].line)
    else
        sheet.hints[id] = hints
    end
end

local function read_question(div, line, sheet, note)
    local points = math.tointeger(tonumber(div.attributes.points or ""))
    if not points or points < 1 then
        note(line, "a question needs points=, a whole number from 1")
    end
    local text = words_of_blocks(div.content, function(el)
        note(line, "a question is plain words and code, not %s", el.t)
    end)
    if text == "" then
        note(line, "a question without words")
    end
    table.insert(sheet.questions, { points = points or 0, text = text, line = line })
end

-- Reads a chapter's document; `complain` and `position` are functions of chunks.lua.
function sheets.read(book, chapter, document, complain, position)
    local function note(line, ...)
        complain(book, chapter.path, line, ...)
    end
    local function line_of(element)
        local _, line = position(element.attributes)
        return line or 0
    end
    local inside = {} -- line numbers inside a lab
    local function read_lab(div)
        local _, first_line, last_line = position(div.attributes)
        local sheet = {
            first_line = first_line, last_line = last_line,
            number = tonumber(chapter.tag), chapter = chapter, items = {}, tasks = {},
            questions = {}, hints = {}, mutants = {},
        }
        div:walk({
            traverse = "topdown",
            Header = function(el)
                local title = trim(words_of(el.content, function() end))
                sheet.title = sheet.title or title:gsub("^Lab %d+: ", "")
            end,
            CodeBlock = function(block)
                local line = line_of(block)
                if in_classes(block, "starter") then
                    inside[line] = true
                elseif in_classes(block, "points") then
                    inside[line] = true
                    if sheet.line then
                        note(line, "second block of points (first in line %d)", sheet.line)
                        return
                    end
                    sheet.line, sheet.program = line, block.attributes.program
                    local how = block.attributes.p
                    if how then
                        local offset, sum, lags = how:match("^e4m3 (%-?%d+) (%l+)(.*)$")
                        local tile, lag, mean = (lags or ""):match("^ lag (%d+) ([%d.]+)( ?%l*)$")
                        sheet.p = { offset = math.tointeger(tonumber(offset)), sum = sum,
                            tile = math.tointeger(tonumber(tile)), lag = tonumber(lag),
                            mean = mean == " mean" }
                        if not sheet.p.offset or (sum ~= "rounded" and sum ~= "unrounded")
                            or lags ~= "" and not (sheet.p.lag and (mean == "" or sheet.p.mean)) then
                            note(line, 'p="%s" is not "e4m3 OFFSET rounded" or "… unrounded", '
                                .. 'and perhaps "lag KEYS POWERS" or "lag KEYS POWERS mean"', how)
                            sheet.p = nil
                        end
                    end
                    sheet.mask = block.attributes.mask
                    if sheet.mask and sheet.mask ~= "causal" then
                        note(line, 'mask="%s" is not "causal"', sheet.mask)
                        sheet.mask = nil
                    end
                    sheet.runs = block.attributes.runs
                    if sheet.runs and sheet.runs ~= "model" then
                        note(line, 'runs="%s" is not "model"', sheet.runs)
                        sheet.runs = nil
                    end
                    local graded = block.attributes.grade
                    sheet.not_graded = graded and graded:match("^no: (%S.*)$")
                    if graded and not sheet.not_graded then
                        note(line, 'grade="%s" is not "no: REASON"', graded)
                    end
                    read_points(block, sheet, note)
                end
            end,
            Div = function(inner)
                local line = line_of(inner)
                if in_classes(inner, "hints") then
                    inside[line] = true
                    read_hints(inner, line, sheet, note)
                    return inner, false
                elseif in_classes(inner, "question") then
                    inside[line] = true
                    read_question(inner, line, sheet, note)
                    return inner, false
                end
            end,
        })
        local first = sheet.questions[1]
        for _, hints in pairs(sheet.hints) do
            first = first or hints
        end
        if not sheet.line then
            if first then
                note(first.line, "hints and questions belong to a lab with points")
            end
        elseif not sheet.number then
            note(sheet.line, "an appendix has no lab to give points for")
        elseif chapter.sheet then
            note(sheet.line, "a second lab with points (first in line %d)", chapter.sheet.line)
        else
            chapter.sheet = sheet
            sheet.lines = inside
        end
    end
    document:walk({ Div = function(div)
        if in_classes(div, "lab") then
            read_lab(div)
        end
    end })
    local function outside(element, what)
        local line = line_of(element)
        if not inside[line] then
            note(line, "%s outside of a lab", what)
        end
    end
    document:walk({
        CodeBlock = function(block)
            if in_classes(block, "points") then
                outside(block, "points")
            end
        end,
        Div = function(div)
            if in_classes(div, "hints") then
                outside(div, "hints")
            elseif in_classes(div, "question") then
                outside(div, "a question")
            end
        end,
    })
end

-- ---- Checking ----------------------------------------------------------------------------------

-- What a lab's script names: the program before; the program that searches, and its journal; the shapes, if they
-- are caches.
local function names_in(script)
    local shapes = {}
    for shape in (script:match("%-%-shapes%s+([%w,]+)") or ""):gmatch("[^,]+") do
        table.insert(shapes, shape)
    end
    return script:match("%-%-before%s+([%w_]+)"), script:match("%-%-search%s+([%w_]+)"),
        script:match("%-%-journal%s+([%w_./]+)"), shapes[1] and is_cache(shapes[1]) and shapes
end

-- The lab's program in chapters/stages.tsv; or nil, and one line about what is missing there.
local function read_program(sheet)
    local rows, columns = stages.read("chapters/stages.tsv")
    if not rows then
        return nil, columns
    end
    for _, row in ipairs(rows) do
        if row.number == sheet.number then
            sheet.images = row.images or ""
            return row.program, string.format("chapters/stages.tsv: stage %d has no program to judge", sheet.number)
        end
    end
    return nil, string.format("chapters/stages.tsv has no stage %d: add a row of its %s", sheet.number, columns)
end

-- Reads a list of items' names, as a set and as a list; complains about names of no item.
local function item_names(sheet, text, note)
    local names, list = {}, {}
    for name in text:gmatch("%S+") do
        local known = false
        for _, item in ipairs(sheet.items) do
            known = known or item.name == name
        end
        if not known then
            note("the lab has no item " .. name)
        elseif not names[name] then
            names[name] = true
            table.insert(list, name)
        end
    end
    return names, list
end

local function check_task(book, sheet, variant, complain)
    local part = variant.parts[1]
    local function note(...)
        complain(book, part.file, part.line, ...)
    end
    local id = variant.of
    variant.stars = math.tointeger(tonumber(variant.attributes.stars or ""))
    if not variant.attributes.title then
        note("starter for %s without title=", id)
    end
    if not variant.stars or variant.stars < 1 or variant.stars > 3 then
        note("starter for %s: stars= is 1, 2 or 3", id)
    end
    for _, line in ipairs(part.lines) do
        variant.marker = variant.marker or line:match("[Yy]our code") and trim(line)
    end
    if not variant.marker then
        note('starter for %s: no line says "Your code"', id)
    end
    local earns = variant.attributes.earns
    variant.earns = select(2, item_names(sheet, earns or "", function(why)
        note("starter for %s: %s", id, why)
    end))
    if #variant.earns == 0 then
        note("starter for %s without earns=, the items that it takes", id)
    end
    variant.hints = sheet.hints[id]
    if not variant.hints then
        note("starter for %s without hints", id)
    elseif #variant.hints < 2 then
        complain(book, part.file, variant.hints.line, "hints for %s: at least two", id)
    end
    local ours = false
    for _, root in ipairs(variant.programs) do
        ours = ours or root == sheet.root
    end
    if sheet.root and variant.chunk and not ours then
        note("starter for %s, which %s does not use", id, sheet.program)
    end
    variant.number = #sheet.tasks + 1
    table.insert(sheet.tasks, variant)
end

local function check_mutant(book, sheet, variant, complain)
    local graded = false -- true for the lab's program and for kernels; other C is not graded
    for _, root in ipairs(variant.programs) do
        graded = graded or root == sheet.root or not sheet.journal and root.file:match("%.cu$")
    end
    if not graded then
        return
    end
    local part = variant.parts[1]
    local function note(...)
        complain(book, part.file, part.line, ...)
    end
    local loses = variant.attributes.loses or LOSES[variant.breaks] or ""
    if loses == "nothing" then -- the bug shows only where the grader does not look
        variant.loses = {}
        table.insert(sheet.mutants, variant)
        return
    end
    local _, list = item_names(sheet, loses, function(why)
        note("mutant %s: %s", variant.name, why)
    end)
    if #list == 0 then
        note("mutant %s does not say what it loses=", variant.name)
    end
    variant.loses = list
    table.insert(sheet.mutants, variant)
end

-- Checks a sheet when chunks and variants are linked. `book.variants` have the attributes of their blocks.
function sheets.check(book, complain)
    for _, chapter in ipairs(book.chapters) do
        local sheet = chapter.sheet
        if sheet then
            local function note(...)
                complain(book, chapter.path, sheet.line, ...)
            end
            local judged, why = read_program(sheet)
            local before, search, journal, shapes = names_in(read_script(sheet.number))
            sheet.shapes = shapes or nil
            sheet.program = sheet.program or search or judged
            if sheet.program == search then
                sheet.journal = journal -- a search is not compared with a program before
            else
                sheet.before = before
            end
            for _, root in ipairs(book.roots) do
                if root.file:match("([^/]*)%.%w+$") == sheet.program then
                    sheet.root = root
                end
            end
            if not sheet.program then
                note("%s", why)
            elseif not sheet.root then
                note("%s is no program of the book", sheet.program)
            end
            for _, variant in ipairs(book.variants) do
                if variant.chapter == chapter and variant.kind == "mutant" then
                    check_mutant(book, sheet, variant, complain)
                elseif variant.chapter == chapter then
                    if sheet.lines[variant.parts[1].line] then
                        check_task(book, sheet, variant, complain)
                    else
                        complain(book, chapter.path, variant.parts[1].line,
                            "starter for %s outside of the lab", variant.of)
                    end
                end
            end
            for id, hints in pairs(sheet.hints) do
                local known = false
                for _, task in ipairs(sheet.tasks) do
                    known = known or task.of == id
                end
                if not known then
                    complain(book, chapter.path, hints.line, "hints for %s, which has no starter", id)
                end
            end
            if #sheet.tasks == 0 then
                note("a lab with points and no starter")
            end
            for _, item in ipairs(sheet.items) do
                if is_one_of(SEARCHES, item.name) ~= (sheet.journal ~= nil) and not IN_BOTH[item.name] then
                    complain(book, chapter.path, item.line, "%s is no item of a lab whose program %s", item.name,
                        sheet.journal and "searches" or "is a kernel")
                end
            end
            local written, total = 0, 0
            for _, question in ipairs(sheet.questions) do
                written = written + question.points
            end
            if written > 0 then
                table.insert(sheet.items, { name = "written", points = written,
                    words = "the questions, read by a person", line = sheet.line })
            end
            for _, item in ipairs(sheet.items) do
                total = total + item.points
            end
            if total ~= TOTAL then
                note("the lab's points add up to %d, not %d", total, TOTAL)
            end
            local aims, others = sheets.aims_and_others(sheet)
            if aims > 0 and 2 * aims < others then -- the aims must have at least a third of these points
                note("the aims have %d of %d points that need no GPU: at least a third", aims, aims + others)
            end
        end
    end
end

-- The points of the aims, and the points of all other items that need neither a GPU nor a reader.
function sheets.aims_and_others(sheet)
    local aims, others = 0, 0
    for _, item in ipairs(sheet.items) do
        if item.from then
            aims = aims + item.points
        elseif item.name ~= "written" and item.name ~= "speed" then
            others = others + item.points
        end
    end
    return aims, others
end

-- The rule of points in words, for a sheet; labs/sheet/rule.h applies the rule.
function sheets.rule(sheet)
    local before = sheet.before and not sheet.journal and "the program before" or "the starter"
    return {
        sheet.journal and "`correct` and `hidden` pay for each of their cases that passes."
            or "`correct`, `hidden` and `races` pay for each of their cases that passes.",
        "An aim, whose count is to come away from that of " .. before .. ", pays by how far it has come"
            .. (sheet.journal and "; " or ", from a fifth of the way on; ")
            .. "while a case of `correct` is wrong it pays half, and limits and speed pay nothing.",
        "All but the aim grows with it, from nothing to the whole: " .. before .. ", as it is, has nothing.",
    }
end

local function points_of(sheet, names)
    local total = 0
    for _, item in ipairs(sheet.items) do
        total = total + (is_one_of(names, item.name) and item.points or 0)
    end
    return total
end

-- The points that a failure of these items costs, in words.
function sheets.what_hangs_on(sheet, names)
    return string.format("%s: %d points", table.concat(names, ", "), points_of(sheet, names))
end

-- How many of the points that need neither a GPU nor a reader are left, by the rule of labs/sheet/rule.h, if the
-- items in `lost` reach nothing and all others everything; and the sum of all these points.
local function points_left(sheet, lost)
    local right, aims, reached, left, total = not is_one_of(lost, "correct"), 0, 0, 0, 0
    for _, item in ipairs(sheet.items) do
        aims = aims + (item.from and item.points or 0)
        reached = reached + (item.from and not is_one_of(lost, item.name) and item.points or 0)
    end
    for _, item in ipairs(sheet.items) do
        local paid = is_one_of(lost, item.name) and 0 or item.from and (right and 1 or 0.5)
            or item.relation and not right and 0 or aims > 0 and reached / aims or 1
        if item.name ~= "written" and item.name ~= "speed" then
            left, total = left + paid * item.points, total + item.points
        end
    end
    return left, total
end

-- The most that a mutant can cost in the lab, by the rule of points: as if the items that it loses reached nothing. In
-- fact, cases that pass are still paid.
local function most_lost(sheet, variant)
    local left, total = points_left(sheet, variant.loses)
    return total - left
end

-- What a mutant costs in the lab, as check-labs has measured; if it has not, the most that it can cost.
function sheets.what_it_costs(sheet, variant)
    if #variant.loses == 0 then
        return "costs nothing in the lab"
    end
    local graded = "simulator/grades:lab" .. sheet.chapter.tag .. "."
    local cost = runs.evaluate(graded .. "total - " .. graded .. "planted." .. variant.name, "%.4g")
    local _, total = points_left(sheet, {})
    local most, rest = most_lost(sheet, variant), ""
    if is_one_of(variant.loses, "correct") then
        rest = "; limits" .. (sheets.aims_and_others(sheet) == 0 and ""
            or tonumber(cost or 0) > most and ", the aim" or ", half of the aim")
    end
    return string.format("costs %s points: %s%s", cost and cost .. " of " .. total or string.format("up to %g", most),
        table.concat(variant.loses, ", "), rest)
end

-- ---- For the grader and the driver -------------------------------------------------------------

local function quote(text)
    return '"' .. text:gsub('[%c"\\]', function(c)
        return c == '"' and '\\"' or c == "\\" and "\\\\" or string.format("\\u%04x", c:byte())
    end) .. '"'
end

local function number(value)
    return math.tointeger(value) and string.format("%d", value) or string.format("%.10g", value)
end

local function list(entries, indent)
    if #entries == 0 then
        return "[]"
    elseif not indent then
        return "[" .. table.concat(entries, ", ") .. "]"
    end
    return "[\n" .. indent .. "  " .. table.concat(entries, ",\n" .. indent .. "  ") .. "\n"
        .. indent .. "]"
end

local function each(values, f)
    local out = {}
    for _, value in ipairs(values) do
        table.insert(out, f(value))
    end
    return out
end

-- The lab as JSON: build/labs/labNN.json.
function sheets.json(sheet)
    local exercises = each(sheet.tasks, function(task)
        return string.format('{"chunk": %s, "title": %s, "stars": %d, "earns": %s, "marker": %s,\n'
            .. '     "hints": %s}', quote(task.of), quote(task.title), task.stars,
            list(each(task.earns, quote)), quote(task.marker), list(each(task.hints, quote), "     "))
    end)
    local questions = each(sheet.questions, function(question)
        return string.format('{"points": %d, "text": %s}', question.points, quote(question.text))
    end)
    local points = each(sheet.items, function(item)
        local out = '{"name": ' .. quote(item.name)
        if item.relation then
            out = out .. string.format(', "relation": %s, "limit": %s', quote(item.relation),
                number(item.limit))
        end
        out = out .. (item.from and ', "from": ' .. number(item.from) or "")
        out = out .. (item.full and ', "full": ' .. number(item.full) or "")
            .. (item.shape and ', "shape": ' .. quote(item.shape) or "")
        return out .. string.format(', "points": %d, "words": %s}', item.points, quote(item.words))
    end)
    local mutants = {}
    for _, variant in ipairs(sheet.mutants) do
        for _, root in ipairs(variant.programs) do
            local program = root.file:match("([^/]*)%.%w+$")
            -- A program that stages.tsv lists with an image of its own, as ch20_hopper=sm_90a, is not graded.
            if not (" " .. (sheet.images or "")):find(" " .. program .. "=", 1, true) then
                table.insert(mutants, string.format('{"program": %s, "name": %s, "loses": %s, "costs": %s}',
                    quote(program), quote(variant.name), list(each(variant.loses, quote)),
                    number(most_lost(sheet, variant))))
            end
        end
    end
    return string.format('{\n  "lab": %d,\n  "title": %s,\n  "program": %s,\n  "before": %s,\n'
        .. '  "chapter": %s,\n%s%s%s%s%s%s  "exercises": %s,\n  "questions": %s,\n  "points": %s,\n'
        .. '  "mutants": %s\n}\n',
        sheet.number, quote(sheet.title or ""), quote(sheet.program),
        sheet.before and quote(sheet.before) or "null", quote(sheet.chapter.path),
        sheet.p and string.format('  "p": {"format": "e4m3", "offset": %d, "sum": %s%s},\n',
            sheet.p.offset, quote(sheet.p.sum), sheet.p.lag and string.format(
                ', "tile": %d, "lag": %g%s', sheet.p.tile, sheet.p.lag,
                sheet.p.mean and ', "mean": true' or "") or "") or "",
        sheet.journal and string.format('  "journal": %s,\n', quote(sheet.journal)) or "",
        sheet.shapes and string.format('  "shapes": %s,\n', list(each(sheet.shapes, quote))) or "",
        sheet.runs and string.format('  "runs": %s,\n', quote(sheet.runs)) or "",
        sheet.mask and string.format('  "mask": %s,\n', quote(sheet.mask)) or "",
        sheet.not_graded and string.format('  "not_graded": %s,\n', quote(sheet.not_graded)) or "",
        list(exercises, "  "), list(questions, "  "), list(points, "  "), list(mutants, "  "))
end

-- A limit in words: "<= 128", "<= 0 at small"; for an aim "<= 0 at small, from 6144".
function sheets.limit_text(item)
    return (item.relation and item.relation .. " " .. number(item.limit) or "")
        .. (item.shape and " at " .. item.shape or "")
        .. (item.from and ", from " .. number(item.from) or "")
end

return sheets
