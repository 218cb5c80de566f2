# Tests the tables that are made from records, and what plots/render does with them.

bats_require_minimum_version 1.5.0

setup_file() {
    export ASAN_OPTIONS=detect_leaks=0
    cc -std=c11 -D_GNU_SOURCE -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all \
        -Wall -Wextra -Werror -Icode plots/*.c code/host/{say,json}.c code/image/gpus.c code/workbench/{stages,files}.c -ljansson -lm -o "$BATS_FILE_TMPDIR/series"
}

setup() {
    TREE=$BATS_TEST_TMPDIR
    mkdir -p "$TREE/build" "$TREE/plots/runs/h200" "$TREE/chapters" "$TREE/code/tools"
    cp code/tools/stages "$TREE/code/tools"
    ln -s "$BATS_FILE_TMPDIR/series" "$TREE/build/series"
    cp plots/render plots/*.gp "$TREE/plots"
    cp chapters/stages.tsv "$TREE/chapters"
    cp -r plots/runs/l4-reported "$TREE/plots/runs"
    cd "$TREE"
}

# record CHAPTER NAME P50: makes a record with mission and long, and with a shape of another batch.
record() {
    cat >"plots/runs/h200/$2.json" <<EOF
{"record":1,"program":"$2","chapter":$1,"runtime":"gpu","date":"2026-01-01T00:00:00Z",
 "device":{"name":"NVIDIA H200"},
 "resources":{"sm_89":{"registers":96,"shared_bytes":38912,"occupancy":0.42,"limited_by":"shared"}},
 "shapes":{
  "mission":{"batch":2,"heads":8,"seq_len":512,"tflops":10,"timing":{"p50_us":$3},
   "correctness":[{"seed":0,"rel_head":2e-4},{"seed":1,"rel_head":3e-4}]},
  "long":{"batch":2,"heads":8,"seq_len":2048,"tflops":20,"timing":{"p50_us":1000}},
  "1x8x512":{"batch":1,"heads":8,"seq_len":512,"tflops":5,"timing":{"p50_us":50}}}}
EOF
}

lab_record() { # FILE
    cat >"$1" <<'EOF'
{"record":1,"lab":3,"runtime":"gpu","device":{"name":"NVIDIA H200"},"before":"ch02_scalar",
 "after":"ch03_wmma_qk","speedup":{"mission":{"median":1.5,"low":1.4,"high":1.6,
 "before_p50_us":150,"after_p50_us":100,"promise":1.3,"verdict":"met"}},"verdict":"FAST"}
EOF
}

baseline_record() { # NAME P50
    cat >"plots/runs/h200/pytorch-$1.json" <<EOF
{"record":1,"program":"pytorch-$1","stage":"PyTorch, $1 backend","runtime":"gpu",
 "device":{"name":"NVIDIA H200"},"shapes":{"mission":{"batch":2,"heads":8,"seq_len":512,"tflops":90,
 "correctness":[{"seed":0,"rel_head":3e-4}],"timing":{"p50_us":$2}}}}
EOF
}

counts_record() { # FILE
    cat >"$1" <<'EOF'
{"record":1,"lab":3,"runtime":"simulator","before":"ch02_scalar","after":"my.cu","evidence":
 {"simulator":{
  "ch02_scalar":{"warp_instructions":5000000,"tensor_instructions":0,"shared_load_conflicts":30,
   "shared_store_conflicts":12,"barriers":64,
   "l4_floors_us":{"tensor":0,"exp":3,"shared":82,"issue":120,"dram":14,"binding":"issue"}},
  "my.cu":{"warp_instructions":2500000,"tensor_instructions":65536,"shared_load_conflicts":0,
   "shared_store_conflicts":84,"barriers":64,
   "l4_floors_us":{"tensor":4,"exp":3,"shared":60,"issue":50,"dram":14,"binding":"shared"}}}}}
EOF
}

# Prints a table with visible tabs and without empty lines.
shown() {
    grep -v '^$' "$1" | tr '\t' '|'
}

fails_with() { # STATUS TEXT
    [ "$status" -eq "$1" ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"$2"* ]] || { echo "not in: $output"; false; }
}

# ---- Tables -------------------------------------------------------------------------------------

@test "every figure that the sources report is on record, contradictions kept" {
    cat plots/runs/l4-reported/*.json >all
    for figure in 2870 1199.1 1206.27 1199.7 5.57 761 13.8 656 698.37 37.1 96 44.5 38.5 655 0.2 \
        693.25 6672.38 6617.06 0.7 0.8 40.2 -6.1 575 77 1040 590 550 500 0.0459 2.5 2.7; do
        grep -q ": $figure,\{0,1\}$" all || { echo "missing: $figure"; false; }
    done
}

@test "the ladder has a row a stage that has a time, and a label on each row's last point" {
    record 2 ch02_scalar 150
    record 3 ch03_wmma_qk 99.94
    build/series ladder >table
    shown table >seen
    grep -qx '2|WMMA Q·Kᵀ  3' seen
    grep -qx '3|761|' seen
    grep -qx '3|1199.1|761, 1199' seen
    grep -qx '1|2870|≈ 2870' seen
    grep -qx 'NVIDIA H200, measured||' seen
    grep -qx '1|150|150' seen
    grep -qx '2|99.94|99.9' seen
    run -1 grep -q 'vectorised' seen
}

@test "PyTorch stands below the stages, reported and measured in one row, and in no other chart" {
    record 2 ch02_scalar 150
    baseline_record flash 11.5
    baseline_record cudnn 10.5
    build/series ladder >table
    shown table >seen
    grep -qx '6.4|PyTorch, cudnn backend' seen
    grep -qx '7.4|PyTorch, flash backend' seen
    grep -qx '7.4|77|77' seen
    grep -qx '7.4|11.5|11.5' seen
    [ "$(grep -c 'PyTorch, flash' seen)" -eq 1 ]
    [ "$(grep -c '^NaN' seen)" -eq 2 ]
    for chart in roofline time-vs-s resources; do
        build/series $chart >with
        mv plots/runs/h200/pytorch-*.json .
        build/series $chart >without
        cmp with without
        mv pytorch-*.json plots/runs/h200
    done
}

@test "the sources' kernels, measured by us, stand in the rows of the stages that they are, in the ladder alone" {
    for chapter in 3:ch03_wmma_qk 9:ch09_three_stages; do record ${chapter%:*} ${chapter#*:} 50; done
    for chart in ladder roofline time-vs-s resources; do build/series $chart >$chart.without; done
    run -1 grep -q "the sources' kernels" ladder.without
    mkdir plots/runs/sources
    jq -n '{runtime: "gpu", device: {name: "NVIDIA H100"}, kernels: ([["828e7b1_direct", 832.6], ["828e7b1_cp", 801],
        ["e58bde3", 325], ["0e7e52b_three", 348.65], ["67545bd", 341]] |
        map({(.[0]): {shapes: {"1x8x512": {p50_us: .[1]}}}}) | add)}' >plots/runs/sources/kernels.json
    build/series ladder >table
    [ "$(shown table | sed -n "/the sources' kernels/,\$p")" = "NVIDIA H100, the sources' kernels, measured at 1x8x512||
2|832.6|833
3|801|801
4|325|325
6|348.65|349" ] # chapter 10 has no row here
    for chart in roofline time-vs-s resources; do build/series $chart | cmp - $chart.without; done
    sed -i 's/e58bde3/e58bde4/' plots/runs/sources/kernels.json
    run -3 bash -c 'build/series ladder 2>&1 >/dev/null'
    fails_with 3 "kernels.e58bde3.shapes.1x8x512.p50_us is missing"
}

@test "a chapter's second program is in no chart" {
    record 10 ch10_swizzle 40
    for chart in ladder roofline time-vs-s resources; do build/series $chart >$chart.alone; done
    record 10 ch10_ldmatrix 60
    record 10 ch10_zigzag 70
    for chart in ladder roofline time-vs-s resources; do build/series $chart | cmp - $chart.alone; done
}

@test "of a chapter's programs the one that chapters/stages.tsv names is in the charts" {
    record 18 ch18_hopper 4
    for chart in ladder roofline time-vs-s resources; do build/series $chart >$chart.alone; done
    record 18 ch18_exponential 5
    for chart in ladder roofline time-vs-s resources; do build/series $chart | cmp - $chart.alone; done
    sed -i 's/\tch18_hopper\t/\t-\t/' chapters/stages.tsv
    build/series ladder >first
    run -1 cmp -s first ladder.alone # the table names no program now: the chapter's first one is drawn
}

@test "a program with a mask is on no chart over all stages, and its lab is not among the promises" {
    record 3 ch03_one 5
    lab_record plots/runs/h200/lab03.json
    sed -i 's/ch03_wmma_qk/ch03_one/' plots/runs/h200/lab03.json
    build/series promises | grep -q '^| 3 '
    for chart in ladder roofline time-vs-s resources; do build/series $chart >$chart.alone; done
    record 4 ch04_masked 4
    sed -i 's/"chapter":4,/&"mask":"causal",/' plots/runs/h200/ch04_masked.json
    for chart in ladder roofline time-vs-s resources; do build/series $chart | cmp - $chart.alone; done
    sed -i 's/"chapter":3,/&"mask":"causal",/' plots/runs/h200/ch03_one.json
    run build/series promises
    fails_with 4 "no lab's record holds a ratio of the mission shape"
}

@test "a program that asks a cache is on no chart over all stages" {
    record 3 ch03_one 5
    for chart in ladder roofline time-vs-s resources; do build/series $chart >$chart.alone; done
    record 4 ch04_cache 4
    sed -i 's/"batch":/"queries":4,&/g' plots/runs/h200/ch04_cache.json
    grep -q '"queries":4' plots/runs/h200/ch04_cache.json
    for chart in ladder roofline time-vs-s resources; do build/series $chart | cmp - $chart.alone; done
}

@test "a stage that chapters/stages.tsv does not have, or no row: one line, nothing drawn" {
    record 99 ch99_new 4
    run build/series ladder
    fails_with 3 "chapters/stages.tsv has no stage 99: add a row of its number, name, program, images, least, profile, film"
    printf '99\ta new stage\tch99_new\tsm_89\t80\tmission\t1x1x96\n' >>chapters/stages.tsv
    build/series ladder | grep -q 'a new stage  99$'
    sed -i '$s/\t1x1x96$//' chapters/stages.tsv
    run build/series ladder
    fails_with 3 "chapters/stages.tsv:$(wc -l <chapters/stages.tsv): no row of number, name, program, images, least, profile, film"
    rm chapters/stages.tsv
    run build/series ladder
    fails_with 3 "chapters/stages.tsv: No such file or directory"
}

@test "promises: the sources' words beside the lab's ratio, a row a measured lab" {
    run build/series promises
    fails_with 4 "no lab's record holds a ratio of the mission shape"
    lab_record plots/runs/h200/lab03.json
    for n in 04 09 13; do
        sed "s/\"lab\":3/\"lab\":${n#0}/; s/\"promise\":1.3,//" plots/runs/h200/lab03.json \
            >"plots/runs/h200/lab$n.json"
    done
    build/series promises | sed 's/\xc2\xa0/_/g' >table # no-break spaces
    diff table - <<'EOF'
<!-- from h200/lab03 h200/lab04 h200/lab09 h200/lab13 -->
| stage | against | sources promised | and reported (L4) | lab asks | ratio (H200) | promise |
|---|--:|---|---|--:|--:|---|
| 3 WMMA Q·Kᵀ | 2 | – | – | 1.30 | 1.50_[1.40,_1.60] | met |
| 4 cp.async | 2 | ≥_+10_% (S1); +10–15_% (PLAN) | 1199_µs; +13.8_%, 761_µs | – | 1.50_[1.40,_1.60] | met |
| 9 three-stage pipeline | 2 | +5–10_% (S4) | +0.7_%, 693_µs, and wrong | – | 1.50_[1.40,_1.60] | met |
| 13 warp specialisation | 2 | +10–15_% (PLAN); ≥_+10_%, ≤_590_µs (S5) | – | – | 1.50_[1.40,_1.60] | met |
EOF
    mkdir plots/runs/l4
    sed 's/"median":1.5/"median":1.55/' plots/runs/h200/lab03.json >plots/runs/l4/lab03.json
    build/series promises | sed 's/\xc2\xa0/_/g' | cmp - table # a page has room for one GPU only
    sed -i 's/"low":1.4,//' plots/runs/h200/lab03.json
    run sh -c 'build/series promises 2>&1 >table'
    fails_with 3 "plots/runs/h200/lab03.json: speedup.mission lacks the ratio"
}

@test "the roofs meet where peak and bandwidth say" {
    build/series roofline >table
    grep -qx "$(printf '206.146\t989.5')" table # 989.5 TFLOP/s over 4.8 TB/s
    grep -qx "$(printf '403.333\t121')" table   # 121 TFLOP/s over 0.3 TB/s
    grep -qx "$(printf '409.6\tmission\t1\t4.8\t0.3')" table
}

@test "time against S takes 2 batches of 8 heads only" {
    record 2 ch02_scalar 150
    build/series time-vs-s >table
    shown table >seen
    diff seen - <<'EOF'
NVIDIA H200||
512|150|0
2048|1000|0
2048|1000|1000|2  scalar baseline
EOF
}

@test "a time during which the clock moved is marked: ladder, time against S, the board's tables" {
    record 3 ch03_wmma_qk 100
    for moved in true false; do
        record 2 ch02_scalar 150
        sed -i "s/\"p50_us\":150}/\"p50_us\":150,\"clock\":{\"moved\":$moved}}/" plots/runs/h200/ch02_scalar.json
        build/series ladder | grep -E '^[12].(150|100)' | cut -f3 | xargs >labels
        build/series time-vs-s | grep '^512' | cut -f3 | xargs >points
        case $moved in
        true) grep -qxF '150* 100' labels && grep -qx '1 0' points && plots/render && cp plots/time-vs-s.svg marked.svg ;;
        *) grep -qxF '150 100' labels && grep -qx '0 0' points ;;
        esac
    done
    plots/render
    [ "$(grep -c '<use' marked.svg)" -eq "$(($(grep -c '<use' plots/time-vs-s.svg) + 1))" ] # one point more: a hollow one
    cat >board.json <<'EOF'
{"kind":"scoreboard","shapes":{"mission":{"entries":{
 "ch02_scalar":{"graph":{"p50_us":150,"clock":{"moved":false}},"plain":{"p50_us":151}},
 "ch03_wmma_qk":{"graph":{"p50_us":90,"clock":{"moved":true}},"plain":{"p50_us":91,"clock":{"moved":true}}}}}}}
EOF
    build/series scoreboard-table board.json >table
    grep -qF '| 2 scalar baseline | – | 150.0 |' table
    grep -qF '| 3 WMMA Q·Kᵀ | – | **90.00**\* |' table
    build/series ways-table board.json | grep -qF '| 3 WMMA Q·Kᵀ | – | – | – | 90.0\* | 91.0\* | – |'
}

@test "the board on other inputs: the fastest of each kind, who is wrong, who was not asked" {
    cat >board.json <<'EOF'
{"kind":"scoreboard","first_inputs":"normal","shapes":{"long":{
 "entries":{"ch15_registers":{"title":"One","rel_head":3e-4,"graph":{"p50_us":50}},
            "ch18_hopper":{"title":"Two","rel_head":3e-2,"graph":{"p50_us":25}}},
 "inputs":{"peaky":{"entries":{"ch15_registers":{"rel_head":2e-4,"graph":{"p50_us":52}},
                               "ch18_hopper":{"rel_head":2e-2,"graph":{"p50_us":61}}}},
           "sink":{"entries":{"ch15_registers":{"rel_head":1e-4,"graph":{"p50_us":51}},
                              "ch18_hopper":{"rel_head":4e-2,"wrong":"by far"}}}}}}}
EOF
    build/series inputs-table board.json >table
    cat table
    [ "$(sed -n 4,6p table)" = '| *`long`, µs* | | | | |
| 15 One | 50.0 | **52.0** | – | **51.0** |
| 18 Two | **25.0** | 61.0 | – | wrong |' ]
    [ "$(tail -3 table)" = '| *`long`, error, 10⁻⁴* | | | | |
| 15 One | 3.0 | 2.0 | – | 1.0 |
| 18 Two | 300.0 | 200.0 | – | 400.0 |' ]
}

@test "a point on an L4 is in the record, with its date and its file, and none of the record is left out" {
    local record=plots/runs/l4-reported/runs-pytorch.json
    build/series l4 $record >table
    python3 - <<'EOF'
import glob, json
blocks = [block.strip("\n").split("\n") for block in open("table").read().split("\n\n\n")]
figures = json.load(open("plots/runs/l4-reported/runs-pytorch.json"))["figures"]
for panel, over in ((0, "seq_len"), (4, "batch")):
    drawn = {tuple(float(cell) for cell in row.split("\t")[:2])
             for block in blocks[panel:panel + 2] for row in block}
    wanted = {(f[over], f["p50_us"]) for f in figures.values() if f["heads"] == 8
              and (f["batch"] == 32 if over == "seq_len" else f["seq_len"] == 512)}
    assert drawn == wanted and len(drawn) >= 6, (drawn, wanted)
    assert blocks[panel + 3] == ["NaN\tNaN\tNaN\tNaN"], blocks[panel + 3]
for name in glob.glob("plots/runs/l4-reported/runs-*.json"):
    for figure in json.load(open(name))["figures"].values():
        assert figure["p50_us"] > 0 and figure["date"] and figure["source"], (name, figure)
for key in ("date", "source"):
    record = json.load(open("plots/runs/l4-reported/runs-pytorch.json"))
    del record["figures"]["b32_h8_s512"][key]
    json.dump(record, open(f"no-{key}.json", "w"))
EOF
    # Floors on an L4, of the products and of DRAM: 568 and 447 µs at S = 1024, B = 32; 142 and 224 µs
    # at S = 512, B = 32.
    awk -F'\t' '$1 > 1020 && $1 < 1021 { s = $2 > 560 && $2 < 568 && $3 > 440 && $3 < 448 }
        NF == 3 && $1 > 25 && $1 < 40 { b = $2 / $1 > 4.43 && $2 / $1 < 4.44 && $3 / $1 > 6.99 && $3 / $1 < 7 }
        END { exit !(s && b) }' table
    for key in date source; do
        run sh -c "build/series l4 no-$key.json 2>&1 >seen"
        fails_with 3 "no-$key.json: figures.b32_h8_s512 lacks its date or its source"
    done
}

@test "the H200's points beside an L4's are those of l4-shapes.json, launched plainly" {
    echo '{"shapes":{"32x8x512":{"batch":32,"heads":8,"seq_len":512,"entries":{"pytorch-flash":
        {"graph":{"p50_us":50},"plain":{"p50_us":51}}}}}}' >plots/runs/h200/l4-shapes.json
    build/series l4 plots/runs/l4-reported/runs-pytorch.json >table
    [ "$(grep -c "$(printf '^512\t51\t')" table)" -eq 1 ]
    [ "$(grep -c "$(printf '^32\t51\t')" table)" -eq 1 ]
    plots/render
    rsvg-convert plots/l4.svg >/dev/null
}

@test "programs beside the fastest peer of each shape, without a mask and with one" {
    local entries='"ch15_short":{"graph":{"p50_us":20}},"ch17_hopper_half":{"graph":{"p50_us":8}},
        "ch18_room":{"graph":{"p50_us":5}},"pytorch-flash":{"graph":{"p50_us":12}},"fa4":{"graph":{"p50_us":10}}'
    echo "{\"shapes\":{\"mission\":{\"entries\":{$entries}},\"8x8x77\":{\"entries\":{$entries,
        \"cudnn\":{\"wrong\":\"x\"},\"triton\":{\"graph\":{\"p50_us\":4}}}}}}" >plots/runs/h200/sweep.json
    echo '{"shapes":{"long":{"entries":{"ch20_causal":{"graph":{"p50_us":4}},"ch20_half":{"graph":{"p50_us":2}},
        "ch20_room":{"graph":{"p50_us":1}},"fa4":{"graph":{"p50_us":3}}}}}}' >plots/runs/h200/sweep-causal.json
    [ "$(build/series sweep plots/runs/h200/sweep.json)" = "$(printf '1\tmission\t0.5\t1.25\t2\n2\t8x8x77\t0.2\t0.5\t0.8\n\n
1\tlong\t0.75\t1.5\t3\n\n')" ]
    plots/render
    rsvg-convert plots/sweep.svg >/dev/null
    echo '{"shapes":{"long":{"entries":{"ch20_room":{"graph":{"p50_us":1}}}}}}' >plots/runs/h200/sweep-causal.json
    run sh -c "build/series sweep plots/runs/h200/sweep.json 2>&1 >/dev/null"
    fails_with 3 "plots/runs/h200/sweep-causal.json: shapes.long has no peer that was timed"
    rm plots/runs/h200/sweep-causal.json
    run sh -c "build/series sweep plots/runs/h200/sweep.json 2>&1 >/dev/null"
    [ "$status" -eq 3 ]
    [[ $output == *sweep-causal.json* ]]
}

@test "a model with its attention exchanged: tokens and shares over the context, the kernels of a layer" {
    python3 - <<'EOF'
import json
ways = ("flash", "cudnn", "registers", "hopper")
speed = {context: {way: {"tokens_per_s": context * 10 + i, "shares": {"attention": 0.25, "quantise": 0.125}}
                   for i, way in enumerate(ways)} for context in (128, 256)}
layers = {way: [[0, 2.5, "products"], [3, 4 + i, "quantise"], [5, 9 + i, "attention"]] for i, way in enumerate(ways)}
record = {"speed": speed, "timeline": {"layers": layers}}
json.dump(record, open("plots/runs/h200/exchange.json", "w"))
layers["registers"][1][2] = "lunch"
json.dump(record, open("kind.json", "w"))
del speed[256]["cudnn"], layers["flash"]
json.dump(record, open("way.json", "w"))
EOF
    build/series exchange plots/runs/h200/exchange.json >table
    [ "$(grep -c '[a-z]' table)" -eq 4 ]
    [ "$(sed -n 2,3p table)" = "$(printf '128\t1280\t0.375\n256\t2560\t0.375')" ]
    [ "$(tail -1 table)" = "$(printf '256\t2563\t0.375')" ]
    build/series layer plots/runs/h200/exchange.json >table
    [ "$(sed -n 3p table)" = "$(printf '3\tchapter 15\t11')" ]
    [ "$(sed -n '/^1\t0/,/^2\t0/p' table | sed -n 1,3p)" = "$(printf '1\t0\t2.5\t2\n1\t3\t4\t1\n1\t5\t9\t0')" ]
    plots/render
    rsvg-convert plots/exchange.svg >/dev/null
    rsvg-convert plots/layer.svg >/dev/null
    run sh -c "build/series layer kind.json 2>&1 >seen"
    fails_with 3 'kind.json: "lunch" is no kind of kernel'
    run sh -c "build/series exchange way.json 2>&1 >seen"
    fails_with 3 'way.json: no cudnn: it is no record of labs/tools/exchange'
    run sh -c "build/series layer way.json 2>&1 >seen"
    fails_with 3 'way.json: no timeline.layers.flash'
}

@test "resources are those of the sm_89 image" {
    record 2 ch02_scalar 150
    build/series resources | grep -qx "$(printf '1\t38\t96\t42\tshared')"
    build/series resources | tail -1 | grep -qx "$(printf 'NaN\tNaN')"
}

@test "resources of a chapter's other program are drawn where it keeps every gate" {
    record 2 ch02_scalar 150
    record 2 ch02_six 140
    sed -i 's/"registers":96,"shared_bytes":38912,"occupancy":0.42/"registers":80,"shared_bytes":14848,"local_bytes":0,"occupancy":0.5/' \
        plots/runs/h200/ch02_six.json
    build/series resources | grep -qx "$(printf '1\t38\t96\t42\tshared')"
    build/series resources | tail -1 | grep -qx "$(printf '1\t50')"
    sed -i 's/"local_bytes":0/"local_bytes":8/' plots/runs/h200/ch02_six.json
    build/series resources | tail -1 | grep -qx "$(printf 'NaN\tNaN')"
}

# stall_record LAB BEFORE AFTER REASONS: makes a lab's record with Nsight Compute's counts for the
# program AFTER.
stall_record() {
    cat >"plots/runs/h200/lab0$1.json" <<EOF
{"record":1,"lab":$1,"runtime":"gpu","device":{"name":"NVIDIA H200","compute_capability":"9.0"},
 "before":"$2","after":"$3","evidence":{"ncu":{"$3":{"instructions":2000000,"warps_active_percent":25,
 "issue_active_percent":50,"stall_fixed_cycles":1.5,"stall_short_cycles":2,"stall_long_cycles":0.5,
 "stall_barrier_cycles":0.25$4}}}}
EOF
}

@test "stalls: the parts of an instruction's cycles add up to what the warps have" {
    lab_record plots/runs/h200/lab03.json
    run build/series stalls
    fails_with 4 "no lab's record holds stall reasons"
    stall_record 3 ch02_scalar ch03_wmma_qk ',"stall_not_selected_cycles":0.75'
    build/series stalls >table # 16 warps x 25 % / 50 % = 8 cycles; 2 are in no stall count
    shown table >seen
    grep -qx '1|WMMA Q·Kᵀ  3' seen
    grep -qx '1|1|2.5|4.5|5|5.25|6|8|2|-' seen
    [ "$(grep -cx 'issued\|for the instruction before\|shared memory, exponentials, shuffles\|global memory\|barrier\|ready, another chosen\|other' seen)" -eq 7 ]
    # A lab without all stall reasons: they come from the next lab, which also counted its program.
    stall_record 2 - ch02_scalar ''
    build/series stalls >seen
    run -1 grep -q 'scalar' seen
    scalar='{"instructions":5000000,"warps_active_percent":12.5,"issue_active_percent":40,"stall_fixed_cycles":1,'
    scalar+='"stall_short_cycles":1,"stall_long_cycles":1,"stall_barrier_cycles":0.5,"stall_not_selected_cycles":0.25}'
    sed -i "s/\"ncu\":{/&\"ch02_scalar\":$scalar,/" plots/runs/h200/lab03.json
    build/series stalls >table
    shown table | grep -qx '1|1|2|3|4|4.5|4.75|5|5|-'
    shown table | grep -qx '2|1|2.5|4.5|5|5.25|6|8|2|-'
    mkdir plots/runs/a100
    lab_record plots/runs/a100/lab03.json # a GPU without such counts
    build/series stalls | cmp - table
    plots/render
    rsvg-convert plots/stalls.svg >/dev/null
    # A launch of another shape than mission has an asterisk.
    sed -i 's/"before"/"speedup":{"long":{"median":1}},"before"/' plots/runs/h200/lab03.json
    build/series stalls >table
    shown table | grep -qx '2|1|2.5|4.5|5|5.25|6|8|2|\*'
    sed -i 's/"stall_short_cycles":2/"stall_short_cycles":4.1/' plots/runs/h200/lab03.json
    run sh -c 'build/series stalls 2>&1 >table'
    fails_with 3 "plots/runs/h200/lab03.json: the stalls of chapter 3 add up to 8.10 cycles of 8.00"
    sed -i 's/"9.0"/"3.5"/' plots/runs/h200/lab03.json plots/runs/h200/lab02.json
    run sh -c 'build/series stalls 2>&1 >table'
    fails_with 4 "lab02.json: how many warps an SM of compute capability \"3.5\" holds is not known"
}

@test "a lab's times and counts" {
    lab_record lab.json
    build/series lab lab.json | grep -qx \
        "$(printf 'mission\tch02_scalar\tch03_wmma_qk\tNVIDIA H200\t150\t100\t1.5\t1.4\t1.6\t1.3\tmet')"
    counts_record lab.json
    build/series lab lab.json >table
    shown table >seen
    grep -qx '1|instructions, by warp|5e+06|2.5e+06|× 0.50' seen
    grep -qx '2|tensor instructions|1|65536|0 → 65.5 k' seen # 0 is drawn at 1, left of the smallest count
    grep -qx '4|bank conflicts|42|84|× 2.00' seen
    grep -qx '7|barrier arrivals, by warp|64|64|=' seen
    grep -qx '3|shared memory (binds)|82|60' seen
    run -1 grep -q 'sectors' seen
}

@test "bad records: one line that names file and reason" {
    record 2 ch02_scalar 150
    good=$(cat plots/runs/h200/ch02_scalar.json)
    try() { # SED-SCRIPT TEXT
        echo "$good" | sed "$1" >plots/runs/h200/ch02_scalar.json
        run sh -c 'build/series ladder 2>&1 >table'
        fails_with 3 "plots/runs/h200/ch02_scalar.json"
        fails_with 3 "$2"
    }
    try '$d' "json:8: "
    try 's/"p50_us":150/"p50_us":"fast"/' "shapes.mission.timing.p50_us is not a number"
    try 's/"p50_us":150/"p50_us":-1/' "shapes.mission.timing.p50_us is -1, not positive"
    try 's/"chapter":2/"chapter":0/' "chapter is not a number from 1"
    try 's/"chapter":2,//' "chapter is not a number from 1"
    try 's/"gpu"/"simulator"/' "only a GPU's runs belong here"
    try 's/NVIDIA H200/NVIDIA\\tH200/' "device.name holds a control character"
    try 's/"record":1,/"record":1,"record":2,/' "duplicate"
    echo '[]' >plots/runs/h200/ch02_scalar.json
    run build/series ladder
    fails_with 3 "not a JSON object"
}

@test "an unknown chart and a missing record are refused" {
    run build/series pie
    fails_with 2 '"pie" is no chart'
    run build/series lab absent.json
    fails_with 3 "absent.json: No such file"
    run build/series ladder --plots elsewhere
    fails_with 3 "elsewhere/runs: No such file"
}

# ---- render -------------------------------------------------------------------------------------

@test "charts are drawn, then up to date, then stale one by one" {
    record 2 ch02_scalar 150
    lab_record plots/runs/h200/lab03.json
    run plots/render --check
    [ "$status" -eq 1 ]
    [[ ${lines[0]} == *"plots/ladder.svg is stale (it is missing)"* ]]
    run plots/render
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 6 ]
    [ "${lines[5]}" = "  wrote plots/promises.md" ]
    for chart in ladder roofline time-vs-s resources l4; do
        rsvg-convert "plots/$chart.svg" >/dev/null
        [ "$(grep -c '^<!-- inputs: [0-9a-f]\{64\} -->$' "plots/$chart.svg")" -eq 1 ]
    done
    run plots/render --check
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    run plots/render
    [ "$status" -eq 0 ]
    [ -z "$output" ]

    # A record's date changes no chart; a measured time changes the charts that show it.
    sed -i 's/2026-01-01/2026-02-02/' plots/runs/h200/ch02_scalar.json
    run plots/render --check
    [ "$status" -eq 0 ]
    sed -i 's/"p50_us":150/"p50_us":151/' plots/runs/h200/ch02_scalar.json
    run plots/render --check
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 2 ]
    [[ $output == *ladder.svg*time-vs-s.svg* ]]
    echo '# another style' >>plots/style.gp
    run plots/render --check
    [ "${#lines[@]}" -eq 5 ]
}

# Makes a timeline of one warp with these chunks in order.
timeline() { # FILE CHUNK...
    local k
    shift
    printf '# attention\t0\t%d\t1\n' $#
    for ((k = 0; k < $#; k++)); do printf '%d\t%s\n' $k "${@:k+1:1}"; done
    printf '\n\n'
    for ((k = 0; k < $#; k++)); do printf '0\t%d\t%d\t%d\n' $k $((k + 1)) $k; done
    printf '\n\n1\n'
} >"$1"

# Lists the colour in the key for each chunk of a drawn timeline, and the height of its bar there.
key_of() { # SVG
    awk '/<polygon fill/ && !named {
            match($0, /rgb\([^)]*\)/)
            colour[++n] = substr($0, RSTART, RLENGTH)
            split(substr($0, index($0, "points")), at, /[ ,\x27"]+/)
            height[n] = sprintf("%.0f", at[4] - at[8])
        }
        /<text/ && n > 0 && named < n {
            gsub(/.*<text[^>]*>|<\/text>.*/, "")
            print $0 ": " colour[++named] " " height[named]
        }' "$1"
}

@test "a step has one colour in all timelines, and two steps of one timeline have two" {
    timeline one.tsv "waits at a barrier" "Convert a staged tile to half" "Turn scores into probabilities" mine "all else"
    timeline two.tsv "waits at a barrier" "Turn scores into probabilities" yours "Convert a piece from registers" theirs
    for picture in one two; do
        run plots/render picture timeline $picture.tsv $picture.svg
        [ "$status" -eq 0 ]
        key_of $picture.svg >$picture.key
        [ "$(wc -l <$picture.key)" -eq 5 ]
        [ "$(sed 's/.*: //' $picture.key | sort -u | wc -l)" -eq 5 ]
    done
    grep -q "^Turn scores into probabilities: rgb(208, 128,  48) 10$" one.key
    grep -q "^Turn scores into probabilities: rgb(208, 128,  48) 10$" two.key
    grep -q "^Convert a staged tile to half: rgb( 47, 125,  91) 6$" one.key
    grep -q "^Convert a piece from registers: rgb( 47, 125,  91) 6$" two.key
}

@test "in grey too, the steps of each of the book's timelines differ: in height or in lightness" {
    for picture in "$BATS_TEST_DIRNAME"/*-timeline.svg; do
        key_of "$picture" >key
        [ "$(wc -l <key)" -ge 10 ]
        run awk -F ': rgb[(]|[,)] *' '{ # the name may have commas
                light[NR] = 0.299 * $(NF - 3) + 0.587 * $(NF - 2) + 0.114 * $(NF - 1)
                for (i = 1; i < NR; ++i) {
                    lighter = light[i] - light[NR]
                    if (height[i] == $NF && lighter * lighter < 20 * 20) print name[i] ", " $1
                }
                height[NR] = $NF; name[NR] = $1
            }' key
        [ "$output" = "" ]
    done
}

@test "the table of promises is written into its file, and seen when it is stale" {
    lab_record plots/runs/h200/lab03.json
    printf '%s\n' Before '<!-- scoreboard: x -->' old '<!-- end of scoreboard -->' After >README.md
    cp README.md before
    plots/render
    cmp before README.md # unchanged: there is no scoreboard
    [ "$(sed -n 1p plots/promises.md)" = '<!-- from h200/lab03 -->' ]
    grep -q '^| 3 WMMA Q·Kᵀ | 2 | .* | met |$' plots/promises.md
    run plots/render --check
    [ "$status" -eq 0 ]
    sed -i 's/"low":1.4/"low":1.45/' plots/runs/h200/lab03.json
    run plots/render --check
    [ "$status" -eq 1 ]
    [[ $output == *"plots/promises.md is stale"* ]]
    plots/render
    rm plots/runs/h200/lab03.json
    run plots/render --check
    [ "$status" -eq 1 ]
    [[ $output == *"promises.md has nothing left to show"* ]]
}

# ---- What the records are evidence of ----

# Makes a tree with three records: one that the ladder reads, one that a chapter quotes, one that a
# test reads.
with_records() {
    mkdir -p chapters plots/runs/cpu
    cp "$BATS_TEST_DIRNAME/records.awk" plots
    record 2 ch02_scalar 100
    echo '{"title": "Trials, by hand"}' >plots/runs/cpu/trial.json
    echo dump >plots/runs/cpu/dump.txt
    echo 'It took `cpu/trial:us`{.run} and prints `h200/ch02_scalar:shapes.mission`{.run}.' >chapters/02-x.md
    echo 'Quoted: plots/runs/cpu/trial.json.' >chapters/A-y.md
    printf '%s\t%s\t%s\t%s\t%s\n' record what 'made by' 'read by' kept \
        '*/ch[0-9][0-9]_*.json' 'times of {program}' '`make runs`' - - \
        'cpu/trial.json' '{title}' 'by hand' - - 'cpu/*.txt' 'a dump' tool test_a.bats,test_b.c - \
        'l4-reported/*' 'what was reported' 'typed' - - >plots/records.tsv
}

row() { # FOLDER RECORD: its line in the README, without spaces around bars
    sed -n "/^## $1\$/,/^## /p" plots/runs/README.md | grep "^| $2 " | sed 's/ *| */|/g'
}

@test "the records' README says who quotes, draws and reads each, and is seen when it is stale" {
    with_records
    plots/render
    [ "$(row h200 ch02_scalar.json)" = '|ch02_scalar.json|times of ch02_scalar|`make runs`|2|all stages|–|' ]
    [ "$(row cpu trial.json)" = '|trial.json|Trials, by hand|by hand|2, A|–|–|' ]
    [ "$(row cpu dump.txt)" = '|dump.txt|a dump|tool|–|–|test_a.bats, test_b.c|' ]
    [ "$(row l4-reported pytorch-math.json)" = '|pytorch-math.json|what was reported|typed|–|all stages|–|' ]
    [ "$(grep -c '\.json |' plots/runs/README.md)" -eq "$(ls plots/runs/*/*.json | wc -l)" ]
    run plots/render --check
    [ "$status" -eq 0 ]
    echo 'And `cpu/trial:us`{.run}.' >chapters/03-z.md
    run plots/render --check
    fails_with 1 "plots/runs/README.md is stale: make plots"
    plots/render
    [ "$(row cpu trial.json)" = '|trial.json|Trials, by hand|by hand|2, 3, A|–|–|' ]
}

@test "a table whose rows are stages or programs quotes the records of these" {
    with_records
    record 3 ch03_wmma_qk 90
    record 3 ch03_other 95
    record 10 ch10_swizzle 80
    lab_record plots/runs/h200/lab03.json
    sed 's/"lab":3/"lab":10/' plots/runs/h200/lab03.json >plots/runs/h200/lab10.json
    printf 'h200/lab*.json\ta lab\tx\t-\t-\n' >>plots/records.tsv
    printf '%s\n' '``` {.table rows="stages 3-4 10" fmt="%d"}' 'gpu = h200/lab{nn}:speedup' \
        'run = h200/{program}:shapes' '```' 'h200/lab{nn} means nothing here' >chapters/18-b.md
    printf '%s\n' '``` {.table rows="ch03_other ch02_scalar"}' '| {p} | h200/{p}:x |' '```' >chapters/B-c.md
    plots/render
    [[ "$(row h200 lab03.json)" == '|lab03.json|a lab|x|18|'* ]]
    [[ "$(row h200 lab10.json)" == '|lab10.json|a lab|x|18|'* ]]
    [[ "$(row h200 ch03_wmma_qk.json)" == '|ch03_wmma_qk.json|times of ch03_wmma_qk|`make runs`|18|'* ]]
    [[ "$(row h200 ch03_other.json)" == '|ch03_other.json|times of ch03_other|`make runs`|B|'* ]]
    [[ "$(row h200 ch02_scalar.json)" == '|ch02_scalar.json|times of ch02_scalar|`make runs`|2, B|'* ]]
}

@test "a record that nothing describes, or nothing reads, and a row without a record: one line each" {
    with_records
    plots/render
    cp plots/runs/README.md before
    echo '{}' >plots/runs/cpu/stray.json
    for command in "plots/render --check" plots/render; do
        run $command
        fails_with 1 "plots/render: plots/runs/cpu/stray.json: plots/records.tsv does not say what it is evidence of"
    done
    printf 'cpu/stray.json\tof nothing\tby hand\t-\t-\n' >>plots/records.tsv
    run plots/render --check
    fails_with 1 "plots/runs/cpu/stray.json: nothing reads it: delete it, or say in plots/records.tsv why it stays"
    cmp plots/runs/README.md before
    sed -i '$s/-$/a figure is made from it/' plots/records.tsv
    plots/render
    [ "$(row cpu stray.json)" = '|stray.json|of nothing|by hand|–|–|kept: a figure is made from it|' ]
    rm plots/runs/cpu/stray.json
    run plots/render --check
    fails_with 1 "plots/records.tsv:6: cpu/stray.json: no record is of this kind"
    sed -i '$d' plots/records.tsv
    echo 'cpu/trial.json and no more' >>plots/records.tsv
    run plots/render --check
    [ "$status" -eq 1 ]
    [[ $output == *"plots/records.tsv:6: five columns, not 1"* ]]
}

@test "what plots/records.tsv says reads a record is a file of the tree that speaks of the records" {
    cd "$BATS_TEST_DIRNAME/.."
    readers=$(awk -F'\t' '!/^#/ && $1 != "record" && $4 != "-" { gsub(",", "\n", $4); print $4 }' plots/records.tsv | sort -u)
    [ "$(wc -l <<<"$readers")" -ge 5 ]
    for reader in $readers; do
        file=$(find code labs -name "$reader" -not -path '*/work/*')
        [ "$(wc -l <<<"$file")" -eq 1 ] && grep -qE 'plots/runs|measure-pictures' "$file" ||
            { echo "$reader: ${file:-no such file}"; false; }
    done
}

@test "the same inputs give the same bytes" {
    plots/render
    mv plots/ladder.svg first.svg
    plots/render
    cmp plots/ladder.svg first.svg
}

@test "without a GPU's records there are the reported ladder and the roofline" {
    run plots/render
    [ "$status" -eq 0 ]
    [[ $output == *"drew plots/ladder.svg"*"drew plots/roofline.svg"* ]]
    [[ $output == *"no plots/time-vs-s.svg yet"* ]]
    [ ! -e plots/resources.svg ]
    run plots/render --check
    [ "$status" -eq 0 ]
}

@test "a chart whose data are gone is reported" {
    record 2 ch02_scalar 150
    plots/render
    rm plots/runs/h200/ch02_scalar.json
    run plots/render --check
    [ "$status" -eq 1 ]
    [[ $output == *"resources.svg has nothing left to show"* ]]
    [[ $output == *"ladder.svg is stale"* ]]
}

@test "lab: a chart from a fresh record, of times or of counts" {
    lab_record lab.json
    counts_record counts.json
    plots/render lab 3 lab.json times.svg
    plots/render lab 3 counts.json counts.svg
    grep -q '>p50 of mission on NVIDIA H200, µs<' times.svg
    grep -q 'promised 1.30×: met' times.svg
    grep -q '>0 → 65.5 k<' counts.svg
    rsvg-convert times.svg >/dev/null
    rsvg-convert counts.svg >/dev/null
}

@test "lab: failures leave the old chart and nothing else" {
    lab_record lab.json
    echo old >out.svg
    ls -A >files
    run plots/render lab 3 absent.json out.svg
    fails_with 3 "absent.json: No such file"
    run plots/render lab x lab.json out.svg
    fails_with 2 '"x" is no lab'
    run plots/render lab 3 lab.json
    fails_with 2 "usage"
    run plots/render lab 3 lab.json nowhere/out.svg
    fails_with 3 "nowhere/out.svg: cannot write there"
    sed 's/"after_p50_us":100,//' lab.json >"$BATS_TEST_TMPDIR/plots/half.json"
    run plots/render lab 3 plots/half.json out.svg
    fails_with 3 "half.json: speedup.mission lacks a time"
    echo '{"record":1,"lab":2}' >plots/empty.json
    run plots/render lab 3 plots/empty.json out.svg
    fails_with 3 "no speedup and no counts"
    echo 'plot nonsense(' >>plots/lab-times.gp
    run plots/render lab 3 lab.json out.svg
    fails_with 3 "lab-times.gp"
    [ "$(cat out.svg)" = old ]
    ls -A | diff files -
}

@test "without gnuplot: --check works, drawing says what to type" {
    lab_record lab.json
    plots/render
    mkdir bin
    for tool in sh dirname mktemp rm sed cut cat sha256sum sort basename head grep tail env; do
        ln -s "$(command -v $tool)" bin/
    done
    run env PATH="$TREE/bin" plots/render --check
    [ "$status" -eq 0 ]
    run env PATH="$TREE/bin" plots/render lab 3 lab.json out.svg
    fails_with 3 "gnuplot is missing: make deps"
    [ ! -e out.svg ]
}

@test "without build/series and with unknown arguments: one line" {
    run plots/render --paint
    fails_with 2 '"--paint": usage'
    rm build/series
    run plots/render
    fails_with 3 "build/series is missing: make build/series"
}

# ---- The search of chapter 14 -------------------------------------------------------------------

search_record() {
    cat >plots/runs/h200/search.jsonl <<'EOF2'
{"search": "mission", "on": "NVIDIA H200", "seed": 1, "kernel": "00"}
{"knobs": "32-32-2-2-0-0-0-0", "generation": 0, "verdict": "timed", "score": 40.5, "code": "a", "said": ""}
{"knobs": "32-32-2-2-0-0-0-1", "generation": 0, "verdict": "timed", "score": 20.5, "code": "b", "said": ""}
{"knobs": "64-32-2-2-0-0-0-1", "generation": 1, "verdict": "refused", "score": 0, "code": "c", "said": "9 bytes spilled"}
{"knobs": "16-32-2-2-0-0-0-1", "generation": 9999, "verdict": "timed", "score": 22, "code": "d", "said": ""}
EOF2
    cat >plots/runs/h200/elite.json <<'EOF2'
{"changes_of": "32-1", "elite": [{"knobs": "32-1", "knob": {"block_m": 32, "swizzle": 1}, "score": 20.5}],
 "changes": [{"knob": "block_m", "value": 16, "verdict": "timed", "score": 22, "said": ""},
  {"knob": "block_m", "value": 64, "verdict": "refused", "score": 0, "said": "9 bytes spilled"},
  {"knob": "swizzle", "value": 0, "verdict": "timed", "score": 40.5, "said": ""}]}
EOF2
}

@test "a search: candidates with a time and the best so far, the others, and what changes did" {
    search_record
    build/series search plots/runs/h200/search.jsonl >table
    shown table >seen
    diff seen - <<'EOF2'
# mission|NVIDIA H200|4|3|1|3
1|40.5|40.5|0
2|20.5|20.5|1
4|22|20.5|1
3|refused
EOF2
    build/series changes plots/runs/h200/elite.json | sed 's/\xe2\x80\xaf/_/g' >table
    diff table - <<'EOF2'
<!-- from h200/elite -->
| knob | here | changed to | p50, µs | against the best |
|---|--:|--:|--:|---|
| `block_m` | 32 | 16 | 22.00 | +7_% |
| | | 64 | – | refused: 9 bytes spilled |
| `swizzle` | 1 | 0 | 40.50 | +98_% |
EOF2
}

@test "a search: what a knob did in all pairs of candidates that differ in it alone" {
    search_record
    cat >plots/runs/h200/search.jsonl <<'EOF2'
{"search": "mission", "on": "NVIDIA H200", "seed": 1, "kernel": "00"}
{"knobs": "32-32-2-2-0-0-0-1", "generation": 0, "verdict": "timed", "score": 20, "code": "a", "said": ""}
{"knobs": "64-32-2-2-0-0-0-1", "generation": 0, "verdict": "timed", "score": 16, "code": "b", "said": ""}
{"knobs": "32-32-2-2-0-0-1-1", "generation": 0, "verdict": "timed", "score": 21, "code": "c", "said": ""}
{"knobs": "64-32-2-2-0-0-1-1", "generation": 0, "verdict": "timed", "score": 24, "code": "d", "said": ""}
{"knobs": "32-64-2-2-0-0-1-1", "generation": 0, "verdict": "refused", "score": 0, "code": "e", "said": ""}
EOF2
    build/series pairs plots/runs/h200/search.jsonl | sed 's/\xe2\x80\xaf/_/g' >table
    diff table - <<'EOF2'
<!-- from h200/elite -->
| knob | from | to | pairs | faster | best | worst |
|---|--:|--:|--:|--:|--:|--:|
| `block_m` | 32 | 64 | 2 | 1 | −20_% | +14_% |
| `fast_exp` | 0 | 1 | 2 | 0 | +5_% | +50_% |
EOF2
    sed -i '2s/32-32-2/32-32/' plots/runs/h200/search.jsonl
    run build/series pairs plots/runs/h200/search.jsonl
    fails_with 3 'are not 8 knobs'
}

@test "a search is drawn, and seen when it is stale; with nothing refused too" {
    search_record
    run plots/render
    [ "$status" -eq 0 ]
    [[ $output == *"drew plots/search.svg"*"wrote plots/changes.md"* ]]
    grep -q '>changes of the best<' plots/search.svg
    grep -q '>refused, wrong or the same code<' plots/search.svg
    run plots/render --check
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    sed -i 's/refused/timed/; s/"score": 0,/"score": 19,/' plots/runs/h200/search.jsonl
    sed -i 's/"score": 22/"score": 23/' plots/runs/h200/elite.json
    run plots/render --check
    [ "$status" -eq 1 ]
    [[ $output == *"plots/search.svg is stale"*"plots/changes.md is stale"* ]]
    plots/render
    run -1 grep -q 'refused' plots/search.svg
    rm plots/runs/h200/search.jsonl plots/runs/h200/elite.json
    run plots/render --check
    [ "$status" -eq 1 ]
    [[ $output == *"plots/changes.md has nothing left to show"* ]]
}

@test "a search's journal and elite that are none: one line" {
    search_record
    echo '{"knobs": "32' >>plots/runs/h200/search.jsonl
    run sh -c 'build/series search plots/runs/h200/search.jsonl 2>&1 >table'
    fails_with 3 "search.jsonl: line 6: "
    echo '{"record": 1}' >plots/runs/h200/search.jsonl
    run build/series search plots/runs/h200/search.jsonl
    fails_with 3 "not the journal of a search"
    run build/series changes plots/runs/h200/search.jsonl
    fails_with 3 "not what a search leaves"
    run build/series search absent.jsonl
    fails_with 3 "absent.jsonl: No such file"
}

# ---- The scoreboard -----------------------------------------------------------------------------

board_record() { # a stage, one that is wrong at mission, PyTorch's flash; with floors
    cat >plots/runs/h200/scoreboard.json <<'EOF'
{"record":1,"kind":"scoreboard","runtime":"gpu","shapes":{
 "small":{"entries":{"ch02_scalar":{"graph":{"p50_us":20}}}},
 "mission":{"best_pytorch":{"name":"pytorch-flash","p50_us":10},"entries":{
  "ch02_scalar":{"rel_head":2e-4,"graph":{"p50_us":40.125},"plain":{"p50_us":41},"cold":{"p50_us":50}},
  "ch03_wmma_qk":{"rel_head":2.1e-4,"graph":{"p50_us":36}},
  "ch04_cp_async":{"wrong":"relative error 0.7"},
  "mine":{"rel_head":2e-2,"graph":{"p50_us":5}},
  "pytorch-flash":{"rel_head":3e-4,"graph":{"p50_us":10},"cold":{"p50_us":13}}}},
 "long":{"entries":{"pytorch-flash":{"graph":{"p50_us":1234.5}}}}}}
EOF
    echo '{"shapes":{"mission":{"floor_and_launch":1.84}},"rates":{"launch_plain_us":2.14}}' \
        >plots/runs/h200/floors.json
}

@test "scoreboard: a row a contestant with a time, a block a shape, PyTorch's best and the floor" {
    board_record
    "$TREE/build/series" scoreboard plots/runs/h200/scoreboard.json >table
    shown table >all
    [ "$(sed -n '1,4p' all | tr '\n' ' ')" = "1|scalar baseline  2 2|WMMA Q·Kᵀ  3 3|mine 4.4|PyTorch, flash " ]
    grep -qx 'mission|10|1.84|1.84|50' all
    grep -qx '1|40.125|50' all
    grep -qx '4.4|10|13' all
    grep -qx 'long|nan|nan|1234.5|1234.5' all
    grep -qx 'huge|nan|nan|nan|nan' all
    run -1 grep -q 'cp.async' all
}

@test "accuracy: error beside time, one label for points that lie on one another" {
    board_record
    "$TREE/build/series" accuracy plots/runs/h200/scoreboard.json >table
    shown table >all
    grep -qx '40.125|0.0002|38.0066|2, 3' all
    grep -qx '36|0.00021|36|' all
    grep -qx '5|0.02|5|mine' all
    grep -qx '10|0.0003|10|flash' all
}

@test "the scoreboard's tables: the fastest in bold, what was not measured as a dash, the floor" {
    board_record
    run "$TREE/build/series" scoreboard-table plots/runs/h200/scoreboard.json
    [ "${lines[0]}" = "<!-- from h200/scoreboard h200/floors -->" ]
    [ "${lines[3]}" = "| 2 scalar baseline | **20.00** | 40.12 | – | – | 2.0 | 0.25 |" ]
    [[ $output == *"| mine | – | **5.00** | – | – | 200.0 | 2.00 |"* ]]
    [[ $output == *"| PyTorch, flash | – | 10.00 | **1234** | – | 3.0 | 1.00 |"* ]]
    [[ $output == *"| *floor and launch* | – | 1.84 | – | – | | |"* ]]
    run "$TREE/build/series" ways-table plots/runs/h200/scoreboard.json
    [[ $output == *"| 2 scalar baseline | 20.0 | – | – | 40.1 | 41.0 | 50.0 |"* ]]
    [[ $output == *"| *an empty launch* | – | 2.1 | – | – | 2.1 | – |"* ]]
}

@test "the scoreboard's tables go into their files and the README, and stale ones are seen" {
    command -v gnuplot || skip "no gnuplot"
    board_record
    printf 'a\n<!-- scoreboard: made -->\nold\n<!-- end of scoreboard -->\nb\n' >README.md
    plots/render
    grep -qx '| mine | – | \*\*5.00\*\* .*' plots/scoreboard.md
    diff README.md - <<EOF
a
<!-- scoreboard: made -->

$(sed 1d plots/scoreboard.md)

<!-- end of scoreboard -->
b
EOF
    [ "$(grep -c '^| mine' README.md)" -eq 1 ]
    run -1 grep -q 'old\|from h200' README.md
    [ "$(sed -n '$p' README.md)" = b ]
    for chart in scoreboard accuracy; do grep -q '<!-- inputs: ' plots/$chart.svg; done
    plots/render --check
    sed -i 's/"p50_us":5}/"p50_us":6}/' plots/runs/h200/scoreboard.json
    run plots/render --check
    [ "$status" -eq 1 ]
    for stale in scoreboard.svg accuracy.svg scoreboard.md ways.md README.md; do
        [[ $output == *"$stale is stale"* ]] || { echo "not stale: $stale"; false; }
    done
}

@test "a record that no scoreboard has written is refused" {
    echo '{"kind":"else"}' >x.json
    run "$TREE/build/series" scoreboard x.json
    fails_with 3 "x.json: not what labs/tools/scoreboard writes"
    echo '{"kind":"scoreboard","shapes":{}}' >x.json
    run "$TREE/build/series" scoreboard x.json
    fails_with 4 "x.json: nobody has a time"
}

@test "a contestant stands apart on the board: its title, its own group, no mark where there is none" {
    cat >plots/runs/h200/scoreboard.json <<'EOF'
{"kind":"scoreboard","device":{"name":"NVIDIA H200"},"shapes":{"mission":{"batch":2,"heads":8,"seq_len":512,"entries":{
 "ch02_scalar":{"rel_head":2e-4,"graph":{"p50_us":150},"cold":{"p50_us":151}},
 "pytorch-flash":{"rel_head":6e-4,"graph":{"p50_us":12},"cold":{"p50_us":13}},
 "triton_e4m3":{"contestant":true,"title":"Triton, E4M3","rel_head":3e-4,"graph":{"p50_us":6},"cold":{"p50_us":7}},
 "mine":{"contestant":true,"rel_head":3e-2,"graph":{"p50_us":60},"cold":{"p50_us":61}}}}}}
EOF
    build/series scoreboard-table plots/runs/h200/scoreboard.json >table
    grep -qF '| Triton, E4M3 | – | **6.00** | – | – | 3.0 | 2.00 |' table
    grep -qF '| mine | – | 60.00 |' table
    build/series accuracy plots/runs/h200/scoreboard.json >points
    sed -n '/^others, E4M3/,$p' points | grep -qxF "$(printf '6\t0.0003\t6\tTriton')"
    sed -n '/^PyTorch/,/^others/p' points | grep -qxF "$(printf '12\t0.0006\t12\tflash')"
    [ "$(grep -c '^150' points)" -eq 1 ]
    build/series scoreboard plots/runs/h200/scoreboard.json >chart
    grep -qx "$(printf '2.4\tPyTorch, flash')" chart
    grep -qx "$(printf '3.8\tTriton, E4M3')" chart
    plots/render
    rsvg-convert plots/accuracy.svg >/dev/null
}
