package workspace

import (
	"context"
	"slices"
	"sync"
)

// locks holds a lock for each path in use.
type locks struct {
	mu   sync.Mutex
	held map[string]*pathLock
}

type pathLock struct {
	token chan struct{} // full while held
	users int
}

var (
	// writing makes compare-and-replace one step in this process, whichever workspace it goes through.
	writing = locks{held: make(map[string]*pathLock)}
	// editing is for callers that read, change and write a file; see [Workspace.Lock].
	editing = locks{held: make(map[string]*pathLock)}
)

// Lock excludes other callers of Lock for the paths until unlock is called, so that reading,
// changing and writing a file is one step among them. It excludes callers in this process and, on
// Linux, in other processes whose workspaces use a [Journal] in the same directory. The locks of a
// process that dies are released. Lock waits until ctx ends. Operations of the workspace do not
// need the lock and may be used while it is held.
func (w *Workspace) Lock(ctx context.Context, paths ...Path) (unlock func(), err error) {
	names := make([]string, 0, len(paths))
	for _, p := range paths {
		names = append(names, p.abs)
	}
	slices.Sort(names) // a common order prevents deadlocks
	names = slices.Compact(names)
	var held []func()
	unlock = func() {
		for _, u := range slices.Backward(held) {
			u()
		}
		held = nil
	}
	for _, name := range names {
		u, err := editing.lock(ctx, name)
		if err != nil {
			unlock()
			return nil, err
		}
		held = append(held, u)
		u, err = w.journal.Lock(ctx, name)
		if err != nil {
			unlock()
			return nil, err
		}
		held = append(held, u)
	}
	return unlock, nil
}

func (l *locks) lock(ctx context.Context, name string) (unlock func(), err error) {
	l.mu.Lock()
	p := l.held[name]
	if p == nil {
		p = &pathLock{token: make(chan struct{}, 1)}
		l.held[name] = p
	}
	p.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if p.users--; p.users == 0 {
			delete(l.held, name)
		}
	}
	if err := ctx.Err(); err != nil {
		leave()
		return nil, err
	}
	select {
	case p.token <- struct{}{}:
		return func() { <-p.token; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
