# chart: relative error of each program against double precision, worst head, with the gate
stats data index 0 using 1 nooutput
rows = int(STATS_records)
last = int(system("grep -c '^$' '" . data . "'")) / 2  # a block a shape from 3 on
stats data index 1 using 1 nooutput
tolerance = STATS_min
stats data index 1 using 2 nooutput
smallest = STATS_min < 2e-4 ? STATS_min / 2 : 1e-4
stats data index 1 using 3 nooutput
largest = STATS_max * 1.6
height = 26.0 + 19 * rows + 42
eval term(height)
set lmargin at screen 152.0 / width
set rmargin at screen 1 - 30.0 / width
set tmargin at screen 1 - 24 / height
set bmargin at screen 40 / height

set border 1
set logscale x
set xrange [smallest:largest > tolerance * 2.5 ? largest : tolerance * 2.5]
set xtics ('10⁻⁶' 1e-6, '10⁻⁵' 1e-5, '10⁻⁴' 1e-4, '3·10⁻⁴' 3e-4, '10⁻³' 1e-3, '3·10⁻³' 3e-3, \
    '10⁻²' 1e-2, '3·10⁻²' 3e-2, '10⁻¹' 1e-1)
set xlabel 'relative error of the worst head, any seed and input' textcolor rgb ink offset 0,0.5
set ytics scale 0
set yrange [rows + 0.6:0.4]
set grid xtics ls 20
set key at screen 0.01, screen 1 - 4 / height top left horizontal maxrows 1 Left reverse \
    samplen 0.4 width -2 textcolor rgb ink
set arrow 1 from tolerance, graph 0 to tolerance, graph 1 nohead ls 21
set label 1 sprintf('gate, %g', tolerance) at tolerance, graph 1 left offset -0.3,0.6 \
    textcolor rgb gate
array shade[4] = ['#9fb4c9', '#0b3c6f', '#3d6d9e', '#b5600f']
array shape[4] = [6, 7, 8, 12]

# The shapes of a row stand a little apart, so that equal errors do not hide one another.
plot data index 0 using (smallest * 1.01):1:ytic(2) with dots lc rgb '#ffffff' notitle, \
     data index 2 using 2:($1 - 0.4):(0):(0.8) with vectors nohead ls 21 notitle, \
     for [b = 3:last] data index b using 2:($1 + (b - 4.5) * 0.14) with points pt shape[b - 2] \
         ps 0.75 lw 1.3 lc rgb shade[b - 2] title columnheader(1)
