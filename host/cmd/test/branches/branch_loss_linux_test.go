package branches

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestNoAcknowledgedChangeIsLost checks that no acknowledged change is lost while several processes work in the same
// branches of one workspace. They run commands, applies, reverts, discards, checkpoints, restores, undos and previews.
// Meanwhile, a server makes changes, the workspace itself changes, and old branches are removed. Each process can be
// killed at any time. Each change has a unique text. At the end, the test looks for the text of each acknowledged
// change.
//
// TOOLHOST_BRANCHES_TIME sets the duration. TOOLHOST_BRANCHES_SEED repeats the random choices of an earlier run.
func TestNoAcknowledgedChangeIsLost(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	limit, seed := 8*time.Second, uint64(time.Now().UnixNano())
	if text := os.Getenv("TOOLHOST_BRANCHES_TIME"); text != "" {
		var err error
		limit, err = time.ParseDuration(text)
		hosttest.Must(t, err)
	}
	if text := os.Getenv("TOOLHOST_BRANCHES_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		hosttest.Must(t, err)
	}
	t.Logf("TOOLHOST_BRANCHES_SEED=%d", seed)
	l := newLosses(t)
	var workers sync.WaitGroup
	begun := time.Now()
	goesOn := func() bool { return !t.Failed() && time.Since(begun) < limit }
	for i := range lossWorkers {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for goesOn() {
				l.work(r)
			}
		})
	}
	workers.Go(func() { l.keepServing(rand.New(rand.NewPCG(seed, lossWorkers)), goesOn) })
	workers.Wait()
	l.complete(rand.New(rand.NewPCG(seed, lossWorkers+1)), begun.Add(8*limit))
	l.settle()
	l.judge()
}

const (
	lossWorkers = 6
	// lossFillers is the number of lines that separate the lines of different branches in a shared file. Without them,
	// the changes could not be merged.
	lossFillers = 4
	// lossVictims is the number of files that exist at the beginning and that changes can delete.
	lossVictims = 400
)

// lossBranches lists the branches that all workers use. Only branches whose names begin with "drop" are discarded.
var lossBranches = []string{"keep0", "keep1", "drop0"}

// textOf matches the texts of changes.
var textOf = regexp.MustCompile(`T\d+T`)

// losses records the operations and the acknowledged changes. At the end, each acknowledged change must be found.
type losses struct {
	t       *testing.T
	ws      string
	state   string
	mu      sync.Mutex
	last    int
	victims int
	texts   []*lossText
	events  []lossEvent
	counts  map[string]int
	server  string // the address of the server, or ""
}

// lossText is a change with a unique text.
type lossText struct {
	text string
	// branch is empty for a change of the workspace itself.
	branch       string
	begun, acked time.Time
	// files lists the new files that contain the text. The workspace must have all of them or none.
	files []string
	// deleted is a file that the change deletes.
	deleted string
}

// lossEvent is an operation on a branch, whether or not it succeeded.
type lossEvent struct {
	op, branch string
	begun, end time.Time
	succeeded  bool
}

func newLosses(t *testing.T) *losses {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	l := &losses{t: t, ws: filepath.Join(dir, "ws"), counts: make(map[string]int)}
	l.state = l.ws + ".state"
	var shared strings.Builder
	for _, b := range append([]string{"base"}, lossBranches...) {
		fmt.Fprintf(&shared, "# %s\n%s", b, strings.Repeat("filler of "+b+"\n", lossFillers))
	}
	all := map[string]string{"s0": shared.String(), "s1": shared.String(), "x/anchor": "a\n", "y/z/anchor": "a\n"}
	for i := range lossVictims {
		all[fmt.Sprintf("v/%d", i)] = "victim\n"
	}
	all["toolhost.hcl"] = "workspace {\n  limits { age = \"1ms\" }\n  checkpoints { keep = 100000 }\n}\n"
	writeFiles(t, l.ws, all)
	return l
}

// run runs a command of toolhost. If kill is positive, the command is killed after this number of milliseconds. If kill
// is negative, the command is killed at step number -kill of an apply.
func (l *losses) run(kill int, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Minute)
	defer cancel()
	c := hosttest.Toolhost(l.t, l.ws, args...)
	c = exec.CommandContext(ctx, c.Path, c.Args[1:]...)
	c.Dir = l.ws
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if kill < 0 {
		c.Env = append(os.Environ(), fmt.Sprintf("TOOLHOST_TEST_KILL_AT=%d", -kill))
	}
	if err := c.Start(); err != nil {
		return "", err
	}
	if kill > 0 {
		time.AfterFunc(time.Duration(kill)*time.Millisecond, func() { _ = c.Process.Kill() })
	}
	err := c.Wait()
	if ctx.Err() != nil && l.t.Context().Err() == nil {
		l.t.Errorf("%q does not end: %s", args, out.Bytes())
	}
	return out.String(), err
}

// expected matches the errors that the other users of a branch can cause.
var expected = regexp.MustCompile(`in use by|other calls run|runs a call|applies or reverts|both changed|changed it at this moment|has no apply|changed since|has no branch|has no checkpoint|No call in the branch|nothing to apply|of another session|signal: killed|was discarded|is no longer mounted|not the one|the host is closing|content of the preview changed|changed since the preview|other one runs|closing|ended|No such file|canceled`)

// do runs an operation on a branch and records it.
func (l *losses) do(op, branch string, kill int, args ...string) (string, bool) {
	e := lossEvent{op: op, branch: branch, begun: time.Now()}
	out, err := l.run(kill, args...)
	e.end, e.succeeded = time.Now(), err == nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	result := "done"
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled():
		result = "killed"
	case err != nil && !expected.MatchString(out):
		l.t.Errorf("%s in %s: %v\n%s", op, branch, err, out)
	case err != nil:
		result = "refused"
	}
	l.counts[op+" "+result]++
	l.lines(op + " " + branch)
	return out, err == nil
}

// lines checks that the shared files have all acknowledged lines of the workspace itself. No operation on a branch may
// remove them, so the check shows the operation that did. The caller holds l.mu.
func (l *losses) lines(after string) {
	if l.t.Failed() {
		return
	}
	have := make(map[string]bool)
	for _, name := range []string{"s0", "s1"} {
		text, err := os.ReadFile(filepath.Join(l.ws, name))
		if err != nil {
			l.t.Errorf("after %s: %v", after, err)
		}
		for _, m := range textOf.FindAllString(string(text), -1) {
			have[m] = true
		}
	}
	for _, c := range l.texts {
		if c.branch == "" && c.deleted == "" && len(c.files) == 0 && !have[c.text] {
			l.t.Errorf("after %s, the line %s of the workspace is lost\n%s", after, c.text, l.history(c))
		}
	}
}

// begin returns a new change. The caller must call acknowledge if the change succeeds.
func (l *losses) begin(branch string) *lossText {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return &lossText{text: fmt.Sprintf("T%dT", l.last), branch: branch, begun: time.Now()}
}

func (l *losses) acknowledge(c *lossText) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.acked = time.Now()
	l.texts = append(l.texts, c)
}

// change returns a random change for a branch, and the command that makes the change.
func (l *losses) change(r *rand.Rand, branch string) (*lossText, string) {
	c := l.begin(branch)
	n := r.IntN(10)
	if n == 2 || n == 3 {
		c.deleted = l.victim()
	}
	switch {
	case c.deleted != "":
		return c, "rm -f " + c.deleted
	case n < 2:
		return c, fmt.Sprintf(`sed -i "/^# %s$/a %s" s%d`, branch, c.text, r.IntN(2))
	case n < 5:
		c.files = []string{"n" + c.text + "/a", "n" + c.text + "/b"} // a new directory
	default:
		c.files = []string{"x/" + c.text, "y/z/" + c.text}
	}
	a, b := c.files[0], c.files[1]
	return c, fmt.Sprintf(`mkdir -p %s && for i in $(seq 300); do echo %s; done > %s && echo END >> %s && cp %s %s`, filepath.Dir(a), c.text, a, a, a, b)
}

// victim returns a file that no other change deletes. It returns "" if no such file is left.
func (l *losses) victim() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.victims++; l.victims > lossVictims {
		return ""
	}
	return fmt.Sprintf("v/%d", l.victims-1)
}

// work does one random operation.
func (l *losses) work(r *rand.Rand) {
	branch := lossBranches[r.IntN(len(lossBranches))]
	kill := 0
	switch r.IntN(8) {
	case 0:
		kill = 1 + r.IntN(600)
	case 1:
		kill = -1 - r.IntN(60)
	}
	switch n := r.IntN(100); {
	case n < 30:
		c, command := l.change(r, branch)
		if _, ok := l.do("run", branch, kill, "--branch", branch, "run", command); ok {
			l.acknowledge(c)
		}
	case n < 40:
		l.serve(r, branch)
	case n < 55:
		l.do("apply", branch, kill, "branch", "apply", branch, "--stop-jobs")
	case n < 62:
		l.do("revert", branch, kill, "branch", "revert", branch)
	case n < 67:
		if strings.HasPrefix(branch, "drop") {
			l.do("discard", branch, kill, "branch", "discard", branch)
		}
	case n < 71:
		l.do("checkpoint", branch, kill, "branch", "checkpoint", branch, "-m", "m")
	case n < 75:
		l.do("restore", branch, kill, "branch", "restore", branch)
	case n < 79:
		l.do("undo", branch, kill, "--branch", branch, "run", "undo")
	case n < 88:
		l.preview(r, branch, kill)
	case n < 91:
		l.do("list", branch, kill, "branch", "list")
	default:
		l.changeBase(r)
	}
}

// complete does the required operations that the workers did not do. On a busy machine, most of their reverts are
// refused, and few of their operations are killed in time.
func (l *losses) complete(r *rand.Rand, end time.Time) {
	branch := lossBranches[2]
	for !l.t.Failed() && time.Now().Before(end) {
		missing := l.missing()
		if len(missing) == 0 {
			return
		}
		l.do("discard", branch, 0, "branch", "discard", branch) // its changes can conflict with those of the workspace
		c, command := l.change(r, branch)
		if _, ok := l.do("run", branch, 0, "--branch", branch, "run", command); ok {
			l.acknowledge(c)
		}
		switch missing[0] {
		case "apply killed":
			l.do("apply", branch, -1, "branch", "apply", branch, "--stop-jobs")
		case "accept done":
			l.preview(r, branch, 0)
		default:
			l.do("apply", branch, 0, "branch", "apply", branch, "--stop-jobs")
			l.do("revert", branch, 0, "branch", "revert", branch)
		}
	}
}

var tokenOf = regexp.MustCompile(`toolhost branch apply (preview-[0-9a-f]+)`)

// preview previews a change of the workspace or of a branch. Then it applies or discards the preview.
func (l *losses) preview(r *rand.Rand, branch string, kill int) {
	args := []string{"run", "--preview"}
	if r.IntN(2) == 0 {
		branch = ""
	} else {
		args = append([]string{"--branch", branch}, args...)
	}
	c, command := l.change(r, "base")
	out, _ := l.do("preview", branch, 0, append(args, command)...)
	token := tokenOf.FindStringSubmatch(out)
	if token == nil {
		return
	}
	if r.IntN(4) == 0 {
		l.do("drop", token[1], kill, "branch", "discard", token[1])
		return
	}
	if c.branch = branch; branch == "" {
		c.branch = token[1]
	}
	c.begun = time.Now()
	if _, ok := l.do("accept", token[1], kill, "branch", "apply", token[1]); ok {
		l.acknowledge(c)
		l.mu.Lock()
		defer l.mu.Unlock()
		if branch == "" {
			l.events = append(l.events, lossEvent{op: "apply", branch: token[1], begun: time.Now(), end: time.Now(), succeeded: true})
		}
	}
}

// changeBase changes the workspace itself. It holds the lock of the workspace, because otherwise an apply could replace
// a file between the steps of the change.
func (l *losses) changeBase(r *rand.Rand) {
	locks, err := filepath.Glob(filepath.Join(l.state, "branches", ".bases", "*"))
	if err != nil || len(locks) != 1 {
		return
	}
	f, err := os.OpenFile(locks[0], os.O_RDWR, 0)
	if err != nil {
		l.t.Error(err)
		return
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		l.t.Error(err)
		return
	}
	c, command := l.change(r, "base")
	c.branch = ""
	script := exec.Command("bash", "-c", command)
	script.Dir = l.ws
	if out, err := script.CombinedOutput(); err != nil {
		l.t.Errorf("%s: %v\n%s", command, err, out)
		return
	}
	l.acknowledge(c)
}

// serve makes a change through the server.
func (l *losses) serve(r *rand.Rand, branch string) {
	l.mu.Lock()
	base := l.server
	l.mu.Unlock()
	if base == "" {
		return
	}
	c, command := l.change(r, branch)
	body, err := json.Marshal(map[string]string{"command": command, "branch": branch, "session": fmt.Sprint("s", r.IntN(2))})
	if err != nil {
		l.t.Error(err)
		return
	}
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, base+"/v1/run", bytes.NewReader(body))
	if err != nil {
		l.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+hosttest.ServerToken)
	req.Header.Set("Content-Type", "application/json")
	var answer struct {
		Error *struct{ Message string }
	}
	res, err := http.DefaultClient.Do(req)
	if err == nil {
		err = json.NewDecoder(res.Body).Decode(&answer)
		_ = res.Body.Close()
	}
	result := "done"
	switch {
	case err != nil:
		result = "killed"
	case res.StatusCode != http.StatusOK || answer.Error != nil:
		if result = "refused"; answer.Error != nil && !expected.MatchString(answer.Error.Message) {
			l.t.Errorf("serve in %s: %s", branch, answer.Error.Message)
		}
	default:
		l.acknowledge(c)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts["serve "+result]++
}

// keepServing repeatedly starts a server and kills or interrupts it after a while.
func (l *losses) keepServing(r *rand.Rand, goesOn func() bool) {
	for goesOn() {
		s := hosttest.StartServer(l.t, l.ws, nil, "--listen", "127.0.0.1:0")
		l.mu.Lock()
		l.server = s.Base
		l.mu.Unlock()
		for stop := time.Now().Add(time.Duration(1+r.IntN(6)) * time.Second); time.Now().Before(stop) && goesOn(); {
			time.Sleep(50 * time.Millisecond)
		}
		l.mu.Lock()
		l.server = ""
		l.mu.Unlock()
		if r.IntN(3) == 0 {
			_ = s.Cmd.Process.Signal(os.Interrupt)
		} else {
			_ = s.Cmd.Process.Kill()
		}
		<-s.Ended
	}
}

// settle runs a command in each branch, which completes interrupted operations.
func (l *losses) settle() {
	for _, b := range lossBranches {
		for range 20 {
			if _, ok := l.do("settle", b, 0, "--branch", b, "run", "true"); ok {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	out, err := l.run(0, "branch", "list")
	if err != nil || strings.Contains(out, "is not a complete branch") {
		l.t.Errorf("branch list: %v\n%s", err, out)
	}
}

// found holds the texts that are in the workspace, in layers of branches and in checkpoints.
type found struct{ base, layer, checkpoint map[string]bool }

func (l *losses) look() (all found, whiteouts map[string]bool) {
	read := func(dir string, into map[string]bool, visit func(path string, st *unix.Stat_t)) {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			var st unix.Stat_t
			if err != nil || unix.Lstat(path, &st) != nil {
				return nil //nolint:nilerr // the file was removed meanwhile
			}
			visit(path, &st)
			if d.Type().IsRegular() {
				text, err := os.ReadFile(path)
				if err != nil {
					l.t.Error(err)
				}
				for _, m := range textOf.FindAllString(string(text), -1) {
					into[m] = true
				}
			}
			return nil
		})
	}
	all = found{make(map[string]bool), make(map[string]bool), make(map[string]bool)}
	whiteouts = make(map[string]bool)
	none := func(string, *unix.Stat_t) {}
	read(l.ws, all.base, none)
	branches, err := filepath.Glob(filepath.Join(l.state, "branches", "*@*"))
	hosttest.Must(l.t, err)
	for _, b := range branches {
		layer := filepath.Join(b, "upper")
		read(layer, all.layer, func(path string, st *unix.Stat_t) {
			if rel, err := filepath.Rel(layer, path); err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR {
				whiteouts[rel] = true
			}
		})
		read(filepath.Join(b, "checkpoints", "objects"), all.checkpoint, none)
	}
	return all, whiteouts
}

// during reports whether one of the operations ops on the branch of the change c ended after the given time.
func (l *losses) during(c *lossText, after time.Time, ops ...string) bool {
	return slices.ContainsFunc(l.events, func(e lossEvent) bool {
		return e.branch == c.branch && slices.Contains(ops, e.op) && e.end.After(after)
	})
}

// applied reports whether the workspace must contain a change of a branch. This is so if the branch was applied
// successfully after the change, and no operation can have undone the change.
func (l *losses) applied(c *lossText) bool {
	return slices.ContainsFunc(l.events, func(e lossEvent) bool {
		return e.op == "apply" && e.branch == c.branch && e.succeeded && e.begun.After(c.acked) && !l.during(c, e.begun, "revert")
	}) && !l.during(c, c.begun, "restore", "undo", "discard")
}

// made returns the time at which a branch was created, and whether the branch exists.
func (l *losses) made(branch string) (at time.Time, exists bool) {
	records, err := filepath.Glob(filepath.Join(l.state, "branches", branch+"@*", "branch.json"))
	hosttest.Must(l.t, err)
	if len(records) == 0 {
		return at, false
	}
	text, err := os.ReadFile(records[0])
	hosttest.Must(l.t, err)
	var record struct{ Created time.Time }
	hosttest.Must(l.t, json.Unmarshal(text, &record))
	return record.Created, true
}

// judge reports an error for each acknowledged change that is lost.
func (l *losses) judge() {
	all, whiteouts := l.look()
	for _, c := range l.texts {
		base, layer := all.base[c.text], all.layer[c.text]
		if c.deleted != "" {
			_, err := os.Lstat(filepath.Join(l.ws, c.deleted))
			base, layer = errors.Is(err, fs.ErrNotExist), whiteouts[c.deleted]
		}
		wentBack := l.during(c, c.begun, "restore", "undo")
		discarded := l.during(c, c.begun, "discard")
		made, exists := l.made(c.branch)
		switch {
		case c.branch == "" && !base:
			l.t.Errorf("%s was changed in the workspace itself, and is lost: %+v\n%s", c.text, c, l.history(c))
		case c.branch != "" && !base && l.applied(c):
			l.t.Errorf("%s was applied, but is not in the workspace: %+v", c.text, c)
		case base || layer || discarded:
		case c.deleted != "" && wentBack:
		case all.checkpoint[c.text] && wentBack:
		case wentBack && (!exists || made.After(c.begun)): // the branch with the change was finished and removed
		default:
			l.t.Errorf("%s is lost: %+v (in a checkpoint: %t, restored or undone: %t)\n%s", c.text, c, all.checkpoint[c.text], wentBack, l.history(c))
		}
		l.whole(c)
	}
	var names []string
	for name, n := range l.counts {
		names = append(names, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(names)
	l.t.Logf("%d changes were acknowledged; %s", len(l.texts), strings.Join(names, ", "))
	if missing := l.missing(); len(missing) > 0 {
		l.t.Errorf("this run has no %q, so it checks too little", missing)
	}
}

// missing returns the operations that every run must contain and that this run does not contain yet.
func (l *losses) missing() (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, op := range []string{"run done", "apply done", "revert done", "accept done", "apply killed"} {
		if l.counts[op] == 0 {
			out = append(out, op)
		}
	}
	return out
}

// whole checks that the files of a change are complete, and that the workspace has either all of these files or none.
func (l *losses) whole(c *lossText) {
	n := 0
	for _, f := range c.files {
		text, err := os.ReadFile(filepath.Join(l.ws, f))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if n++; err != nil || !strings.HasSuffix(string(text), "\nEND\n") || strings.Count(string(text), c.text) != 300 {
			l.t.Errorf("%s in the workspace is not complete (%v): %.40q", f, err, text)
		}
	}
	if n != 0 && n != len(c.files) {
		l.t.Errorf("the workspace has only %d of %q", n, c.files)
	}
}

// history returns the operations on the branch of a change since the change began. For a change of the workspace
// itself, these are the operations on all branches.
func (l *losses) history(c *lossText) string {
	var out strings.Builder
	for _, e := range l.events {
		if (e.branch == c.branch || c.branch == "") && e.end.After(c.begun.Add(-time.Second)) {
			fmt.Fprintf(&out, "%s %s %t %s to %s\n", e.op, e.branch, e.succeeded, e.begun.Format("05.000"), e.end.Format("05.000"))
		}
	}
	return out.String()
}
