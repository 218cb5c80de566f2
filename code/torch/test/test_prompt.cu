// The C side of prompt() without PyTorch: chapter 22's program in program.cu, against the
// workbench. In the simulator, or on a GPU.
#define PROGRAM "ch22_prompt.cu"
#include "../program.cu"

#include <vector>

extern "C" {
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
}

#define assert_ok(call)                                                        \
    assert_string_equal(cudaGetErrorName(call), "cudaSuccess")

template <class T> static T *on_device(const std::vector<T> &host)
{
    T *device;

    assert_ok(cudaMalloc((void **)&device, (host.size() + 1) * sizeof(T)));
    assert_ok(cudaMemcpy(device, host.data(), host.size() * sizeof(T),
                         cudaMemcpyHostToDevice));
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

static uint16_t *halves_on_device(const std::vector<float> &values)
{
    std::vector<uint16_t> halves;

    for (float x : values)
        halves.push_back(half_from_float(x));
    return on_device(halves);
}

// The newest tokens' rows as [batch][heads][newest][D], with NaN where a sequence has fewer than `newest`.
static std::vector<float> newest_of(const struct shape *shape, const float *x)
{
    std::vector<float> newest;
    int dim = shape_head_dim(shape);

    for (int job = 0; job < shape->batch * shape->heads; ++job) {
        int b = job / shape->heads, tokens = shape_newest(shape, b);
        const float *first = x + ((size_t)job * shape->seq_len +
                                  shape_length(shape, b) - tokens) *
                                     dim;
        newest.insert(newest.end(), first, first + tokens * dim);
        newest.resize((size_t)(job + 1) * shape->newest * dim, NAN);
    }
    return newest;
}

// Launches a drawn prompt with `less` bytes of scratch missing. Returns the launch's message, or NULL after comparing
// the output with the workbench's.
static const char *ask(const char *text, size_t less)
{
    struct problem p;
    struct cache_image image;
    struct shape shape;
    char why[200];

    assert_true(shape_parse(text, &shape, why, sizeof why));
    assert_true(problem_create(&p, &shape, INPUT_PEAKY, 5));
    launched_on(0, [] {
        return cudaSuccess;
    }); // program.cu now has the program's description
    p.mask = described->mask;
    int dim = shape_head_dim(&shape);
    assert_true(cache_image_create(&image, &p,
                                   dim == HEAD_DIM ? described->code_place
                                                   : described->code_place_128,
                                   described->scale_place));
    std::vector<int> lengths, asked;
    for (int b = 0; b < shape.batch; ++b) {
        lengths.push_back(shape_length(&shape, b));
        asked.push_back(shape_rows_asked(&shape, b));
    }
    size_t outputs = shape_outputs(&shape);
    std::vector<float> q(outputs), wanted(outputs);
    for (size_t i = 0; i < outputs; ++i)
        q[i] = e4m3_to_float(p.q_codes[i]) * p.q_scales[i / dim];
    assert_true(
        reference_dequantised(&p, (struct rows){0, 1}, 0, wanted.data()));
    uint16_t *device_q = halves_on_device(q);
    uint16_t *k = halves_on_device(newest_of(&shape, p.k));
    uint16_t *v = halves_on_device(newest_of(&shape, p.v));
    uint16_t *out = on_device(std::vector<uint16_t>(outputs, 0x7e00));
    const uint8_t *before = image.before, *middle = before + image.code_bytes;
    uint8_t *codes = on_device(std::vector<uint8_t>(before, middle));
    uint8_t *scales =
        on_device(std::vector<uint8_t>(middle, before + image.bytes));
    int *table = on_device(std::vector<int>(
        image.table, image.table + shape.batch * image.max_pages));
    int *device_lengths = on_device(lengths), *device_asked = on_device(asked);
    size_t bytes =
        prompt_scratch(shape.batch, shape.heads, shape.group, shape.newest,
                       shape.page, image.max_pages, dim, 0);
    assert_true(bytes >= less);
    uint8_t *scratch = on_device(std::vector<uint8_t>(bytes));
    const char *said =
        launch_prompt(device_q, k, v, codes, scales, table, device_lengths,
                      device_asked, scratch, bytes - less, out, shape.batch,
                      shape.heads, shape.group, shape.newest, shape.page,
                      image.max_pages, dim, p.softmax_scale, 0, NULL);
    if (!said) {
        std::vector<uint16_t> got = fetched(out, outputs);
        struct error_metrics metrics = error_measure(
            &shape, (struct rows){0, 1}, got.data(), wanted.data());
        assert_true(gate_relative(&metrics, GATE_TOLERANCE));
        std::vector<uint8_t> now = fetched(codes, image.code_bytes);
        assert_memory_equal(now.data(), image.then, now.size());
        now = fetched(scales, image.bytes - image.code_bytes);
        assert_memory_equal(now.data(), image.then + image.code_bytes,
                            now.size());
    }
    void *pointers[] = {device_q, k,           v,       out,
                        codes,    table,       scratch, device_lengths,
                        scales,   device_asked};
    for (void *pointer : pointers)
        assert_ok(cudaFree(pointer));
    cache_image_destroy(&image);
    problem_destroy(&p);
    return said;
}

static void test_prompts_ask_and_are_appended(void **)
{
    assert_null(ask("1x1x1q1p16s1", 0));
    assert_null(ask("2x2x77q4p16s30r1", 0));
    assert_null(ask("1x1x600q8p64s2", 0)); // keys split over CTAs
    assert_null(ask("1x2x90q3p32s90", 0)); // all tokens are new
    assert_null(ask("2x2x77q4p16s30d128r1", 0));
}

static void test_what_is_refused_is_a_line(void **)
{
    size_t wanted = prompt_scratch(1, 1, 8, 2, 64, 10, 64, 0);
    char line[80];

    assert_true(wanted > 16);
    snprintf(line, sizeof line, "scratch has %zu bytes, %zu are wanted",
             wanted - 16, wanted);
    assert_string_equal(ask("1x1x600q8p64s2", 16), line);
    assert_string_equal(launch_prompt(NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                      NULL, NULL, 0, NULL, 1, 1, 1, 65536, 16,
                                      5000, 64, 1, 0, NULL),
                        "65536 new tokens, at most 65535 at once");
    assert_string_equal(launch_decode(NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                      NULL, 0, NULL, 1, 1, 1, 16, 1, 1, 0,
                                      NULL),
                        "this program asks no cache");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts_ask_and_are_appended),
        cmocka_unit_test(test_what_is_refused_is_a_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
