package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"toolhost.dev/host/internal/testneed"
)

// browser starts the Chromium from the unpacked Debian packages, and returns a context for it.
func browser(t *testing.T) context.Context {
	t.Helper()
	program := debianProgram(t, "lib/chromium/chromium")
	opts := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.NoFirstRun, chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(time.Minute),
		chromedp.Env("XDG_DATA_DIRS="+filepath.Join(sourceEnv()["DEBIAN"], "usr/share")+":/usr/share", "HOME="+t.TempDir()),
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
	must(t, chromedp.Run(ctx))
	return ctx
}

// consoleLink returns a one-time link to the console of the host that uses the state directory of dir.
func consoleLink(t *testing.T, dir string) string {
	t.Helper()
	out, err := toolhost(t, dir, "console").Output()
	must(t, err)
	return strings.TrimSpace(string(out))
}

// axe returns the findings of axe-core with the impact "serious" or "critical".
func axe(t *testing.T, ctx context.Context) string {
	t.Helper()
	source, err := os.ReadFile("../../console/npm/node_modules/axe-core/axe.min.js")
	if err != nil {
		testneed.Missing(t, "axe-core is not there; run make peers")
	}
	var found string
	must(t, chromedp.Run(ctx, page.SetBypassCSP(true), chromedp.Reload(), appears("h1"),
		chromedp.Evaluate(string(source)+"; 0", nil),
		chromedp.Evaluate(`axe.run().then(r => r.violations.filter(v => ["serious", "critical"].includes(v.impact)).map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html).join(" | ")).join("\n"))`, &found, awaited),
		page.SetBypassCSP(false)))
	return found
}

// shots is the directory for screenshots. If it is empty, no screenshots are taken.
var shots = os.Getenv("TOOLHOST_SCREENSHOTS")

func shot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if shots == "" {
		return
	}
	var png []byte
	must(t, chromedp.Run(ctx, chromedp.Sleep(300*time.Millisecond), chromedp.CaptureScreenshot(&png)))
	must(t, os.WriteFile(filepath.Join(shots, name+".png"), png, 0o600))
}

func look(width int64, scheme string) chromedp.Tasks {
	return chromedp.Tasks{
		emulation.SetDeviceMetricsOverride(width, 900, 1, width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
	}
}

const consoleConfig = `plugin "test" {
  path = %q
  rollout {
    shadow = 50
    steps  = [50]
    pause  = "1h"
  }
}
quota "principal:*" {
  calls_per_minute = 60000
  breaker {
    failures = 1000
    pause    = "1s"
  }
}
permissions {
  ask "pushes" { command = "git push *" }
}
`

// holds repeats a script until the script returns true. It ignores errors, because an update of the page or a
// navigation can interrupt a script. The actions of chromedp cannot be used here: they keep references to nodes of the
// page, so an update would make them fail. If the script does not return true in time, the error contains what the page
// showed last.
func holds(script string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		var shown string
		for end := time.Now().Add(pageTime); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			var done bool
			if chromedp.Evaluate(script, &done).Do(ctx) == nil && done {
				return nil
			}
			_ = chromedp.Evaluate(`location.href + "\n" + document.body.innerText.slice(0, 2000)`, &shown).Do(ctx) // the page may be between two documents
		}
		return fmt.Errorf("not in %v: %s; the page shows %s", pageTime, script, shown)
	})
}

// pageTime is the time in which a page must show what a test waits for. It is long, because a browser on a busy machine is
// slow, and a test that passes does not need it.
const pageTime = 3 * time.Minute

func appears(selector string) chromedp.Action {
	return holds(fmt.Sprintf("(document.querySelector(%q)?.getClientRects().length ?? 0) > 0", selector))
}

func disappears(selector string) chromedp.Action {
	return holds(fmt.Sprintf("document.readyState === 'complete' && document.querySelector(%q) === null", selector))
}

// press clicks an element as soon as it exists.
func press(selector string) chromedp.Action {
	return holds(fmt.Sprintf("(e => e ? (e.click(), true) : false)(document.querySelector(%q))", selector))
}

// reads waits for an element and stores its text in *to.
func reads(selector string, to *string) chromedp.Action {
	return chromedp.Tasks{appears(selector), chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).innerText", selector), to)}
}

// TestConsole checks that a person can use the console in two window widths and both colour schemes. axe-core must
// report no serious findings.
func TestConsole(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	plugin := filepath.Join(t.TempDir(), "testplugin")
	program, err := os.ReadFile(filepath.Join(bin, "testplugin"))
	must(t, err)
	must(t, os.WriteFile(plugin, program, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, consoleConfig, plugin), 0o600))
	base, token := serve(t, dir)
	c := &client{t, base, token}
	ctx := browser(t)
	link := consoleLink(t, dir)
	var title, text string
	must(t, chromedp.Run(ctx, look(1280, "light"), chromedp.Navigate(base+"/audit"), appears("#token"), chromedp.Navigate(link), appears("#live"), chromedp.Title(&title)))
	if title != "Now · toolhost" {
		t.Errorf("the title is %q", title)
	}
	// The link works only once.
	c.want(403, "was used already", "GET", strings.TrimPrefix(link, base), "")

	// Watch a running call with hostile output, and cancel it.
	hostile := `head -c 10000000 /dev/zero | tr '\0' x; printf '\nfine\n<img src=x onerror="window.owned=1"><script>window.owned=1</script>\033[31mred\033[0m \342\200\256gnp.exe\n'; sleep 300`
	ended := make(chan string, 1)
	go func() {
		_, body := c.do("POST", "/v1/run", jsonText(map[string]string{"session": "watched", "command": hostile}))
		ended <- body
	}()
	must(t, chromedp.Run(ctx, holds(`document.querySelector(".tail")?.textContent.includes("gnp.exe") ?? false`), reads(".tail", &text)))
	if len(text) > 10_000 || !strings.Contains(text, `<img src=x onerror="window.owned=1">`) || strings.Contains(text, "\x1b") || !strings.Contains(text, "‹U+202E›gnp.exe") {
		t.Errorf("the output is shown as %q", text)
	}
	shot(t, ctx, "now")
	must(t, chromedp.Run(ctx, chromedp.Evaluate(`document.querySelector(".danger").click()`, nil))) // updates can replace the button between two steps
	if body := <-ended; !strings.Contains(body, "canceled") {
		t.Errorf("the call was not canceled: %s", body)
	}

	// Answer a permission request with the keyboard, in a window as wide as a phone.
	go func() {
		_, body := c.do("POST", "/v1/run", `{"session":"asks","command":"git push origin main"}`)
		ended <- body
	}()
	must(t, chromedp.Run(ctx, look(390, "dark"), chromedp.Navigate(base+"/asks"), appears(".ask"), chromedp.Title(&title)))
	if title != "(1) Asks · toolhost" {
		t.Errorf("the title is %q", title)
	}
	shot(t, ctx, "asks-phone-dark")
	if found := axe(t, ctx); found != "" {
		t.Errorf("asks: %s", found)
	}
	must(t, chromedp.Run(ctx, appears(".ask"), chromedp.KeyEvent("j"), chromedp.KeyEvent("a"), appears(".empty")))
	if body := <-ended; strings.Contains(body, "permission_denied") {
		t.Errorf("the ask was not allowed: %s", body)
	}

	supervise(t, ctx, c, dir, plugin, program)

	// Reload a configuration with a privilege increase, and then roll it back.
	file := filepath.Join(dir, "toolhost.hcl")
	good, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, fmt.Appendf(nil, strings.Replace(consoleConfig, `ask "pushes" { command = "git push *" }`, "", 1), plugin), 0o600))
	must(t, toolhost(t, dir, "version").Run()) // any command makes the wrapper trust the file
	must(t, chromedp.Run(ctx, look(1280, "light"), chromedp.Navigate(base+"/config?plan=1"), appears("section[aria-label=Plan]"), reads("section[aria-label=Plan]", &text)))
	if !strings.Contains(text, "Privilege increases") {
		t.Errorf("the plan is %q", text)
	}
	shot(t, ctx, "configuration")
	must(t, chromedp.Run(ctx, press("section[aria-label=Plan] .danger"), disappears("section[aria-label=Plan]"), appears("table")))
	c.want(200, `"digest"`, "GET", "/v1/config/history", "", "Authorization", "Bearer "+token)
	must(t, chromedp.Run(ctx, press(`button[aria-label="Go back to 1"]`), appears("h1"), disappears(`button[aria-label="Go back to 1"]`)))
	if now, err := os.ReadFile(file); err != nil || string(now) != string(good) {
		t.Errorf("the configuration was not restored: %s", now)
	}

	// Search the audit log for the rollback.
	must(t, chromedp.Run(ctx, chromedp.Navigate(base+"/audit"), chromedp.SetValue("#text", "rollback"), press(".filter .primary")))
	eventually(t, "the search is shown", func() bool {
		var shown bool
		err := chromedp.Run(ctx, chromedp.Evaluate(`location.search.includes("text=rollback") && document.readyState === "complete"`, &shown))
		return err == nil && shown
	})
	must(t, chromedp.Run(ctx, reads("table.log", &text)))
	if !strings.Contains(text, "(rollback)") || strings.Contains(text, "git push origin") {
		t.Errorf("the search found %q", text)
	}

	for format, want := range map[string]string{"jsonl": `"tool":"(rollback)"`, "csv": ",(rollback),"} {
		must(t, chromedp.Run(ctx, chromedp.Evaluate(fmt.Sprintf(`fetch("/audit/export?text=rollback&format=%s").then(r => r.text())`, format), &text, awaited)))
		if !strings.Contains(text, want) || strings.Contains(text, "git push origin") {
			t.Errorf("the export as %s is %q", format, text)
		}
	}

	for _, p := range []string{"/", "/sessions", "/tools", "/tools/read", "/config", "/audit", "/figures", "/doctor", "/rollouts", "/branches"} {
		name := strings.ReplaceAll(strings.Trim(p, "/"), "/", "-")
		must(t, chromedp.Run(ctx, look(1280, "light"), chromedp.Navigate(base+p), appears("h1")))
		if name != "" && name != "config" {
			shot(t, ctx, name)
		}
		if found := axe(t, ctx); found != "" {
			t.Errorf("%s: %s", p, found)
		}
		var wide bool
		must(t, chromedp.Run(ctx, look(390, "dark"), chromedp.Reload(), appears("h1"), chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &wide)))
		if wide {
			t.Errorf("%s is wider than a phone", p)
		}
		if found := axe(t, ctx); found != "" {
			t.Errorf("%s, dark: %s", p, found)
		}
	}
	var owned bool
	must(t, chromedp.Run(ctx, chromedp.Navigate(base+"/audit?session=watched"), appears("table.log"), chromedp.Evaluate(`!!window.owned`, &owned)))
	if owned {
		t.Error("hostile output ran a script")
	}

	// The pages must be readable without JavaScript.
	must(t, chromedp.Run(ctx, emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(base+"/tools"), appears("table")))
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestConsoleRefuses checks that the console refuses requests without a login, with a forged form, or with too few
// rights.
func TestConsoleRefuses(t *testing.T) {
	t.Parallel()
	dir := mcpDir(t)
	base, _ := serve(t, dir)
	token, err := toolhost(t, dir, "token", "create", "watcher", "--role", "viewer").Output()
	must(t, err)
	secret := strings.Fields(string(token))[0]
	curl := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "curl", append([]string{"-sS", "-i", "--max-time", "20", "-b", dir + "/jar", "-c", dir + "/jar"}, args...)...).CombinedOutput()
		must(t, err)
		return string(out)
	}
	want := func(got string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(got, p) {
				t.Errorf("%q is missing in %.1500s", p, got)
			}
		}
	}
	want(curl(base+"/"), "303 See Other", "Location: /login?to=%2F", "Content-Security-Policy: default-src 'none'; script-src 'self'")
	want(curl(base+"/login?code=x"), "403 Forbidden", "Run toolhost console for a new one")
	want(curl("-d", "token=wrong", base+"/login"), "403 Forbidden", "This token is not valid")
	want(curl("-d", "token="+secret+"&to=//evil.example", base+"/login"), "303 See Other", "Location: /\r\n", "HttpOnly; SameSite=Strict")
	home := curl(base + "/tools")
	want(home, "200 OK", "watcher")
	if strings.Contains(home, "Disable") {
		t.Error("a viewer sees buttons for changes")
	}
	_, rest, _ := strings.Cut(home, `name="csrf" value="`)
	csrf, _, _ := strings.Cut(rest, `"`)
	want(curl("-d", "csrf=wrong", base+"/tools/read/switch"), "403 Forbidden", "this form is out of date")
	want(curl("-d", "csrf="+csrf, "-H", "Origin: http://evil.example", base+"/tools/read/switch"), "403 Forbidden")
	want(curl("-d", "csrf="+csrf, base+"/tools/read/switch"), "409 Conflict", "needs the right administer")
	for path, values := range map[string]string{
		"/rollouts/read": "action=promote", "/branches/x@0": "action=apply", "/tools/pin": "plugin=read", "/sessions/end": "id=x", "/config/rollback": "id=1", "/calls/1/cancel": "x=1",
	} {
		want(curl("-d", "csrf="+csrf+"&"+values, base+path), "409 Conflict", "needs the right")
		want(curl("-d", "csrf=wrong&"+values, base+path), "403 Forbidden")
	}
	must(t, toolhost(t, dir, "token", "revoke", "watcher").Run())
	want(curl(base+"/tools"), "303 See Other", "Location: /login")
}

// awaited makes an evaluation wait for the promise that it returns.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
