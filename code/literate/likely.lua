-- Estimates, from the file to be set, how much room the contents and the numbers take, which the
-- first run of LaTeX does not know. If the second run then breaks lines and pages where the first
-- did, no third run is needed.
local HEADINGS_PER_PAGE = 95 -- headings on a page of the contents
-- Sections that book.latex leaves out of the contents.
local NOT_THERE = { ["Exercises"] = true, ["What was learned"] = true, ["Further reading"] = true }
local LINES_PER_PAGE = 61 -- lines of book.tex for a page, in chapters whose page numbers have two digits
local file = ...
local place, line, begun, headings = {}, 0, nil, 0

for text in io.lines(file) do
  line = line + 1
  begun = begun or text:find("^\\begin{document}") and line
  if begun then
    for _, macro in ipairs { "label", "head", "laterpart" } do
      for label in text:gmatch(macro .. "{([^}]*)}") do
        place[label] = place[label] or line
      end
    end
    local title = text:match("^\\chapter{([^}]*)") or text:match("^\\section{([^}]*)")
    if title and not NOT_THERE[title] then
      headings = headings + 1
    end
  end
end

local likely = { contents = headings // HEADINGS_PER_PAGE }

-- A number with as many digits as the page number of a label.
function likely.page(label)
  local page = ((place[label] or line) - begun) / LINES_PER_PAGE
  return page < 10 and "0" or page < 100 and "00" or "000"
end

-- A number as wide as that of a section, figure or table; the label tells the chapter.
function likely.number(label)
  local chapter = label:match("^%l+%-(%w%w?)%-") or label:match(":ch(%d%d)")
  return chapter and chapter:gsub("^0", "") .. ".1" or "1"
end

return likely
