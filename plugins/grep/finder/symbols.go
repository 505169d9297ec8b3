package finder

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"toolhost.dev/plugins/grep/definition"
	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/outline"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/plugins/grep/workers"
)

// symbols manages the cached declarations of files.
type symbols struct {
	outliner *outline.Outliner
	source   func() *definition.Source
	asking   atomic.Int64 // number of running queries
	filling  filling

	ctx  context.Context // context of the background work
	end  context.CancelFunc
	mu   sync.Mutex // must be held to start background work
	work sync.WaitGroup
}

const (
	// symbolsShare determines the memory limit for declarations, which is the memory limit of the indexes divided by
	// symbolsShare.
	symbolsShare = 8
	// parsersHeap is the approximate memory of the parsers in bytes.
	parsersHeap = 64 << 20
	// fillTime limits the time for parsing files in the background.
	fillTime = 60 * time.Second
)

func newSymbols(f *finder) *symbols {
	s := &symbols{outliner: outline.New()}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.source = sync.OnceValue(func() *definition.Source {
		return &definition.Source{
			Outliner: s.outliner, Cache: definition.NewCache(f.indexes().Budget(), f.options.Memory/symbolsShare),
		}
	})
	return s
}

func (s *symbols) close() {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.work.Wait()
	s.outliner.Close()
}

// fill starts a background job that parses the remaining files of a tree to make later queries fast. The job pauses
// while queries run.
func (s *symbols) fill(p *place, t *tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || !s.filling.begin(t.at) {
		return
	}
	s.work.Go(func() {
		err := workers.Catch(func() error { return s.parseRest(p, t) })
		if _, ok := errors.AsType[*workers.PanicError](err); err != nil && !ok { // after a panic, another attempt would also panic
			s.filling.again(t.at)
		}
	})
}

// parseRest parses the files of a tree that no query has parsed yet. If it returns an error, the caller can try
// again.
func (s *symbols) parseRest(p *place, t *tree) error {
	ctx, cancel := context.WithTimeout(s.ctx, fillTime)
	defer cancel()
	root, err := p.rootOf()
	if err != nil {
		return err
	}
	defer func() { _ = root.Dir.Close() }()
	whole := &tree{Start: root, at: t.at}
	o := p.options(false, false)
	done := definition.Fill(ctx, s.source(),
		func(do func(*index.Snapshot) error) (bool, error) { return whole.snapshot(o, "", do) }, func() {
			for wait := time.Millisecond; ; wait = 5 * time.Millisecond {
				select {
				case <-ctx.Done():
					return
				case <-time.After(wait):
				}
				if s.asking.Load() == 0 {
					return
				}
			}
		})
	if !done {
		return errNotDone
	}
	return nil
}

var errNotDone = errors.New("some files were not parsed")

// rootOf opens the root that contains a place, as the start of a walk through the whole root. The caller must close the
// directory of the result.
func (p *place) rootOf() (walk.Start, error) {
	root := p.path.Root().Path
	path, err := p.ws.Resolve("/", root)
	if err != nil {
		return walk.Start{}, err
	}
	dir, err := p.ws.OpenDir(path)
	return walk.Start{Dir: dir, Path: path.String(), Shown: root}, err
}

// filling records which trees are already filled, so that no tree is filled twice.
type filling struct {
	mu    sync.Mutex
	trees map[*index.Tree]bool
}

// begin reports whether the caller must fill a tree now. If it returns true, it records the tree as filled.
func (f *filling) begin(t *index.Tree) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.trees == nil {
		f.trees = make(map[*index.Tree]bool)
	}
	if f.trees[t] {
		return false
	}
	const most = 64 // the maximum number of recorded trees; it limits the memory for trees that no longer exist
	if len(f.trees) > most {
		clear(f.trees)
	}
	f.trees[t] = true
	return true
}

// again makes the next query fill the tree again.
func (f *filling) again(t *index.Tree) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.trees, t)
}
