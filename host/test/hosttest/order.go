package hosttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Step is one call in a history. If name is empty, the step is a command string for the router. Otherwise the step is a
// function call.
type Step struct {
	Name    string
	Args    map[string]any
	Command string
	// cancel is the time between sending and canceling the call. Zero means that the call is not canceled.
	Cancel time.Duration
	// pause is a delay before sending the call, in which earlier calls can proceed.
	Pause time.Duration
	Check func(m *Sequence, o Outcome) string
}

// Outcome is the observable result of a call for its caller.
type Outcome struct {
	Ok     bool
	Kind   string
	Output string
}

// Sequence is a model of a session that runs its calls one after another.
type Sequence struct {
	Root, Dir string
	Vars      string
	Function  string
	Files     map[string]string // content by path
	Known     map[string]bool   // set of files that the session has read
	Jobs      map[string]string // content of files that jobs write, by path
}

// Places lists the directories in a history. In the last directory, tools are not permitted to write.
var Places = []string{"", "a", "a/b", "c"}

func (m *Sequence) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(m.Dir, name)
}

func (m *Sequence) IsDir(path string) bool {
	return slices.ContainsFunc(Places, func(p string) bool { return filepath.Join(m.Root, p) == path })
}

// The method "left" compares the files on disk with the files of the model. It waits for files of jobs that are still
// running.
func (m *Sequence) Left(t *testing.T) (problems []string) {
	t.Helper()
	for path, want := range m.Jobs {
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
	_ = filepath.WalkDir(m.Root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || m.Jobs[path] != "" {
			return err
		}
		b, err := os.ReadFile(path)
		if want, known := m.Files[path]; err != nil || !known || string(b) != want {
			problems = append(problems, fmt.Sprintf("%s has %q, want %q (%v)", path, b, want, err))
		}
		return nil
	})
	for _, path := range slices.Sorted(maps.Keys(m.Files)) {
		if _, err := os.Stat(path); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}

// The method "denied" reports whether the test configuration denies changes of a path.
func (m *Sequence) Denied(path string) bool { return filepath.Dir(path) == filepath.Join(m.Root, "c") }

// Impatient reports whether the call stopped waiting for a slow command. The output contains a note in this case. On a
// busy machine, this also happens with commands that are usually fast, and the results then differ from those of a
// sequential execution.
func (o Outcome) Impatient() bool { return strings.Contains(o.Output, "It did not wait for") }

// Answers reads the answers to the calls of a history. A canceled call can have no answer.
func (s *session) Answers(steps []Step) []Outcome {
	out := make([]Outcome, len(steps))
	open := make(map[int]bool) // calls that must be answered
	for i := range out {
		if steps[i].Cancel > 0 {
			out[i].Kind = "canceled" // an answer replaces this value
		} else {
			open[i] = true
		}
	}
	for len(open) > 0 { // the last call runs last, but answers to other calls can arrive after its answer
		line, err := s.Out.ReadBytes('\n')
		if err != nil {
			s.t.Error(err)
			return out
		}
		var h struct {
			Heard
			Result struct {
				Content []struct{ Text string }
				IsError bool
				Meta    struct {
					Error struct{ Kind string } `json:"toolhost.dev/error"`
				} `json:"_meta"`
			}
		}
		if err := json.Unmarshal(line, &h); err != nil {
			s.t.Errorf("%v: %s", err, line)
			return out
		}
		i, err := strconv.Atoi(string(h.ID))
		if h.Method != "" || err != nil {
			continue
		}
		text := ""
		for _, c := range h.Result.Content {
			text += c.Text
		}
		out[i] = Outcome{Ok: !h.Result.IsError && h.Error == nil, Kind: h.Result.Meta.Error.Kind, Output: text}
		delete(open, i)
	}
	return out
}

// Tell sends a function call over standard input.
func (s *session) Tell(id, name string, args map[string]any) {
	s.t.Helper()
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": "tools/call", "params": map[string]any{"name": name, "arguments": args}})
	Must(s.t, err)
	s.Say(string(line))
}

// Text reads the answer to a call and returns its text.
func (s *session) Text(id string) string {
	s.t.Helper()
	h := s.Hear(id)
	if h.Error != nil || len(h.Result.Content) == 0 {
		s.t.Fatalf("%s: %+v", id, h)
	}
	return h.Result.Content[0].Text
}

// WaitsFor waits until the status of the running host contains a waiting call whose line contains a text.
func WaitsFor(t *testing.T, dir, want string) {
	t.Helper()
	text := ""
	for range 600 {
		out, err := Toolhost(t, dir, "status").Output()
		Must(t, err)
		if text = string(out); strings.Contains(text, want) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the status has no %q:\n%s", want, text)
}
