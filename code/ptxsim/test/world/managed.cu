// Managed memory: a __managed__ variable, cudaMallocManaged shared by host and device in turns, a
// list of structs that point to one another, prefetch and advice.
#include "check.h"

struct Node {
    int value;
    Node *next;
};

__managed__ int calls;
__managed__ int squares[10];

__global__ void walk(Node *head, int *sum)
{
    for (Node *node = head; node; node = node->next) {
        *sum += node->value;
        node->value *= 2;
    }
    ++calls;
}

__global__ void square()
{
    squares[threadIdx.x] *= squares[threadIdx.x];
    if (threadIdx.x == 0)
        ++calls;
}

int main()
{
    int can = 0, *sum;
    CHECK(cudaDeviceGetAttribute(&can, cudaDevAttrManagedMemory, 0));
    printf("managed memory %d\n", can);
    Node *head = nullptr;
    for (int i = 1; i <= 10; ++i) {
        Node *node;
        CHECK(cudaMallocManaged(&node, sizeof *node));
        node->value = i;
        node->next = head;
        head = node;
    }
    CHECK(cudaMallocManaged(&sum, sizeof *sum, cudaMemAttachGlobal));
    *sum = 0;
    cudaMemLocation device = {};
    device.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPrefetchAsync(sum, sizeof *sum, device, 0, 0));
    CHECK(cudaMemAdvise(sum, sizeof *sum, cudaMemAdviseSetPreferredLocation, device));
    for (int round = 0; round < 3; ++round) {
        walk<<<1, 1>>>(head, sum);
        CHECK_KERNEL();
        printf("round %d: %d, first %d\n", round, *sum, head->value);
        *sum += 1000;
    }
    for (int i = 0; i < 10; ++i)
        squares[i] = i;
    square<<<1, 10>>>();
    CHECK_KERNEL();
    for (int i = 0; i < 10; ++i)
        printf("%d ", squares[i]);
    printf("calls %d\n", calls);
    while (head) {
        Node *next = head->next;
        CHECK(cudaFree(head));
        head = next;
    }
    CHECK(cudaFree(sum));
    return failures;
}
