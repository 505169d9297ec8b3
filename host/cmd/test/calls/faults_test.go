package calls

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// fault is a part of a configuration that fails. In the texts, WORK is the workspace, BIN has the programs, and OUT is
// a directory outside of the workspace.
type fault struct {
	config string
	files  map[string]string // in the workspace, before the review
	broken map[string]string // the same files afterwards; "" removes a file
	trust  bool              // whether the user trusts the files before they change
	call   string            // a call that needs the part
	reason string
	remedy string
	// If "starts" is true, only a start of the plugin shows the fault, and the doctor starts no plugin.
	starts bool
}

const served = `
  sandbox { read = ["BIN"] }
  mcp {
    command = ["sh", "WORK/server.sh"]
    env     = { PATH = "BIN:/usr/bin:/bin" }
  }
`

var faults = map[string]fault{
	"code of a field changed": {
		config: `field "m" {` + served + `}`, files: map[string]string{"server.sh": "exec testserver plain\n"}, broken: map[string]string{"server.sh": "exec testserver plain\n:\n"},
		trust: true, call: "m:echo hi", reason: `server.sh of field "m" changed since it was trusted`, remedy: "toolhost trust",
	},
	"code of a field is not trusted": {
		config: `field "m" {` + served + `}`, files: map[string]string{"server.sh": "exec testserver plain\n"},
		call: "m:echo hi", reason: `server.sh of field "m" is in a directory that tools can write`, remedy: "toolhost trust",
	},
	"the trust store is damaged": {
		config: `field "m" {` + served + `}`, files: map[string]string{"server.sh": "exec testserver plain\n"}, broken: map[string]string{"../state/toolhost/trust.json": "{"},
		trust: true, call: "m:echo hi", reason: "trust.json", remedy: "toolhost trust",
	},
	"a variable of the environment is missing": {
		config: "field \"m\" {\n  mcp { command = [\"sh\", env(\"NO_SUCH_VARIABLE\")] }\n}",
		call:   "m:echo hi", reason: "the environment variable NO_SUCH_VARIABLE is not set", remedy: "give a default",
	},
	"definitions are missing": {
		config: "field \"m\" {\n  function {\n    command = [\"true\"]\n    file    = \"missing.json\"\n  }\n}",
		call:   "m:echo hi", reason: "the definitions cannot be read", remedy: "missing.json",
	},
	"a server does not exist": {
		config: "field \"m\" {\n  mcp { command = [\"/nonexistent/server\"] }\n}", call: "m:echo hi", reason: "/nonexistent/server", remedy: "toolhost status", starts: true,
	},
	"a plugin does not exist": {
		config: "plugin \"p\" {\n  path  = \"/nonexistent/plugin\"\n  field = \"m\"\n}", call: "m:echo hi", reason: "the file /nonexistent/plugin does not exist", remedy: "build or install",
	},
	"a plugin changed": {
		config: "plugin \"m\" {\n  path  = \"WORK/p\"\n  field = \"m\"\n}", files: map[string]string{"p": "#!/bin/sh\nexec BIN/testplugin\n"}, broken: map[string]string{"p": "#!/bin/sh\nexec BIN/testplugin \n"},
		trust: true, call: "m:echo hi", reason: "changed since it was trusted", remedy: "toolhost trust",
	},
	"a plugin is no plugin": {
		config: "plugin \"m\" {\n  path  = \"/bin/true\"\n  field = \"m\"\n}", call: "m:echo hi", reason: "Plugin m", remedy: "toolhost status", starts: true,
	},
	"a plugin cannot be confined": {
		config: "sandbox { backend = \"none\" }\nplugin \"m\" {\n  path  = \"BIN/testplugin\"\n  field = \"m\"\n  sandbox { enforce = \"require\" }\n}",
		call:   "m:echo hi", reason: "must run confined", remedy: "toolhost doctor",
	},
	"the lock file is damaged": {
		config: "plugin \"m\" {\n  path  = \"BIN/testplugin\"\n  field = \"m\"\n}", broken: map[string]string{"../config/toolhost/toolhost.lock.json": "{"},
		call: "m:echo hi", reason: "toolhost.lock.json", remedy: "toolhost",
	},
	"a hook does not exist": {
		config: hookOf(`["/nonexistent/hook"]`), call: "glob x", reason: "/nonexistent/hook",
	},
	"a hook changed": {
		config: lax(hookOf(`["WORK/hook"]`)), files: map[string]string{"hook": "#!/bin/sh\n"}, broken: map[string]string{"hook": "#!/bin/sh\n:\n"},
		trust: true, call: "glob x", reason: `hook of hook "h" changed since it was trusted`, remedy: "toolhost trust",
	},
	"a hook was removed": {
		config: lax(hookOf(`["WORK/hook"]`)), files: map[string]string{"hook": "#!/bin/sh\n"}, broken: map[string]string{"hook": ""},
		trust: true, call: "glob x", reason: "hook does not exist",
	},
	"a hook needs a missing variable": {
		config: lax(hookOf(`[env("NO_SUCH_VARIABLE")]`)), call: "glob x", reason: "the environment variable NO_SUCH_VARIABLE is not set", remedy: "give a default",
	},
	"a project file with a hook changed": {
		files: map[string]string{"toolhost.hcl": hookOf(`["true"]`)}, broken: map[string]string{"toolhost.hcl": hookOf(`["false"]`)},
		trust: true, call: "glob x", reason: "toolhost.hcl changed since it was trusted", remedy: "toolhost trust",
	},
	"a project file with a hook was removed": {
		files: map[string]string{"toolhost.hcl": hookOf(`["true"]`)}, broken: map[string]string{"toolhost.hcl": ""},
		trust: true, call: "glob x", reason: "toolhost.hcl was trusted and no longer exists", remedy: "toolhost trust",
	},
	"a server lost a tool that a rule names": {
		config: "field \"m\" {\n  sandbox { read = [\"BIN\"] }\n  mcp { command = [\"BIN/testserver\", \"plain\"] }\n}\npermissions {\n  deny \"d\" { tool = [\"m:lost\"] }\n}",
		call:   "m:lost", reason: "lost",
	},
}

// hookOf returns a hook that judges the tool glob.
func hookOf(command string) string {
	return "hook \"h\" {\n  on      = [\"before_call\"]\n  tools   = [\"glob\"]\n  command = " + command + "\n}\n"
}

// lax returns a hook whose failures permit calls. A refusal must not permit them, because a tool could otherwise turn
// off the hook by changing its program.
func lax(hook string) string { return strings.Replace(hook, "}", "  on_failure = \"allow\"\n}", 1) }

// TestFaults breaks one part of a configuration at a time. On each frontend, a call that needs the part must fail with
// the reason and the remedy, and another tool must work. The commands status and doctor must name the fault.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := hosttest.NewOperator(t, "")
			work := filepath.Join(o.Dir, "work")
			fill := strings.NewReplacer("WORK", work, "BIN", hosttest.Bin).Replace
			write := func(files map[string]string) {
				for file, text := range files {
					path := filepath.Join(work, file)
					hosttest.Must(t, os.RemoveAll(path))
					if text != "" {
						hosttest.Must(t, os.WriteFile(path, []byte(fill(text)), 0o700))
					}
				}
			}
			o.Configure(fill(f.config))
			write(map[string]string{"a.txt": "works\n"})
			write(f.files)
			if f.trust {
				args := ""
				if f.config != "" {
					args = " --config " + o.Dir + "/config/toolhost/toolhost.hcl"
				}
				var review struct{ Digest string }
				hosttest.Must(t, json.Unmarshal([]byte(o.Run(0, "toolhost trust --json"+args)), &review))
				o.Run(0, "toolhost trust --accept "+review.Digest+args)
			}
			write(f.broken)
			calls := []string{"read a.txt", f.call}
			check := func(front string, results map[string]string) {
				t.Helper()
				if got := results["read a.txt"]; !strings.Contains(got, "works") {
					t.Errorf("%s: read: %s", front, got)
				}
				if got := results[f.call]; !strings.Contains(got, f.reason) || !strings.Contains(got, f.remedy) {
					t.Errorf("%s: %s: %s", front, f.call, got)
				}
			}
			check("run", map[string]string{"read a.txt": o.Run(0, "toolhost run 'read a.txt'"), f.call: o.Run(1, "toolhost run '"+f.call+"' 2>&1")})
			var lines strings.Builder
			for _, call := range calls {
				fmt.Fprintf(&lines, `{"id":%q,"command":%q}`+"\n", call, call)
			}
			check("batch", results(t, o, "toolhost batch", lines.String(), calls...))
			check("mcp", results(t, o, "toolhost mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":"read a.txt","method":"tools/call","params":{"name":"read","arguments":{"file_path":"a.txt"}}}
`+mcpCall(f.call), calls...))
			check("serve", posted(t, o, calls))
			for _, command := range []string{"toolhost status 2>&1", "toolhost doctor"} {
				want := f.reason
				if command == "toolhost doctor" && f.starts {
					want = "needs: unknown until the first start"
				}
				if out, _ := o.Command(command).CombinedOutput(); !strings.Contains(string(out), want) {
					t.Errorf("%s: no %q in\n%s", command, want, out)
				}
			}
		})
	}
}

// mcpCall returns the line for a call of a client.
func mcpCall(command string) string {
	name, arguments := strings.ReplaceAll(strings.Fields(command)[0], ":", "_"), `{"text":"hi"}`
	if name == "glob" {
		arguments = `{"pattern":"x"}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", command, name, arguments)
}

// results runs a command that answers lines by lines, and returns the answers to the calls by their id.
func results(t *testing.T, o *hosttest.Operator, command, lines string, calls ...string) map[string]string {
	t.Helper()
	c := o.Command(command)
	in, out := hosttest.Piped(t, c)
	_, err := io.WriteString(in, lines)
	hosttest.Must(t, err)
	answers := make(map[string]string)
	for len(answers) < len(calls) {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v, the answers are %q", command, err, answers)
		}
		var answer struct{ ID any }
		if json.Unmarshal([]byte(line), &answer) == nil && slices.Contains(calls, fmt.Sprint(answer.ID)) {
			answers[fmt.Sprint(answer.ID)] = strings.ReplaceAll(line, `\"`, `"`)
		}
	}
	hosttest.Must(t, in.Close())
	_ = c.Wait() // the status of a batch is that of its calls
	return answers
}

// posted makes calls through a server.
func posted(t *testing.T, o *hosttest.Operator, calls []string) map[string]string {
	t.Helper()
	c := o.Command("exec toolhost serve --listen 127.0.0.1:0")
	said, err := c.StderrPipe()
	hosttest.Must(t, err)
	hosttest.Must(t, c.Start())
	var base, token string
	log := bufio.NewReader(said)
	for base == "" || token == "" {
		line, err := log.ReadString('\n')
		if err != nil {
			t.Fatalf("the server does not listen: %v", err)
		}
		if _, addr, ok := strings.Cut(line, "listening on "); ok {
			base = strings.TrimSpace(addr)
		}
		if _, rest, ok := strings.Cut(line, "token "); ok {
			token = strings.Fields(rest)[0]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	defer func() {
		hosttest.Must(t, c.Process.Signal(os.Interrupt))
		_ = c.Wait()
	}()
	answers := make(map[string]string)
	client := hosttest.NewClient(t, base, token)
	for _, call := range calls {
		code, text := client.Do(http.MethodPost, "/v1/run", fmt.Sprintf(`{"command":%q}`, call))
		if code != http.StatusOK {
			t.Errorf("%s: status %d: %s", call, code, text)
		}
		answers[call] = strings.ReplaceAll(text, `\"`, `"`)
	}
	return answers
}
