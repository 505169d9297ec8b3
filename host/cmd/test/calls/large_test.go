package calls

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// largeConfig adds a mounted server with large results, and a hook that replaces a result by a large one.
const largeConfig = `
field "u" {
  sandbox { read = [%[1]q] }
  mcp { command = [%[2]q, "unruly"] }
}
hook "large" {
  on      = ["after_call"]
  tools   = ["test:echo"]
  command = ["/usr/bin/env", "awk", "BEGIN { printf \"{\\\"result\\\":{\\\"output\\\":\\\"\"; for (i = 0; i < 8000000; i++) printf \"x\"; print \"\\\"}}\" }"]
}
`

// withholding is a hook that withholds the results of a tool.
const withholding = `
hook "private" {
  on      = ["after_call"]
  tools   = ["test:big"]
  command = ["/usr/bin/env", "sh", "-c", "cat > /dev/null; echo it is private >&2; exit 2"]
}
`

// TestWithheldResults checks that a long result that a hook withholds is in no file.
func TestWithheldResults(t *testing.T) {
	t.Parallel()
	for hook, files := range map[string]int{"": 1, withholding: 0} {
		dir := hosttest.MCPDir(t)
		f, err := os.OpenFile(filepath.Join(dir, "toolhost.hcl"), os.O_APPEND|os.O_WRONLY, 0o600)
		hosttest.Must(t, err)
		_, err = f.WriteString(hook)
		hosttest.Must(t, errors.Join(err, f.Close()))
		for _, part := range []string{"text", "data", "error", "attachment"} {
			out, _ := hosttest.Toolhost(t, dir, "--json", "run", `test:big --json '{"mb":6,"part":"`+part+`"}'`).Output() // ignore the error: some calls fail
			if withheld := strings.Contains(string(out), "it is private"); withheld != (files == 0) || len(out) > 400<<10 {
				t.Errorf("%s: %.300s", part, out)
			}
		}
		found, err := filepath.Glob(filepath.Join(dir+".state", "*", "_results", "output", "*"))
		hosttest.Must(t, err)
		if len(found) != 4*files {
			t.Errorf("with the hook %q, there are the files %q", hook, found)
		}
	}
}

// inFile matches the path of a file with a long result.
var inFile = regexp.MustCompile(`(/[^ "\\]+/output/[^ "\\]+\.(?:txt|json|bin))`)

// TestLargeResults makes calls with large results over each way into the host. Each answer must be short and name a
// file that has the whole result, and that the tools of the session can read (requirement E5).
func TestLargeResults(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	f, err := os.OpenFile(filepath.Join(dir, "toolhost.hcl"), os.O_APPEND|os.O_WRONLY, 0o600)
	hosttest.Must(t, err)
	_, err = fmt.Fprintf(f, largeConfig, hosttest.Bin, filepath.Join(hosttest.Bin, "testserver"))
	hosttest.Must(t, err)
	hosttest.Must(t, f.Close())
	base, token := hosttest.Serve(t, dir)
	client, session := hosttest.NewClient(t, base, token), hosttest.LineSession(t, dir)
	doors := map[string]func(name, args string) string{
		"run": func(name, args string) string {
			out, _ := hosttest.Toolhost(t, dir, "--json", "run", strings.Replace(name, "_", ":", 1)+" --json '"+args+"'").Output() // ignore the error: some calls fail
			return string(out)
		},
		"http": func(name, args string) string {
			_, text := client.Do("POST", "/v1/run", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))
			return text
		},
		"mcp": func(name, args string) string {
			session.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, args))
			for {
				line, err := session.Out.ReadString('\n')
				hosttest.Must(t, err)
				if strings.Contains(line, `"id":1`) {
					return line
				}
			}
		},
	}
	for name, c := range map[string]struct {
		tool, args string
		size       int64 // of the file; 0 if no file is expected
	}{
		"text":             {"test_big", `{"mb":60}`, 60 << 20},
		"data":             {"test_big", `{"mb":40,"part":"data"}`, 40<<20 + int64(len(`{"text":""}`))},
		"error":            {"test_big", `{"mb":20,"part":"error"}`, 20 << 20},
		"attachment":       {"test_big", `{"mb":20,"part":"attachment"}`, 20<<20 + 1},
		"title":            {"test_big", `{"mb":20,"part":"title"}`, 0},
		"many parts":       {"test_big", `{"mb":6,"part":"many"}`, 0},
		"streamed":         {"test_big", `{"mb":20,"part":"streamed"}`, 0},
		"mounted text":     {"u_misbehave", `{"text":"large text"}`, 12 << 20},
		"mounted data":     {"u_misbehave", `{"text":"large data"}`, 12<<20 + int64(len(`{"text":""}`))},
		"mounted image":    {"u_misbehave", `{"text":"large image"}`, 9 << 20},
		"result of a hook": {"test_echo", `{"text":"x"}`, 8_000_000},
	} {
		for door, call := range doors {
			answer := call(c.tool, c.args)
			if len(answer) > 400<<10 {
				t.Errorf("%s, %s: the answer has %d bytes", name, door, len(answer))
			}
			if c.size == 0 {
				continue
			}
			found := inFile.FindStringSubmatch(answer)
			if found == nil {
				t.Errorf("%s, %s: no file is named: %.300s … %s", name, door, answer, answer[max(0, len(answer)-1000):])
				continue
			}
			if info, err := os.Stat(found[1]); err != nil || info.Size() != c.size || info.Mode().Perm() != 0o600 {
				t.Errorf("%s, %s: %s: %v, %v", name, door, found[1], info, err)
			}
			if name == "text" {
				quoted, _ := json.Marshal("tail -c 5 " + found[1])
				if read := call("bash", fmt.Sprintf(`{"command":%s}`, quoted)); !strings.Contains(read, "xxxxx") {
					t.Errorf("%s: the file cannot be read: %s", door, read)
				}
			}
		}
	}
}

// TestResultsWithoutRoom makes calls with large results until the files of their principal are full. Each later result
// must say that a part of it is in no file, and what the caller and the operator can do.
func TestResultsWithoutRoom(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPrincipals(t, `
principal "small" {
  limits { output = "1 MiB" }
}
`)
	small := p.As("small")
	const full = "the output files together may have 1048576 bytes, and those of the last minute stay. Ask for less, or call again in a minute, or let the operator raise limits { output } of the principal"
	big := func(part string) string {
		_, body := small.Do("POST", "/v1/run", fmt.Sprintf(`{"name":"test:big","arguments":{"mb":6,"part":%q}}`, part))
		return body
	}
	if got := big("text"); !strings.Contains(got, "the first 1048576 bytes are in ") || !strings.Contains(got, full) {
		t.Errorf("a text that fits in part: %s", got[max(0, len(got)-2000):])
	}
	for _, part := range []string{"text", "data", "error", "attachment"} {
		var all sync.WaitGroup
		for range 4 { // also at the same time
			all.Go(func() {
				if got := big(part); !strings.Contains(got, "could not be kept in a file: "+full) || inFile.MatchString(got) {
					t.Errorf("%s: %.300s … %s", part, got, got[max(0, len(got)-2000):])
				}
			})
		}
		all.Wait()
	}
}
