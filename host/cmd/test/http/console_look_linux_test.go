package http

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// widths are those of a phone, a laptop and a large screen.
var widths = []int64{400, 1280, 1920}

// TestConsoleLook checks what people read on the pages of the console, with and without calls.
func TestConsoleLook(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte("permissions {\n  ask \"pushes\" { command = \"git push *\" }\n}\n"), 0o600))
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("one\n"), 0o600))
	base, token := hosttest.Serve(t, dir)
	c := hosttest.NewClient(t, base, token)
	ctx := hosttest.Browser(t)
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Look(1280, "light"), chromedp.Navigate(consoleLink(t, dir)), hosttest.Appears(".empty")))
	shots(ctx, t, base, "empty")

	run := func(request map[string]any) {
		t.Helper()
		if code, body := c.Do("POST", "/v1/run", jsonText(request)); code != 200 {
			t.Fatalf("%v: %d %s", request, code, body)
		}
	}
	for range 20 {
		run(map[string]any{"session": "work", "name": "read", "arguments": map[string]any{"file_path": filepath.Join(dir, "notes.txt")}})
	}
	run(map[string]any{"session": "work", "name": "read", "arguments": map[string]any{"file_path": "missing.txt", "offset": 7}})
	run(map[string]any{"session": "work", "command": "sleep 1.1"})
	preview := hosttest.Toolhost(t, dir, "run", "--preview", "echo two > notes.txt")
	if out, err := preview.Output(); err == nil && !strings.Contains(string(out), "preview-") { // without a sandbox, there are no previews
		t.Errorf("the preview is %s", out)
	}
	hosttest.Wait(t, "the log has the calls", func() bool { _, log := c.Do("GET", "/v1/log", ""); return strings.Contains(log, "sleep 1.1") })
	readable(ctx, t, base)
	pushed := make(chan string, 1)
	go func() {
		_, body := c.Do("POST", "/v1/run", `{"session":"push","command":"git push origin main"}`)
		pushed <- body
	}()
	hosttest.Must(t, chromedp.Run(ctx, chromedp.Navigate(base+"/"), hosttest.Appears(`.card a[href^="/asks#ask-"]`)))
	// The rates need calls between two samples of the figures.
	var rates sync.WaitGroup
	plotted := make(chan struct{})
	rates.Go(func() {
		for {
			select {
			case <-plotted:
				return
			default:
				c.Do("POST", "/v1/run", `{"session":"rates","name":"read","arguments":{"file_path":"notes.txt"}}`)
			}
		}
	})
	plots(ctx, t, base)
	close(plotted)
	rates.Wait()
	shots(ctx, t, base, "full")
	answered(ctx, t, base)
	if body := <-pushed; !strings.Contains(body, "permission_denied") {
		t.Errorf("after the denial: %s", body)
	}
}

// shots takes screenshots of the pages in all widths.
func shots(ctx context.Context, t *testing.T, base, name string) {
	t.Helper()
	if os.Getenv("TOOLHOST_SCREENSHOTS") == "" {
		return
	}
	for _, page := range []string{"", "asks", "sessions", "tools", "audit", "figures"} {
		for _, width := range widths {
			hosttest.Must(t, chromedp.Run(ctx, hosttest.Look(width, "light"), chromedp.Navigate(base+"/"+page), hosttest.Appears("h1")))
			hosttest.Shot(ctx, t, fmt.Sprintf("look-%s-%s-%d", name, page, width))
		}
	}
}

// readable checks the text of the pages after some calls.
func readable(ctx context.Context, t *testing.T, base string) {
	t.Helper()
	for _, check := range []struct {
		page       string
		has, lacks []string
	}{
		{"/audit", []string{"file_path missing.txt offset 7", "sleep 1.1"}, []string{`{"`, "if_changed"}},
		{"/sessions", []string{"work"}, []string{"preview-"}},
		{"/tools", []string{"Running"}, nil},
		{"/tools/read", []string{"file_path"}, nil},
		{"/", []string{"Last calls", "file_path missing.txt offset 7", "sleep 1.1"}, []string{`{"`, "if_changed"}},
	} {
		page := check.page
		var text string
		hosttest.Wait(t, fmt.Sprintf("%s has %q", page, check.has), func() bool { // the last calls can be some seconds old
			hosttest.Must(t, chromedp.Run(ctx, hosttest.Look(1280, "light"), chromedp.Navigate(base+page), hosttest.Appears("h1"), hosttest.Reads("#live, main", &text)))
			text = strings.Join(strings.Fields(text), " ")
			return !slices.ContainsFunc(check.has, func(want string) bool { return !strings.Contains(text, want) })
		})
		if strings.Contains(text, "sleep 1.1") && !regexp.MustCompile(`sleep 1\.1 (allow )?success \d+(\.\d)? s `).MatchString(text) {
			t.Errorf("%s has no duration in seconds: %s", page, text)
		}
		for _, bad := range check.lacks {
			if strings.Contains(text, bad) {
				t.Errorf("%s shows %q: %s", page, bad, text)
			}
		}
	}
	var calls string
	hosttest.Must(t, chromedp.Run(ctx, chromedp.Navigate(base+"/tools"), hosttest.Appears("h1"), chromedp.Evaluate(`(() => {
		const table = document.querySelector('[aria-label="Plugins"] table'), at = [...table.querySelectorAll("th")].findIndex(h => h.innerText === "Calls");
		return [...table.querySelectorAll("tbody tr")].find(r => r.cells[0].innerText === "read").cells[at].innerText;
	})()`, &calls)))
	if calls != "21" {
		t.Errorf("the plugin read has %s calls, want 21", calls)
	}
}

// plots checks that no chart covers another one, also after the window has become narrower or wider, and that legends
// have only series with values.
func plots(ctx context.Context, t *testing.T, base string) {
	t.Helper()
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Look(1280, "light"), chromedp.Navigate(base+"/figures"), hosttest.Holds(`document.querySelectorAll("#plots canvas").length >= 3`)))
	for _, width := range append(widths, 1280, 400) {
		hosttest.Must(t, chromedp.Run(ctx, hosttest.Look(width, "light"), hosttest.Holds(`(() => {
			const boxes = [...document.querySelectorAll("#plots > *")].map(b => b.getBoundingClientRect());
			const apart = boxes.every((a, i) => boxes.every((b, j) => i === j || a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top));
			const inside = [...document.querySelectorAll("#plots > *")].every(b => [...b.querySelectorAll(".uplot, canvas")].every(e => e.getBoundingClientRect().right <= b.getBoundingClientRect().right + 1 && e.getBoundingClientRect().width > b.clientWidth - 2));
			return apart && inside && document.documentElement.scrollWidth <= innerWidth;
		})()`)))
	}
	var names string
	hosttest.Must(t, chromedp.Run(ctx, chromedp.Evaluate(`[...document.querySelectorAll("#plots > *")].map(b => (b.querySelector(".u-title, h2")).innerText + ":" + [...b.querySelectorAll(".u-label")].map(l => l.innerText).join()).join("; ")`, &names)))
	if !strings.Contains(names, "Duration since the start, ms:Time,") || strings.Contains(names, "edit") || strings.Contains(names, "todo") {
		t.Errorf("the charts and their series are %s", names)
	}
}

// answered follows the link of a call that waits for an answer, and denies what it asks.
func answered(ctx context.Context, t *testing.T, base string) {
	t.Helper()
	var card string
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Look(400, "light"), chromedp.Navigate(base+"/"), hosttest.Appears(`.card a[href^="/asks#ask-"]`), hosttest.Reads(".card", &card)))
	if !strings.Contains(card, "waits for an answer to") || strings.Contains(card, "running") || strings.Contains(card, "Background") {
		t.Errorf("the call is shown as %q", card)
	}
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Press(`.card a[href^="/asks#ask-"]`), hosttest.Holds(`document.querySelector(".ask" + location.hash) !== null`), hosttest.Press(".ask .danger"), hosttest.Appears(".empty")))
}
