package scheduler

import (
	"path/filepath"
	"strings"
	"time"
)

// Kind classifies calls by what they can change and what they depend on.
type Kind int

// The kinds of calls.
const (
	// Alone is a call of unknown effect. Only Free calls run beside it.
	Alone Kind = iota
	// Free is a call that neither depends on the session nor changes it: job, ask_user, and tools of mounted servers.
	Free
	// Read is a call of a tool that changes nothing.
	Read
	// Edit is a call that changes the files that it names: edit, write and undo.
	Edit
	// Shell is a command in the session's shell. It can change any file.
	Shell
)

// Claim describes one call for [Why].
type Claim struct {
	Kind Kind
	// InOrder is set for calls of a batch. Such a call runs alone, unless it is Safe: then it runs beside other safe calls.
	InOrder, Safe bool
	// Paths contains the absolute paths that the call names. For a shell command, they are the targets of redirects.
	// Anywhere means that the call can name any path.
	Paths    []string
	Anywhere bool
	// UsesDir means that the call depends on the directory of the session.
	UsesDir bool
	// Moves means that a shell command can change the directory or the variables of the session.
	Moves bool
	// Label returns a short text that names the call, such as "bash: npm test". It can be nil.
	Label func() string
}

// DefaultPatience limits how long a read-only call waits for a command that can change the directory.
const DefaultPatience = 5 * time.Second

// Reason is the reason for which a call waits for an earlier one. The zero value means that it does not wait.
type Reason struct {
	Text string
	// Brief means that the call does not wait for long; see [DefaultPatience].
	Brief bool
}

// Waits reports whether the reason makes the call wait.
func (r Reason) Waits() bool { return r.Text != "" }

// rule is a row of the table of reasons. The later call waits if the condition holds. A nil condition always holds.
type rule struct {
	earlier, later Kind
	when           func(earlier, later *Claim) bool
	Reason
}

// rules is the table of reasons. The first row that matches decides. Calls of other pairs do not wait for each other.
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

// Why returns the reason for which the later call of a session waits for the earlier one. A call waits only if the earlier
// call can change what it depends on, or if it can change what the earlier call depends on.
func Why(earlier, later *Claim) Reason {
	if earlier.InOrder || later.InOrder {
		if earlier.Safe && later.Safe {
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

// overlap reports whether two calls name the same path, or one of them a directory above a path of the other.
func overlap(a, b *Claim) bool {
	if a.Anywhere && namesFiles(b, nil) || b.Anywhere && namesFiles(a, nil) {
		return true
	}
	for _, p := range a.Paths {
		for _, q := range b.Paths {
			if within(p, q) || within(q, p) {
				return true
			}
		}
	}
	return false
}

// within reports whether path is dir or below dir.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == filepath.Separator || strings.HasSuffix(dir, string(filepath.Separator)))
}
