package calls

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestWhatWaitsBehindACommand checks calls that arrive while an endless command runs. The order of the answers shows
// which calls wait.
func TestWhatWaitsBehindACommand(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	hosttest.Must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	notes := filepath.Join(dir, "notes.txt")
	s := hosttest.LineSession(t, dir)
	s.Tell("1", "read", map[string]any{"file_path": notes})
	s.Text("1")

	// This command cannot change the session. Therefore the target of a relative path is known.
	s.Tell("10", "bash", map[string]any{"command": "sleep 1000"})
	for i, c := range []struct {
		name, want string
		args       map[string]any
	}{
		{"read", "one\ntwo\n", map[string]any{"file_path": notes}},
		{"read", "one\ntwo\n", map[string]any{"file_path": "notes.txt"}},
		{"test_echo", "hi", map[string]any{"text": "hi"}},
		{"job", "running in the foreground", map[string]any{"action": "list"}},
		{"ask_user", "", map[string]any{"question": "really?"}},
	} {
		id := fmt.Sprint(20 + i)
		s.Tell(id, c.name, c.args)
		if text := s.Text(id); !strings.Contains(text, c.want) {
			t.Errorf("%s: %q", c.name, text)
		}
	}
	// A call that depends on the command must wait, and the status must show the reason.
	s.Tell("30", "edit", map[string]any{"file_path": "notes.txt", "old_string": "one", "new_string": "1"})
	hosttest.WaitsFor(t, dir, "waits for bash: sleep 1000 (the command can change files)")
	s.Tell("31", "read", map[string]any{"file_path": notes}) // a waiting call will change this file
	s.Tell("32", "bash", map[string]any{"command": "cd sub"})
	s.Tell("33", "read", map[string]any{"file_path": "../notes.txt"})
	hosttest.WaitsFor(t, dir, "waits for edit: notes.txt (the call names a file that is being changed)")
	s.Tell("34", "job", map[string]any{"action": "list"})
	id, _, _ := strings.Cut(s.Text("34"), " ")
	s.Tell("35", "job", map[string]any{"action": "background", "id": id})
	answers := make(map[string]string)
	for range 6 {
		line, err := s.Out.ReadBytes('\n')
		hosttest.Must(t, err)
		var h hosttest.Heard
		hosttest.Must(t, json.Unmarshal(line, &h))
		if h.Method == "" && len(h.Result.Content) > 0 {
			answers[string(h.ID)] = h.Result.Content[0].Text
		}
	}
	for id, want := range map[string]string{"10": "was sent to the background", "30": "", "31": "1\ntwo\n", "32": "", "33": "1\ntwo\n", "35": "continues as the job"} {
		if text, ok := answers[id]; !ok || !strings.Contains(text, want) {
			t.Errorf("%s: %q, want %q", id, text, want)
		}
	}
	s.Tell("40", "job", map[string]any{"action": "kill", "id": id})
	s.Text("40")
}
