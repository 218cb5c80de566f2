# chart: a lab's kernel before and after in the simulator: counts a launch, an L4's floors
last = int(system("grep -c '^$' '" . data . "'")) / 2  # 2, or 3 where there are floors
cell(line, column) = system(sprintf("sed -n %dp '%s' | cut -f %d", line, data, column))
old = cell(2, 1)
new = cell(2, 2)
stats data index 1 using 1 nooutput
zero = STATS_min
stats data index 1 using 2 nooutput
end = STATS_max
stats data index 2 using 1 nooutput
rows = STATS_records
floors = 0
if (last == 3) {
    stats data index 3 using 1 nooutput
    floors = STATS_records
}
head = 24.0
below = head + 19 * rows  # the top of the first panel's axis
height = below + 44 + (floors > 0 ? 12 + 19 * floors + 44 : 0)
eval term(height)
set multiplot
set border 1
set ytics scale 0
set lmargin at screen 158.0 / width
set rmargin at screen 1 - 84.0 / width
set grid xtics ls 20
line = "nohead lc rgb '#8fa3b8' lw 1.4"

set key at screen 0.01, screen 1 - 4 / height top left horizontal maxrows 1 Left reverse \
    samplen 0.4 textcolor rgb ink
set tmargin at screen 1 - head / height
set bmargin at screen 1 - below / height
set yrange [rows + 0.6:0.4]
set logscale x
set xrange [zero / 1.5:end]
set format x '%.0s%c'
set xtics zero * 10, 10 offset 0,0.2
set xtics add ('0' zero)
set xlabel 'counted in one launch (simulator, exact)' textcolor rgb ink offset 0,0.6
plot data index 2 using (end / 1.1):1:ytic(2) with dots lc rgb '#ffffff' notitle, \
     data index 2 using 3:1:($4 - $3):(0) with vectors @line notitle, \
     data index 2 using 3:1 with points pt 6 ps 0.8 lw 1.4 lc rgb after title (old eq '' ? '' : old), \
     data index 2 using 4:1 with points pt 7 ps 0.8 lc rgb after title new, \
     data index 2 using (end):1:5 with labels left \
         offset 1,0 textcolor rgb ink notitle

if (floors > 0) {
    set key off
    set tmargin at screen 1 - (below + 56) / height
    set bmargin at screen 44 / height
    unset logscale x
    set yrange [floors + 0.6:0.4]
    set xrange [0:*]
    set xtics autofreq format '%g'
    set xlabel 'least time on an L4, unit by unit, µs (a bound, not a prediction)' \
        textcolor rgb ink offset 0,0.6
    plot data index 3 using (0):1:ytic(2) with dots lc rgb '#ffffff', \
         data index 3 using 3:1:($4 - $3):(0) with vectors @line, \
         data index 3 using 3:1 with points pt 6 ps 0.8 lw 1.4 lc rgb after, \
         data index 3 using 4:1 with points pt 7 ps 0.8 lc rgb after
}
unset multiplot
