package http

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// consoleLink returns a one-time link to the console of the host that uses the state directory of dir.
func consoleLink(t *testing.T, dir string) string {
	t.Helper()
	out, err := hosttest.Toolhost(t, dir, "console").Output()
	hosttest.Must(t, err)
	return strings.TrimSpace(string(out))
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

// TestConsole checks that a person can use the console in two window widths and both colour schemes. axe-core must
// report no serious findings.
func TestConsole(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	plugin := filepath.Join(t.TempDir(), "testplugin")
	program, err := os.ReadFile(filepath.Join(hosttest.Bin, "testplugin"))
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(plugin, program, 0o700))
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, consoleConfig, plugin), 0o600))
	base, token := hosttest.Serve(t, dir)
	c := hosttest.NewClient(t, base, token)
	ctx := hosttest.Browser(t)
	link := consoleLink(t, dir)
	var title, text string
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Look(1280, "light"), chromedp.Navigate(base+"/audit"), hosttest.Appears("#token"), chromedp.Navigate(link), hosttest.Appears("#live"), chromedp.Title(&title)))
	if title != "Now · toolhost" {
		t.Errorf("the title is %q", title)
	}
	// The link works only once.
	c.Want(403, "was used already", "GET", strings.TrimPrefix(link, base), "")

	// Watch a running call with hostile output, and cancel it.
	hostile := `head -c 10000000 /dev/zero | tr '\0' x; printf '\nfine\n<img src=x onerror="window.owned=1"><script>window.owned=1</script>\033[31mred\033[0m \342\200\256gnp.exe\n'; sleep 300`
	ended := make(chan string, 1)
	go func() {
		_, body := c.Do("POST", "/v1/run", jsonText(map[string]string{"session": "watched", "command": hostile}))
		ended <- body
	}()
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Holds(`document.querySelector(".tail")?.textContent.includes("gnp.exe") ?? false`), hosttest.Reads(".tail", &text)))
	if len(text) > 10_000 || !strings.Contains(text, `<img src=x onerror="window.owned=1">`) || strings.Contains(text, "\x1b") || !strings.Contains(text, "‹U+202E›gnp.exe") {
		t.Errorf("the output is shown as %q", text)
	}
	hosttest.Shot(ctx, t, "now")
	hosttest.Must(t, chromedp.Run(ctx, chromedp.Evaluate(`document.querySelector(".danger").click()`, nil))) // updates can replace the button between two steps
	if body := <-ended; !strings.Contains(body, "canceled") {
		t.Errorf("the call was not canceled: %s", body)
	}

	// Answer a permission request with the keyboard, in a window as wide as a phone.
	go func() {
		_, body := c.Do("POST", "/v1/run", `{"session":"asks","command":"git push origin main"}`)
		ended <- body
	}()
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Look(390, "dark"), chromedp.Navigate(base+"/asks"), hosttest.Appears(".ask"), chromedp.Title(&title)))
	if title != "(1) Asks · toolhost" {
		t.Errorf("the title is %q", title)
	}
	hosttest.Shot(ctx, t, "asks-phone-dark")
	if found := hosttest.Axe(ctx, t); found != "" {
		t.Errorf("asks: %s", found)
	}
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Appears(".ask"), chromedp.KeyEvent("j"), chromedp.KeyEvent("a"), hosttest.Appears(".empty")))
	if body := <-ended; strings.Contains(body, "permission_denied") {
		t.Errorf("the ask was not allowed: %s", body)
	}

	supervise(t, ctx, c, dir, plugin, program)

	// Reload a configuration with a privilege increase, and then roll it back.
	file := filepath.Join(dir, "toolhost.hcl")
	good, err := os.ReadFile(file)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(file, fmt.Appendf(nil, strings.Replace(consoleConfig, `ask "pushes" { command = "git push *" }`, "", 1), plugin), 0o600))
	hosttest.Must(t, hosttest.Toolhost(t, dir, "version").Run()) // any command makes the wrapper trust the file
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Look(1280, "light"), chromedp.Navigate(base+"/config?plan=1"), hosttest.Appears("section[aria-label=Plan]"), hosttest.Reads("section[aria-label=Plan]", &text)))
	if !strings.Contains(text, "Privilege increases") {
		t.Errorf("the plan is %q", text)
	}
	hosttest.Shot(ctx, t, "configuration")
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Press("section[aria-label=Plan] .danger"), hosttest.Disappears("section[aria-label=Plan]"), hosttest.Appears("table")))
	c.Want(200, `"digest"`, "GET", "/v1/config/history", "", "Authorization", "Bearer "+token)
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Press(`button[aria-label="Go back to 1"]`), hosttest.Appears("h1"), hosttest.Disappears(`button[aria-label="Go back to 1"]`)))
	if now, err := os.ReadFile(file); err != nil || string(now) != string(good) {
		t.Errorf("the configuration was not restored: %s", now)
	}

	// Search the audit log for the rollback.
	hosttest.Must(t, chromedp.Run(ctx, chromedp.Navigate(base+"/audit"), chromedp.SetValue("#text", "rollback"), hosttest.Press(".filter .primary")))
	hosttest.Wait(t, "the search is shown", func() bool {
		var shown bool
		err := chromedp.Run(ctx, chromedp.Evaluate(`location.search.includes("text=rollback") && document.readyState === "complete"`, &shown))
		return err == nil && shown
	})
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Reads("table.log", &text)))
	if !strings.Contains(text, "(rollback)") || strings.Contains(text, "git push origin") {
		t.Errorf("the search found %q", text)
	}

	for format, want := range map[string]string{"jsonl": `"tool":"(rollback)"`, "csv": ",(rollback),"} {
		hosttest.Must(t, chromedp.Run(ctx, chromedp.Evaluate(fmt.Sprintf(`fetch("/audit/export?text=rollback&format=%s").then(r => r.text())`, format), &text, hosttest.Awaited)))
		if !strings.Contains(text, want) || strings.Contains(text, "git push origin") {
			t.Errorf("the export as %s is %q", format, text)
		}
	}

	for _, p := range []string{"/", "/sessions", "/tools", "/tools/read", "/config", "/audit", "/figures", "/doctor", "/rollouts", "/branches"} {
		name := strings.ReplaceAll(strings.Trim(p, "/"), "/", "-")
		hosttest.Must(t, chromedp.Run(ctx, hosttest.Look(1280, "light"), chromedp.Navigate(base+p), hosttest.Appears("h1")))
		if name != "" && name != "config" {
			hosttest.Shot(ctx, t, name)
		}
		if found := hosttest.Axe(ctx, t); found != "" {
			t.Errorf("%s: %s", p, found)
		}
		var wide bool
		hosttest.Must(t, chromedp.Run(ctx, hosttest.Look(390, "dark"), chromedp.Reload(), hosttest.Appears("h1"), chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &wide)))
		if wide {
			t.Errorf("%s is wider than a phone", p)
		}
		if found := hosttest.Axe(ctx, t); found != "" {
			t.Errorf("%s, dark: %s", p, found)
		}
	}
	var owned bool
	hosttest.Must(t, chromedp.Run(ctx, chromedp.Navigate(base+"/audit?session=watched"), hosttest.Appears("table.log"), chromedp.Evaluate(`!!window.owned`, &owned)))
	if owned {
		t.Error("hostile output ran a script")
	}

	// The pages must be readable without JavaScript.
	hosttest.Must(t, chromedp.Run(ctx, emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(base+"/tools"), hosttest.Appears("table")))
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
	dir := hosttest.MCPDir(t)
	base, _ := hosttest.Serve(t, dir)
	token, err := hosttest.Toolhost(t, dir, "token", "create", "watcher", "--role", "viewer").Output()
	hosttest.Must(t, err)
	secret := strings.Fields(string(token))[0]
	curl := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "curl", append([]string{"-sS", "-i", "--max-time", "20", "-b", dir + "/jar", "-c", dir + "/jar"}, args...)...).CombinedOutput()
		hosttest.Must(t, err)
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
	hosttest.Must(t, hosttest.Toolhost(t, dir, "token", "revoke", "watcher").Run())
	want(curl(base+"/tools"), "303 See Other", "Location: /login")
}
