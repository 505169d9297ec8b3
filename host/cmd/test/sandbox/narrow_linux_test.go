package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestNarrowing checks that a running server removes rights as soon as they are removed from the configuration. This
// must also happen if another part of the configuration does not work: a hook whose program does not exist, a plugin
// that does not start, or a privilege increase that was not approved.
func TestNarrowing(t *testing.T) {
	conf, root := t.TempDir(), t.TempDir()
	file, plugin := filepath.Join(conf, "toolhost.hcl"), filepath.Join(conf, "testplugin")
	t.Setenv("TOOLHOST_CONFIG", file)
	hosttest.Must(t, os.WriteFile(filepath.Join(root, "f"), []byte("in the root\n"), 0o600))
	program, err := os.ReadFile(filepath.Join(hosttest.Bin, "testplugin"))
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(plugin, program, 0o700))
	base := fmt.Sprintf(hosttest.MCPConfig, plugin)
	const people = "principal \"alice\" {}\nprincipal \"ops\" { role = \"administrator\" }\n"
	rooted := fmt.Sprintf("sandbox {\n  root %q {}\n}\n", root)
	write := func(text ...string) {
		t.Helper()
		next := filepath.Join(conf, "next")
		hosttest.Must(t, os.WriteFile(next, []byte(strings.Join(text, "")), 0o600))
		hosttest.Must(t, os.Rename(next, file))
	}
	write(base, rooted, people, "principal \"bob\" {}\n")
	p := &hosttest.Principals{T: t, Dir: hosttest.MCPDir(t)}
	hosttest.Must(t, os.Remove(filepath.Join(p.Dir, "toolhost.hcl")))
	p.Base, _ = hosttest.Serve(t, p.Dir)
	alice, bob, ops := p.As("alice"), p.As("bob"), p.As("ops")
	read := fmt.Sprintf(`{"command":"read %s/f"}`, root)
	bob.Want(200, "in the root", "POST", "/v1/run", read)
	alice.Want(200, "hi", "POST", "/v1/run", `{"command":"echo hi"}`)

	// The configuration has a hook that cannot run. It also removes a root, a principal, two tools and a command.
	write(base, "principal \"bob\" {}\nprincipal \"ops\" { role = \"administrator\" }\n", `
tool "glob" { enabled = false }
tool "edit" { enabled = false }
permissions {
  deny "secrets" { command = "echo secret *" }
}
hook "guard" {
  on      = ["before_call"]
  command = ["/nonexistent/guard"]
}
`)
	hosttest.Wait(t, "alice is removed", func() bool { code, _ := alice.Do("POST", "/v1/run", `{"command":"echo hi"}`); return code == 401 })
	bob.Want(200, "is outside of the roots", "POST", "/v1/run", read)
	bob.Want(200, `"success":false`, "POST", "/v1/run", fmt.Sprintf(`{"command":"cat %s/f"}`, root))
	bob.Want(200, "disabled", "POST", "/v1/run", `{"command":"tool:edit notes.txt"}`)
	bob.Want(200, `denied by deny \"secrets\"`, "POST", "/v1/run", `{"command":"echo secret x"}`)
	bob.Want(200, `"output":"hi\n"`, "POST", "/v1/run", `{"command":"echo hi"}`) // succeeds because the hook is not active
	ops.Want(200, "The restrictions in it apply already: tools cannot use the root "+root, "GET", "/v1/status", "")
	ops.Want(200, "config_refused", "GET", "/v1/status", "")

	// The restrictions stay until a person decides to restore the old configuration, because that increases privileges.
	write(base, rooted, people, "principal \"bob\" {}\n")
	hosttest.Wait(t, "going back is refused", func() bool {
		_, body := ops.Do("GET", "/v1/status", "")
		return strings.Contains(body, "increases privileges: tools may read in "+root)
	})
	alice.Want(401, "", "POST", "/v1/run", `{"command":"echo hi"}`)
	out, err := hosttest.Toolhost(t, p.Dir, "config", "reload").Output()
	if err != nil || !strings.Contains(string(out), "configuration reloaded") {
		t.Errorf("%v %s", err, out)
	}
	alice.Want(200, "hi", "POST", "/v1/run", `{"command":"echo hi"}`)
	bob.Want(200, "in the root", "POST", "/v1/run", read)
	ops.Want(200, "alice", "GET", "/v1/log", "")

	// The configuration has a privilege increase that needs an approval, and a restriction. The restriction must apply.
	write(base, rooted, people, "principal \"bob\" { tools = [\"read\"] }\nprincipal \"eve\" {}\n")
	hosttest.Wait(t, "bob may only read", func() bool {
		_, body := bob.Do("POST", "/v1/run", `{"command":"echo hi"}`)
		return strings.Contains(body, "may not call")
	})
	bob.Want(200, "in the root", "POST", "/v1/run", read)

	// The plugin no longer starts, and the configuration removes one of its rights. The old process must not serve with
	// the old right.
	alice.Want(200, "hi", "POST", "/v1/run", `{"command":"field:test echo hi"}`)
	hosttest.Must(t, os.WriteFile(plugin+".next", []byte("#!/bin/sh\nexit 3\n"), 0o700))
	hosttest.Must(t, os.Rename(plugin+".next", plugin))
	write(strings.Replace(base, "field = \"test\"\n", "field = \"test\"\n  sandbox { roots = \"none\" }\n", 1), rooted, people, "principal \"bob\" { tools = [\"read\"] }\n")
	hosttest.Wait(t, "the plugin is stopped", func() bool {
		_, body := alice.Do("POST", "/v1/run", `{"command":"field:test echo hi"}`)
		return strings.Contains(body, "takes rights away from it")
	})
	alice.Want(200, "in the root", "POST", "/v1/run", read)
	hosttest.Must(t, os.WriteFile(plugin+".next", program, 0o700))
	hosttest.Must(t, os.Rename(plugin+".next", plugin))
	hosttest.Wait(t, "the repaired plugin serves", func() bool {
		_, body := alice.Do("POST", "/v1/run", `{"command":"field:test echo hi"}`)
		return strings.Contains(body, `"output":"hi`)
	})
	out, err = hosttest.Toolhost(t, p.Dir, "log", "--administration", "--json").Output()
	hosttest.Must(t, err)
	for _, want := range []string{`"restricted":[`, "the principal alice is removed", "plugin test cannot read in the roots"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the audit log lacks %s", want)
		}
	}
}
