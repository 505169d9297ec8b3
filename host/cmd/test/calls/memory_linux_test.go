package calls

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// changing adds a copy of the test plugin whose large results come from a tool that can change files, so that each of
// them has a stream of its own.
const changing = `
plugin "other" {
  path  = %q
  field = "other"
}
`

// memoryOf returns a figure of a process from /proc, in MiB.
func memoryOf(t *testing.T, pid int, name string) (mib int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	hosttest.Must(t, err)
	_, rest, _ := strings.Cut(string(b), name+":")
	if _, err := fmt.Sscan(rest, &mib); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return mib >> 10
}

// TestManyLargeResults makes many calls with large results at the same time. The host must not need the memory for all
// of them, and must give back what it needed. Each result must arrive (requirement E5).
func TestManyLargeResults(t *testing.T) {
	t.Parallel()
	count, mb := 12, 40 // a host without a limit needs three times as much as the results have together
	if hosttest.Long() {
		count, mb = 16, 60
	}
	overHTTP := func(t *testing.T, dir, name, args string) {
		base, token := hosttest.Serve(t, dir)
		client := hosttest.NewClient(t, base, token)
		var all sync.WaitGroup
		for i := range count {
			all.Go(func() {
				if _, text := client.Do("POST", "/v1/run", fmt.Sprintf(`{"name":%q,"arguments":%s,"session":"s%d"}`, name, args, i)); inFile.FindString(text) == "" {
					t.Errorf("%.300s", text)
				}
			})
		}
		all.Wait()
	}
	overMCP := func(t *testing.T, dir, name, args string) {
		session := hosttest.LineSession(t, dir)
		for i := range count {
			session.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, i, name, args))
		}
		for found := 0; found < count; {
			line, err := session.Out.ReadString('\n')
			hosttest.Must(t, err)
			if strings.Contains(line, `"result"`) {
				found++
				if inFile.FindString(line) == "" {
					t.Errorf("%.300s", line)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		call       func(t *testing.T, dir, name, args string)
		tool, args string
	}{
		"streams":         {overHTTP, "other_big", `{"mb":%d}`},
		"structured data": {overHTTP, "other_big", `{"mb":%d,"part":"data"}`},
		"one stream":      {overMCP, "test_big", `{"mb":%d}`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := hosttest.MCPDir(t)
			program, err := os.ReadFile(filepath.Join(hosttest.Bin, "testplugin"))
			hosttest.Must(t, err)
			other := filepath.Join(t.TempDir(), "other")
			hosttest.Must(t, os.WriteFile(other, append(program, "\n!variant name=other changes=yes\n"...), 0o700))
			f, err := os.OpenFile(filepath.Join(dir, "toolhost.hcl"), os.O_APPEND|os.O_WRONLY, 0o600)
			hosttest.Must(t, err)
			_, err = fmt.Fprintf(f, changing, other)
			hosttest.Must(t, err)
			hosttest.Must(t, f.Close())
			c.call(t, dir, c.tool, fmt.Sprintf(c.args, mb))
			all := hosttest.Descendants()
			at := slices.IndexFunc(all, func(p hosttest.Process) bool { return p.Name() == "toolhost" && p.Dir() == dir })
			if at < 0 {
				t.Fatalf("the host is missing: %v", all)
			}
			host := all[at].PID
			if peak := memoryOf(t, host, "VmHWM"); peak > 800 {
				t.Errorf("the host needed %d MiB", peak)
			}
			hosttest.Wait(t, "the host to give back the memory", func() bool { return memoryOf(t, host, "VmRSS") < 200 })
		})
	}
}
