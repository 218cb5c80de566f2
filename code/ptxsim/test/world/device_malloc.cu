// malloc and free, new and delete in device code: a list of nodes for each thread, arrays that one
// kernel allocates and the next one uses and frees, a heap that is too small.
#include "check.h"

struct Node {
    int value;
    Node *next;
    __device__ Node(int v, Node *n) : value(v), next(n)
    {
    }
};

__global__ void lists(int *out)
{
    Node *head = nullptr;
    for (unsigned i = 0; i <= threadIdx.x; ++i)
        head = new Node(i * i, head);
    int sum = 0;
    while (head) {
        Node *next = head->next;
        sum += head->value * (head->next ? 1 : 10);
        delete head;
        head = next;
    }
    out[threadIdx.x] = sum;
}

__device__ int *kept[32];

__global__ void allocate()
{
    int n = threadIdx.x + 1;
    kept[threadIdx.x] = (int *)malloc(n * sizeof(int));
    for (int i = 0; i < n; ++i)
        kept[threadIdx.x][i] = i + 100 * n;
}

__global__ void use(int *out)
{
    int *array = kept[(threadIdx.x + 1) % 32], n = (threadIdx.x + 1) % 32 + 1, sum = 0;
    for (int i = 0; i < n; ++i)
        sum += array[i];
    out[threadIdx.x] = sum;
    free(array);
}

__global__ void too_much(int *out)
{
    void *large = malloc((size_t)1 << 40);
    *out = large == nullptr;
    free(large);
    free(nullptr);
    double *row = new double[100];
    out[1] = (size_t)row % 16 == 0;
    delete[] row;
}

int main()
{
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
    size_t heap = 0;
    CHECK(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
    printf("heap of at least 16 MB: %d\n", heap >= 16 << 20);
    int *out = zeros<int>(64);
    lists<<<1, 64>>>(out);
    CHECK_KERNEL();
    std::vector<int> got = to_host(out, 64);
    bool right = true;
    for (int i = 0, sum = 0; i < 64; ++i) {
        sum += i * i;
        right = right && got[i] == sum; // the last node holds zero
    }
    expect("lists", right);
    allocate<<<1, 32>>>();
    use<<<1, 32>>>(out);
    CHECK_KERNEL();
    got = to_host(out, 32);
    right = true;
    for (int i = 0; i < 32; ++i) {
        int n = (i + 1) % 32 + 1;
        right = right && got[i] == 100 * n * n + n * (n - 1) / 2;
    }
    expect("from kernel to kernel", right);
    too_much<<<1, 1>>>(out);
    CHECK_KERNEL();
    printf("refused %d, aligned %d\n", to_host(out, 2)[0], to_host(out, 2)[1]);
    return failures;
}
