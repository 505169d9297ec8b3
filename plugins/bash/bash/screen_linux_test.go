package bash

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

// TestScreensF8 checks requirement F8: a full-screen program ends at once with a hint, however the command starts the
// program. In batch mode, the program runs normally.
func TestScreensF8(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"vim", "view", "nano", "top", "less"} {
		script := "#!/bin/sh\nprintf '\\033[2Jdrawn'\ncase \"$1\" in --batch) exit 0;; esac\nwhile :; do sleep 1; done\n"
		if name == "less" {
			script = "#!/bin/sh\nsleep 1; cat\n"
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for command, want := range map[string]string{
		"vim notes.txt":                  "vim needs a screen, and commands have none. Instead of it, read files with read, and change them with edit.",
		"view notes.txt":                 "view needs a screen, and commands have none. Instead of it, read files with read.",
		"echo x | env A=1 nano -w x":     "nano needs a screen",
		"f() { top; }; f":                "Instead of it, run top -b -n 1, or ps.",
		"vim --batch notes.txt; echo x":  "",
		"echo vim | less":                "",
		"echo not a terminal >&2; false": "[Commands have no terminal. Use the program without a screen, such as top -b -n 1, or another tool.]",
	} {
		t.Run(command, func(t *testing.T) {
			s := newHost(t).session()
			r := s.call(t.Context(), args{Command: "PATH=" + dir + ":$PATH; " + command})
			if want == "" {
				if r.Error != nil || strings.Contains(r.Output, "screen") {
					t.Fatalf("%v, %q", r.Error, r.Output)
				}
				return
			}
			if r.Error == nil || r.Error.Kind != tool.ExecutionFailed || !strings.Contains(r.Error.Message, want) || strings.Contains(r.Error.Message, "drawn") {
				t.Fatalf("%v, %q", r.Error, r.Output)
			}
		})
	}
}
