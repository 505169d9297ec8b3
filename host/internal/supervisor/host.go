package supervisor

import (
	"context"
	"os"
	"strings"

	"toolhost.dev/sdk/tool"
)

// Host decides what one plugin is allowed to do, and is told of its events. It is safe for concurrent use. A host that
// does not need all methods embeds [Alone].
type Host interface {
	// Prepare is called before each start. It starts the plugins on which this plugin depends.
	Prepare(ctx context.Context) error
	// Executable returns the file to run in place of the binary, or "" for the binary itself. An error prevents the
	// start.
	Executable() (string, error)
	// Inherit returns a file that the plugin receives as descriptor InheritedFD. The supervisor does not close this
	// file. A nil file means that the plugin receives none.
	Inherit() *os.File
	// Confine confines a process before its start. It can replace the whole command. It returns nil if the process
	// needs no confinement.
	Confine(Start) (*Confined, error)
	// Granted returns an error if the plugin requires a permission that the operator did not grant. It is called before
	// Configure.
	Granted(*tool.Description) error
	// Accept returns an error if the host must not use the plugin's description or tools.
	Accept(*tool.Description) error
	// Diagnose formats the problems in a plugin's configuration for the operator.
	Diagnose(diags []tool.Diagnostic) string
	// Permit is called before each call. An error refuses the call.
	Permit(*tool.Call) error
	// Place returns the place of the processes of an owner; see [Set.Reserve].
	Place(owner string) Place
	// Observe is called for each event of the plugin. The argument "why" is the reason, or "" if it is unknown. Observe
	// must not block.
	Observe(event Event, why string)
	// Notify is called for each notification of a plugin with [tool.CapabilityRelay]. It must not block.
	Notify(Notice)
}

// Site is what the processes of all plugins of a supervisor have in common. It is safe for concurrent use.
type Site interface {
	// Keep is called for each line that a plugin prints. It must not block.
	Keep(Line)
	// Changes returns the changes below a branch after the position "since". The result "now" is the current position.
	// Position 0 precedes all changes.
	Changes(branch string, since uint64) (i tool.Invalidation, now uint64)
	// Guard is called for each process after its start and before its first call. If it returns an error, the process
	// is killed.
	Guard(pid int, roots []tool.Root) error
}

// Place is where a process keeps its files, and for whom.
type Place struct {
	// Owner is the principal whose calls the process runs. Empty means the local user.
	Owner string
	// StateDir is the plugin's state directory. The supervisor creates it before the start. Empty means that the plugin
	// has no state directory.
	StateDir string
	// OutputBytes is the maximum size of the plugin's output files. Zero means that the plugin chooses the limit.
	OutputBytes int64
	// Ages limits how long the plugin keeps files; see [tool.Description.Retain].
	Ages tool.Ages
}

// Alone is the host of a plugin that nothing restricts, and a site without branches. Processes are not confined, so one
// process runs the calls of all sessions.
type Alone struct{}

// Prepare implements [Host].
func (Alone) Prepare(context.Context) error { return nil }

// Executable implements [Host].
func (Alone) Executable() (string, error) { return "", nil }

// Inherit implements [Host].
func (Alone) Inherit() *os.File { return nil }

// Confine implements [Host].
func (Alone) Confine(Start) (*Confined, error) { return nil, nil }

// Granted implements [Host].
func (Alone) Granted(*tool.Description) error { return nil }

// Accept implements [Host].
func (Alone) Accept(*tool.Description) error { return nil }

// Diagnose implements [Host].
func (Alone) Diagnose(diags []tool.Diagnostic) string {
	var lines []string
	for _, d := range diags {
		lines = append(lines,
			strings.TrimSpace(strings.Join(append([]string{"config"}, d.Path...), ".")+": "+d.Summary+" "+d.Detail))
	}
	return strings.Join(lines, "\n")
}

// Permit implements [Host].
func (Alone) Permit(*tool.Call) error { return nil }

// Place implements [Host].
func (Alone) Place(owner string) Place { return Place{Owner: owner} }

// Observe implements [Host].
func (Alone) Observe(Event, string) {}

// Notify implements [Host].
func (Alone) Notify(Notice) {}

// Keep implements [Site].
func (Alone) Keep(Line) {}

// Changes implements [Site].
func (Alone) Changes(string, uint64) (i tool.Invalidation, now uint64) { return i, 0 }

// Guard implements [Site].
func (Alone) Guard(int, []tool.Root) error { return nil }
