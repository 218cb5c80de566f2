# style.gp: the one style of every chart. Read before each chart's script.
#
# A chart is 480 px wide (12.7 cm at its natural size, with 8 pt text). Series differ in lightness
# and in shape as well as in colour, so that they can be told apart in grey. Charts have no titles,
# since the book has captions.

set encoding utf8
width = 480
term(height) = sprintf("set terminal svg noenhanced fixed size %d,%d font 'chart,11' " \
    . "background '#ffffff' linewidth 1 butt dashlength 0.6", width, height)

ink = '#333333'    # axes and text
faint = '#e2e2e2'  # grid and rows
gate = '#777777'   # limits, roofs, promises

# Series, by GPU: 1: H200, 2: L4, from 3 on: others; 9: what the sources report.
set style line 1 lc rgb '#0b3c6f' pt 7 ps 0.75 lw 1.6
set style line 2 lc rgb '#2f7d5b' pt 5 ps 0.7  lw 1.6
set style line 3 lc rgb '#8a4f9e' pt 9 ps 0.85 lw 1.6
set style line 4 lc rgb '#7a7a2a' pt 11 ps 0.85 lw 1.6
set style line 9 lc rgb '#b5600f' pt 12 ps 0.95 lw 1.4

# Before and after, in the labs' charts.
before = '#b9c6d3'
after = '#0b3c6f'

set style line 20 lc rgb faint lw 0.8
set style line 21 lc rgb gate lw 1 dt (4,3)

set border 3 lc rgb ink lw 0.8
set tics nomirror scale 0.5 textcolor rgb ink
set grid noxtics noytics
set key off
