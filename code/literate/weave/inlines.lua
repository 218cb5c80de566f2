-- Sets what is inside lines: links within the book, code, equations, marks of the index.
--
--   inlines.set(list)   a filter of Pandoc's Inlines

local common = require "weave.common"
local index = require "weave.index"
local labels = require "weave.labels"
local LATEX, HANDOUT = common.LATEX, common.HANDOUT
local raw, escape, red, where = common.raw, common.escape, common.red, common.where
local position, fail, fail_or_note = common.position, common.fail, common.fail_or_note

local inlines = {}

local function set_link(link, capital)
    local id = link.target:match("^#(.+)$")
    if not id then
        if link.target:match("%.md") then
            fail(where(position(link)), "a link to %s: inside the book link to an #id", link.target)
        end
        link.attributes = {}
        return link
    end
    local entry, ambiguous = labels.find(id)
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

-- Inline code may break after signs at which a reader would break it, but not after signs with which it begins. A name
-- longer than half a line may break before its capitals.
local LONG_NAME = 32
local function set_code(code)
    if not LATEX then
        code.attr = pandoc.Attr()
        return code
    end
    local text = escape(code.text)
    if #code.text > 12 then
        text = text:gsub("([%w}])([/.,(:=]+)(%w)", "%1%2\\cbk{}%3")
            :gsub("(%w\\_)(%w%w)", "%1\\cbk{}%2")
    end
    if #code.text > LONG_NAME then
        text = text:gsub("(%l)(%u%l)", "%1\\cbk{}%2")
    end
    return raw("\\code{" .. text .. "}")
end

local UNITS = {}
for unit in ("% ns µs ms KB MB GB TB GB/s TB/s TFLOP/s MHz GHz W cm mm pt px"):gmatch("%S+") do
    UNITS[unit] = true
end

local function is_space(el)
    return el.t == "Space" or el.t == "SoftBreak"
end

-- The text from list[i] to the next space if step is 1, or back to the previous space if step is -1; and the index of
-- that space.
local function word(list, i, step)
    local text = ""
    while list[i] and not is_space(list[i]) do
        local part = pandoc.utils.stringify(list[i])
        text = step > 0 and text .. part or part .. text
        i = i + step
    end
    return text, i
end

-- What a space becomes between two words that are read as one: a number and its unit or its next three digits, a
-- factor and a power of ten or two, a short sum or product, a sign and what follows it. Nil: the space stays a space.
local SIGNS = {}
for sign in ("≤ ≥ = ≈ < > · × + −"):gmatch("%S+") do
    SIGNS[sign] = true
end
local SHORT = 4 -- characters of a part that is not parted from the other

local function is_short(text)
    return text:find("^[%w(√]") and (utf8.len(text) or #text) <= SHORT
end

local function bound(list, i)
    if not is_space(list[i]) or not list[i - 1] or not list[i + 1] then
        return nil
    end
    local before = word(list, i - 1, -1)
    local after, at = word(list, i + 1, 1)
    local number, further = before:match("%d$"), word(list, at + 1, 1)
    local power = "^[12]0?[\xB2-\xE2]" -- 10⁻³ or 2⁸: after the digits comes a superscript's first byte
    if number and (UNITS[after:gsub("[.,;:)]+$", "")] or after:match("^%%"))
        or SIGNS[before] and i > 2 and #after > 0
        or number and after == "×" and further:match("^%d") or number and after == "·" and further:match(power)
        or (after == "·" or after == "+" or after == "−") and is_short(before) and is_short(further) then
        return "\u{A0}"
    elseif before:match("^%(?%d%d?%d?$") and after:match("^%d%d%d%f[%D]") then
        return "\u{202F}" -- as in numbers of records
    end
    return nil
end

function inlines.set(list)
    local out = pandoc.List()
    for i, el in ipairs(list) do
        local together = bound(list, i)
        if together then
            out:insert(pandoc.Str(together))
        elseif el.t == "Link" then
            local before = list[i - 1] and list[i - 1].t:match("Space") or list[i - 1]
                and list[i - 1].t == "SoftBreak"
            local stop = i == 1 or before and list[i - 2] and list[i - 2].t == "Str"
                and list[i - 2].text:match("[.?!]$")
            local set = set_link(el, stop)
            if set.t then
                out:insert(set)
            else
                out:extend(set)
            end
        elseif el.t == "Code" then
            out:insert(set_code(el))
        elseif el.t == "Span" and el.classes:includes("index") then
            out:extend(index.mark(el))
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

return inlines
