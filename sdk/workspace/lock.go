package workspace

import (
	"context"
	"slices"
	"sync"
)

// locks holds one lock for each path that is locked or waited for.
type locks struct {
	mu   sync.Mutex
	held map[string]*pathLock
}

type pathLock struct {
	token chan struct{} // contains a value while the lock is held
	users int
}

var (
	// writing contains the locks that make compare-and-replace atomic. They are shared by all workspaces of this
	// process.
	writing = locks{held: make(map[string]*pathLock)}
	// editing contains the locks of [Workspace.Lock]. Callers hold them while they read, change and write a file.
	editing = locks{held: make(map[string]*pathLock)}
)

// Lock locks the paths until the caller calls unlock. It waits while another caller of Lock holds one of the paths, or
// until ctx is canceled. A caller can therefore read, change and write a file without interference.
//
// On Linux, locks also apply between processes whose workspaces use a [Journal] in the same directory. The locks of a
// dead process are released. Operations of the workspace do not need the lock and can be used while it is held.
func (w *Workspace) Lock(ctx context.Context, paths ...Path) (unlock func(), err error) {
	names := make([]string, 0, len(paths))
	for _, p := range paths {
		names = append(names, p.abs)
	}
	slices.Sort(names) // all callers lock in the same order, which prevents deadlocks
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
