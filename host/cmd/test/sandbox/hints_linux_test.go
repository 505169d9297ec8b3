package sandbox

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/cmd/test/hosttest"
)

// advices contains the forms of advice, and the configuration of an operator who follows it.
var advices = []struct {
	form   *regexp.Regexp
	follow func(m []string) (config string)
}{
	{regexp.MustCompile(`the operator sets (.+?) in the sandbox block of plugin "(\w+)"`), func(m []string) string {
		return fmt.Sprintf("plugin %q {\n  sandbox {\n    %s\n  }\n}\n", m[2], m[1])
	}},
	{regexp.MustCompile(`the operator adds ("\S+") to the list network in the sandbox block of plugin "(\w+)"`), func(m []string) string {
		return fmt.Sprintf("plugin %q {\n  sandbox {\n    network = [%s]\n  }\n}\n", m[2], m[1])
	}},
	{regexp.MustCompile(`the operator adds (writable = .*\]) to the paths block inside the permissions block`), func(m []string) string {
		return "permissions {\n  paths {\n    " + m[1] + "\n  }\n}\n"
	}},
	{regexp.MustCompile(`the operator to add (root .*\}) to the sandbox block`), func(m []string) string {
		return "sandbox {\n  " + m[1] + "\n}\n"
	}},
}

// follow returns the configuration of an operator who follows the advice in a message.
func follow(message string) string {
	for _, a := range advices {
		if m := a.form.FindStringSubmatch(message); m != nil {
			return a.follow(m)
		}
	}
	return ""
}

// TestAdvice checks that commands that the sandbox refuses succeed after the operator followed the advice in the
// message, and that no advice opens more than the call needs.
func TestAdvice(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	if _, err := exec.LookPath("curl"); err != nil {
		need.Missing(t, "there is no curl; install it")
	}
	listed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ANSWERED") }))
	t.Cleanup(listed.Close)
	address := listed.Listener.Addr().String()
	port := address[strings.LastIndexByte(address, ':')+1:]
	dir := t.TempDir()
	dir, err := filepath.EvalSymlinks(dir)
	hosttest.Must(t, err)
	work, outside := filepath.Join(dir, "work"), filepath.Join(dir, "outside")
	for path, text := range map[string]string{
		filepath.Join(work, ".vscode", "settings.json"): "{}\n", filepath.Join(outside, "deep", "program"): "#!/bin/sh\necho ANSWERED\n", filepath.Join(outside, "deep", "file"): "ANSWERED\n",
	} {
		hosttest.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		hosttest.Must(t, os.WriteFile(path, []byte(text), 0o755))
	}
	for name, c := range map[string]struct {
		config, command, advice string
		prefix                  bool // whether the message names a prefix for the command instead of a setting
	}{
		"program":           {"", outside + "/deep/program", `read = ["` + outside + `/deep/program"]`, false},
		"file":              {"", "cat " + outside + "/deep/file", `read = ["` + outside + `/deep/file"]`, false},
		"file of a tool":    {"", "read " + outside + "/deep/file", `root "` + outside + `/deep" {}`, false},
		"directory of list": {"", "list " + outside + "/deep", `root "` + outside + `/deep" {}`, false},
		"new file":          {"", "write " + outside + "/deep/new --content x", `root "` + outside + `/deep" { writable = true }`, false},
		"settings":          {"", "echo ANSWERED > .vscode/settings.json && cat .vscode/settings.json", `writable = [".vscode"]`, false},
		"refused host":      {"plugin \"bash\" {\n  sandbox {\n    network = [\"nowhere.invalid\"]\n  }\n}\n", "curl -fsS --noproxy '' " + listed.URL, address, false},
		"localhost":         {"plugin \"bash\" {\n  sandbox {\n    network = [\"localhost:" + port + "\"]\n  }\n}\n", "curl -s http://localhost:" + port, "network = true", false},
		"localhost address": {"plugin \"bash\" {\n  sandbox {\n    network = [\"" + address + "\"]\n  }\n}\n", "curl -sS " + listed.URL, "NO_PROXY= no_proxy=", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, state := filepath.Join(t.TempDir(), "host.hcl"), hosttest.KeptState(t, filepath.Join(t.TempDir(), "state"))
			run := func(text, command string) (string, error) {
				hosttest.Must(t, os.WriteFile(config, []byte(text), 0o600))
				c := hosttest.Command("--config", config, "--state", state, "--workspace", work, "run", command)
				c.Env = append(os.Environ(), "XDG_RUNTIME_DIR=", "HOME="+dir+"/home")
				out, err := c.CombinedOutput()
				return string(out), err
			}
			before, err := run(c.config, c.command)
			if err == nil || !strings.Contains(before, c.advice) || strings.Contains(before, `root "/"`) || strings.Contains(before, state) {
				t.Fatalf("%v: %s", err, before)
			}
			followed, command := follow(before), c.command
			if c.prefix {
				followed, command = c.config, c.advice+" "+command
			}
			after, err := run(followed, command)
			if err != nil || !strings.Contains(after, "ANSWERED") && !strings.HasPrefix(command, "list") && !strings.HasPrefix(command, "write") {
				t.Errorf("the advice does not help: %s\n%s\n%v: %s", before, followed, err, after)
			}
		})
	}
}
