# chart: roofline of an H200 and an L4: attention's intensities and the measured programs
last = int(system("grep -c '^$' '" . data . "'")) / 2  # 8, or 11 if there are points
stats data index 0 using 3 nooutput
lowest = STATS_min
stats data index 0 using 4:5 nooutput
height = 330.0
eval term(height)
set lmargin at screen 58.0 / width
set rmargin at screen 1 - 12.0 / width
set tmargin at screen 1 - 22 / height
set bmargin at screen 42 / height

set logscale xy
set xrange [20:100000]
set yrange [lowest:4000]
set xlabel 'FLOPs a byte of DRAM traffic' textcolor rgb ink offset 0,0.5
set label 3 'TFLOP/s' at screen 10.0 / width, graph 0.5 center rotate textcolor rgb ink
set xtics ('100' 100, '1000' 1000, '10000' 10000)
set ytics format '%g'
set mytics 10
# The angle at which a slope of 1 is drawn: pixels of a decade downwards over pixels of a decade to
# the right.
angle = atan((height - 64) / log10(4000 / lowest) / ((width - 70) / log10(5000.0))) * 180 / pi
set label 1 sprintf('DRAM, %g TB/s', STATS_min_x) at 60, 60 * STATS_min_x center rotate by angle \
    offset -0.4,0.5 textcolor ls 1
set label 2 sprintf('DRAM, %g TB/s', STATS_min_y) at 60, 60 * STATS_min_y center rotate by angle \
    offset -0.4,0.5 textcolor ls 9

points = last < 10 ? '' : ', data index 10 using 1:2 with points ls 1,' \
    . 'data index 11 using 1:2 with points ls 2,' \
    . 'data index 9 using 1:2:3 with labels left offset 0.9,0 textcolor rgb ink'

plot data index 0 using 1:3:(0):(3980) with vectors nohead lc rgb faint lw 1, \
     data index 0 using 1:(4000):2 with labels center offset 0,0.7 textcolor rgb ink, \
     data index 1 using 1:2 with lines ls 1, \
     data index 2 using 1:2 with lines ls 1 lw 0.8, \
     data index 5 using 1:2 with lines ls 1 lw 0.8 dt (2,3), \
     data index 3 using 1:2 with lines ls 9 dt (8,4), \
     data index 4 using 1:2 with lines ls 9 lw 0.8 dt (8,4), \
     data index 6 using 1:2 with lines ls 1 lw 0.8, \
     data index 7 using 1:2:3 with labels right textcolor ls 1, \
     data index 8 using 1:2:3 with labels right textcolor ls 9 \
     @points
