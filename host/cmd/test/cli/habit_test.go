package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// habitCall is a call in the form that an agent uses. In the call, "$W" is a directory with the files of [habitFiles],
// and "$URL" is the address of a page.
type habitCall struct {
	Agent, Name string
	Args        json.RawMessage
	Tool        string
	// Contains is a part of the expected output. If the call cannot succeed in the test, Fails is a part of the
	// expected error message.
	Contains, Fails string
}

var habitFiles = map[string]string{
	"main.go": "package main\n\nfunc main() {\n\tprintln(\"hi\")\n}\n", "notes.txt": "one\ntwo\nsame\nsame\nlast\n", "src/a.go": "package src\n",
	"img.png":  "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82",
	"nb.ipynb": "{\"cells\":[],\"metadata\":{},\"nbformat\":4,\"nbformat_minor\":5}",
}

// TestHabits runs calls that agents know from other programs. Almost all of these calls must reach the right tool and
// succeed.
func TestHabits(t *testing.T) {
	t.Parallel()
	corpus, err := os.ReadFile("../../../internal/habit/testdata/calls.jsonl")
	hosttest.Must(t, err)
	dir := t.TempDir()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<h1>The page</h1>") }))
	defer site.Close()
	config := filepath.Join(dir, "config", "toolhost", "toolhost.hcl")
	hosttest.Must(t, os.MkdirAll(filepath.Dir(config), 0o700))
	hosttest.Must(t, os.WriteFile(config, fmt.Appendf(nil, "plugin \"web\" {\n  sandbox { network = [%q] }\n}\n", strings.TrimPrefix(site.URL, "http://")), 0o600))
	var calls []habitCall
	var input bytes.Buffer
	for line := range strings.Lines(string(corpus)) {
		var c habitCall
		hosttest.Must(t, json.Unmarshal([]byte(line), &c))
		id := len(calls)
		work := filepath.Join(dir, "work", strconv.Itoa(id))
		for name, content := range habitFiles {
			path := filepath.Join(work, name)
			hosttest.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
			hosttest.Must(t, os.WriteFile(path, []byte(content), 0o600))
		}
		session := "s" + strconv.Itoa(id%16)
		if c.Tool == "edit" || c.Tool == "write" { // agents read a file before they change the file
			fmt.Fprintf(&input, `{"id":"-","session":%q,"name":"read","arguments":{"file_path":%q}}`+"\n", session, filepath.Join(work, "notes.txt"))
		}
		if c.Tool == "notebook_edit" {
			fmt.Fprintf(&input, `{"id":"-","session":%q,"name":"read","arguments":{"file_path":%q}}`+"\n", session, filepath.Join(work, "nb.ipynb"))
		}
		args := bytes.ReplaceAll(bytes.ReplaceAll(c.Args, []byte("$W"), []byte(work)), []byte("$URL"), []byte(site.URL+"/page"))
		fmt.Fprintf(&input, `{"id":%d,"session":%q,"name":%q,"arguments":%s}`+"\n", id, session, c.Name, args)
		calls = append(calls, c)
	}
	if len(calls) < 300 {
		t.Fatalf("the corpus has %d calls", len(calls))
	}
	cmd := hosttest.Command("--state", hosttest.KeptState(t, filepath.Join(dir, "state")), "--workspace", filepath.Join(dir, "work"), "batch")
	cmd.Stdin, cmd.Env = &input, append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	out, err := cmd.Output()
	if len(out) == 0 {
		t.Fatal(err)
	}
	wrong, answered := 0, 0
	for line := range strings.Lines(string(out)) {
		var res struct {
			ID       any
			Success  bool
			Output   any
			Error    *struct{ Kind, Message string }
			Metadata struct{ Tool string }
		}
		hosttest.Must(t, json.Unmarshal([]byte(line), &res))
		id, ok := res.ID.(float64)
		if !ok {
			continue
		}
		answered++
		c := calls[int(id)]
		text, _ := json.Marshal(res.Output)
		good := res.Metadata.Tool == c.Tool && res.Success && strings.Contains(string(text), c.Contains)
		if c.Fails != "" {
			good = res.Metadata.Tool == c.Tool && res.Error != nil && res.Error.Kind != "invalid_arguments" && strings.Contains(res.Error.Message, c.Fails)
		}
		if !good {
			wrong++
			t.Logf("%s: %s %s: %s", c.Agent, c.Name, c.Args, strings.TrimSpace(line))
		}
	}
	if answered != len(calls) || wrong*100 > len(calls) {
		t.Errorf("%d of %d calls were answered, and %d of them went wrong", answered, len(calls), wrong)
	}
}

// maxDefinitions limits the total size of the definitions of the bundled tools, in bytes. The limit matters because
// every request to a model contains the definitions.
const maxDefinitions = 16 << 10

func TestDefinitionsAreSmall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := hosttest.Command("--state", hosttest.KeptState(t, filepath.Join(dir, "state")), "--workspace", dir, "tools", "--format", "anthropic")
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	out, err := cmd.Output()
	hosttest.Must(t, err)
	if len(out) < 4096 || len(out) > maxDefinitions {
		t.Errorf("the definitions have %d bytes, and the limit is %d: shorten them", len(out), maxDefinitions)
	}
}
