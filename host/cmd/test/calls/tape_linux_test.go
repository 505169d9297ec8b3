package calls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestTapeOfManyCalls records calls of all bundled tools and replays them. Each call must have the same result, apart
// from times. web_fetch reads the pages of a server that the test starts.
func TestTapeOfManyCalls(t *testing.T) {
	t.Parallel()
	n := 300
	if hosttest.Long() {
		n = 1000
	}
	work, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	for i := range 12 {
		hosttest.Must(t, os.WriteFile(filepath.Join(work, fmt.Sprintf("f%d.go", i)), fmt.Appendf(nil, "package p\n\n// F%[1]d returns %[1]d.\nfunc F%[1]d() int {\n\treturn %[1]d\n}\n", i), 0o600))
	}
	hosttest.Must(t, os.WriteFile(filepath.Join(work, "book.ipynb"), []byte(`{"cells":[{"cell_type":"code","id":"a","metadata":{},"outputs":[],"execution_count":null,"source":["x = 1"]}],"metadata":{},"nbformat":4,"nbformat_minor":5}`), 0o600))
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Duration(rand.IntN(1000))*time.Hour).Format(http.TimeFormat))
		if r.URL.Path == "/missing" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, "<title>Page</title><h1>%s</h1><p>A <a href=/x>link</a></p>", html.EscapeString(r.URL.Path))
	}))
	t.Cleanup(pages.Close)
	config := filepath.Join(t.TempDir(), "host.hcl") // a project file would not be trusted in the copy of the workspace
	hosttest.Must(t, os.WriteFile(config, fmt.Appendf(nil, "plugin \"web\" {\n  sandbox { network = [%q] }\n}\n", pages.Listener.Addr()), 0o600))
	path := filepath.Join(t.TempDir(), "many.tape")
	rec := hosttest.Toolhost(t, work, "--config", config, "--session", "t", "record", "-o", path)
	var recording bytes.Buffer
	rec.Stderr = nil
	out, err := rec.StderrPipe()
	hosttest.Must(t, err)
	rec.Stdout = &recording
	hosttest.Must(t, rec.Start())
	begun := make([]byte, 1)
	_, err = out.Read(begun) // wait for the message that the recording has begun
	hosttest.Must(t, err)

	batch := hosttest.Toolhost(t, work, "--config", config, "--session", "t", "--on-ask", "allow", "batch")
	batch.Stdin = strings.NewReader(manyCalls(rand.New(rand.NewPCG(1, 2)), n, pages.URL))
	answers, err := batch.Output()
	hosttest.Must(t, err)
	if got := bytes.Count(answers, []byte("\n")); got != n {
		t.Fatalf("%d calls were answered", got)
	}
	hosttest.Must(t, rec.Process.Signal(syscall.SIGTERM))
	hosttest.Must(t, rec.Wait())

	replay := hosttest.Toolhost(t, work, "--config", config, "--json", "replay", path)
	text, err := replay.Output()
	var report struct {
		Calls []struct {
			Tool, Arguments, Verdict string
			Differences              []map[string]string
		}
		Counts map[string]int
	}
	hosttest.Must(t, json.Unmarshal(text, &report))
	tools := make(map[string]bool)
	for _, c := range report.Calls {
		tools[c.Tool] = true
		if c.Verdict == "different" {
			t.Errorf("%s %s: %v", c.Tool, c.Arguments, c.Differences)
		}
	}
	for _, name := range bundledTools(t, work, config) {
		if !tools[name] {
			t.Errorf("no call of %s is on the tape", name)
		}
	}
	if err != nil || len(report.Calls) < n*9/10 {
		t.Errorf("%d calls of %d tools were compared, %v (%v): %s", len(report.Calls), len(tools), report.Counts, err, recording.String())
	}
}

// bundledTools returns the names of the enabled tools that plugins serve.
func bundledTools(t *testing.T, work, config string) []string {
	t.Helper()
	out, err := hosttest.Toolhost(t, work, "--config", config, "tools", "--format", "json").Output()
	hosttest.Must(t, err)
	var all []struct{ Name, Plugin string }
	hosttest.Must(t, json.Unmarshal(out, &all))
	var names []string
	for _, a := range all {
		if a.Plugin != "" {
			names = append(names, a.Name)
		}
	}
	return names
}

// manyCalls returns requests for a batch. Each call runs after the one before it.
func manyCalls(rng *rand.Rand, n int, pages string) string {
	var b strings.Builder
	for i := range n {
		f := fmt.Sprintf("f%d.go", rng.IntN(12))
		all := []string{
			"read " + f, "read " + f + " --limit 2", "read missing.go", "read book.ipynb", "list", "glob '*.go'", "grep return", "grep 'F[0-9]+' --output_mode count",
			"code_query F" + strconv.Itoa(rng.IntN(12)), "edit " + f + " --old_string return --new_string 'return 0 +'", "edit " + f + " --old_string absent --new_string x",
			"write new" + strconv.Itoa(rng.IntN(4)) + ".txt 'text " + strconv.Itoa(i) + "'", "undo", "redo", "undo --file_path " + f,
			"cd sub 2>/dev/null || mkdir -p sub; N=" + strconv.Itoa(i) + "; date", "cd ..; cd - >/dev/null; echo $N; ls", "wc -l *.go | tail -1", "exit 3",
			`todo --todos '[{"content":"task ` + strconv.Itoa(i) + `","status":"pending"}]'`, "todo", "snippet_save s" + strconv.Itoa(rng.IntN(3)) + " --code 'x = " + strconv.Itoa(i) + "'",
			"snippet_load s0", "snippet_list", "snippet_delete s1", "job list", "ask_user 'Which?'", "notebook_edit book.ipynb --cell_id a --new_source 'x = " + strconv.Itoa(i) + "'",
			"web_fetch " + pages + "/p" + strconv.Itoa(rng.IntN(4)), "web_fetch " + pages + "/missing",
		}
		command := all[rng.IntN(len(all))]
		if i < len(all) { // make a call of each kind at least once
			command = all[i]
		}
		line, _ := json.Marshal(map[string]any{"id": i, "command": command})
		b.Write(append(line, '\n'))
	}
	return b.String()
}
