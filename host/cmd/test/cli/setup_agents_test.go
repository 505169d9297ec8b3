//go:build oracle

package cli

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// realAgent is an agent from npm.
type realAgent struct {
	name string
	// program is a glob pattern for the agent's program, below the directory of the packages. A program that is a
	// script is run with node.
	program string
	// These are texts with which the agent's list marks a server. The text "started" marks a server that runs, and
	// "reached" marks a server that answers. The text "project" marks a server of a project, which the agent uses only
	// after its user agrees. Codex does not connect to servers for its list, so it shows only that they are enabled.
	started, reached, project string
}

var realAgents = []realAgent{
	{"claude", "@anthropic-ai/claude-code-linux-*/claude", "✔ Connected", "✔ Connected", "Pending approval"},
	{"codex", "@openai/codex-linux-*/vendor/*/bin/codex", "enabled", "enabled", "enabled"},
	{"gemini", "@google/gemini-cli/bundle/gemini.js", "Connected", "Connected", "Connected"},
	{"opencode", "opencode-linux-*/bin/opencode", "connected", "connected", "connected"},
}

// TestSetupOfRealAgents checks that each agent lists the servers that toolhost setup configured: a server over stdio,
// an endpoint, a server over HTTP with a token in the settings, and a server over HTTP with a token in the environment.
// The test runs only if TOOLHOST_AGENTS names the directory of the packages, because they take 0.8 GB (make
// soak-agents).
func TestSetupOfRealAgents(t *testing.T) {
	packages := os.Getenv("TOOLHOST_AGENTS")
	if packages == "" {
		t.Skip("TOOLHOST_AGENTS is not set; run make soak-agents")
	}
	for _, a := range realAgents {
		t.Run(a.name, func(t *testing.T) { a.check(t, packages) })
	}
}

func (a *realAgent) check(t *testing.T, packages string) {
	programs, err := filepath.Glob(filepath.Join(packages, a.program))
	if err != nil || len(programs) == 0 {
		t.Fatalf("%s is not installed: %v", a.program, err)
	}
	command := programs[:1]
	if filepath.Ext(command[0]) == ".js" {
		command = []string{hosttest.Peer(t, "node_modules/node/bin/node"), command[0]}
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	t.Chdir(home)
	for name, value := range map[string]string{
		"HOME": home, "PATH": hosttest.Bin + ":" + os.Getenv("PATH"), "XDG_STATE_HOME": t.TempDir(), "XDG_CONFIG_HOME": home + "/.config", "XDG_DATA_HOME": home + "/.data",
		"CODEX_HOME": "", "CLAUDE_CONFIG_DIR": "", "TOOLHOST_TOKEN": "", "GEMINI_CLI_TRUST_WORKSPACE": "true", "DISABLE_AUTOUPDATER": "1",
	} {
		t.Setenv(name, value)
	}
	hosttest.Must(t, os.MkdirAll(home+"/.config/toolhost", 0o700))
	hosttest.Must(t, os.WriteFile(home+"/.config/toolhost/toolhost.hcl", []byte("endpoint \"review\" {\n  tools = [\"read\", \"grep\"]\n}\n"), 0o600))
	work, project := home+"/work", home+"/project"
	hosttest.Must(t, os.Mkdir(work, 0o700))
	hosttest.Must(t, os.Mkdir(project, 0o700))
	base := serveUntilEnd(t, work)
	for _, c := range []struct {
		dir, want, mark string
		args            []string
	}{
		{work, "toolhost mcp", a.started, nil},
		{work, "toolhost mcp --endpoint review", a.started, []string{"--endpoint", "review"}},
		{work, base + "/mcp", a.reached, []string{"--url", base}},
		{work, base + "/mcp/review", a.reached, []string{"--url", base, "--endpoint", "review"}},
		{project, base + "/mcp", a.project, []string{"--project", "--url", base}},
		{project, "toolhost mcp --endpoint review", a.project, []string{"--project", "--stdio", "--endpoint", "review"}},
	} {
		if c.dir == project { // otherwise, the user's server and the project's server would have the same name
			output(t, work, filepath.Join(hosttest.Bin, "toolhost"), "setup", a.name, "--undo", "--yes")
		}
		setup := append([]string{"setup", a.name, "--yes"}, c.args...)
		out := output(t, c.dir, filepath.Join(hosttest.Bin, "toolhost"), setup...)
		if _, token, ok := strings.Cut(out, "export TOOLHOST_CLIENT_TOKEN="); ok {
			token, _, _ = strings.Cut(token, "\n")
			t.Setenv("TOOLHOST_CLIENT_TOKEN", token)
		}
		if a.name == "codex" && c.dir == project { // codex reads only the settings of trusted projects
			f, err := os.OpenFile(home+"/.codex/config.toml", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
			hosttest.Must(t, err)
			_, err = io.WriteString(f, "[projects.\""+project+"\"]\ntrust_level = \"trusted\"\n")
			hosttest.Must(t, err)
			hosttest.Must(t, f.Close())
		}
		list := output(t, c.dir, command[0], append(command[1:], "mcp", "list")...)
		if flat := strings.Join(strings.Fields(list), " "); !strings.Contains(flat, c.want) || !strings.Contains(flat, c.mark) {
			t.Errorf("toolhost %s: the agent lists\n%s\nwant %q and %q", strings.Join(setup, " "), list, c.want, c.mark)
		}
	}
	output(t, project, filepath.Join(hosttest.Bin, "toolhost"), "setup", a.name, "--project", "--undo", "--yes")
	if list := output(t, project, command[0], append(command[1:], "mcp", "list")...); strings.Contains(list, "toolhost") {
		t.Errorf("after toolhost setup --undo, the agent lists\n%s", list)
	}
}

// serveUntilEnd runs "toolhost serve" until the test ends, and returns its address.
func serveUntilEnd(t *testing.T, dir string) string {
	t.Helper()
	log := filepath.Join(dir, "served")
	out, err := os.Create(log)
	hosttest.Must(t, err)
	defer out.Close() // the server has its own descriptor
	c := hosttest.Command("serve", "--listen", "127.0.0.1:0")
	c.Dir, c.Stderr = dir, out
	hosttest.Must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
	})
	for {
		b, err := os.ReadFile(log)
		hosttest.Must(t, err)
		if _, rest, ok := strings.Cut(string(b), "listening on "); ok && strings.Contains(rest, "\n") {
			base, _, _ := strings.Cut(rest, "\n")
			return base
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the server does not listen")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// output runs a program and returns its output.
func output(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = dir
	b, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, b)
	}
	return string(b)
}
