package fleet

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// fleetStep is a step of a node's work, and an operation that reaches the step.
type fleetStep struct {
	step string
	do   func(*stepTest)
}

// fleetSteps lists the steps at which TestFleetSteps kills the acting node.
var fleetSteps = []fleetStep{
	{"entry created", (*stepTest).create},
	{"entry taken", (*stepTest).take},
	{"journal read", (*stepTest).take},
	{"epoch recorded", (*stepTest).take},
	{"state restored", (*stepTest).take},
	{"entry opened", (*stepTest).take},
	{"call begun", (*stepTest).take},
	{"call ran", (*stepTest).take},
	{"call recorded", (*stepTest).take},
	{"snapshot recorded", (*stepTest).work},
	{"journal trimmed", (*stepTest).work},
	{"calls held back", (*stepTest).move},
	{"state recorded", (*stepTest).move},
	{"entry handed over", (*stepTest).move},
	{"session ended", (*stepTest).move},
	{"entry handed over", (*stepTest).drain},
	{"journal read", (*stepTest).useMoved},
	{"epoch recorded", (*stepTest).useMoved},
	{"state restored", (*stepTest).useMoved},
	{"entry opened", (*stepTest).useMoved},
	{"journal removed", (*stepTest).remove},
	{"entry removed", (*stepTest).remove},
	{"node fenced", (*stepTest).fence},
	{"node cut off", (*stepTest).fence},
}

// TestFleetSteps kills the acting node at each step of taking, moving and removing a session, and of fencing a node. No
// call may run twice, no confirmed change may be lost, and one node must have the session afterwards. In the control, a
// guard is switched off so that a new owner does not know the calls of the previous owner, and the test must notice
// this.
func TestFleetSteps(t *testing.T) {
	t.Parallel()
	t.Run("all steps have a kill", func(t *testing.T) {
		for _, step := range failpointsOf(t, "../../../fleet") {
			if !slices.ContainsFunc(fleetSteps, func(s fleetStep) bool { return s.step == step }) && !slices.ContainsFunc(councilSteps, func(s councilStep) bool { return s.step == step }) {
				t.Errorf("no test kills a node at the step %q", step)
			}
		}
		for _, s := range fleetSteps {
			if !slices.Contains(failpointsOf(t, "../../../fleet"), s.step) {
				t.Errorf("the program has no step %q", s.step)
			}
		}
		program, err := os.ReadFile(filepath.Join(hosttest.Bin, "toolhost"))
		hosttest.Must(t, err)
		if strings.Contains(string(program), "TOOLHOST_FLEET_KILL") {
			t.Error("the released program has failpoints")
		}
	})
	f := newStepFleet(t, "")
	for i, step := range fleetSteps {
		s := &stepTest{fleetStep: step, f: f, session: "s" + strconv.Itoa(i)}
		s.run()
	}
	for i := range fleetSteps {
		f.nodes["gate"].do("fleet", "session", "remove", "s"+strconv.Itoa(i))
	}
	f.nothingLeft()
	t.Run("control", func(t *testing.T) {
		s := &stepTest{fleetStep: fleetStep{"call ran", (*stepTest).take}, f: newStepFleet(t, "records"), session: "s", control: true}
		s.run()
		if s.ran("two") != 2 {
			t.Errorf("without the calls of the previous owner, the repeated call ran %d times, want 2", s.ran("two"))
		}
	})
}

// failpointsOf returns the names of the failpoints in the source below a directory.
func failpointsOf(t *testing.T, dir string) (steps []string) {
	t.Helper()
	hosttest.Must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); !ok || s.Sel.Name != "At" || fmt.Sprint(s.X) != "failpoint" {
				return true
			}
			step, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
			hosttest.Must(t, err)
			steps = append(steps, step)
			return true
		})
		return nil
	}))
	if len(steps) == 0 {
		t.Fatal("the source has no failpoints")
	}
	return steps
}

// newStepFleet starts a gateway and two nodes with the workspace. All of them can be killed at failpoints. The argument
// "without" names a guard that is switched off.
func newStepFleet(t *testing.T, without string) *testFleet {
	t.Helper()
	f := newFleet(t, "")
	b, err := os.ReadFile(f.config)
	hosttest.Must(t, err)
	cut := filepath.Join(f.dir, "cut")
	text := strings.Replace(string(b), `shared = "the-repo"`, "shared = \"the-repo\"\n    nodes = { has = \"repo\" }", 1)
	text = strings.Replace(text, "fleet {\n", fmt.Sprintf("fleet {\n  fence = [\"sh\", \"-c\", \"echo $0 >> %s\"]\n", cut), 1)
	hosttest.Must(t, os.WriteFile(f.config, []byte(text), 0o644))
	with := filepath.Join(f.dir, "etc", "with.hcl")
	hosttest.Must(t, os.WriteFile(with, []byte(strings.Replace(text, "fleet {\n", "fleet {\n  labels = { has = \"repo\" }\n", 1)), 0o644))
	f.program = controlProgram()
	f.env = []string{"TOOLHOST_FLEET_KILL=" + filepath.Join(f.dir, "kill"), "TOOLHOST_FLEET_WITHOUT=" + without}
	f.start("gate")
	for _, name := range []string{"a", "b"} {
		f.startNode(&fleetNode{fleet: f, name: name, state: filepath.Join(f.dir, name, "state"), listen: fleetPort(t), config: with})
	}
	return f
}

// nothingLeft checks that no records and no temporary files of removed sessions remain.
func (f *testFleet) nothingLeft() {
	t := f.t
	t.Helper()
	var st struct {
		Sessions int
		Journal  int `json:"journal_bytes"`
	}
	text := f.nodes["gate"].do("fleet", "status", "--json")
	hosttest.Must(t, json.Unmarshal([]byte(text), &st))
	if st.Sessions != 0 || st.Journal != 0 {
		t.Errorf("records of removed sessions remain: %+v\n%s", st, text)
	}
	for _, n := range f.nodes {
		hosttest.Must(t, filepath.WalkDir(filepath.Join(n.state, "fleet"), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".new") || strings.HasSuffix(path, ".tmp") {
				t.Errorf("%s remains", path)
			}
			return err
		}))
	}
}

// stepTest kills a node at a step and checks the session afterwards.
type stepTest struct {
	fleetStep
	f       *testFleet
	session string
	removed bool // whether the session was removed
	control bool
}

func (s *stepTest) gate() *fleetNode { return s.f.nodes["gate"] }

// ran returns how often the line of a call is in the file of the session.
func (s *stepTest) ran(line string) int {
	b, _ := os.ReadFile(filepath.Join(s.f.workspace, s.session, "log"))
	return strings.Count(string(b), line+"\n")
}

// call makes a call that appends a line. The line is also the id of the call. If no node answers, the result is nil.
func (s *stepTest) call(line string) *fleetResult {
	res, err := s.gate().call(s.f.t.Context(), fleetCall{Command: "echo " + line + " >> $LOG", Session: s.session, CallID: line})
	if err != nil {
		return nil // the gateway was killed
	}
	return res
}

// run kills a node at the step, and checks the session afterwards.
func (s *stepTest) run() {
	t := s.f.t
	t.Helper()
	failed := t.Failed()
	s.do(s)
	s.check()
	if t.Failed() && !failed {
		t.Errorf("that was step %q of session %s", s.step, s.session)
	}
}

// prepare creates the session with all kinds of state.
func (s *stepTest) prepare() {
	t := s.f.t
	t.Helper()
	dir := filepath.Join(s.f.workspace, s.session)
	s.gate().want(s.session, fmt.Sprintf("mkdir -p %[1]s && cd %[1]s && LOG=%[1]s/log && echo first > file && echo one >> $LOG", dir))
	s.gate().want(s.session, "read file")
	for _, c := range []fleetCall{
		{Name: "edit", Arguments: map[string]any{"file_path": filepath.Join(dir, "file"), "old_string": "first", "new_string": "second"}},
		{Name: "todo", Arguments: map[string]any{"todos": []map[string]string{{"content": "survive", "status": "pending"}}}},
	} {
		c.Session = s.session
		if res, err := s.gate().call(t.Context(), c); err != nil || !res.Success {
			t.Fatalf("%s: %v %v", c.Name, res, err)
		}
	}
}

// kill runs an operation, waits until a node dies at the step, and restarts this node.
func (s *stepTest) kill(operation func()) {
	t := s.f.t
	t.Helper()
	file := filepath.Join(s.f.dir, "kill")
	hosttest.Must(t, os.WriteFile(file+".new", []byte(s.step), 0o600))
	hosttest.Must(t, os.Rename(file+".new", file))
	done := make(chan struct{})
	go func() {
		defer close(done)
		operation()
	}()
	var dead *fleetNode
	hosttest.Wait(t, "a node dies at the step "+s.step, func() bool {
		for _, n := range s.f.nodes {
			if n.hasEnded() && !n.isDown {
				dead = n
			}
		}
		return dead != nil
	})
	dead.run()
	<-done
}

// killDuring runs a toolhost command on a node, waits until a node dies at the step, and restarts this node. The
// command can fail, because the node that carries it out can be the one that dies.
func (s *stepTest) killDuring(n *fleetNode, args ...string) {
	s.f.t.Helper()
	s.kill(func() { _, _ = n.try(args...) })
}

// leave ends the owner of the session with SIGTERM, so that another node can take the session at once.
func (s *stepTest) leave() (owner *fleetNode) {
	owner, _ = s.f.owner(s.session)
	owner.isDown = true
	owner.signal(syscall.SIGTERM)
	<-owner.ended
	return owner
}

// back restarts a node that was down.
func (s *stepTest) back(n *fleetNode) {
	n.isDown = false
	n.run()
}

// repeated kills a node at the step during a call, and repeats the call until its outcome is known.
func (s *stepTest) repeated(line string) {
	t := s.f.t
	t.Helper()
	var first, again *fleetResult
	s.kill(func() { first = s.call(line) })
	for end := time.Now().Add(20 * time.Second); ; {
		if again = s.call(line); again != nil && (again.Success || again.unknown()) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after a kill at %q, the call has no outcome: first %v, then %v", s.step, first, again)
		}
	}
	ran := s.ran(line)
	confirmed := first != nil && first.Success || again.Success
	if !s.control && (ran > 1 || confirmed && ran != 1) {
		t.Errorf("the call %s ran %d times; it returned %v, and its repetition returned %v", line, ran, first, again)
	}
}

func (s *stepTest) create() {
	t := s.f.t
	t.Helper()
	// Ignore the result, because the call can be lost.
	s.kill(func() { _, _ = s.gate().call(t.Context(), fleetCall{Command: "true", Session: s.session}) })
	s.prepare()
}

func (s *stepTest) take() {
	s.prepare()
	owner := s.leave()
	s.repeated("two")
	s.back(owner)
}

// work makes enough calls for a snapshot of the session's state to be recorded.
func (s *stepTest) work() {
	t := s.f.t
	t.Helper()
	s.prepare()
	lost := ""
	s.kill(func() {
		for i := 0; lost == "" && i < 100; i++ {
			line := fmt.Sprintf("line%d.", i)
			if res := s.call(line); res == nil || !res.Success {
				lost = line
			} else if s.ran(line) != 1 {
				t.Errorf("the call %s ran %d times", line, s.ran(line))
			}
		}
	})
	if lost != "" && s.ran(lost) > 1 {
		t.Errorf("the call %s ran %d times", lost, s.ran(lost))
	}
}

func (s *stepTest) move() {
	s.prepare()
	s.killDuring(s.gate(), "fleet", "move", s.session)
}

func (s *stepTest) drain() {
	s.prepare()
	owner, _ := s.f.owner(s.session)
	s.killDuring(s.gate(), "fleet", "drain", owner.name)
	s.gate().do("fleet", "undrain", owner.name)
}

// useMoved moves the session. The new owner is killed when it opens the session.
func (s *stepTest) useMoved() {
	s.prepare()
	s.gate().do("fleet", "move", s.session)
	s.repeated("two")
}

func (s *stepTest) remove() {
	t := s.f.t
	t.Helper()
	s.prepare()
	s.killDuring(s.gate(), "fleet", "session", "remove", s.session)
	hosttest.Wait(t, "the session can be removed", func() bool {
		_, err := s.gate().try("fleet", "session", "remove", s.session)
		return err == nil || strings.Contains(err.Error(), "no session")
	})
	s.removed = true
}

// fence kills the owner of the session. The node that fences the owner and cuts it off is killed at the step.
func (s *stepTest) fence() {
	t := s.f.t
	t.Helper()
	s.prepare()
	cut := filepath.Join(s.f.dir, "cut")
	_ = os.Remove(cut) // an earlier step can have created the file
	owner, _ := s.f.owner(s.session)
	owner.isDown = true
	owner.kill()
	s.repeated("two")
	b, err := os.ReadFile(cut)
	if err != nil || !strings.Contains(string(b), owner.name+"\n") {
		t.Errorf("the node %s was not cut off before its session was taken: %q %v", owner.name, b, err)
	}
	s.back(owner)
}

// check checks that one node has the session with its whole state.
func (s *stepTest) check() {
	t := s.f.t
	t.Helper()
	dir := filepath.Join(s.f.workspace, s.session)
	var at []string
	for _, n := range s.f.nodes {
		res := n.want(s.session, "pwd; cat $LOG </dev/null | head -n 1")
		at = append(at, fmt.Sprint(res.Metadata["node"], " in epoch ", res.Metadata["epoch"]))
		out := strings.TrimSpace(withoutNote(res.Output))
		if s.removed && out != s.f.workspace || !s.removed && out != dir+"\none" {
			t.Errorf("the session through %s: %q", n.name, res.Output)
		}
	}
	if slices.Sort(at); len(slices.Compact(at)) != 1 {
		t.Errorf("calls of one session ran at %v", at)
	}
	var all []struct{ Session, Node string }
	hosttest.Must(t, json.Unmarshal([]byte(s.gate().do("fleet", "sessions", "--json")), &all))
	has := 0
	for _, x := range all {
		if x.Session == s.session {
			has++
		}
	}
	if has != 1 {
		t.Errorf("the directory has %d entries of the session: %v", has, all)
	}
	if s.removed {
		return
	}
	if res := s.gate().want(s.session, "todo"); !strings.Contains(res.Output, "survive") {
		t.Errorf("the list of tasks: %q", res.Output)
	}
	edit := fleetCall{Name: "edit", Arguments: map[string]any{"file_path": filepath.Join(dir, "file"), "old_string": "second", "new_string": "third"}, Session: s.session}
	if res, err := s.gate().call(t.Context(), edit); err != nil || !res.Success {
		t.Errorf("the session does not know which files it has read: %v %v", res, err)
	}
	if n := s.ran("one"); n != 1 {
		t.Errorf("the first call ran %d times", n)
	}
}
