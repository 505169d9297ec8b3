package adaptive

import (
	"container/list"
	"crypto/sha256"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"toolhost.dev/sdk/tool"
)

// Limits of the cache.
const (
	maxBytes  = 32 << 20 // total size of all results
	maxResult = 4 << 20
	maxKept   = 1000
	maxFiles  = 32
	maxRead   = 16 << 20 // total size of the input files of one result; Get reads all of them
)

// ResultKey identifies calls with the same result.
type ResultKey struct {
	// Plugin identifies the instance of the plugin.
	Plugin any
	// Call contains the tool, its arguments, the working directory and the roots.
	Call string
}

// Results stores results. The zero value is ready to use. It is safe for concurrent use.
type Results struct {
	mu    sync.Mutex
	by    map[ResultKey]*list.Element
	order list.List // results in the order of their last use, newest first
	bytes int
}

type cachedResult struct {
	key    ResultKey
	result *tool.Result
	bytes  int
}

// Get returns a cached result if the contents of its input files did not change. Otherwise it returns nil. It compares
// contents and not modification times. The function "within" reports whether a file can be read. The caller is allowed
// to modify the returned result.
func (c *Results) Get(key ResultKey, within func(path string) bool) *tool.Result {
	c.mu.Lock()
	at := c.by[key]
	if at == nil {
		c.mu.Unlock()
		return nil
	}
	c.order.MoveToFront(at)
	e := at.Value.(*cachedResult) //nolint:forcetypeassert // nothing else is in it
	c.mu.Unlock()
	for _, f := range e.result.Effects {
		if !within(f.File.Path) || !sameContent(f.File) {
			c.drop(e)
			return nil
		}
	}
	return cloneResult(e.result)
}

// Put adds a result to the cache. It ignores results with an error, results of calls that changed files, and results
// that are too large.
func (c *Results) Put(key ResultKey, r *tool.Result) {
	size := len(r.Output) + len(r.Data) + len(key.Call) + 1024
	for _, a := range r.Attachments {
		size += len(a.Content)
	}
	if !r.Success() || size > maxResult || r.SessionState != nil || r.Cwd != "" || len(r.Effects) > maxFiles {
		return
	}
	var read int64
	for _, f := range r.Effects {
		if read += f.File.Size; f.Operation != tool.OpRead || read > maxRead {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[ResultKey]*list.Element)
	}
	if at := c.by[key]; at != nil {
		c.remove(at)
	}
	c.by[key] = c.order.PushFront(&cachedResult{key, cloneResult(r), size})
	c.bytes += size
	for c.bytes > maxBytes || c.order.Len() > maxKept {
		c.remove(c.order.Back())
	}
}

// Size returns the number of results and their total size in bytes.
func (c *Results) Size() (results, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len(), c.bytes
}

// Clear removes all results.
func (c *Results) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.Init()
	clear(c.by)
	c.bytes = 0
}

func (c *Results) drop(e *cachedResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.by[e.key]; at != nil && at.Value == e {
		c.remove(at)
	}
}

func (c *Results) remove(at *list.Element) {
	e := c.order.Remove(at).(*cachedResult) //nolint:forcetypeassert // nothing else is in it
	delete(c.by, e.key)
	c.bytes -= e.bytes
}

// cloneResult returns a copy of a result. The caller is allowed to modify the metadata of the copy.
func cloneResult(r *tool.Result) *tool.Result {
	out := *r
	out.Metadata = maps.Clone(r.Metadata)
	return &out
}

// sameContent reports whether the content of a file is unchanged. It does not compare modification times,
// because clocks are coarse and a write to a mapped file does not always change the time.
func sameContent(f tool.FileState) bool {
	if target, err := filepath.EvalSymlinks(f.Path); err != nil || target != f.Path {
		return false
	}
	file, err := os.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0) // because of O_NONBLOCK, the open does not wait for the writer of a pipe
	if err != nil {
		return false
	}
	defer file.Close() //nolint:errcheck // only read
	st, err := file.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() != f.Size {
		return false
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(file, f.Size+1))
	return err == nil && n == f.Size && [32]byte(h.Sum(nil)) == f.Hash
}
