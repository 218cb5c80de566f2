-- Numbers in prose: references into recorded runs, and the small expressions over them.
--
--   h200/ch03_wmma_qk:shapes.mission.timing.p50_us          a value of plots/runs/h200/ch03_wmma_qk.json
--   h200/ch02_scalar:…p50_us / h200/ch03_wmma_qk:…p50_us    + - * / on such values and numbers, left to right
--
-- A path's part is a field's name, an index into an array (from 0), or [field=value,…], the one
-- element of an array whose fields have these values: correctness[seed=0,input=normal].rel_head.
-- A record whose source hash is not today's (build/hashes.tsv: program, tab, hash) is stale.

local M = {}

-- A strict JSON reader (RFC 8259) that says at which byte it stopped. null becomes M.null.
M.null = setmetatable({}, { __tostring = function() return "null" end })

function M.json(text)
    local at = 1
    local value
    local function fail(what) error({ message = what .. " at byte " .. at }, 0) end
    local function skip() at = text:find("[^ \t\r\n]", at) or #text + 1 end
    local function expect(char)
        skip()
        if text:sub(at, at) ~= char then fail("expected '" .. char .. "'") end
        at = at + 1
    end
    local escapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }
    local function str()
        expect('"')
        local parts = {}
        while true do
            local stop = text:find('["\\%c]', at)
            if not stop then fail("unfinished string") end
            parts[#parts + 1] = text:sub(at, stop - 1)
            at = stop + 1
            local char = text:sub(stop, stop)
            if char == '"' then return table.concat(parts) end
            if char ~= "\\" then fail("control character in a string") end
            local kind = text:sub(at, at)
            at = at + 1
            if kind == "u" then
                local code = text:match("^%x%x%x%x", at) or fail("bad \\u escape")
                parts[#parts + 1] = utf8.char(tonumber(code, 16))
                at = at + 4
            else
                parts[#parts + 1] = escapes[kind] or fail("bad escape")
            end
        end
    end
    local function number()
        local found = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
        local result = found and not found:match("^-?0%d") and not found:match("%.$") and tonumber(found)
        if not result then fail("bad value") end
        at = at + #found
        return result
    end
    local function members(close, one)
        local result = {}
        at = at + 1
        skip()
        if text:sub(at, at) == close then at = at + 1 return result end
        repeat
            one(result)
            skip()
            local char = text:sub(at, at)
            if char ~= "," and char ~= close then fail("expected ',' or '" .. close .. "'") end
            at = at + 1
        until char == close
        return result
    end
    function value()
        skip()
        local char = text:sub(at, at)
        if char == "{" then
            return members("}", function(object)
                skip()
                local name = str()
                if object[name] ~= nil then fail("field '" .. name .. "' twice") end
                expect(":")
                object[name] = value()
            end)
        elseif char == "[" then
            return members("]", function(array) array[#array + 1] = value() end)
        elseif char == '"' then
            return str()
        end
        for word, meaning in pairs({ ["true"] = true, ["false"] = false, null = M.null }) do
            if text:sub(at, at + #word - 1) == word then at = at + #word return meaning end
        end
        return number()
    end
    local ok, result = pcall(value)
    if ok then
        skip()
        if at <= #text then ok, result = false, { message = "something after the end at byte " .. at } end
    end
    if not ok then return nil, result.message or tostring(result) end
    return result
end

local function read(path)
    local file = io.open(path)
    if not file then return nil end
    local text = file:read("a")
    file:close()
    return text
end

local records, hashes = {}, nil

local function today()
    if not hashes then
        hashes = {}
        for line in (read("build/hashes.tsv") or ""):gmatch("[^\n]+") do
            local program, hash = line:match("^(%S+)\t(%x+)$")
            if program then hashes[program] = hash end
        end
    end
    return hashes
end

-- The record gpu/name, or nil and what is wrong with it. The third result is true for a stale one.
function M.record(name)
    if not records[name] then
        local path = "plots/runs/" .. name .. ".json"
        local text = read(path)
        local entry = {}
        if not text then
            entry.message = "no recorded run " .. path
        else
            local why
            entry.record, why = M.json(text)
            if not entry.record or type(entry.record) ~= "table" then entry.message = path .. ": not JSON: " .. (why or "no object") end
        end
        if entry.record then
            local sources = {}
            if entry.record.source_hash then sources[entry.record.program or name:match("[^/]+$")] = entry.record.source_hash end
            for program, hash in pairs(entry.record.source_hashes or {}) do sources[program] = hash end
            for program, hash in pairs(sources) do
                local now = today()[program]
                if now and now ~= hash then
                    entry.stale = path .. " is stale: " .. program .. " has changed since it was recorded (run it again: make runs)"
                elseif not now then
                    entry.stale = path .. ": cannot tell whether it is stale: build/hashes.tsv has no hash of " .. program
                end
            end
        end
        records[name] = entry
    end
    local entry = records[name]
    if entry.message then return nil, entry.message end
    return entry.record, entry.stale, entry.stale ~= nil
end

local function choose(array, condition)
    local found
    for _, element in ipairs(array) do
        local same = type(element) == "table"
        for field, wanted in condition:gmatch("([%w_]+)=([^,]+)") do
            same = same and tostring(element[field]) == wanted
        end
        if same and found then return nil, "more than one element has " .. condition end
        if same then found = element end
    end
    if found == nil then return nil, "no element has " .. condition end
    return found
end

-- The value at `path` in a record, or nil and perhaps why.
local function lookup(record, path)
    local here, rest = record, path
    while rest ~= "" do
        if type(here) ~= "table" or here == M.null then return nil end
        local condition, after = rest:match("^%[([^%]]*)%]%.?(.*)$")
        if condition then
            local why
            here, why = choose(here, condition)
            if here == nil then return nil, why end
        else
            local part
            part, after = rest:match("^([^.%[]+)%.?(.*)$")
            if not part then return nil end
            local index = here[part] == nil and math.tointeger(tonumber(part))
            here = index and here[index + 1] or here[part]
            if here == nil then return nil end
        end
        rest = after
    end
    return here
end

local function operand(word)
    local number = tonumber(word)
    if number then return number end
    local name, path = word:match("^([%w_.-]+/[%w_.-]+):(%S+)$")
    if not name then return nil, "'" .. word .. "' is neither a number nor <gpu>/<record>:<key>" end
    local record, why, stale = M.record(name)
    if not record then return nil, why end
    local found, more = lookup(record, path)
    if found == nil or found == M.null then
        return nil, "plots/runs/" .. name .. ".json has no '" .. path .. "'" .. (more and " (" .. more .. ")" or "")
    end
    if type(found) == "table" then return nil, "'" .. path .. "' of plots/runs/" .. name .. ".json is not one value" end
    return found, stale and why or nil, stale
end

-- Evaluates the text of a .run span. Returns the text to set, then what is wrong: an error (text is
-- nil) or a stale record (text is there, for drafts).
function M.evaluate(expression, fmt, scale)
    local words = {}
    for word in expression:gmatch("%S+") do words[#words + 1] = word end
    if #words % 2 == 0 then return nil, "cannot read '" .. expression .. "': value [op value …]" end
    local result, warning = operand(words[1])
    if result == nil then return nil, warning end
    for i = 2, #words, 2 do
        local right, why, stale = operand(words[i + 1])
        if right == nil then return nil, why end
        if stale then warning = why end
        if type(result) ~= "number" or type(right) ~= "number" then return nil, "'" .. expression .. "' computes with something that is no number" end
        local op = words[i]
        if op == "+" then result = result + right
        elseif op == "-" then result = result - right
        elseif op == "*" then result = result * right
        elseif op == "/" then
            if right == 0 then return nil, "'" .. expression .. "' divides by zero" end
            result = result / right
        else return nil, "unknown operator '" .. op .. "' in '" .. expression .. "' (+ - * / with spaces around)" end
    end
    if scale then
        local factor = tonumber(scale)
        if not factor or type(result) ~= "number" then return nil, "scale=" .. scale .. " is of no use for '" .. expression .. "'" end
        result = result * factor
    end
    if type(result) == "boolean" then result = result and "yes" or "no" end
    fmt = fmt or (math.type(result) == "float" and "%.6g" or "%s")
    if math.type(result) == "float" and fmt:find("%%[-+ 0#]*%d*d") then result = math.floor(result + 0.5) end
    local ok, text = pcall(string.format, fmt, result)
    if not ok then return nil, "fmt=\"" .. fmt .. "\" does not fit the value " .. tostring(result) end
    return text, warning
end

return M
