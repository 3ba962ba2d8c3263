/* A library of custom operators for ONNX Runtime, by its C interface: test.custom's Twice doubles float32.

   OrtApi is a table of functions whose places never change (onnxruntime_c_api.h); those used here are as old as its
   first version. Where the environment names a file under LOADED_BY, each process that loads the library writes its
   number there, as the static registration of a plugin of TensorRT would run. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef void *(*function_t)();
typedef struct { const function_t *(*get_api)(uint32_t version); const char *(*get_version)(void); } api_base_t;

enum {
    CREATE_DOMAIN = 26, ADD_OPERATOR = 27, ADD_DOMAIN = 28, GET_DATA = 51, GET_RANK = 61, GET_SIZES = 62, GET_COUNT = 64,
    GET_SHAPE = 65, GET_INPUT = 90, GET_OUTPUT = 91, RELEASE_SHAPE = 99
};
enum { API_VERSION = 8, FLOAT = 1, REQUIRED = 0, MOST_AXES = 8 };

static const function_t *api;

/* OrtCustomOp of that version. */
typedef struct operator_t {
    uint32_t version;
    void *(*create_kernel)(const struct operator_t *, const void *, const void *);
    const char *(*name)(const struct operator_t *);
    const char *(*provider)(const struct operator_t *);
    int (*input_type)(const struct operator_t *, size_t);
    size_t (*input_count)(const struct operator_t *);
    int (*output_type)(const struct operator_t *, size_t);
    size_t (*output_count)(const struct operator_t *);
    void (*compute)(void *, void *);
    void (*destroy_kernel)(void *);
    int (*input_kind)(const struct operator_t *, size_t);
    int (*output_kind)(const struct operator_t *, size_t);
} operator_t;

static void *create_kernel(const operator_t *op, const void *a, const void *info) { (void)op; (void)a; (void)info; return &api; }
static void destroy_kernel(void *kernel) { (void)kernel; }
static const char *name(const operator_t *op) { (void)op; return "Twice"; }
static const char *on_cpu(const operator_t *op) { (void)op; return NULL; }
static int float_type(const operator_t *op, size_t place) { (void)op; (void)place; return FLOAT; }
static int required(const operator_t *op, size_t place) { (void)op; (void)place; return REQUIRED; }
static size_t one(const operator_t *op) { (void)op; return 1; }

static void compute(void *kernel, void *context) {
    const void *input;
    void *output, *shape;
    const float *from;
    float *to;
    size_t rank, count;
    int64_t sizes[MOST_AXES];
    (void)kernel;
    api[GET_INPUT](context, (size_t)0, &input);
    api[GET_SHAPE](input, &shape);
    api[GET_RANK](shape, &rank);
    api[GET_SIZES](shape, sizes, rank);
    api[GET_COUNT](shape, &count);
    api[RELEASE_SHAPE](shape);
    api[GET_OUTPUT](context, (size_t)0, sizes, rank, &output);
    api[GET_DATA](input, &from);
    api[GET_DATA](output, &to);
    for (size_t place = 0; place < count; place++) to[place] = 2 * from[place];
}

static operator_t twice = {
    API_VERSION, create_kernel, name, on_cpu, float_type, one, float_type, one, compute, destroy_kernel, required, required
};

void *RegisterCustomOps(void *options, const api_base_t *base) {
    void *domain, *refused;
    api = base->get_api(API_VERSION);
    if ((refused = api[CREATE_DOMAIN]("test.custom", &domain))) return refused;
    if ((refused = api[ADD_OPERATOR](domain, &twice))) return refused;
    return api[ADD_DOMAIN](options, domain);
}

__attribute__((constructor)) static void loaded(void) {
    const char *path = getenv("LOADED_BY");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
}
