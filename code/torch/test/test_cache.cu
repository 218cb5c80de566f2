// The C side of decode() without PyTorch: chapter 21's program in program.cu, and the CPU's side,
// against the workbench. In the simulator, or on a GPU.
#define PROGRAM "ch21_decode.cu"
#include "../program.cu"

#include <vector>

extern "C" {
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "../cpu.h"
}

#define assert_ok(call)                                                        \
    assert_string_equal(cudaGetErrorName(call), "cudaSuccess")

template <class T> static T *on_device(const T *host, size_t count)
{
    T *device;

    assert_ok(cudaMalloc((void **)&device, (count + 1) * sizeof(T)));
    assert_ok(
        cudaMemcpy(device, host, count * sizeof(T), cudaMemcpyHostToDevice));
    return device;
}

template <class T> static std::vector<T> fetched(const T *device, size_t count)
{
    std::vector<T> host(count);

    assert_ok(cudaDeviceSynchronize());
    assert_ok(cudaMemcpy(host.data(), device, count * sizeof(T),
                         cudaMemcpyDeviceToHost));
    return host;
}

// A drawn problem and its cache on the device.
struct drawn {
    struct problem problem;
    struct cache_image image;
    std::vector<int> lengths;
    std::vector<float> wanted; // the workbench's reference of the output
    uint16_t *q, *new_k, *new_v, *out;
    uint8_t *codes, *scales, *scratch;
    int *table, *device_lengths;
    size_t scratch_bytes;
};

static uint16_t *halves_on_device(const std::vector<float> &values)
{
    std::vector<uint16_t> halves;

    for (float x : values)
        halves.push_back(half_from_float(x));
    return on_device(halves.data(), halves.size());
}

static struct drawn draw(const char *text)
{
    struct drawn d;
    struct shape shape;
    char why[200];

    assert_true(shape_parse(text, &shape, why, sizeof why));
    assert_true(problem_create(&d.problem, &shape, INPUT_PEAKY, 5));
    launched_on(0, [] {
        return cudaSuccess;
    }); // program.cu now has the program's description
    assert_true(cache_image_create(&d.image, &d.problem, described->code_place,
                                   described->scale_place));
    std::vector<float> k, v; // rows of the newest tokens
    for (int job = 0; job < shape.batch * shape.heads; ++job) {
        int length = shape_length(&shape, job / shape.heads);
        size_t at = ((size_t)job * shape.seq_len + length - 1) * HEAD_DIM;
        k.insert(k.end(), &d.problem.k[at], &d.problem.k[at] + HEAD_DIM);
        v.insert(v.end(), &d.problem.v[at], &d.problem.v[at] + HEAD_DIM);
        if (job % shape.heads == 0)
            d.lengths.push_back(length);
    }
    size_t outputs = shape_outputs(&shape);
    d.q = halves_on_device(
        std::vector<float>(d.problem.q, d.problem.q + outputs));
    d.new_k = halves_on_device(k), d.new_v = halves_on_device(v);
    d.codes = on_device(d.image.before, d.image.code_bytes);
    d.scales = on_device(d.image.before + d.image.code_bytes,
                         d.image.bytes - d.image.code_bytes);
    d.table = on_device(d.image.table, (size_t)shape.batch * d.image.max_pages);
    d.device_lengths = on_device(d.lengths.data(), d.lengths.size());
    d.scratch_bytes = decode_scratch(shape.batch, shape.heads, shape.group,
                                     shape.page, d.image.max_pages, 0);
    std::vector<uint8_t> zeros(d.scratch_bytes);
    d.scratch = on_device(zeros.data(), zeros.size());
    std::vector<uint16_t> poison(outputs, 0x7e00);
    d.out = on_device(poison.data(), outputs);
    d.wanted.resize(outputs);
    assert_true(reference_dequantised(&d.problem, (struct rows){0, 1}, 0,
                                      d.wanted.data()));
    return d;
}

static const char *decode(const struct drawn &d, size_t scratch_bytes)
{
    const struct shape *shape = &d.problem.shape;

    return launch_decode(d.q, d.new_k, d.new_v, d.codes, d.scales, d.table,
                         d.device_lengths, d.scratch, scratch_bytes, d.out,
                         shape->batch, shape->heads, shape->group, shape->page,
                         d.image.max_pages, d.problem.softmax_scale, 0, NULL);
}

static void drop(struct drawn &d)
{
    void *pointers[] = {d.q,      d.new_k,   d.new_v, d.out,           d.codes,
                        d.scales, d.scratch, d.table, d.device_lengths};

    for (void *pointer : pointers)
        assert_ok(cudaFree(pointer));
    cache_image_destroy(&d.image);
    problem_destroy(&d.problem);
}

// Launches twice: the second launch finds the scratch as the first left it, and stores the same token again.
static void test_a_cache_is_asked_and_appended_to(void **)
{
    static const char *const shapes[] = {"1x1x1q1p16", "2x2x77q4p16",
                                         "1x1x1100q8p64", "3x1x200q16p256r2"};

    for (const char *text : shapes) {
        struct drawn d = draw(text);
        for (int launch = 0; launch < 2; ++launch) {
            assert_null(decode(d, d.scratch_bytes));
            std::vector<uint16_t> got = fetched(d.out, d.wanted.size());
            struct error_metrics metrics =
                error_measure(&d.problem.shape, (struct rows){0, 1}, got.data(),
                              d.wanted.data());
            assert_true(gate_relative(&metrics, GATE_TOLERANCE));
            std::vector<uint8_t> codes = fetched(d.codes, d.image.code_bytes);
            assert_memory_equal(codes.data(), d.image.then, codes.size());
            std::vector<uint8_t> scales =
                fetched(d.scales, d.image.bytes - d.image.code_bytes);
            assert_memory_equal(scales.data(),
                                d.image.then + d.image.code_bytes,
                                scales.size());
        }
        drop(d);
    }
}

static void test_the_cpu_answers_as_the_reference(void **)
{
    struct drawn d = draw("3x2x61q5p16r4");
    const struct problem *p = &d.problem;
    int heads = p->shape.heads, queries = p->shape.group;
    size_t outputs =
        (size_t)heads * queries * HEAD_DIM; // output elements of a sequence

    for (int b = 0; b < p->shape.batch; ++b) {
        int length = d.lengths[b];
        std::vector<uint8_t> codes[2];
        std::vector<float> scales[2], out(outputs);
        for (int head = 0; head < heads; ++head) {
            size_t first = ((size_t)b * heads + head) * p->shape.seq_len;
            const uint8_t *from[2] = {p->k_codes, p->v_codes};
            const float *scale[2] = {p->k_scales, p->v_scales};
            for (int t = 0; t < 2; ++t) {
                codes[t].insert(codes[t].end(), from[t] + first * HEAD_DIM,
                                from[t] + (first + length) * HEAD_DIM);
                scales[t].insert(scales[t].end(), scale[t] + first,
                                 scale[t] + first + length);
            }
        }
        assert_true(decode_on_cpu(p->q + b * outputs, codes[0].data(),
                                  codes[1].data(), scales[0].data(),
                                  scales[1].data(), heads, queries, length,
                                  HEAD_DIM, p->softmax_scale, out.data()));
        assert_memory_equal(out.data(), &d.wanted[b * outputs],
                            outputs * sizeof(float));
    }
    drop(d);
}

// The scratch for a batch is enough for a smaller one, although a single sequence has more CTAs per head than two have.
static void test_scratch_is_for_some_of_the_sequences_too(void **)
{
    size_t one = decode_scratch(1, 8, 4, 64, 64, 0);

    assert_true(one > 0);
    assert_true(decode_scratch(200, 8, 4, 64, 64, 0) >= one);
    assert_int_equal(decode_scratch(1, 8, 4, 16, 1, 0),
                     0); // 16 tokens: nothing to split
}

static void test_what_is_refused_is_a_line(void **)
{
    struct drawn d = draw("1x1x1100q8p64");
    char wanted[80];

    assert_true(d.scratch_bytes > 16);
    snprintf(wanted, sizeof wanted, "scratch has 16 bytes, %zu are wanted",
             d.scratch_bytes);
    assert_string_equal(decode(d, 16), wanted);
    assert_string_equal(
        launch_attention(NULL, NULL, NULL, NULL, 1, 1, 3, 1, 0, NULL),
        "this program asks a cache");
    drop(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cache_is_asked_and_appended_to),
        cmocka_unit_test(test_the_cpu_answers_as_the_reference),
        cmocka_unit_test(test_scratch_is_for_some_of_the_sequences_too),
        cmocka_unit_test(test_what_is_refused_is_a_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
