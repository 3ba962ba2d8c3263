/* A stub of NVIDIA's libraries libnvidia-ml.so.1 and libcuda.so.1 with the real C ABI.

   The machine that it plays stands in the text file named by the environment variable NVML_STUB, which is read at every
   call, so that a test changes the machine by writing the file again. tests/support/nvml_stub.py writes it and documents
   its keys. Without the variable, or without the file, there is no driver.

   Structures and numbers are those of nvml.h and cuda.h (CUDA 13). */

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, LIBRARY_NOT_FOUND = 12, GPU_IS_LOST = 15, UNKNOWN = 999
};


typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} pci_t;
typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} process_t;

/* A handle is a pointer to nothing: 1 + card * 16 + (0 for the card, 1 + number for an instance of it). */
typedef void *device_t;

static int opened = 0;

static device_t handle_of(int card, int part) { return (device_t)(intptr_t)(1 + card * 16 + part); }
static int card_of(device_t handle) { return ((int)(intptr_t)handle - 1) / 16; }
static int part_of(device_t handle) { return ((int)(intptr_t)handle - 1) % 16; }

/* Copy the value of a key of the file; 0 where it is not there. */
static int value_of(const char *key, char *value, size_t size) {
    const char *path = getenv("NVML_STUB");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return 0;
    char line[4096];
    int found = 0;
    size_t length = strlen(key);
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, key, length) && line[length] == '=') {
            snprintf(value, size, "%s", line + length + 1);
            found = 1;
        }
    }
    fclose(file);
    return found;
}

/* Copy a value of a device: keys are card.FIELD, and card.part.FIELD for an instance. The value "!4" is error 4. */
static int text_field(device_t handle, const char *name, char *value, size_t size) {
    char key[128];
    if (part_of(handle)) snprintf(key, sizeof key, "%d.%d.%s", card_of(handle), part_of(handle) - 1, name);
    else snprintf(key, sizeof key, "%d.%s", card_of(handle), name);
    if (!opened) return UNINITIALIZED;
    if (!value_of(key, value, size)) return NOT_SUPPORTED;
    return value[0] == '!' ? atoi(value + 1) : SUCCESS;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* A number that may change by itself: "5" stays; "steps START_S EDGE_MS PER_EDGE BASE" grows at edges of the monotonic
   clock; "each 3,4,5" gives one after the other, the last for ever, counted in the file beside it. */
static int number_field(device_t handle, const char *name, unsigned long long *number) {
    char value[2048], path[4096];
    double start, edge_ms, per_edge, base;
    int status = text_field(handle, name, value, sizeof value);
    if (status) return status;
    if (sscanf(value, "steps %lf %lf %lf %lf", &start, &edge_ms, &per_edge, &base) == 4) {
        *number = (unsigned long long)(base + per_edge * (long long)((seconds() - start) * 1000 / edge_ms));
        return SUCCESS;
    }
    if (!strncmp(value, "each ", 5)) {
        snprintf(path, sizeof path, "%s.%d.%d.%s", getenv("NVML_STUB"), card_of(handle), part_of(handle), name);
        FILE *count = fopen(path, "a+");
        if (!count) return UNKNOWN;
        fseek(count, 0, SEEK_END);
        long calls = ftell(count);
        fputc('.', count);
        fclose(count);
        char *left = value + 5;
        while (calls-- > 0 && strchr(left, ',')) left = strchr(left, ',') + 1;
        *number = strtoull(left, NULL, 10);
        return SUCCESS;
    }
    *number = strtoull(value, NULL, 10);
    return SUCCESS;
}

static int small_number(device_t handle, const char *name, unsigned int *number) {
    unsigned long long value = 0;
    int status = number_field(handle, name, &value);
    if (!status) *number = (unsigned int)value;
    return status;
}

static int count_cards(void) {
    char value[32];
    return value_of("cards", value, sizeof value) ? atoi(value) : -1;
}

const char *nvmlErrorString(int status) { (void)status; return "an error of the stub"; }
int nvmlInitWithFlags(unsigned int flags) {
    char refusal[32];
    (void)flags;
    if (count_cards() < 0) return DRIVER_NOT_LOADED;
    if (value_of("nvml", refusal, sizeof refusal)) return atoi(refusal);
    opened++;
    return SUCCESS;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { if (!opened) return UNINITIALIZED; opened--; return SUCCESS; }

int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    char value[128];
    if (!opened) return UNINITIALIZED;
    if (!value_of("driver", value, sizeof value)) return UNKNOWN;
    snprintf(version, length, "%s", value);
    return SUCCESS;
}

/* It is that of libcuda.so.1: 1000 times the major version plus ten times the minor. */
int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    char value[32];
    if (!opened) return UNINITIALIZED;
    if (!value_of("cuda_version", value, sizeof value)) return LIBRARY_NOT_FOUND;
    *version = atoi(value);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count) { if (!opened) return UNINITIALIZED; *count = count_cards(); return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t *handle) {
    char lost[32];
    if (!opened) return UNINITIALIZED;
    if ((int)index >= count_cards()) return INVALID_ARGUMENT;
    if (!text_field(handle_of(index, 0), "lost", lost, sizeof lost)) return GPU_IS_LOST;
    *handle = handle_of(index, 0);
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *handle) {
    char value[128];
    if (!opened) return UNINITIALIZED;
    for (int card = 0; card < count_cards(); card++)
        for (int part = 0; part < 16; part++)
            if (!text_field(handle_of(card, part), "uuid", value, sizeof value) && !strcmp(value, uuid)) {
                *handle = handle_of(card, part);
                return SUCCESS;
            }
    return NOT_FOUND;
}

static int copied(device_t handle, const char *name, char *target, unsigned int length) {
    char value[256];
    int status = text_field(handle, name, value, sizeof value);
    if (status) return status;
    if (strlen(value) >= length) return INSUFFICIENT_SIZE;
    strcpy(target, value);
    return SUCCESS;
}

int nvmlDeviceGetName(device_t handle, char *name, unsigned int length) { return copied(handle, "name", name, length); }
int nvmlDeviceGetUUID(device_t handle, char *uuid, unsigned int length) { return copied(handle, "uuid", uuid, length); }

int nvmlDeviceGetPciInfo_v3(device_t handle, pci_t *pci) {
    memset(pci, 0, sizeof *pci);
    int status = copied(handle, "pci", pci->busId, sizeof pci->busId);
    if (status) return status;
    if (sscanf(pci->busId, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3) return UNKNOWN;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0xff);
    return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *place, device_t *handle) {
    char value[64];
    if (!opened) return UNINITIALIZED;
    for (int card = 0; card < count_cards(); card++)
        if (!text_field(handle_of(card, 0), "pci", value, sizeof value) && !strcasecmp(value, place)) {
            *handle = handle_of(card, 0);
            return SUCCESS;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetCudaComputeCapability(device_t handle, int *major, int *minor) {
    char value[32];
    int status = text_field(handle, "capability", value, sizeof value);
    if (status) return status;
    return sscanf(value, "%d.%d", major, minor) == 2 ? SUCCESS : UNKNOWN;
}

int nvmlDeviceGetMemoryInfo(device_t handle, memory_t *memory) {
    int status = number_field(handle, "memory_total", &memory->total);
    if (!status) status = number_field(handle, "memory_used", &memory->used);
    if (!status) memory->free = memory->total - memory->used;
    return status;
}

int nvmlDeviceGetMemoryInfo_v2(device_t handle, memory_v2_t *memory) {
    memory_t plain;
    int status = nvmlDeviceGetMemoryInfo(handle, &plain);
    if (status) return status;
    memory->total = plain.total;
    memory->used = plain.used;
    memory->free = plain.free;
    memory->reserved = 0;
    return SUCCESS;
}

/* Types of clocks: 0 graphics, 1 SM, 2 memory, 3 video. */
int nvmlDeviceGetClockInfo(device_t handle, unsigned int type, unsigned int *mhz) {
    return small_number(handle, type == 2 ? "memory_mhz" : "sm_mhz", mhz);
}

int nvmlDeviceGetMaxClockInfo(device_t handle, unsigned int type, unsigned int *mhz) {
    return small_number(handle, type == 2 ? "max_memory_mhz" : "max_sm_mhz", mhz);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device_t handle, unsigned long long *mask) { return number_field(handle, "throttle", mask); }
int nvmlDeviceGetCurrentClocksEventReasons(device_t handle, unsigned long long *mask) { return number_field(handle, "throttle", mask); }
int nvmlDeviceGetTotalEnergyConsumption(device_t handle, unsigned long long *mj) { return number_field(handle, "energy_mj", mj); }
int nvmlDeviceGetPowerUsage(device_t handle, unsigned int *mw) { return small_number(handle, "power_mw", mw); }
int nvmlDeviceGetTemperature(device_t handle, unsigned int sensor, unsigned int *celsius) { (void)sensor; return small_number(handle, "celsius", celsius); }

/* "PID:BYTES,PID:BYTES"; the PID "self" is the process that asks, and BYTES "?" are not available. */
static int listed(device_t handle, const char *name, unsigned int *count, process_t *processes) {
    char value[2048];
    unsigned int size = *count, found = 0;
    int status = text_field(handle, name, value, sizeof value);
    if (status) return status;
    for (char *left = value; *left;) {
        char *bytes = strchr(left, ':');
        if (!bytes) return UNKNOWN;
        if (processes && found < size) {
            processes[found].pid = strncmp(left, "self", 4) ? (unsigned int)strtoul(left, NULL, 10) : (unsigned int)getpid();
            processes[found].usedGpuMemory = bytes[1] == '?' ? ~0ULL : strtoull(bytes + 1, NULL, 10);
            processes[found].gpuInstanceId = processes[found].computeInstanceId = ~0U;
        }
        found++;
        left = strchr(left, ',');
        if (!left) break;
        left++;
    }
    *count = found;
    return found > size ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(device_t handle, unsigned int *count, process_t *processes) {
    return listed(handle, "processes", count, processes);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(device_t handle, unsigned int *count, process_t *processes) {
    return listed(handle, "mps_processes", count, processes);
}

int nvmlDeviceGetMigMode(device_t handle, unsigned int *current, unsigned int *pending) {
    int status = small_number(handle, "mig", current);
    if (!status) *pending = *current;
    return status;
}

int nvmlDeviceGetMaxMigDeviceCount(device_t handle, unsigned int *count) {
    unsigned int mode;
    *count = small_number(handle, "mig", &mode) ? 0 : 7;
    return opened ? SUCCESS : UNINITIALIZED;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device_t handle, unsigned int index, device_t *part) {
    char value[128];
    if (index >= 7) return INVALID_ARGUMENT;
    if (text_field(handle_of(card_of(handle), 1 + (int)index), "uuid", value, sizeof value)) return NOT_FOUND;
    *part = handle_of(card_of(handle), 1 + (int)index);
    return SUCCESS;
}

int nvmlDeviceIsMigDeviceHandle(device_t handle, unsigned int *is_part) { *is_part = part_of(handle) > 0; return SUCCESS; }

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device_t part, device_t *handle) {
    if (!part_of(part)) return INVALID_ARGUMENT;
    *handle = handle_of(card_of(part), 0);
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(device_t handle, unsigned int *number) { return small_number(handle, "gpu_instance", number); }
int nvmlDeviceGetComputeInstanceId(device_t handle, unsigned int *number) { return small_number(handle, "compute_instance", number); }

/* The part of the driver's library that numbers devices. It shows those whose UUIDs stand under "cuda", or those that
   CUDA_VISIBLE_DEVICES names: by a number in that list, or by how the UUID of one device of the machine begins; up to
   the first name that fits none or several. */

/* Copy the entry of a list with this number, or the only one that begins with this text; 0 where there is none. */
static int entry_of(const char *list, const char *name, char *entry) {
    char copy[2048], *left = copy, *word;
    int number = isdigit((unsigned char)*name) ? atoi(name) : -1, place = 0, fitting = 0;
    snprintf(copy, sizeof copy, "%s", list);
    while ((word = strsep(&left, ","))) {
        if (number >= 0 ? place == number : !strncmp(word, name, strlen(name))) {
            snprintf(entry, 64, "%s", word);
            fitting++;
        }
        place++;
    }
    return fitting == 1;
}

static int cuda_text(char *value, size_t size) {
    char *visible = getenv("CUDA_VISIBLE_DEVICES"), names[2048], all[2048] = "", shown[2048] = "", entry[64];
    if (!value_of("cuda", value, size)) return 0;
    if (!visible || value[0] == '!') return 1;
    value_of("devices", all, sizeof all);
    snprintf(names, sizeof names, "%s", visible);
    char *left = names, *name;
    while ((name = strsep(&left, ",")) && *name) {
        if (!entry_of(isdigit((unsigned char)*name) ? value : all, name, entry)) break;
        size_t length = strlen(shown);
        snprintf(shown + length, sizeof shown - length, "%s%s", length ? "," : "", entry);
    }
    snprintf(value, size, "%s", shown);
    return 1;
}

static int started = 0;

/* Each call leaves a mark in the file FILE.cuda, by which a test counts them. */
int cuInit(unsigned int flags) {
    char value[2048], path[4096];
    (void)flags;
    snprintf(path, sizeof path, "%s.cuda", getenv("NVML_STUB") ? getenv("NVML_STUB") : "");
    FILE *count = fopen(path, "a");
    if (count) { fputc('.', count); fclose(count); }
    if (!cuda_text(value, sizeof value) || !value[0]) return 100;
    if (value[0] == '!') return atoi(value + 1);
    started = 1;
    return 0;
}

/* It can be asked before cuInit. */
int cuDriverGetVersion(int *version) {
    char value[32];
    *version = value_of("cuda_version", value, sizeof value) ? atoi(value) : 0;
    return 0;
}

int cuDeviceGetCount(int *count) {
    char value[2048];
    *count = 0;
    if (!started) return 3;
    if (!cuda_text(value, sizeof value)) return 100;
    for (char *left = value; left && *left; left = strchr(left, ',') ? strchr(left, ',') + 1 : NULL) ++*count;
    return 0;
}

int cuDeviceGet(int *device, int number) {
    int count;
    cuDeviceGetCount(&count);
    if (number < 0 || number >= count) return 101;
    *device = number;
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    char value[2048];
    if (!cuda_text(value, sizeof value)) return 100;
    char *left = value;
    while (device-- > 0 && strchr(left, ',')) left = strchr(left, ',') + 1;
    left += 4; /* "GPU-" or "MIG-" */
    for (int byte = 0; byte < 16; left++) {
        unsigned int digits;
        if (*left == '-') continue;
        if (!isxdigit((unsigned char)*left) || sscanf(left, "%2x", &digits) != 1) return 1;
        uuid[byte++] = (unsigned char)digits;
        left++;
    }
    return 0;
}

/* NVML and CUDA may have different names and UUIDs for one card, as on a Jetson: these are CUDA's. */
int cuDeviceGetName(char *name, int length, int device) {
    char value[256] = "";
    (void)device;
    value_of("cuda_name", value, sizeof value);
    snprintf(name, (size_t)length, "%s", value);
    return 0;
}

/* Attributes 75 and 76 are the two parts of the compute capability. */
int cuDeviceGetAttribute(int *number, int attribute, int device) {
    char value[32] = "";
    int parts[2] = {0, 0};
    (void)device;
    value_of("cuda_capability", value, sizeof value);
    if (sscanf(value, "%d.%d", &parts[0], &parts[1]) != 2) return 1;
    *number = parts[attribute == 76];
    return 0;
}
