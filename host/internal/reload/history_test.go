package reload

import (
	"os"
	"strings"
	"testing"

	"toolhost.dev/host/internal/testbuilder"
)

// timeout returns the configuration of the plugin with a timeout, by which tests tell configurations apart.
func (f *fixture) timeout(text string) string {
	return f.Plugin("p", "") + "host {\n timeout = \"" + text + "\"\n}\n"
}

// TestRollback checks that an earlier configuration is restored and applied.
func TestRollback(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	if _, err := f.Rollback(t.Context(), 0, "alice"); err == nil || !strings.Contains(err.Error(), "there is no earlier configuration") {
		t.Errorf("%v", err)
	}
	for _, text := range []string{"10s", "20s", "30s"} {
		f.Configure(f.timeout(text))
		if r := f.reload(Options{By: "bob"}); !r.Config.Changed {
			t.Fatalf("%+v", r)
		}
	}
	h, err := HistoryOf(f.Builder.State, f.Config())
	if err != nil || len(h.Served) != 4 || h.Served[0].By != "bob" || h.Digest != h.Served[0].Digest || h.Digest != ConfigDigest(f.Current().Config) {
		t.Fatalf("%+v, %v", h, err)
	}
	back, err := f.Rollback(t.Context(), 0, "alice")
	if err != nil || back.To.ID != h.Served[1].ID || len(back.Changed) != 1 || !back.Reload.Config.Changed || f.Current().Config.Host.Timeout.String() != "20s" {
		t.Errorf("%+v, %v, timeout %s", back, err, f.Current().Config.Host.Timeout)
	}
	if _, err := f.Rollback(t.Context(), h.Served[2].ID, "alice"); err != nil || f.Current().Config.Host.Timeout.String() != "10s" {
		t.Errorf("%v, timeout %s", err, f.Current().Config.Host.Timeout)
	}
	if _, err := f.Rollback(t.Context(), 4711, "alice"); err == nil {
		t.Error("an unknown configuration was restored")
	}
	if e := f.audited("(rollback)"); len(e) != 2 || e[0].Principal != "alice" {
		t.Errorf("%+v", e)
	}
	// A refused configuration on the disk is no obstacle.
	f.Configure("nonsense")
	f.reload(Options{})
	if _, err := f.Rollback(t.Context(), 0, "alice"); err != nil || f.ConfigRefusal() != "" || f.Current().Config.Host.Timeout.String() != "10s" {
		t.Errorf("%v, refusal %q, timeout %s", err, f.ConfigRefusal(), f.Current().Config.Host.Timeout)
	}
}

// TestRollbackRaisesPrivileges checks that a rollback needs no approval, because the restored configuration was in use.
func TestRollbackRaisesPrivileges(t *testing.T) {
	d := testbuilder.NewDir(t)
	d.Write("p", "")
	const approve = "reload {\n privilege_increases = \"approve\"\n}\n"
	d.Configure(d.Plugin("p", "sandbox {\n exec = true\n}") + approve)
	f := start(t, d)
	f.Configure(f.Plugin("p", "") + approve)
	if r := f.reload(Options{}); r.Refused() {
		t.Fatalf("%+v", r)
	}
	if out, err := f.Rollback(t.Context(), 0, ""); err != nil || out.Reload.Refused() || f.Current().Plugin("p").Confinement.Exec == nil {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestRestoreDirectory checks that files that the earlier configuration lacked no longer apply.
func TestRestoreDirectory(t *testing.T) {
	d := testbuilder.NewDir(t)
	f := start(t, d)
	path := d.Path + "/conf"
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(path+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	write("a.hcl", "host {\n timeout = \"1s\"\n}\n")
	if err := f.Builder.State.SaveServed(path, &Served{Digest: "first", Files: map[string][]byte{path + "/a.hcl": []byte("first")}}); err != nil {
		t.Fatal(err)
	}
	write("b.hcl", "audit {}\n")
	to, changed, err := Restore(f.Builder.State, path, 0)
	if err != nil || to.Digest != "first" || len(changed) != 2 {
		t.Fatalf("%+v, %q, %v", to, changed, err)
	}
	if text, err := os.ReadFile(path + "/a.hcl"); err != nil || string(text) != "first" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Stat(path + "/b.hcl.rolled-back"); err != nil {
		t.Error(err)
	}
	if _, err := HistoryOf(f.Builder.State, ""); err == nil {
		t.Error("the built-in configuration has a history")
	}
}

// TestReplace checks that the files of another node are applied, and that the earlier ones come back if the host
// refuses them.
func TestReplace(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	shared, err := f.Shared()
	if err != nil || !strings.Contains(string(shared.Text), `plugin "p"`) {
		t.Fatalf("%q, %v", shared.Text, err)
	}
	if err := f.Replace(t.Context(), shared, Options{}); err != nil || f.published != 0 {
		t.Errorf("the same files: %v, %d configurations were published", err, f.published)
	}
	other := func(add string) *SharedFiles {
		return &SharedFiles{Text: append(append([]byte{}, shared.Text...), add...)}
	}
	if err := f.Replace(t.Context(), other("host {\n timeout = \"9s\"\n}\n"), Options{By: "node"}); err != nil || f.Current().Config.Host.Timeout.String() != "9s" {
		t.Errorf("%v, timeout %s", err, f.Current().Config.Host.Timeout)
	}
	good, err := os.ReadFile(f.Config())
	if err != nil {
		t.Fatal(err)
	}
	for add, want := range map[string]string{
		"host {\n speed = 9\n}\n":                             "speed",
		"plugin \"q\" {\n path = \"/nonexistent/q\"\n}\n":     "/nonexistent/q does not exist",
		"permissions {\n allow \"r\" {\n tool = \"x\"\n }\n}": "Unknown tool",
	} {
		before := f.Current().Config.Host.Timeout
		if err := f.Replace(t.Context(), other(add), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", add, err)
		}
		now, err := os.ReadFile(f.Config())
		if err != nil || string(now) != string(good) || f.Current().Config.Host.Timeout != before || f.ConfigRefusal() != "" {
			t.Errorf("%q: the earlier configuration was not restored: %q, %v, refusal %q", add, now, err, f.ConfigRefusal())
		}
	}
	if e := f.audited("(replace configuration)"); len(e) != 4 {
		t.Errorf("%d entries", len(e))
	}
	f.Setup.Source.Path = ""
	if _, err := f.Shared(); err == nil {
		t.Error("the built-in configuration can be shared")
	}
}
