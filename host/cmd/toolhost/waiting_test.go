package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tell sends a function call over standard input.
func (s *session) tell(id, name string, args map[string]any) {
	s.t.Helper()
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": "tools/call", "params": map[string]any{"name": name, "arguments": args}})
	must(s.t, err)
	s.say(string(line))
}

// text reads the answer to a call and returns its text.
func (s *session) text(id string) string {
	s.t.Helper()
	h := s.hear(id)
	if h.Error != nil || len(h.Result.Content) == 0 {
		s.t.Fatalf("%s: %+v", id, h)
	}
	return h.Result.Content[0].Text
}

// waitsFor waits until the status of the running host contains a waiting call whose line contains a text.
func waitsFor(t *testing.T, dir, want string) {
	t.Helper()
	text := ""
	for range 600 {
		out, err := toolhost(t, dir, "status").Output()
		must(t, err)
		if text = string(out); strings.Contains(text, want) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the status has no %q:\n%s", want, text)
}

// TestWhatWaitsBehindACommand checks calls that arrive while an endless command runs. The order of the answers shows
// which calls wait.
func TestWhatWaitsBehindACommand(t *testing.T) {
	t.Parallel()
	dir := mcpDir(t)
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	notes := filepath.Join(dir, "notes.txt")
	s := lineSession(t, dir)
	s.tell("1", "read", map[string]any{"file_path": notes})
	s.text("1")

	// This command cannot change the session. Therefore the target of a relative path is known.
	s.tell("10", "bash", map[string]any{"command": "sleep 1000"})
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
		s.tell(id, c.name, c.args)
		if text := s.text(id); !strings.Contains(text, c.want) {
			t.Errorf("%s: %q", c.name, text)
		}
	}
	// A call that depends on the command must wait, and the status must show the reason.
	s.tell("30", "edit", map[string]any{"file_path": "notes.txt", "old_string": "one", "new_string": "1"})
	waitsFor(t, dir, "waits for bash: sleep 1000 (the command can change files)")
	s.tell("31", "read", map[string]any{"file_path": notes}) // a waiting call will change this file
	s.tell("32", "bash", map[string]any{"command": "cd sub"})
	s.tell("33", "read", map[string]any{"file_path": "../notes.txt"})
	waitsFor(t, dir, "waits for edit: notes.txt (the call names a file that is being changed)")
	s.tell("34", "job", map[string]any{"action": "list"})
	id, _, _ := strings.Cut(s.text("34"), " ")
	s.tell("35", "job", map[string]any{"action": "background", "id": id})
	answers := make(map[string]string)
	for range 6 {
		line, err := s.out.ReadBytes('\n')
		must(t, err)
		var h heard
		must(t, json.Unmarshal(line, &h))
		if h.Method == "" && len(h.Result.Content) > 0 {
			answers[string(h.ID)] = h.Result.Content[0].Text
		}
	}
	for id, want := range map[string]string{"10": "was sent to the background", "30": "", "31": "1\ntwo\n", "32": "", "33": "1\ntwo\n", "35": "continues as the job"} {
		if text, ok := answers[id]; !ok || !strings.Contains(text, want) {
			t.Errorf("%s: %q, want %q", id, text, want)
		}
	}
	s.tell("40", "job", map[string]any{"action": "kill", "id": id})
	s.text("40")
}
