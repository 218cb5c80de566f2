// lessons.js: the bookmarks of each chapter's film.
//
// A lesson has a name (its address is #bookmark=NAME), a pattern for its step, and a sentence. Its
// step is the first one in the film that fits the whole pattern.
//
//   at      words in the source line, or in a line that calls the function
//   op      words in the PTX opcode
//   reads, writes, copies     the beginning of a tile's name
//   does    "released": a barrier lets its warps go on; "waits", "passes": the answer of an mbarrier to a test;
//           "completes": a phase of an mbarrier ends; "left": a wait for copies ends; "bulk": a bulk copy begins;
//           "product": a wgmma begins
//   on      the beginning of the mbarrier's name
//   again   the step overwrites bytes that have been read; or it is an atomic operation on global memory, not the
//           first of its instruction
//   most    of the steps that fit, the one with the most wavefronts instead of the first
//
// In the sentence, names in braces are replaced by values at the step (factsOf() in film.js). A
// lesson is left out if no step of the recording fits: another shape, or somebody's own kernel.
"use strict";

const oneBank = {
  name: "one-bank", find: { at: "wmma::load_matrix_sync", most: true },
  say: "The lanes of warp {warp} load a fragment from {tile}. Its rows are a multiple of 128 bytes apart, so one " +
    "column of it lies in one bank, and the lanes queue up: {waves} wavefronts for what {least} could carry.",
};
const fragment = {
  name: "a-product", find: { op: "wmma.mma" },
  say: "Warp {warp} multiplies on the tensor cores: one instruction, 16 × 16 × 16. The tables show which lane holds " +
    "which element of A, B and D.",
};
const copyBegins = {
  name: "copy-begins", find: { copies: "t.codes[0].k" },
  say: "cp.async: {lanes} lanes of warp {warp} ask for {bytes} bytes each, from global memory straight to {tile}. " +
    "Nothing has come yet; the warp goes on, and the copy is listed under “On their way”.",
};
const everybodysPart = {
  name: "everybodys-part", find: { does: "released", at: "everybody's part" },
  say: "A thread waits for its own copies only. What the others copied is there for all after this barrier: warps " +
    "{warps} go on.",
};
const bufferAgain = {
  name: "buffer-again", find: { copies: "t.codes[0]", again: true },
  say: "A later tile is copied into {tile}, which is overwritten while the warp goes on. Warp {reader} was the last " +
    "to read it, and a barrier lies between.",
};
const rowMaximum = {
  name: "row-maximum", find: { writes: "t.row_max" },
  say: "The scores stay in registers. Two warps share each row, and all that they exchange through shared memory is " +
    "its maximum: {lanes} lanes write {bytes} bytes each.",
};

const LESSONS = {
  "02": [
    { name: "codes-to-halves", find: { writes: "t.q" },
      say: "Warp {warp} has turned codes of E4M3 into halves and writes them to {tile}, {bytes} bytes a lane: " +
        "{all} bytes in {waves} wavefronts, which is all that 32 banks of 4 bytes can do." },
    { name: "tiles-complete", find: { does: "released", at: "the tiles are complete" },
      say: "All warps have come to the barrier: {warps}. Only now may a warp read what another one wrote." },
    { name: "a-bank-each", find: { reads: "t.k" },
      say: "Each lane reads its own key, and the keys are 128 bytes apart: at the same column, all would want one " +
        "bank. Each lane begins two columns further on, so this takes {waves} wavefront." },
    { name: "one-number", find: { reads: "t.scores", at: "sum[r] +=" },
      say: "All {lanes} lanes of warp {warp} read the same numbers of {tile}: a broadcast. It is {waves} wavefront, " +
        "however few bytes of it are used." },
    { name: "overwritten", find: { writes: "t.k", again: true },
      say: "The next keys overwrite {tile}. Warp {reader} was the last to read it, and the barrier at the end of the " +
        "loop lies between; without it, this is a race." },
  ],
  "03": [
    oneBank, fragment,
    { name: "scores-complete", find: { does: "released", at: "come from two warps" },
      say: "A row's scores were written by two warps, so its softmax may begin only when both are there: warps " +
        "{warps} go on." },
    { name: "one-number", find: { reads: "t.scores", at: "sum[r] +=" },
      say: "P·V is as it was: all {lanes} lanes read the same numbers of {tile}, {waves} wavefront each time." },
  ],
  "04": [
    copyBegins,
    { name: "two-on-their-way", find: { does: "left", at: "__pipeline_wait_prior" },
      say: "Warp {warp} waits until at most {left} group of its copies is on its way. The older tile is there; the " +
        "next one ({flying}) comes while this one is worked on." },
    everybodysPart, bufferAgain,
  ],
  "05": [
    { name: "two-columns", find: { reads: "t.v", at: "__half22float2" },
      say: "A lane takes two columns of V in one load: {lanes} lanes, {bytes} bytes each, are one row of {all} bytes " +
        "and {waves} wavefront." },
    { name: "half-the-reads", find: { reads: "t.scores", at: "float p =" },
      say: "Each number of {tile} is still read by all {lanes} lanes of warp {warp} at once, but it now serves two " +
        "columns: half as many such reads as in chapter 4." },
    { name: "sums-as-pairs", find: { reads: "t.accum", at: "sum[r] = *(float2" },
      say: "The sums move in pairs as well: {bytes} bytes a lane, {all} bytes in {waves} wavefronts, without a " +
        "conflict." },
  ],
  "06": [
    { name: "p-as-halves", find: { writes: "t.p" },
      say: "Warp {warp} writes its probabilities as halves: what the tensor cores take. They are for other warps, too." },
    { name: "p-complete", find: { does: "released", at: "P and the rescaled output" },
      say: "P comes from other warps than those that multiply it: warps {warps} met here first." },
    { name: "sum-as-fragment", find: { reads: "t.accum", at: "load_matrix_sync(sum" },
      say: "The sums go through shared memory for every tile: load a fragment of {tile}, multiply, store it again. " +
        "This load takes {waves} wavefronts, {more} of them by bank conflicts." },
  ],
  "07": [
    { name: "row-was-read", find: { op: "bar.warp.sync", at: "all lanes have read the row" },
      say: "All lanes of warp {warp} have read their score of the row. Only now may P overwrite it." },
    { name: "p-over-scores", find: { writes: "t.scores", at: "((__half *)" },
      say: "P goes where the scores were, {bytes} bytes a lane in the first half of the same row of {tile}." },
    { name: "rows-further-apart", find: { reads: "t.scores", at: "load_matrix_sync(p" },
      say: "The price: a row of P is now as far from the next as a row of floats, and loading a fragment takes " +
        "{waves} wavefronts, {more} of them by bank conflicts." },
  ],
  "08": [
    rowMaximum,
    { name: "both-maxima", find: { does: "released", at: "row_barrier" },
      say: "Both warps of a row have written their maximum: warps {warps} go on and read the other's." },
    { name: "four-lanes-a-row", find: { op: "shfl", at: "quad_max" },
      say: "Four lanes hold a row of the fragment, so two shuffles find its maximum where a warp needed five." },
    { name: "p-conflicts", find: { writes: "t.p", most: true },
      say: "P is written from the fragment: eight rows at once, 64 bytes apart, in few banks. {waves} wavefronts for " +
        "{all} bytes; chapter 10 mends that." },
  ],
  "09": [
    { name: "third-buffer", find: { copies: "t.codes[2]" },
      say: "The third buffer: while warp {warp} asks for {tile}, its copies to {flying} are still on their way." },
    { name: "oldest-first", find: { does: "left", at: "__pipeline_wait_prior" },
      say: "Warp {warp} waits until at most {left} groups are on their way: only the oldest tile has to be there." },
    everybodysPart, bufferAgain, rowMaximum,
  ],
  "10": [
    { name: "swizzled-write", find: { writes: "t.k" },
      say: "Each row's chunks of 16 bytes change places, differently in eight rows that follow each other. Writing " +
        "{all} bytes to {tile} takes {waves} wavefronts, as before." },
    { name: "no-conflict", find: { op: "ldmatrix", reads: "t.q" },
      say: "ldmatrix loads four tiles of 8 × 8 halves. Eight rows of a tile are 128 bytes apart, but their chunks now " +
        "lie in different banks: {waves} wavefronts, one a tile, and no conflict." },
    { name: "turned-over", find: { op: "trans", reads: "t.v" },
      say: "V is needed by columns: ldmatrix turns each tile over on the way, for the same {waves} wavefronts." },
    { name: "p-without-conflict", find: { writes: "t.p" },
      say: "P is swizzled as well: {all} bytes in {waves} wavefront, where chapter 8 needed more." },
    { name: "a-product", find: { op: "mma.sync" },
      say: "mma.sync, 16 × 8 × 16: its layout in registers is documented, so the program knows which row a lane holds." },
  ],
  "11": [
    { name: "round-to-n", find: { op: "fma", at: "float shifted =" },
      say: "The exponential without the special-function unit begins: an addition rounds x · log₂ e to a whole number n." },
    { name: "put-n-in-the-exponent", find: { op: "add.s32", at: "__int_as_float(__float_as_int(p)" },
      say: "2ⁿ costs an integer addition: n goes into the exponent's bits of the polynomial's value. All {lanes} lanes " +
        "do it in the ordinary pipes." },
    { name: "p-written", find: { writes: "t.p" },
      say: "The probabilities are rounded and written to {tile}, {waves} wavefront, as in chapter 10." },
  ],
  "12": [
    { name: "take-a-tile", find: { op: "atom", at: "atomicInc" },
      say: "{lanes} lane of the whole CTA takes the number of a query tile from a counter in global memory." },
    { name: "all-are-told", find: { does: "released", at: "the number is there" },
      say: "The number lies in shared memory, and all warps may read it: {warps} go on." },
    { name: "another-tile", find: { op: "atom", at: "atomicInc", again: true },
      say: "The tile is done. Instead of ending, the CTA takes another: Q is loaded into the same shared memory again." },
    { name: "q-again", find: { writes: "t.q", again: true },
      say: "The next query tile overwrites {tile}. Warp {reader} was the last to read the old one." },
  ],
  "13": [
    { name: "consumer-waits", find: { does: "waits", on: "t.filled" },
      say: "Warp {warp} is a consumer. It asks whether {barrier} has ended its phase: not yet, the tile is still empty." },
    { name: "tile-filled", find: { does: "completes", on: "t.filled" },
      say: "The last lanes of the producers arrive at {barrier}: its phase ends, and the consumers may read the tile." },
    { name: "producer-waits", find: { does: "waits", on: "t.empty" },
      say: "Warp {warp} is a producer: it has its codes in registers and asks whether {barrier} has ended its phase. " +
        "Not yet: consumers still read that buffer." },
    { name: "buffer-free", find: { does: "completes", on: "t.empty" },
      say: "All consumers have arrived at {barrier}: the buffer is free, and the producer that waits for it goes on." },
    { name: "buffer-again", find: { writes: "t.ring[0].k", again: true },
      say: "A producer overwrites {tile}. Warp {reader} was the last to read it; no barrier of the whole CTA lies " +
        "between, only the mbarriers." },
  ],
  "14": [
    { name: "tile-complete", find: { does: "released", at: "the tile is complete" },
      say: "Tiles of 64 × 64 and {count} warps: each barrier now parts more work than in chapter 13's tiles of 32." },
    { name: "q-no-conflict", find: { op: "ldmatrix", reads: "q" },
      say: "The same swizzle: {waves} wavefronts for four tiles of 8 × 8 halves." },
    { name: "rows-of-two-warps", find: { does: "released", at: "row_barrier" },
      say: "Two warps share each row of P. Only those two meet: warps {warps} go on, the others are not asked." },
    { name: "buffer-again", find: { writes: "ring[0].k", again: true },
      say: "The ring has two buffers, and {tile} is overwritten; warp {reader} was the last to read it." },
  ],
  "15": [
    { name: "two-chunks", find: { writes: "tiles[0].k" },
      say: "Keys go from registers to {tile}, {bytes} bytes a lane: {all} bytes in {waves} wavefronts, no conflict." },
    { name: "scores-are-the-operand", find: { op: "mma.sync", at: "mma(r.out" },
      say: "P·V begins, and P was never written: the scores' places in D are the operand's places in A, so a lane " +
        "multiplies what it has computed itself." },
    { name: "arrived", find: { does: "completes", on: "done" },
      say: "The last warp has arrived at {barrier}: the buffer may be overwritten. A warp that came earlier did not stop." },
    { name: "parts-over-tiles", find: { writes: "tiles[", at: "parts[m]" },
      say: "The warps that shared the keys exchange their sums once, at the end, where the tiles were: {waves} " +
        "wavefronts for {all} bytes." },
  ],
  "16": [
    { name: "copy-begins", find: { copies: "t.ring[0].k" },
      say: "Codes stay codes: cp.async brings {bytes} bytes a lane to {tile}, and nothing will turn them into halves." },
    { name: "next-is-coming", find: { does: "left", at: "__pipeline_wait_prior" },
      say: "Warp {warp} waits until at most {left} group is on its way: one tile is there, the next ({flying}) still comes." },
    { name: "fp8-product", find: { op: "e4m3" },
      say: "A product of E4M3 codes: 16 × 8 × 32, twice as many numbers as with halves. The tables show four codes a " +
        "register." },
    { name: "bytes-as-halves", find: { op: "trans" },
      say: "ldmatrix knows only elements of two bytes: turned over, two keys' codes stay together. {waves} wavefronts, " +
        "no conflict; the program sorts the bytes afterwards." },
  ],
  "17": [
    { name: "v-becomes-half", find: { writes: "vh", at: "= high" },
      say: "The producers make V's codes halves, {bytes} bytes a lane at a time: {waves} wavefronts, no conflict. V is " +
        "not turned over, for a product of halves takes it by rows." },
    { name: "half-product", find: { op: "f16.f16" },
      say: "The product of P and V, both in half, is queued: four warps multiply 64 rows of P, which lie in registers, " +
        "with 16 rows of V." },
    { name: "fits-a-half", find: { op: "vote" },
      say: "Warp {warp} asks whether all its sums are small enough for P to fit a half. If one is not, the reference " +
        "moves." },
    { name: "buffer-again", find: { does: "bulk", again: true },
      say: "The ring goes round: {tile} is overwritten by the TMA. Warp {reader} was the last to read it." },
  ],
  "18": [
    { name: "one-lane-loads", find: { does: "bulk" },
      say: "{lanes} lane asks the TMA for a box of {moved} bytes, K or V of 128 keys. No other thread computes an address." },
    { name: "box-has-come", find: { does: "passes", on: "k_full" },
      say: "Warp {warp}, a consumer, asks whether the box has come. {barrier} has ended its phase, so all its bytes are " +
        "there; in a GPU the warp may have waited for it." },
    { name: "v-turned-over", find: { writes: "vt", op: "stmatrix" },
      say: "The producers turn V over, since the tensor cores want codes by columns: {waves} wavefronts, no conflict." },
    { name: "column-of-ones", find: { writes: "vt", at: "rows[lane] =" },
      say: "Ones below V: the product with this row sums up P, so that no shuffle has to." },
    { name: "queued", find: { does: "product" },
      say: "wgmma is only queued: four warps multiply 64 rows with B where it lies in shared memory, and go on." },
    { name: "producer-waits", find: { does: "waits", on: "empty" },
      say: "Warp {warp}, the producer, wants to load and asks whether {barrier} has ended its phase: not yet, the " +
        "buffer is still read." },
    { name: "buffer-again", find: { does: "bulk", again: true },
      say: "The ring goes round: {tile} is overwritten by the TMA. Warp {reader} was the last to read it." },
  ],
  "20": [
    { name: "masked", find: { op: "setp", at: "i % 2 > last" },
      say: "Warp {warp} has come to the diagonal: what a row may not see becomes −∞ before anybody looks for the " +
        "maximum. In the tiles below the diagonal this line is not run." },
    { name: "arrived", find: { does: "completes", on: "done" },
      say: "The last warp has arrived at {barrier}, those that had nothing to multiply, too: the buffer may be " +
        "overwritten." },
  ],
  "21": [
    { name: "own-copies", find: { op: "cp.async.cg" },
      say: "Warp {warp} begins to copy its first granule, {bytes} bytes a lane. Each lane copies what it will read " +
        "itself: no barrier stands between the two." },
    { name: "others-stay", find: { op: "wait_group" },
      say: "Warp {warp} waits for its oldest granule. Those behind it stay on their way: {left} groups of copies." },
    { name: "keys-times-queries", find: { op: "mma.sync" },
      say: "Warp {warp} multiplies 8 keys with up to 8 queries, 16 of their 64 numbers. A row is a query head: all " +
        "of them share the keys." },
    { name: "parts-complete", find: { does: "released", at: "__syncthreads" },
      say: "All warps have come: the rings are free, and what each has of the rows is written where they were." },
  ],
  "22": [
    { name: "granule-copied", find: { op: "cp.async.cg" },
      say: "Warp {warp} begins to copy its granule of the first tile, {bytes} bytes a lane: all of the granule's tokens " +
        "are in the cache already." },
    { name: "new-in-half", find: { op: "ld.global", at: "raw[i] = from[i]" },
      say: "Warp {warp} has a granule with new tokens. {lanes} lanes load their keys in half, to quantise them: every " +
        "row tile that sees them does so for itself." },
    { name: "one-owner", find: { op: "st.global", at: "*old = codes[i]" },
      say: "These tokens' first rows are this tile's, so warp {warp} puts them into the cache. No other CTA does." },
    { name: "tile-complete", find: { does: "released", at: "the tile is complete; nobody" },
      say: "All warps have come: {warps}. The tile's granules are there for each of them, whoever brought them, and " +
        "the tile before may be overwritten." },
    { name: "masked", find: { op: "setp", at: "> last[m]" },
      say: "Warp {warp} has come to the new tokens: the keys after a row's own become −∞. In the tiles before, this " +
        "line is not run." },
  ],
  "23": [
    { name: "a-groups-queries", find: { op: "ld.global", at: "there ? from[0]" },
      say: "Warp {warp} loads the token's queries: {lanes} lanes, for the three heads of a group. The product before has " +
        "turned them by the token's place, and left them in half." },
    { name: "its-own-key", find: { op: "ld.global", at: "raw.k[0]" },
      say: "Warp {warp} has the granule that ends the text. Its lanes load the token's own key and value, which the same " +
        "product has made: they are not in the cache yet." },
    { name: "keys-times-queries", find: { op: "mma.sync" },
      say: "Warp {warp} multiplies 8 keys with 8 columns, of which three are the group's queries: 16 of their 64 " +
        "numbers." },
    { name: "into-its-page", find: { op: "st.global", at: "slot * HEAD_DIM" },
      say: "{lanes} lanes of warp {warp} put the token's key into its page, 16 codes each. The next token finds it " +
        "there." },
    { name: "parts-complete", find: { does: "released", at: "the parts overwrite" },
      say: "All warps have come: the rings are free, and what each has of the rows is written where they were." },
  ],
};
