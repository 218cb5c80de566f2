// The C side of the operators without PyTorch: quantise.cu and a chapter's program in program.cu,
// against the workbench. In the simulator, or on a GPU.
#define PROGRAM "ch15_registers.cu"
#include "../program.cu"
#include "../quantise.cu"

#include <vector>

extern "C" {
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "../cpu.h"
}

#define assert_ok(call)                                                        \
    assert_string_equal(cudaGetErrorName(call), "cudaSuccess")

template <class T> static T *on_device(const std::vector<T> &host)
{
    T *device;

    assert_ok(cudaMalloc((void **)&device, host.size() * sizeof(T)));
    assert_ok(cudaMemcpy(device, host.data(), host.size() * sizeof(T),
                         cudaMemcpyHostToDevice));
    return device;
}

template <class T> static std::vector<T> fetched(T *device, size_t count)
{
    std::vector<T> host(count);

    assert_ok(cudaDeviceSynchronize());
    assert_ok(cudaMemcpy(host.data(), device, count * sizeof(T),
                         cudaMemcpyDeviceToHost));
    assert_ok(cudaFree(device));
    return host;
}

// A drawn problem, and its tensors as quantised.
struct done {
    struct problem problem;
    std::vector<uint8_t> codes;
    std::vector<float> scales;
};

// Rounds a drawn problem's tensors to half, quantises them by the kernels and on the CPU, and fails
// if the two differ.
static struct done quantised(const char *text, int head_dim)
{
    struct done done;
    struct shape shape;
    char why[200];

    assert_true(shape_parse(text, &shape, why, sizeof why));
    assert_true(problem_create(&done.problem, &shape, INPUT_MEAN, 3));
    // Rows are 80 elements apart, and the tensor uses head_dim of them: so its stride differs from all its sizes.
    enum { WIDE = 80 };
    size_t rows = shape_elements(&shape) / HEAD_DIM;
    const float *drawn[3] = {done.problem.q, done.problem.k, done.problem.v};
    std::vector<float> narrow(rows * head_dim);
    __half *tensors[3];
    done.codes.resize(3 * rows * HEAD_DIM);
    done.scales.resize(3 * shape.heads);
    for (int t = 0; t < 3; ++t) {
        std::vector<__half> wide(
            rows * WIDE,
            __float2half(
                1e4f)); // a kernel that reads past head_dim gives a wrong result
        for (size_t row = 0; row < rows; ++row)
            for (int d = 0; d < head_dim; ++d) {
                wide[row * WIDE + d] =
                    __float2half(drawn[t][row * HEAD_DIM + d]);
                narrow[row * head_dim + d] = __half2float(wide[row * WIDE + d]);
            }
        for (int head = 0; head < shape.heads; ++head) {
            size_t first = (size_t)head * shape.seq_len;
            quantise_head(&narrow[first * head_dim], shape.batch,
                          (long)shape.heads * shape.seq_len, shape.seq_len,
                          head_dim, &done.codes[(t * rows + first) * HEAD_DIM],
                          &done.scales[t * shape.heads + head]);
        }
        tensors[t] = on_device(wide);
    }

    long long strides[9];
    for (int i = 0; i < 9; ++i)
        strides[i] =
            (const long long[]){(long long)shape.heads * shape.seq_len * WIDE,
                                (long long)shape.seq_len * WIDE, WIDE}[i % 3];
    uint8_t *codes = on_device(std::vector<uint8_t>(done.codes.size(), 0x7f));
    float *scales = on_device(std::vector<float>(done.scales.size()));
    float *largest = on_device(std::vector<float>(
        (size_t)3 * shape.heads * shape.batch * quantiser::MOST_PARTS));
    assert_null(quantiser::launch_quantise(
        tensors[0], tensors[1], tensors[2], strides, 0, shape.batch,
        shape.heads, shape.seq_len, head_dim, codes, scales, largest, 0, NULL));
    std::vector<uint8_t> got = fetched(codes, done.codes.size());
    std::vector<float> got_scales = fetched(scales, done.scales.size());
    assert_memory_equal(got_scales.data(), done.scales.data(),
                        got_scales.size() * sizeof(float));
    assert_memory_equal(got.data(), done.codes.data(), got.size());
    assert_ok(cudaFree(largest));
    for (__half *tensor : tensors)
        assert_ok(cudaFree(tensor));
    return done;
}

// Sequences of one part, and of several parts, of which the last is not full. Rows of 64 elements, and shorter ones,
// which are filled up with zeros.
static void test_codes_are_the_workbenchs(void **)
{
    static const struct {
        const char *shape;
        int head_dim;
    } cases[] = {
        {"1x1x1", 64}, {"2x3x77", 64}, {"1x2x300", 32}, {"3x1x129", 8}};

    for (auto c : cases) {
        struct done done = quantised(c.shape, c.head_dim);
        problem_destroy(&done.problem);
    }
}

static void test_attention_is_the_references(void **)
{
    static const struct {
        const char *shape;
        int head_dim;
    } cases[] = {{"2x2x77", 64}, {"1x1x130", 32}};

    for (auto c : cases) {
        struct done done = quantised(c.shape, c.head_dim);
        const struct shape *shape = &done.problem.shape;
        size_t elements = shape_elements(shape);
        std::vector<float> wanted(elements);
        uint8_t *codes = on_device(done.codes);
        float *scales = on_device(done.scales);
        uint16_t *out = on_device(std::vector<uint16_t>(elements, 0x7e00));

        assert_true(attend_on_cpu(done.codes.data(), done.scales.data(), 0,
                                  shape->batch, shape->heads, shape->seq_len,
                                  0.2f, wanted.data()));
        assert_null(launch_attention(codes, scales, NULL, out, shape->batch,
                                     shape->heads, shape->seq_len, 0.2f, 0,
                                     NULL));
        std::vector<uint16_t> got = fetched(out, elements);
        struct error_metrics metrics = error_measure(shape, (struct rows){0, 1},
                                                     got.data(), wanted.data());
        assert_true(gate_relative(&metrics, GATE_TOLERANCE));
        assert_ok(cudaFree(codes));
        assert_ok(cudaFree(scales));
        problem_destroy(&done.problem);
    }
}

static void test_what_a_program_refuses_is_a_line(void **)
{
    int lengths = 3;

    assert_string_equal(
        launch_attention(NULL, NULL, &lengths, NULL, 1, 1, 3, 1, 0, NULL),
        "this program takes no lengths");
    assert_string_equal(
        launch_attention(NULL, NULL, NULL, NULL, 300, 300, 3, 1, 0, NULL),
        "batch x heads is 90000, at most 65535");
    assert_string_equal(
        launch_attention(NULL, NULL, NULL, NULL, 1, 1, 3, 1, 99, NULL),
        "invalid device ordinal");
    assert_string_equal(launch_decode(NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                      NULL, 0, NULL, 1, 1, 1, 16, 1, 1, 0,
                                      NULL),
                        "this program asks no cache");
    assert_string_equal(
        quantiser::launch_quantise(NULL, NULL, NULL, (const long long[9]){}, 0,
                                   300, 300, 3, 64, NULL, NULL, NULL, 0, NULL),
        "batch x heads is more than 65535");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_are_the_workbenchs),
        cmocka_unit_test(test_attention_is_the_references),
        cmocka_unit_test(test_what_a_program_refuses_is_a_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
