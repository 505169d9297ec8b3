package calls

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cancels determines which calls of a history are canceled.
type cancels int

const (
	neverCanceled cancels = iota
	// canceledWithoutAnswer is for clients that receive no answer to a canceled call. For such clients, only calls
	// without effects are canceled.
	canceledWithoutAnswer
	canceledWithAnswer
)

// newSequence creates the files for a history below root.
func newSequence(t *testing.T, root string) *sequence {
	t.Helper()
	m := &sequence{Root: root, Dir: root, Files: make(map[string]string), Known: make(map[string]bool), Jobs: make(map[string]string)}
	for _, place := range places {
		dir := filepath.Join(root, place)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		m.Files[filepath.Join(dir, "f.txt")] = "dir=" + dir + ";\nn=0\n"
	}
	m.Files[filepath.Join(root, "a", "only")] = "only here\n"
	for path, text := range m.Files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func expect(o outcome, ok bool, contains string) string {
	switch {
	case o.Ok != ok:
		return fmt.Sprintf("success is %t, want %t", o.Ok, ok)
	case !strings.Contains(o.Output, contains):
		return fmt.Sprintf("the output lacks %q", contains)
	}
	return ""
}

func bashStep(command string, check func(m *sequence, o outcome) string) step {
	return step{Name: "bash", Args: map[string]any{"command": command}, Check: check}
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
			s.Pause = time.Duration(rng.IntN(4000)) * time.Microsecond
		}
		steps = append(steps, s)
	}
	return append(steps, bashStep("pwd", func(m *sequence, o outcome) string { return expect(o, true, m.Dir+"\n") }))
}

func changeDir(target string) step {
	return bashStep("cd "+target, func(m *sequence, o outcome) string {
		to := m.Path(target)
		if o.Kind == "canceled" {
			return ""
		}
		if !m.IsDir(to) {
			return expect(o, false, "")
		}
		m.Dir = to
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
			s.Cancel = time.Duration(rng.IntN(3000)) * time.Microsecond
		}
		return s
	case k == 3:
		return bashStep("pwd", func(m *sequence, o outcome) string { return expect(o, true, m.Dir+"\n") })
	case k == 4:
		return bashStep(fmt.Sprintf("echo old=$V; V=%d", i), func(m *sequence, o outcome) string {
			was := m.Vars
			m.Vars = fmt.Sprint(i)
			return expect(o, true, "old="+was+"\n")
		})
	case k == 5 && rng.IntN(2) == 0:
		return bashStep(fmt.Sprintf("here() { echo $PWD:%d; }", i), func(m *sequence, o outcome) string {
			m.Function = fmt.Sprintf(":%d\n", i)
			return expect(o, true, "")
		})
	case k == 5:
		return bashStep("here", func(m *sequence, o outcome) string {
			if m.Function == "" {
				return expect(o, false, "")
			}
			return expect(o, true, m.Dir+m.Function)
		})
	case k < 9:
		return readStep(name)
	case k == 9:
		return writeStep(name, fmt.Sprintf("w%d.txt", i), fmt.Sprintf("written %d\n", i))
	case k == 10:
		return editStep(name, i)
	case k == 11:
		return bashStep(fmt.Sprintf("echo %d >> log.txt", i), func(m *sequence, o outcome) string {
			m.Files[m.Path("log.txt")] += fmt.Sprintln(i)
			return expect(o, true, "")
		})
	case k == 12 && can.routed:
		return step{Command: "read only", Check: func(m *sequence, o outcome) string {
			text := m.Files[m.Path("only")]
			return expect(o, text != "", strings.TrimSpace(text))
		}}
	case k == 13 && can.jobs && rng.IntN(3) == 0:
		s := bashStep(fmt.Sprintf("pwd > job%d.txt", i), func(m *sequence, o outcome) string {
			m.Jobs[m.Path(fmt.Sprintf("job%d.txt", i))] = m.Dir + "\n"
			return expect(o, true, "")
		})
		s.Args["run_in_background"] = true
		return s
	case k == 14 && can.cancels != neverCanceled:
		s := bashStep("sleep 5; cd a", func(_ *sequence, o outcome) string {
			if o.Kind != "canceled" {
				return "a canceled call ended as " + o.Kind
			}
			return ""
		})
		s.Cancel = time.Duration(1+rng.IntN(4000)) * time.Microsecond
		return s
	}
	return bashStep("sleep 0.00"+fmt.Sprint(rng.IntN(9)), func(_ *sequence, o outcome) string { return expect(o, true, "") })
}

func readStep(name string) step {
	return step{Name: "read", Args: map[string]any{"file_path": name}, Check: func(m *sequence, o outcome) string {
		path := m.Path(name)
		m.Known[path] = true
		for line := range strings.Lines(m.Files[path]) {
			if problem := expect(o, true, strings.TrimSpace(line)); problem != "" {
				return problem
			}
		}
		return ""
	}}
}

func writeStep(beside, name, text string) step {
	if filepath.IsAbs(beside) {
		name = filepath.Join(filepath.Dir(beside), name)
	}
	return step{Name: "write", Args: map[string]any{"file_path": name, "content": text}, Check: func(m *sequence, o outcome) string {
		path := m.Path(name)
		if m.Denied(path) {
			if o.Kind != "permission_denied" {
				return "a denied path was not refused: " + o.Kind
			}
			return ""
		}
		m.Files[path] = text
		return expect(o, true, "")
	}}
}

func editStep(name string, i int) step {
	return step{Name: "edit", Args: map[string]any{"file_path": name, "old_string": "n=", "new_string": fmt.Sprintf("n=%d,", i)}, Check: func(m *sequence, o outcome) string {
		path := m.Path(name)
		switch {
		case m.Denied(path):
			if o.Kind != "permission_denied" {
				return "a denied path was not refused: " + o.Kind
			}
			return ""
		case !m.Known[path]:
			return expect(o, false, "")
		}
		m.Files[path] = strings.Replace(m.Files[path], "n=", fmt.Sprintf("n=%d,", i), 1)
		return expect(o, true, "")
	}}
}

// compare applies the calls to the model one after another and returns the differences.
func compare(t *testing.T, m *sequence, steps []step, outcomes []outcome) (problems []string) {
	t.Helper()
	for i, s := range steps {
		dir := m.Dir
		if problem := s.Check(m, outcomes[i]); problem != "" {
			problems = append(problems, fmt.Sprintf("call %d %s%v%s in %s: %s: %+v", i, s.Name, s.Args, s.Command, dir, problem, outcomes[i]))
		}
	}
	return append(problems, m.Left(t)...)
}
