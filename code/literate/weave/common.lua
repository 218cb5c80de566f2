-- What all parts of the weave share: the output format, the chapter that is being read or set, and the mistakes
-- found so far.
--
--   common.LATEX, DRAFT, STUDENT, TEACHER, HANDOUT   what is made: DRAFT=1, AUDIENCE=student or teacher, HANDOUT=4
--   common.reading                          the chapter, or the preface: { path, tag, sheet, … }
--   common.fail(where, …)                   notes a mistake; then nothing is written
--   common.fail_or_note(where, …)           notes something that a draft may lack
--   common.where(line), position(element)   "chapters/03-….md:120", and the line of an element
--   common.link_here(id, what)              in HTML, a sign that links to the place where it is

local chunks = require "chunks"

local common = {
    LATEX = FORMAT:find("^latex") ~= nil, -- HTML otherwise
    DRAFT = (os.getenv("DRAFT") or "") ~= "",
    STUDENT = os.getenv("AUDIENCE") == "student",
    TEACHER = os.getenv("AUDIENCE") == "teacher",
    HANDOUT = tonumber(os.getenv("HANDOUT") or ""), -- the lab whose sheet is set, or nil
    failures = {},
}
local LATEX, DRAFT, HANDOUT = common.LATEX, common.DRAFT, common.HANDOUT

function common.fail(where, ...)
    local line = tonumber(where:match(":(%d+)$") or "")
    local sheet = common.reading and common.reading.sheet
    if HANDOUT and common.reading and not (sheet and sheet.number == HANDOUT and line
        and line >= sheet.first_line and line <= sheet.last_line) then
        return -- outside the handout's lab, a document is read only for its numbers
    end
    table.insert(common.failures, where .. ": " .. string.format(...))
end

-- Notes something that a draft may lack, and a finished book may not.
function common.fail_or_note(where, ...)
    if DRAFT then
        io.stderr:write("draft: ", where, ": ", string.format(...), "\n")
    else
        common.fail(where, ...)
    end
end

function common.stop_on_failures()
    if #common.failures > 0 then
        io.stderr:write(table.concat(common.failures, "\n"), "\n")
        os.exit(83)
    end
end

function common.raw(text)
    return pandoc.RawInline(LATEX and "latex" or "html", text)
end

function common.raw_block(text)
    return pandoc.RawBlock(LATEX and "latex" or "html", text)
end

local TEX = {
    ["\\"] = "\\symbol{92}", ["{"] = "\\{", ["}"] = "\\}", ["$"] = "\\$", ["&"] = "\\&",
    ["#"] = "\\#", ["_"] = "\\_", ["%"] = "\\%", ["~"] = "\\textasciitilde{}",
    ["^"] = "\\textasciicircum{}",
}
local HTML = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }

function common.escape(text)
    if LATEX then
        return (text:gsub("[\\{}$&#_%%~^]", TEX))
    end
    return (text:gsub('[&<>"]', HTML))
end

-- Code keeps every space, even where TeX would merge several.
function common.escape_code(text)
    return LATEX and common.escape(text):gsub(" ", "~") or common.escape(text)
end

-- The file and line of something in the chapter that is being read.
function common.where(line)
    return common.reading.path .. (line and ":" .. line or "")
end

function common.position(element)
    local _, line = chunks.position(element.attributes)
    return line
end

-- The LaTeX comment by which code/literate/book finds the place in the chapter for a line of book.tex.
function common.origin(line)
    return "%@ " .. common.where(line)
end

function common.tex_label(id)
    return id ~= "" and "\\label{" .. id .. "}" or ""
end

-- The style sheet adds the sign, so that it is not a part of the text.
function common.link_here(id, what)
    return string.format('<a class="here" href="#%s" aria-label="link to this %s"></a>', common.escape(id), what)
end

function common.red(text)
    return LATEX and common.raw("\\textcolor{bad}{" .. common.escape(text) .. "}")
        or common.raw('<span class="draft">' .. common.escape(text) .. "</span>")
end

return common
