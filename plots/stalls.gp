# chart: where the cycles of a warp go for each instruction that it issues, stage by stage
stats data index 0 using 1 nooutput
rows = int(STATS_records)
parts = 7
last = parts + 1 # the column of the whole
key_height = 46.0
height = key_height + 17 * rows + 42
eval term(height)
set multiplot
set lmargin at screen 148.0 / width
set rmargin at screen 1 - 6.0 / width
set tmargin at screen 1 - key_height / height
set bmargin at screen 40 / height
set border 1
set ytics scale 0
set yrange [rows + 0.6:0.4]
set xrange [0:14.2]
set xtics 0, 2, 12
set xlabel 'cycles of a warp for each instruction' textcolor rgb ink offset 0,0.6
set label 1 '× million instructions' at screen 1 - 4.0 / width, screen 1 - (key_height - 5) / height right \
    textcolor rgb ink
half = 0.33

# Neighbouring parts differ in lightness, so that they can be told apart in grey.
array shade[7] = ['#111111', '#b9c6d3', '#0b3c6f', '#f0b67a', '#a83232', '#e4e4e4', '#ffffff']
name(k) = system(sprintf("grep -v '^$' '%s' | sed -n %dp", data, rows + k))
array column_at[7] = [4.0, 70.0, 216.0, 4.0, 108.0, 174.0, 318.0]
do for [k = 1:7] {
    x = column_at[k]
    y = 1 - (k < 4 ? 8 : 22) / height
    set object k rectangle from screen x / width, screen y - 4 / height to screen (x + 9) / width, screen y + 4 / height \
        fillcolor rgb shade[k] fillstyle solid 1 border lc rgb ink
    set label 10 + k name(k) at screen (x + 13) / width, screen y left textcolor rgb ink
}
set style fill solid 1 border lc rgb ink
plot data index 0 using (0):1:ytic(2) with dots lc rgb '#ffffff', \
     for [k = 1:parts] data index 2 using (0):1:(k == 1 ? 0 : column(k)):(column(k + 1)):($1 - half):($1 + half) \
         with boxxyerror lc rgb shade[k] lw 0.6, \
     data index 2 using last:1:(sprintf('%.1f%s', column(last), strcol(last + 2) eq '*' ? '*' : '')) with labels left \
         offset 0.3,0 textcolor rgb ink, \
     data index 2 using (14.15):1:(sprintf('%.3g', column(last + 1))) with labels right textcolor rgb ink
unset multiplot
