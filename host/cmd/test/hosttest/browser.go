package hosttest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"toolhost.dev/sdk/tooltest/need"
)

// maxStarts limits the starts of a browser. Chromium sometimes crashes before it opens a page, which says nothing about
// the console.
const maxStarts = 3

// Browser starts the Chromium from the unpacked Debian packages, and returns a context for it.
func Browser(t *testing.T) context.Context {
	t.Helper()
	program := DebianProgram(t, "lib/chromium/chromium")
	for start := 1; ; start++ {
		ctx := browser(t, program)
		err := chromedp.Run(ctx)
		if err == nil {
			return ctx
		}
		if start == maxStarts {
			t.Fatal(err)
		}
		t.Logf("the browser is started again: %v", err)
	}
}

// browser returns a context that starts a browser with a home of its own at its first use.
func browser(t *testing.T, program string) context.Context {
	opts := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.NoFirstRun, chromedp.Headless,
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(time.Minute),
		chromedp.Env("XDG_DATA_DIRS="+filepath.Join(SourceEnv()["DEBIAN"], "usr/share")+":/usr/share",
			"HOME="+t.TempDir()),
	}
	alloc, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	if end, ok := t.Deadline(); ok {
		var done context.CancelFunc
		ctx, done = context.WithDeadline(ctx, end.Add(-30*time.Second)) // leave time to report what the page shows
		t.Cleanup(done)
	}
	return ctx
}

// Axe returns the findings of axe-core with the impact "serious" or "critical".
func Axe(ctx context.Context, t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("../../../console/npm/node_modules/axe-core/axe.min.js")
	if err != nil {
		need.Missing(t, "axe-core is not there; run make peers")
	}
	var found string
	Must(t, chromedp.Run(ctx, page.SetBypassCSP(true), chromedp.Reload(), Appears("h1"),
		chromedp.Evaluate(string(source)+"; 0", nil),
		chromedp.Evaluate(`axe.run().then(r => r.violations.filter(v => ["serious", "critical"].includes(v.impact)).map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html).join(" | ")).join("\n"))`, &found, Awaited),
		page.SetBypassCSP(false)))
	return found
}

// shots is the directory for screenshots. If it is empty, no screenshots are taken.
var shots = os.Getenv("TOOLHOST_SCREENSHOTS")

// Shot takes a screenshot if TOOLHOST_SCREENSHOTS names a directory.
func Shot(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	if shots == "" {
		return
	}
	var png []byte
	Must(t, chromedp.Run(ctx, chromedp.Sleep(300*time.Millisecond), chromedp.CaptureScreenshot(&png)))
	Must(t, os.WriteFile(filepath.Join(shots, name+".png"), png, 0o600))
}

// Look sets the width of the page in pixels and its color scheme, "light" or "dark".
func Look(width int64, scheme string) chromedp.Tasks {
	return chromedp.Tasks{
		emulation.SetDeviceMetricsOverride(width, 900, 1, width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme},
		}),
	}
}

// Holds repeats a script until the script returns true. It ignores errors, because an update of the page or a
// navigation can interrupt a script. The actions of chromedp cannot be used here: they keep references to nodes of the
// page, so an update would make them fail. If the script does not return true in time, the error contains what the page
// showed last.
func Holds(script string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		var shown string
		for end := time.Now().Add(pageTime); time.Now().Before(end) &&
			ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			var done bool
			if chromedp.Evaluate(script, &done).Do(ctx) == nil && done {
				return nil
			}
			_ = chromedp.Evaluate(`location.href + "\n" + document.body.innerText.slice(0, 2000)`, &shown).Do(ctx) // the page may be between two documents
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the browser ended (%w) before this was true: %s; the page showed %s", context.Cause(ctx), script, shown)
		}
		return fmt.Errorf("not in %v: %s; the page shows %s", pageTime, script, shown)
	})
}

// pageTime is the time in which a page must show what a test waits for. It is long, because a browser on a busy machine
// is slow, and a test that passes does not need it.
const pageTime = 3 * time.Minute

// Appears waits until an element is visible.
func Appears(selector string) chromedp.Action {
	return Holds(fmt.Sprintf("(document.querySelector(%q)?.getClientRects().length ?? 0) > 0", selector))
}

// Disappears waits until no element matches.
func Disappears(selector string) chromedp.Action {
	return Holds(fmt.Sprintf("document.readyState === 'complete' && document.querySelector(%q) === null", selector))
}

// Press clicks an element as soon as it exists.
func Press(selector string) chromedp.Action {
	return Holds(fmt.Sprintf("(e => e ? (e.click(), true) : false)(document.querySelector(%q))", selector))
}

// Reads waits for an element and stores its text in *to.
func Reads(selector string, to *string) chromedp.Action {
	return chromedp.Tasks{
		Appears(selector), chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).innerText", selector), to),
	}
}

// Awaited makes an evaluation wait for the promise that it returns.
func Awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
