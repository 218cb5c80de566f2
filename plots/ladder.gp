# chart: p50 of the mission shape, stage by stage, on each GPU (logarithmic axis)
stats data index 0 using 1 nooutput
rows = int(STATS_records)
bottom = STATS_max
blocks = int(system("grep -c '^$' '" . data . "'")) / 2 # after the first block; blocks from 2 on
                                                        # are measured
theirs = int(system("grep -c \"the sources' kernels\" '" . data . "'")) # 1: the last block has them
last = blocks - theirs # of the GPUs

head = 15 * blocks + 12
height = head + 19 * rows + 50
eval term(height)
set lmargin at screen 152.0 / width
set rmargin at screen 1 - 58.0 / width
set tmargin at screen 1 - 1.0 * head / height
set bmargin at screen 40.0 / height

set key at screen 0.01, screen 1 - 4.0 / height top left vertical Left reverse samplen 0.6 \
    textcolor rgb ink
set border 1
set logscale x
fastest = 1e9
slowest = 0
do for [b = 1:blocks] {
    stats data index b skip 1 using 2 nooutput
    fastest = STATS_min < fastest ? STATS_min : fastest
    slowest = STATS_max > slowest ? STATS_max : slowest
}
set xrange [fastest / 2:slowest * 2.2]  # room for the labels
set xlabel 'p50 of mission, µs' textcolor rgb ink offset 0,0.6
set xtics ('1' 1, '3' 3, '10' 10, '30' 30, '100' 100, '300' 300, '1000' 1000, '3000' 3000, \
    '10000' 10000) offset 0,0.2
set grid xtics ls 20
set ytics scale 0
set yrange [bottom + 0.8:0.4]

# A loop over no blocks would still read the file and warn; an empty text does not.
each = last < 2 ? '' : 'for [b = 2:last] data index b using '
paths = each eq '' ? '' : each . '2:1 with lines ls b - 1 lw 0.8 notitle,'
points = each eq '' ? '' : each . '2:1 with points ls b - 1 title columnheader(1),'
# The first GPU's numbers are to the left of its points, others' to the right.
first = last < 2 ? '' : 'for [b = 2:2] data index b using '
others = last < 3 ? '' : 'for [b = 3:last] data index b using '
values = first eq '' ? '' : first \
    . '2:1:3 with labels right offset -0.9,0 textcolor ls b - 1 notitle,'
more = others eq '' ? '' : others \
    . '2:1:3 with labels left offset 0.9,0 textcolor ls b - 1 notitle,'

set style line 8 lc rgb '#b5600f' pt 13 ps 0.95 # the sources', measured by us
# These numbers are above the points, since ours are to the left and reported ones to the right.
kernels = theirs == 0 ? '' : 'data index blocks using ' \
    . '2:1 with points ls 8 title columnheader(1),' \
    . 'data index blocks using 2:1:3 with labels center offset 0,0.55 font ",9" textcolor ls 8 notitle,'

plot data index 0 using (slowest * 2):1:ytic(2) with dots lc rgb '#ffffff' notitle, \
     @paths @points @values @more @kernels \
     data index 1 using 2:1 with points ls 9 title columnheader(1), \
     data index 1 using 2:1:3 with labels left offset 0.9,0 textcolor ls 9 notitle
