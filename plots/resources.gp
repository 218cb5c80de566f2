# chart: shared memory, registers and occupancy on an L4, stage by stage, with their gates; a ring is
# another program of the chapter, one that keeps all of them
stats data index 0 using 1 nooutput
rows = int(STATS_records)
height = 34.0 + 19 * rows + 42
eval term(height)
set multiplot
set tmargin at screen 1 - 30 / height
set bmargin at screen 40 / height
set yrange [rows + 0.6:0.4]
set ytics scale 0
set border 1
set style fill solid 1 noborder
set boxwidth 0.5
half = 0.3

# panel(column, left, right, top of the axis, gate, its text, name): bars from zero, with their
# values beside them.
panel(k) = sprintf("set lmargin at screen %f; set rmargin at screen %f", \
    (152.0 + 111 * k) / width, (152.0 + 111 * k + 80) / width)
array most[3] = [99, 255, 100]
array limit[3] = [64, 128, 50]
array sign[3] = ['≤ 64', '≤ 128', '≥ 50']
array name[3] = ['shared memory, KiB', 'registers', 'occupancy, %']
array step[3] = [32, 128, 50]
do for [k = 1:3] {
    eval panel(k - 1)
    set xrange [0:most[k]]
    set xtics 0, step[k] scale 0.5
    set xlabel name[k] textcolor rgb ink offset 0,0.6
    set label 1 sign[k] at first limit[k], screen 1 - 16 / height center textcolor rgb gate
    set arrow 1 from first limit[k], screen 1 - 24 / height to limit[k], graph 0 nohead ls 21 front
    plot data index 0 using (0):1:ytic(2) with dots lc rgb '#ffffff', \
         data index 1 using (0):1:(0):k + 1:($1 - half):($1 + half) with boxxyerror lc rgb before, \
         data index 1 using (0):1:(sprintf('%.3g', column(k + 1))) with labels left \
             offset 0.2,0 textcolor rgb ink, \
         data index 2 using (k == 3 ? $2 : 1/0):1 with points pt 6 ps 0.8 lw 1.4 lc rgb after
    unset ytics
}
unset multiplot
