-- Tables of recorded numbers in which each row is written once. A block of class table has a pipe
-- table in Markdown, and the settings that its cells need:
--
--   ``` {.table #tbl:ch06-times rows="small %.2f mission %.1f long %.0f"}
--   before: h200/ch05_vector_pv
--   after: h200/ch06_wmma_pv
--   staged = h200/ch06_staged:shapes.{row}.timing.p50_us
--   | shape   | chapter 5, µs | chapter 6, µs |        ratio | staged, µs |
--   |---------|--------------:|--------------:|-------------:|-----------:|
--   | {label} |      {before} |       {after} | {ratio} %.2f |   {staged} |
--   Table: Before and after on an H200, p50.
--   ```
--
-- A cell that is a reference into a recorded run, or an expression of references (runs.lua), needs
-- no backquotes; a format may follow: `{ncu}.dram_bytes * 1e-6 %.2f`. In a cell that also has words,
-- a reference is written as in prose, `…`{.run fmt="…"}. Any other cell is Markdown.
--
-- An indented line continues the line above it. What follows `Table:`, up to the end, is the
-- caption.
--
-- {name} in a cell is replaced by what the block says. `name = text` is an alias, whose text may
-- contain names, too. `name: value` is a setting, which may also be an attribute of the fence:
--
--   rows: small mission %.1f      a row with {row} is repeated for each of the words; %… is the
--                                 format of the word before it; {label} is the word as code
--   rows: stages 3-14             … with {n}, {nn} (two digits), {name} or {program}, for each of
--   rows: stages 3 4 8            these stages of chapters/stages.tsv
--   rows: key  | label | fmt      … with {key} or {label}, for each of the indented lines below;
--         a    | one   | %.2f     a column fmt has the rows' formats
--   columns: ch02_scalar ch03_…   a cell with {column} is repeated to the right for each word
--   fmt: %.0f                     format of the references that neither have one nor get one from
--                                 their column or row
--   scale: 1e-3                   a factor of every reference
--   before: h200/ch05_vector_pv   {before} is the p50 of this program at the shape {row}, {after}
--   after: h200/ch06_wmma_pv      that of the other, {ratio} the first over the second;
--   lab: h200/lab06               in the row `mission` all three are of the lab, which ran both in
--                                 turns
--
-- The block becomes the table with every row written out. Each reference keeps the line on which its
-- cell begins, so that a mistake in it is reported at that line.

local stages = require "stages"
local tables = {}

local STAGES = "chapters/stages.tsv"
local SETTINGS = {
    rows = true, columns = true, fmt = true, scale = true, before = true, after = true, lab = true,
}
local LABELS = { ["1x8x512"] = "`mission`, B = 1" } -- words with a label other than themselves
local OPERATORS = { ["+"] = true, ["-"] = true, ["*"] = true, ["/"] = true }
local REFERENCE = "^[%w_.-]+/[%w_.-]+:%S"
local NAME = "{(%a[^{}]*)}"

local function trim(text)
    return (text:gsub("^%s+", ""):gsub("%s+$", ""))
end

---------------------------------------------------------------------------------------------------
-- Reading a block: settings and aliases by name, rows, caption; each with the line where it begins

-- The cells of a row, { text, line }. "\|" is a bar within a cell. A bar at the end of a line and
-- one at the beginning of the next count as one.
local function split_cells(entry)
    local text = trim(entry.source):gsub("\\|", "\0"):gsub("|%s*\n%s*|", "\n|")
    text = text:gsub("^|", ""):gsub("|$", "")
    local cells, line = {}, entry.line
    for cell in (text .. "|"):gmatch("([^|]*)|") do
        local _, before = cell:match("^%s*"):gsub("\n", "")
        local words = trim(cell):gsub("%s*\n%s*", " "):gsub("\0", "|")
        table.insert(cells, { text = words, line = line + before })
        line = line + select(2, cell:gsub("\n", ""))
    end
    return cells
end

-- The block's lines as entries { kind, name, line, source }; an indented line belongs to the entry above it.
local function read_entries(block, line, note)
    local entries, entry = {}, nil
    for source in (block.text .. "\n"):gmatch("(.-)\n") do
        line = line + 1
        local name, sign, rest = source:match("^(%a[%w_]*)%s*([=:])%s*(.*)$")
        if entry and (entry.kind == "caption" or source:match("^%s+%S")) then
            entry.source = entry.source .. "\n" .. source
        elseif name or source:match("^|") then
            entry = { line = line, source = rest or source, name = name }
            entry.kind = not name and "row" or sign == "=" and "alias"
                or name == "Table" and "caption" or "setting"
            table.insert(entries, entry)
        else
            entry = nil
            if source:match("%S") then
                note(line, "'%s' is neither a row (| …), nor name = …, nor name: …, nor Table: …",
                    source)
            end
        end
    end
    return entries
end

local function add_setting(spec, name, entry)
    local first = spec.settings[name]
    if not SETTINGS[name] then
        spec.note(entry.line, "a table has no setting '%s'", name)
    elseif first then
        spec.note(entry.line, "second %s: (first in line %d)", name, first.line)
    end
    spec.settings[name] = first or entry
end

-- A block as { settings and aliases: by name { text, line }; written: the rows; caption; note }.
local function read_block(block, line, note)
    local spec = { line = line, note = note, settings = {}, aliases = {}, written = {} }
    for name, value in pairs(block.attributes) do
        if name ~= "data-pos" then
            add_setting(spec, name, { text = value, line = line })
        end
    end
    for _, entry in ipairs(read_entries(block, line, note)) do
        local first = spec.aliases[entry.name]
        entry.text = trim(entry.source):gsub("%s*\n%s*", " ")
        if entry.kind == "row" then
            table.insert(spec.written, { cells = split_cells(entry), line = entry.line })
        elseif entry.kind == "caption" then
            spec.caption = entry
        elseif entry.kind == "setting" then
            add_setting(spec, entry.name, entry)
        elseif first then
            note(entry.line, "second %s = … (first in line %d)", entry.name, first.line)
        else
            spec.aliases[entry.name] = entry
        end
    end
    return spec
end

---------------------------------------------------------------------------------------------------
-- The elements of rows and columns: lists of { name → value }; the value of `fmt` is a number's format

-- The stages named by "stages 3-14" or "stages 3 4 8"; nil after a complaint.
local function stages_of(setting, note)
    local rows, trouble = stages.read(STAGES)
    if not rows then
        note(setting.line, "%s", trouble)
        return nil
    end
    local by_number, found = {}, {}
    for _, row in ipairs(rows) do
        by_number[row.number] = { name = row.name, program = row.program,
            n = tostring(row.number), nn = string.format("%02d", row.number) }
    end
    for word in setting.text:gsub("^stages", ""):gmatch("%S+") do
        local first, last = word:match("^(%d+)%-(%d+)$")
        first, last = tonumber(first or word), tonumber(last or word)
        if not first or not last or first > last then
            note(setting.line, "'%s' is neither a stage's number nor two, as in 3-14", word)
            return nil
        end
        for n = first, last do
            if not by_number[n] then
                note(setting.line, "%s has no stage %d", STAGES, n)
                return nil
            end
            table.insert(found, by_number[n])
        end
    end
    return found
end

local function words_of(setting, name, note)
    local found = {}
    for word in setting.text:gmatch("%S+") do
        if not word:match("^%%") then
            table.insert(found, { [name] = word })
        elseif #found == 0 or found[#found].fmt then
            note(setting.line, "the format %s follows no word", word)
        else
            found[#found].fmt = word
        end
    end
    return found
end

local function list_of(setting, note)
    local found, names = {}, nil
    local line = setting.line - 1
    for source in (setting.source .. "\n"):gmatch("(.-)\n") do
        local values = {}
        line = line + 1
        for value in (source .. "|"):gmatch("([^|]*)|") do
            table.insert(values, trim(value))
        end
        if not names then
            names = values
        elseif #values ~= #names then
            note(line, "%d values for %d names", #values, #names)
        else
            local element = {}
            for i, value in ipairs(values) do
                element[names[i]] = value
            end
            table.insert(found, element)
        end
    end
    return found
end

-- Labels an element of "rows:" that has no label of its own: as LABELS says, or with its word as code.
local function add_label(element)
    if element.row and not element.label then
        element.label = LABELS[element.row] or "`" .. element.row .. "`"
    end
end

-- The elements in a table's "rows:" or "columns:", and the set of names that each element gives a
-- value.
local function read_range(spec, name)
    local setting = spec.settings[name .. "s"]
    local elements, names = {}, {}
    if setting then
        if setting.text:match("^stages%f[%W]") then
            elements = stages_of(setting, spec.note)
        elseif (setting.source or ""):find("\n", 1, true) then
            elements = list_of(setting, spec.note)
        else
            elements = words_of(setting, name, spec.note)
        end
        if elements and #elements == 0 then
            spec.note(setting.line, "%ss: names nothing", name)
        end
    end
    elements = elements or {} -- nil after a complaint
    for _, element in ipairs(elements) do
        add_label(element)
        for key in pairs(element) do
            names[key] = key ~= "fmt" or nil
        end
    end
    for key in pairs(names) do
        if spec.aliases[key] then
            spec.note(spec.aliases[key].line, "%ss: gives a value to {%s} already", name, key)
        end
    end
    return { elements = elements, names = names }
end

-- The record named by before:, after: or lab:.
local function record_of(spec, name)
    local setting = spec.settings[name]
    if setting and not setting.text:match("^[%w_.-]+/[%w_.-]+$") then
        spec.note(setting.line, "%s: %s is not <gpu>/<record>", name, setting.text)
    end
    return setting and setting.text
end

-- Sets the aliases {before}, {after} and {ratio} from the settings before: and after:; lab: gives them other values
-- in the row `mission`.
local function add_speedup(spec)
    for _, name in ipairs { "before", "after" } do
        local record = record_of(spec, name)
        spec.aliases[name] = spec.aliases[name] or record and {
            text = record .. ":shapes.{row}.timing.p50_us", line = spec.settings[name].line,
        }
    end
    local lab = record_of(spec, "lab")
    if spec.settings.before and spec.settings.after then
        spec.aliases.ratio = spec.aliases.ratio
            or { text = "{before} / {after}", line = spec.line, used = true }
    end
    for _, row in ipairs(lab and spec.row.elements or {}) do
        if row.row == "mission" then
            row.before = lab .. ":speedup.mission.before_p50_us"
            row.after = lab .. ":speedup.mission.after_p50_us"
            row.ratio = lab .. ":speedup.mission.median"
        end
    end
end

---------------------------------------------------------------------------------------------------
-- Cells

-- Whether a text uses one of `names`, itself or through an alias.
local function has_name(spec, text, names, seen)
    seen = seen or {}
    for name in text:gmatch(NAME) do
        local alias = spec.aliases[name]
        if names[name] then
            return true
        elseif alias and not seen[name] then
            seen[name] = true
            if has_name(spec, alias.text, names, seen) then
                return true
            end
        end
    end
    return false
end

-- The text with its placeholders {NAME} replaced by their values: those in `row` or `column` (tables: name to text),
-- or the alias's text.
local function substitute(spec, text, line, row, column, inside)
    return (text:gsub(NAME, function(name)
        local alias = spec.aliases[name]
        local value = row[name] or column[name] or alias and alias.text
        if not value then
            spec.note(line, "unknown {%s}: no alias, and nothing of rows: or columns:", name)
        elseif inside[name] then
            spec.note(line, "{%s} is made of itself", name)
        else
            if alias then
                alias.used = true
            end
            inside[name] = true
            value = substitute(spec, value, line, row, column, inside)
            inside[name] = nil
            return value
        end
        return ""
    end))
end

-- Whether a text is a reference, or consists of numbers and references with operators between them.
local function is_expression(text)
    local words, references = 0, 0
    for word in text:gmatch("%S+") do
        words = words + 1
        local reference = word:match(REFERENCE)
        if words % 2 == 0 and not OPERATORS[word]
            or words % 2 == 1 and not reference and not tonumber(word) then
            return false
        end
        references = references + (reference and 1 or 0)
    end
    return words % 2 == 1 and references > 0
end

-- A cell as Markdown.
local function markdown(spec, text, line)
    local expression, fmt = text:match("^([^%%]-)%s*(%%.*)$")
    if is_expression(expression or text) then
        local attribute = fmt and ' fmt="' .. fmt .. '"' or ""
        return "`" .. (expression or text) .. "`{.run" .. attribute .. "}"
    end
    for word in text:gsub("`[^`]*`", ""):gmatch("%S+") do
        if word:match(REFERENCE) then
            spec.note(line, "cannot read '%s': value [operator value …] [%%format]; beside words a "
                .. "reference is `…`{.run}", text)
            break
        end
    end
    return (text:gsub("|", "\\|"))
end

-- The cells { text, line, fmt } of a written row, for one element of rows:.
local function set_cells(spec, cells, row)
    local out = {}
    for _, cell in ipairs(cells) do
        local repeated = has_name(spec, cell.text, spec.column.names)
        spec.column.used = spec.column.used or repeated
        for _, column in ipairs(repeated and spec.column.elements or { {} }) do
            local text = substitute(spec, cell.text, cell.line, row, column, {})
            table.insert(out, { text = markdown(spec, text, cell.line), line = cell.line,
                fmt = column.fmt or row.fmt or spec.fmt })
        end
    end
    return out
end

local function row_text(cells)
    local texts = {}
    for _, cell in ipairs(cells) do
        table.insert(texts, cell.text)
    end
    return "| " .. table.concat(texts, " | ") .. " |\n"
end

---------------------------------------------------------------------------------------------------
-- The whole table

-- The cells of the header, and of the delimiter row below it; where a cell of the header is repeated,
-- so is its delimiter. Returns nil after a complaint about the delimiter row.
local function set_head(spec)
    local head, delimiters = spec.written[1], spec.written[2]
    if not delimiters or row_text(delimiters.cells):match("[^|%s:-]") then
        spec.note(delimiters and delimiters.line or spec.line,
            "a table begins with a header and a row like |---|--:|")
        return nil
    end
    local same, aligns = #head.cells == #delimiters.cells, {}
    for i, cell in ipairs(delimiters.cells) do
        local repeated = same and has_name(spec, head.cells[i].text, spec.column.names)
        for _ = 1, repeated and #spec.column.elements or 1 do
            table.insert(aligns, cell)
        end
    end
    local cells = set_cells(spec, head.cells, {})
    if #cells ~= #aligns then
        spec.note(delimiters.line, "a row of %d cells below a header of %d", #aligns, #cells)
    end
    return cells, aligns
end

-- All rows after the header, as lists of `width` cells.
local function set_rows(spec, width)
    local out = {}
    for i = 3, #spec.written do
        local written, repeated = spec.written[i], false
        for _, cell in ipairs(written.cells) do
            repeated = repeated or has_name(spec, cell.text, spec.row.names)
        end
        spec.row.used = spec.row.used or repeated
        for _, row in ipairs(repeated and spec.row.elements or { {} }) do
            local cells = set_cells(spec, written.cells, row)
            if #cells ~= width then
                spec.note(written.line, "a row of %d cells below a header of %d", #cells, width)
            end
            table.insert(out, cells)
        end
    end
    return out
end

-- Complains about settings and aliases that the block does not use.
local function check_used(spec)
    for name, alias in pairs(spec.aliases) do
        if not alias.used then
            spec.note(alias.line, "nothing uses {%s}", name)
        end
    end
    for _, name in ipairs { "row", "column" } do
        if #spec[name].elements > 0 and not spec[name].used then
            spec.note(spec.settings[name .. "s"].line, "no cell has a name of %ss:", name)
        end
    end
end

-- Copies blocks. Each source position becomes at(line, column), and each reference without a format
-- or scale gets the given ones.
local function place(blocks, at, fmt, scale)
    local function set(element)
        local position = element.attributes["data-pos"]
        element.attributes["data-pos"] = position and position:gsub("(%d+):(%d+)", at)
        if element.t == "Code" and element.classes:includes("run") then
            element.attributes.fmt = element.attributes.fmt or fmt
            element.attributes.scale = element.attributes.scale or scale
        end
        return element
    end
    return pandoc.walk_block(pandoc.Div(blocks), { Span = set, Code = set, Link = set }).content
end

local function place_cells(row, cells, scale)
    for i, cell in ipairs(row.cells) do
        local line = cells[i].line .. ":1"
        cell.contents = place(cell.contents, function() return line end, cells[i].fmt, scale)
    end
end

local function read_caption(caption, note)
    local blocks = pandoc.read(caption.source, "commonmark_x-emoji+sourcepos").blocks
    if #blocks ~= 1 then
        note(caption.line, "a caption is one paragraph")
    end
    return pandoc.utils.blocks_to_inlines(place(blocks, function(line, column)
        return string.format("%d:%s", tonumber(line) + caption.line - 1, column)
    end))
end

-- The Table that a block of class table stands for, or nil. Each mistake is reported once, by
-- note(line, format, …). `line` is the fence's.
function tables.expand(block, line, note)
    local told, failed = {}, false
    local spec = read_block(block, line, function(at, ...)
        local message = at .. string.format(...)
        if not told[message] then
            note(at, ...)
        end
        told[message], failed = true, true
    end)
    spec.fmt = spec.settings.fmt and spec.settings.fmt.text
    spec.row, spec.column = read_range(spec, "row"), read_range(spec, "column")
    add_speedup(spec)
    if failed then
        return nil
    end
    local head, aligns = set_head(spec)
    local rows = head and set_rows(spec, #head)
    local caption = spec.caption and read_caption(spec.caption, spec.note)
    if not failed then
        check_used(spec)
    end
    if failed then
        return nil
    end
    local text = row_text(head) .. row_text(aligns)
    for _, cells in ipairs(rows) do
        text = text .. row_text(cells)
    end
    local made = pandoc.read(text, "commonmark_x-emoji+sourcepos").blocks[1]
    local scale = spec.settings.scale and spec.settings.scale.text
    place_cells(made.head.rows[1], head, scale)
    for i, row in ipairs(made.bodies[1].body) do
        place_cells(row, rows[i], scale)
    end
    made.identifier = block.identifier
    made.attributes["data-pos"] = string.format("%d:1-%d:1", line, line)
    if caption then
        made.caption = { long = { pandoc.Plain(caption) } }
    end
    return made
end

return tables
