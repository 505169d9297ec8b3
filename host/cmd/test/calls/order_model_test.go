package calls

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

	"toolhost.dev/host/cmd/test/hosttest"
)

// step is one call in a history. If name is empty, the step is a command string for the router. Otherwise the step is a
// function call.
type step struct {
	Name    string
	Args    map[string]any
	Command string
	// cancel is the time between sending and canceling the call. Zero means that the call is not canceled.
	Cancel time.Duration
	// pause is a delay before sending the call, in which earlier calls can proceed.
	Pause time.Duration
	Check func(m *sequence, o outcome) string
}

// outcome is the observable result of a call for its caller.
type outcome struct {
	Ok     bool
	Kind   string
	Output string
}

// sequence is a model of a session that runs its calls one after another.
type sequence struct {
	Root, Dir string
	Vars      string
	Function  string
	Files     map[string]string // content by path
	Known     map[string]bool   // set of files that the session has read
	Jobs      map[string]string // content of files that jobs write, by path
}

// places lists the directories in a history. In the last directory, tools are not permitted to write.
var places = []string{"", "a", "a/b", "c"}

// Path returns the path of a file that a call names.
func (m *sequence) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(m.Dir, name)
}

// IsDir reports whether a path is one of the places.
func (m *sequence) IsDir(path string) bool {
	return slices.ContainsFunc(places, func(p string) bool { return filepath.Join(m.Root, p) == path })
}

// Left compares the files on disk with the files of the model. It waits for files of jobs that are still
// running.
func (m *sequence) Left(t *testing.T) (problems []string) {
	t.Helper()
	for path, want := range m.Jobs {
		var b []byte
		hosttest.Wait(t, "the job writes to "+path, func() bool {
			b, _ = os.ReadFile(path) // ignore the error: the job has not created the file yet
			return len(b) > 0
		})
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

// Denied reports whether the test configuration denies changes of a path.
func (m *sequence) Denied(path string) bool { return filepath.Dir(path) == filepath.Join(m.Root, "c") }

// Impatient reports whether the call stopped waiting for a slow command. The output contains a note in this case. On a
// busy machine, this also happens with commands that are usually fast, and the results then differ from those of a
// sequential execution.
func (o outcome) Impatient() bool { return strings.Contains(o.Output, "It did not wait for") }

// answers reads the answers to the calls of a history. A canceled call can have no answer.
func answers(t *testing.T, s *hosttest.Session, steps []step) []outcome {
	out := make([]outcome, len(steps))
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
			t.Error(err)
			return out
		}
		var h struct {
			hosttest.Heard
			Result struct {
				Content []struct{ Text string }
				IsError bool
				Meta    struct {
					Error struct{ Kind string } `json:"toolhost.dev/error"`
				} `json:"_meta"`
			}
		}
		if err := json.Unmarshal(line, &h); err != nil {
			t.Errorf("%v: %s", err, line)
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
		out[i] = outcome{Ok: !h.Result.IsError && h.Error == nil, Kind: h.Result.Meta.Error.Kind, Output: text}
		delete(open, i)
	}
	return out
}
