# chart: relative error against p50 at the mission shape, stages, PyTorch's backends, and others
height = 280.0
eval term(height)
set lmargin at screen 74.0 / width
set rmargin at screen 1 - 20.0 / width
set tmargin at screen 1 - 26 / height
set bmargin at screen 42 / height
stats data index 0 skip 1 using 1 nooutput
fastest = STATS_min
slowest = STATS_max
stats data index 1 skip 1 using 1 nooutput
fastest = STATS_min < fastest ? STATS_min : fastest
slowest = STATS_max > slowest ? STATS_max : slowest
others = 0 == int(system("grep -A1 '^others' '" . data . "' | grep -c '^NaN'"))
if (others) {
    stats data index 2 skip 1 using 1 nooutput
    fastest = STATS_min < fastest ? STATS_min : fastest
    slowest = STATS_max > slowest ? STATS_max : slowest
}
set logscale xy
set xrange [fastest / 1.4:slowest * 1.5]
set yrange [1e-4:*]
set xtics ('1' 1, '2' 2, '3' 3, '5' 5, '10' 10, '20' 20, '30' 30, '50' 50, '100' 100, '200' 200)
set ytics ('10⁻⁴' 1e-4, '3·10⁻⁴' 3e-4, '10⁻³' 1e-3, '3·10⁻³' 3e-3, '10⁻²' 1e-2, '3·10⁻²' 3e-2, '10⁻¹' 1e-1)
set grid xtics ytics ls 20
set xlabel 'p50 of mission, µs' textcolor rgb ink offset 0,0.5
set ylabel 'relative error of the worst head' textcolor rgb ink offset 0.5,0
set key at screen 0.01, screen 1 - 4 / height top left horizontal maxrows 1 Left reverse \
    samplen 0.4 width -5 textcolor rgb ink
more = others ? ', data index 2 using 1:2 with points ls 2 title columnheader(1),' \
    . 'data index 2 skip 1 using 3:2:4 with labels center offset 0,0.8 textcolor ls 2 notitle' : ''

# PyTorch's two fastest backends are so close that one's label goes below its point.
plot data index 0 using 1:2 with points ls 1 title columnheader(1), \
     data index 0 skip 1 using 3:2:4 with labels center offset 0,-0.8 textcolor rgb ink notitle, \
     data index 1 using 1:2 with points ls 9 title columnheader(1), \
     data index 1 skip 1 using 3:($2 * (strcol(4) eq 'flash' ? 0.62 : 1.6)):4 with labels center \
         textcolor ls 9 notitle @more
