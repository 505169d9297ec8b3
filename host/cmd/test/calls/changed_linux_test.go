package calls

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestChangedDuringAsk checks that a script or program which changes between a question and its answer does not run,
// and that the same call can be repeated. A script that does not change runs.
func TestChangedDuringAsk(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	file := filepath.Join(dir, "toolhost.hcl")
	config, err := os.ReadFile(file)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(file, append(config, "permissions {\n  ask \"running\" { command = [\"sh tool\", \"./tool\", \". *\", \"timeout *\", \"bash\"] }\n}\n"...), 0o600))
	base, token := hosttest.Serve(t, dir)
	caller, approver := hosttest.NewClient(t, base, token), hosttest.NewClient(t, base, hosttest.ApproverToken)
	script, done := filepath.Join(dir, "tool"), filepath.Join(dir, "done")
	ran := func(text string) bool {
		b, _ := os.ReadFile(done)
		return string(b) == text+"\n"
	}
	write := func(text string) {
		hosttest.Must(t, os.WriteFile(script, []byte("#!/bin/sh\necho "+text+" > done\n"), 0o700))
	}
	for _, command := range []string{"sh tool", "./tool", ". ./tool", "timeout 60 sh tool", "cat tool | bash", "bash < tool"} {
		for _, changed := range []bool{true, false} {
			_ = os.Remove(done)
			write("asked")
			result := make(chan string, 1)
			go func() {
				request, _ := json.Marshal(map[string]string{"command": command})
				_, body := caller.Do("POST", "/v1/run", string(request))
				result <- body
			}()
			var list []struct{ ID string }
			hosttest.Wait(t, command+": the ask is in the list", func() bool {
				if len(result) > 0 {
					t.Fatalf("%s: nobody was asked: %s", command, <-result)
				}
				_, body := approver.Do("GET", "/v1/asks", "")
				return json.Unmarshal([]byte(body), &list) == nil && len(list) == 1
			})
			if changed {
				write("other")
			}
			approver.Want(200, "accepted", "POST", "/v1/asks/"+list[0].ID, `{"outcome":"accepted"}`)
			body := <-result
			if refused := strings.Contains(body, script+" changed after the call was permitted"); refused != changed || ran("other") || ran("asked") == changed {
				t.Errorf("%s, changed: %v: %s", command, changed, body)
			}
		}
	}
}
