package http

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestTokenFiles checks that a server makes missing files with tokens, which only the user can read, and that the next
// server uses the same tokens.
func TestTokenFiles(t *testing.T) {
	t.Parallel()
	dir, keys := hosttest.MCPDir(t), t.TempDir()
	files := []string{filepath.Join(keys, "token"), filepath.Join(keys, "approver")}
	var first [2]string
	for start := range 2 {
		s := hosttest.StartServer(t, dir, nil, "--listen", "127.0.0.1:0", "--token-file", files[0], "--approver-token-file", files[1])
		for i, path := range files {
			b, err := os.ReadFile(path)
			hosttest.Must(t, err)
			st, err := os.Stat(path)
			hosttest.Must(t, err)
			token := strings.TrimSpace(string(b))
			if start == 0 {
				first[i] = token
			}
			if token != first[i] || len(token) < 20 || st.Mode().Perm() != 0o600 {
				t.Errorf("start %d: %s has %q with the mode %s, want %q", start, path, token, st.Mode(), first[i])
			}
		}
		hosttest.NewClient(t, s.Base, first[0]).Want(200, `"output":"x\n"`, "POST", "/v1/run", `{"command":"echo x"}`)
		hosttest.NewClient(t, s.Base, first[1]).Want(200, "[", "GET", "/v1/asks", "")
		hosttest.NewClient(t, s.Base, hosttest.ServerToken).Want(401, "", "POST", "/v1/run", `{"command":"echo x"}`)
		hosttest.Must(t, s.Cmd.Process.Signal(os.Interrupt))
		s.WantEnd(t)
	}
	if rest, err := os.ReadDir(keys); err != nil || len(rest) != len(files) {
		t.Errorf("%v are left, %v", rest, err)
	}
}

// TestTokensAreNotPrinted checks that the tokens of token files are nowhere else: not in the output of the server, of
// tools and of other commands, and not in the state directory.
func TestTokensAreNotPrinted(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		dir, keys := hosttest.MCPDir(t), t.TempDir()
		files := []string{filepath.Join(keys, "token"), filepath.Join(keys, "approver")}
		log, err := os.Create(filepath.Join(keys, "log"))
		hosttest.Must(t, err)
		t.Cleanup(func() { _ = log.Close() })
		c := hosttest.Toolhost(t, dir, "serve", "--listen", "127.0.0.1:0", "--token-file", files[0], "--approver-token-file", files[1], "--log-format", format, "--log-level", "debug")
		c.Stdout, c.Stderr = log, log
		hosttest.Must(t, c.Start())
		t.Cleanup(func() { _ = c.Process.Kill() })
		read := func(name string) string {
			b, err := os.ReadFile(name)
			hosttest.Must(t, err)
			return strings.TrimSpace(string(b))
		}
		address := regexp.MustCompile(`listening on (http://[0-9.:]+)`)
		hosttest.Wait(t, "the server listens", func() bool { return address.MatchString(read(log.Name())) })
		base, tokens := address.FindStringSubmatch(read(log.Name()))[1], []string{read(files[0]), read(files[1])}
		var all strings.Builder
		for _, token := range append(tokens, tokens[0]+"x", "") { // also those that are refused
			client := hosttest.NewClient(t, base, token)
			for _, path := range []string{"/v1/status", "/v1/stats", "/v1/log", "/v1/asks", "/v1/tools", "/metrics", "/", "/nowhere?token=" + token[:min(4, len(token))]} {
				_, body := client.Do("GET", path, "")
				all.WriteString(body)
			}
			_, body := client.Do("POST", "/v1/run", `{"command":"env; tr '\\0' '\\n' < /proc/$PPID/environ; tr '\\0' ' ' < /proc/$PPID/cmdline"}`)
			all.WriteString(body)
		}
		for _, args := range [][]string{{"status", "--json"}, {"log", "--json"}, {"doctor", "--json"}, {"config", "show"}} {
			command := hosttest.Toolhost(t, dir, args...)
			command.Stderr = nil
			out, _ := command.CombinedOutput()
			all.Write(out)
		}
		hosttest.Must(t, c.Process.Signal(os.Interrupt))
		hosttest.Must(t, c.Wait())
		all.WriteString(read(log.Name()))
		hosttest.Must(t, filepath.WalkDir(dir+".state", func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				all.WriteString(read(path))
			}
			return err
		}))
		if !strings.Contains(all.String(), "a new token is in "+files[0]) || !strings.Contains(all.String(), `"plugins"`) {
			t.Error("the output is not complete")
		}
		for i, token := range tokens {
			if at := strings.Index(all.String(), token); at >= 0 || len(token) < 20 {
				t.Errorf("%s: the token in %s was printed: …%s", format, files[i], all.String()[max(0, at-200):max(0, at)])
			}
		}
	}
}
