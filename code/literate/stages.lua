-- stages.lua: the rows of chapters/stages.tsv.

local stages = {}

-- Returns each row as a table by the names of the columns, in the file's order: { number = 3, name
-- = "WMMA Q·Kᵀ", program = "ch03_wmma_qk", images = "sm_89 sm_90", least = "75" }; a column with
-- "-" is nil. Also returns the names of the columns for a message: "number, name, program". Returns
-- nil and one line about what is wrong if the file is missing or a row has too few or many columns.
function stages.read(path)
    local file = io.open(path)
    if not file then
        return nil, path .. " is missing"
    end
    local columns, rows, line_number = nil, {}, 0
    for line in file:lines() do
        line_number = line_number + 1
        if line:sub(1, 1) ~= "#" then
            local cells = {}
            for cell in (line .. "\t"):gmatch("([^\t]*)\t") do
                table.insert(cells, cell)
            end
            if not columns then
                columns = cells
            elseif #cells ~= #columns then
                return nil, string.format("%s:%d: %d columns; there are %d in the heading", path, line_number,
                    #cells, #columns)
            else
                local row = {}
                for i, column in ipairs(columns) do
                    row[column] = cells[i] ~= "-" and cells[i] or nil
                end
                row.number = tonumber(row.number)
                table.insert(rows, row)
            end
        end
    end
    file:close()
    return rows, table.concat(columns or {}, ", ")
end

return stages
