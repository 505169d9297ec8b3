package http

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

const replacedConfig = `host { on_ask = "allow" }
plugin "edit" { enabled = false }
plugin "bash" { enabled = false }
plugin "editor" { path = "%[1]s/edit" }
plugin "shell" {
  path = "%[1]s/bash"
  sandbox { exec = true }
}
`

// TestConsoleOfReplacedTools checks that the pages and buttons of the console that use tools work with plugins of
// others, whose tools have other names: a person reviews and undoes changes, sends a command to the background, and
// ends its job.
func TestConsoleOfReplacedTools(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, replacedConfig, filepath.Join(hosttest.Bin, "renamed")), 0o600))
	base, token := hosttest.Serve(t, dir)
	c := hosttest.NewClient(t, base, token)
	p := logIn(t, base, consoleLink(t, dir))

	file := filepath.Join(dir, "page.txt")
	write := jsonText(map[string]any{"session": "edits", "name": "my_write", "arguments": map[string]any{"file_path": file, "content": "first\n"}})
	c.Want(200, `"success":true`, "POST", "/v1/run", write)
	hosttest.Wait(t, "the session is listed", func() bool { _, body := c.Do("GET", "/v1/status", ""); return strings.Contains(body, `"edits"`) })
	p.shows("/sessions?id=edits&show=changes", "page.txt", "&#43;first")
	p.post("/sessions/undo", url.Values{"id": {"edits"}, "workspace": {dir}, "steps": {"1"}})
	if _, err := os.Stat(file); err == nil {
		t.Error("the change was not undone")
	}
	p.post("/sessions/undo", url.Values{"id": {"edits"}, "workspace": {dir}, "what": {"redo"}, "steps": {"1"}})
	if b, err := os.ReadFile(file); err != nil || string(b) != "first\n" {
		t.Errorf("the change was not redone: %q, %v", b, err)
	}

	ended := make(chan string, 1)
	go func() {
		_, body := c.Do("POST", "/v1/run", `{"session":"long","command":"touch began; sleep 300"}`)
		ended <- body
	}()
	hosttest.Wait(t, "the command runs", func() bool { _, err := os.Stat(filepath.Join(dir, "began")); return err == nil })
	p.post("/calls/background", url.Values{"session": {"long"}, "workspace": {dir}})
	if body := <-ended; !strings.Contains(body, "continues as the job") {
		t.Errorf("the call was not sent to the background: %.400s", body)
	}
	jobs := `{"session":"long","command":"my_job list"}`
	c.Want(200, `"running":true`, "POST", "/v1/run", jobs)
	p.post("/sessions/end", url.Values{"id": {"long"}, "workspace": {dir}})
	c.Want(200, `"running":false`, "POST", "/v1/run", jobs)
}

// person is a person who is logged in to the console.
type person struct {
	t    *testing.T
	base string
	http http.Client
	csrf string
}

// logIn uses a one-time link.
func logIn(t *testing.T, base, link string) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	hosttest.Must(t, err)
	p := &person{t: t, base: base, http: http.Client{Jar: jar}}
	p.get(strings.TrimPrefix(link, base))
	_, rest, _ := strings.Cut(p.get("/sessions"), `name="csrf" value="`)
	p.csrf, _, _ = strings.Cut(rest, `"`)
	return p
}

// get returns a page.
func (p *person) get(path string) string {
	p.t.Helper()
	return p.answer(p.http.Get(p.base + path)) //nolint:noctx // the server of the test
}

// post sends a form, which must succeed.
func (p *person) post(path string, form url.Values) {
	p.t.Helper()
	form.Set("csrf", p.csrf)
	p.answer(p.http.PostForm(p.base+path, form)) //nolint:noctx // the server of the test
}

func (p *person) answer(r *http.Response, err error) string {
	p.t.Helper()
	hosttest.Must(p.t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	hosttest.Must(p.t, err)
	body := string(b)
	if r.StatusCode != http.StatusOK {
		p.t.Errorf("%s: %s: %.600s", r.Request.URL, r.Status, body)
	}
	return body
}

func (p *person) shows(path string, texts ...string) {
	p.t.Helper()
	page := p.get(path)
	for _, text := range texts {
		if !strings.Contains(page, text) {
			p.t.Errorf("%s does not show %q: %.2000s", path, text, page)
		}
	}
}
