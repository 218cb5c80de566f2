# chart: the kernels of one layer of a real model on an H200, with four ways of attention
stats data index 0 using 3 nooutput
last = STATS_max
height = 178.0
eval term(height)
set lmargin at screen 92.0 / width
set rmargin at screen 1 - 14.0 / width
set tmargin at screen 1 - 26 / height
set bmargin at screen 38 / height
set border 1
set xrange [0:last * 1.02]
set yrange [4.6:0.4]
set ytics scale 0
set grid xtics ls 20
set xlabel 'µs, from the end of one layer''s attention to the end of the next one''s' textcolor rgb ink offset 0,0.5
set style fill solid 1 noborder
array shade[4] = [0x0b3c6f, 0xb5600f, 0x9fb8d1, 0xd8d4cc]
array kind[4] = ['attention', 'quantisation', 'matrix products', 'norms, sums, GELU, copies']
array place[4] = [0.02, 0.2, 0.42, 0.66]
do for [k = 1:4] {
    set object k rectangle at screen place[k], screen 1 - 10 / height size screen 0.018, screen 8.0 / height \
        fc rgb shade[k] fs solid border rgb '#999999' lw 0.3
    set label k kind[k] at screen place[k] + 0.018, screen 1 - 10 / height left textcolor rgb ink
}
plot data index 0 using (0):1:ytic(2) with dots lc rgb '#ffffff', \
     data index 1 using 2:1:2:3:($1 - 0.3):($1 + 0.3):(shade[int($4) + 1]) with boxxyerror lc rgb variable
