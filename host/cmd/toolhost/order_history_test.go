package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// step is one call in a history. If name is empty, the step is a command string for the router. Otherwise the step is a
// function call.
type step struct {
	name    string
	args    map[string]any
	command string
	// cancel is the time between sending and canceling the call. Zero means that the call is not canceled.
	cancel time.Duration
	// pause is a delay before sending the call, in which earlier calls can proceed.
	pause time.Duration
	check func(m *sequence, o outcome) string
}

// outcome is the observable result of a call for its caller.
type outcome struct {
	ok     bool
	kind   string
	output string
}

// cancels determines which calls of a history are canceled.
type cancels int

const (
	neverCanceled cancels = iota
	// canceledWithoutAnswer is for clients that receive no answer to a canceled call. For such clients, only calls
	// without effects are canceled.
	canceledWithoutAnswer
	canceledWithAnswer
)

// sequence is a model of a session that runs its calls one after another.
type sequence struct {
	root, dir string
	vars      string
	function  string
	files     map[string]string // content by path
	known     map[string]bool   // set of files that the session has read
	jobs      map[string]string // content of files that jobs write, by path
}

// places lists the directories in a history. In the last directory, tools are not permitted to write.
var places = []string{"", "a", "a/b", "c"}

// newSequence creates the files for a history below root.
func newSequence(t *testing.T, root string) *sequence {
	t.Helper()
	m := &sequence{root: root, dir: root, files: make(map[string]string), known: make(map[string]bool), jobs: make(map[string]string)}
	for _, place := range places {
		dir := filepath.Join(root, place)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		m.files[filepath.Join(dir, "f.txt")] = "dir=" + dir + ";\nn=0\n"
	}
	m.files[filepath.Join(root, "a", "only")] = "only here\n"
	for path, text := range m.files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *sequence) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(m.dir, name)
}

func (m *sequence) isDir(path string) bool {
	return slices.ContainsFunc(places, func(p string) bool { return filepath.Join(m.root, p) == path })
}

// The method "left" compares the files on disk with the files of the model. It waits for files of jobs that are still
// running.
func (m *sequence) left(t *testing.T) (problems []string) {
	t.Helper()
	for path, want := range m.jobs {
		var b []byte
		for range 2000 {
			if b, _ = os.ReadFile(path); len(b) > 0 {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if string(b) != want {
			problems = append(problems, fmt.Sprintf("the job wrote %q to %s, want %q", b, path, want))
		}
	}
	_ = filepath.WalkDir(m.root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || m.jobs[path] != "" {
			return err
		}
		b, err := os.ReadFile(path)
		if want, known := m.files[path]; err != nil || !known || string(b) != want {
			problems = append(problems, fmt.Sprintf("%s has %q, want %q (%v)", path, b, want, err))
		}
		return nil
	})
	for _, path := range slices.Sorted(maps.Keys(m.files)) {
		if _, err := os.Stat(path); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}

func expect(o outcome, ok bool, contains string) string {
	switch {
	case o.ok != ok:
		return fmt.Sprintf("success is %t, want %t", o.ok, ok)
	case !strings.Contains(o.output, contains):
		return fmt.Sprintf("the output lacks %q", contains)
	}
	return ""
}

func bashStep(command string, check func(m *sequence, o outcome) string) step {
	return step{name: "bash", args: map[string]any{"command": command}, check: check}
}

// abilities describes the features of a frontend.
type abilities struct {
	routed  bool // whether it accepts command strings with a route that depends on the directory
	jobs    bool // whether jobs continue after the last call
	cancels cancels
}

// history returns random calls for one session.
func history(rng *rand.Rand, root string, can abilities) []step {
	steps := []step{changeDir(root)}
	for i := range 4 + rng.IntN(8) {
		s := randomStep(rng, root, i, can)
		if rng.IntN(4) == 0 {
			s.pause = time.Duration(rng.IntN(4000)) * time.Microsecond
		}
		steps = append(steps, s)
	}
	return append(steps, bashStep("pwd", func(m *sequence, o outcome) string { return expect(o, true, m.dir+"\n") }))
}

func changeDir(target string) step {
	return bashStep("cd "+target, func(m *sequence, o outcome) string {
		to := m.path(target)
		if o.kind == "canceled" {
			return ""
		}
		if !m.isDir(to) {
			return expect(o, false, "")
		}
		m.dir = to
		return expect(o, true, "")
	})
}

func randomStep(rng *rand.Rand, root string, i int, can abilities) step {
	name := "f.txt"
	if rng.IntN(3) == 0 {
		name = filepath.Join(root, places[rng.IntN(len(places))], "f.txt")
	}
	switch k := rng.IntN(15); {
	case k < 3:
		s := changeDir([]string{"a", "b", "../a", "c", root, filepath.Join(root, "a"), filepath.Join(root, "c"), "a/b"}[rng.IntN(8)])
		if can.cancels == canceledWithAnswer && rng.IntN(8) == 0 {
			s.cancel = time.Duration(rng.IntN(3000)) * time.Microsecond
		}
		return s
	case k == 3:
		return bashStep("pwd", func(m *sequence, o outcome) string { return expect(o, true, m.dir+"\n") })
	case k == 4:
		return bashStep(fmt.Sprintf("echo old=$V; V=%d", i), func(m *sequence, o outcome) string {
			was := m.vars
			m.vars = fmt.Sprint(i)
			return expect(o, true, "old="+was+"\n")
		})
	case k == 5 && rng.IntN(2) == 0:
		return bashStep(fmt.Sprintf("here() { echo $PWD:%d; }", i), func(m *sequence, o outcome) string {
			m.function = fmt.Sprintf(":%d\n", i)
			return expect(o, true, "")
		})
	case k == 5:
		return bashStep("here", func(m *sequence, o outcome) string {
			if m.function == "" {
				return expect(o, false, "")
			}
			return expect(o, true, m.dir+m.function)
		})
	case k < 9:
		return readStep(name)
	case k == 9:
		return writeStep(name, fmt.Sprintf("w%d.txt", i), fmt.Sprintf("written %d\n", i))
	case k == 10:
		return editStep(name, i)
	case k == 11:
		return bashStep(fmt.Sprintf("echo %d >> log.txt", i), func(m *sequence, o outcome) string {
			m.files[m.path("log.txt")] += fmt.Sprintln(i)
			return expect(o, true, "")
		})
	case k == 12 && can.routed:
		return step{command: "read only", check: func(m *sequence, o outcome) string {
			text := m.files[m.path("only")]
			return expect(o, text != "", strings.TrimSpace(text))
		}}
	case k == 13 && can.jobs && rng.IntN(3) == 0:
		s := bashStep(fmt.Sprintf("pwd > job%d.txt", i), func(m *sequence, o outcome) string {
			m.jobs[m.path(fmt.Sprintf("job%d.txt", i))] = m.dir + "\n"
			return expect(o, true, "")
		})
		s.args["run_in_background"] = true
		return s
	case k == 14 && can.cancels != neverCanceled:
		s := bashStep("sleep 5; cd a", func(_ *sequence, o outcome) string {
			if o.kind != "canceled" {
				return "a canceled call ended as " + o.kind
			}
			return ""
		})
		s.cancel = time.Duration(1+rng.IntN(4000)) * time.Microsecond
		return s
	}
	return bashStep("sleep 0.00"+fmt.Sprint(rng.IntN(9)), func(_ *sequence, o outcome) string { return expect(o, true, "") })
}

func readStep(name string) step {
	return step{name: "read", args: map[string]any{"file_path": name}, check: func(m *sequence, o outcome) string {
		path := m.path(name)
		m.known[path] = true
		for line := range strings.Lines(m.files[path]) {
			if problem := expect(o, true, strings.TrimSpace(line)); problem != "" {
				return problem
			}
		}
		return ""
	}}
}

// The method "denied" reports whether the test configuration denies changes of a path.
func (m *sequence) denied(path string) bool { return filepath.Dir(path) == filepath.Join(m.root, "c") }

func writeStep(beside, name, text string) step {
	if filepath.IsAbs(beside) {
		name = filepath.Join(filepath.Dir(beside), name)
	}
	return step{name: "write", args: map[string]any{"file_path": name, "content": text}, check: func(m *sequence, o outcome) string {
		path := m.path(name)
		if m.denied(path) {
			if o.kind != "permission_denied" {
				return "a denied path was not refused: " + o.kind
			}
			return ""
		}
		m.files[path] = text
		return expect(o, true, "")
	}}
}

func editStep(name string, i int) step {
	return step{name: "edit", args: map[string]any{"file_path": name, "old_string": "n=", "new_string": fmt.Sprintf("n=%d,", i)}, check: func(m *sequence, o outcome) string {
		path := m.path(name)
		switch {
		case m.denied(path):
			if o.kind != "permission_denied" {
				return "a denied path was not refused: " + o.kind
			}
			return ""
		case !m.known[path]:
			return expect(o, false, "")
		}
		m.files[path] = strings.Replace(m.files[path], "n=", fmt.Sprintf("n=%d,", i), 1)
		return expect(o, true, "")
	}}
}

// compare applies the calls to the model one after another and returns the differences.
func compare(t *testing.T, m *sequence, steps []step, outcomes []outcome) (problems []string) {
	t.Helper()
	for i, s := range steps {
		dir := m.dir
		if problem := s.check(m, outcomes[i]); problem != "" {
			problems = append(problems, fmt.Sprintf("call %d %s%v%s in %s: %s: %+v", i, s.name, s.args, s.command, dir, problem, outcomes[i]))
		}
	}
	return append(problems, m.left(t)...)
}
