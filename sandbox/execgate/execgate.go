// Package execgate judges the programs that confined plugins execute. As in package sandbox, a plugin is the program
// that is confined, and the host the program that started it. A call is a piece of a plugin's work to which executions
// belong.
//
// The launcher of a plugin installs a filter that stops every execve. It passes the listener of the filter to the host.
// [Gate.Serve] reads the execution that a stopped process requests and attributes the execution to a call. Then it lets
// the execution continue or fail. A call registers with [Gate.Begin]. [Call.End] returns the programs that the call
// executed.
//
// The package reads the memory of other processes. A process with several threads can change its arguments after the
// package has read them. The kernel's restrictions on executable files do not depend on the gate.
package execgate

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// These are the effects of a verdict.
const (
	Allow = "allow"
	Ask   = "ask"
	Deny  = "deny"
)

// Execution describes a program that a process is about to execute.
type Execution struct {
	// Path is the path of the program's file in the sandbox, with all symbolic links resolved.
	Path string
	// Asked is the path that the process passed to the kernel. If the process executes an open file, Asked equals Path.
	Asked string
	// Argv contains the arguments. The first argument is the name of the program.
	Argv []string
	// Interpreter is the program that the kernel executes for a script. It is nil if the program is not a script.
	Interpreter *Execution
	// Fingerprint identifies the content of the program; see package fingerprint. It is empty if the file is not a
	// program.
	Fingerprint string
	// Dir is the working directory of the process.
	Dir string
	// Device and Inode identify the program's file.
	Device, Inode uint64
	// Ancestors contains the programs that the process and its parents executed earlier, the nearest first.
	Ancestors []*Execution
	// Preloads lists the environment variables that make the dynamic linker load other code.
	Preloads []string
	// Before is the file that the process executed before this program. It is set only if the program is git.
	Before string
	// BeforeArgs contains the arguments of Before. It is set only if the program is git. The last arguments can be
	// missing.
	BeforeArgs []string
	// GitSettings reports that the program is git and that a variable of the environment changes the settings of git.
	GitSettings bool
	// WorkTree is the value of GIT_WORK_TREE, and GitDir reports whether GIT_DIR is set. Both are set only if the
	// program is git.
	WorkTree string
	GitDir   bool
	// PID is the id of the process in the process namespace of the host.
	PID int
	// Files resolves paths as the process does. It is valid in [Judge.Judge], but not in [Judge.Ask].
	Files Files

	thread int // id of the thread that executes the program
}

// Files is the file system as a process sees it. All paths are absolute. It has the methods of policy.Files.
type Files interface {
	Follow(path string) (string, error)
	Lstat(path string) (device, inode uint64, dir bool, err error)
	Names(dir string, limit int) ([]string, error)
	Born(path string) time.Time
	Fingerprint(path string) string
}

// Verdict is the decision on an execution.
type Verdict struct {
	Effect string
	// Rule is the rule that determined the verdict. Reason explains a denial to a person or a model.
	Rule, Reason string
	// Loads is the file of the program that a dynamic linker loads.
	Loads string
	// Answered is the outcome of a permission request.
	Answered string
	// Pending is data that the judge needs when it asks a person about the execution. The gate does not record this
	// data.
	Pending any
}

// Judge decides on the executions of one call, or of a plugin outside of its calls. Several goroutines call it
// concurrently.
type Judge interface {
	// Judge decides without waiting for a person.
	Judge(e *Execution) Verdict
	// Ask asks a person about an execution with the verdict Ask. It returns at the latest when ctx ends.
	Ask(ctx context.Context, e *Execution, v Verdict) Verdict
}

// maxPrograms is the maximum number of programs in a record. A record can contain maxRefused further programs that were
// denied. All other programs are only counted.
const (
	maxPrograms = 100
	maxRefused  = 100
)

// maxArgv is the maximum length of a recorded command line, in bytes.
const maxArgv = 4 << 10

// Program is an executed program in a record.
type Program struct {
	Path string
	// Command is the command line, quoted for a shell. It can contain secrets.
	Command string
	Verdict Verdict
	// Times is the number of executions with the same command line and verdict.
	Times int

	argv []string
}

// Record lists the programs that a call executed.
type Record struct {
	// Count is the number of executions. Denied is the number of denied executions among them.
	Count, Denied int
	// First contains the first programs with different command lines, and further denied programs.
	First []Program
	// Omitted is the number of executions that First does not contain. OmittedDenied is the number of denied executions
	// among them.
	Omitted, OmittedDenied int

	refused int // number of denied programs in First beyond maxPrograms
}

func (r *Record) add(e *Execution, v *Verdict) {
	r.Count++
	if v.Effect == Deny {
		r.Denied++
	}
	argv := shorten(e.Argv)
	for i := range r.First {
		if p := &r.First[i]; p.Path == e.Path && p.Verdict == *v && slices.Equal(p.argv, argv) {
			p.Times++
			return
		}
	}
	full := len(r.First) >= maxPrograms
	switch {
	case full && v.Effect == Deny && r.refused < maxRefused:
		r.refused++
	case full:
		r.Omitted++
		if v.Effect == Deny {
			r.OmittedDenied++
		}
		return
	}
	r.First = append(r.First, Program{Path: e.Path, Verdict: *v, Times: 1, argv: argv})
}

// shorten returns a command line of at most maxArgv bytes. It copies the text, so that a record does not keep a large
// command line in memory.
func shorten(argv []string) []string {
	size := 0
	for i, a := range argv {
		if size += len(a); size > maxArgv {
			out := slices.Clone(argv[:i+1])
			out[i] = strings.Clone(a[:len(a)-(size-maxArgv)]) + "…"
			return out
		}
	}
	return argv
}

// finish sets the command lines of the programs. It must be called once, after the last addition.
func (r *Record) finish() *Record {
	if r.Count == 0 {
		return nil
	}
	for i := range r.First {
		r.First[i].Command = quote(r.First[i].argv)
	}
	return r
}

// Gate contains the running calls and judges the programs that they execute. The zero value is ready to use. Gate is
// safe for concurrent use.
type Gate struct {
	Log *slog.Logger
	// Stray receives the programs that a plugin executed outside of calls. It can be nil.
	Stray func(plugin string, r *Record)

	mu      sync.Mutex
	calls   map[string]*Call   // calls by token
	running map[string][]*Call // calls by key of the plugin process
	last    map[string]Judge   // judge of the last call, by key of the plugin process
}

// Call is a running call whose programs are recorded.
type Call struct {
	gate       *Gate
	token, key string
	judge      Judge
	ctx        context.Context //nolint:containedctx // context of the call; its end also ends open permission requests
	cancel     context.CancelFunc
	over       chan struct{} // closed when the call has ended

	mu     sync.Mutex
	record Record
	denied []string
	ended  bool
}

// Begin registers a call. The argument "key" identifies the process of the plugin. The argument "token" is the token in
// the environment of the call's commands; it can be empty. A nil judge allows every program.
func (g *Gate) Begin(ctx context.Context, key, token string, judge Judge) *Call {
	c := &Call{gate: g, token: token, key: key, judge: judge, over: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls == nil {
		g.calls, g.running, g.last = make(map[string]*Call), make(map[string][]*Call), make(map[string]Judge)
	}
	g.last[key] = judge
	if token != "" {
		g.calls[token] = c
	}
	g.running[key] = append(g.running[key], c)
	return c
}

// End ends a call and its open permission requests. It returns the record of the programs that the call executed, and
// the messages about denied programs. The record is nil if the call executed no program.
func (c *Call) End() (*Record, []string) {
	c.cancel()
	g := c.gate
	g.mu.Lock()
	delete(g.calls, c.token)
	if rest := slices.DeleteFunc(g.running[c.key], func(o *Call) bool { return o == c }); len(rest) > 0 {
		g.running[c.key] = rest
	} else {
		delete(g.running, c.key)
	}
	g.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.ended = true
		close(c.over)
	}
	return c.record.finish(), c.denied
}

// maxDenials is the maximum number of different messages about denied programs in one call.
const maxDenials = 20

// add records an execution. It returns false if the call has ended.
func (c *Call) add(e *Execution, v *Verdict) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.record.add(e, v)
	if v.Effect == Deny && v.Reason != "" && len(c.denied) < maxDenials && !slices.Contains(c.denied, v.Reason) {
		c.denied = append(c.denied, v.Reason)
	}
	return true
}

// byToken returns the running call with a token. The call must belong to the process with the given key.
func (g *Gate) byToken(token, key string) *Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[token]; c != nil && c.key == key {
		return c
	}
	return nil
}

// judgeOutside returns the judge for programs that belong to no call. The result is the judge of the last call in the
// plugin process, because only commands of calls leave processes behind.
func (g *Gate) judgeOutside(key string) Judge {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last[key]
}

// forget removes the data about a plugin process that has ended.
func (g *Gate) forget(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.running[key]) == 0 {
		delete(g.last, key)
	}
}

// single returns the only call that runs in a plugin process. It returns nil if no call or several calls
// run.
func (g *Gate) single(key string) *Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	if calls := g.running[key]; len(calls) == 1 {
		return calls[0]
	}
	return nil
}

// strayInterval is the minimum time between two reports of programs that a plugin executed outside of calls.
const strayInterval = time.Minute

// strays records the programs that a plugin executed outside of calls.
type strays struct {
	mu       sync.Mutex
	record   Record
	reported time.Time
}

// add records an execution. It reports the record at most once per strayInterval.
func (s *strays) add(g *Gate, plugin string, e *Execution, v *Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.add(e, v)
	if time.Since(s.reported) >= strayInterval {
		s.report(g, plugin)
	}
}

// flush reports the executions that were not yet reported.
func (s *strays) flush(g *Gate, plugin string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report(g, plugin)
}

func (s *strays) report(g *Gate, plugin string) {
	r := s.record
	s.record, s.reported = Record{}, time.Now()
	if r.finish() != nil && g.Stray != nil {
		g.Stray(plugin, &r)
	}
}
