package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestTapeOfManyCalls records calls of all bundled tools but web_fetch, which needs a network, and replays them. Each call must
// have the same result, apart from times.
func TestTapeOfManyCalls(t *testing.T) {
	t.Parallel()
	const n = 1000
	work, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for i := range 12 {
		must(t, os.WriteFile(filepath.Join(work, fmt.Sprintf("f%d.go", i)), fmt.Appendf(nil, "package p\n\n// F%[1]d returns %[1]d.\nfunc F%[1]d() int {\n\treturn %[1]d\n}\n", i), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(work, "book.ipynb"), []byte(`{"cells":[{"cell_type":"code","id":"a","metadata":{},"outputs":[],"execution_count":null,"source":["x = 1"]}],"metadata":{},"nbformat":4,"nbformat_minor":5}`), 0o600))
	path := filepath.Join(t.TempDir(), "many.tape")
	rec := toolhost(t, work, "--session", "t", "record", "-o", path)
	var recording bytes.Buffer
	rec.Stderr = nil
	out, err := rec.StderrPipe()
	must(t, err)
	rec.Stdout = &recording
	must(t, rec.Start())
	begun := make([]byte, 1)
	_, err = out.Read(begun) // the recording begins with a message
	must(t, err)

	batch := toolhost(t, work, "--session", "t", "--on-ask", "allow", "batch")
	batch.Stdin = strings.NewReader(manyCalls(rand.New(rand.NewPCG(1, 2)), n))
	answers, err := batch.Output()
	must(t, err)
	if got := bytes.Count(answers, []byte("\n")); got != n {
		t.Fatalf("%d calls were answered", got)
	}
	must(t, rec.Process.Signal(syscall.SIGTERM))
	must(t, rec.Wait())

	replay := toolhost(t, work, "--json", "replay", path)
	text, err := replay.Output()
	var report struct {
		Calls []struct {
			Tool, Arguments, Verdict string
			Differences              []map[string]string
		}
		Counts map[string]int
	}
	must(t, json.Unmarshal(text, &report))
	tools := make(map[string]bool)
	for _, c := range report.Calls {
		tools[c.Tool] = true
		if c.Verdict == "different" {
			t.Errorf("%s %s: %v", c.Tool, c.Arguments, c.Differences)
		}
	}
	if err != nil || len(report.Calls) < n*9/10 || len(tools) < 18 {
		t.Errorf("%d calls of %d tools were compared, %v (%v): %s", len(report.Calls), len(tools), report.Counts, err, recording.String())
	}
}

// manyCalls returns requests for a batch. Each call runs after the one before it.
func manyCalls(rng *rand.Rand, n int) string {
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
		}
		command := all[rng.IntN(len(all))]
		if i < len(all) { // each kind at least once
			command = all[i]
		}
		line, _ := json.Marshal(map[string]any{"id": i, "command": command})
		b.Write(append(line, '\n'))
	}
	return b.String()
}
