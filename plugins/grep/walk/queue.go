package walk

import (
	"context"
	"sync"

	"toolhost.dev/plugins/grep/workers"
)

// queue is the tasks that wait. The last one in is the first one out, so that few
// wait at a time.
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

// pop takes a task. It waits while there is none but a running one may add some, and
// gives nil when all is done.
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

// run does a task and all that come of it. When ctx ends, what waits is dropped, and
// only closed. A panic in do is passed on to the caller when all workers have ended.
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

// drop gives up a task that was not done.
func (t *task) drop() {
	if t.dir.file != nil {
		t.dir.close()
	}
}
