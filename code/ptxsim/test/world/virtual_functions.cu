// Virtual functions and virtual destructors in device code: shapes made with new in one kernel,
// called in a second and deleted in a third through pointers to their base.
#include "check.h"

__device__ int destroyed[3];

struct Shape {
    __device__ virtual int area() const = 0;
    __device__ virtual const char *name() const
    {
        return "shape";
    }
    __device__ virtual ~Shape()
    {
        atomicAdd(&destroyed[0], 1);
    }
};

struct Square : Shape {
    int side;
    __device__ explicit Square(int s) : side(s)
    {
    }
    __device__ int area() const override
    {
        return side * side;
    }
    __device__ const char *name() const override
    {
        return "square";
    }
    __device__ ~Square() override
    {
        atomicAdd(&destroyed[1], side);
    }
};

struct Box : Square {
    int height;
    __device__ Box(int s, int h) : Square(s), height(h)
    {
    }
    __device__ int area() const override
    {
        return 2 * Square::area() + 4 * side * height;
    }
    __device__ ~Box() override
    {
        atomicAdd(&destroyed[2], height);
    }
};

__global__ void make(Shape **shapes)
{
    int i = threadIdx.x;
    if (i % 2)
        shapes[i] = new Box(i, 3);
    else
        shapes[i] = new Square(i);
}

__global__ void ask(Shape **shapes, int *out)
{
    int i = threadIdx.x;
    out[i] = shapes[i]->area() * 10 + (shapes[i]->name()[1] == 'q');
}

__global__ void discard(Shape **shapes)
{
    delete shapes[threadIdx.x];
}

// No allocation: an object on the thread's own stack, called through a reference.
__global__ void on_the_stack(int *out)
{
    Box box(threadIdx.x, 1);
    const Shape &shape = box;
    out[threadIdx.x] = shape.area();
}

int main()
{
    const int n = 40;
    Shape **shapes = zeros<Shape *>(n);
    int *out = zeros<int>(n), counts[3];
    on_the_stack<<<1, n>>>(out);
    CHECK_KERNEL();
    printf("on the stack: %d\n", to_host(out, n)[n - 1]);
    make<<<1, n>>>(shapes);
    ask<<<1, n>>>(shapes, out);
    CHECK_KERNEL();
    std::vector<int> got = to_host(out, n);
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && got[i] == (i % 2 ? 2 * i * i + 12 * i : i * i) * 10 + 1;
    expect("areas", right);
    discard<<<1, n>>>(shapes);
    CHECK_KERNEL();
    CHECK(cudaMemcpyFromSymbol(counts, destroyed, sizeof counts));
    printf("destroyed %d %d %d\n", counts[0], counts[1], counts[2]);
    return failures;
}
