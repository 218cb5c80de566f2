-- What Pandoc gives to a filter, and what a filter, reader or writer gives to Pandoc.
std = "lua54"
read_globals = { "pandoc", "PANDOC_STATE", "PANDOC_SCRIPT_FILE", "FORMAT" }
globals = { "Pandoc", "Reader", "Writer" }
