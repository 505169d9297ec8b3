package walk

import (
	"context"
	"sync"

	"toolhost.dev/plugins/grep/workers"
)

// queue contains the waiting tasks. The newest task runs first, which keeps the number of waiting tasks small.
type queue struct {
	mu      sync.Mutex
	more    *sync.Cond
	tasks   []*task
	running int
}

func (q *queue) push(tasks []*task) {
	if len(tasks) == 0 {
		return
	}
	q.mu.Lock()
	q.tasks = append(q.tasks, tasks...)
	q.mu.Unlock()
	q.more.Broadcast()
}

// pop removes a task from the queue and returns it. If the queue is empty, pop waits, because running tasks can add
// more tasks. It returns nil when all tasks are done.
func (q *queue) pop() *task {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.tasks) == 0 && q.running > 0 {
		q.more.Wait()
	}
	if len(q.tasks) == 0 {
		return nil
	}
	t := q.tasks[len(q.tasks)-1]
	q.tasks = q.tasks[:len(q.tasks)-1]
	q.running++
	return t
}

func (q *queue) done() {
	q.mu.Lock()
	q.running--
	idle := q.running == 0
	q.mu.Unlock()
	if idle {
		q.more.Broadcast()
	}
}

// run executes the first task and all tasks that are added later. If ctx ends, the waiting tasks are closed without
// being executed. If the function "do" panics, run panics after all workers have ended.
func (q *queue) run(ctx context.Context, n int, first *task, do func(ctx context.Context, worker int, t *task)) {
	q.more = sync.NewCond(&q.mu)
	q.tasks = []*task{first}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	one := func(worker int, t *task) error {
		defer q.done()
		return workers.Catch(func() error {
			if ctx.Err() == nil {
				do(ctx, worker, t)
			} else {
				t.drop()
			}
			return nil
		})
	}
	workers.Run(n, func(worker int) {
		var failed error
		for t := q.pop(); t != nil; t = q.pop() {
			if err := one(worker, t); err != nil {
				failed = err
				stop()
			}
		}
		if failed != nil {
			panic(failed)
		}
	})
}

// drop releases the resources of a task that was not executed.
func (t *task) drop() {
	if t.dir.file != nil {
		t.dir.close()
	}
}
