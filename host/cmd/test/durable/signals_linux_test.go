package durable

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/cmd/test/hosttest"
)

const signalsConfig = `plugin "test" {
  path = %q
  restart {
    failures = 2
    pause    = "1h"
  }
}
plugin "bash" {}
`

// TestSignals checks that a suspended plugin, a plugin that does not answer and a refused configuration each raise an
// alarm: in /healthz, in the status, in the metrics, and in Prometheus with the documented rules. The alarms must also
// end.
func TestSignals(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	file := filepath.Join(dir+".conf", "toolhost.hcl")
	hosttest.Must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), nil, 0o600)) // not used, because of --config
	good := fmt.Sprintf(signalsConfig, filepath.Join(hosttest.Bin, "testplugin"))
	hosttest.Must(t, os.WriteFile(file, []byte(good), 0o600))
	base, token := hosttest.Serve(t, dir, "--config", file)
	c := hosttest.NewClient(t, base, token)
	has := func(what string) func() bool {
		return func() bool {
			_, text := c.Do("GET", "/healthz", "")
			return strings.HasPrefix(text, "ok\n") && strings.Contains(text, what)
		}
	}
	c.Want(200, `"success":true`, "POST", "/v1/run", `{"command":"pwd"}`)
	c.Want(200, "ok\n", "GET", "/healthz", "")
	c.Want(200, "ok\n", "GET", "/readyz", "")
	alerts := prometheus(t, base, token)

	hosttest.Must(t, os.WriteFile(file, []byte(good+"nonsense"), 0o600))
	hosttest.Wait(t, "the refused configuration is reported", has("problem: config_refused\n"))
	for i := range 4 { // the end of the first process does not count as a failure, because this process answered a call
		c.Want(200, "unavailable", "POST", "/v1/run", fmt.Sprintf(`{"command":"die %d"}`, i))
	}
	hosttest.Wait(t, "the suspended plugin is reported", has("problem: plugin_suspended\n"))
	var shell []int
	hosttest.Wait(t, "the shell runs", func() bool {
		shell = pluginProcesses(t, c, "bash")
		return len(shell) > 0
	})
	hosttest.Must(t, syscall.Kill(shell[0], syscall.SIGSTOP))
	hosttest.Wait(t, "the stuck plugin is reported", has("problem: plugin_stuck\n"))
	c.Want(200, `"problems":["config_refused","plugin_stuck","plugin_suspended"]`, "GET", "/healthz", "", "Accept", "application/json")
	status := c.Want(200, `"kind":"plugin_stuck","subject":"bash"`, "GET", "/v1/status", "")
	for _, want := range []string{"toolhost config rollback", "To start it now: toolhost plugin reload test", "To replace it: toolhost plugin reload bash"} {
		if !strings.Contains(status, want) {
			t.Errorf("the status does not contain %q: %s", want, status)
		}
	}
	metrics := c.Want(200, `toolhost_alarm{kind="plugin_suspended",subject="test"} 1`, "GET", "/metrics", "")
	for _, want := range []string{"toolhost_config_refused 1", `toolhost_plugin_breaker{plugin="test",state="open"} 1`, `toolhost_plugin_healthy{plugin="bash"} 0`, `toolhost_config_info{digest="sha256:`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not contain %q", want)
		}
	}
	// The watcher can load the file twice, first while it is empty and then with its content.
	if !regexp.MustCompile(`toolhost_config_reloads_total\{outcome="refused"\} [1-9]`).MatchString(metrics) {
		t.Error("the metrics do not count the refused configuration")
	}
	dashboard, err := os.ReadFile("../../../../docs/monitoring/dashboard.json")
	hosttest.Must(t, err)
	if !json.Valid(dashboard) {
		t.Error("the dashboard is no JSON")
	}
	for _, name := range regexp.MustCompile(`toolhost_[a-z_]+`).FindAllString(string(dashboard), -1) {
		if !strings.Contains(metrics, "# TYPE "+strings.TrimSuffix(name, "_bucket")+" ") {
			t.Errorf("the dashboard shows %s, which the host does not export", name)
		}
	}
	for _, name := range []string{"ToolhostConfigRefused", "ToolhostPluginSuspended", "ToolhostPluginStuck"} {
		hosttest.Wait(t, "Prometheus has the alert "+name, func() bool { return strings.Contains(alerts(), name) })
	}

	hosttest.Must(t, syscall.Kill(shell[0], syscall.SIGCONT))
	hosttest.Must(t, os.WriteFile(file, []byte(good), 0o600))
	reload := hosttest.Toolhost(t, dir, "--config", file, "plugin", "reload", "test")
	out, err := reload.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	last := ""
	defer func() {
		if t.Failed() {
			t.Log(last)
		}
	}()
	hosttest.Wait(t, "all alarms end", func() bool {
		_, text := c.Do("GET", "/healthz", "")
		if text != "ok\n" {
			_, last = c.Do("GET", "/v1/status", "")
		}
		return text == "ok\n"
	})
}

// pluginProcesses returns the ids of the processes of a plugin.
func pluginProcesses(t *testing.T, c *hosttest.Client, plugin string) (pids []int) {
	t.Helper()
	_, text := c.Do("GET", "/v1/stats", "")
	var stats struct {
		Plugins []struct {
			Name string
			PIDs []int
		}
	}
	hosttest.Must(t, json.Unmarshal([]byte(text), &stats))
	for _, p := range stats.Plugins {
		if p.Name == plugin {
			pids = p.PIDs
		}
	}
	return pids
}

// prometheus starts a Prometheus server that reads the metrics of a host and evaluates the documented rules. It returns
// a function that returns the pending and firing alerts.
func prometheus(t *testing.T, base, token string) func() string {
	t.Helper()
	program, promtool := hosttest.DebianProgram(t, "bin/prometheus"), hosttest.DebianProgram(t, "bin/promtool")
	rules, err := filepath.Abs("../../../../docs/monitoring/alerts.yml")
	hosttest.Must(t, err)
	for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", strings.Replace(rules, ".yml", "_test.yml", 1)}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Fatalf("promtool %q: %v\n%s", args, err, out)
		}
	}
	dir := t.TempDir()
	config := fmt.Sprintf("global: { scrape_interval: 1s, evaluation_interval: 1s }\nrule_files: [%q]\nscrape_configs:\n  - job_name: toolhost\n    authorization: { credentials: %s }\n    static_configs: [{ targets: [%q] }]\n", rules, token, strings.TrimPrefix(base, "http://"))
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	address := freeAddress(t)
	c := exec.CommandContext(t.Context(), program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=error")
	c.Stderr = t.Output()
	hosttest.Must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return func() string {
		res, err := http.Get("http://" + address + "/api/v1/alerts")
		if err != nil {
			return ""
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		hosttest.Must(t, err)
		return string(b)
	}
}

// freeAddress returns a loopback address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	hosttest.Must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// TestFullDiskAlarm checks that a server with a full state disk answers /healthz, names the problem, and is not ready.
func TestFullDiskAlarm(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		need.Missing(t, "curl is not there")
	}
	out := hosttest.OnSmallDisk(t, `
		command toolhost --state ../state serve --listen unix:$XDG_RUNTIME_DIR/s 2>../err &
		curl() { command curl --unix-socket $XDG_RUNTIME_DIR/s "$@"; }
		until curl -sf http://localhost/readyz; do sleep 0.05; done
		fill
		until curl -s http://localhost/healthz | grep state_unwritable; do sleep 0.1; done
		curl -s -w '%{http_code}\n' http://localhost/healthz
		curl -s -w '%{http_code}\n' http://localhost/readyz
		curl -s http://localhost/metrics | grep '^toolhost_alarm'
		rm ../state/filler
		until curl -sf http://localhost/readyz; do sleep 0.1; done
		kill %1
		wait
	`)
	for _, want := range []string{"ok\nproblem: state_unwritable\n200\n", "no call can succeed; GET /v1/status has the reason\nproblem: state_unwritable\n503\n", `toolhost_alarm{kind="state_unwritable",subject=""} 1`} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing: %s", want, out)
		}
	}
}
