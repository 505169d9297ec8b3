package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"toolhost.dev/host/internal/testneed"
)

// supervise uses the pages that change what runs: a command goes to the background, a session is ended, a rollout is paused
// and aborted, a plugin is pinned, and a branch is applied and another one discarded.
func supervise(t *testing.T, ctx context.Context, c *client, dir, plugin string, program []byte) {
	t.Helper()
	var text string
	at := func(path string) chromedp.Tasks {
		return chromedp.Tasks{look(1280, "light"), chromedp.Navigate(c.base + path), appears("h1")}
	}

	// A running command continues as a job, and ends with its session.
	ended := make(chan string, 1)
	go func() {
		_, body := c.do("POST", "/v1/run", `{"session":"long","command":"touch began; sleep 300"}`)
		ended <- body
	}()
	eventually(t, "the command runs", func() bool { _, err := os.Stat(filepath.Join(dir, "began")); return err == nil })
	must(t, chromedp.Run(ctx, at("/"), press(`[aria-label^="Send call"]`)))
	if body := <-ended; !strings.Contains(body, "continues as the job") {
		t.Errorf("the call was not sent to the background: %.400s", body)
	}
	c.want(200, `"running":true`, "POST", "/v1/run", `{"session":"long","name":"job","arguments":{"action":"list"}}`)
	must(t, chromedp.Run(ctx, at("/sessions?id=long"), press(`form[action="/sessions/end"] button`)))
	eventually(t, "the job ends with its session", func() bool {
		_, body := c.do("POST", "/v1/run", `{"session":"long","name":"job","arguments":{"action":"list"}}`)
		return !strings.Contains(body, `"running":true`) && strings.Contains(body, "sleep 300")
	})

	// A new version is taken into service, and stopped by a person.
	c.want(200, "", "POST", "/v1/run", `{"command":"tool:version"}`)
	must(t, os.WriteFile(plugin+".next", append(program, 0), 0o700))
	must(t, os.Rename(plugin+".next", plugin))
	must(t, chromedp.Run(ctx, at("/rollouts"), appears(`[aria-label="Rollout of test"] [value=pause]`), press(`[aria-label="Rollout of test"] [value=pause]`),
		appears(`[aria-label="Rollout of test"] [value=resume]`)))
	shot(t, ctx, "rollout")
	must(t, chromedp.Run(ctx, press(`[aria-label="Rollout of test"] [value=resume]`), appears(`[aria-label="Rollout of test"] [value=pause]`),
		press(`[aria-label="Rollout of test"] [value=abort]`), disappears(`[aria-label="Rollout of test"] [value=abort]`), reads("#live", &text)))
	if !strings.Contains(text, "aborted") || !strings.Contains(text, "principal:start-token") || !strings.Contains(text, "closed") {
		t.Errorf("the rollouts and quotas are %q", text)
	}
	must(t, os.WriteFile(plugin+".next", program[:len(program):len(program)], 0o700))
	must(t, os.Rename(plugin+".next", plugin))

	// A plugin is pinned.
	must(t, chromedp.Run(ctx, at("/tools"), press(`[aria-label="Pin read"]`)))
	eventually(t, "the pin is written", func() bool {
		lock, err := os.ReadFile(filepath.Join(dir, "toolhost.lock.json"))
		return err == nil && strings.Contains(string(lock), `"read"`)
	})

	// The changes of a branch, with hostile names and content, are applied and discarded.
	code, body := c.do("POST", "/v1/run", `{"branch":"kept","command":"echo '<script>window.owned=1</script>' > '<img src=x onerror=\"window.owned=1\">.txt'; printf 'a\\033[31mb' > new.txt"}`)
	if code != http.StatusOK || !strings.Contains(body, `"success":true`) {
		testneed.Missing(t, "branches do not work here: "+body)
	}
	c.want(200, `"success":true`, "POST", "/v1/run", `{"branch":"dropped","command":"echo x > dropped.txt"}`)
	must(t, chromedp.Run(ctx, at("/branches"), press(`td a[href*="kept"]`), appears("pre.diff"), reads("pre.diff", &text)))
	if !strings.Contains(text, "<script>window.owned=1</script>") || strings.Contains(text, "\x1b") {
		t.Errorf("the diff is shown as %q", text)
	}
	shot(t, ctx, "branch")
	if found := axe(t, ctx); found != "" {
		t.Errorf("branch: %s", found)
	}
	var owned bool
	must(t, chromedp.Run(ctx, chromedp.Evaluate("!!window.owned", &owned), press(`form[action^="/branches/"] [value=apply]`)))
	if owned {
		t.Error("a diff ran a script")
	}
	eventually(t, "the branch is applied", func() bool { _, err := os.Stat(filepath.Join(dir, "new.txt")); return err == nil })
	must(t, chromedp.Run(ctx, at("/branches"), press(`td a[href*="dropped"]`),
		press(`form[action^="/branches/"] [value=discard]`)))
	eventually(t, "the branch is discarded", func() bool {
		_, body := c.do("GET", "/v1/branches", "")
		return !strings.Contains(body, "dropped")
	})
	if _, err := os.Stat(filepath.Join(dir, "dropped.txt")); err == nil {
		t.Error("a discarded branch changed the workspace")
	}
}
