//go:build fakebackend

package admin_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/sandbox"
)

// TestFakeBackend checks all functions that list backends. It does not check the escape tests and the sandbox
// benchmark, because these only use the result of Diagnose.
func TestFakeBackend(t *testing.T) {
	read := func(backend string) (admin.Options, *config.Config) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "toolhost.hcl")
		if err := os.WriteFile(file, []byte("sandbox {\n  backend = \""+backend+"\"\n}\nplugin \"x\" {\n  path = \"/bin/true\"\n}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(file, config.Environment{})
		if err != nil {
			t.Fatal(err)
		}
		return admin.Options{Config: file, StateDir: t.TempDir(), BundledDir: t.TempDir()}, cfg
	}
	opts, fake := read("fake")
	if _, err := admin.Validate(opts); err != nil {
		t.Errorf("the configuration's word: %v", err)
	}
	if !strings.Contains(admin.Reference(), "auto, fake, ns, landlock or none") {
		t.Error("the reference does not have it")
	}
	d, err := admin.Diagnose(opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Backends) == 0 || d.Backends[0].Name != "fake" || !strings.Contains(d.Backends[0].Unusable, "only for tests") {
		t.Errorf("doctor: %+v", d.Backends)
	}
	if d.Plugins[0].Backend == "fake" {
		t.Error("a backend that cannot be used is chosen")
	}
	kernel := &sandbox.Kernel{Launcher: "/l", ABI: 7, Seccomp: true, Namespaces: true}
	if wanted, why := kernel.Fallback(sandbox.Auto); wanted.Name() != "fake" || why == nil || !strings.Contains(why.Error(), "only for tests") {
		t.Errorf("the fallback from the strongest backend: %v, %v", wanted, why)
	}
	if _, why := kernel.Fallback("ns"); why != nil {
		t.Errorf("what was wanted is a fallback: %v", why)
	}
	_, weaker := read("ns")
	if got := privilege.Increases(fake, weaker, nil); !slices.Contains(got, "sandbox.backend was fake and is ns") {
		t.Errorf("the order of privileges: %q", got)
	}
}
