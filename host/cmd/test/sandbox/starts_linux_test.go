package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// earlyServer is a mounted server that makes repositories when it starts, before it has a tool that can be called.
const earlyServer = `#!/bin/sh
for r in config hook alternates; do git init -q made/$r; done
git -C made/config config core.fsmonitor /bin/true
cp /bin/true made/hook/.git/hooks/pre-commit
echo /etc/objects > made/alternates/.git/objects/info/alternates
git -C own config core.fsmonitor /bin/false
exec "$@"
`

// TestRepositoriesOfStarts checks that the host searches what a mounted server wrote before its first call. With the
// search off, everything stays. That shows that the server writes it.
func TestRepositoriesOfStarts(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"ns", "landlock"} {
		for mode, stays := range map[string]bool{"quarantine": false, "off": true} {
			t.Run(backend+" "+mode, func(t *testing.T) {
				t.Parallel()
				dir := hosttest.MCPDir(t)
				programs := t.TempDir()
				hosttest.Must(t, os.WriteFile(filepath.Join(programs, "server"), []byte(earlyServer), 0o755))
				config := fmt.Sprintf("sandbox {\n  backend = %q\n  repositories = %q\n}\nplugin \"bash\" {}\nfield \"early\" {\n  sandbox { read = [%q, %q] }\n  mcp { command = [%q, %q, \"unruly\"] }\n}\n",
					backend, mode, programs, hosttest.Bin, filepath.Join(programs, "server"), filepath.Join(hosttest.Bin, "testserver"))
				hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600))
				git := filepath.Join(dir, "own", ".git")
				hosttest.Must(t, os.MkdirAll(filepath.Join(git, "objects"), 0o700))
				hosttest.Must(t, os.MkdirAll(filepath.Join(git, "refs"), 0o700))
				hosttest.Must(t, os.WriteFile(filepath.Join(git, "HEAD"), []byte("ref: refs/heads/main\n"), 0o600))
				hosttest.Must(t, os.WriteFile(filepath.Join(git, "config"), []byte("[alias]\n\tmine = !true\n"), 0o600))
				if out, err := hosttest.Toolhost(t, dir, "tools").Output(); err != nil || !strings.Contains(string(out), "early:echo") {
					t.Fatalf("%s: %v", out, err)
				}
				if out, err := hosttest.Toolhost(t, dir, "run", "echo first call").Output(); err != nil {
					t.Fatalf("%s: %v", out, err)
				}
				text := func(path string) string {
					b, _ := os.ReadFile(filepath.Join(dir, path)) // ignore the error: the file may have been moved
					return string(b)
				}
				for what, there := range map[string]bool{
					"settings":                 strings.Contains(text("made/config/.git/config"), "fsmonitor"),
					"hook":                     text("made/hook/.git/hooks/pre-commit") != "",
					"alternates":               text("made/alternates/.git/objects/info/alternates") != "",
					"settings in an older one": strings.Contains(text("own/.git/config"), "fsmonitor"),
				} {
					if there != stays {
						t.Errorf("%s: there %t, want %t", what, there, stays)
					}
				}
				if !strings.Contains(text("own/.git/config"), "mine = !true") {
					t.Error("a setting from before the start was moved")
				}
			})
		}
	}
}
