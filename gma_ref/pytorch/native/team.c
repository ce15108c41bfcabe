/* The threads that take the tasks of a step. Those of PyTorch, if they can be had, which wait in a loop for a while
   after each operation: others beside them would get half of the processor. */

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

enum { MOST = 256 };

typedef int Task(const void *call, int64_t task);

typedef struct {
    Task *step;
    const void *call;
    int64_t next, tasks;
    int returned; /* what the tasks returned, as bits */
} Team;

static void work(void *of)
{
    Team *team = of;
    int64_t task;
    while ((task = __atomic_fetch_add(&team->next, 1, __ATOMIC_RELAXED)) < team->tasks)
        __atomic_fetch_or(&team->returned, team->step(team->call, task), __ATOMIC_RELAXED);
}

static void *work_alone(void *of)
{
    work(of);
    return NULL;
}

/* Run the tasks 0, 1, ... of a step by so many threads, each taking the next that is left. */
int gma_run(Task *step, const void *call, int64_t tasks, int threads)
{
    /* OpenMP's function that runs another in all threads, of the library that PyTorch has loaded */
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned) = dlsym(RTLD_DEFAULT, "GOMP_parallel");
    Team team = {.step = step, .call = call, .tasks = tasks};
    pthread_t helpers[MOST];
    int helping = 0;
    if (threads > 1 && parallel)
        parallel(work, &team, threads, 0);
    else {
        while (helping < threads - 1 && helping < MOST && !pthread_create(helpers + helping, NULL, work_alone, &team))
            helping++;
        work(&team);
        while (helping) pthread_join(helpers[--helping], NULL);
    }
    return team.returned;
}
