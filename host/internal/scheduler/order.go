package scheduler

import (
	"time"

	"toolhost.dev/sdk/tool"
)

// Kind classifies calls by what they can change and what they depend on.
type Kind int

// The kinds of calls.
const (
	// Alone is a call of unknown effect. Only calls of kind Free run at the same time.
	Alone Kind = iota
	// Free is a call that does not depend on the session or change it. Examples are jobs, questions to a person, and
	// tools of mounted servers.
	Free
	// Read is a call of a read-only tool.
	Read
	// Edit is a call that changes only the files in its arguments: edit, write and undo.
	Edit
	// Shell is a command in the session's shell. It can change any file.
	Shell
)

// Claim describes one call for [Why].
type Claim struct {
	Kind Kind
	// InOrder is set for calls of a batch, except for those that control other calls. Such a call runs alone. But if
	// Safe is also set, the call runs at the same time as other safe calls.
	InOrder, Safe bool
	// StartsJob means that a command can continue as a job. If it belongs to a batch, free calls wait for it, because
	// they can be about the job.
	StartsJob bool
	// Paths contains the absolute paths in the arguments of the call. For a shell command, Paths contains the targets
	// of redirects. Anywhere means that the call can use any path.
	Paths    []string
	Anywhere bool
	// UsesDir means that the call depends on the working directory of the session.
	UsesDir bool
	// Moves means that a shell command can change the working directory or the variables of the session.
	Moves bool
	// ID is the id of the call, for [Scheduler.Calls]. It can be empty.
	ID string
	// Label returns a short text that names the call, such as "bash: npm test". It can be nil.
	Label func() string
}

// changes reports whether the call can change the session.
func (c *Claim) changes() bool { return c.Kind != Read && c.Kind != Free }

// DefaultPatience limits the time for which a read-only call waits for a command that can change the working directory.
const DefaultPatience = 5 * time.Second

// Reason is the reason why a call waits for an earlier call. The zero value means that the call does not wait.
type Reason struct {
	Text string
	// Brief means that the wait is limited to a short time; see [DefaultPatience].
	Brief bool
}

// Waits reports whether the call must wait.
func (r Reason) Waits() bool { return r.Text != "" }

// rule is a row of the table of reasons. The later call waits if the condition holds. A nil condition always
// holds.
type rule struct {
	earlier, later Kind
	when           func(earlier, later *Claim) bool
	Reason
}

// rules is the table of reasons. The first matching row decides. A pair of calls without a matching row
// does not wait.
var rules = []rule{
	{Shell, Shell, nil, Reason{Text: "a session has one shell"}},
	{Shell, Edit, nil, Reason{Text: "the command can change files"}},
	{Shell, Read, overlap, Reason{Text: "the command writes a file that the call names"}},
	{Shell, Read, moves, Reason{Text: "the command can change the directory", Brief: true}},
	{Edit, Shell, nil, Reason{Text: "the command can depend on the changed file"}},
	{Edit, Edit, overlap, Reason{Text: "both change the same file"}},
	{Edit, Read, overlap, Reason{Text: "the call names a file that is being changed"}},
	{Read, Shell, namesFiles, Reason{Text: "the command can change what is being read"}},
	{Read, Edit, overlap, Reason{Text: "the file is being read"}},
	{Alone, Alone, nil, Reason{Text: "the tool runs alone"}},
	{Alone, Read, nil, Reason{Text: "the tool runs alone"}},
	{Alone, Edit, nil, Reason{Text: "the tool runs alone"}},
	{Alone, Shell, nil, Reason{Text: "the tool runs alone"}},
	{Read, Alone, nil, Reason{Text: "the tool runs alone"}},
	{Edit, Alone, nil, Reason{Text: "the tool runs alone"}},
	{Shell, Alone, nil, Reason{Text: "the tool runs alone"}},
}

// Why returns the reason why the later call of a session waits for the earlier call. A call waits only if one of the
// two calls can change something on which the other call depends.
func Why(earlier, later *Claim) Reason {
	if earlier.InOrder || later.InOrder {
		switch {
		case earlier.Safe && later.Safe:
			return Reason{}
		case later.Kind == Free && !later.InOrder && earlier.StartsJob:
			return Reason{Text: "the command starts a job"}
		case later.Kind == Free && !later.InOrder:
			return Reason{}
		}
		return Reason{Text: "calls of a batch that are not safe run alone and in order"}
	}
	for _, r := range rules {
		if r.earlier == earlier.Kind && r.later == later.Kind && (r.when == nil || r.when(earlier, later)) {
			return r.Reason
		}
	}
	return Reason{}
}

func moves(earlier, later *Claim) bool { return earlier.Moves && later.UsesDir }

func namesFiles(earlier, _ *Claim) bool { return earlier.Anywhere || len(earlier.Paths) > 0 }

// overlap reports whether two calls use the same path, or one call uses a directory above a path of the
// other call.
func overlap(a, b *Claim) bool {
	if a.Anywhere && namesFiles(b, nil) || b.Anywhere && namesFiles(a, nil) {
		return true
	}
	for _, p := range a.Paths {
		for _, q := range b.Paths {
			if tool.Within(p, q) || tool.Within(q, p) {
				return true
			}
		}
	}
	return false
}
