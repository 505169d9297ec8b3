package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"toolhost.dev/sdk/tool"
)

const (
	// maxSiblings is the maximum number of additional processes of one plugin for one owner. A session that uses its
	// temporary directory needs a separate process. All other sessions with the same roots share one process. Sessions
	// with the host's own roots need no additional process.
	maxSiblings = 32
	// maxOwned is the maximum number of additional processes of one plugin for all owners.
	maxOwned = 128
	// idleEnd is the time after the last call at which an additional process ends. Processes that keep something for
	// later calls do not end; see keeps. More processes than the maximum run only while all of them run calls or keep
	// something. Those that keep something end if there are more than patience times the maximum.
	idleEnd  = 5 * time.Minute
	patience = 2
)

// siblings manages the additional processes of a plugin. The accessible directories of a confined process are
// fixed at its start. Therefore sessions with different roots need different processes, and a process for one session
// cannot access the files of another session. Principals with the same roots also have different processes, so that
// their commands cannot reach each other's shells and output.
type siblings struct {
	mu     sync.Mutex
	own    string // identity of the plugin's default roots; empty until computed
	by     map[string]*sibling
	closed bool
	trims  bool           // whether trim runs
	ending sync.WaitGroup // siblings that end without a caller
}

type sibling struct {
	*Plugin
	users int
	used  time.Time
	idle  *time.Timer // calls siblings.endIdle; nil before the first use ended
	kept  time.Time   // the value of used at which the process was asked and kept something
}

// sibling returns a plugin whose process belongs to an owner and is confined to the given roots. The caller
// must call the returned function after the last use of the plugin.
func (p *Plugin) sibling(owner string, roots []tool.Root) (*Plugin, func()) {
	if owner == "" && (p.spec.Host == Host(Alone{}) || len(roots) == 0) {
		return p, func() {}
	}
	want := identify(roots, p.spec.Place.StateDir)
	if owner != "" {
		want = fmt.Sprintf("%q\n%s", owner, want)
	}
	s := &p.siblings
	s.mu.Lock()
	if s.own == "" {
		s.own = identify(p.spec.Roots, p.spec.Place.StateDir)
	}
	if want == s.own || s.closed {
		s.mu.Unlock()
		return p, func() {}
	}
	other := s.by[want]
	if other == nil {
		spec := p.spec
		spec.Roots = roots
		if owner != "" {
			spec.Place = p.spec.Host.Place(owner)
		}
		other = &sibling{Plugin: newPlugin(p.super, spec)}
		if s.by == nil {
			s.by = make(map[string]*sibling)
		}
		s.by[want] = other
	}
	other.users++
	s.trimLater()
	s.mu.Unlock()
	return other.Plugin, func() { s.release(want, other) }
}

// evict ends the process of a sibling that was removed.
func (o *sibling) evict() {
	o.evicted.Store(true)
	o.close(0)
}

// release ends a use of a sibling. There can be too many siblings, because those in use are not evicted. In that case,
// an unused one ends.
func (s *siblings) release(key string, o *sibling) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.users--
	o.used = time.Now()
	if o.users > 0 || s.by[key] != o || s.closed {
		return
	}
	if o.idle == nil {
		o.idle = time.AfterFunc(idleEnd, func() { s.endIdle(key, o) })
	} else {
		o.idle.Reset(idleEnd)
	}
	s.trimLater()
}

// trimLater begins trim if there are too many siblings. The caller must hold s.mu.
func (s *siblings) trimLater() {
	if _, o, _ := s.surplus(); o != nil && !s.trims {
		s.trims = true
		s.ending.Go(s.trim)
	}
}

// trim ends unused siblings until the limits hold. It asks each of them first what it keeps.
func (s *siblings) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.trims = false }()
	for !s.closed {
		key, o, ask := s.surplus()
		if o == nil {
			return
		}
		used := o.used
		s.mu.Unlock()
		kept := ask && o.keeps()
		s.mu.Lock()
		if s.by[key] != o || o.users > 0 || o.used != used {
			continue // it was used meanwhile
		}
		if o.kept = used; !kept {
			delete(s.by, key)
			s.ending.Go(o.evict)
		}
	}
}

// endIdle ends a sibling that was not used for a while and keeps nothing.
func (s *siblings) endIdle(key string, o *sibling) {
	idle := func() bool { return s.by[key] == o && o.users == 0 && time.Since(o.used) >= idleEnd && !s.closed }
	s.mu.Lock()
	ends := idle()
	s.mu.Unlock()
	if !ends {
		return // the end of the last use sets the timer again
	}
	kept := o.keeps()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !idle():
	case kept:
		o.idle.Reset(idleEnd)
	default:
		delete(s.by, key)
		s.ending.Go(o.evict)
	}
}

// keepsTimeout limits the health check of [Plugin.keeps].
const keepsTimeout = 5 * time.Second

// keeps reports whether a later call can need the process. A process is needed if its health report says so; if it
// relays MCP, because clients can have subscriptions; or if it discovers tools, because a mounted server can have a
// state.
func (p *Plugin) keeps() bool {
	in := p.current.Load()
	if in == nil || in.dead() {
		return false
	}
	if in.discovers || slices.Contains(in.desc.Capabilities, tool.CapabilityRelay) {
		return true
	}
	ctx, cancel := context.WithTimeout(p.life, keepsTimeout)
	defer cancel()
	h, running := p.health(ctx, "")
	var details struct {
		Keeps string `json:"keeps"`
	}
	return running && json.Unmarshal(h.Details, &details) == nil && details.Keeps != ""
}

// surplus returns a sibling that should end because there are too many, and its key. A sibling that keeps something
// ends only if there are far too many. The result "ask" means that it must be asked first what it keeps. The caller
// must hold s.mu.
func (s *siblings) surplus() (key string, o *sibling, ask bool) {
	if key = s.oldest(1, func(o *sibling) bool { return o.kept != o.used }); key != "" {
		return key, s.by[key], true
	}
	key = s.oldest(patience, func(*sibling) bool { return true })
	return key, s.by[key], false
}

// oldest returns the key of an unused sibling that may end, if there are more siblings than a multiple of the limits.
// It is the one of the owner with the most siblings that was used least recently. If all owners together do not have
// too many, it belongs to an owner who has. So owners do not end each other's processes.
func (s *siblings) oldest(times int, ends func(*sibling) bool) (oldest string) {
	count := make(map[string]int)
	for _, o := range s.by {
		count[o.spec.Place.Owner]++
	}
	everyone := len(s.by) > times*maxOwned
	for key, o := range s.by {
		n := count[o.spec.Place.Owner]
		if o.users > 0 || !ends(o) || !everyone && n <= times*maxSiblings {
			continue
		}
		if old := s.by[oldest]; old == nil || n > count[old.spec.Place.Owner] ||
			n == count[old.spec.Place.Owner] && o.used.Before(old.used) {
			oldest = key
		}
	}
	return oldest
}

// EndBranch ends the processes of a mounted branch, in all plugins. It returns when the processes have ended. No call
// may use the branch meanwhile.
func (s *Supervisor) EndBranch(key string) {
	s.mu.Lock()
	plugins := slices.Collect(maps.Keys(s.plugins))
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range plugins {
		for _, o := range p.siblings.takeBranch(key) {
			wg.Go(o.evict)
		}
	}
	wg.Wait()
}

// CallBranch calls a tool in each running process of a mounted branch whose plugin has the tool. It starts no process.
func (s *Supervisor) CallBranch(ctx context.Context, key string, call *tool.Call) (out []*tool.Result) {
	s.mu.Lock()
	plugins := slices.Collect(maps.Keys(s.plugins))
	s.mu.Unlock()
	for _, p := range plugins {
		for _, o := range p.siblings.all() {
			in := o.current.Load()
			if in == nil || in.dead() || !ofBranch(o, key) ||
				!slices.ContainsFunc(in.desc.Tools, func(d tool.Definition) bool { return d.Name == call.Tool }) {
				continue
			}
			out = append(out, in.rpc.Call(ctx, call, silentPeer{}))
		}
	}
	return out
}

// ofBranch reports whether a sibling works in a mounted branch.
func ofBranch(o *sibling, key string) bool {
	return slices.ContainsFunc(o.spec.Roots, func(r tool.Root) bool { return r.Branch == key })
}

// silentPeer is the peer of a call that nobody sees.
type silentPeer struct{}

func (silentPeer) Progress(string, map[string]any) {}

func (silentPeer) Output(tool.Stream, []byte) {}

func (silentPeer) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	return tool.Answer{Outcome: tool.NobodyToAsk}, nil
}

func (silentPeer) FileStates(context.Context, ...string) (map[string]tool.FileState, error) {
	return nil, nil
}

// takeBranch removes and returns the siblings of a mounted branch.
func (s *siblings) takeBranch(key string) (out []*sibling) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for want, o := range s.by {
		if ofBranch(o, key) {
			delete(s.by, want)
			out = append(out, o)
		}
	}
	return out
}

func (s *siblings) all() []*sibling {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*sibling
	for _, o := range s.by {
		all = append(all, o)
	}
	return all
}

func (s *siblings) close(grace time.Duration) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, o := range s.all() {
		wg.Go(func() { o.close(grace) })
	}
	wg.Wait()
	s.ending.Wait()
}

// identify returns a text that identifies a set of roots by their inodes. The text changes if a directory
// is removed and created again. It does not contain the plugin's state directory, because the plugin can always access
// this directory.
func identify(roots []tool.Root, stateDir string) string {
	key := make([]byte, 0, 256)
	state := tool.Root{Path: stateDir}
	for _, r := range roots {
		if rel, ok := state.Rel(r.Path); ok && rel != "." {
			continue
		}
		var st syscall.Stat_t
		if info, err := os.Stat(cmp.Or(r.Source, r.Path)); err == nil {
			if sys, ok := info.Sys().(*syscall.Stat_t); ok {
				st = *sys
			}
		}
		for _, text := range []string{r.Path, r.Source, r.Branch} {
			key = append(strconv.AppendQuote(key, text), ' ')
		}
		key = append(strconv.AppendBool(key, r.Writable), ' ')
		key = append(strconv.AppendUint(key, uint64(st.Dev), 10), ' ') //nolint:unconvert // the type depends on the system
		key = append(strconv.AppendUint(key, st.Ino, 10), '\n')
	}
	return string(key)
}
