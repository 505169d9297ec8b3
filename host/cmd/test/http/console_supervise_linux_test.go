package http

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/cmd/test/hosttest"
)

// desk opens a page in a window as wide as a desktop screen.
func desk(c *hosttest.Client, path string) chromedp.Tasks {
	return chromedp.Tasks{hosttest.Look(1280, "light"), chromedp.Navigate(c.Base + path), hosttest.Appears("h1")}
}

// promote starts the rollout of a version with hostile texts and promotes the version by hand. Then it approves the
// changed definitions of its tools.
func promote(t *testing.T, ctx context.Context, c *hosttest.Client, plugin string, program []byte) {
	t.Helper()
	var text string
	hosttest.Must(t, os.WriteFile(plugin+".next", append(program[:len(program):len(program)], []byte("\n!variant version=<img/src=x/onerror=window.owned=1>\u202e\x1b[31m wrong=1 reword=yes\n")...), 0o700))
	hosttest.Must(t, os.Rename(plugin+".next", plugin))
	hosttest.Must(t, chromedp.Run(ctx, desk(c, "/rollouts"), hosttest.Appears(`[aria-label="Rollout of test"] [value=promote]`)))
	hostile := jsonText(map[string]any{"name": "echo", "arguments": map[string]string{"text": "<script>window.owned=1</script><img src=x onerror=\"window.owned=1\">\x1b[31m\u202egnp"}})
	for range 4 {
		c.Want(200, `"success":true`, "POST", "/v1/run", hostile)
	}
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Appears(`[aria-label="Rollout of test"] details dl`), chromedp.Evaluate(`document.querySelectorAll("details").forEach(d => d.open = true)`, nil), hosttest.Reads(`[aria-label="Rollout of test"]`, &text)))
	for _, want := range []string{`\u202egnp or so"`, "new <img/src=x/onerror=window.owned=1>‹U+202E›", "differences"} {
		if !strings.Contains(text, want) {
			t.Errorf("the rollout lacks %q: %q", want, text)
		}
	}
	var owned bool
	hosttest.Must(t, chromedp.Run(ctx, chromedp.Evaluate("!!window.owned || document.querySelector('#live img, #live script') !== null", &owned)))
	if owned || strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("hostile texts of a rollout reached the browser: %q", text)
	}
	if found := hosttest.Axe(ctx, t); found != "" {
		t.Errorf("rollouts with differences: %s", found)
	}
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Press(`[aria-label="Rollout of test"] [value=promote]`), hosttest.Disappears(`[aria-label="Rollout of test"] [value=promote]`), hosttest.Reads("#live", &text)))
	if !strings.Contains(text, "promoted") {
		t.Errorf("after the promotion: %q", text)
	}
	c.Want(200, "or so", "POST", "/v1/run", hostile)
	hosttest.Must(t, chromedp.Run(ctx, desk(c, "/tools"), hosttest.Appears(`[aria-label="Approve test"]`), hosttest.Reads("#live", &text)))
	if !strings.Contains(text, "definitions changed") {
		t.Errorf("the tools are %q", text)
	}
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Press(`[aria-label="Approve test"]`), hosttest.Disappears(`[aria-label="Approve test"]`)))
	c.Want(200, `"(approve)"`, "GET", "/v1/log?layer=administration&text=approve", "")
}

// reviewChanges views the diffs of a session's changes. Then it undoes all changes after a certain change, and redoes
// one of them.
func reviewChanges(t *testing.T, ctx context.Context, c *hosttest.Client, dir string) {
	t.Helper()
	call := func(name string, arguments map[string]any) {
		t.Helper()
		c.Want(200, `"success":true`, "POST", "/v1/run", jsonText(map[string]any{"session": "edits", "name": name, "arguments": arguments}))
	}
	file := filepath.Join(dir, "page.html")
	call("write", map[string]any{"file_path": file, "content": "<p>first</p>\n"})
	call("edit", map[string]any{"file_path": file, "old_string": "first", "new_string": "<img src=x onerror=\"window.owned=1\">\u202e"})
	call("write", map[string]any{"file_path": filepath.Join(dir, "second.txt"), "content": "second\n"})
	var text string
	hosttest.Must(t, chromedp.Run(ctx, desk(c, "/sessions?id=edits"), hosttest.Press(`a[href$="show=changes"]`), hosttest.Appears("pre.diff"), hosttest.Reads("main", &text)))
	for _, want := range []string{"+++ b/page.html", `+<p><img src=x onerror="window.owned=1">‹U+202E›</p>`, "--- /dev/null", "+second"} {
		if !strings.Contains(text, want) {
			t.Errorf("the changes lack %q: %q", want, text)
		}
	}
	hosttest.Shot(ctx, t, "changes")
	if found := hosttest.Axe(ctx, t); found != "" {
		t.Errorf("changes: %s", found)
	}
	content := func(want string) {
		t.Helper()
		hosttest.Wait(t, "the file has its content", func() bool { b, err := os.ReadFile(file); return err == nil && strings.Contains(string(b), want) })
	}
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Press(`[aria-label^="Undo edit page.html"]`), hosttest.Appears(`[aria-label^="Redo to write second.txt"]`)))
	content("<p>first</p>")
	if _, err := os.Stat(filepath.Join(dir, "second.txt")); err == nil {
		t.Error("the later change is not undone")
	}
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Press(`[aria-label^="Redo to edit page.html"]`), hosttest.Appears(`[aria-label^="Undo edit page.html"]`)))
	content("onerror")
	var owned bool
	hosttest.Must(t, chromedp.Run(ctx, chromedp.Evaluate("!!window.owned", &owned)))
	if owned {
		t.Error("a diff ran a script")
	}
}

// supervise uses the pages with which a person controls a running host. It sends a command to the background, ends a
// session, pauses and aborts a rollout, and promotes another rollout. It also approves definitions, pins a plugin,
// applies a branch, and discards another branch.
func supervise(t *testing.T, ctx context.Context, c *hosttest.Client, dir, plugin string, program []byte) {
	t.Helper()
	var text string
	at := func(path string) chromedp.Tasks { return desk(c, path) }

	// A running command continues as a job, and ends when its session ends.
	ended := make(chan string, 1)
	go func() {
		_, body := c.Do("POST", "/v1/run", `{"session":"long","command":"touch began; sleep 300"}`)
		ended <- body
	}()
	hosttest.Wait(t, "the command runs", func() bool { _, err := os.Stat(filepath.Join(dir, "began")); return err == nil })
	hosttest.Must(t, chromedp.Run(ctx, at("/"), hosttest.Press(`[aria-label^="Send call"]`)))
	if body := <-ended; !strings.Contains(body, "continues as the job") {
		t.Errorf("the call was not sent to the background: %.400s", body)
	}
	c.Want(200, `"running":true`, "POST", "/v1/run", `{"session":"long","name":"job","arguments":{"action":"list"}}`)
	hosttest.Must(t, chromedp.Run(ctx, at("/sessions?id=long"), hosttest.Press(`form[action="/sessions/end"] button`)))
	hosttest.Wait(t, "the job ends with its session", func() bool {
		_, body := c.Do("POST", "/v1/run", `{"session":"long","name":"job","arguments":{"action":"list"}}`)
		return !strings.Contains(body, `"running":true`) && strings.Contains(body, "sleep 300")
	})

	// A person pauses, resumes and aborts the rollout of a new version.
	c.Want(200, "", "POST", "/v1/run", `{"command":"tool:version"}`)
	hosttest.Must(t, os.WriteFile(plugin+".next", append(program, 0), 0o700))
	hosttest.Must(t, os.Rename(plugin+".next", plugin))
	hosttest.Must(t, chromedp.Run(ctx, at("/rollouts"), hosttest.Appears(`[aria-label="Rollout of test"] [value=pause]`), hosttest.Press(`[aria-label="Rollout of test"] [value=pause]`),
		hosttest.Appears(`[aria-label="Rollout of test"] [value=resume]`)))
	hosttest.Shot(ctx, t, "rollout")
	c.Want(200, `toolhost_rollout_share{plugin="test",state="shadow"} 0`, "GET", "/metrics", "")
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Press(`[aria-label="Rollout of test"] [value=resume]`), hosttest.Appears(`[aria-label="Rollout of test"] [value=pause]`),
		hosttest.Press(`[aria-label="Rollout of test"] [value=abort]`), hosttest.Disappears(`[aria-label="Rollout of test"] [value=abort]`), hosttest.Reads("#live", &text)))
	if !strings.Contains(text, "aborted") || !strings.Contains(text, "principal:start-token") || !strings.Contains(text, "closed") {
		t.Errorf("the rollouts and quotas are %q", text)
	}
	hosttest.Must(t, os.WriteFile(plugin+".next", program[:len(program):len(program)], 0o700))
	hosttest.Must(t, os.Rename(plugin+".next", plugin))

	promote(t, ctx, c, plugin, program)
	reviewChanges(t, ctx, c, dir)

	// A plugin is pinned.
	hosttest.Must(t, chromedp.Run(ctx, at("/tools"), hosttest.Press(`[aria-label="Pin read"]`)))
	hosttest.Wait(t, "the pin is written", func() bool {
		lock, err := os.ReadFile(filepath.Join(dir, "toolhost.lock.json"))
		return err == nil && strings.Contains(string(lock), `"read"`)
	})

	// Apply a branch with hostile file names and contents, and discard another branch.
	code, body := c.Do("POST", "/v1/run", `{"branch":"kept","command":"echo '<script>window.owned=1</script>' > '<img src=x onerror=\"window.owned=1\">.txt'; printf 'a\\033[31mb' > new.txt"}`)
	if code != http.StatusOK || !strings.Contains(body, `"success":true`) {
		need.Missing(t, "branches do not work here: "+body)
	}
	c.Want(200, `"success":true`, "POST", "/v1/run", `{"branch":"dropped","command":"echo x > dropped.txt"}`)
	hosttest.Must(t, chromedp.Run(ctx, at("/branches"), hosttest.Press(`td a[href*="kept"]`), hosttest.Appears("pre.diff"), hosttest.Reads("pre.diff", &text)))
	if !strings.Contains(text, "<script>window.owned=1</script>") || strings.Contains(text, "\x1b") {
		t.Errorf("the diff is shown as %q", text)
	}
	hosttest.Shot(ctx, t, "branch")
	if found := hosttest.Axe(ctx, t); found != "" {
		t.Errorf("branch: %s", found)
	}
	var owned bool
	hosttest.Must(t, chromedp.Run(ctx, chromedp.Evaluate("!!window.owned", &owned), hosttest.Press(`form[action^="/branches/"] [value=apply]`)))
	if owned {
		t.Error("a diff ran a script")
	}
	hosttest.Wait(t, "the branch is applied", func() bool { _, err := os.Stat(filepath.Join(dir, "new.txt")); return err == nil })
	hosttest.Must(t, chromedp.Run(ctx, at("/branches"), hosttest.Press(`td a[href*="dropped"]`),
		hosttest.Press(`form[action^="/branches/"] [value=discard]`)))
	hosttest.Wait(t, "the branch is discarded", func() bool {
		_, body := c.Do("GET", "/v1/branches", "")
		return !strings.Contains(body, "dropped")
	})
	if _, err := os.Stat(filepath.Join(dir, "dropped.txt")); err == nil {
		t.Error("a discarded branch changed the workspace")
	}
}
