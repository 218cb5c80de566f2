# chart: p50 of every stage and of PyTorch's backends at four shapes, replayed as a graph and cold
stats data index 0 using 1 nooutput
rows = int(STATS_records)
bottom = STATS_max
head = 36
height = 16.0 * bottom + head + 44
eval term(height)
left = 140.0
panel = (width - left - 4) / 4

# For each shape: its name, PyTorch's best, the floor, the fastest and the slowest.
array name[4]
array theirs[4]
array floor_of[4]
array least[4]
array most[4]
do for [s = 1:4] {
    line = system(sprintf("awk -F'\t' '/^[a-z]/ && ++n == %d { print $1, $2, $3, $4, $5 }' '", s) . data . "'")
    name[s] = word(line, 1)
    theirs[s] = real(word(line, 2))
    floor_of[s] = real(word(line, 3))
    least[s] = real(word(line, 4))
    most[s] = real(word(line, 5))
}

unset key
set border 1
set logscale x
set ytics scale 0
set yrange [bottom + 0.8:0.3]
set tmargin at screen 1 - head / height
set bmargin at screen 24 / height
set label 2 'p50 in µs: ● graph, ○ cold; dashed: PyTorch''s fastest; dotted: floor and launch' \
    at screen 0.01, screen 1 - 9 / height textcolor rgb ink
labelled = 0
set multiplot
do for [s = 1:4] {
    if (!(most[s] > 0)) { continue } # a shape that was not run
    set lmargin at screen (left + (s - 1) * panel) / width
    set rmargin at screen (left + s * panel - 16) / width
    set xrange [least[s] * 0.7:most[s] * 1.4]
    unset xtics
    set xtics scale 0.5 nomirror offset 0,0.2 ('1' 1)
    do for [k = 0:6] {
        mark = 10 ** k
        if (mark >= least[s] * 0.7 && mark <= most[s] * 1.4) { set xtics add (k > 2 ? sprintf('%dk', mark / 1000) : sprintf('%d', mark) mark) }
    }
    set grid xtics ytics ls 20
    unset arrow
    if (theirs[s] > 0) { set arrow 1 from theirs[s], graph 0 to theirs[s], graph 1 nohead lc rgb gate lw 1 dt (5,3) }
    if (floor_of[s] > 0) {
        set arrow 2 from floor_of[s], graph 0 to floor_of[s], graph 1 nohead lc rgb gate lw 1.2 dt (1,3)
    }
    set label 1 name[s] at graph 0.5, graph 1 center offset 0,0.6 textcolor rgb ink
    if (!labelled) {
        labelled = 1
        plot data index 0 using (most[s] * 99):1:ytic(2) with dots lc rgb '#ffffff', \
             data index s skip 1 using 3:1 with points pt 6 ps 0.6 lw 1 lc rgb '#3d6d9e', \
             data index s skip 1 using 2:1 with points pt 7 ps 0.6 lc rgb after
    } else {
        set ytics format ''
        plot data index 0 using (most[s] * 99):1:ytic('') with dots lc rgb '#ffffff', \
             data index s skip 1 using 3:1 with points pt 6 ps 0.6 lw 1 lc rgb '#3d6d9e', \
             data index s skip 1 using 2:1 with points pt 7 ps 0.6 lc rgb after
    }
    unset label 2
}
unset multiplot
